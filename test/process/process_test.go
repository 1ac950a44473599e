// Package process answers one question: what does the module do to the server's process? It runs for long, with the
// server's own threads and signals, and as a daemon. Crashes, forked children and loading are tested in emq/test
// (load_test.go, debug_test.go).
package process

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

var q = wire.Queue("q")

// serve starts a server with the debug build, which may panic.
func serve(t *testing.T, args ...string) *store.Place {
	t.Helper()
	p := store.Open(t, store.Debug(args...))
	p.Panics = true
	return p
}

// life is the state of a server's process at one moment: Go's view of its runtime, and the kernel's of the process.
type life struct{ goroutines, numgc, mallocs, threads, rssKiB int }

func (l life) String() string {
	return fmt.Sprintf("RSS %d KiB, %d threads, %d goroutines, %d collections, %d mallocs", l.rssKiB, l.threads, l.goroutines, l.numgc, l.mallocs)
}

func lifeOf(t *testing.T, s *store.Place, c *wire.Conn) (l life) {
	t.Helper()
	list := wire.Value(c.Do("EMQ.DEBUG", "RUNTIME")).([]any)
	for i := 0; i+1 < len(list); i += 2 {
		for name, to := range map[string]*int{"goroutines": &l.goroutines, "numgc": &l.numgc, "mallocs": &l.mallocs, "threads": &l.threads} {
			if list[i] == name {
				*to = int(list[i+1].(int64))
			}
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Pid()))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	l.rssKiB, err = strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return l
}

// cycle is the life of some jobs, with cycleVerbs commands for each, and the replies. The store is the same before and
// after.
func cycle(jobs int) (commands [][]string, replies []string) {
	add := func(reply string, command []string) {
		commands, replies = append(commands, command), append(replies, reply)
	}
	for i := range jobs {
		id := fmt.Sprintf("JOB%05d", i)
		add(wire.Integer(1), q.Enqueue(id, "payload"))
		add(wire.Integer(0), q.Enqueue(id, "payload"))
		add(wire.Claimed(id, "payload", 1), q.Claim(30000))
		add(wire.Empty, q.Claim(30000))
		add(wire.Stale("complete"), q.Complete(id, "2"))
		add(wire.Bulk("scheduled"), q.Fail(id, "1", 0, 2, "why"))
		add(wire.Stale("retry"), q.Fail(id, "1", 0, 2, "why"))
		add(wire.Integer(1), q.Promote(10))
		add(wire.Integer(0), q.Promote(10))
		add(wire.Claimed(id, "payload", 2), q.Claim(30000))
		add(wire.Integer(1), q.Extend(id, "2", 60000))
		add(wire.Stale("extend"), q.Extend(id, "1", 60000))
		add(wire.Reaped(nil, nil), q.Reap(1, 10))
		add("", []string{"ZADD", q.Active(), "1", id})
		add(wire.Reaped([]string{id}, nil), q.Reap(2, 10))
		add(wire.Integer(1), q.Complete(id, "2"))
		add(wire.Integer(0), q.Complete(id, "2"))
		add(wire.Integer(-1), q.Extend(id, "2", 60000))
		add(wire.Integer(1), q.ScheduleAt(id, "payload", 1))
		add(wire.Integer(0), q.ScheduleIn(id, "payload", 1))
		add(wire.Integer(1), q.Promote(10))
		add(wire.Claimed(id, "payload", 1), q.Claim(30000))
		add("", []string{"ZADD", q.Active(), "1", id})
		add(wire.Reaped(nil, []string{id}), q.Reap(1, 10))
		add("", []string{"ZREM", q.Dead(), id})
		add("", []string{"DEL", q.Row(id)})
	}
	return commands, replies
}

const cycleVerbs = 22

// Millions of commands leave the process unchanged: its memory, its threads, its one goroutine, no garbage collection,
// and not one Go allocation for a command.
func TestSoak(t *testing.T) {
	const jobs, looks = 200, 5
	total := store.Rounds(t, 1, 50) * 100_000
	s := serve(t)
	c := wire.Dial(t, s.Socket)
	commands, replies := cycle(jobs)
	soak := func(n int) {
		for done := 0; done < n; done += cycleVerbs * jobs {
			for i, reply := range c.Pipeline(commands) {
				if replies[i] != "" && replies[i] != reply {
					require.Equal(t, replies[i], reply, wire.Line(commands[i]))
				}
			}
		}
	}
	soak(20_000) // buffers and the server's own tables find their size
	begin := lifeOf(t, s, c)
	price := lifeOf(t, s, c).mallocs - begin.mallocs // the allocations of lifeOf itself
	t.Logf("at first: %s", begin)
	for i := range looks {
		soak(total / looks)
		at := lifeOf(t, s, c)
		t.Logf("after %d: %s", total/looks*(i+1), at)
		require.Equal(t, 1, at.goroutines)
		require.Equal(t, 0, at.numgc)
		require.LessOrEqual(t, at.threads, begin.threads+1, "threads")
		require.Less(t, at.rssKiB, begin.rssKiB+4096, "KiB resident")
		require.Less(t, at.mallocs-begin.mallocs, (i+3)*price+1000, "allocations of Go's")
	}
}

// The server's watchdog interrupts slow commands, on the signal stack that Go makes the server use: it logs a report,
// and the server goes on. The slow command is a script of many verbs.
func TestWatchdog(t *testing.T) {
	s := serve(t)
	c := wire.Dial(t, s.Socket)
	require.Equal(t, wire.Integer(1), c.Do(q.Enqueue("JOB1", "x")...))
	c.Must("CONFIG SET watchdog-period 200")
	reports := func() int { return strings.Count(s.Log(), "WATCHDOG TIMER EXPIRED") }
	script := `local t = redis.call('TIME') repeat redis.call(unpack(ARGV)) local n = redis.call('TIME')
		until n[1] * 1000 + n[2] / 1000 > t[1] * 1000 + t[2] / 1000 + 700 return 1`
	for round := range store.Rounds(t, 2, 10) {
		require.Equal(t, wire.Integer(1), c.Do(append([]string{"EVAL", script, "0"}, q.Enqueue("JOB1", "x")...)...))
		require.Greater(t, reports(), round)
		require.Equal(t, "+PONG\r\n", c.Do("PING"))
	}
	c.Must("CONFIG SET watchdog-period 0")
	require.Equal(t, wire.Claimed("JOB1", "x", 1), c.Do(q.Claim(1000)...))
}

// With I/O threads, commands still run only on the main thread, and a save under load succeeds.
func TestIOThreads(t *testing.T) {
	s := serve(t, "--io-threads", "3", "--io-threads-do-reads", "yes", "--events-per-io-thread", "0")
	c := wire.Dial(t, s.Socket)
	done := make(chan string)
	const clients = 8
	for i := range clients {
		go func() { // queues of their own, so that each knows its replies
			n, err := net.Dial("unix", s.Socket)
			if err != nil {
				done <- err.Error()
				return
			}
			defer n.Close()
			mine := wire.Queue(fmt.Sprintf("q%d", i))
			var commands [][]string
			var want bytes.Buffer
			for j := range 200 {
				id := fmt.Sprintf("JOB%05d", j)
				commands = append(commands, mine.Enqueue(id, "x"), mine.Claim(30000), mine.Complete(id, "1"))
				want.WriteString(wire.Integer(1) + wire.Claimed(id, "x", 1) + wire.Integer(1))
			}
			request, got := []byte(wire.Encode(commands...)), make([]byte, want.Len())
			for range 20 {
				go func() { _, _ = n.Write(request) }()
				_ = n.SetReadDeadline(time.Now().Add(wire.Patience))
				if err := fill(n, got); err != nil || !bytes.Equal(got, want.Bytes()) {
					done <- fmt.Sprintf("%v: %q", err, got)
					return
				}
			}
			done <- ""
		}()
	}
	c.Must("BGSAVE")
	for range clients {
		require.Empty(t, <-done)
	}
	store.WaitFor(t, "the save", func() bool { return c.Info("rdb_bgsave_in_progress") == "0" })
	require.Equal(t, "ok", c.Info("rdb_last_bgsave_status"))
	require.Equal(t, 1, lifeOf(t, s, c).goroutines)
}

func fill(n net.Conn, b []byte) error {
	for len(b) > 0 {
		got, err := n.Read(b)
		if err != nil {
			return err
		}
		b = b[got:]
	}
	return nil
}

// When crash-log-enabled is switched off and on, the server installs its signal handlers again, over Go's. The module
// must not depend on Go's handlers: commands go on, and a panic is still an error and no crash.
func TestHandlersPutInPlaceAnew(t *testing.T) {
	s := serve(t)
	c := wire.Dial(t, s.Socket)
	c.Must("CONFIG SET crash-log-enabled no", "CONFIG SET crash-log-enabled yes")
	commands, replies := cycle(200)
	for i, reply := range c.Pipeline(commands) {
		if replies[i] != "" {
			require.Equal(t, replies[i], reply)
		}
	}
	require.Contains(t, c.Do(q.Enqueue("JOB-debug-panic", "x")...), "-ERR internal error")
	require.Equal(t, wire.Integer(1), c.Do(q.Enqueue("JOB1", "x")...))
}

// A daemon has no standard streams, so the text of a panic must be in the server's log; and the daemon goes on.
func TestPanicInADaemon(t *testing.T) {
	dir, err := os.MkdirTemp("", "emq")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, pidFile, logFile := filepath.Join(dir, "s"), filepath.Join(dir, "pid"), filepath.Join(dir, "log")
	out, err := exec.Command(os.Getenv("VALKEY_SERVER"), "--port", "0", "--unixsocket", socket, "--dir", dir, "--pidfile", pidFile,
		"--logfile", logFile, "--daemonize", "yes", "--save", "", "--loadmodule", os.Getenv("EMQ_MODULE_DEBUG")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	store.WaitFor(t, "the daemon", func() bool {
		n, err := net.Dial("unix", socket)
		if err == nil {
			_ = n.Close()
		}
		return err == nil
	})
	text, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	gone := func() bool { return syscall.Kill(pid, 0) != nil }
	t.Cleanup(func() {
		_ = syscall.Kill(pid, syscall.SIGTERM)
		store.WaitFor(t, "the daemon's end", gone)
	})
	c := wire.Dial(t, socket)
	for range 3 {
		require.Contains(t, c.Do(q.Enqueue("JOB-debug-panic", "x")...), "-ERR internal error")
		require.Equal(t, "+PONG\r\n", c.Do("PING"))
	}
	log, err := os.ReadFile(logFile)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(log), "panic: the debug trigger was met"))
	require.Contains(t, string(log), "goroutine ", "the stack")
}

// Two builds in two folders, with separate caches, give identical files. It takes minutes: for `make proof`.
func TestTwoBuildsAreOne(t *testing.T) {
	if os.Getenv("EMQ_PROOF") == "" {
		t.Skip("only in make proof")
	}
	files := make([][]byte, 2)
	for i := range files {
		dir := t.TempDir()
		out, err := exec.Command("cp", "-r", "../../module", "../../commands", "../../fence", "../../lease", "../../go.mod", "../../go.sum", dir).CombinedOutput()
		require.NoError(t, err, "%s", out)
		so := filepath.Join(dir, "emq.so")
		build := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false",
			"-ldflags=-buildid= -extldflags '-Wl,--version-script="+dir+"/module/emq.map'", "-o", so, "./module")
		build.Dir = dir
		build.Env = append(os.Environ(), "CGO_ENABLED=1", "GOCACHE="+filepath.Join(dir, "cache"))
		out, err = build.CombinedOutput()
		require.NoError(t, err, "%s", out)
		files[i], err = os.ReadFile(so)
		require.NoError(t, err)
	}
	require.True(t, bytes.Equal(files[0], files[1]), "the builds differ")
}
