package scripted_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/lua"
	"emq/test/scripted"
	"emq/test/store"
	"emq/test/wire"
)

// The verbs that wire 6 added, as calls of the queue q.

func schedule(id, payload, mode string, ms int64) []string {
	return []string{"EMQ.SCHEDULE", "2", q.Row(id), q.Schedule(), id, payload, mode, decimal(ms)}
}

func extend(id, token string, lease int64) []string {
	return []string{"EMQ.EXTEND", "2", q.Active(), q.Row(id), id, token, decimal(lease)}
}

func promote(limit int64) []string {
	return []string{"EMQ.PROMOTE", "2", q.Schedule(), q.Pending(), q.Base(), decimal(limit)}
}

func reap(maxStalled, limit int64) []string {
	return []string{"EMQ.REAP", "3", q.Active(), q.Pending(), q.Dead(), q.Base(), decimal(maxStalled), decimal(limit)}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// reaped is the reply of a reap.
func reaped(recovered, dead []string) string {
	bulks := func(ids []string) string {
		list := make([]string, len(ids))
		for i, id := range ids {
			list[i] = wire.Bulk(id)
		}
		return wire.Array(list...)
	}
	return wire.Array(bulks(recovered), bulks(dead))
}

var (
	nobody    = reaped(nil, nil)
	recovered = reaped([]string{"JOB1"}, nil)
	buried    = reaped(nil, []string{"JOB1"})
)

const (
	luaError = "-ERR user_script:"
	maxTime  = 1<<52 - 1 // of a lease or a delay, ms

	addPending   = "ZADD emq:{q}:pending 0 JOB1"
	addActive    = "ZADD emq:{q}:active 1 JOB1" // expired long ago
	addSchedule  = "ZADD emq:{q}:schedule 1 JOB1"
	addDead      = "ZADD emq:{q}:dead 0 JOB1"
	zremActive   = "ZREM emq:{q}:active JOB1"
	zremSchedule = "ZREM emq:{q}:schedule JOB1"
	toPending    = "HSET emq:{q}:job:JOB1 state pending"
	count        = "HINCRBY emq:{q}:metrics:failed count 1"
	later        = "9007199254740991"
	odd          = "JOB\x00\r\n\xff "
)

// row writes JOB1's row: the three fields of every row, with the given state, and further ones.
func row(state string, more ...string) string {
	return "HSET emq:{q}:job:JOB1 " + strings.Join(append([]string{"state", state, "attempts 1 payload x"}, more...), " ")
}

// transition is one call of a script. RUN stands for the server's run_id, and {now+n} for n ms after the call.
type transition struct {
	name   string
	given  []string
	call   []string
	reply  string   // of an error, how it begins
	writes []string // all writes, in their order
}

// fixture is a server without the module, with a store of wire 6.
type fixture struct {
	*wire.Conn
	*scripted.Executor
	log   string // the append-only file
	runID string
}

// Do runs a verb; plain commands are run by Run and Must.
func (f *fixture) Do(args ...string) string { return f.Executor.Do(args...) }

func open(t *testing.T) *fixture {
	t.Helper()
	// With `no` the file has the writes of a command before its reply is sent.
	server := store.Open(t, store.Plain("--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0"))
	conn := wire.Dial(t, server.Socket)
	f := &fixture{
		Conn:  conn,
		log:   filepath.Join(server.Dir, "appendonlydir", "appendonly.aof.1.incr.aof"),
		runID: conn.Info("run_id"),
	}
	f.fresh(t)
	return f
}

// fresh empties the store and claims it.
func (f *fixture) fresh(t *testing.T) {
	t.Helper()
	f.Must("FLUSHALL")
	var err error
	f.Executor, err = scripted.OpenAs(f.Conn, wire.Wire6)
	require.NoError(t, err)
}

func (f *fixture) given(lines ...string) {
	for _, line := range lines {
		f.Must(strings.ReplaceAll(line, "RUN", f.runID))
	}
}

// written returns the commands in the append-only file after the given size.
func (f *fixture) written(t *testing.T, since int) (lines []string) {
	t.Helper()
	r := bufio.NewReader(bytes.NewReader(f.logged(t)[since:]))
	for {
		args, err := wire.ReadCommand(r)
		if errors.Is(err, io.EOF) {
			return lines
		}
		require.NoError(t, err)
		if !slices.Contains([]string{"SELECT", "MULTI", "EXEC"}, args[0]) {
			lines = append(lines, wire.Line(args))
		}
	}
}

func (f *fixture) logged(t *testing.T) []byte {
	t.Helper()
	all, err := os.ReadFile(f.log)
	require.NoError(t, err)
	return all
}

// run makes the call and asserts everything about it.
func (f *fixture) run(t *testing.T, tt transition) {
	t.Helper()
	f.fresh(t)
	f.given(tt.given...)
	before, size := f.Run("DEBUG DIGEST"), len(f.logged(t))
	from := f.Now()
	reply := f.Do(tt.call...)
	to := f.Now()

	if wire.IsError(tt.reply) {
		require.True(t, strings.HasPrefix(reply, tt.reply), "want %q, got %q", tt.reply, reply)
	} else {
		require.Equal(t, tt.reply, reply)
	}
	writes := f.written(t, size)
	require.Len(t, writes, len(tt.writes), "%q", writes)
	for i, want := range tt.writes {
		want = strings.ReplaceAll(want, "RUN", f.runID)
		if start, rest, ok := strings.Cut(want, "{now+"); ok {
			millis, end, _ := strings.Cut(rest, "}")
			want = start + deadline(t, writes[i], from, to, millis) + end
		}
		require.Equal(t, want, writes[i])
	}
	if len(tt.writes) == 0 {
		require.Equal(t, before, f.Run("DEBUG DIGEST"))
	}
}

// deadline is the score of a ZADD, if it is in its range.
func deadline(t *testing.T, line string, from, to int64, millis string) string {
	t.Helper()
	ms, err := strconv.ParseInt(millis, 10, 64)
	require.NoError(t, err)
	words := wire.Words(line)
	require.Len(t, words, 4, line)
	score, err := strconv.ParseInt(words[2], 10, 64)
	require.NoError(t, err, line)
	require.GreaterOrEqual(t, score, from+ms, line)
	require.LessOrEqual(t, score, to+ms, line)
	return words[2]
}

func (f *fixture) all(t *testing.T, list []transition) {
	t.Helper()
	for _, tt := range list {
		t.Run(tt.name, func(t *testing.T) { f.run(t, tt) })
	}
}

func TestSchedule(t *testing.T) {
	const born = "HSET emq:{q}:job:JOB1 state scheduled attempts 0 payload x"
	in := schedule("JOB1", "x", "in", 1000)
	open(t).all(t, []transition{
		{"in a second", nil, in, wire.Integer(1), []string{born, "ZADD emq:{q}:schedule {now+1000} JOB1"}},
		{"at once", nil, schedule("JOB1", "x", "in", 0), wire.Integer(1), []string{born, "ZADD emq:{q}:schedule {now+0} JOB1"}},
		{
			"in the longest time", nil, schedule("JOB1", "x", "in", maxTime), wire.Integer(1),
			[]string{born, fmt.Sprintf("ZADD emq:{q}:schedule {now+%d} JOB1", int64(maxTime))},
		},
		{"at a time", nil, schedule("JOB1", "x", "at", 1732872600000), wire.Integer(1), []string{born, "ZADD emq:{q}:schedule 1732872600000 JOB1"}},
		{"at the beginning", nil, schedule("JOB1", "x", "at", 0), wire.Integer(1), []string{born, "ZADD emq:{q}:schedule 0 JOB1"}},
		{"at the last time", nil, schedule("JOB1", "x", "at", maxTime), wire.Integer(1), []string{born, "ZADD emq:{q}:schedule 4503599627370495 JOB1"}},
		{
			"any bytes", nil, schedule(odd, "\x00\xff", "at", 5), wire.Integer(1),
			[]string{
				`HSET "emq:{q}:job:JOB\x00\r\n\xff " state scheduled attempts 0 payload "\x00\xff"`,
				`ZADD emq:{q}:schedule 5 "JOB\x00\r\n\xff "`,
			},
		},
		{
			"an empty payload", nil, schedule("JOB1", "", "at", 5), wire.Integer(1),
			[]string{`HSET emq:{q}:job:JOB1 state scheduled attempts 0 payload ""`, "ZADD emq:{q}:schedule 5 JOB1"},
		},
		{"a job that is there", []string{row("pending"), addPending}, in, wire.Integer(0), nil},
		{"a job that waits", []string{row("scheduled"), addSchedule}, in, wire.Integer(0), nil},
		{"no job's id", nil, schedule("job1", "x", "in", 1000), wire.Kind, nil},
		{"the row is no hash", []string{"SET emq:{q}:job:JOB1 x"}, in, "-WRONGTYPE ", nil},
		{"schedule is no sorted set", []string{"SET emq:{q}:schedule x"}, in, "-WRONGTYPE ", nil},
		{"neither at nor in", nil, schedule("JOB1", "x", "IN", 1000), luaError, nil},
		{"at no number", nil, wire.With(schedule("JOB1", "x", "at", 0), 7, "soon"), luaError, nil},
		{"in no number", nil, wire.With(in, 7, "soon"), luaError, nil},
	})
}

func TestExtend(t *testing.T) {
	call := extend("JOB1", "1", 1000)
	extended := []string{"HSET emq:{q}:job:JOB1 lease_epoch RUN", "ZADD emq:{q}:active {now+1000} JOB1"}
	script := func(field string) string {
		return "-EMQSCRIPT the row has a " + field + ": settle it with the scripts that own it\r\n"
	}
	list := []transition{
		{"a lease that ran out, but nobody took it", []string{row("active", "lease_epoch RUN"), addActive}, call, wire.Integer(1), extended},
		{"a lease that runs", []string{row("active", "lease_epoch RUN"), "ZADD emq:{q}:active " + later + " JOB1"}, call, wire.Integer(1), extended},
		{"a lease of another server", []string{row("active", "lease_epoch e0"), addActive}, call, wire.Integer(1), extended},
		{"a lease of the scripts", []string{row("active"), addActive}, call, wire.Integer(1), extended},
		{
			"the longest lease", []string{row("active"), addActive}, extend("JOB1", "1", maxTime), wire.Integer(1),
			[]string{extended[0], fmt.Sprintf("ZADD emq:{q}:active {now+%d} JOB1", int64(maxTime))},
		},
		{"a row that was returned while its entry stayed", []string{row("pending", "lease_epoch e0"), addActive}, call, wire.Integer(1), extended},
		{"a lease that was returned", []string{row("pending", "lease_epoch e0"), addPending}, call, wire.Stale("extend"), nil},
		{"a lease that was given back", []string{row("pending"), addActive}, call, wire.Stale("extend"), nil},
		{"an entry lost", []string{row("active", "lease_epoch RUN")}, call, wire.Stale("extend"), nil},
		{"a job that waits", []string{row("scheduled", "lease_epoch e0"), addActive}, call, wire.Stale("extend"), nil},
		{"a dead job", []string{row("dead", "lease_epoch e0"), addActive}, call, wire.Stale("extend"), nil},
		{"no state", []string{"HSET emq:{q}:job:JOB1 attempts 1", addActive}, call, wire.Stale("extend"), nil},
		{"no attempts", []string{"HSET emq:{q}:job:JOB1 state active", addActive}, call, wire.Stale("extend"), nil},
		{"no attempts, no token", []string{"HSET emq:{q}:job:JOB1 state active", addActive}, extend("JOB1", "", 1000), wire.Stale("extend"), nil},
		{"no row", []string{addActive}, call, wire.Integer(-1), nil},
		{"nothing", nil, call, wire.Integer(-1), nil},
		{"a lane's row", []string{row("active", "group g"), addActive}, call, script("group"), nil},
		{"a lane's row, whatever the token", []string{row("active", `group ""`), addActive}, extend("JOB1", "9", 1000), script("group"), nil},
		{"a flow's row", []string{row("active", "parent p"), addActive}, call, script("parent"), nil},
		{"a row of both", []string{row("active", "parent p", "group g")}, call, script("group"), nil},
		{"no job's id", []string{addActive}, extend("XYZ1", "1", 1000), wire.Kind, nil},
		{"the row is no hash", []string{"SET emq:{q}:job:JOB1 x", addActive}, call, "-WRONGTYPE ", nil},
		{"active is no sorted set", []string{row("active"), "SET emq:{q}:active x"}, call, "-WRONGTYPE ", nil},
		{"active is no sorted set, and no row", []string{"SET emq:{q}:active x"}, call, "-WRONGTYPE ", nil},
		{"a lease that is no number", []string{row("active"), addActive}, wire.With(call, 6, "long"), luaError, nil},
	}
	for _, tt := range []struct {
		attempts, token string
		held            bool
	}{
		{"1", "2", false}, {"2", "1", false}, {"1", "01", false}, {"1", "1 ", false}, {"1", "", false}, {"1", "1\x00", false},
		{"0", "0", false}, {"01", "01", false}, {"-1", "-1", false}, {"1.0", "1.0", false}, {"1e3", "1e3", false},
		{"0x1", "0x1", false}, {"1\n", "1\n", false}, {"1\x00", "1\x00", false}, {"many", "many", false}, {"", "", false},
		{"10", "10", true}, {"9007199254740991", "9007199254740991", true}, {"9007199254740992", "9007199254740992", false},
		{"9007199254740993", "9007199254740993", false}, {strings.Repeat("9", 400), strings.Repeat("9", 400), false},
	} {
		call, reply, writes := extend("JOB1", tt.token, 1000), wire.Stale("extend"), []string(nil)
		if tt.held {
			reply, writes = wire.Integer(1), extended
		}
		given := []string{wire.Line([]string{"HSET", q.Row("JOB1"), "state", "active", "attempts", tt.attempts}), addActive}
		list = append(list, transition{fmt.Sprintf("attempts %q, token %q", tt.attempts, tt.token), given, call, reply, writes})
	}
	open(t).all(t, list)
}

func TestPromote(t *testing.T) {
	moved := []string{zremSchedule, toPending, addPending}
	call := promote(100)
	list := []transition{
		{"nothing", nil, call, wire.Integer(0), nil},
		{"nothing is due", []string{row("scheduled"), "ZADD emq:{q}:schedule " + later + " JOB1"}, call, wire.Integer(0), nil},
		{"a retry", []string{row("scheduled", "failures 1", "last_error why"), addSchedule}, call, wire.Integer(1), moved},
		{"a flow's row", []string{row("scheduled", "parent p"), addSchedule}, call, wire.Integer(1), moved},
		{"a bad row, which the claim will see", []string{"HSET emq:{q}:job:JOB1 state scheduled", addSchedule}, call, wire.Integer(1), moved},
		{
			"the first due, within the limit", []string{
				"HSET emq:{q}:job:JOB1 state scheduled", "HSET emq:{q}:job:JOB2 state scheduled", "HSET emq:{q}:job:JOB3 state scheduled",
				"ZADD emq:{q}:schedule 2 JOB1 1 JOB3 1 JOB2 " + later + " JOB4",
			}, promote(2), wire.Integer(2),
			[]string{
				"ZREM emq:{q}:schedule JOB2", "HSET emq:{q}:job:JOB2 state pending", "ZADD emq:{q}:pending 0 JOB2",
				"ZREM emq:{q}:schedule JOB3", "HSET emq:{q}:job:JOB3 state pending", "ZADD emq:{q}:pending 0 JOB3",
			},
		},
		{"pending is no sorted set", []string{row("scheduled"), addSchedule, "SET emq:{q}:pending x"}, call, "-WRONGTYPE ", nil},
		{"schedule is no sorted set", []string{"SET emq:{q}:schedule x"}, call, "-WRONGTYPE ", nil},
		{"a limit that is no number", []string{row("scheduled"), addSchedule}, wire.With(call, 5, "many"), luaError, nil},
	}
	list = append(list, entries("scheduled", promote,
		func(ids ...string) string { return wire.Integer(int64(len(ids))) }, moved)...)
	open(t).all(t, list)
}

func TestReap(t *testing.T) {
	call := reap(3, 100)
	stalled := func(n string) []string { return []string{zremActive, toPending + " stalled " + n, addPending} }
	died := func(n string) []string {
		return []string{zremActive, "HSET emq:{q}:job:JOB1 state dead stalled " + n + " last_error stalled", addDead}
	}
	uncounted := []string{zremActive, toPending, addPending}
	lost := func(more ...string) []string {
		return []string{row("active", append(more, "lease_epoch RUN")...), addActive}
	}
	list := []transition{
		{"nothing", nil, call, nobody, nil},
		{"nothing has expired", []string{row("active", "lease_epoch RUN"), "ZADD emq:{q}:active " + later + " JOB1"}, call, nobody, nil},
		{"the first loss", lost(), call, recovered, stalled("1")},
		{"the last but one", lost("stalled 1"), call, recovered, stalled("2")},
		{"the last", lost("stalled 2"), call, buried, append(died("3"), count)},
		{"past the last", lost("stalled 8"), call, buried, append(died("9"), count)},
		{"a cap of one", lost(), reap(1, 100), buried, append(died("1"), count)},
		{"the greatest cap", lost("stalled 2147483646"), reap(1<<31-1, 100), buried, append(died("2147483647"), count)},
		{"below the greatest cap", lost("stalled 2147483645"), reap(1<<31-1, 100), recovered, stalled("2147483646")},
		{"no cap", lost("stalled 999999999"), reap(0, 100), recovered, stalled("1000000000")},
		{"no cap, and the greatest count", lost("stalled 9007199254740990"), reap(0, 100), recovered, stalled("9007199254740991")},
		{"a lease of the scripts", []string{row("active", "stalled 1"), addActive}, call, recovered, stalled("2")},
		{"a lease of the scripts, the last", []string{row("active", "stalled 2"), addActive}, call, buried, append(died("3"), count)},
		{"another server's lease", []string{row("active", "lease_epoch e0"), addActive}, call, recovered, uncounted},
		{"another server's lease, at the cap", []string{row("active", "lease_epoch e0", "stalled 2"), addActive}, call, recovered, uncounted},
		{"an empty epoch", []string{row("active", `lease_epoch ""`), addActive}, call, recovered, uncounted},
		{"a flow's row", lost("parent p"), call, recovered, stalled("1")},
		{"a flow's row, at the cap", lost("parent p", "stalled 2"), call, recovered, stalled("3")},
		{"a flow's row without a name, at the cap", lost(`parent ""`, "stalled 2"), call, recovered, stalled("3")},
		{"a flow's row of another server", []string{row("active", "parent p", "lease_epoch e0", "stalled 2"), addActive}, call, recovered, uncounted},
		{"a bad row, which the claim will see", []string{"HSET emq:{q}:job:JOB1 state active", addActive}, call, recovered, stalled("1")},
		{"dead is no sorted set, at the cap", append(lost("stalled 2"), "SET emq:{q}:dead x"), call, recovered, stalled("3")},
		{"dead is no sorted set, below the cap", append(lost(), "SET emq:{q}:dead x"), call, recovered, stalled("1")},
		{"dead holds others", append(lost("stalled 2"), "ZADD emq:{q}:dead 0 JOB0"), call, buried, append(died("3"), count)},
		{"dead is no sorted set, and the row says it is there", []string{row("dead"), addActive, "SET emq:{q}:dead x"}, call, recovered, stalled("1")},
		{"the counter counts", append(lost("stalled 2"), "HSET emq:{q}:metrics:failed count 41"), call, buried, append(died("3"), count)},
		{"the counter is no hash", append(lost("stalled 2"), "SET emq:{q}:metrics:failed x"), call, buried, died("3")},
		{"the counter is no integer", append(lost("stalled 2"), "HSET emq:{q}:metrics:failed count x"), call, buried, died("3")},
		{"the counter is full", append(lost("stalled 2"), "HSET emq:{q}:metrics:failed count 9223372036854775807"), call, buried, died("3")},
		{
			"each by itself, and the first within the limit", []string{
				"HSET emq:{q}:job:JOB1 state active stalled 2", "HSET emq:{q}:job:JOB2 state active", "HSET emq:{q}:job:JOB3 state active lease_epoch e0",
				"ZADD emq:{q}:active 2 JOB1 1 JOB3 1 JOB2 3 JOB5 " + later + " JOB4",
			}, reap(3, 3), reaped([]string{"JOB2", "JOB3"}, []string{"JOB1"}),
			append([]string{
				"ZREM emq:{q}:active JOB2", "HSET emq:{q}:job:JOB2 state pending stalled 1", "ZADD emq:{q}:pending 0 JOB2",
				"ZREM emq:{q}:active JOB3", "HSET emq:{q}:job:JOB3 state pending", "ZADD emq:{q}:pending 0 JOB3",
			}, append(died("3"), count)...),
		},
		{"pending is no sorted set", append(lost(), "SET emq:{q}:pending x"), call, "-WRONGTYPE ", nil},
		{"active is no sorted set", []string{"SET emq:{q}:active x"}, call, "-WRONGTYPE ", nil},
		{"a cap that is no number", lost(), wire.With(call, 6, "many"), luaError, nil},
		{"a limit that is no number", lost(), wire.With(call, 7, "many"), luaError, nil},
	}
	for _, n := range []string{
		"", "0", "02", "-2", "+2", "2.0", "2e0", "0x2", " 2", "2\n", "2\x00", "many", "9007199254740991", "9007199254740992",
		strings.Repeat("9", 400),
	} {
		list = append(list, transition{
			fmt.Sprintf("stalled %q", n), lost("stalled " + strconv.Quote(n)), call, recovered, stalled("1"),
		})
	}
	list = append(list, entries("active", func(limit int64) []string { return reap(3, limit) },
		func(ids ...string) string { return reaped(ids, nil) }, stalled("1"))...)
	open(t).all(t, list)
}

// entries are the cases in which promote and reap are alike: what becomes of an entry in the set of the given state.
// reply is the reply of a call that moved these ids to pending, and moved is what it writes for JOB1.
func entries(state string, call func(limit int64) []string, reply func(ids ...string) string, moved []string) []transition {
	source := q.Set(state)
	add, behind, zrem := "ZADD "+source+" 1 JOB1", "ZADD "+source+" 5 JOB1", "ZREM "+source+" JOB1"
	of := func(line, id string) string {
		words := wire.Words(line)
		for i, word := range words {
			words[i] = strings.ReplaceAll(word, "JOB1", id)
		}
		return wire.Line(words)
	}
	all := func(lines []string, id string) (list []string) {
		for _, line := range lines {
			list = append(list, of(line, id))
		}
		return list
	}
	dropped := []string{zrem}
	list := []transition{
		{"no row", []string{add}, call(9), reply(), dropped},
		{"the row is no hash", []string{"SET emq:{q}:job:JOB1 x", add}, call(9), reply(), dropped},
		{"no job", []string{of(row(state), "GRP1"), of(add, "GRP1")}, call(9), reply(), []string{of(zrem, "GRP1")}},
		{"hardly a name", []string{of(row(state), "J"), of(add, "J"), of(add, "")}, call(9), reply(), []string{of(zrem, ""), of(zrem, "J")}},
		{"a state of no set", []string{row("lost"), add}, call(9), reply("JOB1"), moved},
		{"no state", []string{"HSET emq:{q}:job:JOB1 attempts 1", add}, call(9), reply("JOB1"), moved},
		{"a time before all others", []string{row(state), "ZADD " + source + " -1 JOB1"}, call(9), reply("JOB1"), moved},
		{"a lane's row", []string{row(state, "group g"), add}, call(9), reply(), nil},
		{"a lane's row without a name", []string{row(state, `group ""`), add}, call(9), reply(), nil},
		{"any bytes", []string{of(row(state), odd), of(add, odd)}, call(9), reply(odd), all(moved, odd)},
		{
			"dropped entries count", []string{row(state), add, of(add, "JOB0"), of(add, "A")}, call(2), reply(),
			[]string{of(zrem, "A"), of(zrem, "JOB0")},
		},
		{
			"a lane's rows do not count", []string{
				of(row(state, "group g"), "JOB0"), of(add, "JOB0"), row(state), add, of(row(state, "group g"), "JOB2"), of(add, "JOB2"),
				of(row(state), "JOB3"), of(add, "JOB3"),
			}, call(1), reply("JOB1"), moved,
		},
		{
			"a lane's rows between others", []string{
				of(row(state, "group g"), "JOB0"), of(add, "JOB0"), row(state), add, of(row(state, "group g"), "JOB2"), of(add, "JOB2"),
				of(row(state), "JOB3"), of(add, "JOB3"), of(add, "JOB4"),
			}, call(9), reply("JOB1", "JOB3"), append(append(slices.Clone(moved), all(moved, "JOB3")...), of(zrem, "JOB4")),
		},
		{"a lane's rows, many", []string{lanes(source, state, 250), row(state), behind}, call(1), reply("JOB1"), moved},
		{"a lane's rows, as many as are passed", []string{lanes(source, state, 9999), row(state), behind}, call(10000), reply("JOB1"), moved},
		{"a lane's rows, more than are passed", []string{lanes(source, state, 10000), row(state), behind}, call(10000), reply(), nil},
	}
	for _, other := range slices.Sorted(maps.Keys(wire.SetOf)) {
		if other == state {
			continue
		}
		set := wire.SetOf[other]
		elsewhere := "ZADD emq:{q}:" + set + " 0 JOB1"
		list = append(list, []transition{
			{other + ", and there", []string{row(other), add, elsewhere}, call(9), reply(), dropped},
			{other + ", and there, of a lane", []string{row(other, "group g"), add, elsewhere}, call(9), reply(), dropped},
			{other + ", but not there", []string{row(other), add}, call(9), reply("JOB1"), moved},
			{other + ", but only others are there", []string{row(other), add, of(elsewhere, "JOB9")}, call(9), reply("JOB1"), moved},
			{other + ", but not there, of a lane", []string{row(other, "group g"), add}, call(9), reply(), nil},
		}...)
		tooThere := transition{"there as " + other + " too, but not by its state", []string{row(state), add, elsewhere}, call(9), reply("JOB1"), moved}
		if other == "pending" {
			tooThere.writes = moved[:2]
		} else {
			list = append(list, transition{
				other + ", where no sorted set is", []string{row(other), add, "SET emq:{q}:" + set + " x"}, call(9), reply("JOB1"), moved,
			})
		}
		list = append(list, tooThere)
	}
	return list
}

// An entry is due at its time, and not a millisecond before.
func TestDueNow(t *testing.T) {
	const at = `
		local time = redis.call('TIME')
		redis.call('ZADD', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1], 'JOB1')`
	f := open(t)
	for _, tt := range []struct {
		state       string
		call        []string
		none, taken string
	}{
		{"scheduled", promote(9), wire.Integer(0), wire.Integer(1)},
		{"active", reap(3, 9), nobody, recovered},
	} {
		for after, want := range []string{tt.taken, tt.none} {
			f.fresh(t)
			f.given(row(tt.state))
			require.Equal(t, tt.none, f.Do(tt.call...)) // loads the script, which is not possible in a transaction
			f.given("MULTI", wire.Line([]string{"EVAL", at, "1", q.Set(tt.state), strconv.Itoa(after)}))
			require.Equal(t, "+QUEUED\r\n", f.Do(tt.call...))
			require.Equal(t, wire.Array(wire.Nil, want), f.Run("EXEC"), "%s, %d ms from now", tt.state, after)
		}
	}
}

// A call looks at no more than 10000 entries, whatever becomes of them.
func TestLooksAtSoMany(t *testing.T) {
	f := open(t)
	for _, tt := range []struct {
		state string
		call  []string
		count func(reply string) int
	}{
		{"scheduled", promote(10000), func(reply string) int { return int(wire.Value(reply).(int64)) }},
		{"active", reap(3, 10000), func(reply string) int { return len(wire.Value(reply).([]any)[0].([]any)) }},
	} {
		f.given("FLUSHALL", lanes(q.Set(tt.state), tt.state, 30), wire.Line([]string{"EVAL", `
			for i = 1, 12000 do
				local id = string.format('JOB1%05d', i)
				redis.call('ZADD', KEYS[1], 2, id)
				if i % 2 == 0 then redis.call('HSET', 'emq:{q}:job:' .. id, 'state', ARGV[1]) end
			end`, "1", q.Set(tt.state), tt.state}))
		require.Equal(t, 9970/2, tt.count(f.Do(tt.call...)))
		require.Equal(t, wire.Integer(12030-9970), f.Run("ZCARD "+q.Set(tt.state)))
		require.Equal(t, (12000-9970)/2, tt.count(f.Do(tt.call...)))
		require.Equal(t, wire.Integer(30), f.Run("ZCARD "+q.Set(tt.state)))
		require.Equal(t, wire.Integer(6000), f.Run("ZCARD emq:{q}:pending"))
	}
}

// When memory is full, no new job is accepted, but the existing ones can be processed.
func TestOutOfMemory(t *testing.T) {
	f := open(t)
	f.given(
		row("active", "lease_epoch RUN"), addActive, "HSET emq:{q}:job:JOB2 state scheduled", "ZADD emq:{q}:schedule 1 JOB2",
		"HSET emq:{q}:job:JOB3 state active", "ZADD emq:{q}:active 1 JOB3", "CONFIG SET maxmemory 1",
	)
	before := f.Run("DEBUG DIGEST")
	require.True(t, strings.HasPrefix(f.Do(schedule("JOB4", "x", "in", 0)...), "-OOM "))
	require.Equal(t, before, f.Run("DEBUG DIGEST"))
	require.Equal(t, wire.Integer(1), f.Do(extend("JOB1", "1", maxTime)...))
	require.Equal(t, wire.Integer(1), f.Do(promote(9)...))
	require.Equal(t, reaped([]string{"JOB3"}, nil), f.Do(reap(3, 9)...))
	require.Equal(t, wire.Array(wire.Bulk("JOB2"), wire.Bulk("JOB3")), f.Run("ZRANGE emq:{q}:pending 0 -1"))
}

// Scripts that need the server's run_id get it, and the server is asked for it once.
func TestRunID(t *testing.T) {
	f := open(t)
	conn := &recorder{Conn: f.Conn}
	e, err := scripted.OpenAs(conn, wire.Wire6)
	require.NoError(t, err)
	for _, call := range [][]string{extend("JOB1", "1", 1), reap(3, 9), schedule("JOB1", "x", "in", 0), promote(9)} {
		e.Do(call...)
	}
	conn.sent = nil
	e, err = scripted.OpenAs(conn, wire.Wire6)
	require.NoError(t, err)
	want := [][]string{{"SET", wire.Identity, wire.Wire6, "NX", "GET"}, {"INFO", "server"}}
	for _, call := range [][]string{extend("JOB1", "1", 1), reap(3, 9), extend("JOB1", "1", 1), schedule("JOB1", "x", "in", 0), promote(9)} {
		e.Do(call...)
		script, ok := lua.Of(call[0])
		require.True(t, ok)
		run := append([]string{"EVALSHA", script.SHA}, call[1:]...)
		if call[0] == "EMQ.EXTEND" || call[0] == "EMQ.REAP" {
			run = append(run, f.runID)
		}
		want = append(want, run)
	}
	require.Equal(t, want, conn.sent)
}

// lanes fills a set with rows that stay there.
func lanes(set, state string, n int) string {
	return wire.Line([]string{"EVAL", `
		for i = 1, ARGV[2] do
			local id = string.format('JOB0%05d', i)
			redis.call('HSET', 'emq:{q}:job:' .. id, 'state', ARGV[1], 'group', 'g')
			redis.call('ZADD', KEYS[1], 1, id)
		end`, "1", set, state, strconv.Itoa(n)})
}
