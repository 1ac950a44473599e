package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// A pair is upgraded under load as docs/operations.md says, back and forth: the replica is restarted, and
// examples/handover.sh makes it the primary in agreement with the Sentinels. Clients that follow the Sentinels, with
// go-redis' default settings, see no error at all; nothing acknowledged is lost, although nobody waited for replicas.
func TestHandover(t *testing.T) {
	rounds := store.Rounds(t, 1, 10)
	settings := []string{"--repl-backlog-size", "64mb"}
	pumped := ways[1]
	primary, replica, addresses, watchers := store.Watched(t, pumped.server, pumped.server, settings...)
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: store.Group, SentinelAddrs: addresses, Protocol: 2, DisableIdentity: true, PoolSize: 1000})
	t.Cleanup(func() { _ = client.Close() })
	c := newCrowd(t, "handover.sh under Sentinels", client)
	c.pumped = pumped.pumped
	c.start(20, 20)
	for range rounds {
		c.more(t, 1000)
		require.NoError(t, replica.Stop())
		o := pumped.server(append(store.Following(primary.Addr()), settings...)...)
		o.Dir, o.Port = replica.Options.Dir, replica.Options.Port
		replica.Options = o
		replica.Start()
		replica.Linked()
		primary.Online()
		out, err := handOver(t, watchers[0])
		require.NoError(t, err, "%s", out)
		require.Contains(t, out, fmt.Sprintf("%s: 127.0.0.1 %d is a replica of 127.0.0.1 %d now", store.Group, primary.Port(), replica.Port()))
		t.Logf("%s", out)
		primary, replica = replica, primary
		c.more(t, 1000)
		primary.Online()
		store.Agree(t, watchers, primary)
		c.rounds++
	}
	c.stop()
	require.Zero(t, c.doubt, "calls that came to an error")
	c.drain()
	c.end(t, primary.Keyspace())
	require.Zero(t, c.doubt, "calls that came to an error")
	store.InStep(t, primary.Conn(), replica.Conn())
}

// A replica that does not receive the primary's writes is not promoted: the script gives up, and the primary goes on.
func TestHandoverComesToNothing(t *testing.T) {
	primary, replica, _, watchers := store.Watched(t, store.Module, store.Module)
	require.NoError(t, replica.Signal(syscall.SIGSTOP))
	q := wire.Queue("q")
	require.Equal(t, wire.Integer(1), primary.Conn().Do(q.Enqueue("JOB1", "x")...))
	out, err := handOver(t, watchers[0])
	require.NoError(t, replica.Signal(syscall.SIGCONT))
	require.Error(t, err)
	require.NotContains(t, out, "another primary", "it asked for a failover")
	require.Equal(t, wire.Integer(1), primary.Conn().Do(q.Enqueue("JOB2", "x")...))
	store.Agree(t, watchers, primary)
	store.InStep(t, primary.Conn(), replica.Conn())
}

// handOver runs the script and returns what it printed.
func handOver(t *testing.T, sentinel *store.Place) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wire.Patience)
	defer cancel()
	sh := exec.CommandContext(ctx, "../../examples/handover.sh", "127.0.0.1", strconv.Itoa(sentinel.Port()), store.Group)
	sh.Env = append(os.Environ(), "PATH="+store.Tools(t)+":"+os.Getenv("PATH"))
	out, err := sh.CombinedOutput()
	return string(out), err
}
