package pump

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// follower starts a replica of the bed's server.
func (b *bed) follower(t *testing.T, interval string, args ...string) *bed {
	t.Helper()
	f := serve(t, pumping(interval, append(store.Following(b.Addr()), args...)...))
	f.Linked()
	b.Online()
	return f
}

// The pump of a replica does nothing, even if the replica is writable. When it is promoted, it returns what is due, and
// does not count leases that expired before, whether the old primary or a script granted them.
func TestReplica(t *testing.T) {
	b := begin(t, "0")
	r := b.follower(t, soon, "--replica-read-only", "no")
	over, ids := b.waiting(50)
	b.put(q, "JOBscript", "active", b.Now())
	b.Must("SELECT 3", "SET "+wire.Identity+" "+wire.Wire6)
	other := b.leased(q, 5, 50)
	b.Must("SELECT 0")
	b.until(over)
	store.InStep(t, b.Conn, r.Conn)
	digest := r.digest()
	r.stoodDown(10)
	require.Equal(t, digest, r.digest())
	require.Equal(t, digest, b.digest())

	b.Crash()
	r.Must("REPLICAOF NO ONE")
	r.moved(append(ids, "JOBscript"))
	r.Must("SELECT 3")
	r.moved(other)
	b.again()
	b.Must("FLUSHALL")
}

// After FAILOVER the old primary's pump stops, and the new one's returns the leases, uncounted.
func TestFailover(t *testing.T) {
	b := begin(t, soon)
	r := b.follower(t, soon)
	_, ids := b.waiting(1500, "FAILOVER TO 127.0.0.1 "+strconv.Itoa(r.Port()))
	store.WaitFor(t, "the hand-over", func() bool { return b.Info("master_failover_state") == "no-failover" })
	require.Equal(t, "slave", b.Info("role"))
	stood := b.stats()["skipped"]
	r.moved(ids)
	store.WaitFor(t, "the old primary to stand down", func() bool { return b.stats()["skipped"] > stood })
	b.Place.Linked()
	store.InStep(t, r.Conn, b.Conn)
}

// A replica without the module follows the pump, byte for byte; so does the append-only file. Each slice of the pump is
// one transaction there.
func TestFollowsThePump(t *testing.T) {
	b := begin(t, soon, "--appendonly", "yes", "--aof-use-rdb-preamble", "no")
	plain := store.Open(t, store.Plain(store.Following(b.Addr())...))
	plain.Linked()
	b.Online()
	p := plain.Conn()
	for i := range 5 {
		q := wire.Queue(fmt.Sprintf("q%d", i))
		ids := b.leased(q, 60, 1)
		for _, id := range ids[:10] {
			b.Do(q.Fail(id, "1", 1, 3, "why")...)
		}
		b.Must("ZADD " + q.Active() + " 1 none")
		b.put(q, "JOBlane", "active", 1, "group", "g")
		b.put(q, "JOBover", "active", b.Now()+1, "stalled", "2")
		b.has(q.Schedule(), 0)
		b.has(q.Active(), 1)
		require.Contains(t, []string{"dead", "pending"}, b.field(q, "JOBover", "state"), "the latter where the machine was slow")
	}
	store.InStep(t, b.Conn, p)
	digest := b.digest()
	b.Must("CONFIG SET emq.pump-interval-ms 0", "DEBUG LOADAOF")
	require.Equal(t, digest, b.digest())
	whole(t, filepath.Join(b.Dir, "appendonlydir"))
	require.NotContains(t, p.Do("INFO", "errorstats"), "errorstat_")
}

// whole asserts that in an append-only file each change of a set is in a transaction, and that each transaction leaves
// every job in exactly one of the sets.
func whole(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.aof"))
	require.NoError(t, err)
	moves := 0
	for _, name := range files {
		f, err := os.Open(name)
		require.NoError(t, err)
		defer f.Close()
		r, within := bufio.NewReader(f), false
		at := map[string]int{} // job → number of sets that it enters less those that it leaves in this transaction
		for {
			args, err := wire.ReadCommand(r)
			if err != nil {
				break
			}
			switch strings.ToUpper(args[0]) {
			case "MULTI":
				within = true
				clear(at)
			case "EXEC":
				within = false
				for job, n := range at {
					require.Zero(t, n, job)
				}
			case "ZREM":
				base, set, _ := strings.Cut(args[1], "}:")
				if set == "pending" || args[2] == "none" {
					continue // that is a claim, or a broken entry
				}
				require.True(t, within, args)
				at[base+args[2]]--
			case "ZADD":
				base, set, _ := strings.Cut(args[1], "}:")
				if _, there := at[base+args[3]]; within && (set == "pending" || set == "dead" || set == "schedule") && there {
					at[base+args[3]]++
					moves++
				}
			}
		}
	}
	require.NotZero(t, moves)
}

// The server is killed at random moments while the pump works: with `appendfsync always` no job is lost, and none is in
// two sets.
func TestKilledWhileDraining(t *testing.T) {
	const n = 4000
	b := begin(t, "0", "--appendonly", "yes", "--appendfsync", "always", "--emq.pump-budget-us", "300")
	dice := rand.New(rand.NewPCG(store.Seed(t), 0))
	b.Options.Args[1] = "1"
	cut := 0
	for range store.Rounds(t, 3, 30) {
		b.Must("CONFIG SET emq.pump-interval-ms 0", "FLUSHALL", "SET "+wire.Identity+" "+wire.Wire6)
		b.backlog(q, n)
		b.Must("CONFIG SET emq.pump-interval-ms 1")
		for {
			some := 1 + dice.IntN(n/2)
			store.WaitFor(t, "some more to be returned", func() bool { return b.stats()["returned"] >= int64(min(some, b.card(q.Active()))) })
			left := b.card(q.Active())
			b.Crash()
			b.again()
			b.Must("MULTI", "ZCARD "+q.Active(), "ZCARD "+q.Pending())
			both := wire.Value(b.Do("EXEC")).([]any)
			require.EqualValues(t, n, both[0].(int64)+both[1].(int64))
			require.Empty(t, b.Keyspace().Check(wire.Wire6))
			if left == 0 {
				break
			}
			cut++
		}
		b.drained(q, n)
	}
	require.NotZero(t, cut, "no drain was cut short")
}

// A panic on one entry stops nothing else: the server goes on, and the other entries of its queue, before and after it,
// are returned, and so are those of other queues.
func TestPanic(t *testing.T) {
	t.Parallel()
	b := serve(t, pumping("0"))
	b.Panics = true
	b.Must("SET " + wire.Identity + " " + wire.Wire6)
	const panicID = "JOB-debug-panic"
	for _, state := range []string{"active", "scheduled"} {
		for i := range 200 {
			id := fmt.Sprintf("JOB%03d", i)
			if i == 100 {
				id = panicID
			}
			b.put(q, id+state[:1], state, int64(1+i/2))
			if i == 100 {
				b.Must("ZREM "+q.Set(state)+" "+id+state[:1], "ZADD "+q.Set(state)+" "+strconv.Itoa(1+i/2)+" "+id)
			}
		}
		b.put("other", "JOB1"+state, state, 1)
	}
	b.Must("CONFIG SET emq.pump-interval-ms 50")
	b.has("emq:{other}:pending", 2)
	b.has(q.Pending(), 398)
	require.Equal(t, []string{panicID}, b.Members(q.Active()))
	require.Equal(t, []string{panicID}, b.Members(q.Schedule()))
	// A walk that panicked does not count.
	s := b.stats()
	require.EqualValues(t, 200, s["promoted"])
	require.EqualValues(t, 200, s["returned"]+s["stalled"])
	// And the pump goes on.
	b.put(q, "JOBlate", "active", 1)
	b.has(q.Pending(), 399)
	require.Contains(t, b.Log(), "panic: the debug trigger was met")
	b.Must("FLUSHALL")
}
