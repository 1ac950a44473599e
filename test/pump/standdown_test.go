package pump

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// waiting makes a job that becomes due and nine leases that expire, all in ms, and then runs some command lines, all in
// one pipeline, so that these take effect before. It returns the time by which all are due.
func (b *bed) waiting(ms int64, then ...string) (over int64, ids []string) {
	b.t.Helper()
	ids = b.enqueued(q, 10)
	var commands [][]string
	for range ids {
		commands = append(commands, q.Claim(ms))
	}
	commands = append(commands, q.Fail(ids[0], "1", ms, 3, "why"))
	for _, line := range then {
		commands = append(commands, wire.Words(line))
	}
	for i, reply := range b.Pipeline(commands) {
		require.False(b.t, wire.IsError(reply), "%q: %q", commands[i], reply)
	}
	return time.Now().UnixMilli() + ms, ids // by the machine's clock, because the server may not reply now
}

// moved waits until all these jobs are pending, and asserts that no lost lease was counted.
func (b *bed) moved(ids []string) {
	b.t.Helper()
	b.has(q.Pending(), len(ids))
	b.uncounted(q, ids...)
	require.Zero(b.t, b.stats()["stalled"])
}

// While writes are paused nothing moves, however long it is due; afterwards it does, and leases that expired meanwhile
// do not count.
func TestPauseWrite(t *testing.T) {
	b := begin(t, soon)
	s := b.Place.Conn()
	over, ids := b.waiting(200, "CLIENT PAUSE 600000 WRITE")
	paused := make(chan string, 1)
	digest, offset := b.digest(), b.Info("master_repl_offset")
	go func() { paused <- s.Do(q.Claim(maxTime)...) }() // this client is held back, and served later
	b.until(over + int64(store.Rounds(t, 300, 5000)))
	b.stoodDown(5)
	require.Equal(t, digest, b.digest())
	require.Equal(t, offset, b.Info("master_repl_offset"))
	require.Equal(t, 1, b.card(q.Schedule()))
	require.Equal(t, 9, b.card(q.Active()))
	b.Must("CLIENT UNPAUSE")
	if job := wire.Value(<-paused).([]any); len(job) == 3 { // the pump may have been first
		require.Equal(t, wire.Bulk("scheduled"), b.Do(q.Fail(job[0].(string), "2", 0, 3, "why")...))
	}
	b.moved(ids)
}

// A pause of writes, or a time as a replica, that begins and ends between two ticks also keeps leases that expired
// meanwhile from counting.
func TestBetweenTwoTicks(t *testing.T) {
	for name, between := range map[string]struct{ begin, end string }{
		"a pause":   {"CLIENT PAUSE 600000 WRITE", "CLIENT UNPAUSE"},
		"a replica": {"REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(t, never)
			b.ticks(0)
			store.WaitFor(t, "the first tick", func() bool { return b.stats()["ticks"] == 1 })
			over, ids := b.waiting(100, between.begin)
			b.until(over)
			b.Must(between.end, "PING") // with a turn of the event loop
			b.Must("CONFIG SET emq.max-stalled 4")
			b.moved(ids)
			require.Zero(t, b.stats()["skipped"])
		})
	}
}

// While all commands are paused the server can't be asked: its append-only file shows that nothing was written.
func TestPauseAll(t *testing.T) {
	b := begin(t, soon, "--appendonly", "yes", "--appendfsync", "always")
	file := filepath.Join(b.Dir, "appendonlydir", "appendonly.aof.1.incr.aof")
	size := func() int64 {
		info, err := os.Stat(file)
		require.NoError(t, err)
		return info.Size()
	}
	begin := time.Now()
	_, ids := b.waiting(200, "CLIENT PAUSE 800 ALL")
	from := size()
	store.WaitFor(t, "the pause to end", func() bool {
		now, over := size(), time.Since(begin) > 800*time.Millisecond
		require.True(t, over || now == from, "written in the pause")
		return over
	})
	b.moved(ids)
	require.Greater(t, size(), from)
}

// If min-replicas-to-write forbids writes, the pump writes nothing either.
func TestNoReplicas(t *testing.T) {
	b := begin(t, soon)
	over, ids := b.waiting(200, "CONFIG SET min-replicas-to-write 1")
	digest := b.digest()
	b.until(over)
	b.stoodDown(5)
	require.Equal(t, digest, b.digest())
	b.Must("CONFIG SET min-replicas-to-write 0")
	b.moved(ids)
}

// Nor if the server refuses writes because it can't save.
func TestDiskFails(t *testing.T) {
	b := begin(t, soon, "--save", "100000 1", "--stop-writes-on-bgsave-error", "yes")
	over, ids := b.waiting(1500)
	inTheWay := filepath.Join(b.Dir, "dump.rdb")
	require.NoError(t, os.Mkdir(inTheWay, 0o700))
	saved := func(status string) {
		b.Must("BGSAVE")
		store.WaitFor(t, "the save", func() bool { return b.Info("rdb_bgsave_in_progress") == "0" })
		require.Equal(t, status, b.Info("rdb_last_bgsave_status"))
	}
	saved("err")
	require.True(t, strings.HasPrefix(b.Do("SET", "x", "x"), "-MISCONF "))
	digest := b.digest()
	b.until(over)
	b.stoodDown(5)
	require.Equal(t, digest, b.digest())
	require.NoError(t, os.Remove(inTheWay))
	saved("ok")
	b.moved(ids)
}

// Leases that expired while the process was stopped, as by a debugger or a sleeping machine, do not count.
func TestStoppedProcess(t *testing.T) {
	b := begin(t, "100")
	ids := b.leased(q, 10, 500)
	require.NoError(t, b.Signal(syscall.SIGSTOP))
	sleep(t, 900*time.Millisecond)
	require.NoError(t, b.Signal(syscall.SIGCONT))
	b.moved(ids)
}

// Nor do those that expired while the server was busy with one command.
func TestBusyServer(t *testing.T) {
	b := begin(t, "100")
	_, ids := b.waiting(500, "DEBUG SLEEP 0.9")
	b.moved(ids)
}

// The wall clock jumps by an hour. Forward, leases expire and retries become due, but no lost lease is counted;
// backward, what is due by the new time is still done in time.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	shim, file := filepath.Join(dir, "clock.so"), filepath.Join(dir, "offset")
	out, err := exec.Command("gcc", "-std=c11", "-Wall", "-Wextra", "-O1", "-shared", "-fPIC", "-o", shim, "testdata/clock/clock.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	set := func(offset time.Duration) {
		n, text := int64(offset.Seconds()), make([]byte, 8)
		for i := range text {
			text[i] = byte(n >> (8 * i))
		}
		f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = f.Write(text)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	set(0)
	o := pumping("200")
	o.Env = []string{"LD_PRELOAD=" + shim, "CLOCK_OFFSET=" + file}
	b := serve(t, o)
	b.ticks(2)
	begun := b.Now()
	_, ids := b.waiting(10 * 60_000)

	set(time.Hour)
	// The server may cache the time for a turn of the event loop.
	store.WaitFor(t, "the clock to be set", func() bool { return b.Now() > begun+3_000_000 })
	b.moved(ids)

	// Ten leases of an hour are cut short: the clock goes back, and forward again.
	for _, id := range ids {
		require.Equal(t, wire.Claimed(id, "x", 2), b.Do(q.Claim(30*60_000)...))
	}
	set(0)
	store.WaitFor(t, "the clock to be set back", func() bool { return b.Now() < begun+3_000_000 })
	other := wire.Queue("other")
	b.leased(other, 2, 100)
	require.Equal(t, wire.Bulk("scheduled"), b.Do(other.Fail("JOB0000000", "1", 100, 3, "why")...))
	b.has(other.Pending(), 2)
	require.Equal(t, 10, b.card(q.Active()), "an hour and a half is left of them")
	// A lease that expires by the new time counts again, unless the machine was so slow that the server was not serving.
	store.WaitFor(t, "a lost lease to count", func() bool {
		b.Do(other.Claim(1)...)
		return b.stats()["stalled"] > 0
	})
	set(2 * time.Hour)
	b.moved2(q, ids)
}

func (b *bed) moved2(q wire.Queue, ids []string) {
	b.t.Helper()
	b.has(q.Pending(), len(ids))
	b.uncounted(q, ids...)
}

// A store that is not of our wire is left alone, whatever is due in it.
func TestAnothersStore(t *testing.T) {
	b := begin(t, "5")
	replica := store.Open(t, store.Plain(store.Following(b.Addr())...))
	b.Must("CONFIG SET repl-ping-replica-period 3600")
	replica.Linked()
	b.Place.Online()
	b.Must("CONFIG SET maxmemory-policy volatile-lfu") // so that a key's first accesses show
	for _, identity := range []string{"SET {emq}:version " + wire.Wire4, "DEL {emq}:version", "RPUSH {emq}:version " + wire.Wire6} {
		b.Must("FLUSHALL")
		b.put(q, "JOB1", "active", 1)
		b.put(q, "JOB2", "scheduled", 1)
		b.Must(identity, `ZADD emq:{q}:active 1 norow`, "SELECT 9", `ZADD emq:{q}:schedule 1 norow`, "SELECT 0")
		used := func() (counts []int64) {
			for _, key := range []string{q.Active(), q.Schedule(), q.Row("JOB1"), q.Row("JOB2")} {
				counts = append(counts, wire.Value(b.Do("OBJECT", "FREQ", key)).(int64))
			}
			return counts
		}
		before := used()
		var digest, offset string
		settle := func() (string, string) {
			require.Equal(t, wire.Integer(1), b.Do("WAIT", "1", "0"))
			return b.digest(), b.Info("master_repl_offset")
		}
		digest, _ = settle()
		offset = b.Info("master_repl_offset")
		b.ticks(int64(store.Rounds(t, 40, 4000)))
		require.Equal(t, digest, b.digest())
		// WAIT makes the primary send a command to its replica in the stream.
		require.Equal(t, offset, b.Info("master_repl_offset"), identity)
		for i, count := range used() { // the counts only decrease with time
			require.LessOrEqual(t, count, before[i], "a key counts as used")
		}
	}
	s := b.stats()
	require.Zero(t, s["promoted"]+s["returned"]+s["stalled"]+s["dropped"])
	b.Must("FLUSHALL")
}

// The settings take effect at once, and 0 stops the pump.
func TestSettingsAtOnce(t *testing.T) {
	b := begin(t, never)
	b.ticks(0)
	store.WaitFor(t, "the first tick", func() bool { return b.stats()["ticks"] == 1 })
	over, ids := b.waiting(1)
	b.until(over)
	require.EqualValues(t, 1, b.stats()["ticks"])
	require.Zero(t, b.card(q.Pending()))
	b.Must("CONFIG SET emq.pump-interval-ms " + soon)
	b.has(q.Pending(), len(ids))

	b.Must("CONFIG SET emq.pump-interval-ms 0")
	for _, id := range ids {
		require.Contains(t, b.Do(q.Claim(1)...), id)
	}
	b.until(b.Now() + 300)
	ticks := b.stats()["ticks"]
	require.Equal(t, len(ids), b.card(q.Active()))
	b.until(b.Now() + 100)
	require.Equal(t, ticks, b.stats()["ticks"])
	b.Must("CONFIG SET emq.pump-interval-ms " + soon)
	b.has(q.Pending(), len(ids))

	// Many times, and close to the next tick.
	for i := range 200 {
		b.Must("CONFIG SET emq.pump-interval-ms " + []string{"0", "1", never}[i%3])
	}
	b.Must("CONFIG SET emq.pump-interval-ms " + soon)
	b.ticks(3)
}

// Changing a setting does not keep leases from counting: those that expired while the pump was on are counted.
func TestSettingsExcuseNobody(t *testing.T) {
	b := begin(t, "2000")
	b.ticks(0)
	store.WaitFor(t, "the first tick", func() bool { return b.stats()["ticks"] >= 1 })
	ids := b.leased(q, 1, 1)
	b.until(b.Now() + 500)
	b.Must("CONFIG SET emq.pump-interval-ms 200")
	b.has(q.Pending(), 1)
	require.Equal(t, "1", b.field(q, ids[0], "stalled"))
}

// A stream of changed settings, one in each turn of the event loop, does not postpone the pump.
func TestSettingsWithoutEnd(t *testing.T) {
	b := begin(t, "1")
	b.ticks(1)
	before := b.stats()["ticks"]
	for n := range 5000 {
		b.Must(fmt.Sprintf("CONFIG SET emq.max-stalled %d", 3+n%2))
	}
	require.Greater(t, b.stats()["ticks"], before+20)
}

// The pump visits the queues of each database, wherever their keys come from.
func TestDatabases(t *testing.T) {
	b := begin(t, soon)
	const identity = "SET " + wire.Identity + " " + wire.Wire6
	// due is a set with one due entry, and its row, under names that are no queue's.
	due := func(state string) {
		b.Must(fmt.Sprintf("HSET row state %s attempts 1 payload x lease_epoch other", state), "ZADD set 1 JOB1")
	}
	set := q.Active()
	for name, move := range map[string][]string{
		"made there":            {"SELECT 9", "RENAME row " + q.Row("JOB1"), "RENAME set " + set},
		"RENAMENX":              {"SELECT 9", "RENAME row " + q.Row("JOB1"), "RENAMENX set " + set},
		"COPY":                  {"SELECT 9", "RENAME row " + q.Row("JOB1"), "COPY set " + set, "DEL set"},
		"COPY from a database":  {"SELECT 9", "RENAME row " + q.Row("JOB1"), "RENAME set {emq}x", "SELECT 8", "COPY {emq}x " + set + " DB 9", "SELECT 9"},
		"ZUNIONSTORE":           {"SELECT 9", "RENAME row " + q.Row("JOB1"), "ZUNIONSTORE " + set + " 1 set", "DEL set"},
		"over another type":     {"SELECT 9", "SET " + set + " x", "RENAME row " + q.Row("JOB1"), "ZUNIONSTORE " + set + " 1 set", "DEL set"},
		"MOVE":                  {"SELECT 8", "RENAME row " + q.Row("JOB1"), "RENAME set " + set, "MOVE " + q.Row("JOB1") + " 9", "MOVE " + set + " 9", "SELECT 9"},
		"MOVE, all at once":     {"SELECT 8", "RENAME row " + q.Row("JOB1"), "RENAME set " + set, "MULTI", "MOVE " + q.Row("JOB1") + " 9", "MOVE " + set + " 9", "EXEC", "SELECT 9"},
		"SWAPDB":                {"SELECT 8", "RENAME row " + q.Row("JOB1"), "RENAME set " + set, "SWAPDB 8 9", "SELECT 9"},
		"RESTORE":               {"SELECT 9", "RENAME row " + q.Row("JOB1"), "RESTORE", "DEL set"},
		"a schedule, by RENAME": {"SELECT 9", "HSET row state scheduled", "RENAME row " + q.Row("JOB1"), "RENAME set " + q.Schedule()},
	} {
		b.Must("CONFIG SET emq.pump-interval-ms 0", "FLUSHALL")
		for _, line := range move {
			switch {
			case strings.HasPrefix(line, "SELECT") && line == move[0]:
				b.Must(line)
				if line == "SELECT 9" || strings.Contains(strings.Join(move, " "), "SWAPDB") {
					b.Must(identity)
				} else {
					b.Must("SELECT 9", identity, line)
				}
				due("active")
			case strings.HasPrefix(line, "COPY {emq}x"):
				b.Must("SELECT 9", "MOVE {emq}x 8", "SELECT 8", line, "DEL {emq}x")
			case line == "RESTORE":
				b.Must("RESTORE " + set + " 0 " + strconv.Quote(wire.Value(b.Do("DUMP", "set")).(string)))
			default:
				b.Must(line)
			}
		}
		require.Equal(t, wire.Integer(0), b.Do("EXISTS", q.Pending()), name)
		b.Must("CONFIG SET emq.pump-interval-ms " + soon)
		b.has(q.Pending(), 1)
		require.Empty(t, store.Read(t, b.Place.Conn())[9].Check(wire.Wire6), name)
		b.Must("SELECT 0")
	}
	// Flushed queues are forgotten, but not those that come afterwards.
	b.Must("FLUSHALL")
	require.Zero(t, b.stats()["queues"])
	require.Zero(t, b.stats()["queues_bytes"])
	b.Must("SELECT 15", identity)
	b.leased(q, 10, 1)
	b.has(q.Pending(), 10)
	b.Must("SELECT 14", identity)
	b.leased(q, 10, 1)
	b.Must("FLUSHDB ASYNC", identity)
	b.leased(q, 5, 1)
	b.has(q.Pending(), 5)
	b.Must("SELECT 0", "FLUSHALL")
}

// Ten thousand emptied queues cost nothing any more.
func TestManyQueues(t *testing.T) {
	b := begin(t, soon)
	n := store.Rounds(t, 10_000, 10_000)
	resident := func() int {
		b.Must("MEMORY PURGE")
		bytes, err := strconv.Atoi(b.Info("used_memory"))
		require.NoError(t, err)
		return bytes
	}
	before := resident()
	script := `for i = 1, ARGV[1] do
		local base = 'emq:{q' .. i .. '}:'
		redis.call('HSET', base .. 'job:JOB1', 'state', 'active', 'attempts', '1', 'payload', 'x', 'lease_epoch', 'other')
		redis.call('ZADD', base .. 'active', i, 'JOB1')
		redis.call('ZADD', base .. 'schedule', ARGV[2], 'JOB2')
		redis.call('HSET', base .. 'job:JOB2', 'state', 'scheduled', 'attempts', '0', 'payload', 'x')
	end`
	require.Equal(t, wire.Nil, b.Do("EVAL", script, "0", strconv.Itoa(n), far))
	require.EqualValues(t, n, b.stats()["queues"])
	store.WaitFor(t, "all to be returned", func() bool { return b.stats()["returned"] == int64(n) })
	b.ticks(2)
	require.EqualValues(t, n, b.stats()["queues"], "each has a schedule")
	empty := `for i = 1, ARGV[1] do
		local base = 'emq:{q' .. i .. '}:'
		redis.call('DEL', base .. 'job:JOB1', base .. 'job:JOB2', base .. 'schedule', base .. 'pending')
	end`
	require.Equal(t, wire.Nil, b.Do("EVAL", empty, "0", strconv.Itoa(n)))
	store.WaitFor(t, "all to be forgotten", func() bool { return b.stats()["queues"] == 0 })
	require.Zero(t, b.stats()["queues_bytes"])
	b.Must("SCRIPT FLUSH SYNC")
	store.WaitFor(t, "the memory to come back", func() bool { return resident() < before+1<<20 })
	spent := b.stats()
	b.ticks(10)
	after := b.stats()
	t.Logf("%d µs a tick with no queue known", (after["time_us"]-spent["time_us"])/(after["ticks"]-spent["ticks"]))
}

// A module that is loaded at run time finds the existing work.
func TestLoadAtRunTime(t *testing.T) {
	t.Parallel()
	b := serve(t, store.Plain())
	for _, db := range []string{"0", "9"} {
		b.Must("SELECT "+db, "SET "+wire.Identity+" "+wire.Wire6)
		for i := range 1000 {
			b.Must(fmt.Sprintf("SET other:%d x", i))
		}
		b.put(q, "JOB1", "active", 1)
		b.put(q, "JOB2", "scheduled", 1)
	}
	require.Equal(t, wire.OK, b.Do("MODULE", "LOADEX", os.Getenv("EMQ_MODULE_DEBUG"), "CONFIG", "emq.pump-interval-ms", soon))
	b.has(q.Pending(), 2)
	b.Must("SELECT 0")
	b.has(q.Pending(), 2)
}
