package test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"emq/commands"
)

// info returns the module's fields of INFO, in their order, and their values.
func (st *fixture) info(section string) (fields []string, values map[string]string) {
	st.t.Helper()
	values = map[string]string{}
	for line := range strings.SplitSeq(value(st.Do("INFO", section)).(string), "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.HasPrefix(name, "emq_") {
			fields = append(fields, name)
			values[name] = value
		}
	}
	return fields, values
}

var (
	rowOfFields = regexp.MustCompile("(?m)^\\| `(emq_[a-z_]+)(…?)` \\| (.*) \\|$")
	inBackticks = regexp.MustCompile("`([a-z_]+)`")
)

// The fields of INFO are exactly those that the docs list, in the same order, for each way to ask for them.
func TestInfoFields(t *testing.T) {
	page, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(page), "\n## What INFO emq shows\n")
	table, _, found := strings.Cut(table, "\n### In Prometheus\n") // whose metrics are the exporter's
	require.True(t, found)
	var want []string
	for _, row := range rowOfFields.FindAllStringSubmatch(table, -1) {
		if row[2] == "" {
			want = append(want, row[1])
			continue
		}
		for _, name := range inBackticks.FindAllStringSubmatch(row[3], -1) {
			want = append(want, row[1]+name[1])
		}
	}
	st := open(t)
	for _, section := range []string{"emq", "modules", "everything"} {
		got, _ := st.info(section)
		assert.ElementsMatch(t, want, got, section)
	}
	none, _ := st.info("default")
	assert.Empty(t, none)
	var all []string
	for _, section := range []string{"emq_wire", "emq_commands", "emq_waiting", "emq_pump"} {
		got, _ := st.info(section)
		assert.NotEmpty(t, got, section)
		all = append(all, got...)
	}
	got, values := st.info("emq")
	assert.Equal(t, got, all)
	for name, value := range values {
		if _, err := strconv.ParseUint(value, 10, 63); err != nil {
			assert.Contains(t, []string{"emq_identity", "emq_version", "emq_build", "emq_go", "emq_run_id"}, name, "no number: %s", value)
		}
	}
}

func TestInfoWire(t *testing.T) {
	st := open(t)
	_, is := st.info("emq")
	assert.Equal(t, wire6, is["emq_identity"])
	assert.Equal(t, commands.Version, is["emq_version"])
	assert.Equal(t, "200", is["emq_version_number"])
	assert.Equal(t, "1", is["emq_abi_version"])
	assert.Equal(t, st.Info("run_id"), is["emq_run_id"])
	assert.Regexp(t, `^go1\.`, is["emq_go"])
}

// counted runs act and returns the counters of one section of INFO that it has raised, and by how much.
func (st *fixture) counted(section string, act func()) map[string]int {
	st.t.Helper()
	_, before := st.info(section)
	act()
	fields, after := st.info(section)
	counts := map[string]int{}
	for _, name := range fields {
		was, err := strconv.Atoi(before[name])
		require.NoError(st.t, err, name)
		is, err := strconv.Atoi(after[name])
		require.NoError(st.t, err, name)
		if is != was {
			counts[name] = is - was
		}
	}
	return counts
}

// INFO counts each call once, by its result, wherever it comes from.
func TestInfoCounts(t *testing.T) {
	s := start(t, withModule())
	q := good
	enqueue := func(id string) string { return show(q.Enqueue(id, "x")) }
	held := []string{"HSET emq:{q}:job:JOB1 state active attempts 1 payload x", "ZADD emq:{q}:active 1 JOB1"}
	due := []string{"HSET emq:{q}:job:JOB1 state scheduled attempts 1 payload x", "ZADD emq:{q}:schedule 1 JOB1"}
	reap := func(limit string) string {
		return "EMQ.REAP 3 emq:{q}:active emq:{q}:pending emq:{q}:dead emq:{q}: " + limit + " 100"
	}
	const promote = "EMQ.PROMOTE 2 emq:{q}:schedule emq:{q}:pending emq:{q}: 100"
	extend := func(id string) string {
		return "EMQ.EXTEND 2 emq:{q}:active emq:{q}:job:" + id + " " + id + " 1 1000"
	}
	schedule := func(id string) string {
		return "EMQ.SCHEDULE 2 emq:{q}:job:" + id + " emq:{q}:schedule " + id + " x in 1000"
	}
	for _, tt := range []struct {
		name   string
		given  []string
		line   string
		want   map[string]int // without calls
		broken []string
	}{
		{"enqueue", nil, enqueue("JOB1"), map[string]int{"enqueue_enqueued": 1}, nil},
		{"enqueue claims", []string{"DEL {emq}:version"}, enqueue("JOB1"), map[string]int{"enqueue_enqueued": 1, "identity_claims": 1}, nil},
		{"duplicate", held, enqueue("JOB1"), map[string]int{"enqueue_duplicate": 1}, nil},
		{"kind", nil, enqueue("XYZ"), map[string]int{"enqueue_kind": 1}, nil},
		{"key", nil, show(with(q.Claim(1000), 3, "emq:{r}:active")), map[string]int{"claim_key": 1}, nil},
		{"numkeys", nil, show(with(q.Claim(1000), 1, "02")), map[string]int{"claim_argument": 1}, nil},
		{"number", nil, show(q.Claim(0)), map[string]int{"claim_argument": 1}, nil},
		{"word", nil, "EMQ.SCHEDULE 2 emq:{q}:job:JOB1 emq:{q}:schedule JOB1 x IN 1000", map[string]int{"schedule_argument": 1}, nil},
		{"fence", []string{"SET {emq}:version echomq:4.0.0"}, show(q.Claim(1)), map[string]int{"claim_fence": 1}, nil},
		{"type", []string{"SET emq:{q}:pending x"}, show(q.Claim(1)), map[string]int{"claim_type": 1}, []string{"emq:{q}:pending: is a string"}},
		{"empty", nil, show(q.Claim(1)), map[string]int{"claim_empty": 1}, nil},
		{"claimed", []string{enqueue("JOB1")}, show(q.Claim(1000)), map[string]int{"claim_claimed": 1}, nil},
		{"dropped", []string{"ZADD emq:{q}:pending 0 JOB0 0 JOB00", enqueue("JOB1")}, show(q.Claim(1000)),
			map[string]int{"claim_claimed": 1, "claim_entries_dropped": 2}, nil},
		{"buried", []string{"HSET emq:{q}:job:JOB1 state pending attempts x", "ZADD emq:{q}:pending 0 JOB1"}, show(q.Claim(1000)),
			map[string]int{"claim_empty": 1, "claim_jobs_buried": 1}, nil},
		{"completed", held, show(q.Complete("JOB1", "1")), map[string]int{"complete_completed": 1}, nil},
		{"complete of nothing", nil, show(q.Complete("JOB1", "1")), map[string]int{"complete_gone": 1}, nil},
		{"stale", held, show(q.Complete("JOB1", "2")), map[string]int{"complete_stale": 1}, nil},
		{"script", append(held, "HSET emq:{q}:job:JOB1 group g"), show(q.Complete("JOB1", "1")), map[string]int{"complete_script": 1}, nil},
		{"fail", held, show(q.Fail("JOB1", "1", 0, 2, "why")), map[string]int{"fail_scheduled": 1}, nil},
		{"fail for the last time", held, show(q.Fail("JOB1", "1", 0, 1, "why")), map[string]int{"fail_dead": 1}, nil},
		{"fail of nothing", nil, show(q.Fail("JOB1", "1", 0, 1, "why")), map[string]int{"fail_gone": 1}, nil},
		{"fail, stale", held, show(q.Fail("JOB1", "2", 0, 1, "why")), map[string]int{"fail_stale": 1}, nil},
		{"schedule", nil, schedule("JOB1"), map[string]int{"schedule_scheduled": 1}, nil},
		{"schedule of a duplicate", held, schedule("JOB1"), map[string]int{"schedule_duplicate": 1}, nil},
		{"extend", held, extend("JOB1"), map[string]int{"extend_extended": 1}, nil},
		{"extend of nothing", nil, extend("JOB1"), map[string]int{"extend_gone": 1}, nil},
		{"promote", due, promote, map[string]int{"promote_promoted": 1, "promote_jobs_promoted": 1}, nil},
		{"promote of nothing", nil, promote, map[string]int{"promote_empty": 1}, nil},
		{"promote leaves a lane", append(due, "HSET emq:{q}:job:JOB1 group g"), promote,
			map[string]int{"promote_empty": 1, "promote_entries_left": 1}, nil},
		{"reap by stall", held, reap("3"), map[string]int{"reap_reaped": 1, "reap_leases_stalled": 1}, nil},
		{"reap by epoch", append(held, "HSET emq:{q}:job:JOB1 lease_epoch another"), reap("3"),
			map[string]int{"reap_reaped": 1, "reap_leases_returned": 1}, nil},
		{"reap at the cap", held, reap("1"), map[string]int{"reap_reaped": 1, "reap_jobs_buried": 1}, nil},
		{"reap of an entry without a row", []string{"ZADD emq:{q}:active 1 JOB1"}, reap("1"),
			map[string]int{"reap_empty": 1, "reap_entries_dropped": 1}, nil},
	} {
		want := map[string]int{"emq_" + strings.ToLower(strings.TrimPrefix(words(tt.line)[0], "EMQ.")) + "_calls": 1}
		for name, n := range tt.want {
			want["emq_"+name] = n
		}
		for way, send := range map[string]func(st *fixture){
			"alone":            func(st *fixture) { st.Run(tt.line) },
			"in a transaction": func(st *fixture) { st.Must("MULTI"); st.Run(tt.line); st.Run("EXEC") },
			"in a script": func(st *fixture) {
				st.Do(append([]string{"EVAL", "return redis.pcall(unpack(ARGV))", "0"}, words(tt.line)...)...)
			},
		} {
			t.Run(tt.name+"/"+way, func(t *testing.T) {
				st := s.fresh(t)
				st.damaged(tt.broken...)
				st.Must(tt.given...)
				require.Equal(t, want, st.counted("emq_commands", func() { send(st) }))
			})
		}
	}
}

// A call that the server itself refuses does not count.
func TestInfoOverlooksWhatTheServerRefuses(t *testing.T) {
	st := open(t)
	require.Empty(t, st.counted("emq_commands", func() {
		st.refusal("ERR wrong number of arguments", "EMQ.CLAIM", "2")
		st.reply(array(bulk(good.Pending()), bulk(good.Active())), "COMMAND GETKEYS "+show(good.Claim(1)))
		st.Must("CONFIG RESETSTAT")
	}))
}

// A claim of the identity that the user's rights don't allow.
func TestInfoCountsARefusedClaim(t *testing.T) {
	s := start(t, withModule())
	st := s.bare(t)
	st.Must("ACL SETUSER worker reset on >secret +@emq ~emq:{q}:*")
	worker := s.dial(t)
	worker.Must("AUTH worker secret")
	require.Equal(t, map[string]int{"emq_enqueue_calls": 1, "emq_enqueue_fence": 1}, st.counted("emq_commands", func() {
		require.Contains(t, worker.Do(good.Enqueue("JOB1", "x")...), "-EMQFENCE ")
	}))
}

func TestInfoOnAReplica(t *testing.T) {
	s := start(t, withModule("--replica-read-only", "no"))
	st := s.fresh(t)
	st.Must("REPLICAOF 127.0.0.1 1")
	t.Cleanup(func() { st.Must("REPLICAOF NO ONE") })
	require.Equal(t, map[string]int{"emq_enqueue_calls": 1, "emq_enqueue_readonly": 1}, st.counted("emq_commands", func() {
		st.refusal("READONLY ", good.Enqueue("JOB1", "x")...)
	}))
}

// A panic counts, and so does its call, but not what the call would have done.
func TestInfoCountsPanics(t *testing.T) {
	st := faulty(t).fresh(t)
	require.Equal(t, map[string]int{"emq_enqueue_calls": 1, "emq_enqueue_internal": 1, "emq_panics": 1},
		st.counted("emq_commands", func() { st.refusal("ERR internal error", good.Enqueue(panicID, "x")...) }))
	st.Must("ZADD emq:{q}:pending 0 JOB! 0 "+panicID, "HSET emq:{q}:job:"+panicID+" state pending attempts 0")
	require.Equal(t, map[string]int{"emq_claim_calls": 1, "emq_claim_internal": 1, "emq_panics": 1},
		st.counted("emq_commands", func() { st.refusal("ERR internal error", good.Claim(1)...) }))
	st.Must("ZREM emq:{q}:pending JOB!")
}

// The pump's work counts only in the pump's fields. All numbers differ, so that no field can be mistaken for another.
func TestInfoCountsThePump(t *testing.T) {
	o := withModule("--emq.pump-interval-ms", "3600000", "--emq.pump-budget-us", "100")
	o.Still = false
	st := start(t, o).fresh(t)
	waitFor(t, "the first tick", func() bool { return st.Info("emq_pump_ticks") == "1" })
	// tick changes a setting, so that the pump runs at once, and waits until a counter shows that its work is done.
	tick := func(setting, done, n string) {
		t.Helper()
		st.Must("CONFIG SET emq." + setting)
		waitFor(t, done, func() bool { return st.Info("emq_pump_"+done) == n })
	}
	require.Equal(t, map[string]int{"emq_pump_skipped": 9}, st.counted("emq_pump", func() {
		st.Must("CONFIG SET min-replicas-to-write 1")
		for i := range 9 {
			tick(fmt.Sprintf("max-stalled %d", 10+i), "skipped", strconv.Itoa(i+1))
		}
		st.Must("CONFIG SET min-replicas-to-write 0")
	}))
	tick("max-stalled 8", "ticks", "2")

	// put makes jobs; without fields, it makes only entries.
	put := func(n int, id, state, score string, fields ...string) {
		var commands [][]string
		for i := range n {
			id := id + strconv.Itoa(i)
			commands = append(commands, []string{"ZADD", good.Set(state), score, id})
			if fields != nil {
				commands = append(commands, append([]string{"HSET", good.Row(id), "state", state, "attempts", "1"}, fields...))
			}
		}
		st.Pipeline(commands)
	}
	end := st.Now() + 1 // the server is serving then, so the lease counts as lost
	lost := strconv.FormatInt(end, 10)
	require.Empty(t, st.counted("emq_commands", func() {
		put(300, "JOB", "scheduled", strconv.FormatInt(st.Now()-1_000_000, 10), "payload", "x")
		got := st.counted("emq_pump", func() { tick("max-stalled 7", "jobs_promoted", "300") })
		assert.Equal(t, 300, got["emq_pump_jobs_promoted"])
		assert.Equal(t, 1, got["emq_pump_ticks"])
		assert.Greater(t, got["emq_pump_slices"], 1, "the time that one may take is short")
		assert.Greater(t, got["emq_pump_time_us"], 300)
		assert.Zero(t, got["emq_pump_lag_ms"], "the lag is that of the last complete tick")
		got = st.counted("emq_pump", func() { tick("pump-budget-us 1000000", "ticks", "4") })
		assert.GreaterOrEqual(t, got["emq_pump_lag_ms"], 1_000_000)

		put(30, "JOBreturned", "active", "1", "lease_epoch", "another")
		put(40, "JOBstalled", "active", lost, "payload", "x")
		put(50, "JOBburied", "active", lost, "stalled", "99")
		put(60, "dropped", "active", lost)
		put(70, "JOBleft", "active", lost)
		waitFor(t, "the leases to end", func() bool { return st.Now() > end })
		got = st.counted("emq_pump", func() { tick("max-stalled 6", "entries_left", "70") })
		for name, n := range map[string]int{"leases_returned": 30, "leases_stalled": 40, "jobs_buried": 50, "entries_dropped": 60, "entries_left": 70} {
			assert.Equal(t, n, got["emq_pump_"+name], name)
		}
		assert.Zero(t, got["emq_pump_jobs_promoted"]+got["emq_pump_skipped"])
		assert.Equal(t, "1", st.Info("emq_queues_known"))
		assert.NotContains(t, []string{"0", "1"}, st.Info("emq_queues_bytes"))
	}))
	st.Must("FLUSHALL")
	require.Equal(t, "0", st.Info("emq_queues_known"))
	require.Equal(t, "0", st.Info("emq_queues_bytes"))
}

// The exporter's script returns every numeric field of INFO emq and of each queue; a broken queue has none.
func TestExporterScript(t *testing.T) {
	script, err := os.ReadFile("../examples/exporter.lua")
	require.NoError(t, err)
	st := start(t, withModule()).fresh(t)
	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
	st.Must("SET emq:{broken}:dead x", "ZADD emq:{broken}:pending 0 JOB1")
	got := map[string]string{}
	for name, value := range fields(value(st.Do("EVAL", string(script), "0"))) {
		got[name] = value.(string)
	}
	_, want := st.info("emq")
	for name, value := range fields(value(st.Do(good.Stats()...))) {
		if n, ok := value.(int64); ok {
			want[good.Base()+name] = strconv.FormatInt(n, 10)
		}
	}
	for _, text := range []string{"emq_identity", "emq_version", "emq_build", "emq_go", "emq_run_id"} {
		delete(want, text)
	}
	require.Equal(t, want, got)
	st.Must("DEL emq:{broken}:dead emq:{broken}:pending")
}
