package commands

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"emq/lease"
	"emq/test/wire"
)

// looked is the audit's finding on one entry, and its effects.
func looked(r *request) (finding string, effects []string) {
	o := decideOne(Audit, r, true)
	if o.Text != "" {
		return o.Text, nil
	}
	for _, e := range o.Effects[:o.NumEffects] {
		effects = append(effects, e.describe(r))
	}
	if f := o.Finding; f.What != NoWord {
		finding = fmt.Sprintf("%s in %s: %s", WordText[f.What], WordText[f.Where], WordText[f.Remedy])
		if f.Applied {
			finding += "!"
		}
	}
	return finding, effects
}

// in asks for an audit of one part, with FIX.
func in(part string) []string { return []string{"emq:{q}:", part + ":0", "10", "FIX"} }

func TestAudit(t *testing.T) {
	const atNow = "1732872600000"
	waiting := row{FieldState: "pending", FieldAttempts: "0"}
	retry := row{FieldState: "scheduled", FieldAttempts: "3"}
	scripts := without(held(nil), FieldLeaseEpoch) // a lease that a script granted
	returned := held(row{FieldState: "pending"})
	odd := func(state string, more row) row { return held(row{FieldState: state}).with(more) }
	p, a, s, d := KeyPending, KeyActive, KeySchedule, KeyDead
	for _, c := range []struct {
		name   string
		part   string
		found  found
		want   string
		effect []string
	}{
		{"a pending job", "pending", found{row: waiting, member: []Key{p}}, "", nil},
		{"an active job", "active", found{row: held(nil), member: []Key{a}}, "", nil},
		{"a job whose lease was returned", "pending", found{row: returned, member: []Key{p}}, "", nil},
		{"a scheduled job", "schedule", found{row: retry, member: []Key{s}}, "", nil},
		{"a dead job", "dead", found{row: row{FieldState: "dead", FieldAttempts: "3"}, member: []Key{d}}, "", nil},
		{"a dead job without attempts", "dead", found{row: row{FieldState: "dead"}, member: []Key{d}}, "", nil},
		{"an entry that has gone", "pending", found{row: waiting, member: []Key{a}}, "", nil},
		{"the row of a job in a set", "rows", found{row: waiting, member: []Key{d}}, "", nil},
		{"a row that has gone", "rows", found{}, "", nil},

		{"no job", "pending", found{entry: "XYZ", row: waiting, member: []Key{p}}, "no-job in pending: drop!", []string{"ZREM pending"}},
		{"no job, no row", "dead", found{entry: "XYZ", member: []Key{d}}, "no-job in dead: drop!", []string{"ZREM dead"}},
		{"no row", "active", found{member: []Key{a}}, "no-row in active: drop!", []string{"ZREM active"}},
		{"no row, in two sets", "active", found{member: []Key{p, a}}, "no-row in active: drop!", []string{"ZREM active"}},
		{"no hash", "schedule", found{rowType: List, member: []Key{s}}, "no-hash in schedule: drop!", []string{"ZREM schedule"}},

		{"a lane's row", "pending", found{row: odd("active", row{FieldGroup: "g"}), member: []Key{p}}, "", nil},
		{"a lane's row that is bad", "pending", found{row: row{FieldGroup: "g"}, member: []Key{p}}, "", nil},
		{"a lane's row in two sets", "active", found{row: held(row{FieldGroup: "g"}), member: []Key{p, a}}, "", nil},
		{"a lane's row in no set", "rows", found{row: row{FieldState: "pending", FieldAttempts: "0", FieldGroup: "g"}}, "", nil},

		{"a bad row", "pending", found{row: row{FieldState: "pending", FieldAttempts: "x"}, member: []Key{p}}, "attempts in pending: dead!",
			[]string{"ZREM pending", "HSET job state =dead last_error =" + ConstText[ConstBadAttempts], "ZADD dead 0"}},
		{"a bad row, active", "active", found{row: row{FieldState: "active"}, member: []Key{a}}, "attempts in active: dead!",
			[]string{"ZREM active", "HSET job state =dead last_error =" + ConstText[ConstBadAttempts], "ZADD dead 0"}},
		{"a bad row in dead, of another state", "dead", found{row: row{FieldState: "pending"}, member: []Key{d}}, "attempts in dead: dead!",
			[]string{"HSET job state =dead last_error =" + ConstText[ConstBadAttempts]}},
		{"a bad row, dead and scheduled", "schedule", found{row: row{FieldState: "dead", FieldLastError: "mine"}, member: []Key{s, d}},
			"two-sets in schedule: dead!", []string{"ZREM schedule"}},
		{"a bad row, dead, in schedule", "schedule", found{row: row{FieldState: "dead"}, member: []Key{s}},
			"state in schedule: dead!", []string{"ZREM schedule", "ZADD dead 0"}},
		{"a bad row in no set", "rows", found{row: row{FieldState: "active"}}, "no-set in rows: dead!",
			[]string{"HSET job state =dead last_error =" + ConstText[ConstBadAttempts], "ZADD dead 0"}},
		{"active and never claimed", "active", found{row: odd("active", row{FieldAttempts: "0"}), member: []Key{a}}, "attempts in active: pending!",
			[]string{"ZREM active", "HSET job state =pending", "ZADD pending 0"}},

		{"a leftover in pending", "pending", found{row: held(nil), member: []Key{p, a}}, "two-sets in pending: active!", []string{"ZREM pending"}},
		{"a leftover in active", "active", found{row: returned, member: []Key{p, a}}, "two-sets in active: pending!", []string{"ZREM active"}},
		{"where its leftovers are not", "active", found{row: held(nil), member: []Key{p, a, d}}, "", nil},
		{"leftovers in three sets", "dead", found{row: retry, member: []Key{p, a, s, d}}, "two-sets in dead: schedule!",
			[]string{"ZREM pending", "ZREM active", "ZREM dead"}},

		{"pending that says scheduled", "pending", found{row: retry, member: []Key{p}}, "state in pending: pending!", []string{"HSET job state =pending"}},
		{"pending that says dead", "pending", found{row: odd("dead", nil), member: []Key{p}}, "state in pending: pending!", []string{"HSET job state =pending"}},
		{"pending that says active", "pending", found{row: held(nil), member: []Key{p}}, "state in pending: pending!", []string{"HSET job state =pending"}},
		{"pending that says active, by a script", "pending", found{row: scripts, member: []Key{p}}, "state in pending: active!",
			[]string{"ZREM pending", "HSET job lease_epoch =audit", "ZADD active " + atNow}},
		{"pending that says nothing", "pending", found{row: row{FieldAttempts: "0"}, member: []Key{p}}, "state in pending: pending!", []string{"HSET job state =pending"}},
		{"pending of an unknown state", "pending", found{row: odd("lost", nil), member: []Key{p}}, "state in pending: pending!", []string{"HSET job state =pending"}},
		{"active that says nothing", "active", found{row: odd("", nil), member: []Key{a}}, "state in active: active!", []string{"HSET job state =active"}},
		{"active that says nothing, never claimed", "active", found{row: row{FieldAttempts: "0"}, member: []Key{a}}, "state in active: pending!",
			[]string{"ZREM active", "HSET job state =pending", "ZADD pending 0"}},
		{"active that says pending", "active", found{row: returned, member: []Key{a}}, "state in active: pending!", []string{"ZREM active", "ZADD pending 0"}},
		{"active that says scheduled", "active", found{row: retry, member: []Key{a}}, "state in active: pending!",
			[]string{"ZREM active", "HSET job state =pending", "ZADD pending 0"}},
		{"active that says dead", "active", found{row: odd("dead", nil), member: []Key{a}}, "state in active: pending!",
			[]string{"ZREM active", "HSET job state =pending", "ZADD pending 0"}},
		{"schedule that says active", "schedule", found{row: scripts, member: []Key{s}}, "state in schedule: active!",
			[]string{"ZREM schedule", "HSET job lease_epoch =audit", "ZADD active " + atNow}},
		{"schedule that says pending", "schedule", found{row: waiting, member: []Key{s}}, "state in schedule: schedule!", []string{"HSET job state =scheduled"}},
		{"schedule that says pending, held", "schedule", found{row: returned, member: []Key{s}}, "state in schedule: pending!",
			[]string{"ZREM schedule", "ZADD pending 0"}},
		{"schedule that says dead", "schedule", found{row: odd("dead", nil), member: []Key{s}}, "state in schedule: schedule!", []string{"HSET job state =scheduled"}},
		{"dead that says active", "dead", found{row: held(nil), member: []Key{d}}, "state in dead: active!", []string{"ZREM dead", "HSET job lease_epoch =audit", "ZADD active " + atNow}},
		{"dead that says scheduled", "dead", found{row: retry, member: []Key{d}}, "state in dead: dead!", []string{"HSET job state =dead"}},
		{"dead that says nothing", "dead", found{row: odd("", nil), member: []Key{d}}, "state in dead: dead!", []string{"HSET job state =dead"}},
		{"in two sets, of no state", "active", found{row: odd("", nil), member: []Key{a, d}}, "two-sets in active: active!",
			[]string{"ZREM dead", "HSET job state =active"}},
		{"in two sets, of a third's state", "schedule", found{row: odd("pending", row{FieldAttempts: "0"}), member: []Key{s, d}},
			"two-sets in schedule: schedule!", []string{"ZREM dead", "HSET job state =scheduled"}},

		{"pending in no set", "rows", found{row: waiting}, "no-set in rows: pending!", []string{"ZADD pending 0"}},
		{"active in no set", "rows", found{row: held(nil)}, "no-set in rows: active!", []string{"HSET job lease_epoch =audit", "ZADD active " + atNow}},
		{"active in no set, never claimed", "rows", found{row: odd("active", row{FieldAttempts: "0"})}, "no-set in rows: pending!",
			[]string{"HSET job state =pending", "ZADD pending 0"}},
		{"scheduled in no set", "rows", found{row: retry}, "no-set in rows: schedule!", []string{"ZADD schedule " + atNow}},
		{"dead in no set", "rows", found{row: odd("dead", nil)}, "no-set in rows: dead!", []string{"ZADD dead 0"}},
		{"of no state, in no set", "rows", found{row: row{FieldAttempts: "3"}}, "no-set in rows: pending!",
			[]string{"HSET job state =pending", "ZADD pending 0"}},
		{"of an unknown state, in no set", "rows", found{row: odd("waiting-children", nil)}, "no-set in rows: leave", nil},

		{"a key of another type", "rows", found{rowType: String}, "no-hash in rows: leave", nil},
		{"a key that scripts keep", "rows", found{entry: "JOB01:lock", rowType: String}, "", nil},
		{"a hash that scripts keep", "rows", found{entry: "JOB01:dependencies", row: row{}}, "", nil},
		{"a row with a colon in its id", "rows", found{entry: "JOB01:a", row: waiting}, "no-set in rows: pending!", []string{"ZADD pending 0"}},
		{"a row that is no job's", "rows", found{entry: "XYZ", row: waiting}, "no-job in rows: leave", nil},
		{"a key that is no job's", "rows", found{entry: "XYZ", rowType: String}, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.found.scanned = true
			r := c.found.request(Audit, in(c.part)...)
			finding, effects := looked(r)
			assert.Equal(t, c.want, finding)
			assert.Equal(t, c.effect, effects)
			// Without FIX the finding is the same, and nothing is written.
			finding, effects = looked(c.found.request(Audit, in(c.part)[:3]...))
			assert.Equal(t, strings.TrimSuffix(c.want, "!"), finding)
			assert.Empty(t, effects)
		})
	}
}

func (r row) with(more row) row {
	for f, v := range more {
		r[f] = v
	}
	return r
}

func TestAuditCursor(t *testing.T) {
	sets := map[Key]Type{KeyPending: SortedSet}
	for _, c := range []struct {
		cursor string
		scan   Scan // that the host must make
		to     uint64
		next   Scan
	}{
		{"0", Scan{0, KeyPending}, 0, Scan{0, KeyActive}},
		{"0", Scan{0, KeyPending}, 5, Scan{5, KeyPending}},
		{"pending:5", Scan{5, KeyPending}, 0, Scan{0, KeyActive}},
		{"active:0", Scan{0, KeyActive}, 0, Scan{0, KeySchedule}},
		{"schedule:18446744073709551615", Scan{1<<64 - 1, KeySchedule}, 1<<64 - 2, Scan{1<<64 - 2, KeySchedule}},
		{"dead:7", Scan{7, KeyDead}, 0, Scan{0, KeyRow}},
		{"rows:0", Scan{0, KeyRow}, 9, Scan{9, KeyRow}},
		{"rows:9", Scan{9, KeyRow}, 0, Scan{0, NoKey}},
	} {
		o := decideOne(Audit, found{types: sets}.request(Audit, with(Audit, Table[Audit].At(RoleCursor), c.cursor)...), true)
		require.Empty(t, o.Text, c.cursor)
		assert.Equal(t, NextScan, o.Next, c.cursor)
		assert.Equal(t, c.scan, o.Scan, c.cursor)
		o = decideOne(Audit, found{types: sets, scanned: true, scannedTo: c.to, noEntry: true}.request(Audit, with(Audit, Table[Audit].At(RoleCursor), c.cursor)...), true)
		assert.Equal(t, NextFinish, o.Next, c.cursor)
		assert.Equal(t, c.next, o.Scan, c.cursor)
		assert.Equal(t, ResultClean, o.Result)
	}
	for _, cursor := range []string{
		"", "1", "00", "0 ", "pending", "pending:", "pending:-1", "pending:+1", "pending:01", "pending:1 ", "pending:18446744073709551616",
		"PENDING:0", "job:0", "metrics:0", ":0", "rows:0:0", "rows:x", "scheduled:0", "rows:1_0", "rows:0x1", "\x00",
	} {
		got, _ := looked(found{types: sets}.request(Audit, with(Audit, Table[Audit].At(RoleCursor), cursor)...))
		assert.Contains(t, got, "ERR cursor must be ", "%q", cursor)
	}
	o := decideOne(Audit, found{identity: "-"}.request(Audit, valid(Audit)...), true)
	assert.Equal(t, Reply{ReplyFindings, 0}, o.Reply)
	assert.Equal(t, Scan{0, NoKey}, o.Scan, "nothing is there: the audit is at its end")
	for _, k := range []Key{KeyPending, KeyActive, KeySchedule, KeyDead} {
		got, _ := looked(found{identity: "-", types: map[Key]Type{k: SortedSet}}.request(Audit, valid(Audit)...))
		assert.Contains(t, got, "EMQFENCE {emq}:version is absent, yet the queue's "+k.Suffix()+" is there")
		got, _ = looked(found{types: map[Key]Type{k: String}}.request(Audit, valid(Audit)...))
		assert.Contains(t, got, "WRONGTYPE ")
	}
}

// jobAt is one job of a broken store.
type jobAt struct {
	row    row
	member uint8
}

// apply applies the effects of a decision.
func (j *jobAt) apply(r *request, o *decision) {
	for _, e := range o.Effects[:o.NumEffects] {
		switch e.Op {
		case OpZrem:
			j.member &^= 1 << e.Key
		case OpZadd:
			j.member |= 1 << e.Key
		case OpHset:
			for i, f := range e.Fields[:e.N] {
				j.row[f] = ConstText[e.Values[i]]
			}
		}
	}
}

// heldBy reports whether a caller whose token is the row's attempts may settle the job.
func (j *jobAt) heldBy() bool {
	_, epoch := j.row[FieldLeaseEpoch]
	return lease.Held(j.row[FieldState], j.row[FieldAttempts], j.row[FieldAttempts], epoch)
}

// TestAuditPutsRight audits every kind of broken job, part after part, with FIX: after one round there are no more findings,
// the job is only in the set that its state names, and whoever could settle it before still can. Without FIX there is a
// finding if and only if the job is not where it belongs.
func TestAuditPutsRight(t *testing.T) {
	of := map[string]uint8{lease.Pending: 1 << KeyPending, lease.Active: 1 << KeyActive, lease.Scheduled: 1 << KeySchedule, lease.Dead: 1 << KeyDead}
	ask := func(j *jobAt, part Key, fix bool) (*request, *decision) {
		args := []string{"emq:{q}:", WordText[AuditParts[part]] + ":0", "10", "FIX"}
		if !fix {
			args = args[:3]
		}
		f := found{row: j.row, scanned: true}
		for _, k := range audited[:4] {
			if j.member&(1<<k) != 0 {
				f.member = append(f.member, k)
			}
		}
		r := f.request(Audit, args...)
		return r, decideOne(Audit, r, true)
	}
	for _, state := range []string{"pending", "active", "scheduled", "dead", "", "lost", "-"} {
		for _, attempts := range []string{"0", "1", "3", "9007199254740990", "9007199254740991", "x", "-"} {
			for _, epoch := range []bool{false, true} {
				for sets := range uint8(16) {
					rows := row{FieldState: state, FieldAttempts: attempts, FieldLeaseEpoch: "run"}
					for f, v := range rows {
						if v == "-" || f == FieldLeaseEpoch && !epoch {
							delete(rows, f)
						}
					}
					j := &jobAt{row: rows, member: sets << KeyPending}
					name := fmt.Sprintf("%v in %04b", j.row, sets)
					_, sound := lease.NextToken(j.row[FieldAttempts])
					sound = sound || j.heldBy()
					right := bits.OnesCount8(j.member) == 1 && of[state] == j.member && (sound || state == "dead") && !(state == "active" && attempts == "0")
					wasHeld, found, left := j.heldBy(), 0, false
					for _, part := range audited {
						if _, o := ask(j, part, false); o.Finding.What != NoWord {
							require.Zero(t, o.NumEffects, name)
							found++
						}
					}
					require.Equal(t, right, found == 0, name)
					for _, part := range audited {
						r, o := ask(j, part, true)
						left = left || o.Finding.Remedy == WordLeave
						j.apply(r, o)
					}
					for _, part := range audited {
						_, o := ask(j, part, true)
						require.True(t, left || o.Finding.What == NoWord, "%s, then %v in %b", name, j.row, j.member)
					}
					require.Equal(t, left, state == "lost" && sets == 0 && sound, name)
					require.True(t, left || of[j.row[FieldState]] == j.member, "%s, then %v in %b", name, j.row, j.member)
					require.True(t, !wasHeld || j.heldBy(), "%s, then %v: the holder lost it", name, j.row)
				}
			}
		}
	}
}

// queue generates what a host may have read for a verb on a whole queue.
func (d *dice) queue(verb Verb) *request {
	args := on(verb, wire.Queue(d.word("q", "a", "{", "\x00")), "")
	if !d.often() {
		args[d.below(len(args))] = d.word("", "2", "emq:{q}:pending", "emq:{q}", "FIX")
	}
	if verb == Audit {
		args = append(args, "")
		args[Table[Audit].At(RoleCursor)-1] = d.word("0", "pending:0", "active:3", "schedule:0", "dead:9", "rows:0", "rows:7", "rows:x", "dead")
		args[Table[Audit].At(RoleCount)-1] = d.word("10", "1", "1000", "1001", "0")
		args[Table[Audit].At(RoleOption)-1] = d.word("FIX", "fix")
		if d.below(3) == 0 {
			args = args[:3]
		}
	}
	c := &Table[verb]
	r := &request{Now: now + int64(d.below(256)), Argc: int32(len(args)) + 1, Replica: !d.often(), Epoch: "run"}
	r.Args[0] = c.Name
	copy(r.Args[1:], args)
	if r.Replica = r.Replica && !c.ReadOnly(); r.Replica || !wellNamed(verb, args) && d.often() {
		return r // unread
	}
	r.IdentityType = []Type{String, String, String, String, String, String, None, Hash}[d.below(8)]
	if r.IdentityType == String {
		r.Identity = d.word("echomq:6.0.0", "echomq:4.0.0")
	}
	for _, k := range c.Plan.Keys {
		r.Types[k] = d.keyType(k)
	}
	if verb == Stats {
		r.HasFigures = true
		for _, k := range c.Plan.Keys {
			switch r.Types[k] {
			case SortedSet:
				r.Figures.Sizes[k], r.Figures.Next[k] = 1+int64(d.below(256)), float64(now+int64(d.below(256)))
			case Hash:
				r.count(k, d.word("7", "", "x", "-9223372036854775808", "9223372036854775807"))
			}
		}
		if r.Types[KeyPending] == SortedSet {
			r.Figures.Oldest = d.word(mintedAt(now, 1), "JOB01")
		}
		return r
	}
	if r.Scanned = d.often(); !r.Scanned {
		return r
	}
	r.ScannedTo, r.Step = uint64(d.below(3)), int32(d.below(9))
	r.Tally.Taken = int32(d.below(int(r.Step) + 1))
	r.Tally.Moved = int32(d.below(int(r.Tally.Taken) + 1))
	if r.HasEntry = d.often(); !r.HasEntry {
		return r
	}
	r.Looked = true
	r.Entry = d.word("JOB01", "GRP01", "JOB01:lock")
	r.Types[KeyRow] = d.keyType(KeyRow)
	for _, k := range audited[:4] {
		if r.Types[k] == SortedSet && d.below(2) == 1 {
			r.Member |= 1 << k
		}
	}
	if r.Types[KeyRow] == Hash {
		for _, f := range c.Plan.Values {
			if d.often() == (f == FieldGroup) {
				continue
			}
			r.Present |= 1 << f
			switch f {
			case FieldState:
				r.Row[f] = d.word(lease.Active, lease.Pending, lease.Scheduled, lease.Dead, "")
			case FieldAttempts:
				r.Row[f] = d.word("3", "0", "x", "", "9007199254740991")
			}
		}
	}
	return r
}

// checkAudit checks what must be true of every decision of the audit.
func checkAudit(t *testing.T, r *request, o *decision) {
	t.Helper()
	bad := func(why string) { t.Helper(); t.Fatalf("%s %v: %s", o.describe(r), o.Finding, why) }
	fix := r.Argc > int32(Table[Audit].At(RoleOption))
	want := r.Tally
	switch {
	case r.IdentityType != String: // nothing is there
		if o.Next != NextFinish || o.Scan.Key != NoKey || o.NumEffects != 0 {
			bad("more than an empty answer")
		}
	case !r.Scanned:
		if o.Next != NextScan || o.Scan.Key > KeyDead || o.NumEffects != 0 || o.Finding.What != NoWord {
			bad("no scan")
		}
	case !r.HasEntry:
		if cursor := r.Args[Table[Audit].At(RoleCursor)]; r.Types[KeyMeta] == String && (cursor == "0" || cursor == "pending:0") {
			want.Taken++ // a meta that is no hash; gates_test.go has its fields
		}
		if o.Next != NextFinish || o.NumEffects != 0 || o.Finding.What != NoWord || (o.Result == ResultFound) != (want.Taken > 0) {
			bad("no end")
		}
	default:
		f := o.Finding
		if o.Next != NextMore || (f.What != NoWord) != (o.Disposition != NoDisposition) || f.Applied != (o.Disposition == Repaired) || f.Applied != (o.NumEffects > 0) {
			bad("the finding and what is done about it differ")
		}
		if f.What != NoWord {
			want.Taken++
			if (f.Remedy != WordLeave && fix) != f.Applied || f.Where == NoWord || f.Remedy == NoWord {
				bad("no finding")
			}
		}
		if f.Applied {
			want.Moved++
		}
		if r.has(FieldGroup) && IsJob(r.Entry) && f.What != NoWord {
			bad("a lane's")
		}
	}
	if want != o.Tally {
		bad("the tally")
	}
	for i, e := range o.Effects[:o.NumEffects] {
		on := uint8(1) << e.Key
		switch {
		case e.Op == OpZrem && r.Member&on != 0 && e.OrElse == NoKey:
		case e.Op == OpZadd && r.Member&on == 0 && i == int(o.NumEffects)-1 && IsJob(r.Entry):
		case e.Op == OpHset && e.Key == KeyRow && r.Types[KeyRow] == Hash && IsJob(r.Entry) && e.Fields[0] == FieldState:
		case e.Op == OpHset && e.Key == KeyRow && r.Types[KeyRow] == Hash && IsJob(r.Entry) && e.N == 1 &&
			e.Fields[0] == FieldLeaseEpoch && e.value(0) == constant(ConstAudit):
		default:
			bad("effect " + e.describe(r))
		}
	}
}

// TestAuditMeetsMuch tests the tests: the dice reach all kinds of findings.
func TestAuditMeetsMuch(t *testing.T) {
	rng, met := rand.New(rand.NewPCG(6, 1)), map[Word]int{}
	for range 20_000 {
		d := make(dice, 64)
		for i := range d {
			d[i] = byte(rng.Uint32())
		}
		met[run(t, Audit, d.request(Audit)).Finding.What]++
	}
	for w := WordNoJob; w <= WordNoSet; w++ {
		assert.Greater(t, met[w], 10, WordText[w])
	}
}
