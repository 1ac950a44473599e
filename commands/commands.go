// Package commands answers one question: given what a store holds, what does a verb do to it?
//
// A verb is decided here and executed elsewhere. The host reads what the verb's Plan names into a Call, and the jobs that
// the verb is about into the slots Call.Jobs, up to Window of them at a time. Decide judges the jobs one after the other and
// appends the effects to the Outcome's log. When all jobs are decided, the host applies the log and replies, or replies
// with the text of a refusal. Nothing in this package reads a clock, logs, allocates or touches a store, so every decision
// can be tested and fuzzed without a server.
//
// Call and Outcome are shared with C: module/mirror.h is generated from the types and constants of this package. So a
// command crosses from C to Go once for each window, and nothing is copied. Strings in a Call are views of the server's own
// bytes and are valid only during Decide.
package commands

//go:generate go run ../tools/mirror ../module/mirror.h

// MaxArgs is the largest number of arguments of a verb that does not take a list, the verb's name included.
const MaxArgs = 12

// Window is the largest number of jobs in one Decide.
const Window = 32

// MaxList bounds the jobs that a caller may list in one call (WIRE6 §7).
const MaxList = 1000

// Key names a key of one queue by its role; NumKeys is their number. The names' exact bytes are in keys.go.
type Key uint8

// The keys of a queue (WIRE6 §1).
const (
	KeyRow Key = iota
	KeyPending
	KeyActive
	KeySchedule
	KeyDead
	KeyCompleted
	KeyFailed
	KeyMeta
	NumKeys

	// NoKey means that there is no key.
	NoKey Key = 255
)

// Field names a field of a job row, of a counter, or of meta.
type Field uint8

// The fields that this wire reads or writes (WIRE6 §1).
const (
	FieldState Field = iota
	FieldAttempts
	FieldPayload
	FieldLeaseEpoch
	FieldFailures
	FieldLastError
	FieldStalled
	FieldGroup
	FieldParent
	FieldCount
	FieldPaused
	FieldPausedUntil
	FieldConcurrency
	FieldMax
	FieldDuration
	FieldWindow
	FieldUsed
	NumFields

	// NoField means that there is no field.
	NoField Field = 255
)

// FieldName holds the fields' exact bytes.
var FieldName = [NumFields]string{
	FieldState:      "state",
	FieldAttempts:   "attempts",
	FieldPayload:    "payload",
	FieldLeaseEpoch: "lease_epoch",
	FieldFailures:   "failures",
	FieldLastError:  "last_error",
	FieldStalled:    "stalled",
	FieldGroup:      "group",
	FieldParent:     "parent",
	FieldCount:      "count",

	FieldPaused: "paused", FieldPausedUntil: "paused_until", FieldConcurrency: "concurrency",
	FieldMax: "max", FieldDuration: "duration", FieldWindow: "window", FieldUsed: "used",
}

// NumRowFields is the number of fields that a row may have; they come first.
const NumRowFields = 9

// Type is the type of a key's value.
type Type uint8

// Unread marks a key that the host did not read; the others follow the server's own numbering, shifted by one.
const (
	Unread Type = iota
	None
	String
	List
	Hash
	Set
	SortedSet
	Module
	Stream
)

// String is the type as the server's TYPE command names it.
func (t Type) String() string {
	names := [...]string{"unread", "none", "string", "list", "hash", "set", "zset", "module", "stream"}
	if int(t) < len(names) {
		return names[t]
	}
	return "unknown"
}

// Source says where a verb's jobs come from.
type Source uint8

const (
	// NoJobs: the verb is about the queue as a whole.
	NoJobs Source = iota
	// NamedJob: the caller names one job, by its id.
	NamedJob
	// ListedJobs: the caller names up to MaxList jobs, each by a group of arguments; Command.List.
	ListedJobs
	// ListedQueues: the caller names several queues by their bases; of each the types of pending and active are read.
	ListedQueues
	// WalkedJobs are the entries of the plan's Walk, from the lowest.
	WalkedJobs
	// ScannedJobs are found by one of the server's own scans, after a decision has asked for it with NextScan. For each of
	// them, the sets that hold it are read too.
	ScannedJobs
)

// Probe is a single field of one of the queue's hashes, a counter for example.
type Probe struct {
	Key   Key
	Field Field
	// More is how many probes of the same key follow.
	More uint8
}

// Plan says what the host must read before a verb is decided. Reading it has no effect on the store.
type Plan struct {
	// Keys are opened, and their types are read.
	Keys []Key
	// Jobs says which jobs are read, and Walk is the sorted set of WalkedJobs, or NoKey.
	Jobs Source
	Walk Key
	// Figures is set if the sizes and the lowest scores of Keys are read, and the first pending entry.
	Figures bool
	// Due ends the walk before the first entry whose score is after now.
	Due bool
	// Values are the fields of each job's row that are read.
	Values []Field
	// Late are further fields, of which only the presence matters. They are read only when a decision asks for them with
	// NextLook, because they are seldom needed; so are the probes if LateProbes is set.
	Late       []Field
	LateProbes bool
	// Probes are read once in a call.
	Probes []Probe
	// Member is the set that is asked whether it holds the caller's jobs, or NoKey.
	Member Key
	// Gated is set if gates apply: the number of active jobs is read where the queue has a meta.
	Gated bool
	// Merged is set if the effects on many jobs are applied as one command where the resulting store is the same: one ZREM
	// or ZADD for each set, one DEL, one HINCRBY (WIRE6 §7).
	Merged bool
}

// Limits of a plan: the fields of a row that are read, and the probes.
const (
	MaxRead   = 5
	MaxProbes = 9
)

// Job is one job of a call, as the host found it. The C mirror is emq_job.
type Job struct {
	// ID is the id that the caller names, or the entry that a walk or a scan found.
	ID string
	// Deadline is the score of the entry in the set that is walked.
	Deadline float64
	// Present has a bit for each field that the row has.
	Present uint32
	// Shift is the distance of a listed job's arguments from those of the first job.
	Shift int32
	// Twin is the place in Marks, counted from 1, of the first job of the list with the same id; 0 if this is the first.
	Twin int32
	// Type is the type of the row. For a listed queue, it is the type of pending, and Active that of active.
	Type, Active Type
	// Member has a bit for each set that holds the job's id: only the plan's Member, or after a look all four.
	Member uint8
	// Looked is set once what NextLook asks for has been read.
	Looked bool
	// Row holds the plan's fields. Only those whose bit in Present is set are valid: see field.
	Row [NumRowFields]string
}

func (j *Job) has(f Field) bool { return j.Present&(1<<f) != 0 }

// field is the value of a field of the row, or the empty string if there is none.
func (j *Job) field(f Field) string {
	if !j.has(f) {
		return ""
	}
	return j.Row[f]
}

// in reports whether a set was found to hold the job.
func (j *Job) in(set Key) bool { return j.Member&(1<<set) != 0 }

// Call is what the host read for one command, or for one walk of the pump. The C mirror is emq_call.
type Call struct {
	// Args are the arguments as sent, the verb's name first. The opaque ones are empty.
	Args []string
	// Jobs are the slots under decision, Window at most.
	Jobs []Job
	// Identity is the value of fence.Key, if that is a string.
	Identity string
	// Epoch is the run_id of this server.
	Epoch string
	// Probes are the values of the plan's probes. Only those whose bit in Probed is set are valid.
	Probes []string
	// Figures are what the plan's Figures asks for.
	Figures *Figures
	// NumActive is the number of active jobs, where the plan is Gated.
	NumActive int64
	// MaxPayload bounds the bytes of a new job's payload; 0: no bound.
	MaxPayload int64
	// Now is the server's clock in Unix ms. It has the same value in a whole transaction or script.
	Now int64
	// ServedSince is a time in Unix ms: a lease that expired up to then does not count against its job, because the server
	// was not serving and the holder could not extend it. 0 in a command: only the pump knows.
	ServedSince int64
	// ScannedTo is the server's cursor after the scan, if Scanned.
	ScannedTo uint64
	// Step is the number of jobs of this call that were decided before Jobs[0].
	Step int32
	// First is the place of Jobs[0] in the outcome's Marks. It is less than Step if the host has dropped jobs to which
	// nothing happened.
	First int32
	// Slice bounds the entries that the pump looks at in one call; 0 in a command.
	Slice int32
	// Probed has a bit for each probe whose field exists.
	Probed uint32
	// Types has the type of each key of the plan, except the rows.
	Types [NumKeys]Type
	// IdentityType is the type of fence.Key.
	IdentityType Type
	// Replica is set if this server is a replica and the verb writes.
	Replica bool
	// Ended is set if no job follows those of this window.
	Ended bool
	// Scanned is set once the scan has been made.
	Scanned bool
}

// probe is the value of a probe, and whether its field exists.
func (c *Call) probe(i int) (string, bool) {
	if c.Probed&(1<<i) == 0 {
		return "", false
	}
	return c.Probes[i], true
}

// Tally counts what one call has decided for its jobs.
type Tally struct {
	// Taken jobs were moved or dropped, Moved ones were moved, Counted ones added 1 to a counter.
	Taken, Moved, Counted int32
}

// Next tells the host what to do after a decision.
type Next uint8

const (
	// NextFinish: apply the log and reply.
	NextFinish Next = iota
	// NextMore: read up to Want further jobs and decide on them.
	NextMore
	// NextLook: for the first job that is not decided, read the plan's late part if the caller names the job, else the types
	// of the four sets and which of them hold the job. Then decide on that job again.
	NextLook
	// NextList: reply with the queues that the host knows.
	NextList
	// NextClaim: claim from the first of the listed queues that has a job, or block the client.
	NextClaim
	// NextScan: make the scan, read everything again and decide again, this time on each entry that was found.
	NextScan
)

// Disposition is what becomes of an entry of a walk or a scan.
type Disposition uint8

const (
	// NoDisposition: the job has a Result instead.
	NoDisposition Disposition = iota
	// Dropped: the entry is removed from the set, and its job, if there is one, is not changed.
	Dropped
	// Left: the entry stays in the set, because scripts own its row, or because its row may still come.
	Left
	// Returned: the job went back to pending.
	Returned
	// Stalled: the job went back to pending, and its lost lease was counted.
	Stalled
	// Buried: the job went to the dead letters.
	Buried
	// Reported: something is wrong with the entry, and was not changed. Repaired: it was fixed.
	Reported
	Repaired
	NumDispositions
)

// Mark is what was decided for one job, apart from the effects. The C mirror is emq_mark.
type Mark struct {
	// Token is the fencing token of a job that was claimed.
	Token       int64
	Disposition Disposition
	// Result is the verb's result for this job, if the reply answers for each job.
	Result  Result
	Finding Finding
	// Changed is set if the call changes this job, at this place of a list or at a later one with the same id.
	Changed bool
}

// MaxEffects bounds the effects on one job, MaxText the bytes of a refusal, the final NUL included.
const (
	MaxEffects = 6
	MaxText    = 1024
)

// Outcome is the outcome of one call: a refusal, or a log of effects and a reply. It is zero when a call begins and is kept
// between the decisions of that call. The C mirror is emq_outcome.
type Outcome struct {
	// Effects is the log. The host provides room for MaxEffects of every job in the window.
	Effects []Effect
	// Marks has one place for each job that was decided or is in the window.
	Marks []Mark
	// Reply is the reply, once the call is finished.
	Reply Reply
	// Scan is the scan to make, or with ReplyFindings the next one, for the cursor.
	Scan Scan
	// Gates is the audit's finding about meta. BrokenGates has a bit, as in gateProbes, for each gate that it concerns; 0
	// means the key as a whole.
	Gates       Finding
	BrokenGates uint32
	// Tally counts what this call has decided so far.
	Tally Tally
	// Room is how many jobs the gates let a claim hand out. If that is none, Gated is set, and Opens is the time, in
	// Unix ms, at which a gate opens by itself, or 0.
	Room, Opens int64
	// Done is the number of jobs of the last window that were decided.
	Done int32
	// Want is the number of further jobs that NextMore asks for, Window at most.
	Want int32
	// TextLen is the length of a refusal's text, 0 if the verb is not refused. A refusal has no effects.
	TextLen int32
	// Refusal is the catalogue entry of Text.
	Refusal Refusal
	// Next is what the host does next.
	Next Next
	// Result is the result of the call, once it is finished.
	Result Result
	// Admitted is set once the checks of the call as a whole have passed, which are made once in a call.
	Admitted bool
	// ClaimIdentity is set if the host must claim the store first: SET fence.Key fence.Identity NX with the caller's own
	// rights. This is the only write that can fail. If it does, nothing was written; otherwise the host reads and decides
	// again, in the same atomic step, on a store that is now ours.
	ClaimIdentity bool
	Gated         bool
	// job is the place in Marks of the job under decision.
	job int32
	// given has the values of the numeric arguments, each at its argument's place, once check has validated them.
	given [MaxArgs]int64
	// Numbers are those of ReplyNumbers.
	Numbers [MaxNumbers]int64
	// Text is the error reply, NUL-terminated, free of control bytes.
	Text [MaxText]byte
}

// mark is the mark of the job under decision.
func (o *Outcome) mark() *Mark { return &o.Marks[o.job] }

// Decide decides a verb on what was read for it, in the order of WIRE6 §2: first the call as a whole, once, then each job.
func Decide(verb Verb, c *Call, o *Outcome) {
	v := &Table[verb]
	o.Next, o.Done = NextFinish, 0
	if !o.Admitted {
		if !v.check(c, o) || !v.admit(v, c, o) {
			return
		}
		o.Admitted = true
	}
	for ; int(o.Done) < len(c.Jobs); o.Done++ {
		o.job = c.First + o.Done
		*o.mark() = Mark{}
		switch o.Next = v.decide(v, c, &c.Jobs[o.Done], o); o.Next {
		case NextLook:
			return
		case NextFinish:
			o.Done++
			return
		}
	}
	if !c.Ended {
		o.Next, o.Want = NextMore, v.want(v, c, o)
		return
	}
	o.Next = NextFinish
	v.finish(v, c, o)
}
