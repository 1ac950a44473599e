package clients

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/wire"
)

// Runs the page's recipes unchanged.
func TestRecipes(t *testing.T) {
	page, err := os.ReadFile("../../docs/protocol.md")
	require.NoError(t, err)
	for _, of := range []struct {
		client, language, before, after string
		argv                            []string
	}{
		{"redis-py 4.3", "python", "import redis\nid, db = %q, redis.Redis(host=%q, port=%s)\n", "", []string{"/usr/bin/python3", "-c"}},
		{"node-redis 6.3", "js", "import { createClient } from 'redis';\nconst id = %q, db = await createClient({ socket: { host: %q, port: %s } }).connect();\n",
			"process.exit(0);", []string{"node", "--input-type=module", "-e"}},
	} {
		t.Run(of.client, func(t *testing.T) {
			programs[of.client].need(t, of.client)
			recipe := regexp.MustCompile("(?s)```" + of.language + "\n(.*?)```").FindStringSubmatch(string(page))
			require.NotNil(t, recipe)
			s, c := serve(t, "")
			host, port, err := net.SplitHostPort(s.Addr())
			require.NoError(t, err)
			cmd := exec.Command(of.argv[0], append(of.argv[1:], fmt.Sprintf(of.before, first, host, port)+recipe[1]+of.after)...)
			cmd.Dir = "testdata/node" // for its libraries
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Equal(t, "1", c.Info("emq_bclaim_claimed"))
			require.Equal(t, wire.Bulk("1"), c.Do("HGET", mail.Completed(), "count"))
		})
	}
}
