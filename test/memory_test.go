package test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const oom = "OOM command not allowed when used memory > 'maxmemory'"

// full is a store with a held job and a pending one, on a server that has no memory left.
func full(t *testing.T, s *server) *fixture {
	st := s.fresh(t)
	st.put(good, "JOB1", "active", "attempts", "1")
	st.put(good, "JOB2", "pending", "attempts", "0")
	st.Must("CONFIG SET maxmemory 1")
	t.Cleanup(func() { st.Must("CONFIG SET maxmemory 0") })
	return st
}

// When memory is full, no new job is accepted, but the existing ones can be processed.
func TestOutOfMemory(t *testing.T) {
	s := witnessed(t)
	t.Run("enqueue", func(t *testing.T) {
		st := full(t, s)
		st.refused(oom, good.Enqueue("JOB3", "x")...)
		st.refused(oom, good.Enqueue("JOB1", "x")...) // also where it would do nothing
	})
	t.Run("schedule", func(t *testing.T) {
		st := full(t, s)
		st.refused(oom, good.ScheduleIn("JOB3", "x", 1)...)
		st.refused(oom, good.ScheduleAt("JOB1", "x", 1)...)
	})
	t.Run("extend, promote and reap", func(t *testing.T) {
		st := full(t, s)
		st.Must("CONFIG SET maxmemory 0")
		st.put(good, "JOB3", "scheduled", "attempts", "1")
		st.lapse(good, "JOB3")
		st.Must("CONFIG SET maxmemory 1")
		require.Equal(t, integer(1), st.Do(good.Extend("JOB1", "1", 1000)...))
		require.Equal(t, integer(1), st.Do(good.Promote(10)...))
		st.Must("CONFIG SET maxmemory 0")
		st.lapse(good, "JOB1")
		st.Must("CONFIG SET maxmemory 1")
		require.Equal(t, reaped(nil, []string{"JOB1"}), st.Do(good.Reap(1, 10)...))
		require.Equal(t, []string{"JOB2", "JOB3"}, st.Members(good.Pending()))
	})
	t.Run("claim, complete and fail", func(t *testing.T) {
		st := full(t, s)
		require.Equal(t, integer(1), st.Do(good.Complete("JOB1", "1")...))
		require.Equal(t, "1", st.take(good, "JOB2"))
		require.Equal(t, bulk("scheduled"), st.Do(good.Fail("JOB2", "1", 0, 2, "why")...))
		require.Equal(t, empty, st.Do(good.Claim(1000)...))
	})
}

// In a transaction Valkey's own rule applies: a command flagged deny-oom is refused when it is queued, and so is the
// transaction; a transaction without such a command runs.
func TestOutOfMemoryInTransaction(t *testing.T) {
	s := start(t, withModule())
	t.Run("with enqueue", func(t *testing.T) {
		st := full(t, s)
		st.Must("MULTI")
		require.Equal(t, "+QUEUED\r\n", st.Do(good.Complete("JOB1", "1")...))
		st.refusal(oom, good.Enqueue("JOB3", "x")...)
		st.refusal("EXECABORT ", "EXEC")
		require.Equal(t, "active", st.row(good, "JOB1")["state"])
	})
	t.Run("with schedule", func(t *testing.T) {
		st := full(t, s)
		st.Must("MULTI")
		st.refusal(oom, good.ScheduleIn("JOB3", "x", 1000)...)
		st.refusal("EXECABORT ", "EXEC")
	})
	t.Run("queued before memory ran out", func(t *testing.T) {
		st := s.fresh(t)
		st.Must("MULTI")
		require.Equal(t, "+QUEUED\r\n", st.Do(good.Enqueue("JOB3", "x")...))
		other := s.dial(t)
		require.Equal(t, "+OK\r\n", other.Do("CONFIG", "SET", "maxmemory", "1"))
		t.Cleanup(func() { st.Must("CONFIG SET maxmemory 0") })
		st.refusal("EXECABORT ", "EXEC")
		require.Contains(t, st.lastReply, "used memory")
		st.reply(integer(0), "EXISTS emq:{q}:job:JOB3")
	})
	t.Run("without enqueue", func(t *testing.T) {
		st := full(t, s)
		st.Must("MULTI")
		require.Equal(t, "+QUEUED\r\n", st.Do(good.Complete("JOB1", "1")...))
		require.Equal(t, "+QUEUED\r\n", st.Do(good.Claim(1000)...))
		require.Equal(t, "+QUEUED\r\n", st.Do(good.Extend("JOB2", "1", 1000)...))
		require.Equal(t, "+QUEUED\r\n", st.Do(good.Promote(10)...))
		require.Equal(t, "+QUEUED\r\n", st.Do(good.Reap(1, 10)...))
		require.Equal(t, array(integer(1), claimed("JOB2", "x", 1), integer(1), integer(0), reaped(nil, nil)), st.Do("EXEC"))
	})
}

// In a script Valkey's own rules apply: a script without flags runs, and a deny-oom command in it is refused unless the
// script has written before; a script with flags is refused as a whole, unless it has allow-oom.
func TestOutOfMemoryInScript(t *testing.T) {
	s := start(t, withModule())
	eval := func(st *fixture, script string, args []string) string {
		return st.Do(append([]string{"EVAL", script, "0"}, args...)...)
	}
	refused := func(t *testing.T, reply string) {
		t.Helper()
		require.True(t, strings.HasPrefix(reply, "-OOM "), "%q", reply)
	}
	const plain = "return redis.call(unpack(ARGV))"
	t.Run("enqueue", func(t *testing.T) {
		st := full(t, s)
		refused(t, eval(st, plain, good.Enqueue("JOB3", "x")))
		refused(t, eval(st, plain, good.ScheduleIn("JOB3", "x", 1000)))
	})
	t.Run("the others", func(t *testing.T) {
		st := full(t, s)
		require.Equal(t, integer(1), eval(st, plain, good.Complete("JOB1", "1")))
		require.Equal(t, claimed("JOB2", "x", 1), eval(st, plain, good.Claim(1000)))
		require.Equal(t, integer(1), eval(st, plain, good.Extend("JOB2", "1", 1000)))
		require.Equal(t, integer(0), eval(st, plain, good.Promote(10)))
		require.Equal(t, reaped(nil, nil), eval(st, plain, good.Reap(1, 10)))
		require.Equal(t, bulk("dead"), eval(st, plain, good.Fail("JOB2", "1", 0, 1, "why")))
	})
	t.Run("enqueue after a write", func(t *testing.T) {
		st := full(t, s)
		reply := eval(st, "redis.call('DEL','emq:{q}:pending') redis.call('DEL','emq:{q}:job:JOB2') "+plain, good.Enqueue("JOB3", "x"))
		require.Equal(t, integer(1), reply)
	})
	t.Run("enqueue after a write, without an identity", func(t *testing.T) {
		st := full(t, s)
		reply := eval(st, "redis.call('DEL','{emq}:version') "+plain, good.Enqueue("JOB3", "x"))
		require.Equal(t, integer(1), reply)
		st.reply(bulk(wire6), "GET {emq}:version")
	})
	t.Run("a declared script", func(t *testing.T) {
		st := full(t, s)
		refused(t, eval(st, "#!lua\n"+plain, good.Complete("JOB1", "1")))
	})
	t.Run("a declared script that allows it", func(t *testing.T) {
		st := full(t, s)
		require.Equal(t, integer(1), eval(st, "#!lua flags=allow-oom\n"+plain, good.Enqueue("JOB3", "x")))
	})
}

// usedEmpty empties the server and returns the memory that it then uses.
func (st *fixture) usedEmpty() int64 {
	st.t.Helper()
	waitFor(st.t, "other connections' buffers to be gone", func() bool { return st.Info("connected_clients") == "1" })
	st.Must("FLUSHALL SYNC", "MEMORY PURGE", "SET {emq}:version "+wire6)
	n, err := strconv.ParseInt(st.Info("used_memory"), 10, 64)
	require.NoError(st.t, err)
	return n
}

// No verb leaks memory: after many commands of every kind, with names and payloads that need their own allocations, an
// empty server uses no more memory than before.
func TestMemoryIsGivenBack(t *testing.T) {
	s := start(t, withModule())
	st := s.fresh(t)
	st.Heard = nil
	q := queue("q" + strings.Repeat("x", 300)) // names that fit into no small buffer
	rounds := func(n int) {
		for i := range n {
			a, b, c, d, e := fmt.Sprintf("JOBa%d", i), fmt.Sprintf("JOBb%d", i), fmt.Sprintf("JOBc%d", i), fmt.Sprintf("JOBd%d", i), fmt.Sprintf("JOBe%d", i)
			replies := st.Pipeline([][]string{
				{"DEL", identity},
				q.Enqueue(a, "payload"), q.Enqueue(a, "payload"), q.Enqueue("XYZ", "payload"), with(q.Enqueue(a, "x"), 3, "other"),
				{"ZADD", q.Pending(), "0", b, "0", "ABC"}, {"HSET", q.Row(b), "state", "pending"},
				q.Claim(30000), q.Complete(a, "2"), q.Fail(a, "1", 1000, 2, "why"), q.Fail(a, "1", 1000, 2, "why"), q.Claim(0),
				q.Enqueue(c, "payload"), q.Claim(30000), q.Complete(c, "1"), q.Complete(c, "1"), q.Claim(30000),

				q.ScheduleAt(d, "payload", 1), q.ScheduleIn(d, "payload", 1), q.ScheduleIn("XYZ", "payload", 1),
				with(q.ScheduleIn(d, "x", 1), 6, strings.Repeat("x", 300)),
				q.ScheduleAt(e, "payload", 2), {"HSET", q.Row(e), "group", "g"}, {"ZADD", q.Schedule(), "3", b, "4", "ABC", "5", d + "x"},
				q.ScheduleAt(c, "payload", 6), q.Promote(100), q.Promote(100), q.Promote(0),
				q.Claim(30000), q.Extend(c, "1", 30000), q.Extend(c, "2", 30000), q.Extend(d+"x", "1", 30000), q.Claim(30000),
				{"ZADD", q.Active(), "1", c, "2", d, "3", b, "4", "ABC", "5", e}, q.Reap(1, 1), q.Reap(2, 100), q.Reap(2, 100),
				{"DEL", q.Row(a), q.Row(b), q.Row(c), q.Row(d), q.Row(e), q.Active(), q.Pending(), q.Schedule(), q.Dead()},
			})
			require.Equal(t, []string{integer(1), integer(2), reaped(nil, []string{c}), reaped([]string{d}, nil)},
				[]string{replies[17], replies[25], replies[34], replies[35]})
			require.Equal(t, []string{integer(1), integer(1), bulk("scheduled"), integer(1)}, []string{replies[0], replies[1], replies[9], replies[14]})
		}
	}
	rounds(500)
	before := st.usedEmpty()
	rounds(10_000)
	require.Less(t, st.usedEmpty()-before, int64(128<<10), "bytes kept after 10,000 rounds")
}
