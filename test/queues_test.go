package test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
)

// The register of queues, as EMQ.DEBUG shows it. The pump is off in these tests, because it would forget queues by itself.

// knowing starts a server with the debug build; its key space is not checked.
func knowing(t *testing.T, args ...string) *fixture {
	t.Helper()
	return start(t, withDebugModule(args...)).attachPlain(t)
}

// known returns the number of known queues, their bytes, and the database and base of each, sorted.
func (st *fixture) known() (count, bytes int64, list []string) {
	st.t.Helper()
	all := value(st.Do("EMQ.DEBUG", "QUEUES")).([]any)
	for _, q := range all[2:] {
		list = append(list, at(q))
	}
	slices.Sort(list)
	require.Len(st.t, list, int(all[0].(int64)))
	return all[0].(int64), all[1].(int64), list
}

func at(q any) string { return fmt.Sprintf("%d %s", q.([]any)[0], q.([]any)[1]) }

// knows asserts which queues are known.
func (st *fixture) knows(want ...string) {
	st.t.Helper()
	slices.Sort(want)
	_, _, list := st.known()
	require.Equal(st.t, want, list)
}

// hearsAll reports whether the module receives an event for every new key. On releases from 8.1 to 9.1.1 that would
// leave the clients of COPY and MOVE in the wrong database, so there the module listens to fewer events, and scans.
func (st *fixture) hearsAll() bool {
	var main, minor, patch int
	_, err := fmt.Sscanf(st.Info("valkey_version"), "%d.%d.%d", &main, &minor, &patch)
	require.NoError(st.t, err)
	version := main<<16 | minor<<8 | patch
	return version < 0x80100 || version >= 0x90102
}

// soonKnows is knows, but waits for queues that only a scan finds.
func (st *fixture) soonKnows(want ...string) {
	st.t.Helper()
	slices.Sort(want)
	waitFor(st.t, "all to be known", func() bool {
		_, _, list := st.known()
		return slices.Equal(list, want)
	})
}

// far is a score that is never due.
const far = "9000000000000"

// A queue becomes known when one of its five keys is created, by whomever and in whichever database; the pump visits it
// if that key is schedule, active or meta.
func TestQueuesBecomeKnown(t *testing.T) {
	st := knowing(t)
	st.Must("ZADD x " + far + " JOB1")
	dump := value(st.Do("DUMP", "x")).(string)
	for _, tt := range []struct {
		name  string
		lines []string
		known string // with a ! before it if the pump has nothing to do for it
	}{
		{"a pending", []string{"ZADD emq:{q}:pending 0 JOB1"}, "!0 emq:{q}:"},
		{"a dead", []string{"ZADD emq:{q}:dead 0 JOB1"}, "!0 emq:{q}:"},
		{"a meta", []string{"HSET emq:{q}:meta paused 1"}, "0 emq:{q}:"},
		{"a pending and a dead", []string{"ZADD emq:{q}:pending 0 JOB1", "ZADD emq:{q}:dead 0 JOB2"}, "!0 emq:{q}:"},
		{"a pending, then a schedule", []string{"ZADD emq:{q}:pending 0 JOB1", "ZADD emq:{q}:schedule " + far + " JOB2"}, "0 emq:{q}:"},
		{"a dead, then a meta", []string{"ZADD emq:{q}:dead 0 JOB1", "HSET emq:{q}:meta concurrency 1"}, "0 emq:{q}:"},
		{"an enqueue", []string{"EMQ.ENQUEUE 2 emq:{q}:job:JOB1 emq:{q}:pending JOB1 x"}, "!0 emq:{q}:"},
		{"a pause", []string{"EMQ.PAUSE emq:{q}: 0"}, "0 emq:{q}:"},
		{"a limit", []string{"EMQ.LIMIT emq:{q}: 1 0 0"}, "0 emq:{q}:"},
		{"a pause in a transaction", []string{"MULTI", "EMQ.PAUSE emq:{q}: 0", "EXEC"}, "0 emq:{q}:"},
		{"COPY of a meta", []string{"HSET y paused 1", "COPY y emq:{q}:meta"}, "0 emq:{q}:"},
		{"RENAME to a dead", []string{"ZADD y 0 JOB1", "RENAME y emq:{q}:dead"}, "!0 emq:{q}:"},
		{"an active set", []string{"ZADD emq:{q}:active " + far + " JOB1"}, "0 emq:{q}:"},
		{"a schedule", []string{"ZADD emq:{q}:schedule " + far + " JOB1"}, "0 emq:{q}:"},
		{"another database", []string{"SELECT 7", "ZADD emq:{q}:active " + far + " JOB1", "SELECT 0"}, "7 emq:{q}:"},
		{"a transaction", []string{"MULTI", "ZADD emq:{q}:active " + far + " JOB1", "EXEC"}, "0 emq:{q}:"},
		{"a script", []string{`EVAL "redis.call('ZADD',KEYS[1],9e12,'JOB1')" 1 emq:{q}:active`}, "0 emq:{q}:"},
		{"a claim", []string{"EMQ.ENQUEUE 2 emq:{q}:job:JOB1 emq:{q}:pending JOB1 x", "EMQ.CLAIM 2 emq:{q}:pending emq:{q}:active emq:{q}:job: 60000"}, "0 emq:{q}:"},
		{"a claim in a transaction", []string{"EMQ.ENQUEUE 2 emq:{q}:job:JOB1 emq:{q}:pending JOB1 x", "MULTI", "EMQ.CLAIM 2 emq:{q}:pending emq:{q}:active emq:{q}:job: 60000", "EXEC"}, "0 emq:{q}:"},
		{"a failure", []string{
			"HSET emq:{q}:job:JOB1 state active attempts 1 payload x", "ZADD emq:{q}:pending 0 JOB1",
			`EMQ.FAIL 4 emq:{q}:active emq:{q}:schedule emq:{q}:dead emq:{q}:job:JOB1 JOB1 1 100000 5 why emq:{q}:`,
		}, "0 emq:{q}:"},
		{"RENAME", []string{"ZADD y " + far + " JOB1", "RENAME y emq:{q}:active"}, "0 emq:{q}:"},
		{"RENAMENX", []string{"ZADD y " + far + " JOB1", "RENAMENX y emq:{q}:active"}, "0 emq:{q}:"},
		{"COPY", []string{"ZADD y " + far + " JOB1", "COPY y emq:{q}:active"}, "0 emq:{q}:"},
		{"COPY to a database", []string{"ZADD y " + far + " JOB1", "COPY y emq:{q}:active DB 9"}, "9 emq:{q}:"},
		{"RESTORE", []string{"RESTORE emq:{q}:schedule 0 " + strconv.Quote(dump)}, "0 emq:{q}:"},
		{"ZUNIONSTORE", []string{"ZADD y " + far + " JOB1", "ZUNIONSTORE emq:{q}:active 1 y"}, "0 emq:{q}:"},
		{"both sets", []string{"ZADD emq:{q}:schedule " + far + " JOB1", "ZADD emq:{q}:active " + far + " JOB1"}, "0 emq:{q}:"},
		{"bytes", []string{`ZADD "emq:{\xff\r\n: q}:active" ` + far + " JOB1"}, "0 emq:{\xff\r\n: q}:"},
		{"a long name", []string{"ZADD emq:{" + strings.Repeat("q", 100_000) + "}:active " + far + " JOB1"}, "0 emq:{" + strings.Repeat("q", 100_000) + "}:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st.t = t
			st.Must("FLUSHALL")
			st.knows()
			st.Must("SET {emq}:version echomq:6.0.0")
			known, idle := strings.CutPrefix(tt.known, "!")
			run := func() {
				t.Helper()
				for _, line := range tt.lines {
					require.NotEqual(t, byte('-'), st.Run(line)[0], line)
				}
				if st.hearsAll() || !slices.ContainsFunc(unheard, func(verb string) bool { return strings.HasPrefix(tt.name, verb) }) {
					st.knows(known)
				} else {
					st.soonKnows(known)
				}
			}
			run()
			if idle {
				require.Equal(t, nothing, st.Do("EMQ.DEBUG", "NEXT"))
				return
			}
			// A forgotten queue that comes again is known again.
			require.Equal(t, known, at(value(st.Do("EMQ.DEBUG", "NEXT"))))
			require.Equal(t, integer(1), st.Do("EMQ.DEBUG", "FORGET"))
			require.Equal(t, integer(1), st.Do("EMQ.DEBUG", "FORGET"), "twice is once")
			require.Equal(t, nothing, st.Do("EMQ.DEBUG", "NEXT"))
			st.knows()
			st.Must("FLUSHALL", "SET {emq}:version echomq:6.0.0")
			run()
		})
	}
	t.Run("MOVE", func(t *testing.T) {
		st.t = t
		st.Must("FLUSHALL", "ZADD emq:{q}:active "+far+" JOB1", "MOVE emq:{q}:active 5")
		waitFor(t, "the moved to be known", func() bool {
			_, _, list := st.known()
			return slices.Contains(list, "5 emq:{q}:")
		})
	})
	t.Run("what is none", func(t *testing.T) {
		st.t = t
		st.Must("FLUSHALL")
		for _, key := range []string{
			"", "e", "g", "emq:{", "emq:{}:active", "emq:{}:pending", "emq:{q}:job:JOB1", "emq:{q}:activ", "emq:{q}:active ",
			"xemq:{q}:active", "emq:{q:active", "emq:q}:active", "emq:{q}active", "emq:{a}:b}:active", "emq:{{q}:active", "emq:{a{b}:schedule",
			"emq:{a\x00b}:active", "emq:{\x00}:schedule", "}:active", "}:schedule", "emq:}:active", "emq:{}:schedule", "EMQ:{q}:active",
			"emq:{q}:xpending", "emq:{q}:pendin", "emq:{q}:deadd", "emq:{q}:metaa", "emq:{q}:metrics:failed", "emq:{q}:}:meta", "}:meta", "emq:}:dead",
			"emq:{q}meta", "emq:{a}:b}:dead", "emq:{a\x00b}:pending", "emq:{q}:lane:pending",
		} {
			require.Equal(t, integer(1), st.Do("ZADD", key, far, "JOB1"), "%q", key)
		}
		st.knows()
		count, bytes, _ := st.known()
		require.Zero(t, count)
		require.Zero(t, bytes)
	})
}

// unheard are the commands whose new keys cause no event that the module receives if hearsAll is false.
var unheard = []string{"RENAME", "COPY", "MOVE", "RESTORE"}

// The module's subscription to events must not affect the clients that cause them: after COPY and MOVE to another
// database, the client, the transaction, the script and the append-only file are still in their own database.
func TestClientsStayInTheirDatabase(t *testing.T) {
	st := start(t, withModule("--appendonly", "yes", "--aof-use-rdb-preamble", "no")).attachPlain(t)
	in := func(db string) { t.Helper(); require.Contains(t, st.Do("CLIENT", "INFO"), " db="+db+" ") }
	st.Must("SELECT 2", "SET a 1", "MOVE a 3")
	in("2")
	for _, key := range []string{"x", "emq:{q}:active", "emq:{q}:schedule"} {
		st.Must("SELECT 2", "ZADD "+key+" "+far+" JOB1", "COPY "+key+" "+key+" DB 9", "MOVE "+key+" 4")
		in("2")
	}
	st.Must("SELECT 2", "HSET emq:{q}:meta paused 1", "COPY emq:{q}:meta emq:{q}:meta DB 9", "MOVE emq:{q}:meta 4")
	in("2")
	st.Must("ZADD x " + far + " JOB1")
	st.Must("MULTI", "COPY x z DB 9", "MOVE x 5", "SET in-transaction 1", "EXEC")
	in("2")
	st.reply(integer(1), "EXISTS in-transaction")
	st.Must("ZADD x "+far+" JOB1", `EVAL "redis.call('COPY',KEYS[1],KEYS[1],'DB',6) redis.call('SET',KEYS[2],1)" 2 x in-script`)
	in("2")
	st.reply(integer(1), "EXISTS in-script")
	st.Must("SET last 1")
	want := st.digest()
	var stream []string
	for _, args := range st.s.Appended("incr") {
		if strings.EqualFold(args[0], "SELECT") {
			stream = append(stream, args[1])
		}
	}
	require.Equal(t, "2", stream[len(stream)-1])
	require.NotContains(t, stream, "9", "nothing was done in another database")
	st.Must("DEBUG LOADAOF")
	require.Equal(t, want, st.digest())
}

// stock fills some databases with queues and other keys, and returns the queues.
func (st *fixture) stock(n int) (queues []string) {
	st.t.Helper()
	for _, db := range []int{0, 3, 15} {
		commands := [][]string{{"SELECT", strconv.Itoa(db)}}
		for i := range n {
			q := queue(fmt.Sprintf("q%d-%d", db, i))
			commands = append(commands, []string{"ZADD", []string{q.Active(), q.Schedule()}[i%2], far, "JOB1"},
				[]string{"SET", fmt.Sprintf("other %d", i), "x"}, []string{"ZADD", q.Pending(), "0", "JOB2"})
			queues = append(queues, fmt.Sprintf("%d %s", db, q.Base()))
		}
		st.Pipeline(commands)
	}
	st.Must("SELECT 0")
	slices.Sort(queues)
	return queues
}

// Stored queues are known after a restart from a snapshot or an append-only file, and after a reload.
func TestQueuesComeBack(t *testing.T) {
	for kind, settings := range map[string][]string{
		"append-only file":               {"--appendonly", "yes"},
		"append-only file, all commands": {"--appendonly", "yes", "--aof-use-rdb-preamble", "no"},
		"snapshot":                       {"--save", "100000 1"},
	} {
		t.Run(kind, func(t *testing.T) {
			s := start(t, withDebugModule(settings...))
			var queues []string
			for round := range 3 {
				if round > 0 {
					require.NoError(t, s.Stop())
					s.Start()
				}
				st := s.attachPlain(t)
				if round == 0 {
					queues = st.stock(200)
					st.Must("ZADD x "+far+" JOB1", "COPY x emq:{copied}:active DB 7")
					queues = append(queues, "7 emq:{copied}:")
					slices.Sort(queues)
				}
				st.soonKnows(queues...) // at once, except for the copy on a server without an event for it
				if strings.HasPrefix(kind, "append-only") {
					if round == 1 {
						st.Must("BGREWRITEAOF")
						waitFor(t, "the rewrite", func() bool {
							return st.Info("aof_rewrite_in_progress") == "0" && st.Info("aof_rewrite_scheduled") == "0"
						})
					}
					st.Must("DEBUG LOADAOF")
					st.soonKnows(queues...)
				}
				st.Must("DEBUG RELOAD")
				st.knows(queues...)
				st.Must("DEBUG RELOAD MERGE NOFLUSH")
				st.knows(queues...)
			}
		})
	}
}

// A replica knows the queues of its primary, from the snapshot, however that is sent, and from the stream; so it knows
// all of them when it is promoted. It forgets queues that are gone, although its pump does not run.
func TestQueuesOnAReplica(t *testing.T) {
	for _, primary := range []string{"yes", "no"} {
		for _, load := range []string{"disabled", "on-empty-db", "swapdb"} {
			t.Run("diskless-sync "+primary+"/diskless-load "+load, func(t *testing.T) {
				st := knowing(t, "--repl-diskless-sync", primary, "--repl-backlog-size", "16384")
				queues := st.stock(200)
				host, port, _ := strings.Cut(st.s.Addr(), ":")

				r := knowing(t, "--repl-diskless-load", load)
				if load != "on-empty-db" {
					r.Must("ZADD emq:{old}:active " + far + " JOB1")
				}
				linked := func() {
					t.Helper()
					r.s.Linked()
					st.inStep("1")
				}
				has := func() {
					t.Helper()
					_, _, list := r.known()
					require.Subset(t, list, queues)
				}
				r.Must("REPLICAOF " + host + " " + port)
				linked()
				has()

				// From the stream.
				st.Must("ZADD emq:{new}:schedule "+far+" JOB1", "MULTI", "SELECT 4", "ZADD emq:{new}:active "+far+" JOB1", "EXEC", "SELECT 0")
				queues = append(queues, "0 emq:{new}:", "4 emq:{new}:")
				st.inStep("1")
				has()

				// A full synchronisation with the same primary: the old data are served while the snapshot is loaded.
				r.Must("REPLICAOF " + host + " 1")
				st.Must("ZADD emq:{newer}:schedule " + far + " JOB1")
				queues = append(queues, "0 emq:{newer}:")
				st.Must("SET filler " + strings.Repeat("x", 1<<20))
				syncs := st.Info("sync_full")
				r.Must("CONFIG SET key-load-delay 300 loading-process-events-interval-bytes 1024")
				r.Must("REPLICAOF " + host + " " + port)
				if load == "swapdb" {
					waitFor(t, "the snapshot to be loaded beside", func() bool { return r.Info("async_loading") == "1" })
					_, _, list := r.known()
					require.Contains(t, list, "0 emq:{new}:", "what is served is still known")
				}
				linked()
				require.NotEqual(t, syncs, st.Info("sync_full"))
				has()
				for range 20 { // turns of the event loop, each of which checks for queues that are gone
					r.Must("PING")
				}
				has()

				// A flush on the primary flushes the replica.
				st.Must("SELECT 3", "FLUSHDB", "SELECT 0")
				st.inStep("1")
				queues = slices.DeleteFunc(queues, func(q string) bool { return strings.HasPrefix(q, "3 ") })
				has()
				_, _, list := r.known()
				for _, q := range list {
					require.NotEqual(t, "3 ", q[:2])
				}
				st.Must("SWAPDB 0 9")
				st.inStep("1")
				for i, q := range queues {
					if rest, ok := strings.CutPrefix(q, "0 "); ok {
						queues[i] = "9 " + rest
					}
				}
				has()

				r.Must("REPLICAOF NO ONE")
				has()
				st.Must("FLUSHALL")
				st.knows()
				require.NotContains(t, r.s.Log(), "Skipping diskless-load", "the module would be the reason")
			})
		}
	}
}

// The register follows every kind of flush, and a swap, at once.
func TestQueuesFlushedAndSwapped(t *testing.T) {
	st := knowing(t)
	for _, how := range []string{"", " SYNC", " ASYNC"} {
		in := func(db string) {
			st.Must("SELECT "+db, "ZADD emq:{a}:active "+far+" JOB1", "ZADD emq:{b"+db+"}:schedule "+far+" JOB1")
		}
		in("2")
		in("4")
		st.knows("2 emq:{a}:", "2 emq:{b2}:", "4 emq:{a}:", "4 emq:{b4}:")
		st.Must("SWAPDB 2 4")
		st.knows("4 emq:{a}:", "4 emq:{b2}:", "2 emq:{a}:", "2 emq:{b4}:")
		st.Must("SWAPDB 2 2", "SWAPDB 9 10")
		st.knows("4 emq:{a}:", "4 emq:{b2}:", "2 emq:{a}:", "2 emq:{b4}:")
		st.Must("SELECT 4", "FLUSHDB"+how)
		st.knows("2 emq:{a}:", "2 emq:{b4}:")
		st.Must("MULTI", "FLUSHALL"+how, "ZADD emq:{c}:active "+far+" JOB1", "EXEC")
		st.knows("4 emq:{c}:")
		st.Must("SELECT 0", "FLUSHALL"+how)
		st.knows()
		_, bytes, _ := st.known()
		require.Zero(t, bytes)
	}
}

// Keys that another module creates at the end of a flush stay known, even if that module was loaded first and so gets
// the event first.
func TestQueuesMadeAtTheEndOfAFlush(t *testing.T) {
	st := knowing(t, "--loadmodule", testModule(t, "meddler"))
	for _, flush := range []string{"FLUSHALL SYNC", "FLUSHALL ASYNC", "FLUSHDB SYNC", "FLUSHDB ASYNC"} {
		st.Must("ZADD emq:{old}:active "+far+" JOB1", "MEDDLER.ON flushed x ZADD emq:{new}:active "+far+" JOB1", flush)
		st.reply("+done\r\n", "MEDDLER.LEFT")
		st.knows("0 emq:{new}:")
	}
}

// A module that is loaded at run time scans the store, even while clients change it.
func TestQueuesOfAStoreThatWasThere(t *testing.T) {
	load := func(st *fixture) {
		st.Must("MODULE LOADEX " + os.Getenv("EMQ_MODULE_DEBUG") + " CONFIG emq.pump-interval-ms 0")
	}
	t.Run("at rest", func(t *testing.T) {
		st := start(t, withoutModule()).attachPlain(t)
		queues := st.stock(5000)
		load(st)
		st.soonKnows(queues...)
	})
	t.Run("empty", func(t *testing.T) {
		st := start(t, withoutModule()).attachPlain(t)
		load(st)
		st.knows()
	})
	t.Run("a replica", func(t *testing.T) {
		s := start(t, withoutModule())
		queues := s.attachPlain(t).stock(1000)
		st := follow(t, s).attachPlain(t)
		load(st)
		st.soonKnows(queues...)
	})
	t.Run("swapped meanwhile", func(t *testing.T) {
		st := start(t, withoutModule()).attachPlain(t)
		queues := st.stock(10_000)
		load(st)
		for i := range 21 {
			st.Must("SWAPDB 0 15", fmt.Sprintf("ZADD emq:{more%d}:active %s JOB1", i, far))
		}
		swap := map[string]string{"0 ": "15 ", "15": "0"}
		for i, q := range queues {
			if to, ok := swap[q[:2]]; ok {
				queues[i] = to + q[2:]
			}
		}
		for i := range 21 {
			queues = append(queues, fmt.Sprintf("%d emq:{more%d}:", i%2*15, i))
		}
		slices.Sort(queues)
		st.soonKnows(queues...)
	})
	t.Run("flushed meanwhile", func(t *testing.T) {
		st := start(t, withoutModule()).attachPlain(t)
		st.stock(10_000)
		load(st)
		st.Must("FLUSHALL", "ZADD emq:{q}:active "+far+" JOB1")
		for range 100 {
			st.knows("0 emq:{q}:")
		}
	})
}

// A round visits once each queue that it began with and that is still known, whatever is added and removed meanwhile; and no
// existing queue is unknown. Random steps are compared with a list.
func TestQueuesInRounds(t *testing.T) {
	seed := store.Seed(t)
	dice := rand.New(rand.NewPCG(seed, 1))
	st := knowing(t)
	there := map[string]bool{}   // the sets that exist: "db base"
	waiting := map[string]bool{} // what the round has still to visit, if it is still known
	visited, inRound := "", false
	key := func() (db int, q queue, name string) {
		db, q = dice.IntN(4), queue(fmt.Sprintf("q%d", dice.IntN(300)))
		return db, q, fmt.Sprintf("%d %s", db, q.Base())
	}
	for range store.Rounds(t, 20_000, 200_000) {
		switch step := dice.IntN(100); {
		case step < 40:
			db, q, name := key()
			st.Pipeline([][]string{{"SELECT", strconv.Itoa(db)}, {"ZADD", q.Active(), far, "JOB1"}})
			there[name] = true
		case step < 60:
			db, q, name := key()
			st.Pipeline([][]string{{"SELECT", strconv.Itoa(db)}, {"DEL", q.Active()}})
			delete(there, name)
			delete(waiting, name) // it may be forgotten at any time
		case step < 99:
			reply := value(st.Do("EMQ.DEBUG", "NEXT"))
			if reply == nil {
				for name := range waiting {
					require.False(t, there[name], "the round ended without %s", name)
				}
				visited, inRound = "", false
				break
			}
			visited = at(reply)
			if !inRound {
				inRound, waiting = true, map[string]bool{}
				for name := range there {
					waiting[name] = true
				}
			}
			delete(waiting, visited)
			if !there[visited] {
				require.Equal(t, integer(1), st.Do("EMQ.DEBUG", "FORGET"))
			}
		case dice.IntN(10) > 0:
			_, _, list := st.known()
			for name := range there {
				_, found := slices.BinarySearch(list, name)
				require.True(t, found, name)
			}
		default:
			db := dice.IntN(4)
			st.Pipeline([][]string{{"SELECT", strconv.Itoa(db)}, {"FLUSHDB"}})
			for name := range there {
				if strings.HasPrefix(name, strconv.Itoa(db)+" ") {
					delete(there, name)
					delete(waiting, name)
				}
			}
		}
	}
}

// Memory and time shrink with the number of queues; and without the pump, queues that are gone do not accumulate, by
// whichever key they were known.
func TestQueuesAreForgotten(t *testing.T) {
	const n = 10_000
	st := knowing(t)
	st.comeAndGo(n, 5, func() {})
	// The memory shrinks gradually, not only when the last queue goes.
	st.Must("FLUSHALL")
	var add [][]string
	for i := range n {
		add = append(add, []string{"ZADD", queue(fmt.Sprintf("last, queue %d", i)).Active(), far, "JOB1"})
	}
	st.Pipeline(add)
	left, _, _ := st.known()
	for ; st.Do("EMQ.DEBUG", "NEXT") != nothing; left-- {
		if left == 1 {
			_, bytes, _ := st.known()
			require.Less(t, bytes, int64(1000))
		}
		st.Do("EMQ.DEBUG", "FORGET")
	}
	require.Zero(t, left)
	count, bytes, _ := st.known()
	require.Zero(t, count)
	require.Zero(t, bytes)
}

// The same on a replica, where the pump does nothing, and with the pump on.
func TestQueuesAreForgottenElsewhere(t *testing.T) {
	const n = 5000
	t.Run("a replica", func(t *testing.T) {
		st := start(t, withoutModule()).attachPlain(t)
		r := knowing(t, store.Following(st.s.Addr())...)
		r.s.Linked()
		r.Must("CONFIG SET emq.pump-interval-ms 10")
		r.comesAndGoes(st, n, 5, func() { st.inStep("1") })
	})
	t.Run("a pump", func(t *testing.T) {
		st := knowing(t)
		st.Must("SET {emq}:version "+wire6, "CONFIG SET emq.pump-interval-ms 1")
		st.comeAndGo(n, 5, func() {})
	})
}

func (st *fixture) comeAndGo(n, rounds int, settled func()) { st.comesAndGoes(st, n, rounds, settled) }

// comesAndGoes creates n queues in each round on one server, by each of their keys in turn, and removes them; the
// register of `on`, which may be the same server, never has more than about twice that number.
func (st *fixture) comesAndGoes(on *fixture, n, rounds int, settled func()) {
	st.t.Helper()
	for round := range rounds {
		for kind := range makes("x") {
			var add, del [][]string
			for i := range n {
				command := makes(queue(fmt.Sprintf("round %d, %s, %d", round, kind, i)))[kind]
				add = append(add, command)
				del = append(del, []string{"DEL", command[1]})
			}
			on.Pipeline(add)
			settled()
			count, _, _ := st.known()
			require.GreaterOrEqual(st.t, count, int64(n))
			on.Pipeline(del)
			settled()
			count, bytes, _ := st.known()
			require.LessOrEqual(st.t, count, int64(2*n))
			require.Less(st.t, bytes, int64(2*n*300))
		}
	}
}
