package test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// A transaction in the append-only file that was cut in the middle of a command is not executed at the next start. But
// Valkey 8 truncates the file after the last whole command, within the transaction, and appends there, so the next
// start finds a transaction that ends elsewhere or never. The test follows docs/operations.md: what is lost, and what
// helps.
func TestTornBlock(t *testing.T) {
	for _, tt := range []struct {
		name  string
		verb  []string
		at    string   // the command of the block that is cut
		found []string // by an audit at the second start of a server that left the block open
		jobs  int      // that wait then
	}{
		{"ENQUEUE at HSET", good.Enqueue("JOB2", "x"), "HSET", nil, 2},
		{"ENQUEUE at ZADD", good.Enqueue("JOB2", "x"), "ZADD", []string{"no-set JOB2 rows pending 1"}, 3},
		{"ENQUEUE at EXEC", good.Enqueue("JOB2", "x"), "EXEC", nil, 3},
		{"CLAIM at HSET", good.Claim(maxTime), "HSET", []string{"no-set JOB1 rows pending 1"}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Run("single writes follow", func(t *testing.T) {
				p, st := torn(t, tt.verb, tt.at).first(t)
				st.Must("SET single x")
				left := st.leavesBlocksOpen()
				st = again(t, p)
				if left {
					st.reply(integer(0), "EXISTS single")
				} else {
					st.reply(bulk("x"), "GET single")
				}
				require.Empty(t, p.Keyspace().Check("echomq:6.0.0"))
			})
			t.Run("a block follows", func(t *testing.T) {
				p, st := torn(t, tt.verb, tt.at).first(t)
				st.Must("SET single x")
				require.Equal(t, integer(1), st.Do(good.Enqueue("JOB3", "x")...))
				left := st.leavesBlocksOpen()
				st = again(t, p)
				st.reply(bulk("x"), "GET single")
				found := st.audit(good, 100, true)
				if left {
					require.Equal(t, tt.found, found)
					st.reply(integer(int64(tt.jobs)), "ZCARD "+good.Pending())
				} else {
					require.Empty(t, found)
					st.reply(integer(2), "ZCARD "+good.Pending())
				}
				require.Empty(t, p.Keyspace().Check("echomq:6.0.0"), "the audit has put it right")
			})
			t.Run("the file is written anew", func(t *testing.T) {
				p, st := torn(t, tt.verb, tt.at).first(t)
				st.rewrite()
				followedWhole(t, p, st)
			})
			t.Run("the file is mended first", func(t *testing.T) {
				f := torn(t, tt.verb, tt.at)
				f.mend(t)
				f.Options.Args = append(f.Options.Args, "--aof-load-truncated", "no") // it would refuse a truncated file
				p, st := f.first(t)
				followedWhole(t, p, st)
			})
		})
	}
}

// tornFile is a stopped server whose file ends within a transaction.
type tornFile struct{ *server }

// torn makes a server write a verb's transaction as the last one, and cuts the file in the middle of one of its
// commands, as a kill or a full disk does during the write.
func torn(t *testing.T, verb []string, command string) tornFile {
	t.Helper()
	s := start(t, withModule("--appendonly", "yes", "--appendfsync", "always"))
	st := s.attachPlain(t)
	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
	require.False(t, wire.IsError(st.Do(verb...)))
	s.Crash()
	f := tornFile{s}
	text, err := os.ReadFile(f.appended(t))
	require.NoError(t, err)
	cut := bytes.LastIndex(text, []byte("\r\n"+command+"\r\n"))
	require.Greater(t, cut, bytes.LastIndex(text, []byte("MULTI")))
	require.NoError(t, os.Truncate(f.appended(t), int64(cut+4)))
	return f
}

// appended is the file that the server appends to.
func (f tornFile) appended(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(f.Dir, "appendonlydir", "*.incr.aof"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	return files[0]
}

// mend truncates the file before the transaction with the server's own tool.
func (f tornFile) mend(t *testing.T) {
	t.Helper()
	check := exec.Command(filepath.Join(store.Tools(t), "valkey-check-aof"), "--fix", f.appended(t))
	check.Stdin = strings.NewReader("y\n")
	out, err := check.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "Successfully truncated AOF")
}

// first starts the server on the file: it has all that was acknowledged before the verb, and nothing of the verb.
func (f tornFile) first(t *testing.T) (*store.Place, *fixture) {
	t.Helper()
	f.Start()
	require.Equal(t, store.Keyspace{
		"{emq}:version":    store.String("echomq:6.0.0"),
		"emq:{q}:job:JOB1": store.Hash{"state": "pending", "attempts": "0", "payload": "x"},
		"emq:{q}:pending":  store.ZSet{"JOB1": 0},
	}, f.Keyspace())
	return f.Place, f.attachPlain(t)
}

// again kills the server and starts it once more.
func again(t *testing.T, p *store.Place) *fixture {
	t.Helper()
	p.Crash()
	p.Start()
	return (&server{Place: p}).attachPlain(t)
}

// followedWhole asserts that a restart restores what is written from now on, and nothing else.
func followedWhole(t *testing.T, p *store.Place, st *fixture) {
	t.Helper()
	st.Must("SET single x")
	want := p.Keyspace()
	st = again(t, p)
	require.Equal(t, want, p.Keyspace())
	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB3", "x")...))
	want = p.Keyspace()
	st = again(t, p)
	require.Equal(t, want, p.Keyspace())
	require.Empty(t, st.audit(good, 100, false))
}

// leavesBlocksOpen reports whether the server truncates a torn transaction after its last whole command, not before its
// MULTI.
func (st *fixture) leavesBlocksOpen() bool { return strings.HasPrefix(st.Info("valkey_version"), "8.") }

// rewrite makes the server rewrite its append-only file, and waits for that.
func (st *fixture) rewrite() {
	st.t.Helper()
	st.Must("BGREWRITEAOF")
	waitFor(st.t, "the rewrite", func() bool {
		return st.Info("aof_rewrite_in_progress") == "0" && st.Info("aof_rewrite_scheduled") == "0"
	})
}
