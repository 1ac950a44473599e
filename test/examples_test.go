package test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/test/wire"
)

// TestWorkerDies does what the README shows: a worker is killed in the middle of a job, and the job returns by itself and is
// completed. Only the workers talk to the server.
func TestWorkerDies(t *testing.T) {
	program := built(t, "../examples/worker")
	o := withModule("--emq.pump-interval-ms", "50")
	o.Still = false
	st := start(t, o).fresh(t)
	q := queue("mail")
	st.Do(q.Enqueue("JOB00000000001", "to: ann")...)

	first := run(t, program, "-addr", st.s.Addr(), "-lease", "500ms", "-work", "1h")
	require.Equal(t, "1", first.await(t, `claimed JOB00000000001 with token (\d+)`))
	require.NoError(t, first.Process.Kill())
	_ = first.Wait() // it was killed

	second := run(t, program, "-addr", st.s.Addr(), "-lease", "500ms", "-work", "1s")
	require.Equal(t, "2", second.await(t, `claimed JOB00000000001 with token (\d+)`))
	second.await(t, `completed (JOB00000000001)`)
	st.reply(":0\r\n", "EXISTS "+q.Row("JOB00000000001"))
}

// TestWorkerStops asks a worker to stop: while it waits, while it works, and when it has been granted a job but has not
// read the reply yet. It stops at once, and no job has to wait for a lease to expire.
func TestWorkerStops(t *testing.T) {
	path := built(t, "../examples/worker")
	st := open(t)
	q, id := queue("mail"), "JOB00000000001"
	stop := func(worker *program) {
		t.Helper()
		require.NoError(t, worker.Process.Signal(os.Interrupt))
		_, _ = io.Copy(io.Discard, worker.out)
		require.NoError(t, worker.Wait())
		require.Empty(t, worker.problems.String())
		require.Equal(t, "0", st.Info("emq_waiting_clients"))
	}
	begin := func() *program {
		t.Helper()
		worker := run(t, path, "-addr", st.s.Addr(), "-lease", "1h", "-work", "1h", "-block", "1h")
		worker.await(t, "waits for (jobs)")
		return worker
	}
	waits := func() {
		t.Helper()
		waitFor(t, "a worker to wait", func() bool { return st.Info("emq_waiting_clients") == "1" })
	}

	idle := begin()
	waits()
	stop(idle)

	busy := begin()
	st.Do(q.Enqueue(id, "to: ann")...)
	busy.await(t, `claimed JOB00000000001 with token (1)`)
	stop(busy)
	st.reply(wire.Array(wire.Bulk("pending"), wire.Bulk("1"), wire.Nil), "HMGET "+q.Row(id)+" state attempts failures")

	st.Must("DEL " + q.Row(id) + " " + q.Pending())
	late := begin()
	waits()
	require.NoError(t, late.Process.Signal(syscall.SIGSTOP))
	st.Do(q.Enqueue(id, "to: ann")...)
	require.NoError(t, late.Process.Signal(os.Interrupt))
	require.NoError(t, late.Process.Signal(syscall.SIGCONT))
	stop(late)
	st.reply(wire.Array(wire.Bulk("pending"), wire.Bulk("1"), wire.Nil), "HMGET "+q.Row(id)+" state attempts failures")
}

// TestExample runs the example of docs/protocol.md and compares the output with what the page shows.
func TestExample(t *testing.T) {
	st := open(t)
	out, err := exec.Command(built(t, "../examples/goredis"), "-addr", st.s.Addr()).CombinedOutput()
	require.NoError(t, err, "%s", out)
	page, err := os.ReadFile("../docs/protocol.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "\n$ go run ./examples/goredis\n"+string(out)+"```\n")
}

// TestDemo runs the demo, which starts its own server and checks its own counts.
func TestDemo(t *testing.T) {
	out, err := exec.Command(built(t, "../cmd/emq"), "demo", "--jobs", "300").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "Every job is accounted for.")
}

// built is a program of this project, built.
func built(t *testing.T, dir string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), filepath.Base(dir))
	out, err := exec.Command("go", "-C", dir, "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// program is a child process whose output is read as it comes.
type program struct {
	*exec.Cmd
	out      io.Reader
	lines    *bufio.Scanner
	problems *strings.Builder // what it wrote to the standard error
}

func run(t *testing.T, name string, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // a missing job fails the test instead of hanging it
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var problems strings.Builder
	cmd.Stderr = &problems
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // a second time, for some
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	return &program{cmd, out, bufio.NewScanner(out), &problems}
}

// await reads until a line matches, and returns what the pattern captured.
func (p *program) await(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for p.lines.Scan() {
		if found := re.FindStringSubmatch(p.lines.Text()); found != nil {
			return found[1]
		}
	}
	require.Fail(t, "the program ended without a line that matches", pattern)
	return ""
}
