package parity

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// TestAddedParity runs random histories of the verbs that wire 6 added, among core verbs, which are native on both
// sides. Leases expire, become another server's or lose their server, and rows enter lanes and flows. After each step
// the replies are equal, and so is everything stored; the stores are sound, and each deadline is as far from its call
// as the call said.
func TestAddedParity(t *testing.T) {
	server := store.Serve(t)
	seed := store.Seed(t)
	answers := map[string]int{}
	for round := range store.Histories(t, 60, 1000, answers,
		"EMQ.SCHEDULE :1", "EMQ.SCHEDULE :0", "EMQ.SCHEDULE -EMQKIND", "EMQ.EXTEND :1", "EMQ.EXTEND :-1", "EMQ.EXTEND -EMQSTALE",
		"EMQ.EXTEND -EMQSCRIPT", "EMQ.EXTEND -EMQKIND", "EMQ.PROMOTE :0", "EMQ.PROMOTE :1", "EMQ.PROMOTE :2",
		"EMQ.REAP nobody", "EMQ.REAP recovered", "EMQ.REAP dead", "EMQ.REAP both",
		"EMQ.MENQUEUE 1", "EMQ.MENQUEUE 0", "EMQ.MENQUEUE -EMQKIND", "EMQ.MSCHEDULE 1", "EMQ.MSCHEDULE 0", "EMQ.MCLAIM jobs", "EMQ.MCLAIM none",
		"EMQ.MCOMPLETE 1", "EMQ.MCOMPLETE 0", "EMQ.MCOMPLETE -1", "EMQ.MCOMPLETE -2", "EMQ.MEXTEND 1", "EMQ.MEXTEND 0", "EMQ.MEXTEND -1",
		"EMQ.MEXTEND -2", "EMQ.MFAIL 1", "EMQ.MFAIL 2", "EMQ.MFAIL 0", "EMQ.MFAIL -1", "EMQ.MFAIL -2",
		"EMQ.RELEASE $7", "EMQ.RELEASE $9", "EMQ.RELEASE -EMQSTALE", "EMQ.RELEASE -EMQSCRIPT", "EMQ.REQUEUE 1", "EMQ.REQUEUE 0", "EMQ.REQUEUE -2",
		"EMQ.REMOVE 1", "EMQ.REMOVE 0", "EMQ.REMOVE -2",
	) {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			h := newAdded(t, openAdded(t, server), seed, round, answers)
			for range 100 {
				q := pick(h.rng, []wire.Queue{"q", "\xff :job:\r\n"})
				for _, args := range h.choose(q) {
					h.do(q, args)
				}
				h.compare()
				require.Empty(t, h.keys.Check(wire.Wire6), "what is wrong")
			}
		})
	}
}

// added is a random run on two stores of wire 6.
type added struct {
	*history
	runID string
}

func newAdded(t *testing.T, p *pair, seed uint64, round int, answers map[string]int) *added {
	h := &history{
		pair: p, rng: rand.New(rand.NewPCG(seed, uint64(round))), deadlines: map[string]span{}, answers: answers,
	}
	h.tellIfFailed()
	return &added{h, p.reader.Info("run_id")}
}

// do makes one call to both stores.
func (h *added) do(q wire.Queue, args []string) {
	if args[0] == "EMQ.PROMOTE" || args[0] == "EMQ.REAP" {
		h.passDeadlines()
	}
	h.lines = append(h.lines, wire.Line(args))
	from := h.reader.Now()
	native, scripted := h.both(args...)
	to := h.reader.Now()
	if strings.HasPrefix(native, "-WRONGTYPE ") { // the server adds where in the script it happened
		scripted = scripted[:min(len(scripted), len(native)-2)] + "\r\n"
	}
	require.Equal(h.t, scripted, native, "the replies to %s", wire.Line(args))
	for _, kind := range answersTo(args[0], native) {
		h.answers[args[0]+" "+kind]++
	}
	h.expect(q, args, native, span{from, to})
	if args[0] == "ZADD" {
		delete(h.deadlines, args[1]+args[3])
	}
}

// answersTo are the kinds of a reply: for a verb for listed jobs, each status.
func answersTo(verb, reply string) (kinds []string) {
	list, ok := wire.Value(reply).([]any)
	switch {
	case !ok || !strings.HasPrefix(verb, "EMQ.M") && verb != "EMQ.REQUEUE" && verb != "EMQ.REMOVE":
		return []string{answerTo(verb, reply)}
	case verb == "EMQ.MCLAIM":
		return []string{map[bool]string{true: "none", false: "jobs"}[len(list) == 0]}
	}
	for _, status := range list {
		kinds = append(kinds, strconv.FormatInt(status.(int64), 10))
	}
	return kinds
}

// answerTo is the kind of a reply.
func answerTo(verb, reply string) string {
	if lists, ok := wire.Value(reply).([]any); ok && verb == "EMQ.REAP" {
		recovered, dead := len(lists[0].([]any)) > 0, len(lists[1].([]any)) > 0
		switch {
		case recovered && dead:
			return "both"
		case recovered:
			return "recovered"
		case dead:
			return "dead"
		}
		return "nobody"
	}
	return strings.Fields(reply)[0]
}

// passDeadlines waits until no deadline is so near that it could pass between the two sides' calls.
func (h *added) passDeadlines() {
	for _, s := range h.deadlines {
		now := h.reader.Now()
		if s.from > now+60_000 {
			continue
		}
		for ; s.to >= now; now = h.reader.Now() {
			require.Less(h.t, s.to, now+1000, "a deadline that is neither near nor far")
		}
	}
}

// compare asserts that the stores are equal except for deadlines, and makes the deadlines equal too, so that their
// order is the same.
func (h *added) compare() {
	h.t.Helper()
	all := store.Read(h.t, h.reader)
	native, scripted := all[h.native.db], all[h.scripted.db]
	for at, s := range h.deadlines {
		key, id := h.parts(at)
		set, _ := native[key].(store.ZSet)
		other, _ := scripted[key].(store.ZSet)
		score, ok := set[id]
		if theirs, both := other[id]; !ok || !both {
			delete(h.deadlines, at)
		} else {
			for _, d := range []float64{score, theirs} {
				require.True(h.t, float64(s.from) <= d && d <= float64(s.to),
					"%s of %s: %.0f is not from %d to %d", wire.Show(key), wire.Show(id), d, s.from, s.to)
			}
			if theirs != score {
				h.scripted.Do("ZADD", key, strconv.FormatFloat(score, 'f', -1, 64), id)
				other[id] = score
			}
		}
	}
	require.Empty(h.t, scripted.Diff(native), "want the scripts' store, got the native verbs'")
	h.keys = native
}

// parts splits the name of a deadline.
func (h *added) parts(at string) (key, id string) {
	for _, q := range []wire.Queue{"q", "\xff :job:\r\n"} {
		for _, key := range []string{q.Active(), q.Schedule()} {
			if id, ok := strings.CutPrefix(at, key); ok {
				return key, id
			}
		}
	}
	panic("no deadline: " + at)
}

// choose picks what happens next in a sound store.
func (h *added) choose(q wire.Queue) [][]string {
	one := func(args []string) [][]string { return [][]string{args} }
	switch n := h.rng.IntN(165); {
	case n >= 150:
		return one(h.operate(q))
	case n >= 100:
		return one(h.batch(q))
	case n < 8:
		return one(q.Enqueue("JOB"+h.bytes(4), h.bytes(10)))
	case n < 20:
		return one(h.schedule(q, "JOB"+h.bytes(4)))
	case n < 36:
		return one(q.Claim(h.lease()))
	case n < 40:
		if id, row, ok := h.find(q, held); ok {
			return one(q.Complete(id, row["attempts"]))
		}
	case n < 47:
		if id, row, ok := h.find(q, held); ok {
			return one(q.Fail(id, row["attempts"], h.delay(), pick(h.rng, []int64{2, 3, maxCap}), "why"))
		}
	case n < 54:
		if id, row, ok := h.find(q, held); ok {
			return one(q.Extend(id, row["attempts"], h.lease()))
		}
	case n < 58: // whoever it belongs to, and not the holder's token
		if id, row, ok := h.find(q, every); ok {
			n := number(row["attempts"])
			token := pick(h.rng, []string{strconv.Itoa(n), strconv.Itoa(n + 1), "", "0" + row["attempts"]})
			return one(q.Extend(id, token, h.lease()))
		}
	case n < 68:
		return one(q.Promote(h.limit()))
	case n < 80:
		return one(q.Reap(h.most(), h.limit()))
	case n < 82:
		if id, _, ok := h.find(q, every); ok {
			return one(h.schedule(q, id))
		}
	case n < 83:
		return one(pick(h.rng, [][]string{h.schedule(q, "XYZ1"), q.Extend("XYZ1", "1", 1), q.Extend("JOBnobody", "1", 1)}))
	case n < 84:
		return [][]string{{"SCRIPT", "FLUSH"}}
	default:
		return h.meddle(q)
	}
	return one(h.schedule(q, "JOB"+h.bytes(2)))
}

// batch is a call for many jobs, mostly few, of any holder, and some of them twice.
func (h *added) batch(q wire.Queue) []string {
	n := 1 + h.rng.IntN(6)
	if h.rng.IntN(12) == 0 {
		n = 30 + h.rng.IntN(40)
	}
	each := func(job func() []string) (words []string) {
		for range n {
			words = append(words, job()...)
		}
		return words
	}
	decimal := func(n int64) string { return strconv.FormatInt(n, 10) }
	created := func() string {
		if id, _, ok := h.find(q, every); ok && h.rng.IntN(3) == 0 && strings.HasPrefix(id, "JOB") {
			return id
		}
		return "JOB" + pick(h.rng, []string{"a", "b", h.bytes(2)})
	}
	settled := func() []string {
		which := pick(h.rng, []func(store.Hash) bool{held, held, held, held, every})
		id, row, ok := h.find(q, which)
		if !ok || !strings.HasPrefix(id, "JOB") || h.rng.IntN(12) == 0 {
			return []string{"JOBnobody", "1"}
		}
		token := row["attempts"]
		if h.rng.IntN(12) == 0 {
			token = pick(h.rng, []string{"0", "", "0" + token, token + " "})
		}
		return []string{id, token}
	}
	switch h.rng.IntN(8) {
	case 0:
		if h.rng.IntN(20) == 0 {
			return q.Menqueue("JOBx", "x", "XYZ1", "x")
		}
		return q.Menqueue(each(func() []string { return []string{created(), h.bytes(10)} })...)
	case 1:
		mode := pick(h.rng, []string{"in", "at"})
		return q.Mschedule(mode, each(func() []string { return []string{created(), decimal(h.delay()), h.bytes(10)} })...)
	case 2, 3:
		return q.Mclaim(h.lease(), pick(h.rng, []int64{1, 2, 3, 10, 1000}))
	case 4, 5:
		return q.Mcomplete(each(settled)...)
	case 6:
		return q.Mextend(h.lease(), each(settled)...)
	}
	return q.Mfail(pick(h.rng, []int64{1, 2, 3, maxCap}), each(func() []string { return append(settled(), decimal(h.delay()), h.bytes(5)) })...)
}

// operate is a RELEASE or a verb for operators, for jobs of any holder.
func (h *added) operate(q wire.Queue) []string {
	job := func(which func(store.Hash) bool) (string, store.Hash) {
		id, row, ok := h.find(q, which)
		if !ok || !strings.HasPrefix(id, "JOB") {
			return "JOBnobody", store.Hash{"attempts": "1"}
		}
		return id, row
	}
	if h.rng.IntN(3) == 0 {
		id, row := job(pick(h.rng, []func(store.Hash) bool{held, held, every}))
		return q.Release(id, pick(h.rng, []string{row["attempts"], row["attempts"], row["attempts"], "0", ""}), h.delay())
	}
	state := pick(h.rng, []string{"dead", "dead", "scheduled"})
	var ids []string
	for range 1 + h.rng.IntN(4) {
		id, _ := job(pick(h.rng, []func(store.Hash) bool{in(state), in(state), every}))
		ids = append(ids, id)
	}
	if h.rng.IntN(3) > 0 {
		return q.Requeue(state, ids...)
	}
	return q.Remove(pick(h.rng, []string{"pending", "active", "scheduled", "dead", "any"}), ids...)
}

// meddle is what time, other servers and scripts do to a job.
func (h *added) meddle(q wire.Queue) [][]string {
	from := pick(h.rng, []string{"active", "active", "scheduled"})
	id, row, ok := h.find(q, in(from))
	if !ok {
		return [][]string{q.Claim(h.lease())}
	}
	come := []string{"ZADD", q.Set(from), pick(h.rng, []string{"1", "2", "1732872600000"}), id}
	lapsed := from == "active"
	switch n := h.rng.IntN(10); {
	case n < 5 || !lapsed:
		return [][]string{come}
	case n < 7:
		epoch := pick(h.rng, []string{"another", "", strings.ToUpper(h.runID)})
		return [][]string{come, {"HSET", q.Row(id), "lease_epoch", epoch}}
	case n < 8:
		return [][]string{come, {"HDEL", q.Row(id), "lease_epoch"}}
	}
	for _, field := range []string{"group", "parent"} {
		if _, ok := row[field]; ok {
			return [][]string{{"HDEL", q.Row(id), field}}
		}
	}
	return [][]string{come, {"HSET", q.Row(id), pick(h.rng, []string{"group", "parent"}), h.bytes(1)}}
}

func (h *added) schedule(q wire.Queue, id string) []string {
	if h.rng.IntN(2) == 0 {
		return q.ScheduleIn(id, h.bytes(10), h.delay())
	}
	return q.ScheduleAt(id, h.bytes(10), pick(h.rng, []int64{0, 1, 1, 1732872600000, maxTime}))
}

// Times are either near, so that they can be waited for, or so far that they never pass; a lease is at least 1 ms.
func (h *added) lease() int64 { return pick(h.rng, []int64{1, 1, 3_600_000, maxTime}) }
func (h *added) delay() int64 { return pick(h.rng, []int64{0, 0, 1, 3_600_000, maxTime}) }
func (h *added) limit() int64 { return pick(h.rng, []int64{1, 1, 2, 3, 7, 100, 10_000}) }
func (h *added) most() int64  { return pick(h.rng, []int64{0, 1, 2, 3, maxCap}) }

// TestRandomStores fills both stores with the same broken entries of every kind and lets both executors promote, reap,
// extend and schedule, with random limits and caps, until nothing moves. After each call the replies and the stores are
// equal, and in the end only due entries of lanes are left.
func TestRandomStores(t *testing.T) {
	server := store.Serve(t)
	seed := store.Seed(t)
	answers := map[string]int{}
	for round := range store.Histories(t, 100, 2000, answers,
		"EMQ.SCHEDULE :1", "EMQ.SCHEDULE :0", "EMQ.SCHEDULE -WRONGTYPE", "EMQ.EXTEND :1", "EMQ.EXTEND :-1", "EMQ.EXTEND -EMQSTALE",
		"EMQ.EXTEND -EMQSCRIPT", "EMQ.EXTEND -WRONGTYPE", "EMQ.PROMOTE :0", "EMQ.PROMOTE :1", "EMQ.PROMOTE -WRONGTYPE",
		"EMQ.REAP nobody", "EMQ.REAP recovered", "EMQ.REAP dead", "EMQ.REAP both", "EMQ.REAP -WRONGTYPE",
		"EMQ.MENQUEUE 1", "EMQ.MENQUEUE 0", "EMQ.MENQUEUE -WRONGTYPE", "EMQ.MSCHEDULE 1", "EMQ.MSCHEDULE 0", "EMQ.MSCHEDULE -WRONGTYPE",
		"EMQ.MCLAIM jobs", "EMQ.MCLAIM none", "EMQ.MCLAIM -WRONGTYPE", "EMQ.MCOMPLETE 1", "EMQ.MCOMPLETE 0", "EMQ.MCOMPLETE -1", "EMQ.MCOMPLETE -2",
		"EMQ.MCOMPLETE -WRONGTYPE", "EMQ.MEXTEND 1", "EMQ.MEXTEND -1", "EMQ.MEXTEND -WRONGTYPE", "EMQ.MFAIL 1", "EMQ.MFAIL 2", "EMQ.MFAIL -1",
		"EMQ.MFAIL -WRONGTYPE", "EMQ.RELEASE $7", "EMQ.RELEASE -EMQSTALE", "EMQ.RELEASE -WRONGTYPE", "EMQ.REQUEUE 1", "EMQ.REQUEUE 0",
		"EMQ.REQUEUE -WRONGTYPE", "EMQ.REMOVE 1", "EMQ.REMOVE 0", "EMQ.REMOVE -WRONGTYPE",
	) {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			h := newAdded(t, openAdded(t, server), seed, round, answers)
			q := pick(h.rng, []wire.Queue{"q", "\xff :job:\r\n"})
			h.fill(q)
			h.compare()
			for range h.rng.IntN(20) {
				h.do(q, h.sweep(q))
				h.compare()
			}
			for moved := true; moved; {
				before := h.keys
				h.do(q, q.Promote(10_000))
				h.do(q, q.Reap(h.most(), 10_000))
				h.compare()
				moved = len(before.Diff(h.keys)) > 0
			}
			h.requireSwept(q)
		})
	}
}

// What random stores are made of.
var (
	epochs  = []string{"another", "", "0"}
	states  = []string{"pending", "active", "scheduled", "dead", "lost", "", "ACTIVE", "active\x00"}
	numbers = []string{
		"0", "1", "1", "2", "7", "", "-1", "+1", "01", "1.5", "1e3", " 1", "1 ", "1\x00", "x", "0x1", "inf", "nan",
		"2147483647", "9007199254740989", "9007199254740990", "9007199254740991", "9007199254740992",
		"9223372036854775806", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
		"-9223372036854775809", "99999999999999999999", "4.5e15", "1\n",
	}
	// None is so near that it could pass between two calls.
	scores = []string{
		"-inf", "-1e300", "-1732872600000", "-1", "-0.5", "-0", "0", "1e-300", "0.5", "1", "1", "1", "1.5", "2",
		"1732872600000", "1732872600000.25", "1e13", "4503599627370495", "9007199254740993", "1e300", "inf",
	}
	others = []string{"SET %s x", "RPUSH %s x", "SADD %s x", "HSET %s f v", "ZADD %s 1 JOB1", "XADD %s 1-1 f v"}
)

// fill breaks both stores in the same way.
func (h *added) fill(q wire.Queue) {
	names := []string{"GRP1", "", "J", "JO", "JOB", "job1", "\x00JOB1", "JOB\x00", "JOB\r\n", "JOB\xff"}
	for i := range pick(h.rng, []int{3, 10, 40, 300}) {
		names = append(names, "JOB"+strconv.Itoa(i))
	}
	var lines [][]string
	add := func(args ...string) { lines = append(lines, args) }
	wrong := func(key string) {
		words := wire.Words(pick(h.rng, others))
		words[1] = key
		lines = append(lines, words)
	}
	broken := func(of int) bool { return h.rng.IntN(of) == 0 }
	sets := []string{q.Pending(), q.Active(), q.Schedule(), q.Dead()}
	wrongly := map[string]bool{}
	for i, key := range sets {
		if wrongly[key] = broken([]int{40, 40, 40, 6}[i]); wrongly[key] {
			wrong(key)
		}
	}
	for _, id := range names {
		switch row := q.Row(id); h.rng.IntN(12) {
		case 0, 1:
		case 2:
			wrong(row)
		default:
			add(append([]string{"HSET", row}, h.fields()...)...)
		}
		for _, key := range sets {
			if !wrongly[key] && broken(2) {
				add("ZADD", key, pick(h.rng, scores), id)
			}
		}
	}
	for _, key := range []string{q.Completed(), q.Failed()} {
		switch h.rng.IntN(4) {
		case 0:
			wrong(key)
		case 1, 2:
			add("HSET", key, "count", pick(h.rng, numbers))
		}
	}
	for _, line := range lines {
		h.lines = append(h.lines, wire.Line(line))
	}
	native, scripted := h.native.Pipeline(lines), h.scripted.Pipeline(lines)
	require.Equal(h.t, native, scripted)
	for i, reply := range native {
		require.False(h.t, wire.IsError(reply) && reply != wire.WrongType, "%s: %s", wire.Line(lines[i]), reply)
	}
}

// fields are random fields of a row, as anybody may have written them.
func (h *added) fields() []string {
	fields := []string{"x", h.bytes(h.rng.IntN(70))}
	some := func(of int, field string, values []string) {
		if h.rng.IntN(of) > 0 {
			fields = append(fields, field, pick(h.rng, values))
		}
	}
	some(12, "state", pick(h.rng, [][]string{states, states[:4]}))
	some(6, "attempts", numbers)
	some(2, "payload", numbers)
	some(3, "lease_epoch", append(epochs, h.runID, h.runID, h.runID, h.runID))
	some(2, "stalled", numbers)
	some(2, "failures", numbers)
	if h.rng.IntN(8) == 0 {
		some(9, "group", []string{"", "g"})
	}
	if h.rng.IntN(8) == 0 {
		some(9, "parent", []string{"", "p"})
	}
	return fields
}

// sweep is a call on a broken store.
func (h *added) sweep(q wire.Queue) []string {
	switch n := h.rng.IntN(48); {
	case n >= 40:
		return h.operate(q)
	case n >= 20:
		return h.batch(q)
	case n < 6:
		return q.Promote(h.limit())
	case n < 14:
		return q.Reap(h.most(), h.limit())
	}
	id := pick(h.rng, []string{"JOB", "JOB\x00", "JOB\xff", "JOB0", "JOB1", "JOB2", "JOB7", "JOBnobody"})
	if h.rng.IntN(3) == 0 {
		return h.schedule(q, id)
	}
	if some, _, ok := h.find(q, held); ok && h.rng.IntN(4) > 0 && strings.HasPrefix(some, "JOB") {
		id = some
	}
	row, _ := h.keys[q.Row(id)].(store.Hash)
	return q.Extend(id, pick(h.rng, []string{row["attempts"], row["attempts"], "1"}), pick(h.rng, []int64{3_600_000, maxTime}))
}

// requireSwept asserts that no due entries are left but those of lanes, if the keys are sorted sets.
func (h *added) requireSwept(q wire.Queue) {
	now := float64(h.reader.Now())
	if _, ok := h.keys[q.Pending()].(store.ZSet); !ok && h.keys[q.Pending()] != nil {
		return
	}
	for _, state := range []string{"scheduled", "active"} {
		set, _ := h.keys[q.Set(state)].(store.ZSet)
		for id, score := range set {
			row, _ := h.keys[q.Row(id)].(store.Hash)
			_, lane := row["group"]
			require.True(h.t, score > now || lane, "%s stays in %s at %v", wire.Show(id), state, score)
		}
	}
}

// TestManyEntries has more entries than one call looks at: rows of lanes, entries that are dropped and jobs that are
// moved, in any order. Both executors must stop at the same entry.
func TestManyEntries(t *testing.T) {
	server := store.Serve(t)
	seed := store.Seed(t) % 1_000_000
	const fill = `
		math.randomseed(ARGV[3])
		for i = 1, 13000 do
			local id, kind = string.format('JOB%s%05d', ARGV[2], i), math.random(20)
			redis.call('ZADD', KEYS[1], math.random(5), id)
			if kind <= tonumber(ARGV[4]) then
				redis.call('HSET', ARGV[1] .. 'job:' .. id, 'state', ARGV[2], 'group', 'g')
			elseif kind > 5 then
				redis.call('HSET', ARGV[1] .. 'job:' .. id, 'state', ARGV[2], 'attempts', '1', 'stalled', kind)
			end
		end`
	for round := range store.Rounds(t, 3, 30) {
		p := openAdded(t, server)
		p.scripted.verbs.Do(q.Promote(1)...) // loads the script
		for _, state := range []string{"scheduled", "active"} {
			lanes := strconv.Itoa([]int{15, 5, 2, 0}[round%4]) // in twenty
			p.given(wire.Line([]string{"EVAL", fill, "1", q.Set(state), q.Base(), state, strconv.FormatUint(seed+uint64(round), 10), lanes}))
		}
		for _, call := range [][]string{
			q.Promote(1), q.Reap(0, 1), q.Promote(5000), q.Reap(9, 5000), q.Promote(9000), q.Reap(9, 9000), q.Promote(10_000),
		} {
			native, scripted := p.both(call...)
			all := store.Read(t, p.reader)
			diff := all[p.scripted.db].Diff(all[p.native.db])
			// A difference of so many lines would take minutes to show.
			require.True(t, native == scripted, "the replies to %s: %.100q is not %.100q", wire.Line(call), native, scripted)
			require.Zero(t, len(diff), "%s: %.1000q", wire.Line(call), diff)
		}
	}
}
