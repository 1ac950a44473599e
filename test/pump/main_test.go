// Package pump answers one question: does the server promote and reap by itself? It leaves jobs scheduled and leases to
// expire, stops, pauses and fails over servers, and no client but the pump returns the jobs.
package pump

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/valkey"
	"emq/test/wire"
)

const (
	// never is an interval that outlasts every test, in ms.
	never = "3600000"
	// soon is a very short one.
	soon = "20"
	// far is a score, in ms, that is never due.
	far = "9000000000000"

	maxTime = 1<<52 - 1
)

var q = wire.Queue("q")

func TestMain(m *testing.M) {
	store.Needs("VALKEY_SERVER", "EMQ_MODULE_DEBUG")
	os.Exit(m.Run())
}

// bed is a server whose pump is on, with a connection to it that lasts until the server is started again.
type bed struct {
	*store.Place
	*wire.Conn
	t *testing.T
}

// pumping are the options of a server with the debug build, which shows what its pump does.
func pumping(interval string, args ...string) valkey.Options {
	o := store.Pumped(append([]string{"--emq.pump-interval-ms", interval}, args...)...)
	o.Module = os.Getenv("EMQ_MODULE_DEBUG")
	return o
}

// begin starts a server with an empty store of our wire. At the end of the test the keyspace must be sound.
func begin(t *testing.T, interval string, args ...string) *bed {
	t.Helper()
	t.Parallel()
	b := serve(t, pumping(interval, args...))
	b.Must("SET " + wire.Identity + " " + wire.Wire6)
	t.Cleanup(func() {
		if !t.Failed() {
			found := b.Keyspace().Check(wire.Wire6)
			require.Empty(t, found[:min(len(found), 10)])
		}
	})
	return b
}

func serve(t *testing.T, o valkey.Options) *bed {
	t.Helper()
	b := &bed{Place: store.Open(t, o), t: t}
	b.Conn = b.Place.Conn()
	return b
}

// again starts the server again.
func (b *bed) again() {
	b.t.Helper()
	b.Start()
	b.Conn = b.Place.Conn()
}

// leased enqueues jobs and claims them.
func (b *bed) leased(q wire.Queue, n int, lease int64) []string {
	b.t.Helper()
	ids := b.enqueued(q, n)
	claims := make([][]string, n)
	for i := range claims {
		claims[i] = q.Claim(lease)
	}
	for i, reply := range b.Pipeline(claims) {
		require.Equal(b.t, wire.Claimed(ids[i], "x", 1), reply)
	}
	return ids
}

func (b *bed) enqueued(q wire.Queue, n int) []string {
	b.t.Helper()
	ids, commands := make([]string, n), make([][]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("JOB%07d", i)
		commands[i] = q.Enqueue(ids[i], "x")
	}
	for _, reply := range b.Pipeline(commands) {
		require.Equal(b.t, wire.Integer(1), reply)
	}
	return ids
}

// put writes a job directly: its row with any further fields, and its entry in the set of its state.
func (b *bed) put(q wire.Queue, id, state string, score int64, fields ...string) {
	b.t.Helper()
	row := append([]string{"HSET", q.Row(id), "state", state, "attempts", "1", "payload", "x"}, fields...)
	for _, reply := range b.Pipeline([][]string{row, {"ZADD", q.Set(state), strconv.FormatInt(score, 10), id}}) {
		require.Equal(b.t, byte(':'), reply[0], reply)
	}
}

// card is the number of entries of a set.
func (b *bed) card(key string) int {
	b.t.Helper()
	return int(wire.Value(b.Do("ZCARD", key)).(int64))
}

// field is a field of a row, "" if it has none.
func (b *bed) field(q wire.Queue, id, name string) string {
	b.t.Helper()
	text, _ := wire.Value(b.Do("HGET", q.Row(id), name)).(string)
	return text
}

// has waits until a set has n entries.
func (b *bed) has(key string, n int) {
	b.t.Helper()
	store.WaitFor(b.t, fmt.Sprintf("%d in %s", n, key), func() bool { return b.card(key) == n })
}

// uncounted asserts that no lost lease was counted in the rows of a queue.
func (b *bed) uncounted(q wire.Queue, ids ...string) {
	b.t.Helper()
	commands := make([][]string, len(ids))
	for i, id := range ids {
		commands[i] = []string{"HMGET", q.Row(id), "state", "stalled"}
	}
	for i, reply := range b.Pipeline(commands) {
		require.Equal(b.t, wire.Array(wire.Bulk("pending"), wire.Nil), reply, ids[i])
	}
}

// stats are the pump's counters.
func (b *bed) stats() map[string]int64 {
	b.t.Helper()
	return figures(b.Do("EMQ.DEBUG", "PUMP"))
}

func figures(reply string) map[string]int64 {
	m := map[string]int64{}
	list := wire.Value(reply).([]any)
	for i := 0; i+1 < len(list); i += 2 {
		m[list[i].(string)] = list[i+1].(int64)
	}
	return m
}

// ticks waits until the pump has begun n more ticks, the last of which may not be finished.
func (b *bed) ticks(n int64) {
	b.t.Helper()
	last := b.stats()["ticks"] + n
	store.WaitFor(b.t, "the pump's ticks", func() bool { return b.stats()["ticks"] >= last })
}

// stoodDown waits until the pump has skipped n more runs because it may not write.
func (b *bed) stoodDown(n int64) {
	b.t.Helper()
	last := b.stats()["skipped"] + n
	store.WaitFor(b.t, "the pump to stand down", func() bool { return b.stats()["skipped"] >= last })
}

// until waits until the server's clock has passed a time.
func (b *bed) until(ms int64) {
	b.t.Helper()
	store.WaitFor(b.t, "the server's clock", func() bool { return b.Now() > ms })
}

func (b *bed) digest() string { return b.Do("DEBUG", "DIGEST") }

// sleep waits by our own clock, because the server can't be asked for its time.
func sleep(t *testing.T, d time.Duration) {
	end := time.Now().Add(d)
	store.WaitFor(t, "the clock", func() bool { return time.Now().After(end) })
}
