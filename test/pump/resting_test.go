package pump

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// Which queues the pump visits, and the pauses that it removes.

// rests waits until a tick begins and ends without a visit to any queue.
func (b *bed) rests() {
	b.t.Helper()
	store.WaitFor(b.t, "the pump to visit no queue", func() bool {
		before := b.stats()
		b.ticks(2)
		return b.stats()["visits"] == before["visits"]
	})
}

// visits waits until the pump has visited queues again and again.
func (b *bed) visits() {
	b.t.Helper()
	last := b.stats()["visits"] + 5
	store.WaitFor(b.t, "the pump's visits", func() bool { return b.stats()["visits"] >= last })
}

// A queue in which nothing can be due is known, but not visited, until it gets a key in which something can.
func TestQueuesWithNothingToDo(t *testing.T) {
	b := begin(t, "5")
	b.Must("SELECT 9", "SET "+wire.Identity+" "+wire.Wire6)
	keep := wire.Queue("keep")
	b.put(keep, "JOB1", "pending", 0)
	b.put(keep, "JOB2", "dead", 0)
	for name, tt := range map[string]struct{ come, go_ []string }{
		"a schedule":     {q.ScheduleIn("JOB1", "x", maxTime/2), []string{"EMQ.REMOVE", q.Base(), "any", "JOB1"}},
		"an active":      {[]string{"ZADD", q.Active(), far, "JOB1"}, []string{"DEL", q.Active()}},
		"a meta":         {[]string{"EMQ.LIMIT", q.Base(), "1", "0", "0"}, []string{"EMQ.LIMIT", q.Base(), "0", "0", "0"}},
		"of other type":  {[]string{"SET", q.Active(), "x"}, []string{"DEL", q.Active()}},
		"beside pending": {[]string{"EMQ.PAUSE", keep.Base(), "0"}, []string{"EMQ.RESUME", keep.Base()}},
		"beside dead":    {[]string{"ZADD", keep.Schedule(), far, "JOB9"}, []string{"DEL", keep.Schedule()}},
	} {
		if name == "of other type" && !b.hearsAll() {
			continue
		}
		b.rests()
		require.EqualValues(t, 1, b.stats()["queues"], name)
		require.False(t, wire.IsError(b.Do(tt.come...)), name)
		b.visits()
		require.False(t, wire.IsError(b.Do(tt.go_...)), name)
		b.rests()
		store.WaitFor(t, "the queue to be forgotten", func() bool { return b.stats()["queues"] == 1 })
		require.Equal(t, wire.Array(wire.Bulk(keep.Base())), b.Do(wire.Queues("", 10)...), name)
	}
	// A claimed job is returned, although the queue was not visited before.
	require.Len(t, wire.Value(b.Do(keep.Claim(1)...)), 3)
	b.has(keep.Pending(), 1)
	b.rests()
	b.Must("FLUSHDB", "SELECT 0")
}

// hearsAll reports whether the module receives events for keys of any type; see queues_test.go in test/.
func (b *bed) hearsAll() bool {
	version := b.Info("valkey_version")
	return strings.HasPrefix(version, "8.0.") || version == "9.1.2"
}

// meta are the fields of a queue's meta.
func (b *bed) meta(q wire.Queue) map[string]string {
	b.t.Helper()
	fields := map[string]string{}
	list := wire.Value(b.Do("HGETALL", q.Meta())).([]any)
	for i := 0; i+1 < len(list); i += 2 {
		fields[list[i].(string)] = list[i+1].(string)
	}
	return fields
}

// A timed pause that is over is removed, as plain commands for replicas and the append-only file; the other fields of
// meta stay, and so do other pauses.
func TestEndedPauses(t *testing.T) {
	b := begin(t, soon, "--appendonly", "yes", "--aof-use-rdb-preamble", "no")
	plain := store.Open(t, store.Plain(store.Following(b.Addr())...))
	plain.Linked()
	b.Online()
	limited, long, open := wire.Queue("limited"), wire.Queue("long"), wire.Queue("open")
	b.Must("EMQ.LIMIT "+limited.Base()+" 3 5 1000", "EMQ.PAUSE "+limited.Base()+" 30", "EMQ.PAUSE "+q.Base()+" 30",
		"EMQ.PAUSE "+long.Base()+" 3600000", "EMQ.PAUSE "+open.Base()+" 0")
	broken := map[wire.Queue]map[string]string{
		"no number": {"paused": "1", "paused_until": "soon"},
		"negative":  {"paused": "1", "paused_until": "-1"},
		"not 1":     {"paused": "yes", "paused_until": far},
	}
	for q, fields := range broken {
		for name, value := range fields {
			b.Do("HSET", q.Meta(), name, value)
		}
	}
	b.Must("SET emq:{string}:meta x", "HSET emq:{half}:meta paused_until 1")
	store.WaitFor(t, "the pauses to be tidied", func() bool {
		return b.Do("EXISTS", q.Meta(), "emq:{half}:meta") == wire.Integer(0) && len(b.meta(limited)) == 3
	})
	b.ticks(3)
	require.Equal(t, map[string]string{"concurrency": "3", "max": "5", "duration": "1000"}, b.meta(limited))
	require.Len(t, b.meta(long), 2)
	require.Equal(t, map[string]string{"paused": "1"}, b.meta(open))
	require.Equal(t, map[string]string{"paused": "1", "paused_until": "soon"}, b.meta("no number"))
	require.Equal(t, map[string]string{"paused": "1", "paused_until": "-1"}, b.meta("negative"))
	require.Equal(t, "+string\r\n", b.Do("TYPE", "emq:{string}:meta"))
	require.Equal(t, wire.Integer(1), b.Do(q.Enqueue("JOB1", "x")...))
	require.Len(t, wire.Value(b.Do(q.Claim(60_000)...)), 3)
	store.InStep(t, b.Conn, plain.Conn())
	digest := b.digest()
	b.Must("CONFIG SET emq.pump-interval-ms 0", "DEBUG LOADAOF")
	require.Equal(t, digest, b.digest())
	files, err := filepath.Glob(filepath.Join(b.Dir, "appendonlydir", "*.incr.aof"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	written, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.Contains(t, string(written), wire.Encode([]string{"HDEL", q.Meta(), "paused", "paused_until"}))
	b.Must("FLUSHALL")
}

// No pause is removed where the pump may not write: on a replica, while writes are paused, in import-mode, in a store
// of another wire.
func TestEndedPausesStay(t *testing.T) {
	b := begin(t, "0")
	r := b.follower(t, soon, "--replica-read-only", "no")
	b.Must("EMQ.PAUSE " + q.Base() + " 1")
	stays := func(at *bed) {
		t.Helper()
		at.until(at.Now() + 5)
		at.stoodDown(5)
		require.Len(t, at.meta(q), 2)
	}
	store.InStep(t, b.Conn, r.Conn)
	stays(r)

	b.Must("CLIENT PAUSE 3600000 WRITE", "CONFIG SET emq.pump-interval-ms "+soon)
	stays(b)
	b.Must("CONFIG SET emq.pump-interval-ms 0", "CLIENT UNPAUSE")
	if b.Do("CONFIG", "GET", "import-mode") != wire.Array() {
		b.Must("CONFIG SET import-mode yes", "CONFIG SET emq.pump-interval-ms "+soon)
		stays(b)
		b.Must("CONFIG SET emq.pump-interval-ms 0", "CONFIG SET import-mode no")
	}
	b.Must("SET "+wire.Identity+" "+wire.Wire4, "CONFIG SET emq.pump-interval-ms "+soon)
	b.ticks(5)
	require.Len(t, b.meta(q), 2)
	b.Must("DEL " + wire.Identity)
	b.ticks(5)
	require.Len(t, b.meta(q), 2)
	require.Equal(t, wire.Integer(0), b.Do("EXISTS", wire.Identity), "to tidy claims nothing")
	b.Must("SET " + wire.Identity + " " + wire.Wire6)
	store.WaitFor(t, "the pause to be tidied", func() bool { return b.Do("EXISTS", q.Meta()) == wire.Integer(0) })
	store.InStep(t, b.Conn, r.Conn)

	// After its promotion a replica removes it.
	b.Must("CONFIG SET emq.pump-interval-ms 0", "EMQ.PAUSE "+q.Base()+" 1")
	store.InStep(t, b.Conn, r.Conn)
	stays(r)
	r.Must("REPLICAOF NO ONE")
	store.WaitFor(t, "the pause to be tidied", func() bool { return r.Do("EXISTS", q.Meta()) == wire.Integer(0) })
	b.Must("FLUSHALL")
}

// While no queue has a gate, neither claims nor the pump look for one; and so it is again after a gate is removed, even
// if the queue has other work. On servers without an event for each key, claims always look.
func TestGatesThatAreGone(t *testing.T) {
	b := begin(t, "5")
	nobodyLooks := func() {
		t.Helper()
		if b.hearsAll() {
			store.WaitFor(t, "no queue to have a gate", func() bool { return b.stats()["may_have_meta"] == 0 })
		}
		b.ticks(2)
	}
	b.leased(q, 1, maxTime)
	require.Equal(t, wire.Integer(1), b.Do(q.Enqueue("JOBnext", "x")...))
	for range 3 {
		nobodyLooks()
		b.Must("EMQ.LIMIT " + q.Base() + " 1 0 0")
		require.Equal(t, wire.Empty, b.Do(q.Claim(1000)...))
		b.ticks(2)
		require.Equal(t, wire.Empty, b.Do(q.Claim(1000)...), "the gate is seen, whatever the pump notes")
		b.Must("EMQ.LIMIT " + q.Base() + " 0 0 0")
		require.Equal(t, []string{wire.OK, wire.Empty}, b.Pipeline([][]string{{"EMQ.PAUSE", q.Base(), "20"}, q.Claim(1000)}))
		store.WaitFor(t, "the pause to be tidied", func() bool { return b.Do("EXISTS", q.Meta()) == wire.Integer(0) })
	}
	// A gate that is created without an event for the module is found by the scan.
	nobodyLooks()
	b.Must("HSET gate concurrency 1 paused 1 paused_until 1", "RENAME gate "+q.Meta())
	store.WaitFor(t, "the pause to be tidied", func() bool { return len(b.meta(q)) == 1 })
	require.Equal(t, wire.Empty, b.Do(q.Claim(1000)...))
	b.Must("DEL " + q.Meta())
	nobodyLooks()
	require.Len(t, wire.Value(b.Do(q.Claim(maxTime)...)), 3)
}

// Pauses end in each database, and the end of a pause wakes the clients that waited for it.
func TestEndedPausesOfDatabases(t *testing.T) {
	b := begin(t, soon)
	for db := range 3 {
		b.Must("SELECT "+strconv.Itoa(5*db), "SET "+wire.Identity+" "+wire.Wire6)
		require.Equal(t, []string{wire.OK, wire.Integer(1), wire.Empty},
			b.Pipeline([][]string{{"EMQ.PAUSE", q.Base(), "50"}, q.Enqueue("JOB1", "x"), q.Claim(60_000)}))
	}
	for db := range 3 {
		b.Must("SELECT " + strconv.Itoa(5*db))
		require.Len(t, wire.Value(b.Do("EMQ.BCLAIM", "60000", "0", q.Base())), 4)
		store.WaitFor(t, "the pause to be tidied", func() bool { return b.Do("EXISTS", q.Meta()) == wire.Integer(0) })
	}
	b.Must("FLUSHALL", "SELECT 0", "SET "+wire.Identity+" "+wire.Wire6)
}
