package commands

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"emq/fence"
	"emq/test/wire"
)

const (
	now = int64(1_732_872_600_000)
	id  = "JOB01"
)

// row is a job row as a host finds it; a nil row is an absent key.
type row map[Field]string

// found is what a host finds for a verb. Zero values mean: our identity, no row, no set, no counter.
type found struct {
	identity     string // "" is ours, "-" absent
	identityType Type
	row          row
	rowType      Type // overrides the row's
	types        map[Key]Type
	entry        string // of the source
	noEntry      bool
	looked       bool
	member       []Key
	count        string         // of the verb's counter
	counts       map[Key]string // of STATS
	step         int32
	tally        Tally
	deadline     float64 // of the entry; 0 is now
	servedSince  int64
	slice        int32
	replica      bool
	scanned      bool
	scannedTo    uint64
	figures      Figures
}

func (f found) request(verb Verb, args ...string) *request {
	v := &Table[verb]
	r := &request{Now: now, Deadline: float64(now), Epoch: "run", Step: f.step, Tally: f.tally, ServedSince: f.servedSince, Slice: f.slice,
		Replica: f.replica, IdentityType: String, Identity: fence.Identity, Scanned: f.scanned, ScannedTo: f.scannedTo, Entry: f.entry}
	if f.deadline != 0 {
		r.Deadline = f.deadline
	}
	r.Args[0] = v.Name
	copy(r.Args[1:], args)
	r.Argc = int32(len(args)) + 1
	if f.identity == "-" {
		r.IdentityType, r.Identity = None, ""
	} else if f.identity != "" {
		r.Identity = f.identity
	}
	if f.identityType != Unread {
		r.IdentityType = f.identityType
	}
	for _, k := range v.Plan.Keys {
		r.Types[k] = None
	}
	r.Types[KeyRow] = None
	if f.row != nil {
		r.Types[KeyRow] = Hash
		for field, value := range f.row {
			if !f.looked && slices.Contains(v.Plan.Late, field) {
				continue
			}
			r.Row[field] = value
			r.Present |= 1 << field
		}
	}
	if f.rowType != Unread {
		r.Types[KeyRow] = f.rowType
	}
	r.Looked = f.looked
	for _, k := range f.member {
		r.Member |= 1 << k
	}
	switch v.Plan.Jobs {
	case NamedJob, ListedJobs:
		if v.Plan.LateProbes && r.Looked {
			r.Types[counterOf(verb)] = None
		}
	case WalkedJobs:
		if r.HasEntry = !f.noEntry; r.HasEntry {
			r.Types[v.Plan.Walk] = SortedSet
		}
		for _, k := range []Key{KeyPending, KeyActive, KeySchedule, KeyDead} {
			if r.Looked && r.Types[k] == Unread {
				r.Types[k] = None
			}
		}
	case ScannedJobs:
		r.HasEntry = f.scanned && !f.noEntry
		for _, k := range f.member {
			r.Types[k] = SortedSet
		}
	}
	if r.HasEntry && r.Entry == "" {
		r.Entry = id
	}
	if v.Plan.Figures {
		r.Figures, r.HasFigures = f.figures, true
		r.Figures.Oldest = f.entry
		for k, count := range f.counts {
			r.count(k, count)
		}
	}
	for k, t := range f.types {
		r.Types[k] = t
	}
	if f.count != "" {
		r.count(counterOf(verb), f.count)
	}
	return r
}

// decided is an outcome in a form that can be compared and read.
type decided struct {
	err   string
	reply Reply
	next  Next
	fate  Disposition
	token int64 // of a job that was granted
	tally Tally // of a verb that walks a set
}

func decide(verb Verb, r *request) decided {
	o := decideOne(verb, r, true) // leftovers of an earlier command must not matter
	d := decided{err: o.Text, reply: o.Reply, next: o.Next, fate: o.Disposition, token: o.Token}
	if Table[verb].Plan.Jobs == WalkedJobs {
		d.tally = o.Tally
	}
	return d
}

// on are valid arguments of each verb for a job of a queue, the verb itself left out.
func on(verb Verb, q wire.Queue, id string) []string {
	return map[Verb][]string{
		Enqueue: q.Enqueue(id, "data"), Claim: q.Claim(30000), Complete: q.Complete(id, "3"), Fail: q.Fail(id, "3", 1000, 5, "boom"),
		Schedule: q.ScheduleIn(id, "data", 1000), Extend: q.Extend(id, "3", 30000), Promote: q.Promote(100), Reap: q.Reap(3, 100),
		Stats: q.Stats(), Audit: q.Audit("0", 10), Menqueue: q.Menqueue(id, "data"), Mschedule: q.Mschedule("in", id, "1000", "data"),
		Mclaim: q.Mclaim(30000, 1), Mcomplete: q.Mcomplete(id, "3"), Mextend: q.Mextend(30000, id, "3"), Mfail: q.Mfail(5, id, "3", "1000", "boom"),
		Bclaim: wire.BClaim(30000, 0, q), Release: q.Release(id, "3", 1000), Requeue: q.Requeue("dead", id), Remove: q.Remove("any", id),
		Pause: q.Pause(1000), Resume: q.Resume(), Limit: q.Limit(5, 5, 1000), Queues: wire.Queues("", 10),
	}[verb][1:]
}

func valid(verb Verb) []string { return on(verb, queue, id) }

func with(verb Verb, arg int, value string) []string {
	args := valid(verb)
	args[arg-1] = value
	return args
}

// held is a row whose holder has the token 3.
func held(more row) row {
	r := row{FieldState: "active", FieldAttempts: "3", FieldPayload: "data", FieldLeaseEpoch: "run"}
	for f, v := range more {
		r[f] = v
	}
	return r
}

func without(r row, fields ...Field) row {
	for _, f := range fields {
		delete(r, f)
	}
	return r
}

var (
	integerReply = func(n int64) Reply { return Reply{ReplyInteger, n} }
	constReply   = func(c Const) Reply { return Reply{ReplyConst, int64(c)} }
)

// TestVerbs covers what neither the store nor the reply shows of a decision: when the host must look into the sets,
// where a call ends, what INFO counts, and what the pump's walks leave alone. The model covers what a verb makes of a
// queue (model_test.go), and test/effects_test.go its single writes.
func TestVerbs(t *testing.T) {
	pending, waiting := row{FieldState: "pending", FieldAttempts: "0"}, held(row{FieldState: "scheduled"})
	lane := held(row{FieldState: "scheduled", FieldGroup: "g"})
	look := decided{next: NextLook}
	granted := decided{reply: Reply{ReplyJob, 0}, token: 1}
	dropped, buried := decided{next: NextMore, fate: Dropped}, decided{next: NextMore, fate: Buried}
	noneLeft := func(fate Disposition) decided { return decided{reply: Reply{ReplyEmpty, 0}, fate: fate} }
	// The outcome of PROMOTE and REAP for the first entry, if there are more.
	moved := func(fate Disposition) decided {
		return decided{next: NextMore, fate: fate, tally: Tally{Taken: 1, Moved: 1}}
	}
	overdue := decided{next: NextMore, fate: Dropped, tally: Tally{Taken: 1}}
	killed := decided{next: NextMore, fate: Buried, tally: Tally{Taken: 1, Moved: 1, Counted: 1}}
	left := decided{next: NextMore, fate: Left}
	last := func(fate Disposition, reply Reply, tally Tally) decided {
		return decided{fate: fate, reply: reply, tally: tally}
	}
	one := Tally{Taken: 1, Moved: 1}

	for _, c := range []struct {
		name  string
		verb  Verb
		args  []string // nil: valid ones
		found found
		want  decided
	}{
		{"claim", Claim, nil, found{row: pending}, granted},
		{"claim of an entry without a row", Claim, nil, found{}, dropped},
		{"claim of an entry of another kind", Claim, nil, found{entry: "GRP1", row: pending}, dropped},
		{"the last entry that may be dropped", Claim, nil, found{step: 99}, noneLeft(Dropped)},
		{"the one before", Claim, nil, found{step: 98}, dropped},
		{"a row of another state is looked for", Claim, nil, found{row: held(nil)}, look},
		{"a row without a state is looked for", Claim, nil, found{row: row{FieldAttempts: "0"}}, look},
		{"a bad row is looked for", Claim, nil, found{row: row{FieldState: "pending"}}, look},
		{"a bad row", Claim, nil, found{row: row{FieldState: "pending"}, looked: true}, buried},
		{"a bad row that stands in active", Claim, nil, found{row: row{FieldState: "active"}, looked: true, member: []Key{KeyActive}}, dropped},
		{"the hundredth broken entry is a bad row", Claim, nil, found{row: row{}, looked: true, step: 99}, noneLeft(Buried)},

		{"complete", Complete, nil, found{row: held(nil)}, decided{reply: integerReply(1)}},
		{"the epoch of a returned job is looked for", Complete, nil, found{row: held(row{FieldState: "pending"})}, look},
		{"fail", Fail, nil, found{row: held(nil)}, decided{reply: constReply(ConstScheduled)}},
		{"the counter is looked at before the death", Fail, nil, found{row: held(row{FieldFailures: "4"})}, look},
		{"extend", Extend, nil, found{row: held(nil), member: []Key{KeyActive}}, decided{reply: integerReply(1)}},
		{"extend, lapsed and returned", Extend, nil, found{row: held(row{FieldState: "pending"})}, look},

		{"promote", Promote, nil, found{row: waiting}, moved(Returned)},
		{"promote, and that was the limit", Promote, with(Promote, 5, "1"), found{row: waiting}, last(Returned, integerReply(1), one)},
		{"promote the last of the limit", Promote, with(Promote, 5, "7"), found{row: waiting, step: 40, tally: Tally{Taken: 6, Moved: 4}},
			last(Returned, integerReply(5), Tally{Taken: 7, Moved: 5})},
		{"drop the last of the limit", Promote, with(Promote, 5, "7"), found{step: 40, tally: Tally{Taken: 6, Moved: 4}},
			last(Dropped, integerReply(4), Tally{Taken: 7, Moved: 4})},
		{"promote the last that is looked at", Promote, nil, found{row: waiting, step: 9999}, last(Returned, integerReply(1), one)},
		{"and the one before", Promote, nil, found{row: waiting, step: 9998}, moved(Returned)},
		{"promote the last of the pump's slice", Promote, nil, found{row: waiting, step: 4, slice: 5}, last(Returned, integerReply(1), one)},
		{"promote where nothing more is due", Promote, nil, found{noEntry: true, step: 9, tally: Tally{Taken: 9, Moved: 8}},
			last(NoDisposition, integerReply(8), Tally{Taken: 9, Moved: 8})},
		{"promote of an entry without a row", Promote, nil, found{}, overdue},
		{"the pump's promote of an entry without a row", Promote, nil, found{slice: 5}, left},
		{"the pump's promote of an entry whose row is no hash", Promote, nil, found{rowType: String, slice: 5}, overdue},
		{"the pump's promote of an entry of another kind", Promote, nil, found{entry: "GRP1", slice: 5}, overdue},
		{"promote of a row of another state", Promote, nil, found{row: held(nil)}, look},
		{"promote of a row of no state", Promote, nil, found{row: row{FieldAttempts: "0"}}, moved(Returned)},
		{"promote of a lane's row", Promote, nil, found{row: lane}, left},
		{"a lane's row, the last that is looked at", Promote, nil, found{row: lane, step: 9999, tally: Tally{Taken: 3, Moved: 2}},
			last(Left, integerReply(2), Tally{Taken: 3, Moved: 2})},

		{"reap", Reap, nil, found{row: held(nil)}, moved(Stalled)},
		{"reap of another server's lease", Reap, nil, found{row: held(row{FieldLeaseEpoch: "other"})}, moved(Returned)},
		{"reap at the cap", Reap, nil, found{row: held(row{FieldStalled: "2"})}, killed},
		{"reap at the cap, counter full", Reap, nil, found{row: held(row{FieldStalled: "2"}), count: "9223372036854775807"}, moved(Buried)},
		{"the pump's reap of an entry without a row", Reap, nil, found{slice: 5}, left},
		{"reap of a lease that ended while the server did not serve", Reap, nil,
			found{row: held(row{FieldStalled: "2"}), deadline: float64(now - 500), servedSince: now - 500}, moved(Returned)},
		{"reap of a lease that ended after", Reap, nil, found{row: held(row{FieldStalled: "2"}), deadline: float64(now - 499), servedSince: now - 500}, killed},
		{"reap of an entry of no time", Reap, nil, found{row: held(nil), deadline: -1}, moved(Stalled)},
		{"reap, and that was the limit", Reap, with(Reap, 7, "1"), found{row: held(nil)}, last(Stalled, Reply{ReplyLists, 0}, one)},
		{"reap the last that is looked at", Reap, nil, found{row: held(nil), step: 9999}, last(Stalled, Reply{ReplyLists, 0}, one)},
		{"reap of a row of another state", Reap, nil, found{row: waiting}, look},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := c.args
			if args == nil {
				args = valid(c.verb)
			}
			assert.Equal(t, c.want, decide(c.verb, c.found.request(c.verb, args...)))
		})
	}
}

// TestOrder breaks a rule and all that are checked after it, and expects the refusal of the first.
func TestOrder(t *testing.T) {
	for verb := range NumVerbs {
		c := &Table[verb]
		if c.Plan.Jobs == ListedQueues || len(c.places) == 0 {
			continue // the queues are read after the checks, or the verb is about no queue
		}
		t.Run(c.Name, func(t *testing.T) {
			args := valid(verb)
			f := found{replica: true, identity: "echomq:4.0.0", row: held(nil),
				types: map[Key]Type{KeyPending: String, KeyActive: String, KeySchedule: String, KeyMeta: String}}
			refuses := func(class string) {
				t.Helper()
				got := decide(verb, f.request(verb, args...))
				assert.True(t, strings.HasPrefix(got.err, class+" "), "%q should be %s", got.err, class)
			}
			numbers := slices.Concat(c.numbers, c.listNumbers)
			for _, n := range numbers {
				args[n-1] = "-1"
			}
			if c.At(RoleWord) > 0 {
				args[c.At(RoleWord)-1] = "IN"
			}
			if c.At(RoleCursor) > 0 {
				args[c.At(RoleCursor)-1] = "x"
			}
			if c.At(RoleOption) > 0 {
				args = append(args, "fix")
			}
			lastKey := 0
			for i, a := range c.Args {
				if a.Role == RoleKey || a.Role == RoleBase && a.Access != 0 {
					lastKey = i
				}
			}
			key := args[lastKey]
			args[lastKey] = "emq:{other}:x"
			if c.At(RoleID) > 0 {
				args[c.At(RoleID)-1] = "GRP01"
			}
			if c.Numkeys() != "" {
				args[0] = "02"
				refuses("ERR numkeys")
				args[0] = c.Numkeys()
			}
			if c.At(RoleID) > 0 {
				refuses("EMQKIND")
				args[c.At(RoleID)-1] = id
			}
			refuses("EMQKEY")
			args[lastKey] = key
			if c.At(RoleWord) > 0 {
				refuses("ERR " + c.Args[c.At(RoleWord)-1].Name)
				args[c.At(RoleWord)-1] = c.Args[c.At(RoleWord)-1].Words[0]
			}
			if c.At(RoleOption) > 0 {
				refuses("ERR fix")
				args[c.At(RoleOption)-1] = tokenFix
			}
			if c.At(RoleCursor) > 0 {
				refuses("ERR cursor")
				args[c.At(RoleCursor)-1] = "0"
			}
			for _, n := range numbers {
				refuses("ERR " + c.argAt(n).Name)
				args[n-1] = "1"
			}
			if !c.ReadOnly() {
				refuses("READONLY")
			}
			f.replica = false
			refuses("EMQFENCE")
			f.identity = ""
			refuses("WRONGTYPE")
			f.types = nil
			f.member = []Key{KeyActive}
			assert.Empty(t, decide(verb, f.request(verb, args...)).err)
		})
	}
}

func TestNumkeys(t *testing.T) {
	for verb := range NumVerbs {
		want := Table[verb].Numkeys()
		if want == "" {
			continue
		}
		for _, s := range []string{"", "0", "1", "02", "+2", "04", " 2", "2 ", "2\x00", "99", "-2", "2.0", "３"} {
			got := decide(verb, found{row: held(nil)}.request(verb, with(verb, 1, s)...))
			assert.True(t, strings.HasPrefix(got.err, "ERR numkeys must be "+want+", got "), "%q: %s", s, got.err)
		}
	}
}

func TestNumbers(t *testing.T) {
	bad := []string{"", " ", "-1", "+5", "05", "1.5", "1e3", "0x10", " 1", "1 ", "9007199254740992", strings.Repeat("9", 30), "١"}
	for _, c := range []struct {
		verb      Verb
		arg       int
		good, bad []string
	}{
		{Claim, 5, []string{"1", "30000", "4503599627370495"}, append(bad, "0", "4503599627370496")},
		{Fail, 8, []string{"0", "1", "4503599627370495"}, append(bad, "4503599627370496")},
		{Fail, 9, []string{"1", "2147483647"}, append(bad, "0", "2147483648")},
		{Schedule, 7, []string{"0", "1", "4503599627370495"}, append(bad, "4503599627370496")},
		{Extend, 6, []string{"1", "30000", "4503599627370495"}, append(bad, "0", "4503599627370496")},
		{Promote, 5, []string{"1", "10000"}, append(bad, "0", "10001")},
		{Reap, 6, []string{"0", "1", "2147483647"}, append(bad, "2147483648")},
		{Reap, 7, []string{"1", "10000"}, append(bad, "0", "10001")},
		{Audit, 3, []string{"1", "1000"}, append(bad, "0", "1001")},
		{Mschedule, 4, []string{"0", "1", "4503599627370495"}, append(bad, "4503599627370496")},
		{Mclaim, 2, []string{"1", "30000", "4503599627370495"}, append(bad, "0", "4503599627370496")},
		{Mclaim, 3, []string{"1", "1000"}, append(bad, "0", "1001")},
		{Mextend, 2, []string{"1", "30000", "4503599627370495"}, append(bad, "0", "4503599627370496")},
		{Mfail, 2, []string{"1", "2147483647"}, append(bad, "0", "2147483648")},
		{Mfail, 5, []string{"0", "1", "4503599627370495"}, append(bad, "4503599627370496")},
	} {
		name := Table[c.verb].argAt(c.arg).Name
		row := row{FieldState: "active", FieldAttempts: "3"}
		for _, s := range c.good {
			got := decide(c.verb, found{row: row, looked: true, member: []Key{KeyActive}}.request(c.verb, with(c.verb, c.arg, s)...))
			assert.Empty(t, got.err, "%s %q", name, s)
		}
		for _, s := range c.bad {
			got := decide(c.verb, found{row: row}.request(c.verb, with(c.verb, c.arg, s)...))
			assert.True(t, strings.HasPrefix(got.err, "ERR "+name+" must be an integer from "), "%s %q: %s", name, s, got.err)
		}
	}
}

func TestLayout(t *testing.T) {
	long := strings.Repeat("q", 300_000)
	for _, q := range []string{"q", "a", "orders", "a:b:job:c", "ünïcode", "\r\n", "\x80\xff", " ", long} {
		for verb := range NumVerbs {
			args := valid(verb)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "{q}", "{"+q+"}")
			}
			assert.Empty(t, decide(verb, found{row: held(nil), looked: true, member: []Key{KeyActive}}.request(verb, args...)).err, "%.20q", q)
		}
	}
	for _, id := range []string{"JOB", "JOB\x00", "JOB{}", "JOB}:pending", "JOB\r\n", "JOB" + long} {
		args := []string{"2", "emq:{q}:job:" + id, "emq:{q}:pending", id, ""}
		assert.Empty(t, decide(Enqueue, found{}.request(Enqueue, args...)).err, "%.20q", id)
	}
	for verb := range NumVerbs {
		c := &Table[verb]
		for i, a := range c.Args {
			if a.Role != RoleKey && a.Role != RoleBase && a.Role != RoleRowPrefix {
				continue
			}
			good := valid(verb)[i]
			for _, s := range []string{
				"", "x", good + "x", good + "\x00", "x" + good, strings.ToUpper(good), good[:len(good)-1],
				strings.Replace(good, "{q}", "{other}", 1), strings.Replace(good, "{q}", "{}", 1),
				strings.Replace(good, "{q}", "q", 1), strings.Replace(good, "{q}", "{q", 1),
				strings.Replace(good, "{q}", "{{q}", 1), strings.Replace(good, "{q}", "{q}}", 1),
				strings.Replace(good, "{q}", "{q\x00}", 1), strings.Replace(good, "emq:", "emq:{x}:emq:", 1),
				strings.Replace(good, "emq:", "EMQ:", 1), strings.Replace(good, "}:", "}", 1),
			} {
				if strings.Contains(s, "{other}") && len(c.places) == 1 {
					continue // another queue's
				}
				got := decide(verb, found{row: held(nil)}.request(verb, with(verb, i+1, s)...))
				assert.True(t, strings.HasPrefix(got.err, "EMQKEY "), "%s %s=%q: %q", c.Name, a.Name, s, got.err)
			}
		}
		if len(c.places) == 0 {
			continue
		}
		// The same fault in every name at once: they belong to one queue, but its name is not allowed.
		for _, q := range []string{"{}", "{a{b}", "{a\x00b}", "{a}}"} {
			args := valid(verb)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "{q}", q)
			}
			got := decide(verb, found{row: held(nil)}.request(verb, args...))
			assert.True(t, strings.HasPrefix(got.err, "EMQKEY "), "%q: %q", q, got.err)
		}
	}
}

func TestRefusalTexts(t *testing.T) {
	const unclaimed = `; this executor speaks "echomq:6.0.0"`
	for _, c := range []struct {
		verb  Verb
		found found
		want  string
	}{
		{Complete, found{identity: "echomq:4.0.0"}, `EMQFENCE {emq}:version is "echomq:4.0.0", this executor speaks "echomq:6.0.0"`},
		{Enqueue, found{identityType: SortedSet}, `EMQFENCE {emq}:version is a zset, this executor speaks "echomq:6.0.0"`},
		{Complete, found{identity: "-", row: held(nil)}, "EMQFENCE {emq}:version is absent, yet the job's row is there" + unclaimed},
		{Claim, found{identity: "-", row: held(nil)}, "EMQFENCE {emq}:version is absent, yet the queue's pending is there" + unclaimed},
		{Promote, found{identity: "-", row: held(nil)}, "EMQFENCE {emq}:version is absent, yet the queue's schedule is there" + unclaimed},
		{Reap, found{identity: "-", row: held(nil)}, "EMQFENCE {emq}:version is absent, yet the queue's active is there" + unclaimed},
		{Claim, found{types: map[Key]Type{KeyPending: Hash}}, "WRONGTYPE Operation against a key holding the wrong kind of value"},
		{Extend, found{replica: true}, "READONLY You can't write against a read only replica."},
		{Fail, found{}, "EMQSTALE job gone"},
		{Complete, found{row: held(row{FieldAttempts: "4"})}, "EMQSTALE complete token mismatch"},
		{Fail, found{row: held(row{FieldAttempts: "4"})}, "EMQSTALE retry token mismatch"},
		{Extend, found{row: held(nil)}, "EMQSTALE extend token mismatch"},
		{Release, found{row: held(row{FieldAttempts: "4"})}, "EMQSTALE release token mismatch"},
		{Release, found{}, "EMQSTALE job gone"},
		{Complete, found{row: held(row{FieldGroup: "", FieldParent: "JOB0"})}, "EMQSCRIPT the row has a group: settle it with the scripts that own it"},
		{Extend, found{row: held(row{FieldParent: "JOB0"})}, "EMQSCRIPT the row has a parent: settle it with the scripts that own it"},
	} {
		assert.Equal(t, c.want, decide(c.verb, c.found.request(c.verb, valid(c.verb)...)).err)
	}
	for _, c := range []struct {
		verb Verb
		args []string
		want string
	}{
		{Enqueue, with(Enqueue, 1, "02"), `ERR numkeys must be 2, got "02"`},
		{Enqueue, with(Enqueue, 4, "GRP1"), "EMQKIND job id must be JOB-namespaced"},
		{Enqueue, with(Enqueue, 2, "emq:q:job:JOB01"),
			`EMQKEY row must be "emq:{q}:job:JOB01", with q not empty and without braces and NUL, got "emq:q:job:JOB01"`},
		{Enqueue, with(Enqueue, 2, "emq:{q}:job:JOB02"), `EMQKEY row must be "emq:{q}:job:JOB01", got "emq:{q}:job:JOB02"`},
		{Enqueue, with(Enqueue, 3, "emq:{r}:pending"), `EMQKEY pending must be "emq:{q}:pending", got "emq:{r}:pending"`},
		{Claim, with(Claim, 4, "emq:{q}:job"), `EMQKEY rowprefix must be "emq:{q}:job:", got "emq:{q}:job"`},
		{Complete, with(Complete, 6, "emq:{q}"), `EMQKEY base must be "emq:{q}:", got "emq:{q}"`},
		{Claim, with(Claim, 5, "1\r\n"), `ERR lease_ms must be an integer from 1 to 4503599627370495, got "1\x0d\x0a"`},
		{Claim, with(Claim, 5, strings.Repeat("9", 70)),
			`ERR lease_ms must be an integer from 1 to 4503599627370495, got "` + strings.Repeat("9", 64) + `..."`},
		{Schedule, with(Schedule, 6, "IN"), `ERR mode must be "at" or "in", got "IN"`},
		{Schedule, with(Schedule, 6, "at\x00\""), `ERR mode must be "at" or "in", got "at\x00\""`},
		{Schedule, with(Schedule, 3, "emq:{q}:scheduled"), `EMQKEY schedule must be "emq:{q}:schedule", got "emq:{q}:scheduled"`},
		{Promote, with(Promote, 5, "10001"), `ERR limit must be an integer from 1 to 10000, got "10001"`},
		{Reap, with(Reap, 1, "2"), `ERR numkeys must be 3, got "2"`},
		{Stats, with(Stats, 1, "emq:{q}:pending"), `EMQKEY base must be "emq:{q}:", got "emq:{q}:pending"`},
		{Audit, with(Audit, 2, "dead"), `ERR cursor must be "0" or what the last call gave, got "dead"`},
		{Audit, append(valid(Audit), "fix"), `ERR fix must be "FIX" or left out, got "fix"`},
		{Audit, append(valid(Audit), ""), `ERR fix must be "FIX" or left out, got ""`},
		{Mcomplete, with(Mcomplete, 1, "emq:{q}:pending"), `EMQKEY base must be "emq:{q}:", got "emq:{q}:pending"`},
		{Mclaim, with(Mclaim, 3, "1001"), `ERR count must be an integer from 1 to 1000, got "1001"`},
		{Mfail, with(Mfail, 5, "-1"), `ERR delay_ms must be an integer from 0 to 4503599627370495, got "-1"`},
		{Claim, with(Claim, 5, "\"\\\x00\x7f\xff"), `ERR lease_ms must be an integer from 1 to 4503599627370495, got "\"\\\x00\x7f\xff"`},
	} {
		assert.Equal(t, c.want, decide(c.verb, found{row: held(nil)}.request(c.verb, c.args...)).err)
	}
}

// TestRefusalFits checks the size of the buffer: the longest possible text is not cut.
func TestRefusalFits(t *testing.T) {
	worst := strings.Repeat("\xff", 300)
	args := []string{"2", "emq:{" + worst + "}:job:JOB", "emq:{" + worst + "}:pending", "JOB" + worst, ""}
	o := decideOne(Enqueue, found{}.request(Enqueue, args...), true)
	require.Equal(t, RefusedKey, o.Refusal)
	assert.True(t, strings.HasSuffix(o.Text, `..."`), "%s", o.Text)
}

func TestCounter(t *testing.T) {
	for s, want := range map[string]int64{"0": 0, "1": 1, "-1": -1, "9223372036854775806": 9223372036854775806,
		"-9223372036854775808": -9223372036854775808, "10": 10, "-10": -10} {
		n, ok := counter(s)
		assert.True(t, ok, s)
		assert.Equal(t, want, n, s)
	}
	for _, s := range []string{"", "-", "-0", "01", "-01", "+1", "1.0", " 1", "1 ", "abc", "9223372036854775807",
		"-9223372036854775809", "99999999999999999999", strings.Repeat("9", 40)} {
		_, ok := counter(s)
		assert.False(t, ok, "%q", s)
	}
}

// TestPlanIsRead checks that a host which has skipped a read is caught before anything is decided.
func TestPlanIsRead(t *testing.T) {
	for verb := range NumVerbs {
		keys := append(slices.Clone(Table[verb].Plan.Keys), NoKey)
		if Table[verb].Plan.Jobs == NamedJob {
			keys = append(keys, KeyRow)
		}
		for _, k := range keys {
			r := found{row: held(nil)}.request(verb, valid(verb)...)
			if k == NoKey && Table[verb].Plan.Figures {
				r.HasFigures = false
			} else if k == NoKey {
				r.IdentityType = Unread
			} else {
				r.Types[k] = Unread
			}
			assert.Panics(t, func() { decide(verb, r) }, "%s without %v", Table[verb].Name, k)
		}
	}
}

func TestTable(t *testing.T) {
	for verb := range NumVerbs {
		c := &Table[verb]
		assert.Less(t, len(c.Args)+len(c.List), MaxArgs, c.Name)
		assert.LessOrEqual(t, len(c.Fields), MaxNumbers, c.Name)
		least := len(c.Args)
		for i, a := range c.Args {
			if a.Role == RoleOption {
				assert.Equal(t, len(c.Args)-1, i, "%s: the option is the last argument", c.Name)
				least--
			}
		}
		least += len(c.List)
		assert.Equal(t, least, len(valid(verb)), c.Name)
		assert.Equal(t, map[bool]int{true: least + 1, false: -least - 1}[least == len(c.Args)], c.Arity(), c.Name)
		assert.Equal(t, c.Plan.Jobs == ListedJobs || c.Plan.Jobs == ListedQueues, c.List != nil, c.Name)
		assert.False(t, c.Plan.Jobs == ListedJobs && c.List[0].Role != RoleID, "%s: a job of a list begins with its id", c.Name)
		assert.Equal(t, c.Args[0].Role == RoleNumkeys, c.Numkeys() != "", c.Name)
		assert.True(t, c.Numkeys() != "" || c.Args[0].Role == RoleBase && c.Args[0].Access != 0 || c.Plan.Jobs == ListedQueues || verb == Queues, "%s declares no key", c.Name)
		assert.NotEmpty(t, c.Summary, c.Name)
		assert.NotEmpty(t, c.Complexity, c.Name)
		assert.Equal(t, !c.ReadOnly(), strings.HasPrefix(c.Flags, "write "), c.Name)
		assert.Equal(t, c.ReadOnly(), slices.Contains(strings.Fields(c.Categories), "read"), c.Name)
		assert.NotEqual(t, c.ReadOnly(), slices.Contains(strings.Fields(c.Categories), "write"), c.Name)
		assert.Equal(t, verb != Queues, strings.Contains(c.Flags, "getkeys-api"), c.Name)
		assert.Contains(t, strings.Fields(c.Categories), Category, c.Name)
		assert.Equal(t, strings.Contains(c.Flags, "fast"), strings.Contains(c.Categories, "fast"), c.Name)
		assert.NotEqual(t, strings.Contains(c.Categories, "slow"), strings.Contains(c.Categories, "fast"), c.Name)
		assert.Equal(t, slices.Contains([]Verb{Enqueue, Schedule, Menqueue, Mschedule}, verb), strings.Contains(c.Flags, "deny-oom"), c.Name)
	}
}

func TestCatalogue(t *testing.T) {
	classes := map[string]bool{"EMQKIND": true, "EMQKEY": true, "EMQFENCE": true, "EMQSTALE": true, "EMQSCRIPT": true,
		"ERR": true, "WRONGTYPE": true, "READONLY": true}
	for why := RefusedNumkeys; why < NumRefusals; why++ {
		e := Catalogue[why]
		assert.True(t, classes[e.Class], "%d: %q", why, e.Class)
		assert.NotEmpty(t, e.When)
		assert.NotEmpty(t, e.Then)
	}
	for _, text := range HostTexts {
		class, _, _ := strings.Cut(text, " ")
		assert.True(t, classes[class], text)
	}
}

// TestNoAllocation checks that decisions allocate nothing.
func TestNoAllocation(t *testing.T) {
	for verb := range NumVerbs {
		for _, f := range []found{{}, {row: held(row{FieldStalled: "1"}), looked: true, member: []Key{KeyActive}}, {row: held(nil)},
			{row: held(row{FieldStalled: "2"}), count: "7"}, {row: held(row{FieldGroup: "g"})}, {identity: "-"}, {identity: "x"}, {replica: true}} {
			if f.count != "" && counterOf(verb) == NoKey {
				continue
			}
			assertNoAllocation(t, verb, f.request(verb, valid(verb)...))
		}
		assertNoAllocation(t, verb, found{}.request(verb, with(verb, 1, "x")...))
	}
}

func assertNoAllocation(t *testing.T, verb Verb, r *request) {
	t.Helper()
	c, o := r.call(verb, false)
	fresh := *o
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		*o = fresh
		Decide(verb, c, o)
	}), Table[verb].Name)
}
