package clients

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// TestBenchmark checks what docs/protocol.md says about the numbers that valkey-benchmark generates.
func TestBenchmark(t *testing.T) {
	s, c := serve(t, "")
	bench := func(number string) string {
		t.Helper()
		q := wire.Queue("load")
		id := "JOB" + number
		out, err := exec.Command(filepath.Join(store.Tools(t), "valkey-benchmark"), append([]string{
			"-s", s.Socket, "-n", "50", "-c", "1", "-r", "100000000",
		}, q.Enqueue(id, "x")...)...).CombinedOutput()
		if err != nil {
			require.Contains(t, string(out), "EMQKEY")
		}
		return c.Info("emq_enqueue_enqueued")
	}
	require.Equal(t, "0", bench("__rand_int__"))
	require.NotEqual(t, "0", c.Info("emq_enqueue_key"), "the row's name did not end in the id")
	if main := c.Info("valkey_version")[:1]; main == "8" {
		t.Skip("the benchmark of Valkey 8 has no other numbers")
	}
	require.NotEqual(t, "0", bench("__rand_1st__"))
}
