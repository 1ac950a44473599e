// Package sanitizers answers one question: does the C side of the module have memory errors or undefined behaviour? It
// runs the module under AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer, in a host of our own
// (server/stub.c), because a packaged server can't be run under them. The host is started like a server and is stricter
// than one.
package sanitizers

import (
	"debug/elf"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/valkey"
	"emq/test/wire"
)

// The paths that `make test` puts into the environment.
var host, module string

func TestMain(m *testing.M) {
	store.Needs("EMQ_STUB", "EMQ_MODULE_ASAN")
	host, module = os.Getenv("EMQ_STUB"), os.Getenv("EMQ_MODULE_ASAN")
	// The stub is the server of these tests, and of those that they start.
	_ = os.Setenv("VALKEY_SERVER", host)
	_ = os.Setenv("EMQ_MODULE", module)
	_ = os.Setenv("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0:exitcode=66:handle_segv=0:detect_stack_use_after_return=0")
	_ = os.Setenv("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1")
	os.Exit(m.Run())
}

// Both the host and the module must be built with the sanitizers, whose reports must be noticed.
func TestSanitizersAreOn(t *testing.T) {
	for _, path := range []string{host, module} {
		f, err := elf.Open(path)
		require.NoError(t, err)
		symbols, err := f.ImportedSymbols()
		require.NoError(t, err)
		require.NoError(t, f.Close())
		names := fmt.Sprint(symbols)
		require.Contains(t, names, "__asan_report_load", path)
		require.Contains(t, names, "__ubsan_handle", path)
	}
	s, err := valkey.Start(valkey.Options{Module: module})
	require.NoError(t, err)
	wire.Dial(t, s.Socket).Send([]string{"STUB", "OVERRUN"})
	state, err := s.Wait(time.Minute)
	require.NoError(t, err)
	require.Equal(t, 66, state.ExitCode())
	require.Contains(t, s.Log(), "AddressSanitizer: heap-buffer-overflow")
	_ = os.RemoveAll(s.Dir)
}

// A leak is found when the host ends, even one of the module.
func TestLeaksAreFound(t *testing.T) {
	s, err := valkey.Start(valkey.Options{Module: module})
	require.NoError(t, err)
	require.Equal(t, wire.OK, wire.Dial(t, s.Socket).Do("STUB", "LEAK"))
	require.ErrorContains(t, s.Stop(), "exit status 66")
	require.Contains(t, s.Log(), "LeakSanitizer: detected memory leaks")
	_ = os.RemoveAll(s.Dir)
}

// TestGolden sends every request of the golden file: each reply must be exactly the recorded bytes here too. Cases
// about the server's users and memory are left to the server.
func TestGolden(t *testing.T) {
	text, err := os.ReadFile("../testdata/wire.golden")
	require.NoError(t, err)
	c := wire.Dial(t, store.Serve(t).Socket)
	replayed, requests := 0, 0
	for i, block := range strings.Split(string(text), "\n== ")[1:] {
		if strings.Contains(block, "\ngiven  ACL ") || strings.Contains(block, "\ngiven  CONFIG SET maxmemory") {
			continue
		}
		name, lines, _ := strings.Cut(block, "\n")
		replayed++
		t.Run(strconv.Itoa(i)+" "+name, func(t *testing.T) {
			c.Must("FLUSHALL", "SET {emq}:version "+wire.Wire6)
			var reply string
			for line := range strings.SplitSeq(lines, "\n") {
				verb, arg, _ := strings.Cut(line, " ")
				arg = strings.TrimLeft(arg, " ")
				switch {
				case strings.HasPrefix(arg, "CONFIG ") && !strings.HasPrefix(arg, "CONFIG SET emq."):
				case verb == "given" || verb == "after":
					c.Must(arg)
				case verb == "send":
					reply = c.Run(arg)
					requests++
				case verb == "resp2":
					want, err := strconv.Unquote(`"` + arg + `"`)
					require.NoError(t, err)
					require.Equal(t, want, reply, line)
				}
			}
		})
	}
	require.Greater(t, replayed, 150)
	require.Greater(t, requests, 150)
}

// The claim of the identity, with every outcome that users' rights can cause, and the positions of the keys.
func TestContexts(t *testing.T) {
	c := wire.Dial(t, store.Serve(t).Socket)
	q := wire.Queue(strings.Repeat("q", 300)) // names that fit into no small buffer
	for _, tt := range []struct{ rights, reply, identity string }{
		{"none", "-EMQFENCE {emq}:version is absent and could not be claimed with this user's rights\r\n", wire.Nil},
		{"nouser", wire.Integer(1), wire.Bulk(wire.Wire6)},
		{"all", wire.Integer(1), wire.Bulk(wire.Wire6)},
	} {
		c.Must("FLUSHALL", "STUB RIGHTS "+tt.rights)
		require.Equal(t, tt.reply, c.Do(q.Enqueue("JOB1", "x")...), tt.rights)
		require.Equal(t, tt.identity, c.Do("GET", wire.Identity), tt.rights)
	}
	keys := func(args []string) string { return c.Do(append([]string{"COMMAND", "GETKEYS"}, args...)...) }
	require.Equal(t, wire.Array(wire.Integer(2), wire.Integer(3)), keys(q.Enqueue("JOB1", "x")))
	require.Equal(t, wire.Array(wire.Integer(2), wire.Integer(3), wire.Integer(4), wire.Integer(5)), keys(q.Fail("JOB1", "1", 0, 1, "")))
	require.Equal(t, wire.Empty, keys([]string{"EMQ.FAIL"}))
	require.Equal(t, wire.Array(wire.Integer(2), wire.Integer(3), wire.Integer(4)), keys(q.Reap(1, 1)))
	require.Equal(t, wire.Array(wire.Integer(2), wire.Integer(3)), keys(q.ScheduleIn("JOB1", "x", 1)))
	require.Equal(t, wire.Empty, keys([]string{"EMQ.REAP"}))

	// More broken entries than one call drops, and the longest words.
	c.Must("FLUSHALL", "STUB RIGHTS all")
	require.Equal(t, wire.Integer(1), c.Do(q.Enqueue("JOBz", strings.Repeat("x", 1<<20))...))
	for i := range 150 {
		c.Do("ZADD", q.Pending(), "0", fmt.Sprintf("JOB%03d", i))
	}
	require.Equal(t, wire.Empty, c.Do(q.Claim(1000)...))
	require.Equal(t, wire.Claimed("JOBz", strings.Repeat("x", 1<<20), 1), c.Do(q.Claim(1000)...))
	sweeps(t, c, q)
	for i := range 12 { // no words at all, and too few
		c.Do(append([]string{"EMQ.FAIL"}, make([]string, i)...)...)
		c.Do(append([]string{"EMQ.CLAIM"}, make([]string, i)...)...)
		for _, verb := range []string{"EMQ.SCHEDULE", "EMQ.EXTEND", "EMQ.PROMOTE", "EMQ.REAP"} {
			c.Do(append([]string{verb}, make([]string, i)...)...)
		}
	}
}

// Batches of every length around the window's, with ids listed twice, calls that are refused because of a job in a
// later window, and lists that are too long, incomplete or empty.
func TestBatches(t *testing.T) {
	c := wire.Dial(t, store.Serve(t).Socket)
	q := wire.Queue(strings.Repeat("q", 300))
	each := func(n, of int, words ...string) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("JOB%04d", i%of))
			list = append(list, words...)
		}
		return list
	}
	count := func(reply string, status int64) (n int) {
		for _, is := range wire.Value(reply).([]any) {
			if is == status {
				n++
			}
		}
		return n
	}
	for _, n := range []int{1, 2, 31, 32, 33, 64, 65, 100, 1000} {
		for _, of := range []int{n, n/2 + 1} { // each id once, and most of them twice
			c.Must("FLUSHALL", "SET {emq}:version "+wire.Wire6)
			require.Equal(t, of, count(c.Do(q.Menqueue(each(n, of, "payload")...)...), 1))
			require.Equal(t, n, count(c.Do(q.Menqueue(each(n, of, "payload")...)...), 0))
			require.Len(t, wire.Value(c.Do(q.Mclaim(60_000, int64(n))...)), of)
			require.Equal(t, n, count(c.Do(q.Mextend(60_000, each(n, of, "1")...)...), 1))
			require.Equal(t, n, count(c.Do(q.Mextend(60_000, each(n, of, "2")...)...), -1))
			for i := range of { // held, expired, a lane's, a flow's, and of another type
				id := fmt.Sprintf("JOB%04d", i)
				switch i % 7 {
				case 1:
					c.Do("HSET", q.Row(id), "state", "pending")
					c.Do("ZREM", q.Active(), id)
					c.Do("ZADD", q.Pending(), "0", id)
				case 2:
					c.Do("HSET", q.Row(id), "group", "g")
				case 3:
					c.Do("HSET", q.Row(id), "parent", "p")
				case 4:
					c.Do("SET", q.Row(id), "x")
				}
			}
			half := append(each(n/2, of, "1"), each((n+1)/2, of, "1")...)
			require.Len(t, wire.Value(c.Do(q.Mcomplete(half...)...)), len(half)/2)
			require.Len(t, wire.Value(c.Do(q.Mfail(int64(1+n%2), each(n, of, "1", "5", "why")...)...)), n)
			require.Len(t, wire.Value(c.Do(q.Mschedule("at", each(n, of, "5", "payload")...)...)), n)
			require.Len(t, wire.Value(c.Do(q.Mschedule("in", each(n, of, "5", "payload")...)...)), n)
			refused := []struct{ args, want string }{{"XYZ", "-EMQKIND "}, {"JOBx", ""}}
			for _, r := range refused {
				for _, args := range [][]string{
					q.Menqueue(append(each(n-1, n, "x"), r.args, "x")...), q.Mcomplete(append(each(n-1, n, "1"), r.args, "1")...),
					q.Mfail(1, append(each(n-1, n, "1", "0", "x"), r.args, "1", "0", "x")...), q.Mextend(1, append(each(n-1, n, "1"), r.args, "1")...),
				} {
					require.True(t, r.want == "" || strings.HasPrefix(c.Do(args...), r.want))
				}
			}
			// A row in the last window refuses the call on an unclaimed store: nothing of the earlier ones is applied.
			c.Must("FLUSHALL", "HSET "+wire.Line([]string{q.Row("JOBrow")})+" state active attempts 1")
			for _, args := range [][]string{
				q.Mcomplete(append(each(n-1, n, "1"), "JOBrow", "1")...), q.Mextend(1, append(each(n-1, n, "1"), "JOBrow", "1")...),
				q.Mfail(1, append(each(n-1, n, "1", "0", "x"), "JOBrow", "1", "0", "x")...),
			} {
				require.Contains(t, c.Do(args...), "-EMQFENCE ")
			}
			require.Contains(t, c.Do(q.Mschedule("at", append(each(n-1, n, "5", "x"), "JOBx", "-1", "x")...)...), "-ERR ms ")
		}
	}
	// More broken entries than a call drops, before jobs and between them.
	c.Must("FLUSHALL", "SET {emq}:version "+wire.Wire6)
	for i := range 150 {
		c.Do("ZADD", q.Pending(), "0", fmt.Sprintf("JOB%04d", i))
		if i%2 > 0 {
			c.Do("HSET", q.Row(fmt.Sprintf("JOB%04d", i)), "state", []string{"pending", "active", "dead"}[i%3], "attempts", []string{"0", "x"}[i%5/4])
		}
	}
	for range 5 {
		require.False(t, wire.IsError(c.Do(q.Mclaim(1000, 70)...)))
	}
	require.Equal(t, wire.Empty, c.Do(q.Mclaim(1000, 70)...))
	for _, verb := range []string{"EMQ.MENQUEUE", "EMQ.MSCHEDULE", "EMQ.MCLAIM", "EMQ.MCOMPLETE", "EMQ.MEXTEND", "EMQ.MFAIL"} {
		for _, n := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 2003, 3003, 4003, 8000} {
			args := append([]string{verb, q.Base(), "in"}, make([]string, n)...)
			require.True(t, wire.IsError(c.Do(args[:max(1, len(args)-2)]...)) || n > 0)
			require.True(t, wire.IsError(c.Do(args...)))
		}
	}
	for _, id := range []string{"", "J", "JOB", "JOB\x00"} { // shorter than the prefix that is checked
		c.Do(q.Menqueue(id, "", id, "")...)
		c.Do(q.Mcomplete(id, "", id, "1")...)
	}
	require.Equal(t, wire.Array(wire.Integer(1)), c.Do(append([]string{"COMMAND", "GETKEYS"}, q.Menqueue("JOB1", "x")...)...))
}

// Lists of each length around the window's, of jobs in every set and state, which are released, requeued and removed;
// and gates of every form, with room for some of the requested jobs.
func TestOperators(t *testing.T) {
	c := wire.Dial(t, store.Serve(t).Socket)
	q := wire.Queue("q")
	for _, n := range []int{1, 2, 31, 32, 33, 64, 65, 999, 1000} {
		c.Must("FLUSHALL", "SET {emq}:version "+wire.Wire6)
		var ids []string
		for i := range n {
			id := fmt.Sprintf("JOB%04d", i/2*2) // each twice
			state := []string{"pending", "active", "scheduled", "dead"}[i%4]
			ids = append(ids, id)
			c.Do("HSET", q.Row(id), "state", state, "attempts", "1", "failures", "1", "last_error", "why")
			c.Do("ZADD", q.Set(state), "1", id)
			if i%7 == 0 {
				c.Do("ZADD", q.Dead(), "0", id)
			}
		}
		for _, args := range [][]string{q.Requeue("dead", ids...), q.Requeue("scheduled", ids...), q.Remove("active", ids...), q.Remove("any", ids...)} {
			require.Len(t, wire.Value(c.Do(args...)), n)
		}
		for _, key := range append([]string{q.Pending(), q.Active(), q.Schedule(), q.Dead()}, q.Row(ids[0]), q.Row(ids[n-1])) {
			require.Equal(t, wire.Integer(0), c.Do("EXISTS", key))
		}
	}
	for i, gate := range [][]string{q.Pause(0), q.Pause(1<<52 - 1), q.Limit(40, 0, 0), q.Limit(0, 50, 1<<52-1), q.Limit(40, 1, 1)} {
		c.Must("FLUSHALL", "SET {emq}:version "+wire.Wire6)
		for i := range 100 {
			c.Do(q.Enqueue(fmt.Sprintf("JOB%03d", i), "x")...)
		}
		require.Equal(t, wire.OK, c.Do(gate...))
		list := wire.Value(c.Do(q.Mclaim(1000, 1000)...)).([]any)
		require.Len(t, list, []int{0, 0, 40, 50, 1}[i])
		for k, job := range list {
			c.Do(q.Release(job.([]any)[0].(string), "1", int64(k%2))...)
		}
		c.Do(q.Stats()...)
		require.False(t, wire.IsError(c.Do(q.Resume()...)))
		require.Equal(t, wire.OK, c.Do(q.Limit(0, 0, 0)...))
		require.Equal(t, wire.Integer(0), c.Do("EXISTS", q.Meta()))
	}
	for _, fields := range []string{"", "x", "-1", "9007199254740991", strings.Repeat("9", 1<<16)} {
		args := []string{"HSET", q.Meta()}
		for _, field := range []string{"paused", "paused_until", "concurrency", "max", "duration", "window", "used", "other"} {
			args = append(args, field, fields)
		}
		c.Do(args...)
		for _, args := range [][]string{q.Claim(1000), q.Mclaim(1000, 2), q.Stats(), q.Audit("0", 10), q.Fix("0", 10)} {
			require.False(t, wire.IsError(c.Do(args...)))
		}
		require.Equal(t, wire.Bulk(fields), c.Do("HGET", q.Meta(), "other"))
		require.Equal(t, wire.Nil, c.Do("HGET", q.Meta(), "paused"))
		c.Do("DEL", q.Meta())
	}
}

// Clients wait, are served, time out, are unblocked, disconnect and are freed, in random order and in queues with long
// and short names: the host checks that each gets one reply and that nothing is leaked, the sanitizers the rest.
func TestWaiting(t *testing.T) {
	s := store.Serve(t)
	c := wire.Dial(t, s.Socket)
	dice := rand.New(rand.NewPCG(store.Seed(t), 0))
	queues := []wire.Queue{"a", "b", wire.Queue(strings.Repeat("q", 300)), "d"}
	one := func() wire.Queue { return queues[dice.IntN(len(queues))] }
	type claimant struct {
		*wire.Conn
		id      string
		waiting bool
	}
	var all []*claimant
	counts := func() (waiting int64) { return wire.Value(c.Do("CLIENT", "BLOCKED")).(int64) }
	job := 0
	enqueue := func() {
		job++
		c.Do(one().Enqueue(fmt.Sprintf("JOB%06d", job), "x")...)
	}
	for round := range store.Rounds(t, 3, 40) {
		c.Must("FLUSHALL", "STUB RIGHTS all", "SET {emq}:version "+wire.Wire6, "SELECT 1", "SET {emq}:version "+wire.Wire6, "SELECT 0")
		for range 400 {
			for len(all) < 12 {
				w := &claimant{Conn: wire.Dial(t, s.Socket)}
				w.id = w.ID()
				w.Must("SELECT " + strconv.Itoa(dice.IntN(2)))
				all = append(all, w)
			}
			at := dice.IntN(len(all))
			w := all[at]
			switch n := dice.IntN(16); {
			case n < 6:
				if w.waiting { // it has got its reply, or is unblocked now
					c.Must("CLIENT UNBLOCK " + w.id)
					w.Receive()
				}
				args := wire.BClaim(1000, 0, one())
				for range dice.IntN(4) {
					args = append(args, one().Base())
				}
				if dice.IntN(6) == 0 {
					args = append(args[:2:2], append([]string{"1"}, args[3:]...)...)
				}
				w.Send([]string{"PING"}, args)
				require.Equal(t, "+PONG\r\n", w.Receive()) // so the host has read the call
				w.waiting = true
			case n < 9:
				enqueue()
			case n < 11: // several things of which nobody hears before the end
				c.Must("MULTI")
				for range 1 + dice.IntN(4) {
					if dice.IntN(3) == 0 {
						c.Must("CLIENT UNBLOCK " + all[dice.IntN(len(all))].id + []string{"", " ERROR"}[dice.IntN(2)])
					} else {
						enqueue()
					}
				}
				c.Must("EXEC")
			case n < 12:
				c.Must("CLIENT KILL ID " + w.id)
				w.Close()
				all = append(all[:at], all[at+1:]...)
			case n < 13:
				w.Close()
				all = append(all[:at], all[at+1:]...)
			case n < 14:
				c.Must([]string{"SWAPDB 0 1", "CLIENT PAUSE 1 WRITE", "CLIENT UNPAUSE", "CLIENT UNPAUSE"}[dice.IntN(4)])
			case n < 15:
				c.Must([]string{"STUB RIGHTS none", "STUB RIGHTS nouser", "STUB RIGHTS all", "STUB RIGHTS all"}[dice.IntN(4)])
			default:
				for i := range 150 { // more broken entries than a wake drops
					c.Do("ZADD", one().Pending(), "0", fmt.Sprintf("JOB!%03d", i))
				}
			}
		}
		if round%3 == 0 {
			c.Must("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE")
		}
		c.Must("CLIENT UNPAUSE")
		if round%4 != 3 { // otherwise the host ends with waiting clients
			for _, w := range all {
				w.Close()
			}
			all = nil
			store.WaitFor(t, "nobody to wait", func() bool { return counts() == 0 })
			require.Equal(t, "0", c.Info("emq_waiting_clients"))
			require.Equal(t, "0", c.Info("emq_waiting_queues"))
		}
	}
}

// In the place of each argument, words that are shorter than the suffix that a verb expects, and parts of that suffix.
func TestShortWords(t *testing.T) {
	c := wire.Dial(t, store.Serve(t).Socket)
	c.Must("SET {emq}:version " + wire.Wire6)
	q := wire.Queue("q")
	words := []string{"", ":", "}:", "q", "JOB", "{}:"}
	for _, key := range []string{q.RowPrefix(), q.Pending(), q.Active(), q.Schedule(), q.Dead()} {
		suffix := strings.TrimPrefix(key, q.Base())
		words = append(words, suffix, suffix[1:], ":"+suffix, "}:"+suffix, "{q}:"+suffix)
	}
	for _, args := range [][]string{
		q.Enqueue("JOB1", "x"), q.Claim(1000), q.Complete("JOB1", "1"), q.Fail("JOB1", "1", 0, 1, "why"), q.ScheduleIn("JOB1", "x", 1),
		q.Extend("JOB1", "1", 1), q.Promote(1), q.Reap(1, 1), q.Stats(), q.Fix("0", 10),
		q.Menqueue("JOB1", "x", "JOB1", "y"), q.Mschedule("in", "JOB1", "1", "x"), q.Mclaim(1, 2), q.Mcomplete("JOB1", "1", "JOB1", "1"),
		q.Mextend(1, "JOB1", "1", "JOB1", "1"), q.Mfail(1, "JOB1", "1", "0", "why"),
		q.Release("JOB1", "1", 1), q.Requeue("dead", "JOB1", "JOB1"), q.Remove("any", "JOB1", "JOB1"), q.Pause(1), q.Resume(), q.Limit(1, 1, 1),
	} {
		for i := 1; i < len(args); i++ {
			for _, word := range words {
				c.Do(wire.With(args, i, word)...)
			}
		}
	}
	require.Equal(t, "+PONG\r\n", c.Do("PING"))
}

// sweeps walks through many entries of every kind, in few calls and in many: some are moved, some buried, some dropped,
// and those of lanes stay.
func sweeps(t *testing.T, c *wire.Conn, q wire.Queue) {
	const n = 120
	for _, limit := range []int64{1, 7, 10_000} {
		c.Must("FLUSHALL", "SET {emq}:version "+wire.Wire6)
		var lanes [][]string
		for i := range n {
			for _, state := range []string{"active", "scheduled"} {
				id := fmt.Sprintf("JOB%03d%s", i, state)
				row := []string{"HSET", q.Row(id), "state", state, "attempts", "1", "payload", "x"}
				switch i % 6 {
				case 0:
					c.Do(append(row, "stalled", "1")...)
				case 1:
					c.Do(append(row, "stalled", "1", "parent", "JOB0")...)
				case 2:
					c.Do(append(row, "group", "g")...)
					lanes = append(lanes, []string{"ZREM", q.Set(state), id})
				case 3:
					c.Do(append(row, "lease_epoch", "e")...)
				case 4:
					c.Do(append(row, "state", "dead")...)
					c.Do("ZADD", q.Dead(), "0", id)
				}
				c.Do("ZADD", q.Set(state), "1", id)
			}
			c.Do("ZADD", q.Active(), "1", fmt.Sprintf("XYZ%03d", i))
		}
		for range 2*n/limit + 1 {
			require.False(t, wire.IsError(c.Do(q.Promote(limit)...)))
			require.False(t, wire.IsError(c.Do(q.Reap(2, limit)...)))
		}
		require.Equal(t, wire.Integer(0), c.Do(q.Promote(limit)...))
		require.Equal(t, wire.Reaped(nil, nil), c.Do(q.Reap(2, limit)...))
		for _, lane := range lanes {
			require.Equal(t, wire.Integer(1), c.Do(lane...), "%s", lane)
		}
		require.Equal(t, wire.Integer(0), c.Do("EXISTS", q.Active()))
		require.Equal(t, wire.Integer(0), c.Do("EXISTS", q.Schedule()))
	}
}

// A server that shuts down while it still scans a store has no timer of the module's left.
func TestStopDuringTheScan(t *testing.T) {
	s, err := valkey.Start(valkey.Options{Module: module, Args: []string{"--preload", "50000"}})
	require.NoError(t, err)
	require.NoError(t, s.Stop())
	_ = os.RemoveAll(s.Dir)
}

// Queues are added and removed, in both ways in which they are found, in an existing store and in one that changes
// during the scan; and settings change. The effects are tested in test/: here only the sanitizers matter.
func TestQueues(t *testing.T) {
	for _, as := range []string{"080001", "080101"} {
		c := wire.Dial(t, store.Serve(t, "--as", as, "--preload", "2000").Socket)
		for round := range 60 {
			c.Must(fmt.Sprintf("SELECT %d", round%5))
			for i := range 40 {
				q := wire.Queue(fmt.Sprintf("%s %d", strings.Repeat("q", round), i))
				kind := []string{q.Active(), q.Pending(), q.Dead(), q.Schedule()}[i/3%4]
				c.Do("ZADD", kind, "9000000000000", "JOB1")
				c.Do("SET", q.Base()+"}:active", "x")
				c.Do("HSET", q.Meta(), "paused", "1")
				if i%3 > 0 {
					c.Do("DEL", kind)
				}
				if i%5 > 0 {
					c.Do("DEL", q.Meta())
				}
			}
			last := ""
			const part = 31 // large, since each call checks all queues, which takes this host long
			for after, n := "", part; n == part; {
				list := wire.Value(c.Do(wire.Queues(after, part)...)).([]any)
				if n = len(list); n > 0 {
					after = list[n-1].(string)
				}
				for _, base := range list {
					require.Less(t, last, base)
					last = base.(string)
				}
			}
			require.NotEmpty(t, last)
			c.Must([]string{"PING", "SWAPDB 1 2", "FLUSHDB", "PING"}[round%4])
		}
		require.Equal(t, wire.Array(wire.Bulk("emq.max-stalled"), wire.Bulk("3")), c.Do("CONFIG", "GET", "emq.max-stalled"))
		c.Must("CONFIG SET emq.pump-interval-ms 0", "CONFIG SET emq.max-stalled 0", "FLUSHALL")
		require.Contains(t, c.Do("CONFIG", "SET", "emq.pump-budget-us", "1"), "-ERR")
	}
}

// A panic in a decision of each verb, at its first step and after many decided ones. The host checks that nothing was
// written, the sanitizers that nothing leaks; the same verbs then work on the same store.
func TestPanic(t *testing.T) {
	const panicID = "JOB-debug-panic"
	s := store.Open(t, store.Module())
	s.Panics = true
	c := s.Conn()
	q := wire.Queue(strings.Repeat("q", 300))
	// In byte order, 60 are before the entry that panics, and 60 after it. Those without a row have no job's id,
	// because the pump does not drop jobs without a row.
	nth := func(i int) string {
		if i%3 == 2 {
			return fmt.Sprintf("%cOB%03d", "IK"[i/60], i)
		}
		return fmt.Sprintf("JOB%c%03d", "!z"[i/60], i)
	}
	// The entries before and after the one that panics: some are moved, buried and dropped.
	around := func(state string) {
		for i := range 120 {
			score := strconv.Itoa(1 + i)
			if state == "pending" {
				score = "0"
			}
			id := nth(i)
			switch i % 3 {
			case 0:
				c.Do("HSET", q.Row(id), "state", state, "attempts", "x", "stalled", "1")
			case 1:
				c.Do("HSET", q.Row(id), "state", "dead", "attempts", "1")
				c.Do("ZADD", q.Dead(), "0", id)
			}
			c.Do("ZADD", q.Set(state), score, id)
			if i == 59 {
				c.Do("HSET", q.Row(panicID), "state", state, "attempts", "1", "payload", "x")
				c.Do("ZADD", q.Set(state), score, panicID)
			}
		}
	}
	panics := 0
	for _, tt := range []struct {
		name, state string
		args        []string
	}{
		{"enqueue", "", q.Enqueue(panicID, "x")},
		{"schedule", "", q.ScheduleIn(panicID, "x", 1)},
		{"claim", "pending", q.Claim(1000)},
		{"complete", "active", q.Complete(panicID, "1")},
		{"fail", "active", q.Fail(panicID, "1", 0, 1, strings.Repeat("why", 300))},
		{"extend", "active", q.Extend(panicID, "1", 1000)},
		{"promote", "scheduled", q.Promote(10_000)},
		{"reap", "active", q.Reap(2, 10_000)},
		{"audit", "active", q.Fix("active:0", 1000)},
		{"stats", "pending", q.Stats()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.Must("FLUSHALL")
			if tt.state != "" {
				c.Must("SET {emq}:version " + wire.Wire6)
				around(tt.state)
			}
			if tt.name == "stats" { // it looks only at the first entry
				for i := range 60 {
					c.Do("ZREM", q.Pending(), nth(i))
				}
			}
			before := store.Read(t, c)
			for range 20 {
				require.Equal(t, "-ERR internal error in the EMQ module: no job was changed, see the server's log\r\n", c.Do(tt.args...))
				panics++
			}
			require.Empty(t, store.Diff(before, store.Read(t, c)))
			require.Equal(t, strconv.Itoa(panics), c.Info("emq_panics"))
			// Without the entry the walk completes.
			c.Do("ZREM", q.Set("pending"), panicID)
			c.Do("ZREM", q.Set("active"), panicID)
			c.Do("ZREM", q.Set("scheduled"), panicID)
			require.Equal(t, wire.Integer(1), c.Do(q.Enqueue("JOB#", "x")...))
			for _, args := range [][]string{q.Claim(1000), q.Promote(10_000), q.Reap(2, 10_000), q.Fix("0", 1000), q.Stats()} {
				require.False(t, wire.IsError(c.Do(args...)), args)
			}
		})
	}
	t.Run("the pump", func(t *testing.T) {
		c.Must("FLUSHALL", "SET {emq}:version "+wire.Wire6)
		around("scheduled")
		around("active")
		c.Must("ZADD " + q.Schedule() + " 60 " + panicID)
		// The log of a panic takes longer than this budget, so the tick ends after each call that panics.
		c.Must("CONFIG SET emq.pump-budget-us 100", "CONFIG SET emq.pump-interval-ms 5")
		store.WaitFor(t, "the pump to move the others", func() bool {
			k := store.Read(t, c)[0]
			return len(k[q.Active()].(store.ZSet)) == 1
		})
		c.Must("CONFIG SET emq.pump-interval-ms 0")
		require.Contains(t, store.Read(t, c)[0][q.Active()], panicID)
	})
	require.Contains(t, s.Log(), "panic: the debug trigger was met")
}

// Runs the random and the kept histories of test/model against the stub.
func TestHistories(t *testing.T) {
	history := exec.Command("go", "test", "-count=1", "-run", "^(TestHistories|TestKept)$", "emq/test/model")
	history.Env = append(os.Environ(), "EMQ_PROOF=", "EMQ_ROUNDS="+strconv.Itoa(store.Rounds(t, 120, 600)), "EMQ_SEED="+strconv.FormatUint(store.Seed(t), 10))
	out, err := history.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// The pump runs all the time, beside the verbs, in many queues of some databases: expired leases are returned, rows of
// lanes stay, and flushed data are gone.
func TestPump(t *testing.T) {
	c := wire.Dial(t, store.Serve(t).Socket)
	dice := rand.New(rand.NewPCG(store.Seed(t), 0))
	c.Must("CONFIG SET emq.pump-budget-us 100", "CONFIG SET emq.pump-interval-ms 5")
	for round := range store.Rounds(t, 1, 12) {
		c.Must("FLUSHALL")
		for db := range 2 {
			c.Must("SELECT "+strconv.Itoa(db), "SET {emq}:version "+wire.Wire6)
			for i := range 4 {
				q := wire.Queue(strings.Repeat("q", 1+80*i))
				lane := q.Row(fmt.Sprintf("JOBlane%d", i))
				c.Must("HSET "+lane+" state active attempts 1 payload x group g", fmt.Sprintf("ZADD %s 1 JOBlane%d", q.Active(), i))
				c.Must("ZADD "+q.Schedule()+" 1 JOBnone 2 none", "SET "+q.Row("JOBnone")+" x")
				for j := range 5 {
					id := fmt.Sprintf("JOB%d", j)
					c.Do(q.Enqueue(id, "x")...)
					c.Do(q.Claim(1 + dice.Int64N(3))...)
					switch dice.IntN(4) {
					case 0:
						c.Do(q.Complete(id, "1")...)
					case 1:
						c.Do(q.Fail(id, "1", dice.Int64N(3), 2, "why")...)
					}
				}
				if dice.IntN(20) == 0 {
					c.Must("CONFIG SET emq.pump-interval-ms " + []string{"0", "5"}[dice.IntN(2)])
				}
			}
		}
		c.Must("CONFIG SET emq.pump-interval-ms 5")
		if round%3 == 2 {
			continue // in the middle of it
		}
		store.WaitFor(t, "what lapsed", func() bool {
			for _, k := range store.Read(t, c) {
				for key, value := range k {
					set, _ := value.(store.ZSet)
					if strings.HasSuffix(key, ":schedule") || strings.HasSuffix(key, ":active") && len(set) != 1 {
						return false
					}
				}
			}
			return true
		})
		c.Must("SELECT 0")
	}
}
