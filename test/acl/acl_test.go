// Package acl answers one question: what can a user with limited rights do? Rights are given per queue: `~emq:{a}:*`
// covers all of queue a and nothing else. The order of the checks and each form of numkeys are in emq/test
// (tenants_test.go).
package acl

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

const (
	mine   = wire.Queue("a")
	theirs = wire.Queue("b")
	noKey  = "-NOPERM No permissions to access a key\r\n"
)

// login creates a user with the rights and returns a connection of that user.
func login(t *testing.T, s *store.Place, name, rights string) *wire.Conn {
	t.Helper()
	wire.Dial(t, s.Socket).Must("ACL SETUSER " + name + " reset on >secret " + rights)
	c := wire.Dial(t, s.Socket)
	c.Must("AUTH " + name + " secret")
	return c
}

// A producer, a worker and a keeper, each with its own verbs on the keys of one queue, do a job's whole life together,
// and none can do another's part.
func TestTrades(t *testing.T) {
	s := store.Serve(t)
	producer := login(t, s, "producer", "+emq.enqueue +emq.schedule +emq.menqueue +emq.mschedule ~emq:{a}:*")
	worker := login(t, s, "worker", "+emq.claim +emq.complete +emq.fail +emq.extend +emq.mclaim +emq.mcomplete +emq.mfail +emq.mextend ~emq:{a}:*")
	keeper := login(t, s, "keeper", "+emq.promote +emq.reap ~emq:{a}:*")
	admin := wire.Dial(t, s.Socket)

	// Claiming the identity of an empty store takes rights on that key; working under it takes none.
	require.Contains(t, producer.Do(mine.Enqueue("JOB1", "x")...), "-EMQFENCE ")
	require.Contains(t, producer.Do(mine.ScheduleAt("JOB1", "x", 1)...), "-EMQFENCE ")
	founder := login(t, s, "founder", "+emq.enqueue +set ~emq:{a}:* ~{emq}:version")
	require.Equal(t, wire.Integer(1), founder.Do(mine.Enqueue("JOB1", "x")...))
	require.Equal(t, wire.Bulk(wire.Wire6), admin.Do("GET", wire.Identity))

	require.Equal(t, wire.Integer(1), producer.Do(mine.Enqueue("JOB2", "x")...))
	require.Equal(t, wire.Claimed("JOB1", "x", 1), worker.Do(mine.Claim(30000)...))
	require.Equal(t, wire.Claimed("JOB2", "x", 1), worker.Do(mine.Claim(30000)...))
	require.Equal(t, wire.Integer(1), worker.Do(mine.Complete("JOB1", "1")...))
	require.Equal(t, wire.Bulk("dead"), worker.Do(mine.Fail("JOB2", "1", 0, 1, "why")...))

	require.Equal(t, wire.Integer(1), producer.Do(mine.ScheduleAt("JOB3", "x", 1)...))
	require.Equal(t, wire.Integer(1), keeper.Do(mine.Promote(10)...))
	require.Equal(t, wire.Claimed("JOB3", "x", 1), worker.Do(mine.Claim(30000)...))
	require.Equal(t, wire.Integer(1), worker.Do(mine.Extend("JOB3", "1", 30000)...))
	require.Equal(t, wire.Integer(0), admin.Do("ZADD", mine.Active(), "1", "JOB3"))
	require.Equal(t, wire.Reaped(nil, []string{"JOB3"}), keeper.Do(mine.Reap(1, 10)...))

	require.Equal(t, wire.Statuses(1, 1), producer.Do(mine.Menqueue("JOB5", "x", "JOB6", "x")...))
	require.Equal(t, wire.Statuses(1), producer.Do(mine.Mschedule("in", "JOB7", "60000", "x")...))
	require.Equal(t, wire.Array(wire.Claimed("JOB5", "x", 1), wire.Claimed("JOB6", "x", 1)), worker.Do(mine.Mclaim(30000, 10)...))
	require.Equal(t, wire.Statuses(1), worker.Do(mine.Mextend(60000, "JOB5", "1")...))
	require.Equal(t, wire.Statuses(1), worker.Do(mine.Mcomplete("JOB5", "1")...))
	require.Equal(t, wire.Statuses(2), worker.Do(mine.Mfail(1, "JOB6", "1", "0", "why")...))

	refused := func(c *wire.Conn, args ...string) { t.Helper(); require.Contains(t, c.Do(args...), "-NOPERM ", args) }
	for _, args := range [][]string{mine.Menqueue("JOB8", "x"), mine.Mschedule("in", "JOB8", "1", "x")} {
		refused(worker, args...)
		refused(keeper, args...)
	}
	for _, args := range [][]string{mine.Mclaim(1, 1), mine.Mcomplete("JOB2", "1"), mine.Mextend(1, "JOB2", "1"), mine.Mfail(1, "JOB2", "1", "0", "why")} {
		refused(producer, args...)
		refused(keeper, args...)
	}
	for _, args := range [][]string{theirs.Mclaim(1, 1), theirs.Mcomplete("JOB1", "1"), theirs.Mextend(1, "JOB1", "1"), theirs.Mfail(1, "JOB1", "1", "0", "why")} {
		require.Equal(t, noKey, worker.Do(args...))
	}
	require.Equal(t, noKey, producer.Do(theirs.Menqueue("JOB1", "x")...))
	require.Equal(t, noKey, producer.Do(theirs.Mschedule("in", "JOB1", "1", "x")...))
	refused(worker, mine.Enqueue("JOB3", "x")...)
	refused(producer, mine.Claim(30000)...)
	refused(producer, mine.Complete("JOB2", "1")...)
	refused(producer, mine.Fail("JOB2", "1", 0, 1, "why")...)
	for _, args := range [][]string{mine.Promote(1), mine.Reap(1, 1), mine.ScheduleIn("JOB4", "x", 1)} {
		refused(worker, args...)
	}
	for _, args := range [][]string{mine.Promote(1), mine.Reap(1, 1), mine.Extend("JOB3", "1", 1)} {
		refused(producer, args...)
	}
	for _, args := range [][]string{mine.Enqueue("JOB4", "x"), mine.ScheduleIn("JOB4", "x", 1), mine.Claim(1), mine.Complete("JOB3", "1"), mine.Extend("JOB3", "1", 1)} {
		refused(keeper, args...)
	}
	for _, c := range []*wire.Conn{producer, worker, keeper} {
		for _, line := range []string{"GET {emq}:version", "SET {emq}:version x", "HGETALL emq:{a}:job:JOB2", "DEL emq:{a}:dead", "KEYS *", "FLUSHALL", "MODULE LIST"} {
			refused(c, wire.Words(line)...)
		}
	}
	for _, args := range [][]string{theirs.Claim(1), theirs.Complete("JOB1", "1"), theirs.Fail("JOB1", "1", 0, 1, "why")} {
		require.Equal(t, noKey, worker.Do(args...))
	}
	require.Equal(t, noKey, worker.Do(theirs.Extend("JOB1", "1", 1)...))
	require.Equal(t, noKey, producer.Do(theirs.Enqueue("JOB1", "x")...))
	require.Equal(t, noKey, producer.Do(theirs.ScheduleIn("JOB1", "x", 1)...))
	require.Equal(t, noKey, keeper.Do(theirs.Promote(1)...))
	require.Equal(t, noKey, keeper.Do(theirs.Reap(1, 1)...))
	require.Empty(t, store.Read(t, admin)[0].Check(wire.Wire6))
}

// Read rights alone suffice for no verb. Write rights alone suffice for all verbs but CLAIM, which hands out stored
// data, and REAP, which names jobs.
func TestHalfOfTheRights(t *testing.T) {
	s := store.Serve(t)
	require.Equal(t, wire.Integer(1), wire.Dial(t, s.Socket).Do(mine.Enqueue("JOB1", "x")...))
	reader, writer := login(t, s, "reader", "+@emq %R~emq:{a}:*"), login(t, s, "writer", "+@emq %W~emq:{a}:*")
	for _, args := range [][]string{mine.Enqueue("JOB2", "x"), mine.Claim(1), mine.Complete("JOB1", "1"), mine.Fail("JOB1", "1", 0, 1, "why"),
		mine.ScheduleIn("JOB2", "x", 1), mine.Extend("JOB1", "1", 1), mine.Promote(1), mine.Reap(1, 1), mine.Menqueue("JOB2", "x"),
		mine.Mschedule("in", "JOB2", "1", "x"), mine.Mclaim(1, 1), mine.Mcomplete("JOB1", "1"), mine.Mextend(1, "JOB1", "1"), mine.Mfail(1, "JOB1", "1", "0", "why")} {
		require.Equal(t, noKey, reader.Do(args...), args)
	}
	require.Equal(t, noKey, writer.Do(mine.Claim(1)...))
	require.Equal(t, noKey, writer.Do(mine.Mclaim(1, 1)...))
	require.Equal(t, wire.Statuses(0), writer.Do(mine.Menqueue("JOB1", "x")...))
	require.Equal(t, wire.Statuses(0), writer.Do(mine.Mschedule("in", "JOB1", "1", "x")...))
	require.Equal(t, wire.Statuses(-1), writer.Do(mine.Mcomplete("JOB1", "1")...))
	require.Equal(t, wire.Statuses(-1), writer.Do(mine.Mextend(1, "JOB1", "1")...))
	require.Equal(t, wire.Statuses(-1), writer.Do(mine.Mfail(1, "JOB1", "1", "0", "why")...))
	require.Equal(t, wire.Integer(1), writer.Do(mine.Enqueue("JOB2", "x")...))
	require.Equal(t, wire.Stale("complete"), writer.Do(mine.Complete("JOB1", "1")...))
	require.Equal(t, wire.Stale("retry"), writer.Do(mine.Fail("JOB1", "1", 0, 1, "why")...))
	require.Equal(t, noKey, writer.Do(mine.Reap(1, 1)...))
	require.Equal(t, wire.Stale("extend"), writer.Do(mine.Extend("JOB1", "1", 1)...))
	require.Equal(t, wire.Integer(1), writer.Do(mine.ScheduleAt("JOB3", "x", 1)...))
	require.Equal(t, wire.Integer(1), writer.Do(mine.Promote(1)...))
}

// The verbs about a whole queue declare its base, so the same pattern covers them: read rights suffice for STATS, AUDIT
// needs both. The pattern for a queue whose name has special characters, escaped, covers only that queue.
func TestWholeQueue(t *testing.T) {
	s := store.Serve(t)
	admin := wire.Dial(t, s.Socket)
	require.Equal(t, wire.Integer(1), admin.Do(mine.Enqueue("JOB1", "x")...))
	require.Equal(t, wire.Integer(1), admin.Do(theirs.Enqueue("JOB1", "x")...))
	reader, writer := login(t, s, "reader", "+@emq %R~emq:{a}:*"), login(t, s, "writer", "+@emq %W~emq:{a}:*")
	both, one := login(t, s, "both", "+@emq ~emq:{a}:*"), login(t, s, "one", "+@emq ~emq:{a}:pending ~emq:{a}:active")
	clean := wire.Array(wire.Bulk("active:0"), wire.Empty)
	for _, c := range []*wire.Conn{reader, both} {
		require.Contains(t, c.Do(mine.Stats()...), "pending\r\n:1\r\n")
	}
	for _, c := range []*wire.Conn{writer, one} {
		require.Equal(t, noKey, c.Do(mine.Stats()...))
	}
	for _, args := range [][]string{mine.Audit("0", 10), mine.Fix("0", 10)} {
		for _, c := range []*wire.Conn{reader, writer, one} {
			require.Equal(t, noKey, c.Do(args...))
		}
		require.Equal(t, clean, both.Do(args...))
	}
	for _, c := range []*wire.Conn{reader, writer, both, one} {
		for _, args := range [][]string{theirs.Stats(), theirs.Audit("rows:0", 10), theirs.Fix("rows:0", 10), {"EMQ.STATS", "emq:{*}:"}, {"EMQ.AUDIT", "", "0", "10"}} {
			require.Equal(t, noKey, c.Do(args...), args)
		}
		require.Contains(t, c.Do("SCAN", "0"), "-NOPERM ", "what AUDIT scans with is no right of the user's")
	}
}

// TestAssault lets a tenant try every verb with every argument that might reach another tenant's queue, directly and from a
// script: the other's data stay the same, to the byte, and the tenant's own stay sound.
func TestAssault(t *testing.T) {
	s := store.Serve(t)
	admin := wire.Dial(t, s.Socket)
	for i := range 4 {
		id := "JOB" + strconv.Itoa(i)
		require.Equal(t, wire.Integer(1), admin.Do(theirs.Enqueue(id, "theirs")...))
	}
	for i := range 2 {
		require.Equal(t, wire.Claimed("JOB"+strconv.Itoa(i), "theirs", 1), admin.Do(theirs.Claim(1<<40)...))
	}
	require.Equal(t, wire.Bulk("scheduled"), admin.Do(theirs.Fail("JOB0", "1", 1<<40, 2, "why")...))
	// What a sweep of their queue would take: an expired lease and a due job.
	require.Equal(t, wire.Integer(0), admin.Do("ZADD", theirs.Active(), "1", "JOB1"))
	require.Equal(t, wire.Integer(0), admin.Do("ZADD", theirs.Schedule(), "1", "JOB0"))
	before := store.Read(t, admin)[0]
	require.Len(t, before, 8)

	tenant := login(t, s, "tenant", "+@emq +eval ~emq:{a}:*")
	dice := rand.New(rand.NewPCG(store.Seed(t), 0))
	seen := map[string]int{}
	for range store.Histories(t, 40, 1000, seen, ":1", ":0", ":-1", "*3", "*0", "*2", "-NOPERM", "-EMQKEY", "-EMQKIND", "-ERR", "-EMQSTALE") {
		batch := make([][]string, 500)
		for i := range batch {
			batch[i] = assault(dice)
			if dice.IntN(4) == 0 {
				batch[i] = append([]string{"EVAL", "return redis.call(unpack(ARGV))", "0"}, batch[i]...)
			}
		}
		for i, reply := range tenant.Pipeline(batch) {
			seen[strings.Fields(reply)[0]]++
			for _, key := range keys(batch[i]) { // a request that names a key of the other tenant is refused
				if q, _, ok := wire.Split(key); ok && q == theirs {
					require.True(t, wire.IsError(reply), "%s: %q", wire.Line(batch[i]), reply)
				}
			}
		}
		after := store.Read(t, admin)[0]
		require.Empty(t, after.Check(wire.Wire6))
		// Each history begins without jobs of the tenant, because little can happen in a queue where all jobs are dead.
		for key := range after {
			if strings.HasPrefix(key, mine.Base()) {
				require.Equal(t, wire.Integer(1), admin.Do("DEL", key))
				delete(after, key)
			}
		}
		require.Empty(t, before.Diff(after))
	}
}

// keys are the words of a request at the positions of its verb's keys.
func keys(args []string) []string {
	if args[0] == "EVAL" {
		args = args[3:]
	}
	if strings.HasPrefix(args[0], "EMQ.M") { // the base
		return args[min(1, len(args)):min(2, len(args))]
	}
	n := map[string]int{"EMQ.FAIL": 4, "EMQ.REAP": 3}[args[0]]
	return args[min(2, len(args)):min(2+max(n, 2), len(args))]
}

// assault is a valid request in which some words were replaced by others that might reach elsewhere.
func assault(dice *rand.Rand) []string {
	pick := func(list ...string) string { return list[dice.IntN(len(list))] }
	id, token := "JOB"+strconv.Itoa(dice.IntN(5)), strconv.Itoa(1+dice.IntN(2))
	args := [][]string{
		mine.Enqueue(id, "mine"), mine.Claim(1 << 40), mine.Complete(id, token), mine.Fail(id, token, 0, 3, "why"),
		mine.Claim(1), mine.ScheduleAt(id, "mine", 1), mine.Extend(id, token, 1<<40), mine.Promote(10), mine.Reap(2, 10),
		mine.Menqueue(id, "mine", id, "mine"), mine.Mschedule("at", id, "1", "mine"), mine.Mclaim(1, 3), mine.Mcomplete(id, token, id, token),
		mine.Mextend(1<<40, id, token), mine.Mfail(3, id, token, "0", "why"),
	}[dice.IntN(15)]
	for range dice.IntN(4) {
		at := 1 + dice.IntN(len(args)-1)
		switch word := args[at]; dice.IntN(8) {
		case 0, 1: // the same, of the other queue
			word = strings.Replace(word, mine.Base(), theirs.Base(), 1)
			args[at] = word
		case 2: // a name that is both
			args[at] = pick("emq:{a}:{b}:pending", "emq:{a}{b}:active", "emq:{a}:job:JOB1\x00emq:{b}:job:JOB1", "emq:{a}:*", "emq:{}:pending", "emq:{a}:pending ")
		case 3:
			args[at] = pick(wire.Identity, theirs.Row(id), theirs.Pending(), theirs.Active(), theirs.Base(), theirs.RowPrefix())
		case 4: // a count that says another number of keys
			args[1] = pick("0", "1", "2", "3", "4", "5", "-1", "02", "+2", " 2", "2\x00", "4294967298", "")
		case 5:
			args[at] = pick("", "JOB", "XYZ", "JOB1}:{b", "\xff", "-1", "9007199254740993")
		case 6:
			args = args[:at+1]
		case 7:
			args = append(args, theirs.Row(id))
		}
		if len(args) < 2 {
			return args
		}
	}
	return args
}
