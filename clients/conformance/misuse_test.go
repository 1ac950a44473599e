package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// scripted runs a test with the clients of Python and Node, each with the ending of its programs' names.
func scripted(t *testing.T, each func(t *testing.T, c client, ending string)) {
	for _, c := range clients(t) {
		ending := map[string]string{"/usr/bin/python3": ".py", "node": ".mjs"}[c.argv[0]]
		if ending == "" || strings.HasSuffix(c.name, "asyncio") { // one program has both sides
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			c.need(t)
			t.Parallel()
			each(t, c, ending)
		})
	}
}

// testdata is one of the programs, as the file of a project.
func testdata(t *testing.T, file string) map[string]string {
	text, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	return map[string]string{file: string(text)}
}

// What a newcomer gets wrong is refused with words that help, and costs no job.
func TestMisuse(t *testing.T) {
	scripted(t, func(t *testing.T, c client, ending string) {
		newProject(t, c, testdata(t, "misuse"+ending)).run("misuse" + ending)
	})
}

// Who sends a second signal does not want to wait for the grace. One that follows at once is the same, sent again by a runner.
func TestSecondSignal(t *testing.T) {
	scripted(t, func(t *testing.T, c client, ending string) {
		p := newProject(t, c, testdata(t, "hang"+ending))
		conn := p.server.Conn()
		waiting := func() any { return wire.Value(conn.Do(queue.Stats()...)).([]any)[19] }
		worker := p.start("hang" + ending)
		store.WaitFor(t, "the handler to hang, and a claim to wait", func() bool {
			return strings.Contains(worker.String(), "begun") && waiting() == int64(1)
		})
		require.NoError(t, worker.cmd.Process.Signal(syscall.SIGINT))
		store.WaitFor(t, "the claim to end", func() bool { return waiting() == int64(0) })
		ended := make(chan struct{})
		go func() { defer close(ended); _ = worker.cmd.Wait() }()
		store.WaitFor(t, "the process to end", func() bool {
			_ = worker.cmd.Process.Signal(syscall.SIGINT)
			select {
			case <-ended:
				return true
			default:
				return false
			}
		})
		require.Equal(t, syscall.SIGINT, worker.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(), "%s", worker)
	})
}
