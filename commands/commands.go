// Package commands answers one question: given what a store holds, what does a verb do to it?
//
// A verb is decided here and carried out elsewhere. The host reads what the verb's Plan names into a Request, calls
// Decide once, and then either refuses with the Outcome's text or applies the Outcome's effects and replies. Both are
// plain data. Nothing in this package reads a clock, logs, allocates or touches a store, so every decision can be
// tested and fuzzed without a server.
//
// Request and Outcome have the memory layout of their C mirrors in module/emq.h, which is asserted when module/ is
// compiled. That is how a command crosses from C to Go once and nothing is copied: strings in a Request view the
// server's own bytes and are valid for the duration of Decide alone.
package commands

// MaxArgs is the largest number of arguments of any verb, its name included.
const MaxArgs = 12

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
	NumKeys

	// NoKey stands where no key is meant.
	NoKey Key = 255
)

// Field names a field of a job row, or of a counter.
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
	NumFields
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
}

// Type is what is stored at a key.
type Type uint8

// Unread marks a key that the host did not look at; the others follow the server's own numbering, shifted by one.
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

// Plan says what the host must read for a verb before it is decided. All of it is read without any effect on the store.
type Plan struct {
	// Keys are opened and their types told.
	Keys []Key
	// Values are the row's fields that are read.
	Values []Field
	// Late are further fields, of which only the presence matters. They are read when a decision asks for them with Look,
	// and so is the counter if LateCounter is set: what is seldom needed costs nothing then.
	Late        []Field
	LateCounter bool
	// Counter is the counter whose `count` is read, or NoKey.
	Counter Key
	// Source is the sorted set whose entries are walked from its lowest; each entry's row is then read and decided on
	// by itself. NoKey where the row is named by the caller.
	Source Key
	// Due bounds the walk to the entries whose score is not after now.
	Due bool
	// Member is the set that is asked whether it holds the caller's id, or NoKey.
	Member Key
	// Figures tells that the sizes, the lowest scores and the counts of Keys are read, and the first pending entry.
	Figures bool
	// Scans tells that the entries are those that one of the server's own scans finds, when a decision has asked for it
	// with MakeScan. Of each, its row and the sets that hold it are read.
	Scans bool
}

// Request is what the host read for one decision. The C mirror is emq_request.
type Request struct {
	// Args are the arguments as sent, the verb's name first.
	Args [MaxArgs]string
	// Entry is the member of the plan's source under consideration, if HasEntry.
	Entry string
	// Identity is the value of fence.Key, if that is a string.
	Identity string
	// Epoch is the run_id of this server.
	Epoch string
	// Row holds the values of the plan's fields; a field is present if its bit in Present is set.
	Row [NumFields]string
	// Count is the plan's counter, if HasCount.
	Count string
	// Now is the server's clock in Unix ms, one value for a whole execution unit.
	Now int64
	// Deadline is the score of Entry in the source.
	Deadline float64
	// ServedSince is the instant, in Unix ms, up to which a lease that ended does not count against its job, since the
	// server did not serve its holder. 0 in a command: only the pump knows.
	ServedSince int64
	// Figures is what the plan's Figures asks for.
	Figures *Figures
	// ScannedTo is the server's cursor after the scan, if Scanned.
	ScannedTo uint64
	// Step counts the entries of the source that this call has already decided on.
	Step int32
	// Slice bounds the entries that the pump looks at in one call; 0 in a command.
	Slice int32
	// Tally is what this call has decided so far: that of the outcome before.
	Tally Tally
	// Argc is how many of Args were sent.
	Argc int32
	// Present is the set of fields that the row has, by their bits.
	Present uint32
	// Types tells what each key of the plan holds.
	Types [NumKeys]Type
	// IdentityType tells what fence.Key holds.
	IdentityType Type
	// Replica tells that this server follows another.
	Replica bool
	// HasEntry is false when the source has no further entry.
	HasEntry bool
	// HasCount tells that the counter has a `count` field.
	HasCount bool
	// Looked tells that what Look asks for was read; see Outcome.Next.
	Looked bool
	// Member is the set of keys, by their bits, that hold Entry; or of the plan's Member alone, the id.
	Member uint8
	// Scanned tells that the scan was made: Entry is one that it found, if HasEntry.
	Scanned bool
}

// Tally counts what one call has decided for the entries that it walked.
type Tally struct {
	// Taken were moved or dropped, Moved of them moved; Counted added 1 to the plan's counter.
	Taken, Moved, Counted int32
}

func (r *Request) has(f Field) bool { return r.Present&(1<<f) != 0 }

// Next tells the host how to go on after a decision.
type Next uint8

const (
	// Finish: apply the effects of all decisions of this call and reply.
	Finish Next = iota
	// NextEntry: keep the effects, read the source's next entry and decide again.
	NextEntry
	// Look: read which of the queue's sets hold the entry, and the type of each, or, where the caller names the job, the
	// plan's late part, and decide on the same job again.
	Look
	// MakeScan: have the server make the scan, read everything anew and decide again, then on each entry.
	MakeScan
)

// Fate is what a decision makes of an entry that was walked.
type Fate uint8

const (
	// NoFate: there was no entry, or the verb answers for it otherwise.
	NoFate Fate = iota
	// Dropped: the entry left the source, and its job, if there is one, is untouched.
	Dropped
	// Left: the entry stays, for the scripts that own its row, or until its row comes.
	Left
	// Returned: the job went back to pending.
	Returned
	// Stalled: the job went back to pending, and its lost lease was counted.
	Stalled
	// Buried: the job went to the dead letters.
	Buried
	// Reported: something is wrong with the entry, and stays so. Repaired: it was put right.
	Reported
	Repaired
	NumFates
)

// MaxEffects bounds the effects of one decision, MaxText the bytes of a refusal, the final NUL included.
const (
	MaxEffects = 6
	MaxText    = 1024
)

// Outcome is one decision: a refusal, or effects and a reply. The C mirror is emq_outcome.
type Outcome struct {
	Effects [MaxEffects]Effect
	Reply   Reply
	// NumEffects is how many of Effects are meant.
	NumEffects int32
	// TextLen is the length of a refusal's text, 0 if the verb is not refused. A refusal has no effects.
	TextLen int32
	// Refusal is the catalogue entry of Text.
	Refusal Refusal
	// Next tells how to go on.
	Next Next
	// Fate is what becomes of the entry.
	Fate Fate
	// Result is what the call came to, once it is finished.
	Result Result
	// Finding is what AUDIT found.
	Finding Finding
	// Tally is what this call has decided, this decision included.
	Tally Tally
	// Scan is the scan to be made, or with ReplyAudit the one to come.
	Scan Scan
	// Numbers are those of ReplyNumbers.
	Numbers [MaxNumbers]int64
	// Text is the error reply, NUL-terminated, free of control bytes.
	Text [MaxText]byte
}

// Reset makes the outcome that of a verb which changes nothing and does not answer yet.
func (o *Outcome) Reset() {
	o.NumEffects, o.TextLen, o.Refusal, o.Next = 0, 0, NotRefused, Finish
	o.Fate, o.Result, o.Finding, o.Scan, o.Reply = NoFate, NoResult, Finding{}, Scan{Key: NoKey}, Reply{}
}

// Decide decides one verb on what was read for it, following the order of WIRE6 §2, and writes the outcome.
func Decide(verb Verb, r *Request, o *Outcome) {
	o.Reset()
	o.Tally = r.Tally
	c := &Table[verb]
	if c.check(r, o) {
		c.decide(r, o)
	}
}
