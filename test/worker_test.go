package test

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWorkerDies holds what the README shows: a worker is killed in the middle of a job, and the job comes back by
// itself and ends. Nobody but the worker speaks to the server.
func TestWorkerDies(t *testing.T) {
	program := filepath.Join(t.TempDir(), "worker")
	out, err := exec.Command("go", "build", "-o", program, "../examples/worker").CombinedOutput()
	require.NoError(t, err, "%s", out)

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

// program is a child process whose output is read as it comes.
type program struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func run(t *testing.T, name string, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // a job that stays away is a failure, no hang
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // a second time, for some
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	return &program{cmd, bufio.NewScanner(out)}
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
