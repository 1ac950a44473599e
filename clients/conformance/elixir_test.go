package conformance

import (
	"context"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// The executor for Elixir does what the seeds' EchoMQ.Jobs asks of one.
func TestElixir(t *testing.T) {
	if _, err := exec.LookPath("elixir"); err != nil {
		require.NotEqual(t, "all", os.Getenv("EMQ_CLIENTS"), err.Error())
		t.Skipf("not here (tools/clients.sh installs it): %s", err)
	}
	s := store.Open(t, store.Module())
	run := func() string {
		host, port, err := net.SplitHostPort(s.Addr())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, "elixir", "-r", "native.ex", "demo.exs", host, port)
		cmd.Dir = "../../examples/elixir"
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "ELIXIR_ERL_OPTIONS=+fnu")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	require.Equal(t, `enqueue: {:ok, :enqueued}
enqueue: {:ok, :duplicate}
enqueue: {:ok, :enqueued}
enqueue: {:ok, :enqueued}
claim: {"JOB00000000001", <<255, 0, 13, 10>>, 1}
complete, with another's token: {:error, {:server, "EMQSTALE complete token mismatch"}}
complete: {:ok, 1}
claim: {"JOB00000000002", 100000, 1}
fail: {:ok, "scheduled"}
claim: {"JOB00000000003", "", 1}
complete: {:ok, 1}
claim: {:ok, []}
`, run())
	c := s.Conn()
	require.Equal(t, wire.Bulk("2"), c.Do("HGET", queue.Completed(), "count"))
	require.Equal(t, wire.Bulk("mailbox full"), c.Do("HGET", queue.Row("JOB00000000002"), "last_error"))
}
