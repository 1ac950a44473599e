package faults

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"emq/test/link"
	"emq/test/store"
	"emq/test/wire"
)

// While writes are paused no verb is executed, from a client or from a script, and nothing changes; afterwards the
// clients that were held back get their replies.
func TestPause(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			rounds := store.Rounds(t, 2, 20)
			s := store.Open(t, way.server("--appendonly", "yes"))
			c := newCrowd(t, "CLIENT PAUSE WRITE, "+way.name, dial(t, "unix", s.Socket))
			c.pumped = way.pumped
			admin := s.Conn()
			state := func() string { return admin.Do("DEBUG", "DIGEST") + admin.Info("master_repl_offset") }
			c.start(20, 20)
			for range rounds {
				c.more(t, 500)
				admin.Must("CLIENT PAUSE 600000 WRITE")
				paused := state()
				store.WaitFor(t, "clients that wait", func() bool { return number(t, admin, "blocked_clients") >= 10 })
				require.Equal(t, paused, state())
				admin.Must("CLIENT UNPAUSE")
				c.rounds++
			}
			c.more(t, 500)
			c.drain()
			c.end(t, s.Keyspace())
		})
	}
}

// FAILOVER hands the queue over under load, back and forth: nothing acknowledged is lost, whichever server acknowledged
// it, and the new primary and its pump continue where the old one was.
func TestFailover(t *testing.T) {
	rounds := store.Rounds(t, 2, 20)
	settings := []string{"--repl-backlog-size", "64mb", "--propagation-error-behavior", "panic"}
	pumped := ways[1]
	primary := store.Open(t, pumped.server(settings...))
	replica := store.Open(t, pumped.server(append(store.Following(primary.Addr()), settings...)...))
	replica.Linked()
	primary.Online()
	clients := map[*store.Place]redis.UniversalClient{primary: dial(t, "unix", primary.Socket), replica: dial(t, "unix", replica.Socket)}
	c := newCrowd(t, "FAILOVER TO under load", clients[primary])
	c.pumped = pumped.pumped
	dice := rand.New(rand.NewPCG(c.seed, 0))
	for range rounds {
		c.start(20, 20)
		c.more(t, 200+dice.IntN(1500))
		admin := primary.Conn()
		// The replica's link is up a moment before the primary counts it as online.
		store.WaitFor(t, "the replica to be online", func() bool { return strings.Contains(admin.Do("INFO", "replication"), "state=online") })
		admin.Must("FAILOVER TO 127.0.0.1 " + strconv.Itoa(replica.Port()))
		store.WaitFor(t, "the hand-over", func() bool { return admin.Info("master_failover_state") == "no-failover" })
		require.Equal(t, "slave", admin.Info("role"))
		c.use(clients[replica])
		c.more(t, 500)
		c.stop()
		primary, replica = replica, primary
		replica.Linked()
		primary.Online()
		now := primary.Conn()
		now.Must("CONFIG SET emq.pump-interval-ms 0")
		store.InStep(t, now, replica.Conn())
		now.Must("CONFIG SET emq.pump-interval-ms 10")
		c.round(t, primary.Keyspace(), c.copy())
	}
	c.drain()
	c.end(t, primary.Keyspace())
}

// A lease survives the failover: its holder settles the job on the new primary with its token, and nobody else can. The
// row still names the server that granted the lease.
func TestLeaseCrossesOver(t *testing.T) {
	primary := store.Open(t, store.Module())
	replica := store.Open(t, store.Module(store.Following(primary.Addr())...))
	replica.Linked()
	p, r, q := primary.Conn(), replica.Conn(), wire.Queue("q")
	for _, id := range []string{"JOB1", "JOB2", "JOB3"} {
		require.Equal(t, wire.Integer(1), p.Do(q.Enqueue(id, "x")...))
		require.Equal(t, wire.Claimed(id, "x", 1), p.Do(q.Claim(maxClaim)...))
	}
	require.Equal(t, wire.Integer(1), p.Do(q.Complete("JOB1", "1")...))
	granted := p.Info("run_id")
	store.InStep(t, p, r)
	primary.Crash()
	r.Must("REPLICAOF NO ONE")
	require.Equal(t, wire.Bulk(granted), r.Do("HGET", q.Row("JOB2"), "lease_epoch"))
	require.NotEqual(t, granted, r.Info("run_id"))
	require.Equal(t, wire.Integer(0), r.Do(q.Complete("JOB1", "1")...), "settled before")
	require.Equal(t, wire.Stale("complete"), r.Do(q.Complete("JOB2", "2")...))
	require.Equal(t, wire.Integer(1), r.Do(q.Complete("JOB2", "1")...))
	require.Equal(t, wire.Bulk("dead"), r.Do(q.Fail("JOB3", "1", 0, 1, "why")...))
	primary.Start() // so that its end can be checked
}

// maxClaim is a lease that outlasts every test.
const maxClaim = 1 << 40

// Writes that WAIT has not confirmed are lost when the primary dies, and the new primary may grant the same token
// again. The row of such a claim names another server; of two holders of the same token only one can complete the job.
func TestWhatWaitBuys(t *testing.T) {
	primary := store.Open(t, store.Module())
	l := link.New(t, primary.Addr())
	replica := store.Open(t, store.Module(store.Following(l.Address())...))
	replica.Linked()
	p, r, q := primary.Conn(), replica.Conn(), wire.Queue("q")
	require.Equal(t, wire.Integer(1), p.Do(q.Enqueue("JOB1", "x")...))
	require.Equal(t, wire.Integer(1), p.Do("WAIT", "1", "0"))
	l.Cut()
	require.Equal(t, wire.Integer(1), p.Do(q.Enqueue("JOB2", "x")...))
	require.Equal(t, wire.Claimed("JOB1", "x", 1), p.Do(q.Claim(maxClaim)...))
	require.Equal(t, wire.Integer(0), p.Do("WAIT", "1", "50"), "a client that waits learns of it")
	oldEpoch := p.Do("HGET", q.Row("JOB1"), "lease_epoch")

	primary.Crash()
	r.Must("REPLICAOF NO ONE")
	require.Equal(t, wire.Integer(0), r.Do("EXISTS", q.Row("JOB2")), "what nobody confirmed is gone")
	require.Equal(t, wire.Claimed("JOB1", "x", 1), r.Do(q.Claim(maxClaim)...), "the same token once more")
	require.NotEqual(t, oldEpoch, r.Do("HGET", q.Row("JOB1"), "lease_epoch"))
	require.Equal(t, wire.Integer(1), r.Do(q.Complete("JOB1", "1")...), "one of the two holders")
	require.Equal(t, wire.Integer(0), r.Do(q.Complete("JOB1", "1")...), "the other")
	primary.Start()
}

// A crash loses everything without persistence, everything since the snapshot with one, and nothing with the
// append-only file and appendfsync always.
func TestWhatTheDiskBuys(t *testing.T) {
	q := wire.Queue("q")
	for _, tt := range []struct {
		name     string
		settings []string
		left     []string
	}{
		{"nothing", nil, []string{}},
		{"a snapshot", []string{"--save", "100000 1"}, []string{"JOB1"}},
		{"fsync always", synced, []string{"JOB1", "JOB2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := store.Open(t, store.Module(tt.settings...))
			c := s.Conn()
			require.Equal(t, wire.Integer(1), c.Do(q.Enqueue("JOB1", "x")...))
			if tt.name == "a snapshot" {
				c.Must("SAVE")
			}
			require.Equal(t, wire.Integer(1), c.Do(q.Enqueue("JOB2", "x")...))
			s.Crash()
			s.Start()
			var want strings.Builder
			for _, id := range tt.left {
				want.WriteString(wire.Bulk(id))
			}
			require.Equal(t, "*"+strconv.Itoa(len(tt.left))+"\r\n"+want.String(), s.Conn().Do("ZRANGE", q.Pending(), "0", "-1"))
		})
	}
}

// A producer that got no reply may repeat its ENQUEUE safely while the job exists; a job that was completed meanwhile
// is created again.
func TestEnqueueAgain(t *testing.T) {
	s := store.Open(t, store.Module())
	c, q := s.Conn(), wire.Queue("q")
	require.Equal(t, wire.Integer(1), c.Do(q.Enqueue("JOB1", "x")...))
	require.Equal(t, wire.Integer(0), c.Do(q.Enqueue("JOB1", "x")...))
	require.Equal(t, wire.Claimed("JOB1", "x", 1), c.Do(q.Claim(maxClaim)...))
	require.Equal(t, wire.Integer(0), c.Do(q.Enqueue("JOB1", "x")...))
	require.Equal(t, wire.Integer(1), c.Do(q.Complete("JOB1", "1")...))
	require.Equal(t, wire.Integer(0), c.Do(q.Complete("JOB1", "1")...), "to complete again is safe")
	require.Equal(t, wire.Integer(1), c.Do(q.Enqueue("JOB1", "x")...))
	require.Equal(t, wire.Claimed("JOB1", "x", 1), c.Do(q.Claim(maxClaim)...), "a new life, with tokens of its own")
}
