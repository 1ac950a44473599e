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
	err     string
	effects []string
	reply   Reply
	next    Next
	fate    Disposition
	token   int64 // of a job that was granted
	tally   Tally // of a verb that walks a set
}

func decide(verb Verb, r *request) decided {
	o := decideOne(verb, r, true) // leftovers of an earlier command must not matter
	d := decided{err: o.Text, reply: o.Reply, next: o.Next, fate: o.Disposition, token: o.Token}
	if Table[verb].Plan.Jobs == WalkedJobs {
		d.tally = o.Tally
	}
	if o.ClaimIdentity {
		d.effects = append(d.effects, "SET identity")
	}
	for _, e := range o.Effects[:o.NumEffects] {
		d.effects = append(d.effects, e.describe(r))
	}
	return d
}

// describe writes an effect as its plain command.
func (e Effect) describe(r *request) string {
	words := []string{[...]string{"HSET", "HDEL", "ZADD", "ZREM", "DEL", "HINCRBY"}[e.Op], strings.TrimSuffix(e.Key.Suffix(), ":")}
	if e.Op == OpZadd {
		words = append(words, integerText(e.Score))
	}
	if e.OrElse != NoKey {
		words = append(words, "or", e.OrElse.Suffix())
	}
	for i := range e.N {
		words = append(words, FieldName[e.Fields[i]])
		if e.Op == OpHdel {
			continue
		}
		switch v := e.value(int(i)); v.Kind {
		case ValueConst:
			words = append(words, "="+ConstText[v.N])
		case ValueArg:
			words = append(words, "="+r.Args[v.N])
		case ValueInt:
			words = append(words, "="+integerText(v.N))
		case ValueEpoch:
			words = append(words, "=EPOCH")
		}
	}
	return strings.Join(words, " ")
}

func integerText(n int64) string { return between(n, n).minText }

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

func TestVerbs(t *testing.T) {
	const (
		claimedAt  = "ZADD active 1732872630000"
		retryAt    = "ZADD schedule 1732872601000"
		handedBack = "HDEL job lease_epoch stalled"
	)
	row0 := row{FieldState: "pending", FieldAttempts: "0", FieldPayload: "data"}
	enqueued := []string{"HSET job state =pending attempts =0 payload =data", "ZADD pending 0"}
	granted := []string{"ZREM pending", "HSET job state =active attempts =1 lease_epoch =EPOCH", claimedAt}
	dropped := decided{effects: []string{"ZREM pending"}, next: NextMore, fate: Dropped}
	look := decided{next: NextLook}
	buried := []string{"ZREM pending", "HSET job state =dead last_error =" + ConstText[ConstBadAttempts], "ZADD dead 0"}
	granting := Reply{ReplyJob, 0}
	empty := decided{reply: Reply{ReplyEmpty, 0}}
	completed := decided{
		effects: []string{"ZREM active or pending", "DEL job", "HINCRBY metrics:completed count =1"},
		reply:   integerReply(1),
	}
	scheduled := decided{
		effects: []string{"ZREM active or pending", "HSET job state =scheduled failures =1 last_error =boom",
			handedBack, retryAt},
		reply: constReply(ConstScheduled),
	}
	dead := func(failures string) decided {
		return decided{
			effects: []string{"ZREM active or pending", "HSET job state =dead failures =" + failures + " last_error =boom",
				handedBack, "ZADD dead 0", "HINCRBY metrics:failed count =1"},
			reply: constReply(ConstDead),
		}
	}
	due := []string{"HSET job state =scheduled attempts =0 payload =data", retryAt}
	extended := decided{effects: []string{"HSET job lease_epoch =EPOCH", claimedAt}, reply: integerReply(1)}
	// The effects of PROMOTE and REAP on the first entry, if there are more.
	promoted := decided{effects: []string{"ZREM schedule", "HSET job state =pending", "ZADD pending 0"},
		next: NextMore, fate: Returned, tally: Tally{Taken: 1, Moved: 1}}
	overdue := decided{effects: []string{"ZREM schedule"}, next: NextMore, fate: Dropped, tally: Tally{Taken: 1}}
	waiting := held(row{FieldState: "scheduled"})
	reaped := Reply{ReplyLists, 0}
	returned := decided{effects: []string{"ZREM active", "HSET job state =pending", "ZADD pending 0"},
		next: NextMore, fate: Returned, tally: Tally{Taken: 1, Moved: 1}}
	stalled := func(n string) decided {
		return decided{effects: []string{"ZREM active", "HSET job state =pending stalled =" + n, "ZADD pending 0"},
			next: NextMore, fate: Stalled, tally: Tally{Taken: 1, Moved: 1}}
	}
	killed := func(n string) decided {
		return decided{effects: []string{"ZREM active", "HSET job state =dead stalled =" + n + " last_error =stalled", "ZADD dead 0",
			"HINCRBY metrics:failed count =1"}, next: NextMore, fate: Buried, tally: Tally{Taken: 1, Moved: 1, Counted: 1}}
	}
	uncounted := func(d decided) decided {
		d.effects, d.tally.Counted = d.effects[:3], 0
		return d
	}
	lapsed := decided{effects: []string{"ZREM active"}, next: NextMore, fate: Dropped, tally: Tally{Taken: 1}}
	left := decided{next: NextMore, fate: Left}
	last := func(d decided, reply Reply, tally Tally) decided {
		d.reply, d.next, d.tally = reply, NextFinish, tally
		return d
	}
	refused := func(text string) decided { return decided{err: text} }
	const (
		wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
		foreign   = `EMQFENCE {emq}:version is "echomq:4.0.0", this executor speaks "echomq:6.0.0"`
		unclaimed = `EMQFENCE {emq}:version is absent, yet the job's row is there; this executor speaks "echomq:6.0.0"`
		readonly  = "READONLY You can't write against a read only replica."
	)

	for _, c := range []struct {
		name  string
		verb  Verb
		args  []string // nil: valid ones
		found found
		want  decided
	}{
		{"enqueue", Enqueue, nil, found{}, decided{effects: enqueued, reply: integerReply(1)}},
		{"enqueue claims the store", Enqueue, nil, found{identity: "-"},
			decided{effects: append([]string{"SET identity"}, enqueued...), reply: integerReply(1)}},
		{"enqueue of a job that is there", Enqueue, nil, found{row: row0}, decided{reply: integerReply(0)}},
		{"a duplicate claims nothing", Enqueue, nil, found{identity: "-", row: row0}, decided{reply: integerReply(0)}},
		{"enqueue on a foreign store", Enqueue, nil, found{identity: "echomq:4.0.0"}, refused(foreign)},
		{"enqueue, identity no string", Enqueue, nil, found{identityType: SortedSet},
			refused(`EMQFENCE {emq}:version is a zset, this executor speaks "echomq:6.0.0"`)},
		{"enqueue, row no hash", Enqueue, nil, found{rowType: String}, refused(wrongType)},
		{"enqueue, pending no set", Enqueue, nil, found{types: map[Key]Type{KeyPending: List}}, refused(wrongType)},
		{"a duplicate, pending no set", Enqueue, nil, found{row: row0, types: map[Key]Type{KeyPending: List}}, refused(wrongType)},
		{"enqueue on a replica", Enqueue, nil, found{replica: true}, refused(readonly)},

		{"claim", Claim, nil, found{row: row0}, decided{effects: granted, reply: granting, token: 1}},
		{"claim of an empty queue", Claim, nil, found{noEntry: true}, empty},
		{"claim on an unclaimed, empty store", Claim, nil, found{identity: "-", noEntry: true}, empty},
		{"claim on an unclaimed store with a queue", Claim, nil, found{identity: "-", row: row0},
			refused(`EMQFENCE {emq}:version is absent, yet the queue's pending is there; this executor speaks "echomq:6.0.0"`)},
		{"claim on a foreign, empty store", Claim, nil, found{identity: "echomq:4.0.0", noEntry: true}, refused(foreign)},
		{"claim, pending no set", Claim, nil, found{types: map[Key]Type{KeyPending: Hash}}, refused(wrongType)},
		{"claim, active no set", Claim, nil, found{row: row0, types: map[Key]Type{KeyActive: String}}, refused(wrongType)},
		{"claim of an entry without a row", Claim, nil, found{}, dropped},
		{"claim of an entry whose row is no hash", Claim, nil, found{rowType: String}, dropped},
		{"claim of an entry of another kind", Claim, nil, found{entry: "GRP1", row: row0}, dropped},
		{"the last entry that may be dropped", Claim, nil, found{step: 99},
			decided{effects: []string{"ZREM pending"}, reply: Reply{ReplyEmpty, 0}, fate: Dropped}},
		{"the one before", Claim, nil, found{step: 98}, dropped},
		{"a row of another state is looked for", Claim, nil, found{row: held(nil)}, look},
		{"a row without a state is looked for", Claim, nil, found{row: row{FieldAttempts: "0"}}, look},
		{"active, and active holds it", Claim, nil, found{row: held(nil), looked: true, member: []Key{KeyPending, KeyActive}}, dropped},
		{"active, and active does not hold it", Claim, nil, found{row: held(nil), looked: true, member: []Key{KeyPending, KeyDead}},
			decided{effects: []string{"ZREM pending", "HSET job state =active attempts =4 lease_epoch =EPOCH", claimedAt},
				reply: granting, token: 4}},
		{"scheduled, and schedule holds it", Claim, nil,
			found{row: held(row{FieldState: "scheduled"}), looked: true, member: []Key{KeySchedule}}, dropped},
		{"dead, and dead holds it", Claim, nil,
			found{row: held(row{FieldState: "dead"}), looked: true, member: []Key{KeyDead}}, dropped},
		{"an unknown state, in every set", Claim, nil,
			found{row: row{FieldState: "lost", FieldAttempts: "0"}, looked: true, member: []Key{KeyActive, KeySchedule, KeyDead}},
			decided{effects: granted, reply: granting, token: 1}},
		{"a bad row is looked for", Claim, nil, found{row: row{FieldState: "pending"}}, look},
		{"no attempts", Claim, nil, found{row: row{FieldState: "pending"}, looked: true}, decided{effects: buried, next: NextMore, fate: Buried}},
		{"attempts no integer", Claim, nil, found{row: row{FieldState: "pending", FieldAttempts: "abc"}, looked: true},
			decided{effects: buried, next: NextMore, fate: Buried}},
		{"attempts at the end", Claim, nil, found{row: row{FieldState: "pending", FieldAttempts: "9007199254740991"}, looked: true},
			decided{effects: buried, next: NextMore, fate: Buried}},
		{"attempts one before the end", Claim, nil, found{row: row{FieldState: "pending", FieldAttempts: "9007199254740990"}},
			decided{effects: []string{"ZREM pending", "HSET job state =active attempts =9007199254740991 lease_epoch =EPOCH", claimedAt},
				reply: granting, token: 9007199254740991}},
		{"a bad row while dead is no set", Claim, nil,
			found{row: row{FieldState: "pending"}, looked: true, types: map[Key]Type{KeyDead: String}},
			decided{effects: buried[:2], next: NextMore, fate: Buried}},
		{"a bad row that stands in active", Claim, nil,
			found{row: row{FieldState: "active"}, looked: true, member: []Key{KeyActive}}, dropped},
		{"the hundredth broken entry is a bad row", Claim, nil, found{row: row{}, looked: true, step: 99},
			decided{effects: buried, reply: Reply{ReplyEmpty, 0}, fate: Buried}},
		{"claim of a lane's row", Claim, nil, found{row: row{FieldState: "pending", FieldAttempts: "0", FieldGroup: "g"}},
			decided{effects: granted, reply: granting, token: 1}},
		{"the longest lease", Claim, with(Claim, 5, "4503599627370495"), found{row: row0},
			decided{effects: append(granted[:2:2], "ZADD active 4505332499970495"), reply: granting, token: 1}},

		{"complete", Complete, nil, found{row: held(nil)}, completed},
		{"complete, lapsed and returned", Complete, nil, found{row: held(row{FieldState: "pending"}), looked: true}, completed},
		{"the epoch of a returned job is looked for", Complete, nil, found{row: held(row{FieldState: "pending"})}, look},
		{"complete of a lease of the scripts", Complete, nil, found{row: without(held(nil), FieldLeaseEpoch)}, completed},
		{"complete, counter at work", Complete, nil, found{row: held(nil), count: "41"},
			decided{effects: append(completed.effects[:2:2], "HINCRBY metrics:completed count =42"), reply: integerReply(1)}},
		{"complete, counter below zero", Complete, nil, found{row: held(nil), count: "-9223372036854775808"},
			decided{effects: append(completed.effects[:2:2], "HINCRBY metrics:completed count =-9223372036854775807"), reply: integerReply(1)}},
		{"complete, counter full", Complete, nil, found{row: held(nil), count: "9223372036854775807"},
			decided{effects: completed.effects[:2], reply: integerReply(1)}},
		{"complete, counter no integer", Complete, nil, found{row: held(nil), count: "1.5"},
			decided{effects: completed.effects[:2], reply: integerReply(1)}},
		{"complete, counter no hash", Complete, nil, found{row: held(nil), types: map[Key]Type{KeyCompleted: String}},
			decided{effects: completed.effects[:2], reply: integerReply(1)}},
		{"complete without a row", Complete, nil, found{}, decided{reply: integerReply(0)}},
		{"complete without a row, unclaimed", Complete, nil, found{identity: "-"}, decided{reply: integerReply(0)}},
		{"complete with a row, unclaimed", Complete, nil, found{identity: "-", row: held(nil)}, refused(unclaimed)},
		{"complete with a row of another type, unclaimed", Complete, nil, found{identity: "-", rowType: List}, refused(unclaimed)},
		{"complete on a foreign store", Complete, nil, found{identity: "echomq:4.0.0"}, refused(foreign)},
		{"complete, row no hash", Complete, nil, found{rowType: String}, refused(wrongType)},
		{"complete, active no set", Complete, nil, found{types: map[Key]Type{KeyActive: String}}, refused(wrongType)},
		{"complete, pending no set", Complete, nil, found{row: held(nil), types: map[Key]Type{KeyPending: String}}, refused(wrongType)},
		{"complete with an older token", Complete, with(Complete, 5, "2"), found{row: held(nil)}, refused("EMQSTALE complete token mismatch")},
		{"complete with an empty token", Complete, with(Complete, 5, ""), found{row: held(nil)}, refused("EMQSTALE complete token mismatch")},
		{"complete with no number for a token", Complete, with(Complete, 5, strings.Repeat("9", 30)), found{row: held(nil)},
			refused("EMQSTALE complete token mismatch")},
		{"complete after a failure", Complete, nil, found{row: without(held(row{FieldState: "scheduled"}), FieldLeaseEpoch)},
			refused("EMQSTALE complete token mismatch")},
		{"complete after a failure and its promotion", Complete, nil, found{row: without(held(row{FieldState: "pending"}), FieldLeaseEpoch), looked: true},
			refused("EMQSTALE complete token mismatch")},
		{"complete of a lane's row", Complete, nil, found{row: held(row{FieldGroup: ""})},
			refused("EMQSCRIPT the row has a group: settle it with the scripts that own it")},
		{"complete of a flow's row, stale besides", Complete, with(Complete, 5, "1"), found{row: held(row{FieldParent: "JOB0"})},
			refused("EMQSCRIPT the row has a parent: settle it with the scripts that own it")},
		{"complete of a row that is a lane's and a flow's", Complete, nil, found{row: held(row{FieldGroup: "g", FieldParent: "JOB0"})},
			refused("EMQSCRIPT the row has a group: settle it with the scripts that own it")},
		{"complete on a replica", Complete, nil, found{replica: true}, refused(readonly)},

		{"fail", Fail, nil, found{row: held(nil)}, scheduled},
		{"fail, lapsed and returned", Fail, nil, found{row: held(row{FieldState: "pending"}), looked: true}, scheduled},
		{"fail for the last time", Fail, nil, found{row: held(row{FieldFailures: "4"}), looked: true}, dead("5")},
		{"fail for the last time, lapsed and returned", Fail, nil,
			found{row: held(row{FieldFailures: "4", FieldState: "pending"}), looked: true}, dead("5")},
		{"the counter is looked at before the death", Fail, nil, found{row: held(row{FieldFailures: "4"})}, look},
		{"fail past the cap", Fail, nil, found{row: held(row{FieldFailures: "9"}), looked: true}, dead("10")},
		{"fail with a cap of one", Fail, with(Fail, 9, "1"), found{row: held(nil), looked: true}, dead("1")},
		{"fail, failures no number", Fail, nil, found{row: held(row{FieldFailures: "many"})}, scheduled},
		{"fail, dead, counter full", Fail, with(Fail, 9, "1"), found{row: held(nil), looked: true, count: "9223372036854775807"},
			decided{effects: dead("1").effects[:4], reply: constReply(ConstDead)}},
		{"fail at once", Fail, with(Fail, 8, "0"), found{row: held(nil)},
			decided{effects: append(scheduled.effects[:3:3], "ZADD schedule 1732872600000"), reply: scheduled.reply}},
		{"fail without a row", Fail, nil, found{}, refused("EMQSTALE job gone")},
		{"fail without a row, unclaimed", Fail, nil, found{identity: "-"}, refused("EMQSTALE job gone")},
		{"fail with a row, unclaimed", Fail, nil, found{identity: "-", row: held(nil)}, refused(unclaimed)},
		{"fail with another's token", Fail, with(Fail, 7, "4"), found{row: held(nil)}, refused("EMQSTALE retry token mismatch")},
		{"fail a second time", Fail, nil, found{row: without(held(row{FieldState: "scheduled"}), FieldLeaseEpoch)},
			refused("EMQSTALE retry token mismatch")},
		{"fail, schedule no set", Fail, nil, found{row: held(nil), types: map[Key]Type{KeySchedule: Hash}}, refused(wrongType)},
		{"fail, dead no set", Fail, nil, found{row: held(nil), types: map[Key]Type{KeyDead: Hash}}, refused(wrongType)},
		{"fail, dead no set, no row", Fail, nil, found{types: map[Key]Type{KeyDead: Hash}}, refused(wrongType)},
		{"fail of a lane's row", Fail, nil, found{row: held(row{FieldGroup: "g"})},
			refused("EMQSCRIPT the row has a group: settle it with the scripts that own it")},

		{"schedule in a while", Schedule, nil, found{}, decided{effects: due, reply: integerReply(1)}},
		{"schedule at a time", Schedule, []string{"2", "emq:{q}:job:JOB01", "emq:{q}:schedule", id, "data", "at", "1732872601000"}, found{},
			decided{effects: due, reply: integerReply(1)}},
		{"schedule at a time that is over", Schedule, []string{"2", "emq:{q}:job:JOB01", "emq:{q}:schedule", id, "data", "at", "0"}, found{},
			decided{effects: []string{due[0], "ZADD schedule 0"}, reply: integerReply(1)}},
		{"schedule in the longest while", Schedule, with(Schedule, 7, "4503599627370495"), found{},
			decided{effects: []string{due[0], "ZADD schedule 4505332499970495"}, reply: integerReply(1)}},
		{"schedule claims the store", Schedule, nil, found{identity: "-"},
			decided{effects: append([]string{"SET identity"}, due...), reply: integerReply(1)}},
		{"schedule of a job that is there", Schedule, nil, found{row: row0}, decided{reply: integerReply(0)}},
		{"a scheduled duplicate claims nothing", Schedule, nil, found{identity: "-", row: row0}, decided{reply: integerReply(0)}},
		{"schedule on a foreign store", Schedule, nil, found{identity: "echomq:4.0.0"}, refused(foreign)},
		{"schedule, row no hash", Schedule, nil, found{rowType: String}, refused(wrongType)},
		{"schedule, schedule no set", Schedule, nil, found{types: map[Key]Type{KeySchedule: List}}, refused(wrongType)},
		{"schedule, pending no set", Schedule, nil, found{types: map[Key]Type{KeyPending: List}}, decided{effects: due, reply: integerReply(1)}},
		{"schedule in upper case", Schedule, with(Schedule, 6, "AT"), found{}, refused(`ERR mode must be "at" or "in", got "AT"`)},
		{"schedule on a replica", Schedule, nil, found{replica: true}, refused(readonly)},

		{"extend", Extend, nil, found{row: held(nil), member: []Key{KeyActive}}, extended},
		{"extend of another server's lease", Extend, nil, found{row: held(row{FieldLeaseEpoch: "other"}), member: []Key{KeyActive}}, extended},
		{"extend of a lease of the scripts", Extend, nil, found{row: without(held(nil), FieldLeaseEpoch), member: []Key{KeyActive}}, extended},
		{"extend to the longest lease", Extend, with(Extend, 6, "4503599627370495"), found{row: held(nil), member: []Key{KeyActive}},
			decided{effects: []string{extended.effects[0], "ZADD active 4505332499970495"}, reply: integerReply(1)}},
		{"extend, lapsed and returned", Extend, nil, found{row: held(row{FieldState: "pending"}), looked: true}, refused("EMQSTALE extend token mismatch")},
		{"extend, lapsed and returned, to be looked at", Extend, nil, found{row: held(row{FieldState: "pending"})}, look},
		{"extend, pending and in active besides", Extend, nil, found{row: held(row{FieldState: "pending"}), looked: true, member: []Key{KeyActive}}, extended},
		{"extend, a retry in pending", Extend, nil,
			found{row: without(held(row{FieldState: "pending"}), FieldLeaseEpoch), looked: true, member: []Key{KeyActive}}, refused("EMQSTALE extend token mismatch")},
		{"extend of a job that is in no set", Extend, nil, found{row: held(nil)}, refused("EMQSTALE extend token mismatch")},
		{"extend with an older token", Extend, with(Extend, 5, "2"), found{row: held(nil), member: []Key{KeyActive}},
			refused("EMQSTALE extend token mismatch")},
		{"extend after a failure", Extend, nil, found{row: without(held(row{FieldState: "scheduled"}), FieldLeaseEpoch), member: []Key{KeyActive}},
			refused("EMQSTALE extend token mismatch")},
		{"extend without a row", Extend, nil, found{member: []Key{KeyActive}}, decided{reply: integerReply(-1)}},
		{"extend without a row, unclaimed", Extend, nil, found{identity: "-"}, decided{reply: integerReply(-1)}},
		{"extend with a row, unclaimed", Extend, nil, found{identity: "-", row: held(nil), member: []Key{KeyActive}}, refused(unclaimed)},
		{"extend on a foreign store", Extend, nil, found{identity: "echomq:4.0.0"}, refused(foreign)},
		{"extend, row no hash", Extend, nil, found{rowType: List}, refused(wrongType)},
		{"extend, active no set", Extend, nil, found{types: map[Key]Type{KeyActive: List}}, refused(wrongType)},
		{"extend of a lane's row, stale besides", Extend, with(Extend, 5, "1"), found{row: held(row{FieldGroup: ""})},
			refused("EMQSCRIPT the row has a group: settle it with the scripts that own it")},
		{"extend of a flow's row", Extend, nil, found{row: held(row{FieldParent: "JOB0"}), member: []Key{KeyActive}},
			refused("EMQSCRIPT the row has a parent: settle it with the scripts that own it")},
		{"extend on a replica", Extend, nil, found{replica: true}, refused(readonly)},

		{"promote", Promote, nil, found{row: waiting}, promoted},
		{"promote, and that was the limit", Promote, with(Promote, 5, "1"), found{row: waiting},
			last(promoted, integerReply(1), Tally{Taken: 1, Moved: 1})},
		{"promote the last of the limit", Promote, with(Promote, 5, "7"), found{row: waiting, step: 40, tally: Tally{Taken: 6, Moved: 4}},
			last(promoted, integerReply(5), Tally{Taken: 7, Moved: 5})},
		{"drop the last of the limit", Promote, with(Promote, 5, "7"), found{step: 40, tally: Tally{Taken: 6, Moved: 4}},
			last(overdue, integerReply(4), Tally{Taken: 7, Moved: 4})},
		{"promote the last that is looked at", Promote, nil, found{row: waiting, step: 9999}, last(promoted, integerReply(1), Tally{Taken: 1, Moved: 1})},
		{"and the one before", Promote, nil, found{row: waiting, step: 9998}, promoted},
		{"promote the last of the pump's slice", Promote, nil, found{row: waiting, step: 4, slice: 5},
			last(promoted, integerReply(1), Tally{Taken: 1, Moved: 1})},
		{"promote where nothing is due", Promote, nil, found{noEntry: true}, decided{reply: integerReply(0)}},
		{"promote where nothing more is due", Promote, nil, found{noEntry: true, step: 9, tally: Tally{Taken: 9, Moved: 8}},
			decided{reply: integerReply(8), tally: Tally{Taken: 9, Moved: 8}}},
		{"promote of an entry without a row", Promote, nil, found{}, overdue},
		{"the pump's promote of an entry without a row", Promote, nil, found{slice: 5}, left},
		{"the pump's promote of an entry whose row is no hash", Promote, nil, found{rowType: String, slice: 5}, overdue},
		{"the pump's promote of an entry of another kind", Promote, nil, found{entry: "GRP1", slice: 5}, overdue},
		{"promote of an entry whose row is no hash", Promote, nil, found{rowType: String}, overdue},
		{"promote of an entry of another kind", Promote, nil, found{entry: "GRP1", row: waiting}, overdue},
		{"promote of a row without a state", Promote, nil, found{row: row{FieldAttempts: "0"}}, promoted},
		{"promote of a bad row", Promote, nil, found{row: row{FieldState: "scheduled"}}, promoted},
		{"promote of a row of an unknown state", Promote, nil, found{row: row{FieldState: "lost"}}, promoted},
		{"promote of a row of another state", Promote, nil, found{row: held(nil)}, look},
		{"promote of a row of another set", Promote, nil, found{row: held(nil), looked: true, member: []Key{KeySchedule, KeyActive}}, overdue},
		{"promote of a row that is pending", Promote, nil, found{row: row0, looked: true, member: []Key{KeySchedule, KeyPending}}, overdue},
		{"promote of a row that is dead", Promote, nil, found{row: row{FieldState: "dead"}, looked: true, member: []Key{KeySchedule, KeyDead}}, overdue},
		{"promote of a row that is not where it says", Promote, nil, found{row: held(nil), looked: true, member: []Key{KeySchedule, KeyDead}}, promoted},
		{"promote of a lane's row", Promote, nil, found{row: held(row{FieldState: "scheduled", FieldGroup: ""})}, left},
		{"a lane's row, the last that is looked at", Promote, nil, found{row: held(row{FieldState: "scheduled", FieldGroup: "g"}), step: 9999, tally: Tally{Taken: 3, Moved: 2}},
			decided{reply: integerReply(2), fate: Left, tally: Tally{Taken: 3, Moved: 2}}},
		{"promote of a lane's row that is elsewhere", Promote, nil, found{row: held(row{FieldGroup: "g"}), looked: true, member: []Key{KeySchedule, KeyActive}}, overdue},
		{"promote of a flow's row", Promote, nil, found{row: held(row{FieldState: "scheduled", FieldParent: "JOB0"})}, promoted},
		{"promote on an unclaimed, empty store", Promote, nil, found{identity: "-", noEntry: true}, decided{reply: integerReply(0)}},
		{"promote on an unclaimed store", Promote, nil, found{identity: "-", row: waiting},
			refused(`EMQFENCE {emq}:version is absent, yet the queue's schedule is there; this executor speaks "echomq:6.0.0"`)},
		{"promote on an unclaimed store, schedule no set", Promote, nil, found{identity: "-", noEntry: true, types: map[Key]Type{KeySchedule: List}},
			refused(`EMQFENCE {emq}:version is absent, yet the queue's schedule is there; this executor speaks "echomq:6.0.0"`)},
		{"promote on a foreign store", Promote, nil, found{identity: "echomq:4.0.0", noEntry: true}, refused(foreign)},
		{"promote, schedule no set", Promote, nil, found{types: map[Key]Type{KeySchedule: Hash}}, refused(wrongType)},
		{"promote, pending no set", Promote, nil, found{noEntry: true, types: map[Key]Type{KeyPending: Hash}}, refused(wrongType)},
		{"promote on a replica", Promote, nil, found{replica: true}, refused(readonly)},

		{"reap", Reap, nil, found{row: held(nil)}, stalled("1")},
		{"reap again", Reap, nil, found{row: held(row{FieldStalled: "1"})}, stalled("2")},
		{"reap at the cap", Reap, nil, found{row: held(row{FieldStalled: "2"})}, killed("3")},
		{"reap past the cap", Reap, nil, found{row: held(row{FieldStalled: "7"})}, killed("8")},
		{"reap with a cap of one", Reap, with(Reap, 6, "1"), found{row: held(nil)}, killed("1")},
		{"reap without a cap", Reap, with(Reap, 6, "0"), found{row: held(row{FieldStalled: "7"})}, stalled("8")},
		{"reap, stalled no number", Reap, nil, found{row: held(row{FieldStalled: "often"})}, stalled("1")},
		{"reap, stalled at the end", Reap, with(Reap, 6, "0"), found{row: held(row{FieldStalled: "9007199254740990"})}, stalled("9007199254740991")},
		{"reap, stalled past the end", Reap, nil, found{row: held(row{FieldStalled: "9007199254740991"})}, stalled("1")},
		{"the pump's reap of an entry without a row", Reap, nil, found{slice: 5}, left},
		{"reap of a lease of the scripts", Reap, nil, found{row: without(held(nil), FieldLeaseEpoch)}, stalled("1")},
		{"reap of a lease of the scripts at the cap", Reap, nil, found{row: without(held(row{FieldStalled: "2"}), FieldLeaseEpoch)}, killed("3")},
		{"reap of another server's lease", Reap, nil, found{row: held(row{FieldLeaseEpoch: "other", FieldStalled: "2"})}, returned},
		{"reap of a lease of no server", Reap, nil, found{row: held(row{FieldLeaseEpoch: ""})}, returned},
		{"reap of a lease that ended while the server did not serve", Reap, nil,
			found{row: held(row{FieldStalled: "2"}), deadline: float64(now - 500), servedSince: now - 500}, returned},
		{"reap of a lease that ended after", Reap, nil, found{row: held(row{FieldStalled: "2"}), deadline: float64(now - 499), servedSince: now - 500}, killed("3")},
		{"reap of an entry of no time", Reap, nil, found{row: held(nil), deadline: -1}, stalled("1")},
		{"reap of a flow's row", Reap, nil, found{row: held(row{FieldParent: "", FieldStalled: "2"})}, stalled("3")},
		{"reap of a lane's row", Reap, nil, found{row: held(row{FieldGroup: "", FieldStalled: "2"})}, left},
		{"reap of a lane's row that is elsewhere", Reap, nil, found{row: row{FieldState: "dead", FieldGroup: "g"}, looked: true, member: []Key{KeyActive, KeyDead}}, lapsed},
		{"reap, dead no set", Reap, nil, found{row: held(row{FieldStalled: "2"}), types: map[Key]Type{KeyDead: String}}, stalled("3")},
		{"reap, counter at work", Reap, nil, found{row: held(row{FieldStalled: "2"}), count: "41"},
			decided{effects: append(killed("3").effects[:3:3], "HINCRBY metrics:failed count =42"), next: NextMore, fate: Buried,
				tally: Tally{1, 1, 1}}},
		{"reap, counted before in this call", Reap, nil, found{row: held(row{FieldStalled: "2"}), count: "41", step: 9, tally: Tally{9, 8, 7}},
			decided{effects: append(killed("3").effects[:3:3], "HINCRBY metrics:failed count =49"), next: NextMore, fate: Buried,
				tally: Tally{10, 9, 8}}},
		{"reap, counted before in this call, no counter yet", Reap, nil, found{row: held(row{FieldStalled: "2"}), step: 9, tally: Tally{9, 8, 7}},
			decided{effects: append(killed("3").effects[:3:3], "HINCRBY metrics:failed count =8"), next: NextMore, fate: Buried,
				tally: Tally{10, 9, 8}}},
		{"reap, counter full", Reap, nil, found{row: held(row{FieldStalled: "2"}), count: "9223372036854775807"}, uncounted(killed("3"))},
		{"reap, counter full with what this call counted", Reap, nil,
			found{row: held(row{FieldStalled: "2"}), count: "9223372036854775806", step: 1, tally: Tally{1, 1, 1}},
			decided{effects: killed("3").effects[:3], next: NextMore, fate: Buried, tally: Tally{2, 2, 1}}},
		{"reap, counter no integer", Reap, nil, found{row: held(row{FieldStalled: "2"}), count: "many"}, uncounted(killed("3"))},
		{"reap, counter no hash", Reap, nil, found{row: held(row{FieldStalled: "2"}), types: map[Key]Type{KeyFailed: String}}, uncounted(killed("3"))},
		{"reap, and that was the limit", Reap, with(Reap, 7, "1"), found{row: held(nil)}, last(stalled("1"), reaped, Tally{Taken: 1, Moved: 1})},
		{"reap the last that is looked at", Reap, nil, found{row: held(nil), step: 9999}, last(stalled("1"), reaped, Tally{Taken: 1, Moved: 1})},
		{"reap where nothing has expired", Reap, nil, found{noEntry: true}, decided{reply: reaped}},
		{"reap of an entry without a row", Reap, nil, found{}, lapsed},
		{"reap of an entry whose row is no hash", Reap, nil, found{rowType: Stream}, lapsed},
		{"reap of an entry of another kind", Reap, nil, found{entry: "XYZ", row: held(nil)}, lapsed},
		{"reap of a row of another state", Reap, nil, found{row: waiting}, look},
		{"reap of a row of another set", Reap, nil, found{row: waiting, looked: true, member: []Key{KeyActive, KeySchedule}}, lapsed},
		{"reap of a row that is not where it says", Reap, nil, found{row: waiting, looked: true, member: []Key{KeyActive, KeyPending}}, stalled("1")},
		{"reap of a row of no state", Reap, nil, found{row: row{}}, stalled("1")},
		{"reap on an unclaimed, empty store", Reap, nil, found{identity: "-", noEntry: true}, decided{reply: reaped}},
		{"reap on an unclaimed store", Reap, nil, found{identity: "-", row: held(nil)},
			refused(`EMQFENCE {emq}:version is absent, yet the queue's active is there; this executor speaks "echomq:6.0.0"`)},
		{"reap on a foreign store", Reap, nil, found{identity: "echomq:4.0.0", noEntry: true}, refused(foreign)},
		{"reap, active no set", Reap, nil, found{types: map[Key]Type{KeyActive: Hash}}, refused(wrongType)},
		{"reap, pending no set", Reap, nil, found{noEntry: true, types: map[Key]Type{KeyPending: Hash}}, refused(wrongType)},
		{"reap on a replica", Reap, nil, found{replica: true}, refused(readonly)},
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
				assert.Empty(t, got.effects)
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
				assert.Empty(t, got.effects)
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
