package faults

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// failoverClient finds the primary through the Sentinels, and does not retry by itself.
func failoverClient(t *testing.T, addresses []string) *redis.Client {
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: store.Group, SentinelAddrs: addresses, Protocol: 2, DisableIdentity: true,
		MaxRetries: -1, DialerRetries: 1, PoolSize: 1000, ReadTimeout: wire.Patience, WriteTimeout: wire.Patience, PoolTimeout: wire.Patience,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// The primary is killed under load. The Sentinels promote the replica, the clients find it by themselves and go on, and
// what WAIT 1 has confirmed is kept: no job lost, none done twice, no token granted twice. A job that was claimed on
// the old primary is completed on the new one with its token. The old one comes back as a replica, for the next round.
func TestSentinel(t *testing.T) {
	rounds := store.Rounds(t, 1, 5)
	settings := []string{"--repl-backlog-size", "64mb"}
	primary, replica, addresses, watchers := store.Watched(t, store.Module, store.Module, settings...)
	client := failoverClient(t, addresses)
	c := newCrowd(t, "Sentinel failover, WAIT 1", client)
	c.confirm = true
	dice := rand.New(rand.NewPCG(c.seed, 0))
	for round := range rounds {
		c.start(20, 20)
		c.more(t, 500+dice.IntN(2000))
		// A claim that outlives its primary.
		held, q := fmt.Sprintf("JOBheld%d", round), wire.Queue("held")
		old := primary.Conn()
		require.Equal(t, wire.Integer(1), old.Do(q.Enqueue(held, "x")...))
		require.Equal(t, wire.Claimed(held, "x", 1), old.Do(q.Claim(maxClaim)...))
		granted := old.Info("run_id")
		require.Equal(t, wire.Integer(1), old.Do("WAIT", "1", "0"))

		primary.Crash()
		store.Agree(t, watchers, replica)
		r := replica.Conn() // not earlier: the promotion closes older connections
		completed := r.Do("HGET", c.q.Completed(), "count")
		store.WaitFor(t, "the workers to find it", func() bool { return r.Do("HGET", c.q.Completed(), "count") != completed })
		c.stop()
		c.round(t, replica.Keyspace(), c.copy())

		require.Equal(t, wire.Bulk(granted), r.Do("HGET", q.Row(held), "lease_epoch"))
		require.Equal(t, wire.Stale("complete"), r.Do(q.Complete(held, "2")...))
		require.Equal(t, wire.Integer(1), r.Do(q.Complete(held, "1")...))

		// The old one comes back in the role with which it was started; the Sentinels correct that.
		primary, replica = replica, primary
		replica.Options.Args = settings
		replica.Start()
		primary.Online()
		store.Agree(t, watchers, primary)
	}
	require.NotZero(t, c.doubt, "no client was interrupted")
	c.drain()
	c.end(t, primary.Keyspace())
	store.InStep(t, primary.Conn(), replica.Conn())
}

// The leases of a primary that dies expire on the server that the Sentinels promote: its pump returns the jobs, and
// counts no lease as lost.
func TestPumpAfterSentinel(t *testing.T) {
	const jobs = 1000
	primary, replica, _, watchers := store.Watched(t, store.Module, store.Pumped)
	p, q := primary.Conn(), wire.Queue("q")
	var commands [][]string
	for i := range jobs {
		commands = append(commands, q.Enqueue(fmt.Sprintf("JOB%04d", i), "x"), q.Claim(100))
	}
	for i, reply := range p.Pipeline(commands) {
		require.False(t, wire.IsError(reply), commands[i])
	}
	require.Equal(t, wire.Bulk("scheduled"), p.Do(q.Fail("JOB0000", "1", 100, 3, "why")...))
	require.Equal(t, wire.Integer(1), p.Do("WAIT", "1", "0"))
	primary.Crash()
	store.Agree(t, watchers, replica)
	r := replica.Conn()
	store.WaitFor(t, "the pump", func() bool { return r.Do("ZCARD", q.Pending()) == wire.Integer(jobs) })
	for i := range jobs {
		require.Equal(t, wire.Array(wire.Bulk("pending"), wire.Bulk("1"), wire.Nil), r.Do("HMGET", q.Row(fmt.Sprintf("JOB%04d", i)), "state", "attempts", "stalled"))
	}
	require.Empty(t, replica.Keyspace().Check(wire.Wire6))
	primary.Start() // so that its end can be checked
}
