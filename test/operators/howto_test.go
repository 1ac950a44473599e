package operators

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/page"
	"emq/test/store"
	"emq/test/wire"
)

// TestHowTo follows docs/howto.md from top to bottom, as the operator of docs/operations.md with a producer's and a
// worker's rights in addition: each command prints what the page says.
func TestHowTo(t *testing.T) {
	s := store.Open(t, store.Pumped("--emq.pump-interval-ms", "50"))
	c := s.Conn()
	text, err := os.ReadFile(operations)
	require.NoError(t, err)
	for _, role := range []string{"operator", "worker", "producer"} {
		rights := regexp.MustCompile(`(?m)^ACL SETUSER ` + role + ` (on >secret .*)$`).FindStringSubmatch(string(text))
		require.NotNil(t, rights, "the page makes no %s", role)
		c.Must("ACL SETUSER howto " + strings.ReplaceAll(rights[1], "{mail}", "{*}"))
	}
	dir := t.TempDir()
	terminal(t, s, dir, "howto")
	for _, block := range page.Commands(t, "../../docs/howto.md") {
		if strings.HasPrefix(block[0].Line, "cd ") { // dead letters to requeue
			buried(t, c, "bulk", 8000, func(i int) string {
				if i%8 < 5 {
					return "smtp: timeout\nafter 30 s"
				}
				return "no such mailbox"
			})
		}
		page.Follow(t, dir, block, "valkey-cli", dir+"/valkey-cli")
	}
	require.Empty(t, s.Keyspace().Check(wire.Wire6))
}

// terminal puts a valkey-cli into a folder that connects to the server as a user, and prints to a file as it would to a
// terminal.
func terminal(t *testing.T, s *store.Place, dir, user string) {
	t.Helper()
	script := fmt.Sprintf("#!/bin/bash\n[[ $(readlink /proc/$$/fd/1) != */out.* ]] || set -- --no-raw \"$@\"\nexec '%s/valkey-cli' -s '%s' --user %s --pass secret --no-auth-warning \"$@\"\n",
		store.Tools(t), s.Socket, user)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "valkey-cli"), []byte(script), 0o755))
}

// buried makes a queue of dead letters, each with its error.
func buried(t *testing.T, c *wire.Conn, q wire.Queue, n int, why func(i int) string) {
	t.Helper()
	var commands [][]string
	for i := range n {
		id := fmt.Sprintf("JOB%011d", i)
		commands = append(commands, q.Enqueue(id, "x"), q.Claim(1<<40), q.Fail(id, "1", 0, 1, why(i)))
	}
	for i, reply := range c.Pipeline(commands) {
		require.False(t, wire.IsError(reply), "%s: %s", commands[i], reply)
	}
}
