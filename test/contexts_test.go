package test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/wire"
)

// The verbs inside a transaction: all of it is one unit, and refusals do not stop the rest.
func TestInTransaction(t *testing.T) {
	s := witnessed(t)
	st := s.bare(t)
	commands := [][]string{
		good.Enqueue("JOB1", "x"), good.Enqueue("JOB1", "x"), good.Enqueue("XYZ", "x"), good.Claim(30000),
		good.Complete("JOB1", "2"), good.Fail("JOB1", "1", 1000, 1, "why"), good.Claim(30000), good.Complete("JOB2", "1"),
	}
	o := st.observe(func() {
		st.Must("MULTI")
		for _, args := range commands {
			require.Equal(t, "+QUEUED\r\n", st.Do(args...))
		}
		require.Equal(t, array(integer(1), integer(0), "-EMQKIND job id must be JOB-namespaced\r\n", claimed("JOB1", "x", 1),
			stale("complete"), bulk("dead"), empty, integer(0)), st.Do("EXEC"))
	})
	st.streamed(o, atomically(
		"SET {emq}:version echomq:6.0.0 NX", rowPending, addPending,
		zremPending, "HSET emq:{q}:job:JOB1 state active attempts 1 lease_epoch RUN", grantAndKeep,
		zremActive, "HSET emq:{q}:job:JOB1 state dead failures 1 last_error why", "HDEL emq:{q}:job:JOB1 lease_epoch",
		"ZADD emq:{q}:dead 0 JOB1", countDead,
	))

	st = s.bare(t)
	o = st.observe(func() {
		st.Must("MULTI")
		for _, args := range [][]string{
			good.Promote(10), good.Reap(1, 10), good.ScheduleAt("JOB1", "x", 1), good.ScheduleIn("JOB1", "x", 1), good.Promote(0), good.Promote(10),
			good.Claim(30000), good.Extend("JOB1", "2", 1000), good.Extend("JOB1", "1", 60000), good.Reap(1, 10),
			{"ZADD", good.Active(), "1", "JOB1"}, good.Reap(1, 10), good.Extend("JOB1", "1", 1000),
		} {
			require.Equal(t, "+QUEUED\r\n", st.Do(args...))
		}
		require.Equal(t, array(integer(0), reaped(nil, nil), integer(1), integer(0), "-ERR limit must be an integer from 1 to 10000, got \"0\"\r\n",
			integer(1), claimed("JOB1", "x", 1), stale("extend"), integer(1), reaped(nil, nil), integer(0), reaped(nil, []string{"JOB1"}),
			stale("extend")), st.Do("EXEC"))
	})
	st.streamed(o, atomically(
		"SET {emq}:version echomq:6.0.0 NX", "HSET emq:{q}:job:JOB1 state scheduled attempts 0 payload x", "ZADD emq:{q}:schedule 1 JOB1",
		zremSchedule, setPending, addPending,
		zremPending, "HSET emq:{q}:job:JOB1 state active attempts 1 lease_epoch RUN", grantAndKeep,
		"HSET emq:{q}:job:JOB1 lease_epoch RUN", "ZADD emq:{q}:active {now+60000} JOB1",
		"ZADD emq:{q}:active 1 JOB1",
		zremActive, "HSET emq:{q}:job:JOB1 state dead stalled 1 last_error stalled", "ZADD emq:{q}:dead 0 JOB1", countDead,
	))
}

// A transaction does nothing if a verb has changed its watched key, and runs if a verb has left the key alone.
func TestWatch(t *testing.T) {
	s := start(t, withModule())
	changed := map[string]string{
		"the row":      good.Row("JOB1"),
		"pending":      good.Pending(),
		"the identity": identity,
	}
	for what, key := range changed {
		t.Run(what+" changed", func(t *testing.T) {
			st, other := s.bare(t), s.dial(t)
			st.Must("WATCH "+key, "MULTI")
			require.Equal(t, "+QUEUED\r\n", st.Do(good.Enqueue("JOB2", "x")...))
			require.Equal(t, integer(1), other.Do(good.Enqueue("JOB1", "x")...))
			st.reply("*-1\r\n", "EXEC")
			st.reply(integer(0), "EXISTS emq:{q}:job:JOB2")
		})
	}
	t.Run("nothing changed", func(t *testing.T) {
		st, other := s.fresh(t), s.dial(t)
		require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
		require.Equal(t, "1", st.take(good, "JOB1"))
		st.Must("WATCH " + strings.Join([]string{good.Row("JOB1"), good.Active(), good.Pending(), good.Completed(), identity}, " "))
		require.Equal(t, integer(0), other.Do(good.Enqueue("JOB1", "x")...))
		require.Equal(t, stale("complete"), other.Do(good.Complete("JOB1", "9")...))
		require.Equal(t, stale("retry"), other.Do(good.Fail("JOB1", "9", 0, 1, "why")...))
		require.Equal(t, empty, other.Do(good.Claim(1000)...))
		st.Must("MULTI")
		require.Equal(t, "+QUEUED\r\n", st.Do(good.Complete("JOB1", "1")...))
		require.Equal(t, array(integer(1)), st.Do("EXEC"))
	})
	t.Run("nothing was due or lost", func(t *testing.T) {
		st, other := s.fresh(t), s.dial(t)
		st.put(good, "JOB1", "active", "attempts", "1")
		st.put(good, "JOB2", "scheduled", "attempts", "1")
		st.put(good, "JOB3", "active", "attempts", "1", "group", "g")
		st.lapse(good, "JOB3")
		st.Must("WATCH " + strings.Join([]string{good.Row("JOB1"), good.Row("JOB2"), good.Row("JOB3"), good.Active(), good.Schedule(),
			good.Pending(), good.Dead(), identity}, " "))
		require.Equal(t, integer(0), other.Do(good.Promote(10)...))
		require.Equal(t, reaped(nil, nil), other.Do(good.Reap(1, 10)...))
		require.Equal(t, stale("extend"), other.Do(good.Extend("JOB1", "9", 1000)...))
		require.Equal(t, integer(0), other.Do(good.ScheduleIn("JOB1", "x", 1000)...))
		st.Must("MULTI")
		require.Equal(t, "+QUEUED\r\n", st.Do(good.Extend("JOB1", "1", 1000)...))
		require.Equal(t, array(integer(1)), st.Do("EXEC"))
	})
}

// The verbs from a script, with call and with pcall.
func TestFromScript(t *testing.T) {
	s := witnessed(t)
	call := func(st *fixture, function string, args []string) string {
		return st.Do(append([]string{"EVAL", "return redis." + function + "(unpack(ARGV))", "0"}, args...)...)
	}
	for _, function := range []string{"call", "pcall"} {
		t.Run(function, func(t *testing.T) {
			st := s.bare(t)
			require.Equal(t, integer(1), call(st, function, good.Enqueue("JOB1", "x")))
			require.Equal(t, integer(0), call(st, function, good.Enqueue("JOB1", "x")))
			require.Equal(t, claimed("JOB1", "x", 1), call(st, function, good.Claim(1000)))
			require.Equal(t, empty, call(st, function, good.Claim(1000)))
			require.Equal(t, bulk("scheduled"), call(st, function, good.Fail("JOB1", "1", 0, 2, "why")))
			st.move(good, "JOB1", "scheduled", "pending")
			require.Equal(t, claimed("JOB1", "x", 2), call(st, function, good.Claim(1000)))
			require.Equal(t, integer(1), call(st, function, good.Complete("JOB1", "2")))
			require.Equal(t, integer(0), call(st, function, good.Complete("JOB1", "2")))
			require.Equal(t, integer(1), call(st, function, good.ScheduleAt("JOB1", "x", 1)))
			require.Equal(t, integer(1), call(st, function, good.Promote(10)))
			require.Equal(t, claimed("JOB1", "x", 1), call(st, function, good.Claim(1000)))
			require.Equal(t, integer(1), call(st, function, good.Extend("JOB1", "1", 60_000)))
			require.Equal(t, reaped(nil, nil), call(st, function, good.Reap(1, 10)))
			st.lapse(good, "JOB1")
			require.Equal(t, reaped(nil, []string{"JOB1"}), call(st, function, good.Reap(1, 10)))
			require.Equal(t, integer(-1), call(st, function, good.Extend("JOB2", "1", 1000)))
			for want, args := range map[string][]string{
				"EMQKIND job id must be JOB-namespaced": good.Enqueue("XYZ", "x"),
				"EMQKEY ":                               with(good.Enqueue("JOB1", "x"), 3, "other"),
				"EMQSTALE job gone":                     good.Fail("JOB2", "2", 0, 2, "why"),
				"ERR ":                                  good.Claim(0),
				"ERR mode ":                             with(good.ScheduleIn("JOB2", "x", 1), 6, "IN"),
				"ERR limit ":                            good.Reap(1, 10_001),
				"EMQSTALE extend token mismatch":        good.Extend("JOB1", "1", 1000),
			} {
				st.unchanged(func() {
					reply := call(st, function, args)
					require.True(t, strings.HasPrefix(reply, "-"+want), "%s: %q", want, reply)
				})
			}
		})
	}
	t.Run("an error is a table for pcall", func(t *testing.T) {
		st := s.fresh(t)
		script := "local r = redis.pcall(unpack(ARGV)) return r.err"
		require.Equal(t, bulk("EMQSTALE job gone"), st.Do(append([]string{"EVAL", script, "0"}, good.Fail("JOB1", "1", 0, 1, "why")...)...))
	})
	t.Run("nil is false", func(t *testing.T) {
		st := s.fresh(t)
		st.Must("HSET emq:{q}:job:JOB1 state pending attempts 0", "ZADD emq:{q}:pending 0 JOB1")
		script := "local r = redis.call(unpack(ARGV)) return {r[1], tostring(r[2]), r[3]}"
		require.Equal(t, array(bulk("JOB1"), bulk("false"), integer(1)), st.Do(append([]string{"EVAL", script, "0"}, good.Claim(1000)...)...))
	})
	t.Run("nil is nil under RESP3", func(t *testing.T) {
		st := s.fresh(t)
		st.Must("HSET emq:{q}:job:JOB1 state pending attempts 0", "ZADD emq:{q}:pending 0 JOB1")
		script := "redis.setresp(3) local r = redis.call(unpack(ARGV)) return {r[1], tostring(r[2]), r[3]}"
		require.Equal(t, array(bulk("JOB1"), bulk("nil"), integer(1)), st.Do(append([]string{"EVAL", script, "0"}, good.Claim(1000)...)...))
	})
	t.Run("a function", func(t *testing.T) {
		st := s.fresh(t)
		library := "#!lua name=jobs\nserver.register_function('run', function(keys, args) return server.call(unpack(args)) end)"
		require.Equal(t, bulk("jobs"), st.Do("FUNCTION", "LOAD", "REPLACE", library))
		t.Cleanup(func() { st.Must("FUNCTION FLUSH") })
		for _, step := range []struct {
			want string
			args []string
		}{
			{integer(1), good.Enqueue("JOB1", "x")},
			{claimed("JOB1", "x", 1), good.Claim(1000)},
			{stale("complete"), good.Complete("JOB1", "2")},
			{bulk("dead"), good.Fail("JOB1", "1", 0, 1, "why")},
		} {
			reply := st.Do(append([]string{"FCALL", "run", "0"}, step.args...)...)
			if step.want[0] == '-' { // the server adds where in the script it happened
				require.True(t, strings.HasPrefix(reply, strings.TrimSuffix(step.want, "\r\n")), "%q", reply)
			} else {
				require.Equal(t, step.want, reply)
			}
		}
	})
	t.Run("a script that is not to write", func(t *testing.T) {
		st := s.fresh(t)
		script := "#!lua flags=no-writes\nreturn redis.call(unpack(ARGV))"
		for verb, args := range verbsOn(good) {
			st.unchanged(func() {
				reply := st.Do(append([]string{"EVAL", script, "0"}, args...)...)
				require.True(t, strings.HasPrefix(reply, "-ERR Write commands are not allowed"), "%s: %q", verb, reply)
			})
		}
	})
	t.Run("one unit", func(t *testing.T) {
		st := s.fresh(t)
		script := "redis.call('EMQ.ENQUEUE','2','emq:{q}:job:JOB1','emq:{q}:pending','JOB1','x') " +
			"return redis.call('EMQ.CLAIM','2','emq:{q}:pending','emq:{q}:active','emq:{q}:job:','30000')"
		o := st.observe(func() { require.Equal(t, claimed("JOB1", "x", 1), st.Do("EVAL", script, "0")) })
		st.streamed(o, atomically(rowPending, addPending, zremPending, "HSET emq:{q}:job:JOB1 state active attempts 1 lease_epoch RUN", grantAndKeep))
	})
}

// The clock does not advance within a transaction or script: two claims in it get the same deadline, however long it takes.
func TestOneNowForAUnit(t *testing.T) {
	s := start(t, withModule())
	prepare := func(t *testing.T) *fixture {
		st := s.fresh(t)
		require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
		require.Equal(t, integer(1), st.Do(good.Enqueue("JOB2", "x")...))
		return st
	}
	same := func(st *fixture) {
		require.Equal(st.t, st.score(good.Active(), "JOB1"), st.score(good.Active(), "JOB2"))
	}
	t.Run("transaction", func(t *testing.T) {
		st := prepare(t)
		st.Must("MULTI")
		for _, args := range [][]string{good.Claim(30000), {"DEBUG", "SLEEP", "0.02"}, good.Claim(30000)} {
			require.Equal(t, "+QUEUED\r\n", st.Do(args...))
		}
		require.NotContains(t, st.Do("EXEC"), "-ERR")
		same(st)
	})
	t.Run("schedule and extend", func(t *testing.T) {
		st := prepare(t)
		st.Must("MULTI")
		for _, args := range [][]string{
			good.Claim(1000), good.ScheduleIn("JOB3", "x", 30000), {"DEBUG", "SLEEP", "0.02"},
			good.ScheduleIn("JOB4", "x", 30000), good.Claim(30000), good.Extend("JOB1", "1", 30000),
			good.ScheduleIn("JOB5", "x", 0), good.Promote(10), // with a delay of 0 it is due at once
		} {
			require.Equal(t, "+QUEUED\r\n", st.Do(args...))
		}
		require.NotContains(t, st.Do("EXEC"), "-ERR")
		same(st)
		require.Equal(t, st.score(good.Schedule(), "JOB3"), st.score(good.Schedule(), "JOB4"))
		require.Equal(t, st.score(good.Active(), "JOB1"), st.score(good.Schedule(), "JOB3"))
		require.Equal(t, "pending", st.row(good, "JOB5")["state"])
	})
	t.Run("script", func(t *testing.T) {
		st := prepare(t)
		script := `redis.call(unpack(ARGV))
			local t0 = os.clock() while os.clock() < t0 + 0.02 do end
			return redis.call(unpack(ARGV))`
		require.Equal(t, claimed("JOB2", "x", 1), st.Do(append([]string{"EVAL", script, "0"}, good.Claim(30000)...)...))
		same(st)
	})
}

// Both versions of the protocol on one server, with replies of every kind.
func TestProtocolVersions(t *testing.T) {
	s := start(t, withModule())
	st := s.fresh(t)
	two, three := s.dial(t), s.dial3(t)
	st.Must("HSET emq:{q}:job:JOB1 state pending attempts 0", "ZADD emq:{q}:pending 0 JOB1",
		"HSET emq:{q}:job:JOB2 state pending attempts 0", "ZADD emq:{q}:pending 0 JOB2")
	require.Equal(t, "*3\r\n$4\r\nJOB1\r\n$-1\r\n:1\r\n", two.Do(good.Claim(1000)...))
	require.Equal(t, "*3\r\n$4\r\nJOB2\r\n_\r\n:1\r\n", three.Do(good.Claim(1000)...))
	for _, c := range []*wire.Conn{two, three} {
		require.Equal(t, "*0\r\n", c.Do(good.Claim(1000)...))
		require.Equal(t, gone, c.Do(good.Fail("JOB3", "1", 0, 1, "why")...))
	}
	require.Equal(t, "$9\r\nscheduled\r\n", two.Do(good.Fail("JOB1", "1", 0, 9, "why")...))
	require.Equal(t, "$9\r\nscheduled\r\n", three.Do(good.Fail("JOB2", "1", 0, 9, "why")...))
	st.put(good, "JOB4", "active", "attempts", "1")
	st.put(good, "JOB5", "active", "attempts", "1")
	for i, c := range []*wire.Conn{two, three} {
		require.Equal(t, ":-1\r\n", c.Do(good.Extend("JOB3", "1", 1000)...))
		require.Equal(t, "*2\r\n*0\r\n*0\r\n", c.Do(good.Reap(2, 10)...))
		id := []string{"JOB4", "JOB5"}[i]
		st.lapse(good, id)
		require.Equal(t, "*2\r\n*1\r\n$4\r\n"+id+"\r\n*0\r\n", c.Do(good.Reap(2, 10)...))
	}
	require.Equal(t, "+OK\r\n", three.Do("CLIENT", "REPLY", "ON"))
}

// Ten thousand commands are sent before the first reply is read, with and without I/O threads.
func TestDeepPipeline(t *testing.T) {
	for _, threads := range []string{"1", "3"} {
		t.Run("io-threads "+threads, func(t *testing.T) { deepPipeline(open(t, "--io-threads", threads)) })
	}
}

func deepPipeline(st *fixture) {
	const n = 10_000
	t := st.t
	var enqueue, claim, extend, settle, schedule [][]string
	for i := range n {
		id := fmt.Sprintf("JOB%06d", i)
		enqueue = append(enqueue, good.Enqueue(id, "payload of "+id))
		claim = append(claim, good.Claim(30000))
		if i%2 == 0 {
			settle = append(settle, good.Complete(id, "1"))
		} else {
			settle = append(settle, good.Fail(id, "1", 1000, int64(1+i%4/2), "why"))
		}
		extend = append(extend, good.Extend(id, "1", 60000))
		schedule = append(schedule, good.ScheduleAt(fmt.Sprintf("JOBs%06d", i), "x", 1), good.Promote(10), good.Reap(1, 10))
	}
	for _, reply := range st.Pipeline(enqueue) {
		require.Equal(t, integer(1), reply)
	}
	for i, reply := range st.Pipeline(claim) {
		id := fmt.Sprintf("JOB%06d", i)
		require.Equal(t, claimed(id, "payload of "+id, 1), reply)
	}
	for _, reply := range st.Pipeline(extend) {
		require.Equal(t, integer(1), reply)
	}
	for i, reply := range st.Pipeline(settle) {
		require.Equal(t, []string{integer(1), bulk("dead"), integer(1), bulk("scheduled")}[i%4], reply)
	}
	st.reply(bulk(strconv.Itoa(n/2)), "HGET emq:{q}:metrics:completed count")
	st.reply(bulk(strconv.Itoa(n/4)), "HGET emq:{q}:metrics:failed count")
	st.reply(integer(n/4), "ZCARD emq:{q}:schedule")
	st.Must("DEL emq:{q}:schedule")
	for i, reply := range st.Pipeline(schedule) {
		require.Equal(t, []string{integer(1), integer(1), reaped(nil, nil)}[i%3], reply)
	}
	st.reply(integer(n), "ZCARD emq:{q}:pending")
	st.Must("FLUSHALL")
}

// A client that blocks on a set with the server's own command is woken by a verb as by a plain ZADD.
func TestWaitersAreWoken(t *testing.T) {
	s := start(t, withModule())
	waiting := func(st *fixture, set string) *wire.Conn {
		c := s.dial(t)
		c.Send([]string{"BZPOPMIN", set, "0"})
		waitFor(t, "the client waits", func() bool { return st.Info("blocked_clients") == "1" })
		return c
	}
	popped := func(set, score string) string { return array(bulk(set), bulk("JOB1"), bulk(score)) }
	t.Run("pending", func(t *testing.T) {
		st := s.fresh(t)
		c := waiting(st, good.Pending())
		require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
		require.Equal(t, popped(good.Pending(), "0"), c.Receive())
		st.damaged("emq:{q}:job:JOB1: state pending, in []")
	})
	t.Run("dead", func(t *testing.T) {
		st := s.fresh(t)
		st.put(good, "JOB1", "active", "attempts", "1")
		c := waiting(st, good.Dead())
		require.Equal(t, bulk("dead"), st.Do(good.Fail("JOB1", "1", 0, 1, "why")...))
		require.Equal(t, popped(good.Dead(), "0"), c.Receive())
		st.damaged("emq:{q}:job:JOB1: state dead, in []")
	})
	for name, tt := range map[string]struct {
		state, set, score, left string
		args                    []string
	}{
		"schedule":        {"", good.Schedule(), "7", "scheduled", good.ScheduleAt("JOB1", "x", 7)},
		"promote":         {"scheduled", good.Pending(), "0", "pending", good.Promote(10)},
		"reap to pending": {"active", good.Pending(), "0", "pending", good.Reap(2, 10)},
		"reap to dead":    {"active", good.Dead(), "0", "dead", good.Reap(1, 10)},
	} {
		t.Run(name, func(t *testing.T) {
			st := s.fresh(t)
			if tt.state != "" {
				st.put(good, "JOB1", tt.state, "attempts", "1")
				st.lapse(good, "JOB1")
			}
			c := waiting(st, tt.set)
			require.False(t, wire.IsError(st.Do(tt.args...)))
			require.Equal(t, popped(tt.set, tt.score), c.Receive())
			st.damaged("emq:{q}:job:JOB1: state " + tt.left + ", in []")
		})
	}
}

// CLIENT REPLY OFF, and a client that disconnects in the middle, leave no half-done job.
func TestClientsThatDoNotListen(t *testing.T) {
	s := start(t, withModule())
	st := s.fresh(t)
	deaf := s.dial(t)
	deaf.Send([]string{"CLIENT", "REPLY", "OFF"}, good.Enqueue("JOB1", "x"), good.Claim(1000), []string{"QUIT"})
	waitFor(t, "the job is claimed", func() bool { return st.Do("EXISTS", good.Active()) == integer(1) })
	gone := s.dial(t)
	var many [][]string
	for i := range 1000 {
		many = append(many, good.Enqueue(fmt.Sprintf("JOB2%04d", i), strings.Repeat("x", 100)))
	}
	gone.Send(many...)
	require.NoError(t, gone.Close())
	st.reply("+PONG\r\n", "PING")
}
