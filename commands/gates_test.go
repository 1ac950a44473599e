package commands

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"emq/test/wire"
)

// queued is a queue of some pending and some active jobs.
func queued(pending, active int) *store {
	s := newStore()
	for i := range active {
		s.put(fmt.Sprintf("JOBa%04d", i), held(nil), KeyActive)
	}
	for i := range pending {
		s.put(fmt.Sprintf("JOBb%04d", i), row{FieldState: "pending", FieldAttempts: "0"}, KeyPending)
	}
	return s
}

// takes is the number of jobs that a queue hands out to CLAIM, and to an MCLAIM of many.
func (s *store) takes(t testing.TB) (one, many int, o *Outcome) {
	t.Helper()
	entries := s.entries(KeyPending)
	one = len(claimed(s, entries, s.clone().run(t, Claim, valid(Claim), 1)))
	c := s.clone()
	o = c.run(t, Mclaim, []string{"emq:{q}:", "30000", "1000"}, Window)
	return one, len(claimed(c, entries, o)), o
}

// TestGates checks which gates there are and what they let through, from WIRE6 §7.5: five jobs are pending, two are active.
func TestGates(t *testing.T) {
	const all = 5
	at := func(ms int64) string { return strconv.FormatInt(now+ms, 10) }
	bad := []string{"", "-1", "+5", "05", "5.0", "5e0", " 5", "5 ", "x", "9007199254740991", "9007199254740992", "99999999999999999999"}
	type gate struct {
		name  string
		meta  row
		room  int
		opens int64 // 0: not by itself
	}
	cases := []gate{
		{"no field", row{}, all, 0},
		{"a field of others", row{FieldState: "paused"}, all, 0},
		{"paused", row{FieldPaused: "1"}, 0, 0},
		{"paused until later", row{FieldPaused: "1", FieldPausedUntil: at(1)}, 0, now + 1},
		{"paused until now", row{FieldPaused: "1", FieldPausedUntil: at(0)}, all, 0},
		{"paused until long ago", row{FieldPaused: "1", FieldPausedUntil: "0"}, all, 0},
		{"paused until the last of all times", row{FieldPaused: "1", FieldPausedUntil: "9007199254740990"}, 0, 9007199254740990},
		{"a time without a pause", row{FieldPausedUntil: at(1000)}, all, 0},
		{"concurrency of one more", row{FieldConcurrency: "3"}, 1, 0},
		{"concurrency as it is", row{FieldConcurrency: "2"}, 0, 0},
		{"concurrency of less", row{FieldConcurrency: "1"}, 0, 0},
		{"concurrency of plenty", row{FieldConcurrency: "2147483647"}, all, 0},
		{"concurrency of too much", row{FieldConcurrency: "2147483648"}, all, 0},
		{"concurrency of none", row{FieldConcurrency: "0"}, all, 0},
		{"a rate", row{FieldMax: "3", FieldDuration: "1000"}, 3, 0},
		{"a rate's max alone", row{FieldMax: "3"}, all, 0},
		{"a rate's duration alone", row{FieldDuration: "1000"}, all, 0},
		{"a rate of none", row{FieldMax: "0", FieldDuration: "1000"}, all, 0},
		{"a rate over no time", row{FieldMax: "3", FieldDuration: "0"}, all, 0},
		{"a rate too high", row{FieldMax: "2147483648", FieldDuration: "1000"}, all, 0},
		{"a rate over too long", row{FieldMax: "3", FieldDuration: "4503599627370496"}, all, 0},
		{"a window that began now", row{FieldMax: "3", FieldDuration: "1000", FieldWindow: at(0), FieldUsed: "2"}, 1, 0},
		{"a window at its last ms", row{FieldMax: "3", FieldDuration: "1000", FieldWindow: at(-999), FieldUsed: "3"}, 0, now + 1},
		{"a window that is over", row{FieldMax: "3", FieldDuration: "1000", FieldWindow: at(-1000), FieldUsed: "3"}, 3, 0},
		{"a window of long ago", row{FieldMax: "3", FieldDuration: "1000", FieldWindow: "0", FieldUsed: "3"}, 3, 0},
		{"a window to come, of a clock set back", row{FieldMax: "3", FieldDuration: "1000", FieldWindow: at(1), FieldUsed: "3"}, 3, 0},
		{"more used than there may be", row{FieldMax: "3", FieldDuration: "1000", FieldWindow: at(0), FieldUsed: "4"}, 0, now + 1000},
		{"more used than could ever be", row{FieldMax: "3", FieldDuration: "1000", FieldWindow: at(0), FieldUsed: "9007199254740990"}, 0, now + 1000},
		{"nothing said of what is used", row{FieldMax: "3", FieldDuration: "1000", FieldWindow: at(0)}, 3, 0},
		{"a longest window", row{FieldMax: "3", FieldDuration: "4503599627370495", FieldWindow: at(-5), FieldUsed: "3"}, 0, now - 5 + 1<<52 - 1},
		{"the least of two", row{FieldConcurrency: "4", FieldMax: "9", FieldDuration: "1000", FieldWindow: at(0), FieldUsed: "8"}, 1, 0},
		{"the least of two, the other way", row{FieldConcurrency: "3", FieldMax: "9", FieldDuration: "1000"}, 1, 0},
		{"a place is missing, and the window used up", row{FieldConcurrency: "2", FieldMax: "1", FieldDuration: "9", FieldWindow: at(0), FieldUsed: "1"}, 0, 0},
		{"a pause before all", row{FieldPaused: "1", FieldPausedUntil: at(7), FieldConcurrency: "2", FieldMax: "1", FieldDuration: "9"}, 0, now + 7},
	}
	for _, text := range bad {
		cases = append(cases,
			gate{fmt.Sprintf("paused %q", text), row{FieldPaused: text}, all, 0},
			gate{fmt.Sprintf("concurrency %q", text), row{FieldConcurrency: text}, all, 0},
			gate{fmt.Sprintf("max %q", text), row{FieldMax: text, FieldDuration: "1000", FieldWindow: at(0), FieldUsed: "9"}, all, 0},
			gate{fmt.Sprintf("window %q", text), row{FieldMax: "3", FieldDuration: "1000", FieldWindow: text, FieldUsed: "3"}, 3, 0},
			gate{fmt.Sprintf("used %q", text), row{FieldMax: "3", FieldDuration: "1000", FieldWindow: at(0), FieldUsed: text}, 3, 0},
			gate{fmt.Sprintf("paused_until %q", text), row{FieldPaused: "1", FieldPausedUntil: text}, all, 0})
		if !strings.HasPrefix(text, "900719925474099") || text == "9007199254740992" {
			cases = append(cases, gate{fmt.Sprintf("duration %q", text), row{FieldMax: "1", FieldDuration: text, FieldWindow: at(0), FieldUsed: "9"}, all, 0})
		}
	}
	for _, text := range []string{"0", "2", "01", "11", "yes", "true", "1 ", "1\x00"} {
		cases = append(cases, gate{fmt.Sprintf("paused %q", text), row{FieldPaused: text}, all, 0})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := queued(all, 2).gate(c.meta)
			before := s.clone()
			one, many, o := s.takes(t)
			assert.Equal(t, c.room, many)
			assert.Equal(t, min(1, c.room), one)
			assert.Equal(t, c.room == 0, o.Gated)
			if c.room == 0 {
				assert.Equal(t, c.opens, o.Opens)
				assert.Equal(t, ResultEmpty, o.Result)
				assert.Empty(t, o.Effects)
				assert.Equal(t, Reply{ReplyJobs, 0}, o.Reply)
				assert.Equal(t, Reply{ReplyEmpty, 0}, s.run(t, Claim, valid(Claim), 1).Reply)
				assert.Equal(t, before, s, "nothing is written")
			}
		})
	}
	for _, kind := range []Type{None, String, SortedSet, Stream} {
		s := queued(all, 2).gate(row{FieldPaused: "1"})
		s.types[KeyMeta] = kind
		one, many, o := s.takes(t)
		assert.Equal(t, []any{1, all, false}, []any{one, many, o.Gated}, "a meta of type %v is no gate", kind)
	}
}

// TestGatesComeLast checks that a shut gate does not hide a refusal of the claim.
func TestGatesComeLast(t *testing.T) {
	for _, verb := range []Verb{Claim, Mclaim} {
		s := queued(1, 0).gate(row{FieldPaused: "1"})
		s.types[KeyActive] = String
		assert.Contains(t, text(s.run(t, verb, valid(verb), 1)), "WRONGTYPE ")
		s.identity = "echomq:4.0.0"
		assert.Contains(t, text(s.run(t, verb, valid(verb), 1)), "EMQFENCE ")
		s.fence = None
		assert.Contains(t, text(s.run(t, verb, valid(verb), 1)), "the queue's pending is there")
		s = newStore().gate(row{FieldPaused: "1"})
		s.fence = None
		assert.Empty(t, text(s.run(t, verb, valid(verb), 1)), "a claim does not ask for meta on an unclaimed store")
	}
}

// TestSpending checks that a claim's last effect writes the window and adds the number of jobs handed out to used.
func TestSpending(t *testing.T) {
	at := func(ms int64) string { return strconv.FormatInt(now+ms, 10) }
	rate := func(meta row) row {
		return row{FieldMax: "3", FieldDuration: "1000", FieldWindow: meta[FieldWindow], FieldUsed: meta[FieldUsed]}
	}
	begun := "HSET meta window =" + at(0) + " used ="
	for _, c := range []struct {
		name      string
		meta      row
		one, many string // what CLAIM and MCLAIM write
	}{
		{"no rate", row{FieldConcurrency: "9"}, "", ""},
		{"half a rate", row{FieldMax: "9"}, "", ""},
		{"the first", row{FieldMax: "3", FieldDuration: "1000"}, begun + "1", begun + "3"},
		{"in a window", rate(row{FieldWindow: at(-999), FieldUsed: "1"}), "HSET meta used =2", "HSET meta used =3"},
		{"after a window", rate(row{FieldWindow: at(-1000), FieldUsed: "3"}), begun + "1", begun + "3"},
		{"before a window", rate(row{FieldWindow: at(1), FieldUsed: "3"}), begun + "1", begun + "3"},
		{"with a broken use", rate(row{FieldWindow: at(0), FieldUsed: "9007199254740991"}), "HSET meta used =1", "HSET meta used =3"},
		{"with a broken window", rate(row{FieldWindow: "soon", FieldUsed: "3"}), begun + "1", begun + "3"},
		{"and a concurrency", row{FieldConcurrency: "3", FieldMax: "3", FieldDuration: "1000"}, begun + "1", begun + "1"},
	} {
		s := queued(5, 2).gate(c.meta)
		s.add(KeyPending, "GRP", 0) // dropped entries do not count
		s.add(KeyPending, "JOB", 0)
		for verb, want := range map[Verb]string{Claim: c.one, Mclaim: c.many} {
			args := valid(verb)
			if verb == Mclaim {
				args[2] = "1000"
			}
			effects := shown(s.clone().run(t, verb, args, Window))
			of := slices.IndexFunc(effects, func(e string) bool { return strings.Contains(e, "meta") })
			if want == "" {
				assert.Negative(t, of, c.name)
			} else if assert.Equal(t, len(effects)-1, of, "%s: it comes last: %q", c.name, effects) {
				assert.Equal(t, want, effects[of][strings.Index(effects[of], "HSET"):], c.name)
			}
		}
	}
	s := newStore().gate(row{FieldMax: "3", FieldDuration: "1000"})
	s.add(KeyPending, "GRP", 0)
	for _, verb := range []Verb{Claim, Mclaim} {
		assert.Equal(t, []string{"ZREM pending"}, shown(s.clone().run(t, verb, valid(verb), 1)), "nothing was handed out")
	}
}

// TestRateOverTime checks that no window of a rate limit hands out more than max, whatever the clock does: it jumps forwards
// and backwards.
func TestRateOverTime(t *testing.T) {
	meta := row{FieldMax: "7", FieldDuration: "100"}
	d := make(dice, 6000)
	for i := range d {
		d[i] = byte(i * i >> 3)
	}
	taken, of := map[int64]int{}, int64(0)
	clock := int64(now)
	for range 1500 {
		clock += []int64{0, 1, 1, 3, 40, 250, -30}[d.below(7)]
		verb, args := Claim, valid(Claim)
		if d.below(2) == 1 {
			verb, args = Mclaim, []string{"emq:{q}:", "1", []string{"1", "3", "100"}[d.below(3)]}
		}
		s := queued(9, 0).gate(meta)
		s.now = clock
		entries := s.entries(KeyPending)
		n := len(claimed(s, entries, s.run(t, verb, args, Window)))
		window, err := strconv.ParseInt(meta[FieldWindow], 10, 64)
		require.NoError(t, err)
		if window != of && n > 0 {
			require.True(t, clock-of >= 100 || clock < of, "a window began %d ms after the last", clock-of)
			of = window
			require.Equal(t, clock, window, "it begins now")
			taken[window] = 0
		}
		taken[of] += n
		require.LessOrEqual(t, taken[of], 7)
		require.Equal(t, strconv.Itoa(taken[of]), meta[FieldUsed])
	}
	require.Greater(t, len(taken), 100)
	require.Contains(t, slices.Collect(maps.Values(taken)), 7)
}

func TestPauseResumeLimit(t *testing.T) {
	at := func(ms int64) string { return strconv.FormatInt(now+ms, 10) }
	full := row{FieldPaused: "1", FieldPausedUntil: at(5), FieldConcurrency: "3", FieldMax: "4", FieldDuration: "1000", FieldWindow: at(0), FieldUsed: "2", FieldState: "kept"}
	without := func(fields ...Field) row {
		r := maps.Clone(full)
		for _, f := range fields {
			delete(r, f)
		}
		return r
	}
	const resumed, not = 1, 0
	for _, c := range []struct {
		name   string
		verb   Verb
		args   string
		meta   row // nil: none
		want   []string
		answer int64
		result Result
	}{
		{"pause", Pause, "0", nil, []string{"HSET meta paused =1"}, 0, ResultPaused},
		{"pause for a time", Pause, "1000", nil, []string{"HSET meta paused =1 paused_until =" + at(1000)}, 0, ResultPaused},
		{"pause again", Pause, "0", row{FieldPaused: "1"}, nil, 0, ResultPaused},
		{"pause until a new time", Pause, "1000", row{FieldPaused: "1", FieldPausedUntil: at(5)}, []string{"HSET meta paused_until =" + at(1000)}, 0, ResultPaused},
		{"pause until the same time", Pause, "1000", row{FieldPaused: "1", FieldPausedUntil: at(1000)}, nil, 0, ResultPaused},
		{"pause without end after one for a time", Pause, "0", row{FieldPaused: "1", FieldPausedUntil: at(5)}, []string{"HDEL meta paused_until"}, 0, ResultPaused},
		{"pause for a time after one without end", Pause, "7", row{FieldPaused: "1"}, []string{"HSET meta paused_until =" + at(7)}, 0, ResultPaused},
		{"pause over what is broken", Pause, "0", row{FieldPaused: "yes", FieldPausedUntil: "soon"}, []string{"HSET meta paused =1", "HDEL meta paused_until"}, 0, ResultPaused},
		{"pause over an end alone", Pause, "0", row{FieldPausedUntil: at(5)}, []string{"HSET meta paused =1", "HDEL meta paused_until"}, 0, ResultPaused},
		{"the longest pause", Pause, "4503599627370495", nil, []string{"HSET meta paused =1 paused_until =" + at(1<<52-1)}, 0, ResultPaused},
		{"pause beside limits", Pause, "0", without(FieldPaused, FieldPausedUntil), []string{"HSET meta paused =1"}, 0, ResultPaused},

		{"resume", Resume, "", row{FieldPaused: "1"}, []string{"HDEL meta paused"}, resumed, ResultResumed},
		{"resume before the time", Resume, "", full, []string{"HDEL meta paused paused_until"}, resumed, ResultResumed},
		{"resume after the time", Resume, "", row{FieldPaused: "1", FieldPausedUntil: at(0)}, []string{"HDEL meta paused paused_until"}, not, ResultNotPaused},
		{"resume what is not paused", Resume, "", nil, nil, not, ResultNotPaused},
		{"resume what has limits", Resume, "", without(FieldPaused, FieldPausedUntil), nil, not, ResultNotPaused},
		{"resume what is broken", Resume, "", row{FieldPaused: "yes"}, []string{"HDEL meta paused"}, not, ResultNotPaused},
		{"resume with a broken end", Resume, "", row{FieldPaused: "1", FieldPausedUntil: "soon"}, []string{"HDEL meta paused paused_until"}, not, ResultNotPaused},
		{"resume with an end alone", Resume, "", row{FieldPausedUntil: at(5)}, []string{"HDEL meta paused_until"}, not, ResultNotPaused},

		{"limit", Limit, "3 4 1000", nil, []string{"HSET meta concurrency =3 max =4 duration =1000"}, 0, ResultLimited},
		{"limit the concurrency", Limit, "3 0 0", nil, []string{"HSET meta concurrency =3"}, 0, ResultLimited},
		{"limit the rate", Limit, "0 4 1000", nil, []string{"HSET meta max =4 duration =1000"}, 0, ResultLimited},
		{"limit nothing", Limit, "0 0 0", nil, nil, 0, ResultLimited},
		{"limit nothing any more", Limit, "0 0 0", full, []string{"HDEL meta concurrency max duration window used"}, 0, ResultLimited},
		{"limit as before", Limit, "3 4 1000", without(FieldWindow, FieldUsed), nil, 0, ResultLimited},
		{"limit as before, in a window", Limit, "3 4 1000", full, []string{"HDEL meta window used"}, 0, ResultLimited},
		{"limit anew", Limit, "5 0 0", full, []string{"HSET meta concurrency =5", "HDEL meta max duration window used"}, 0, ResultLimited},
		{"limit one otherwise", Limit, "3 9 1000", without(FieldWindow, FieldUsed), []string{"HSET meta max =9"}, 0, ResultLimited},
		{"limit over what is broken", Limit, "3 4 1000", row{FieldConcurrency: "03", FieldMax: "x", FieldDuration: ""}, []string{"HSET meta concurrency =3 max =4 duration =1000"}, 0, ResultLimited},
		{"the highest limits", Limit, "2147483647 2147483647 4503599627370495", nil, []string{"HSET meta concurrency =2147483647 max =2147483647 duration =4503599627370495"}, 0, ResultLimited},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"emq:{q}:"}, strings.Fields(c.args)...)
			s := newStore()
			if c.meta != nil {
				s.gate(maps.Clone(c.meta))
			}
			unclaimed := s.clone()
			before := s.clone()
			o := s.run(t, c.verb, args, 1)
			require.Empty(t, text(o))
			assert.Equal(t, c.want, shown(o))
			assert.Equal(t, c.result, o.Result)
			reply := Reply{ReplyOK, 0}
			if c.verb == Resume {
				reply = Reply{ReplyInteger, c.answer}
			}
			assert.Equal(t, reply, o.Reply)
			if len(c.want) == 0 {
				assert.Equal(t, before, s)
			}
			if c.meta[FieldState] != "" {
				assert.Equal(t, "kept", s.meta[FieldState], "fields of others stay")
			}

			// The same call again has nothing to write.
			after := s.clone()
			assert.Empty(t, s.run(t, c.verb, args, 1).Effects)
			assert.Equal(t, after, s)

			// The identity is claimed if and only if something is written.
			unclaimed.fence = None
			o = unclaimed.run(t, c.verb, args, 1)
			assert.Equal(t, len(c.want) > 0, o.ClaimIdentity)
			assert.Equal(t, reply, o.Reply)
		})
	}
}

func TestGateVerbsRefuse(t *testing.T) {
	wrong := func(verb Verb, want string, args ...string) {
		t.Helper()
		s := newStore().gate(row{FieldPaused: "1"})
		before := s.clone()
		assert.True(t, strings.HasPrefix(text(s.run(t, verb, args, 1)), want), "%q: %s", args, text(s.run(t, verb, args, 1)))
		assert.Equal(t, before, s)
	}
	const base = "emq:{q}:"
	both := "ERR max and duration_ms must both be 0 or both be more"
	wrong(Limit, both, base, "1", "1", "0")
	wrong(Limit, both, base, "0", "0", "1")
	wrong(Limit, "ERR concurrency must be an integer from 0 to 2147483647, got ", base, "2147483648", "1", "0")
	wrong(Limit, "ERR max must be an integer from 0 to 2147483647, got ", base, "1", "2147483648", "0")
	wrong(Limit, "ERR duration_ms must be an integer from 0 to 4503599627370495, got ", base, "1", "1", "4503599627370496")
	wrong(Limit, "ERR concurrency ", base, "-1", "1", "1")
	wrong(Limit, "ERR max ", base, "1", "01", "1")
	wrong(Pause, "ERR ms must be an integer from 0 to 4503599627370495, got ", base, "4503599627370496")
	wrong(Pause, "ERR ms ", base, "")
	for _, verb := range []Verb{Pause, Resume, Limit} {
		args := valid(verb)
		wrong(verb, "EMQKEY base must be ", append([]string{"emq:{q}"}, args[1:]...)...)
		for _, kind := range []Type{String, List, SortedSet, Stream} {
			s := newStore()
			s.types[KeyMeta] = kind
			assert.Equal(t, "WRONGTYPE Operation against a key holding the wrong kind of value", text(s.run(t, verb, args, 1)))
			s.fence = None
			assert.Contains(t, text(s.run(t, verb, args, 1)), "WRONGTYPE ", "on an unclaimed store too: they may claim it")
		}
		s := newStore()
		for k := KeyPending; k <= KeyFailed; k++ {
			s.types[k] = String
		}
		assert.Empty(t, text(s.run(t, verb, args, 1)), "the queue's other keys are not asked")
		s.identity = "echomq:4.0.0"
		assert.Contains(t, text(s.run(t, verb, args, 1)), "EMQFENCE ")
		s.fence = List
		assert.Contains(t, text(s.run(t, verb, args, 1)), "EMQFENCE {emq}:version is a list")
	}
}

// TestPumpTidies checks that the pump's RESUME removes a timed pause that is over, and no other.
func TestPumpTidies(t *testing.T) {
	past, later := strconv.FormatInt(now, 10), strconv.FormatInt(now+1, 10)
	for _, c := range []struct {
		meta row
		want []string
	}{
		{row{FieldPaused: "1", FieldPausedUntil: past}, []string{"HDEL meta paused paused_until"}},
		{row{FieldPausedUntil: past}, []string{"HDEL meta paused_until"}},
		{row{FieldPaused: "1", FieldPausedUntil: later}, nil},
		{row{FieldPaused: "1"}, nil},
		{row{FieldPaused: "1", FieldPausedUntil: "soon"}, nil},
		{row{FieldPaused: "yes"}, nil},
		{row{FieldConcurrency: "1"}, nil},
	} {
		s := newStore().gate(c.meta)
		call := s.call(Resume, valid(Resume))
		call.Slice, call.Ended = 32, true
		o := &Outcome{Effects: make([]Effect, 0, MaxEffects), Marks: make([]Mark, 1)}
		Decide(Resume, call, o)
		assert.Equal(t, c.want, shown(o), "%v", c.meta)
	}
}

// TestStatsTellsGates checks that STATS shows the gates as a claim sees them.
func TestStatsTellsGates(t *testing.T) {
	const none = NoNumber
	for _, c := range []struct {
		meta row
		want []int64 // paused, paused_until_ms, concurrency, rate_max, rate_duration_ms
	}{
		{row{}, []int64{0, none, none, none, none}},
		{row{FieldPaused: "1"}, []int64{1, none, none, none, none}},
		{row{FieldPaused: "1", FieldPausedUntil: strconv.FormatInt(now+1, 10)}, []int64{1, now + 1, none, none, none}},
		{row{FieldPaused: "1", FieldPausedUntil: strconv.FormatInt(now, 10)}, []int64{0, none, none, none, none}},
		{row{FieldPaused: "1", FieldPausedUntil: "x"}, []int64{0, none, none, none, none}},
		{row{FieldPaused: "0", FieldConcurrency: "3"}, []int64{0, none, 3, none, none}},
		{row{FieldConcurrency: "0", FieldMax: "4", FieldDuration: "1000"}, []int64{0, none, none, 4, 1000}},
		{row{FieldConcurrency: "x", FieldMax: "4"}, []int64{0, none, none, none, none}},
		{row{FieldMax: "0", FieldDuration: "1000"}, []int64{0, none, none, none, none}},
		{row{FieldConcurrency: "2147483647", FieldMax: "2147483647", FieldDuration: "4503599627370495"}, []int64{0, none, 1<<31 - 1, 1<<31 - 1, 1<<52 - 1}},
	} {
		s := newStore().gate(c.meta)
		call := s.call(Stats, valid(Stats))
		call.Figures, call.Ended = &Figures{Waiting: 7}, true
		o := &Outcome{}
		Decide(Stats, call, o)
		assert.Equal(t, append([]int64{7}, c.want...), o.Numbers[statWaiting:numStats], "%v", c.meta)
		call = s.call(Stats, valid(Stats))
		call.Figures, call.Ended, call.Types[KeyMeta] = &Figures{}, true, String
		o = &Outcome{}
		Decide(Stats, call, o)
		assert.Equal(t, []int64{0, 0, none, none, none, none}, o.Numbers[statWaiting:numStats], "a meta that is not a hash has no gates")
	}
}

// TestAuditFindsBrokenGates checks which fields of meta are broken, and that FIX removes them.
func TestAuditFindsBrokenGates(t *testing.T) {
	for _, c := range []struct {
		meta row
		want []string
	}{
		{row{}, nil},
		{row{FieldPaused: "1", FieldPausedUntil: "0", FieldConcurrency: "1", FieldMax: "1", FieldDuration: "1", FieldWindow: "0", FieldUsed: "0", FieldState: "x"}, nil},
		{row{FieldPausedUntil: "5", FieldWindow: "9007199254740990", FieldUsed: "9007199254740990"}, nil},
		{row{FieldPaused: "0"}, []string{"paused"}},
		{row{FieldPaused: "", FieldConcurrency: "3"}, []string{"paused"}},
		{row{FieldPaused: "1", FieldPausedUntil: "soon"}, []string{"paused", "paused_until"}},
		{row{FieldPausedUntil: "soon"}, []string{"paused_until"}},
		{row{FieldConcurrency: "0"}, []string{"concurrency"}},
		{row{FieldConcurrency: "2147483648"}, []string{"concurrency"}},
		{row{FieldMax: "1", FieldDuration: "4503599627370496"}, []string{"max", "duration"}},
		{row{FieldMax: "1"}, []string{"max"}},
		{row{FieldMax: "0", FieldDuration: "1"}, []string{"max", "duration"}},
		{row{FieldDuration: "1"}, []string{"duration"}},
		{row{FieldMax: "1", FieldDuration: "1", FieldWindow: "9007199254740991", FieldUsed: "-1"}, []string{"window", "used"}},
		{row{FieldPaused: "x", FieldPausedUntil: "x", FieldConcurrency: "x", FieldMax: "x", FieldDuration: "x", FieldWindow: "x", FieldUsed: "x"},
			[]string{"paused", "paused_until", "concurrency", "max", "duration", "window", "used"}},
	} {
		for _, fix := range []bool{false, true} {
			s := newStore().gate(maps.Clone(c.meta))
			args := []string{"emq:{q}:", "0", "10"}
			if fix {
				args = append(args, tokenFix)
			}
			o := s.auditGates(t, args)
			found := []string{}
			for i, p := range gateProbes {
				if o.BrokenGates&(1<<i) != 0 {
					found = append(found, FieldName[p.Field])
				}
			}
			assert.ElementsMatch(t, c.want, found, "%v", c.meta)
			if len(c.want) == 0 {
				assert.Equal(t, Finding{}, o.Gates)
				assert.Equal(t, ResultClean, o.Result)
				assert.Empty(t, o.Effects)
				continue
			}
			assert.Equal(t, Finding{WordGate, WordMeta, WordDrop, fix}, o.Gates)
			assert.Equal(t, ResultFound, o.Result)
			var dropped []string
			for _, e := range shown(o) {
				dropped = append(dropped, strings.Fields(strings.TrimPrefix(e, "HDEL meta"))...)
			}
			if !fix {
				assert.Empty(t, dropped)
				continue
			}
			assert.Equal(t, c.want, dropped)
			s.carryOut(t, s.call(Audit, args), o, []string{""}, false)
			again := s.auditGates(t, args)
			assert.Equal(t, ResultClean, again.Result, "%v: once is enough", c.meta)
		}
	}
	s := newStore()
	s.types[KeyMeta] = String
	o := s.auditGates(t, []string{"emq:{q}:", "0", "10", tokenFix})
	assert.Equal(t, Finding{WordNoHash, WordMeta, WordLeave, false}, o.Gates)
	assert.Empty(t, o.Effects, "it is not ours to remove")
	s.gate(row{FieldPaused: "x"})
	assert.Equal(t, Finding{}, s.auditGates(t, []string{"emq:{q}:", "pending:7", "10", tokenFix}).Gates, "only where the audit begins")
	s.fence = None
	o = s.auditGates(t, []string{"emq:{q}:", "0", "10"})
	assert.Contains(t, text(o), "EMQFENCE {emq}:version is absent, yet the queue's meta is there")
}

// auditGates decides the audit of a queue in which the scan finds nothing.
func (s *store) auditGates(t testing.TB, args []string) *Outcome {
	t.Helper()
	c := s.call(Audit, args)
	c.Scanned, c.Ended = true, true
	o := &Outcome{Effects: make([]Effect, 0, MaxEffects), Marks: make([]Mark, 1)}
	Decide(Audit, c, o)
	return o
}

// TestPayloads checks emq.max-payload-bytes: the first payload that is too long is refused, also for a job that exists, on a
// replica and under another identity; it is the last check of the arguments.
func TestPayloads(t *testing.T) {
	const most = 5
	refused := func(n int) string {
		return fmt.Sprintf("ERR payload has %d bytes, more than emq.max-payload-bytes (%d)", n, most)
	}
	for _, c := range []struct {
		verb Verb
		args string
		want string
	}{
		{Enqueue, "2 emq:{q}:job:JOB1 emq:{q}:pending JOB1 12345", ""},
		{Enqueue, "2 emq:{q}:job:JOB1 emq:{q}:pending JOB1 123456", refused(6)},
		{Schedule, "2 emq:{q}:job:JOB1 emq:{q}:schedule JOB1 1234567 in 1", refused(7)},
		{Schedule, "2 emq:{q}:job:JOB1 emq:{q}:schedule JOB1 1234567 in x", "ERR ms "},
		{Menqueue, "emq:{q}: JOB1 12345 JOB2 5 JOB3 12345", ""},
		{Menqueue, "emq:{q}: JOB1 12345 JOB2 123456 JOB3 1234567", refused(6)},
		{Menqueue, "emq:{q}: JOB2 1 JOB2 123456", refused(6)},
		{Mschedule, "emq:{q}: at JOB1 1 1 JOB2 1 1234567890 JOB3 1 123456", refused(10)},
		{Mschedule, "emq:{q}: at JOB1 1 1 JOB2 x 1234567890", "ERR ms "},
		{Complete, "2 emq:{q}:active emq:{q}:job:JOB1 JOB1 1234567 emq:{q}:", "EMQSTALE "},
		{Mfail, "emq:{q}: 1 JOB1 1 0 1234567890", ""},
	} {
		for _, found := range []func(*store, *Call){
			func(s *store, _ *Call) {},
			func(_ *store, c *Call) { c.Replica = true },
			func(_ *store, c *Call) { c.Identity = "echomq:4.0.0" },
			func(_ *store, c *Call) { c.Types[KeyPending], c.Types[KeySchedule] = String, String },
		} {
			s := newStore()
			s.put("JOB1", held(nil), KeyActive)
			args := strings.Fields(c.args)
			call := s.call(c.verb, args)
			call.MaxPayload, call.Ended = most, true
			found(s, call)
			ids := 1
			if v := &Table[c.verb]; v.List != nil {
				ids = (len(call.Args) - v.listAt) / len(v.List)
			}
			for i := range ids {
				j := s.read(c.verb, call.Args[Table[c.verb].At(RoleID)+i*len(Table[c.verb].List)], true)
				j.Shift = int32(i * len(Table[c.verb].List))
				call.Jobs = append(call.Jobs, j)
			}
			o := &Outcome{Effects: make([]Effect, 0, ids*MaxEffects), Marks: make([]Mark, ids)}
			Decide(c.verb, call, o)
			if strings.HasPrefix(c.want, "ERR payload") {
				assert.Equal(t, c.want, text(o), c.args)
				assert.Equal(t, []any{RefusedPayload, ResultArgument}, []any{o.Refusal, o.Result})
				assert.Empty(t, o.Effects)
			} else {
				assert.NotContains(t, text(o), "payload", c.args)
				if strings.HasPrefix(c.want, "ERR") {
					assert.Contains(t, text(o), c.want)
				}
			}
		}
	}
	// A number with all its digits.
	o := &Outcome{}
	o.refusePayload(math.MaxInt64, 1<<31-1)
	assert.Equal(t, "ERR payload has 9223372036854775807 bytes, more than emq.max-payload-bytes (2147483647)", text(o))
}

// TestOperatorsNoAllocation checks that decisions allocate nothing.
func TestOperatorsNoAllocation(t *testing.T) {
	for _, verb := range []Verb{Release, Requeue, Remove, Pause, Resume, Limit, Claim, Mclaim, Audit} {
		s := queued(1, 1).gate(row{FieldPaused: "x", FieldPausedUntil: "9", FieldConcurrency: "9", FieldMax: "9", FieldDuration: "9", FieldWindow: "1", FieldUsed: "1"})
		s.put(id, held(row{FieldState: map[Verb]string{Requeue: "dead"}[verb]}), KeyActive)
		if verb == Release {
			s.rows[id][FieldState] = "active"
		}
		args := valid(verb)
		if verb == Audit {
			args = append(args, tokenFix)
		}
		c := s.call(verb, args)
		c.Ended, c.Scanned = true, verb == Audit
		switch Table[verb].Plan.Jobs {
		case NamedJob, ListedJobs:
			c.Jobs = []Job{s.read(verb, id, true)}
		case WalkedJobs:
			c.Jobs = []Job{s.read(verb, "JOBb0000", false)}
		}
		o := &Outcome{Effects: make([]Effect, 0, 2*MaxEffects), Marks: make([]Mark, 1)}
		fresh := *o
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			*o = fresh
			Decide(verb, c, o)
		}), Table[verb].Name)
		assert.NotEmpty(t, o.Effects, Table[verb].Name)
	}
}

// FuzzGates puts any bytes into the fields of meta. A claim hands out what the model says, and nothing in these fields
// stops a queue for good: LIMIT 0 0 0 and RESUME open it.
func FuzzGates(f *testing.F) {
	for _, s := range []string{"1", "0", "3", "01", "-1", "", "x", "2147483647", "2147483648", "9007199254740990", "9007199254740991",
		"9007199254740992", "99999999999999999999", strconv.FormatInt(now, 10), strconv.FormatInt(now+1, 10), strconv.FormatInt(now-500, 10)} {
		f.Add(s, "3", "1000", strconv.FormatInt(now-100, 10), s, "3", strconv.FormatInt(now+9, 10), uint8(0xff), uint8(2), int64(0))
		f.Add("1", s, s, s, "1", s, s, uint8(0x7f), uint8(0), int64(1))
	}
	f.Fuzz(func(t *testing.T, paused, concurrency, duration, window, used, most, until string, there, active uint8, later int64) {
		meta := row{}
		for i, text := range []string{paused, until, concurrency, most, duration, window, used} {
			if there&(1<<i) != 0 {
				meta[gateProbes[i].Field] = text
			}
		}
		const pending = 5
		s := queued(pending, int(active%8))
		if len(meta) > 0 { // no server has an empty hash
			s.gate(meta)
		}
		s.now = now + later%(1<<40)
		want := len(wire.Value(s.world().Do(0, queue.Mclaim(30000, 1000), s.clock())).([]any))
		one, many, o := s.takes(t)
		require.Equal(t, []int{min(1, want), want}, []int{one, many}, "%v", meta)
		require.Equal(t, want == 0, o.Gated)
		if o.Opens != 0 {
			require.Greater(t, o.Opens, s.now, "it opens later")
		}
		audited := s.clone().auditGates(t, []string{"emq:{q}:", "0", "1"})
		for i := range gateProbes {
			if _, is := meta[gateProbes[i].Field]; !is {
				require.Zero(t, audited.BrokenGates&(1<<i), "what is not there is not broken")
			}
		}
		fixed := s.clone()
		args := []string{"emq:{q}:", "0", "1", tokenFix}
		fixed.carryOut(t, fixed.call(Audit, args), fixed.auditGates(t, args), []string{""}, false)
		_, after, _ := fixed.takes(t)
		require.Equal(t, want, after, "an audit takes no gate away, and opens none: %v, %v", meta, fixed.meta)
		s.run(t, Limit, []string{"emq:{q}:", "0", "0", "0"}, 1)
		s.run(t, Resume, []string{"emq:{q}:"}, 1)
		_, open, _ := s.takes(t)
		require.Equal(t, pending, open)
		require.NotEqual(t, Hash, s.types[KeyMeta], "nothing is left")
	})
}
