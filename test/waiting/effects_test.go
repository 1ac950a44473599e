package waiting

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// propagated are the commands that were added to the append-only file since the last call, one line each; times and the
// server's run_id are replaced by placeholders.
func (b *bed) propagated() []string {
	b.t.Helper()
	lines := []string{}
	for _, args := range b.Appended("incr") {
		for i, word := range args {
			if len(word) == 40 {
				args[i] = "RUN"
			} else if n, err := strconv.ParseInt(word, 10, 64); err == nil && n > 1e12 {
				args[i] = "DEADLINE"
			}
		}
		lines = append(lines, wire.Line(args))
	}
	fresh := lines[b.read:]
	b.read = len(lines)
	return fresh
}

var (
	granted = []string{
		"MULTI", "ZREM emq:{q}:pending JOB1", "HSET emq:{q}:job:JOB1 state active attempts 1 lease_epoch RUN",
		"ZADD emq:{q}:active DEADLINE JOB1", "EXEC",
	}
	enqueued = []string{"HSET emq:{q}:job:JOB1 state pending attempts 0 payload x", "ZADD emq:{q}:pending 0 JOB1"}
)

// The effects are those of CLAIM, in a transaction of their own after the cause's, in the file and on a replica;
// waiting, a timeout and a refusal write nothing.
func TestPropagated(t *testing.T) {
	b := begin(t)
	replica := store.Open(t, store.Module(store.Following(b.Addr())...))
	replica.Linked()
	b.Online()
	fresh := func() []string {
		lines := []string{}
		for _, line := range b.propagated() {
			if !strings.HasPrefix(line, "SELECT ") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	atomically := func(lines ...string) []string { return append(append([]string{"MULTI"}, lines...), "EXEC") }
	for name, tt := range map[string]struct {
		cause [][]string
		lines []string
	}{
		"a verb":        {[][]string{q.Enqueue("JOB1", "x")}, atomically(enqueued...)},
		"a transaction": {exec(words("SET other 1"), q.Enqueue("JOB1", "x"), words("SET other 2")), atomically(append(append([]string{"SET other 1"}, enqueued...), "SET other 2")...)},
		"a script": {[][]string{{"EVAL", "redis.call('HSET', KEYS[1], 'state', 'pending', 'attempts', '0', 'payload', 'x') return redis.call('ZADD', KEYS[2], '0', 'JOB1')",
			"2", q.Row("JOB1"), q.Pending()}}, atomically(enqueued...)},
	} {
		b.share(name, func(b *bed) {
			w := b.wait(q)
			fresh()
			b.before(q, tt.cause...)
			w.has(q, "JOB1")
			require.Equal(b.t, append(tt.lines, granted...), fresh())
		})
	}
	b.share("nothing", func(b *bed) {
		fresh()
		offset := b.Info("master_repl_offset")
		w := b.client()
		w.Send(wire.BClaim(lease, 1, q))
		w.gets(wire.Empty)
		w = b.wait(q)
		b.Must("CLIENT UNBLOCK " + w.id + " ERROR")
		w.gets(unblocked)
		_ = b.wait(q).Close()
		b.waiting(0)
		require.Contains(b.t, b.Do("EMQ.BCLAIM", "0", "0", q.Base()), "-ERR ")
		require.Equal(b.t, wire.Array(wire.Empty), b.Pipeline(exec(wire.BClaim(lease, 0, q)))[2])
		require.Empty(b.t, fresh())
		_ = offset
	})
	b.share("several", func(b *bed) {
		all := b.waits(2, q)
		b.Must("SELECT 0")
		fresh()
		b.before(q, exec(q.Enqueue("JOB1", "x"), q.Enqueue("JOB2", "x"))...)
		all[0].has(q, "JOB1")
		all[1].has(q, "JOB2")
		var second []string
		for _, line := range append(append([]string{}, enqueued...), granted...) {
			second = append(second, strings.ReplaceAll(line, "JOB1", "JOB2"))
		}
		require.Equal(b.t, append(append(atomically(append(append([]string{}, enqueued...), second[:2]...)...), granted...), second[2:]...), fresh())
	})
	store.InStep(t, b.Conn, replica.Conn())
	before := b.Keyspace()
	b.Crash()
	b.Place.Start()
	require.Empty(t, before.Diff(b.Keyspace()), "the file gives what was")
}

// A grant aborts a WATCH of exactly the keys that it changes; these are invalidated in client caches, and in the
// client's own as it has asked for.
func TestSeen(t *testing.T) {
	b := begin(t)
	for key, aborted := range map[string]bool{q.Row("JOB1"): true, q.Pending(): true, q.Active(): true, wire.Identity: false, r.Pending(): false} {
		b.share("WATCH "+key, func(b *bed) {
			w, other := b.wait(q, r), b.client()
			b.row(q, "JOB1")
			other.Must("WATCH "+key, "MULTI", "PING")
			b.before(q, words("ZADD "+q.Pending()+" 0 JOB1"))
			w.has(q, "JOB1")
			require.Equal(b.t, aborted, other.Do("EXEC") == "*-1\r\n")
		})
	}
	b.share("WATCH, and nothing comes", func(b *bed) {
		other := b.client()
		other.Must("WATCH "+strings.Join([]string{q.Pending(), q.Active(), wire.Identity}, " "), "MULTI", "PING")
		w := b.client()
		w.Send(wire.BClaim(lease, 1, q))
		w.gets(wire.Empty)
		require.Equal(b.t, "*1\r\n+PONG\r\n", other.Do("EXEC"))
	})
	b.share("caches", func(b *bed) {
		tracker, w := named(b, wire.Dial3(b.t, b.Socket)), named(b, wire.Dial3(b.t, b.Socket))
		tracker.Must("CLIENT TRACKING ON BCAST PREFIX emq:{q}:active")
		w.Must("CLIENT TRACKING ON BCAST PREFIX emq:{q}:active NOLOOP")
		w.wait(0, q)
		b.before(q, q.Enqueue("JOB1", "x"))
		w.has(q, "JOB1")
		tracker.Must("PING")
		require.Equal(b.t, []string{">2\r\n$10\r\ninvalidate\r\n*1\r\n$14\r\nemq:{q}:active\r\n"}, tracker.Pushes)
		require.Empty(b.t, w.Pushes)
	})
	b.share("events", func(b *bed) {
		b.Must("CONFIG SET notify-keyspace-events KA")
		subscriber := b.client()
		subscriber.Do("PSUBSCRIBE", "__keyspace@0__:*")
		w := b.wait(q)
		b.before(q, q.Enqueue("JOB1", "x"))
		w.has(q, "JOB1")
		b.Must("CONFIG SET notify-keyspace-events \"\"")
		for _, want := range []string{"job:JOB1 hset", "pending zadd", "pending zrem", "pending del", "job:JOB1 hset", "active zadd"} {
			m := wire.Value(subscriber.Receive()).([]any)
			require.Equal(b.t, want, strings.TrimPrefix(m[2].(string), "__keyspace@0__:emq:{q}:")+" "+m[3].(string))
		}
	})
}

// The reply's bytes, at the call and after a wait, in both protocols; a job without a payload.
func TestReplyBytes(t *testing.T) {
	b := begin(t)
	for name, tt := range map[string]struct {
		dial       func(testing.TB, string) *wire.Conn
		full, null string
	}{
		"RESP2": {wire.Dial, "*4\r\n$8\r\nemq:{q}:\r\n$4\r\nJOB1\r\n$3\r\na\x00b\r\n:1\r\n", "*4\r\n$8\r\nemq:{q}:\r\n$4\r\nJOB1\r\n$-1\r\n:1\r\n"},
		"RESP3": {wire.Dial3, "*4\r\n$8\r\nemq:{q}:\r\n$4\r\nJOB1\r\n$3\r\na\x00b\r\n:1\r\n", "*4\r\n$8\r\nemq:{q}:\r\n$4\r\nJOB1\r\n_\r\n:1\r\n"},
	} {
		for _, waits := range []bool{false, true} {
			for _, null := range []bool{false, true} {
				b.share(strings.Join([]string{name, strconv.FormatBool(waits), strconv.FormatBool(null)}, " "), func(b *bed) {
					w, want := named(b, tt.dial(b.t, b.Socket)), tt.full
					if waits {
						w.wait(0, r, q)
					}
					commands := [][]string{q.Enqueue("JOB1", "a\x00b")}
					if null {
						commands, want = append(commands, words("HDEL "+q.Row("JOB1")+" payload")), tt.null
					}
					b.Pipeline(exec(commands...))
					if !waits {
						w.Send(wire.BClaim(lease, 0, r, q))
					}
					w.gets(want)
				})
			}
		}
		b.share(name+", empty", func(b *bed) {
			w := named(b, tt.dial(b.t, b.Socket))
			w.Send(wire.BClaim(lease, 1, q))
			w.gets("*0\r\n")
		})
	}
	b.share("commands behind it", func(b *bed) {
		w := b.client()
		w.Send(wire.BClaim(lease, 0, q), q.Complete("JOB1", "1"), wire.BClaim(lease, 0, q), words("PING"))
		w.blocked()
		b.before(q, q.Enqueue("JOB1", "x"))
		require.Equal(b.t, wire.BClaimed(q, "JOB1", "x", 1), w.Receive())
		require.Equal(b.t, wire.Integer(1), w.Receive())
		b.waiting(1)
		b.before(q, q.Enqueue("JOB2", "x"))
		require.Equal(b.t, wire.BClaimed(q, "JOB2", "x", 1), w.Receive())
		w.gets("+PONG\r\n")
	})
}

// The lease begins when the job is handed over.
func TestLeaseBegins(t *testing.T) {
	b := begin(t)
	w := b.client()
	w.Send(wire.BClaim(5000, 0, q))
	w.blocked()
	start := b.Now()
	store.WaitFor(t, "some time to pass", func() bool { return b.Now() > start+50 })
	from := b.Now()
	b.before(q, q.Enqueue("JOB1", "x"))
	w.has(q, "JOB1")
	text := wire.Value(b.Do("ZSCORE", q.Active(), "JOB1")).(string)
	deadline, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	require.GreaterOrEqual(t, deadline, from+5000)
	require.LessOrEqual(t, deadline, b.Now()+5000)
}

// How INFO counts each way in which a call can end.
func TestInfo(t *testing.T) {
	b := begin(t)
	say := func() map[string]int {
		m := map[string]int{}
		for _, name := range []string{"calls", "claimed", "timed_out", "empty", "woken_idle"} {
			m[name] = b.count("emq_bclaim_" + name)
		}
		return m
	}
	last := say()
	// came asserts by how much the counters have grown.
	came := func(want map[string]int) {
		t.Helper()
		now, grown := say(), map[string]int{}
		for name, n := range now {
			if d := n - last[name]; d != 0 {
				grown[name] = d
			}
		}
		last = now
		require.Equal(t, want, grown)
	}
	w := b.wait(q, r)
	require.Equal(t, "1", b.Info("emq_waiting_clients"))
	require.Equal(t, "2", b.Info("emq_waiting_queues"))
	came(map[string]int{"calls": 1})
	b.before(q, q.Enqueue("JOB1", "x"))
	w.has(q, "JOB1")
	came(map[string]int{"claimed": 1})
	b.Do(q.Enqueue("JOB2", "x")...)
	require.Equal(t, wire.BClaimed(q, "JOB2", "x", 1), w.Do(wire.BClaim(lease, 0, q)...))
	came(map[string]int{"calls": 1, "claimed": 1})
	w.Send(wire.BClaim(lease, 1, q))
	w.gets(wire.Empty)
	came(map[string]int{"calls": 1, "timed_out": 1})
	w.wait(0, q)
	b.Must("CLIENT UNBLOCK " + w.id)
	w.gets(wire.Empty)
	came(map[string]int{"calls": 1, "timed_out": 1})
	w.wait(0, q)
	b.Must("CLIENT UNBLOCK " + w.id + " ERROR")
	w.gets(unblocked)
	came(map[string]int{"calls": 1})
	b.Pipeline(exec(wire.BClaim(lease, 0, q)))
	came(map[string]int{"calls": 1, "empty": 1})
	w.wait(0, q)
	b.Pipeline(exec(q.Enqueue("JOB3", "x"), q.Claim(lease)))
	came(map[string]int{"calls": 1, "woken_idle": 1})
	b.Must("CLIENT UNBLOCK " + w.id)
	w.gets(wire.Empty)
	came(map[string]int{"timed_out": 1})
	require.Contains(t, b.Do(wire.BClaim(0, 0, q)...), "-ERR ")
	came(map[string]int{"calls": 1})
	b.Must("CONFIG RESETSTAT")
	w.wait(0, q)
	b.before(q, q.Enqueue("JOB4", "x"))
	w.has(q, "JOB4")
	require.Contains(t, b.Info("cmdstat_EMQ.BCLAIM"), "calls=2", "the server counts a call that is served later twice")
}
