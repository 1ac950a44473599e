package faults

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
)

// waiting waits until n of the workers wait for a job.
func (c *crowd) waiting(t testing.TB, s *store.Place, n int) {
	t.Helper()
	admin := s.Conn()
	defer admin.Close()
	c.until(t, "workers that wait", func() bool { return number(t, admin, "emq_waiting_clients") >= n })
}

// As TestKill, with workers that wait in the server: while jobs are handed over, and while all workers wait.
func TestKillWaiting(t *testing.T) {
	const workers = 50
	rounds := store.Rounds(t, 4, 50)
	s := store.Open(t, ways[1].server(synced...))
	c := newCrowd(t, "kill -9, workers that wait", dial(t, "unix", s.Socket))
	c.pumped, c.waits = true, true
	dice := rand.New(rand.NewPCG(c.seed, 0))
	for range rounds {
		c.start(4, workers)
		c.more(t, 100+dice.IntN(1000))
		if c.rounds%2 == 1 {
			c.stop()
			c.start(0, workers)
			c.waiting(t, s, workers)
		}
		s.Crash()
		c.moreOf(t, &c.doubt, 1, "clients that were interrupted")
		c.again(t, s)
	}
	c.drain()
	c.end(t, s.Keyspace())
}

// As TestSentinel: the primary is killed while its workers wait. They find the new primary, wait there, and get the
// jobs that come.
func TestSentinelWaiting(t *testing.T) {
	const workers = 50
	settings := []string{"--repl-backlog-size", "64mb"}
	primary, replica, addresses, watchers := store.Watched(t, store.Module, store.Module, settings...)
	client := failoverClient(t, addresses)
	c := newCrowd(t, "Sentinel failover, workers that wait", client)
	c.confirm, c.waits = true, true
	c.start(4, workers)
	c.more(t, 1000)
	c.stop()
	c.start(0, workers)
	c.waiting(t, primary, workers)
	primary.Crash()
	store.Agree(t, watchers, replica)
	// No replica is left, so each worker spends most of its time in WAIT, and not all are in BCLAIM at once.
	admin := replica.Conn()
	defer admin.Close()
	c.until(t, "workers that waited", func() bool { return number(t, admin, "emq_bclaim_timed_out") >= 2*workers })
	c.waiting(t, replica, 1)
	c.stop()
	c.round(t, replica.Keyspace(), c.copy())
	require.NotZero(t, c.doubt, "no client was interrupted")

	// The old one comes back as a replica that can confirm writes.
	primary.Options.Args = settings
	primary.Start()
	replica.Online()
	store.Agree(t, watchers, replica)
	c.start(4, workers)
	c.more(t, 1000)
	c.drain()
	c.end(t, replica.Keyspace())
}
