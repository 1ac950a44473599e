package commands

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"emq/fence"
	"emq/lease"
	"emq/test/wire"
)

// singles is the number of verbs about one job, one entry after the other, or a queue, which come first in the table. The
// entries of testdata/fuzz depend on this order. FuzzModel has the other verbs.
const singles = Menqueue

// walks reports whether a verb walks the entries of a set, so that the caller names no jobs.
func walks(verb Verb) bool { return verb == Claim || verb == Promote || verb == Reap }

// onQueue reports whether a verb is about a whole queue and has its base as the first argument.
func onQueue(verb Verb) bool { return verb == Stats || verb == Audit }

// idOf is the id among the arguments of a verb about one job.
func idOf(verb Verb, args []string) string {
	switch {
	case walks(verb) || onQueue(verb):
		return ""
	case verb == Fail:
		return args[5]
	default:
		return args[3]
	}
}

// wellNamed reports whether all names in a call belong to one valid queue. It takes the only queue to which the first
// key can belong, and compares the call with a call on that queue.
func wellNamed(verb Verb, args []string) bool {
	id := idOf(verb, args)
	first := [...]string{
		Enqueue: "job:" + id, Claim: "pending", Complete: "active", Fail: "active",
		Schedule: "job:" + id, Extend: "active", Promote: "schedule", Reap: "active", Stats: "", Audit: "",
	}[verb]
	at := 1
	if onQueue(verb) {
		at = 0
	}
	q, head := strings.CutPrefix(args[at], "emq:{")
	q, tail := strings.CutSuffix(q, "}:"+first)
	if !head || !tail || q == "" || strings.ContainsAny(q, "{}\x00") {
		return false
	}
	want := on(verb, wire.Queue(q), id)
	for i := range want {
		if strings.HasPrefix(want[i], "emq:") && args[i] != want[i] {
			return false
		}
	}
	return true
}

// FuzzLayout puts any bytes in any place of a call on any queue: a name is refused if and only if the names are not
// those of one queue.
func FuzzLayout(f *testing.F) {
	f.Add(uint8(Enqueue), "q", "JOB01", uint8(99), "")
	f.Add(uint8(Claim), "q", "", uint8(3), "emq:{r}:job:")
	f.Add(uint8(Complete), "a}:active", "JOB", uint8(2), "emq:{a}:job:JOB")
	f.Add(uint8(Complete), "a{b", "JOB01", uint8(99), "")
	f.Add(uint8(Complete), "a\x00b", "JOB01", uint8(99), "")
	f.Add(uint8(Complete), "q", "JOB01", uint8(1), "emq:{r}:active")
	f.Add(uint8(Complete), "q", "JOB01", uint8(2), "emq:{q}:job:JOB02")
	f.Add(uint8(Fail), "\xff\r\n", "JOB}:pending", uint8(10), "emq:{\xff\r\n}:")
	f.Add(uint8(Schedule), "q", "JOB01", uint8(2), "emq:{q}:scheduled")
	f.Add(uint8(Extend), "q", "JOB01", uint8(2), "emq:{q}:job:JOB02")
	f.Add(uint8(Promote), "q", "", uint8(3), "emq:{q}:job:")
	f.Add(uint8(Reap), "a}:active", "", uint8(2), "emq:{a}:pending")
	f.Add(uint8(Stats), "a", "", uint8(0), "emq:{a}")
	f.Add(uint8(Audit), "a", "", uint8(0), "emq:{a}:job:")
	f.Fuzz(func(t *testing.T, v uint8, q, id string, at uint8, broken string) {
		verb := Verb(v) % singles
		args := on(verb, wire.Queue(q), id)
		if int(at) < len(args) {
			args[at] = broken
		}
		o := run(t, verb, found{row: held(nil)}.request(verb, args...))
		kind := walks(verb) || onQueue(verb) || strings.HasPrefix(idOf(verb, args), "JOB")
		want := (onQueue(verb) || args[0] == on(verb, wire.Queue(q), id)[0]) && kind && !wellNamed(verb, args)
		if got := o.Refusal == RefusedKey; got != want {
			t.Fatalf("%q: EMQKEY is %v, should be %v: %q", args, got, want, o.Text)
		}
	})
}

var (
	natural = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)
	whole   = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)
)

// FuzzNumbers puts any bytes wherever a number is read: in the arguments, in the row and in a counter. The expected
// values are computed with big integers.
func FuzzNumbers(f *testing.F) {
	for _, s := range []string{
		"0", "1", "30000", "2147483647", "2147483648", "4503599627370495", "4503599627370496", "9007199254740990",
		"9007199254740991", "9007199254740992", "9223372036854775806", "9223372036854775807", "9223372036854775808",
		"-9223372036854775808", "-9223372036854775809", "-1", "-0", "01", "", "1:", "1/", "1e3", "99999999999999999999",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var n big.Int
		within := func(form *regexp.Regexp, least, most int64) bool {
			if !form.MatchString(s) {
				return false
			}
			n.SetString(s, 10)
			return n.Cmp(big.NewInt(least)) >= 0 && n.Cmp(big.NewInt(most)) <= 0
		}
		expect := func(what string, got, want bool) {
			t.Helper()
			if got != want {
				t.Fatalf("%s %q: %v, should be %v", what, s, got, want)
			}
		}
		accepted := func(verb Verb, f found, args []string) bool {
			return run(t, verb, f.request(verb, args...)).Refusal == NotRefused
		}
		first := found{row: row{FieldState: lease.Pending, FieldAttempts: "0"}, looked: true, member: []Key{KeyPending}}
		expect("lease_ms", accepted(Claim, first, with(Claim, 5, s)), within(natural, 1, 1<<52-1))
		expect("delay_ms", accepted(Fail, found{row: held(nil)}, with(Fail, 8, s)), within(natural, 0, 1<<52-1))
		expect("max", accepted(Fail, found{row: held(nil)}, with(Fail, 9, s)), within(natural, 1, 1<<31-1))
		expect("token", accepted(Complete, found{row: held(row{FieldAttempts: s})}, with(Complete, 5, s)), within(natural, 1, 1<<53-1))
		extended := found{row: held(nil), member: []Key{KeyActive}}
		expect("lease_ms", accepted(Extend, extended, with(Extend, Table[Extend].At(RoleLease), s)), within(natural, 1, 1<<52-1))
		extended.row[FieldAttempts] = s
		expect("token", accepted(Extend, extended, with(Extend, Table[Extend].At(RoleToken), s)), within(natural, 1, 1<<53-1))
		expect("max_stalled", accepted(Reap, found{row: held(nil)}, with(Reap, Table[Reap].At(RoleMaxStalled), s)), within(natural, 0, 1<<31-1))
		expect("limit", accepted(Reap, found{row: held(nil)}, with(Reap, Table[Reap].At(RoleLimit), s)), within(natural, 1, 10_000))
		expect("limit", accepted(Promote, found{}, with(Promote, Table[Promote].At(RoleLimit), s)), within(natural, 1, 10_000))
		for mode, from := range map[string]int64{scheduleIn: now, scheduleAt: 0} {
			args := with(Schedule, Table[Schedule].At(RoleDue), s)
			args[Table[Schedule].At(RoleWord)-1] = mode
			o := run(t, Schedule, found{}.request(Schedule, args...))
			expect("ms", o.Refusal == NotRefused, within(natural, 0, 1<<52-1))
			if o.Refusal == NotRefused && o.Effects[1].Score != from+n.Int64() {
				t.Fatalf("%s %q: due at %d", mode, s, o.Effects[1].Score)
			}
		}

		first.row[FieldAttempts] = s
		o := run(t, Claim, first.request(Claim, valid(Claim)...))
		granted := o.Reply.Kind == ReplyJob
		expect("attempts", granted, within(natural, 0, 1<<53-2))
		if granted && o.Token != n.Int64()+1 {
			t.Fatalf("attempts %q: the token is %d", s, o.Token)
		}

		o = run(t, Fail, found{row: held(row{FieldFailures: s}), looked: true}.request(Fail, valid(Fail)...))
		failures := int64(0)
		if within(natural, 0, 1<<53-2) {
			failures = n.Int64()
		}
		if got := written(t, o, FieldFailures); got != failures+1 {
			t.Fatalf("failures %q: %d is written", s, got)
		}

		for _, limit := range []string{"0", "3"} {
			o = run(t, Reap, found{row: held(row{FieldStalled: s})}.request(Reap, with(Reap, Table[Reap].At(RoleMaxStalled), limit)...))
			stalled := int64(0)
			if within(natural, 0, 1<<53-2) {
				stalled = n.Int64()
			}
			if got := written(t, o, FieldStalled); got != stalled+1 {
				t.Fatalf("stalled %q: %d is written", s, got)
			}
			expect("stalled", o.Disposition == Buried, limit == "3" && stalled >= 2)
		}

		r := found{row: held(nil)}.request(Complete, valid(Complete)...)
		r.count(KeyCompleted, s)
		o = run(t, Complete, r)
		counted := o.Effects[o.NumEffects-1].Op == OpHincrby
		expect("count", counted, within(whole, math.MinInt64, math.MaxInt64-1))
		if counted && written(t, o, FieldCount) != n.Int64()+1 {
			t.Fatalf("count %q: %d is written", s, written(t, o, FieldCount))
		}
	})
}

// written is the number that an outcome writes to a field.
func written(t *testing.T, o *decision, f Field) int64 {
	t.Helper()
	for _, e := range o.Effects[:o.NumEffects] {
		for i, field := range e.Fields[:e.N] {
			if field == f && e.Op != OpHdel && e.Kinds[i] == ValueInt {
				return e.Values[i]
			}
		}
	}
	t.Fatalf("no number is written to %s", FieldName[f])
	return 0
}

// FuzzDecide gives each verb anything that a host can have read for it, and checks what must be true of every decision.
func FuzzDecide(f *testing.F) {
	for v := range singles {
		f.Add(uint8(v), []byte{})
	}
	f.Fuzz(func(t *testing.T, v uint8, data []byte) {
		verb := Verb(v) % singles
		d := dice(data)
		run(t, verb, d.request(verb))
	})
}

// onDice runs a test many times with dice of a fixed seed.
func onDice(t *testing.T, seed uint64, times int, do func(testing.TB, *dice)) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range times {
		d := make(dice, 700)
		for i := range d {
			d[i] = byte(rng.Uint32())
		}
		do(t, &d)
	}
}

// TestDecide is FuzzDecide on random bytes with a fixed seed, so that an ordinary run covers most cases.
func TestDecide(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 0))
	for n := range 30_000 {
		d := make(dice, 64)
		for i := range d {
			d[i] = byte(rng.Uint32())
		}
		verb := Verb(n) % singles
		run(t, verb, d.request(verb))
	}
}

// dice turn the fuzzer's bytes into choices; when they run out, every choice is the first.
type dice []byte

func (d *dice) below(n int) int {
	if len(*d) == 0 {
		return 0
	}
	b := (*d)[0]
	*d = (*d)[1:]
	return int(b) % n
}

func (d *dice) often() bool { return d.below(8) != 7 }

// word picks one of the given words, the first as often as all others together, or sometimes takes any bytes.
func (d *dice) word(from ...string) string {
	switch i := d.below(16); {
	case i < 8:
		return from[0]
	case i < 15:
		return from[i%len(from)]
	}
	n := min(d.below(256), len(*d))
	s := string((*d)[:n])
	*d = (*d)[n:]
	return s
}

// request generates what a host can have read: a row's fields if the row is a hash, an entry if the source is a sorted set,
// and nothing at all if a check before the reads fails.
func (d *dice) request(verb Verb) *request {
	if onQueue(verb) {
		return d.queue(verb)
	}
	c := &Table[verb]
	args := on(verb, wire.Queue(d.word("q", "a", "{", "\x00")), d.word("JOB01", "JOB", "GRP01"))
	if !d.often() {
		args[d.below(len(args))] = d.word("", "2", "02", "-1", "JOB02", "emq:{q}:pending", "emq:{r}:")
	}
	numbers := []string{"3", "0", "1", "03", "9007199254740990", "9007199254740991", "9007199254740992", "-1", "x", ""}
	if token := tokenOf[verb]; token > 0 {
		args[token-1] = d.word(numbers...)
	}
	if verb == Fail {
		args[Table[Fail].At(RoleMax)-1] = d.word("5", "1", "2", "2147483647", "0")
		args[Table[Fail].At(RoleDelay)-1] = d.word("1000", "0", "4503599627370495", "4503599627370496")
	}
	switch verb {
	case Schedule:
		args[Table[Schedule].At(RoleWord)-1] = d.word(scheduleIn, scheduleAt, "IN", "")
		args[Table[Schedule].At(RoleDue)-1] = d.word("1000", "0", "4503599627370495", "4503599627370496")
	case Extend:
		args[Table[Extend].At(RoleLease)-1] = d.word("1000", "1", "0", "4503599627370495")
	case Promote:
		args[Table[Promote].At(RoleLimit)-1] = d.word("100", "1", "2", "10000", "10001", "0")
	case Reap:
		args[Table[Reap].At(RoleLimit)-1] = d.word("100", "1", "2", "10000", "10001", "0")
		args[Table[Reap].At(RoleMaxStalled)-1] = d.word("3", "1", "0", "2147483647", "2147483648")
	}
	r := &request{Now: now + int64(d.below(256)), Step: int32(d.below(maxDropped)), Replica: !d.often(), Epoch: "run"}
	if verb == Promote || verb == Reap {
		d.sweep(r, args[len(args)-1])
	}
	r.Args[0] = c.Name
	copy(r.Args[1:], args)
	r.Argc = int32(len(args)) + 1
	if r.Replica || args[0] != c.Numkeys() || (!wellNamed(verb, args) && d.often()) {
		return r // unread
	}

	r.IdentityType = []Type{String, String, String, String, String, String, None, Hash}[d.below(8)]
	if r.IdentityType == String {
		r.Identity = d.word(fence.Identity, "echomq:4.0.0")
	}
	if c.Plan.Jobs == NamedJob {
		r.Types[KeyRow] = d.keyType(KeyRow)
	}
	for _, k := range c.Plan.Keys {
		r.Types[k] = d.keyType(k)
	}
	if source := c.Plan.Walk; source != NoKey {
		r.HasEntry = r.Types[source] == SortedSet
		if !r.HasEntry {
			r.Step, r.Tally = 0, Tally{}
			return r
		}
		if verb != Claim && !d.often() {
			r.HasEntry = false // the walk is at its end
			return r
		}
		r.Entry = d.word("JOB01", "GRP01")
		r.Types[KeyRow] = d.keyType(KeyRow)
	}
	if r.Types[KeyRow] == Hash {
		for _, field := range c.Plan.Values {
			if others := field == FieldGroup || field == FieldParent; d.often() == others {
				continue
			}
			r.Present |= 1 << field
			switch field {
			case FieldState:
				r.Row[field] = d.word(lease.Active, lease.Pending, lease.Scheduled, lease.Dead)
			case FieldLeaseEpoch:
				r.Row[field] = d.word(r.Epoch, "another")
			default:
				r.Row[field] = d.word(numbers...)
			}
		}
	}
	if c.Plan.Walk == NoKey && d.below(2) == 1 {
		r.Looked = true
		for _, field := range c.Plan.Late {
			if r.Types[KeyRow] == Hash && d.often() {
				r.Present |= 1 << field
			}
		}
		if c.Plan.LateProbes {
			r.Types[counterOf(verb)] = d.keyType(counterOf(verb))
		}
	}
	if r.HasEntry && d.below(2) == 1 {
		r.Looked = true
		for _, k := range []Key{KeyPending, KeyActive, KeySchedule, KeyDead} {
			if r.Types[k] == Unread {
				r.Types[k] = d.keyType(k)
			}
			if r.Types[k] == SortedSet && (k == c.Plan.Walk || d.below(2) == 1) {
				r.Member |= 1 << k
			}
		}
	}
	if k := c.Plan.Member; k != NoKey && r.Types[k] == SortedSet && d.often() {
		r.Member |= 1 << k
	}
	if k := counterOf(verb); k != NoKey && r.Types[k] == Hash && d.often() {
		r.count(k, d.word("7", "9223372036854775807", "-1", "x"))
		if verb == Reap && !d.often() {
			r.count(k, "9223372036854775806")
		}
	}
	return r
}

// sweep generates the state of a walk: what it has met before, within its limit, and what only the pump knows.
func (d *dice) sweep(r *request, limit string) {
	r.Step = int32([]int{0, 1, 7, 9998, 9999}[d.below(5)])
	if most, ok := lease.Decimal(limit); ok && most > 0 {
		r.Tally.Taken = int32(d.below(int(min(int64(r.Step)+1, most, 100))))
	}
	r.Tally.Moved = int32(d.below(int(r.Tally.Taken) + 1))
	r.Tally.Counted = int32(d.below(int(r.Tally.Moved) + 1))
	r.Deadline = []float64{float64(now), float64(now - 1000), 0, math.Inf(-1), 0.5}[d.below(5)]
	if !d.often() {
		r.ServedSince = now - int64(d.below(2))*500
		r.Slice = r.Step + 1 + int32(d.below(2))
	}
}

// tokenOf is the index of the token in each verb of a holder.
var tokenOf = map[Verb]int{Complete: Table[Complete].At(RoleToken), Fail: Table[Fail].At(RoleToken), Extend: Table[Extend].At(RoleToken)}

func (d *dice) keyType(k Key) Type {
	right := SortedSet
	if k == KeyRow || k >= KeyCompleted {
		right = Hash
	}
	return []Type{right, right, right, right, right, None, None, String}[d.below(8)]
}

// run decides and checks what must be true of every decision: it depends only on the request; a refusal has a text of its
// class and no effects; the effects are few and well-formed; and they move the job to where they should.
func run(t *testing.T, verb Verb, r *request) *decision {
	t.Helper()
	before := *r
	clean := decideOne(verb, r, false)
	if used := decideOne(verb, r, true); *clean != *used {
		t.Fatalf("what was in the outcome before matters:\n%s\n%s", clean.describe(r), used.describe(r))
	}
	if *r != before {
		t.Fatal("the request was changed")
	}
	for i, a := range Table[verb].Args {
		if a.Role.IsOpaque() { // the host shows no decision these
			r.Args[i+1] = ""
		}
	}
	if blind := decideOne(verb, r, true); *clean != *blind {
		t.Fatalf("opaque bytes matter:\n%s\n%s", clean.describe(r), blind.describe(r))
	}
	*r = before
	checkResult(t, verb, r, clean)
	checkOrder(t, r, clean)
	if clean.Refusal != NotRefused || clean.Text != "" {
		checkRefusal(t, clean)
		return clean
	}
	switch verb {
	case Stats:
		checkStats(t, r, clean)
		return clean
	case Audit:
		checkAudit(t, r, clean)
		return clean
	}
	if clean.ClaimIdentity && (verb != Enqueue && verb != Schedule || r.IdentityType != None || clean.NumEffects == 0) {
		t.Fatalf("the identity is claimed where it may not be: %s", clean.describe(r))
	}
	checkNext(t, verb, r, clean)
	checkTally(t, verb, r, clean)
	for i := range clean.Effects[:clean.NumEffects] {
		checkEffect(t, verb, r, clean, i)
	}
	return clean
}

func (o *decision) describe(r *request) string {
	effects := []string{}
	for _, e := range o.Effects[:o.NumEffects] {
		effects = append(effects, e.describe(r))
	}
	return fmt.Sprint(effects, o.ClaimIdentity, o.Reply, o.Refusal, o.Next, o.Disposition, o.Tally, o.Text)
}

// checkResult checks that INFO has a name for the result of a decision, and for the disposition of its entry.
func checkResult(t *testing.T, verb Verb, r *request, o *decision) {
	t.Helper()
	c := &Table[verb]
	if o.Next == NextFinish && !slices.Contains(c.Results, o.Result) {
		t.Fatalf("%s comes to %q: %s", c.Name, Results[o.Result].Name, o.describe(r))
	}
	if o.Refusal != NotRefused && o.Result < ResultArgument && o.Refusal != RefusedGone {
		t.Fatalf("a refusal comes to %q: %s", Results[o.Result].Name, o.describe(r))
	}
	if o.Disposition != NoDisposition && c.Dispositions[o.Disposition] == "" {
		t.Fatalf("%s has no name for the fate %d: %s", c.Name, o.Disposition, o.describe(r))
	}
}

// checkOrder checks that effects which may create a key come last, as the interpreter requires.
func checkOrder(t *testing.T, r *request, o *decision) {
	t.Helper()
	makes := func(e Effect) bool { return e.Op == OpZadd || e.Op == OpHincrby }
	effects := o.Effects[:o.NumEffects]
	i := slices.IndexFunc(effects, makes)
	if i >= 0 && slices.ContainsFunc(effects[i:], func(e Effect) bool { return !makes(e) }) {
		t.Fatalf("an effect follows one that may make a key: %s", o.describe(r))
	}
}

func checkRefusal(t *testing.T, o *decision) {
	t.Helper()
	text := o.Text
	switch {
	case o.Refusal == NotRefused || o.Refusal == RefusedInternal || o.Refusal >= NumRefusals:
		t.Fatalf("refused as %d: %q", o.Refusal, text)
	case !strings.HasPrefix(text, Catalogue[o.Refusal].Class+" "):
		t.Fatalf("%q is not of the class %s", text, Catalogue[o.Refusal].Class)
	case strings.ContainsFunc(text, func(c rune) bool { return c < 0x20 || c > 0x7e }):
		t.Fatalf("%q has bytes that do not show", text)
	case o.NumEffects != 0 || o.ClaimIdentity || o.Next != NextFinish:
		t.Fatalf("%q has effects", text)
	}
}

// checkNext checks that a decision asks only for what the host can read, and has no effects before that look.
func checkNext(t *testing.T, verb Verb, r *request, o *decision) {
	t.Helper()
	walks := walks(verb) && r.HasEntry
	switch {
	case o.Next == NextLook && (r.Looked || o.NumEffects > 0 || !walks && len(Table[verb].Plan.Late) == 0):
		t.Fatalf("a look for nothing: %s", o.describe(r))
	case o.Next == NextMore && !walks:
		t.Fatalf("more jobs than there are: %s", o.describe(r))
	}
}

// checkTally checks that the call's tally grows according to the disposition and the effects, and that a counter's sum
// is that of all that the call has counted.
func checkTally(t *testing.T, verb Verb, r *request, o *decision) {
	t.Helper()
	want := r.Tally
	if verb == Promote || verb == Reap {
		if o.Disposition > NoDisposition && o.Disposition != Left {
			want.Taken++
		}
		if o.Disposition >= Returned {
			want.Moved++
		}
	}
	for _, e := range o.Effects[:o.NumEffects] {
		if e.Op != OpHincrby {
			continue
		}
		want.Counted++
		before, _ := counter(r.Counts[counterOf(verb)])
		if got := written(t, o, FieldCount); got != before+int64(want.Counted) {
			t.Fatalf("%s: the sum is not that of all that this call counted", o.describe(r))
		}
	}
	if want != o.Tally {
		t.Fatalf("%s: the tally should be %v", o.describe(r), want)
	}
}

// checkEffect checks that the interpreter can apply an effect, which must not fail.
func checkEffect(t *testing.T, verb Verb, r *request, o *decision, i int) {
	t.Helper()
	e := &o.Effects[i]
	bad := func(why string) {
		t.Helper()
		t.Fatalf("effect %d, %s: %s", i, e.describe(r), why)
	}
	if (r.IdentityType != String || r.Identity != fence.Identity) && !o.ClaimIdentity {
		bad("the store is not ours")
	}
	set := e.Key >= KeyPending && e.Key <= KeyDead
	switch e.Op {
	case OpHset, OpHdel, OpDel:
		if e.Key != KeyRow {
			bad("no row")
		}
	case OpHincrby:
		if e.Key != counterOf(verb) || e.N != 1 || e.Fields[0] != FieldCount {
			bad("no counter")
		}
	case OpZrem:
		if !set || e.OrElse != NoKey && e.OrElse != KeyPending {
			bad("no set")
		}
	case OpZadd:
		timed, from := e.Key == KeyActive || e.Key == KeySchedule, r.Now
		if verb == Schedule && r.Args[Table[Schedule].At(RoleWord)] == scheduleAt {
			from = 0
		}
		if !set || timed && (e.Score < from || e.Score > from+lease.MaxMillis) || !timed && e.Score != 0 {
			bad("score")
		}
	default:
		bad("no such effect")
	}
	if right := map[bool]Type{true: SortedSet, false: Hash}[set]; r.Types[e.Key] != None && r.Types[e.Key] != right {
		bad("another type is there")
	}
	if e.Op == OpHset || e.Op == OpHdel {
		if e.N < 1 || e.N > MaxFields {
			bad("number of fields")
		}
		for j, f := range e.Fields[:e.N] {
			if f >= FieldGroup || slices.Contains(e.Fields[:j], f) {
				bad("field")
			}
		}
	}
	for i := range e.N {
		v := e.value(int(i))
		most := map[ValueKind]int64{
			ValueConst: int64(NumConsts) - 1, ValueArg: int64(len(Table[verb].Args)), ValueInt: math.MaxInt64, ValueEpoch: 0,
		}
		if n, ok := most[v.Kind]; !ok || v.N > n {
			bad("value")
		}
	}
}
