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
	"emq/test/wire"
)

// EMQ.QUEUES: what it lists, for whom, and wherever the queues come from. queues_test.go tests the register behind it.

// part is one part of the list, as the caller sees it.
func part(c *wire.Conn, after string, count int) []string {
	bases := []string{}
	for _, base := range value(c.Do(wire.Queues(after, count)...)).([]any) {
		bases = append(bases, base.(string))
	}
	return bases
}

// parts is the whole list, read in parts of count; `between` is called before each further part.
func parts(c *wire.Conn, count int, between ...func()) (all []string) {
	for after := ""; ; {
		some := part(c, after, count)
		all = append(all, some...)
		if len(some) < count || some[0] <= after { // the latter would never end
			return all
		}
		after = some[len(some)-1]
		for _, happen := range between {
			happen()
		}
	}
}

// lists asserts the whole list.
func (st *fixture) lists(want ...string) {
	st.t.Helper()
	slices.Sort(want)
	if want == nil {
		want = []string{}
	}
	require.Equal(st.t, want, part(st.Conn, "", 1000))
}

// soonLists is lists, but waits for queues that only a scan finds.
func (st *fixture) soonLists(want ...string) {
	st.t.Helper()
	slices.Sort(want)
	waitFor(st.t, fmt.Sprintf("the list to be %q", want), func() bool { return slices.Equal(want, part(st.Conn, "", 1000)) })
}

// makes are commands that make one key of a queue each, by which it is listed.
func makes(q queue) map[string][]string {
	return map[string][]string{
		"pending":  {"ZADD", q.Pending(), "0", "JOB1"},
		"active":   {"ZADD", q.Active(), far, "JOB1"},
		"schedule": {"ZADD", q.Schedule(), far, "JOB1"},
		"dead":     {"ZADD", q.Dead(), "0", "JOB1"},
		"meta":     {"HSET", q.Meta(), "paused", "1"},
	}
}

// anyKey makes one of the keys of a queue.
func anyKey(dice *rand.Rand, q queue) []string {
	kinds := []string{"pending", "active", "schedule", "dead", "meta"}
	return makes(q)[kinds[dice.IntN(len(kinds))]]
}

// anyName is a queue's name of any bytes, often one that another begins with.
func anyName(dice *rand.Rand) queue {
	alphabet := []byte("ab:\x01\xff\x7f \r\n|~zJ")
	name := make([]byte, 1+dice.IntN(6))
	for i := range name {
		name[i] = alphabet[dice.IntN(len(alphabet))]
	}
	if dice.IntN(20) == 0 {
		return queue(strings.Repeat(string(name), 1000))
	}
	return queue(name)
}

// The list is in the byte order of the bases. Each part begins after the given bytes, which may be any, and is full
// unless it is the last.
func TestListInOrder(t *testing.T) {
	dice := rand.New(rand.NewPCG(store.Seed(t), 14))
	st := knowing(t)
	st.lists()
	require.Empty(t, part(st.Conn, "\xff", 1))
	var want []string
	var commands [][]string
	for range 2000 {
		q := anyName(dice)
		want = append(want, q.Base())
		commands = append(commands, anyKey(dice, q))
	}
	slices.Sort(want)
	want = slices.Compact(want)
	st.Pipeline(commands)
	for _, count := range []int{1, 7, 999, 1000} {
		require.Equal(t, want, parts(st.Conn, count), "in parts of %d", count)
	}
	require.Equal(t, want[:1000], part(st.Conn, "", 1000))
	require.Empty(t, part(st.Conn, want[len(want)-1], 1000))
	afters := []string{"\x00", "a", "emq:", "emq:{", "emq:{\x00", "emq:|", "f", "\xff\xff", strings.Repeat("x", 100_000), strings.Repeat("emq:{", 10_000)}
	for range 2000 {
		base := want[dice.IntN(len(want))]
		cut := base[:dice.IntN(len(base)+1)]
		afters = append(afters, base, cut, cut+"\x00", cut+"\xff", cut+string(anyName(dice)))
	}
	for _, after := range afters {
		at, found := slices.BinarySearch(want, after)
		if found {
			at++
		}
		count := 1 + dice.IntN(5)
		require.Equal(t, want[at:min(at+count, len(want))], part(st.Conn, after, count), "after %q", after)
	}
}

// A queue is listed while one of its five keys exists; a row, a counter or an expired key does not suffice.
func TestListedByTheirKeys(t *testing.T) {
	st := knowing(t)
	for _, command := range makes(good) {
		st.Must("FLUSHALL", "DEBUG SET-ACTIVE-EXPIRE 0", "SET "+good.Completed()+" x", "SET "+good.Row("JOB1")+" x", "SET "+good.Base()+"lane:pending x")
		st.lists()
		st.Do(command...)
		st.lists(good.Base())
		st.expired(command[1])
		require.Equal(t, integer(3+1), st.Do("DBSIZE"), "the key is there still")
		st.lists()
		require.Equal(t, integer(3+1), st.Do("DBSIZE"), "and a list does not take it away")
		st.Do(command...)
		st.lists(good.Base())
		st.Must("PERSIST "+command[1], "DEL "+command[1])
		st.lists()
		if st.hearsAll() {
			st.Must("SET " + command[1] + " x")
			st.lists(good.Base())
			st.Must("DEL " + command[1])
		}
		for _, command := range makes(good) {
			st.Do(command...)
		}
		for _, command := range makes(good) {
			st.lists(good.Base())
			st.Must("DEL " + command[1])
		}
		st.lists()
	}
}

// The verbs that create a queue's keys, and those that remove the last one.
func TestListedByTheVerbs(t *testing.T) {
	st := knowing(t)
	q := good
	for _, tt := range []struct {
		args   []string
		listed bool
	}{
		{q.Enqueue("JOB1", "x"), true},
		{q.Claim(60_000), true},
		{q.Complete("JOB1", "1"), false},
		{q.ScheduleIn("JOB1", "x", 60_000), true},
		{words("EMQ.REMOVE emq:{q}: any JOB1"), false},
		{words("EMQ.PAUSE emq:{q}: 0"), true},
		{words("EMQ.RESUME emq:{q}:"), false},
		{words("EMQ.LIMIT emq:{q}: 1 0 0"), true},
		{words("EMQ.LIMIT emq:{q}: 0 0 0"), false},
		{words("EMQ.MENQUEUE emq:{q}: JOB1 x"), true},
		{words("EMQ.MCLAIM emq:{q}: 60000 1"), true},
		{words("EMQ.MFAIL emq:{q}: 1 JOB1 1 0 why"), true},
		{words("EMQ.REMOVE emq:{q}: dead JOB1"), false},
	} {
		require.False(t, wire.IsError(st.Do(tt.args...)), show(tt.args))
		if tt.listed {
			st.lists(q.Base())
		} else {
			st.lists()
		}
	}
}

// Only queues whose base the caller's user may read are listed, also in scripts and transactions. A user who may call
// nothing else leaves no trace in the ACL log.
func TestListOfATenant(t *testing.T) {
	s := start(t, withModule())
	st := s.attachPlain(t)
	for _, q := range []queue{"a", "a2", "b", "c", "d"} {
		st.Do(q.Enqueue("JOB1", "x")...)
	}
	all := []string{"emq:{a2}:", "emq:{a}:", "emq:{b}:", "emq:{c}:", "emq:{d}:"}
	const list = "return redis.call('EMQ.QUEUES',ARGV[1],ARGV[2])"
	st.Must("FUNCTION LOAD \"#!lua name=l\\nredis.register_function{function_name='l',callback=function(k,a) return redis.call('EMQ.QUEUES',a[1],a[2]) end,flags={'no-writes'}}\"")
	for _, tt := range []struct {
		rules string
		want  []string
	}{
		{"+@all ~*", all},
		{"+emq.queues ~emq:{a}:*", []string{"emq:{a}:"}},
		{"+emq.queues %R~emq:{a*", []string{"emq:{a2}:", "emq:{a}:"}},
		{"+emq.queues %W~emq:{a}:*", nil},
		{"+emq.queues allkeys", all},
		{"+emq.queues", nil},
		{"+emq.queues ~emq:{b}:", []string{"emq:{b}:"}},
		{"+emq.queues ~emq:{b}:?*", nil},
		{"+emq.queues ~emq:{d}:* (+emq.stats %R~emq:{c}:*)", []string{"emq:{c}:", "emq:{d}:"}},
	} {
		t.Run(tt.rules, func(t *testing.T) {
			st.Must("ACL LOG RESET", "ACL SETUSER viewer reset on >secret "+tt.rules)
			c := s.dial(t)
			require.Equal(t, "+OK\r\n", c.Do("AUTH", "viewer", "secret"))
			require.Equal(t, append([]string{}, tt.want...), part(c, "", 1000))
			require.Len(t, value(c.Do("emq.Queues", "", "1000")), len(tt.want))
			if len(tt.want) > 1 {
				require.Equal(t, tt.want[:1], part(c, "", 1))
				require.Equal(t, tt.want[1:], part(c, tt.want[0], 1000))
			}
			require.Equal(t, empty, st.Do("ACL", "LOG"))
			other := s.dial(t) // a client with all rights, which a script must not be mistaken for
			require.Equal(t, all, part(other, "", 1000))

			// Within scripts, functions and transactions.
			st.Must("ACL SETUSER viewer +eval +eval_ro +fcall_ro +multi +exec")
			var bases []string
			for _, base := range tt.want {
				bases = append(bases, bulk(base))
			}
			want := array(bases...)
			require.Equal(t, want, c.Do("EVAL", list, "0", "", "1000"))
			require.Equal(t, want, c.Do("EVAL_RO", list, "0", "", "1000"))
			require.Equal(t, want, c.Do("FCALL_RO", "l", "0", "", "1000"))
			require.Equal(t, "+OK\r\n", c.Do("MULTI"))
			c.Do(wire.Queues("", 1000)...)
			c.Do("EVAL", list, "0", "", "1000")
			require.Equal(t, array(want, want), c.Do("EXEC"))
			require.Equal(t, empty, st.Do("ACL", "LOG"))
			require.Equal(t, all, part(other, "", 1000))
		})
	}
	st.Must("ACL SETUSER viewer reset on >secret +@all -emq.queues ~*")
	c := s.dial(t)
	require.Equal(t, "+OK\r\n", c.Do("AUTH", "viewer", "secret"))
	require.Contains(t, c.Do(wire.Queues("", 10)...), "-NOPERM ")
	// A client whose user is switched off stays connected, with its rights.
	st.Must("ACL SETUSER viewer +emq.queues resetkeys ~emq:{c}:* off")
	require.Equal(t, []string{"emq:{c}:"}, part(c, "", 10))
}

// A foreign identity refuses the call, an absent one does not; nothing is written in either case.
func TestListAndTheIdentity(t *testing.T) {
	s := witnessed(t)
	st := s.bare(t)
	st.put(good, "JOB1", "pending", "attempts", "0")
	st.quiet(array(bulk(good.Base())), wire.Queues("", 10)...)
	for _, line := range []string{"SET {emq}:version echomq:4.0.0", "HSET {emq}:version a b", `SET {emq}:version ""`} {
		st.Must("DEL {emq}:version", line)
		st.refused("EMQFENCE ", wire.Queues("", 10)...)
		require.True(t, wire.IsError(st.Do("EVAL", "return redis.call('EMQ.QUEUES','','10')", "0")))
	}
	st.Must("SET {emq}:version " + wire6)
	st.quiet(array(bulk(good.Base())), wire.Queues("", 10)...)
	// The identity is the database's.
	st.Must("SELECT 1", "SET {emq}:version echomq:4.0.0")
	require.Contains(t, st.Do(wire.Queues("", 10)...), "-EMQFENCE ")
	st.Must("DEL {emq}:version", "SELECT 0")
}

// Each database has its own list, and a swap and a flush are followed at once.
func TestListOfADatabase(t *testing.T) {
	st := knowing(t)
	in := func(db string, want ...string) {
		t.Helper()
		st.Must("SELECT " + db)
		st.lists(want...)
	}
	for _, how := range []string{"", " SYNC", " ASYNC"} {
		for kind, command := range makes("a") {
			st.Must("SELECT 2")
			st.Do(command...)
			st.Do(makes("b")[kind]...)
			st.Must("SELECT 4")
			st.Do(makes("c")[kind]...)
			in("0")
			in("2", "emq:{a}:", "emq:{b}:")
			in("4", "emq:{c}:")
			st.Must("SWAPDB 2 4")
			in("2", "emq:{c}:")
			in("4", "emq:{a}:", "emq:{b}:")
			st.Must("SWAPDB 4 15")
			in("4")
			in("15", "emq:{a}:", "emq:{b}:")
			st.Must("MULTI", "SWAPDB 15 1", "SELECT 1")
			st.Do(wire.Queues("", 10)...)
			require.Equal(t, array("+OK\r\n", "+OK\r\n", array(bulk("emq:{a}:"), bulk("emq:{b}:"))), st.Do("EXEC"))
			st.Must("SELECT 1", "FLUSHDB"+how)
			in("1")
			in("2", "emq:{c}:")
			st.Must("FLUSHALL" + how)
			in("2")
		}
	}
	_, bytes, _ := st.known()
	require.Zero(t, bytes)
}

// Queues whose keys are created without an event that the module receives are found by the scan, by any of their keys.
func TestListedWhateverMadeThem(t *testing.T) {
	st := knowing(t)
	for _, lines := range [][]string{
		{"RENAME FROM TO"},
		{"RENAMENX FROM TO"},
		{"COPY FROM TO", "DEL FROM"},
		{"COPY FROM TO DB 3", "DEL FROM", "SELECT 3"},
		{"RENAME FROM TO", "MOVE TO 3", "SELECT 3"},
		{"RENAME FROM TO", "MULTI", "MOVE TO 3", "EXEC", "SELECT 3"},
		{"RENAME FROM TO", "MULTI", "COPY TO TO DB 3", "EXEC", "SELECT 3"},
		{"RESTORE", "DEL FROM"},
	} {
		st.Must("FLUSHALL")
		var all []string
		for kind, command := range makes("from") {
			q := queue(kind) // one for each kind of key, so that the test waits for all at once
			from, to := command[1], makes(q)[kind][1]
			st.Do(command...)
			for _, line := range lines {
				if line == "RESTORE" {
					require.Equal(t, "+OK\r\n", st.Do("RESTORE", to, "0", value(st.Do("DUMP", from)).(string)))
					continue
				}
				st.Must(strings.NewReplacer("FROM", from, "TO", to).Replace(line))
			}
			st.Must("SELECT 0")
			all = append(all, q.Base())
		}
		if slices.Contains(lines, "SELECT 3") {
			st.Must("SELECT 3")
		}
		st.soonLists(all...)
		st.Must("SELECT 0")
	}
}

// A replica lists, from its own register, the same queues as its primary: those of the snapshot and of the stream; and
// so it does after it is promoted.
func TestListOnAReplica(t *testing.T) {
	st := knowing(t)
	for _, command := range makes("by the snapshot") {
		st.Do(command...)
		st.Do("RENAME", command[1], strings.Replace(command[1], "by the snapshot", command[1][strings.LastIndex(command[1], ":")+1:], 1))
	}
	list := func(r *fixture) {
		t.Helper()
		st.inStep("1")
		waitFor(t, "one list on both", func() bool {
			all := part(st.Conn, "", 1000)
			return len(all) > 0 && slices.Equal(all, part(r.Conn, "", 1000))
		})
	}
	r := knowing(t, store.Following(st.s.Addr())...)
	r.s.Linked()
	require.Contains(t, r.Do("CONFIG", "GET", "replica-read-only"), "yes")
	r.soonLists("emq:{pending}:", "emq:{active}:", "emq:{schedule}:", "emq:{dead}:", "emq:{meta}:")
	for kind := range makes("x") {
		st.Do(makes(queue("stream, " + kind))[kind]...)
		list(r)
		require.Equal(t, "+OK\r\n", st.Do("RENAME", makes(queue(kind))[kind][1], makes(queue("renamed " + kind))[kind][1]))
		list(r)
	}
	st.Must("EMQ.PAUSE emq:{gated}: 0", "EMQ.MENQUEUE emq:{jobs}: JOB1 x")
	list(r)
	require.Contains(t, part(r.Conn, "", 1000), "emq:{gated}:")
	for kind := range makes("x") {
		st.Do("DEL", makes(queue("stream, " + kind))[kind][1])
		list(r)
	}
	st.Must("SET {emq}:version echomq:4.0.0")
	st.inStep("1")
	require.Contains(t, r.Do(wire.Queues("", 1)...), "-EMQFENCE ")
	st.Must("SET {emq}:version " + wire6)
	list(r)
	all := part(st.Conn, "", 1000)
	r.Must("REPLICAOF NO ONE")
	r.lists(all...)
	r.Must("EMQ.MENQUEUE emq:{new}: JOB1 x")
	r.lists(append(all, "emq:{new}:")...)
}

// Stored queues are listed after a restart from a snapshot or an append-only file, and if the module is loaded afterwards.
func TestListOfWhatWasStored(t *testing.T) {
	var want []string
	fill := func(st *fixture) {
		want = nil
		for i := range 300 {
			for kind := range makes("x") {
				q := queue(fmt.Sprintf("%s only, %03d", kind, i))
				st.Do(makes(q)[kind]...)
				want = append(want, q.Base())
			}
		}
		slices.Sort(want)
	}
	for kind, settings := range map[string][]string{
		"append-only file":               {"--appendonly", "yes"},
		"append-only file, all commands": {"--appendonly", "yes", "--aof-use-rdb-preamble", "no"},
		"snapshot":                       {"--save", "100000 1"},
	} {
		t.Run(kind, func(t *testing.T) {
			s := start(t, withDebugModule(settings...))
			st := s.attachPlain(t)
			fill(st)
			require.Equal(t, want, parts(st.Conn, 1000))
			require.NoError(t, s.Stop())
			s.Start()
			require.Equal(t, want, parts(s.attachPlain(t).Conn, 1000))
		})
	}
	t.Run("a load at run time", func(t *testing.T) {
		st := start(t, withoutModule()).attachPlain(t)
		fill(st)
		st.Must("MODULE LOADEX " + os.Getenv("EMQ_MODULE_DEBUG") + " CONFIG emq.pump-interval-ms 0")
		waitFor(t, "all to be listed", func() bool { return slices.Equal(want, parts(st.Conn, 1000)) })
	})
}

// A hundred thousand queues are listed in parts, while others are added and removed before, at and after the current
// place: none that stays is missed or listed twice, and the list never goes back.
func TestListWhileQueuesComeAndGo(t *testing.T) {
	const n = 100_000
	dice := rand.New(rand.NewPCG(store.Seed(t), 15))
	st := knowing(t)
	name := func(i int) queue { return queue(fmt.Sprintf("%05x", i*7919%(1<<20))) }
	stays := make([]string, n)
	commands := make([][]string, n)
	for i := range n {
		stays[i] = name(i).Base()
		commands[i] = anyKey(dice, name(i))
	}
	slices.Sort(stays)
	for some := range slices.Chunk(commands, 10_000) {
		st.Pipeline(some)
	}
	for _, count := range []int{1000, 997} {
		listed := map[string]int{}
		last := ""
		coming := map[queue][]string{}
		all := parts(st.Conn, count, func() {
			var churn [][]string
			for range 200 {
				q := name(dice.IntN(n)) + queue("-"+strconv.Itoa(dice.IntN(3)))
				if command, there := coming[q]; there {
					churn = append(churn, []string{"DEL", command[1]})
					delete(coming, q)
				} else {
					coming[q] = anyKey(dice, q)
					churn = append(churn, coming[q])
				}
			}
			st.Pipeline(churn)
		})
		for _, base := range all {
			require.Less(t, last, base)
			last = base
			listed[base]++
		}
		require.Greater(t, len(all), n, "none of those that came was listed")
		for _, base := range stays {
			require.Equal(t, 1, listed[base], base)
		}
		for _, command := range coming {
			st.Do("DEL", command[1])
		}
		require.Equal(t, stays, parts(st.Conn, count))
	}
}

// INFO counts each call once, by its result.
func TestListIsCounted(t *testing.T) {
	st := start(t, withModule()).fresh(t)
	counts := st.counted("emq_commands", func() {
		st.Do(wire.Queues("", 10)...)
		st.Do("EVAL", "return redis.call('EMQ.QUEUES','','10')", "0")
		st.Do(wire.Queues("", 0)...)
		st.Must("SET {emq}:version x")
		st.Do(wire.Queues("", 10)...)
		st.Must("SET {emq}:version " + wire6)
	})
	require.Equal(t, map[string]int{"emq_queues_calls": 4, "emq_queues_ok": 2, "emq_queues_argument": 1, "emq_queues_fence": 1}, counts)
}
