package test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const panicID = "JOB-debug-panic"

// faulty starts a server with the debug build, which has fault triggers. It may log panics.
func faulty(t *testing.T, args ...string) *server {
	t.Helper()
	s := start(t, withDebugModule(args...))
	s.Panics = true
	return s
}

// A panic in a decision becomes an error reply; the server keeps running, nothing has changed, and the log has the stack.
func TestPanic(t *testing.T) {
	s := faulty(t)
	s.observers = newObservers(t, s)
	for verb, args := range map[string][]string{
		"enqueue":  good.Enqueue(panicID, "x"),
		"claim":    good.Claim(1000),
		"complete": good.Complete(panicID, "1"),
		"fail":     good.Fail(panicID, "1", 0, 1, "why"),
		"schedule": good.ScheduleIn(panicID, "x", 1),
		"extend":   good.Extend(panicID, "1", 1000),
		"promote":  good.Promote(10),
		"reap":     good.Reap(1, 10),
		"stats":    good.Stats(),
		"audit":    good.Fix("0", 10),
		"release":  good.Release(panicID, "1", 0),
		"requeue":  good.Requeue("dead", "JOBz", panicID),
		"remove":   good.Remove("any", "JOBz", panicID),
	} {
		t.Run(verb, func(t *testing.T) {
			st := s.fresh(t)
			switch verb {
			case "claim", "stats", "audit":
				st.put(good, panicID, "pending", "attempts", "0")
			case "complete", "fail", "extend":
				st.put(good, panicID, "active", "attempts", "1")
			case "promote", "reap": // in the middle of what the verb walks through
				for i, id := range []string{"JOBa", panicID, "JOBb"} {
					state := map[string]string{"promote": "scheduled", "reap": "active"}[verb]
					st.put(good, id, state, "attempts", "1")
					require.Equal(t, integer(0), st.Do("ZADD", good.Set(state), strconv.Itoa(i+1), id))
				}
			}
			st.put(good, "JOBz", "pending", "attempts", "0")
			seen := len(s.Log())
			st.refused("ERR internal error", args...)
			log := s.Log()[seen:]
			require.Contains(t, log, "panic")
			require.Contains(t, log, "goroutine ", "the stack")
			require.Regexp(t, `commands\.|module/`, log, "the stack names our code")
			st.reply("+PONG\r\n", "PING")
			if verb == "claim" || verb == "stats" || verb == "audit" {
				st.Must("DEL emq:{q}:job:"+panicID, "ZREM emq:{q}:pending "+panicID)
			}
			require.Equal(t, "1", st.take(good, "JOBz"), "the next command is as good as ever")
		})
	}
	t.Run("without an identity", func(t *testing.T) {
		st := s.bare(t)
		st.refused("ERR internal error", good.Enqueue(panicID, "x")...)
		st.reply(nothing, "GET {emq}:version")
	})
	t.Run("in a transaction and in a script", func(t *testing.T) {
		st := s.fresh(t)
		st.Must("MULTI")
		for _, args := range [][]string{good.Enqueue("JOB1", "x"), good.Enqueue(panicID, "x"), good.Enqueue("JOB2", "x")} {
			require.Equal(t, "+QUEUED\r\n", st.Do(args...))
		}
		replies := value(st.Do("EXEC")).([]any)
		require.Equal(t, int64(1), replies[0])
		require.Contains(t, replies[1], "ERR internal error")
		require.Equal(t, int64(1), replies[2])
		reply := st.Do(append([]string{"EVAL", "return redis.pcall(unpack(ARGV))", "0"}, good.Enqueue(panicID, "x")...)...)
		require.True(t, strings.HasPrefix(reply, "-ERR internal error"), "%q", reply)
	})
	t.Run("again and again", func(t *testing.T) {
		st := s.fresh(t)
		for range 1000 {
			st.refusal("ERR internal error", good.Enqueue(panicID, "x")...)
		}
		require.Equal(t, int64(1), runtimeOf(st)["goroutines"])
	})
}

// The ordinary build has no triggers.
func TestNoTriggersInTheOrdinaryBuild(t *testing.T) {
	st := open(t)
	st.life("q", panicID, "x")
	st.refusal("ERR unknown command", "EMQ.DEBUG", "RUNTIME")
}

// runtimeOf asks the debug build for the state of Go's runtime.
func runtimeOf(st *fixture) map[string]int64 {
	st.t.Helper()
	m := map[string]int64{}
	for name, v := range fields(value(st.Do("EMQ.DEBUG", "RUNTIME"))) {
		switch v := v.(type) {
		case int64:
			m[name] = v
		case string:
			n, err := strconv.ParseInt(v, 10, 64)
			require.NoError(st.t, err)
			m[name] = n
		}
	}
	return m
}

// Go's runtime inside the server: one goroutine, two processors, no collection, and no allocation by any command.
func TestRuntime(t *testing.T) {
	const n, batch = 100_000, 2000
	s := faulty(t)
	st := s.fresh(t)
	st.Heard = nil // the replies are asserted here
	at := runtimeOf(st)
	require.Equal(t, int64(1), at["goroutines"])
	require.Equal(t, int64(2), at["gomaxprocs"])
	require.Equal(t, int64(0), at["numgc"])
	require.GreaterOrEqual(t, at["sigaltstack_bytes"], int64(262144))
	require.LessOrEqual(t, at["threads"], int64(24))
	idle := runtimeOf(st)["mallocs"] - at["mallocs"] // the allocations of EMQ.DEBUG itself

	id := func(i int) string { return fmt.Sprintf("JOB%06d", i) }
	// Each phase sends a request for every job, and says which replies are right.
	phases := []struct {
		name    string
		request func(i int) []string
		reply   func(i int) string
	}{
		{"enqueue", func(i int) []string { return good.Enqueue(id(i), "x") }, func(int) string { return integer(1) }},
		{"duplicate", func(i int) []string { return good.Enqueue(id(i), "x") }, func(int) string { return integer(0) }},
		{"claim", func(int) []string { return good.Claim(maxTime) }, func(i int) string { return claimed(id(i), "x", 1) }},
		{"empty claim", func(int) []string { return good.Claim(maxTime) }, func(int) string { return empty }},
		{"stale complete", func(i int) []string { return good.Complete(id(i), "2") }, func(int) string { return stale("complete") }},
		{"extend", func(i int) []string { return good.Extend(id(i), "1", maxTime) }, func(int) string { return integer(1) }},
		{"stale extend", func(i int) []string { return good.Extend(id(i), "2", maxTime) }, func(int) string { return stale("extend") }},
		{"fail", func(i int) []string { return good.Fail(id(i), "1", 0, int64(1+i%2), "why") }, func(i int) string {
			return bulk([]string{"dead", "scheduled"}[i%2])
		}},
		{"complete of a new job", func(i int) []string { return good.Complete("JOBc"+id(i), "1") }, func(int) string { return integer(1) }},
		{"complete of nothing", func(i int) []string { return good.Complete("JOBc"+id(i), "1") }, func(int) string { return integer(0) }},
		{"promote", func(int) []string { return good.Promote(1) }, func(i int) string { return integer(int64(1 - i*2/n)) }},
		{"schedule", func(i int) []string { return good.ScheduleAt("JOBs"+id(i), "x", 1) }, func(int) string { return integer(1) }},
		{"duplicate of schedule", func(i int) []string { return good.ScheduleIn("JOBs"+id(i), "x", 1) }, func(int) string { return integer(0) }},
		{"promote of ten", func(int) []string { return good.Promote(10) }, func(i int) string {
			return integer(int64(10 * max(0, 1-i/(n/10))))
		}},
		{"reap of nothing", func(int) []string { return good.Reap(1, 10) }, func(int) string { return reaped(nil, nil) }},
		{"reap", func(int) []string { return good.Reap(2, 1) }, nil},
		{"refused", func(int) []string { return good.Claim(0) }, nil},
	}
	for _, p := range phases {
		t.Run(p.name, func(t *testing.T) {
			before := runtimeOf(st)
			for from := 0; from < n; from += batch {
				commands := make([][]string, batch)
				if p.name == "complete of a new job" {
					setup := make([][]string, batch)
					for i := range setup {
						setup[i] = []string{"HSET", good.Row("JOBc" + id(from+i)), "state", "active", "attempts", "1"}
					}
					st.Pipeline(setup)
				}
				if p.name == "reap" { // entries that are moved, buried, dropped and left
					setup := make([][]string, batch)
					for i := range setup {
						setup[i] = []string{"HSET", good.Row("JOBr" + id(from+i)), "state", []string{"active", "pending"}[i%2], "attempts", "1",
							[]string{"stalled", "parent", "lease_epoch", "stalled"}[i%4], "1"}
					}
					st.Pipeline(setup)
					for i := range setup {
						setup[i] = []string{"ZADD", good.Active(), "1", "JOBr" + id(from+i+i%7)}
					}
					st.Pipeline(setup)
				}
				for i := range commands {
					commands[i] = p.request(from + i)
				}
				for i, reply := range st.Pipeline(commands) {
					if p.name == "reap" {
						require.Equal(t, "*2\r\n", reply[:4])
					} else if p.reply == nil {
						require.Equal(t, byte('-'), reply[0])
					} else if want := p.reply(from + i); reply != want {
						require.Equal(t, want, reply)
					}
				}
			}
			after := runtimeOf(st)
			require.Equal(t, int64(0), (after["mallocs"]-before["mallocs"]-idle)/n, "allocations per command")
			require.Less(t, after["mallocs"]-before["mallocs"], int64(1000), "allocations in all")
			require.Equal(t, int64(0), after["numgc"])
			require.Equal(t, int64(1), after["goroutines"])
			require.Less(t, after["heap_alloc"], int64(4<<20))
		})
	}
	require.Equal(t, reaped(nil, nil), st.Do(good.Reap(2, 10_000)...), "every lost lease was met")
	st.Must("FLUSHALL")
	end := runtimeOf(st)
	require.LessOrEqual(t, end["threads"], at["threads"]+2, "no threads are added")
}
