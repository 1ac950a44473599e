package commands

import (
	"strconv"
	"strings"

	"emq/lease"
)

// Version is this module's own version, which COMMAND DOCS gives as the verbs' `since` and MODULE LIST as a decimal
// MMmmpp. It is not the wire's: that is fence.Identity.
const (
	Version       = "0.1.0"
	VersionNumber = 100
)

// Category is the verbs' own ACL category.
const Category = "emq"

// Verb numbers the verbs; it indexes Table.
type Verb uint8

// The core verbs (WIRE6 §4), and those that were added (§6).
const (
	Enqueue Verb = iota
	Claim
	Complete
	Fail
	Schedule
	Extend
	Promote
	Reap
	Stats
	Audit
	NumVerbs
)

// Role is what an argument is to its verb.
type Role uint8

const (
	// RoleNumkeys: the verb's number of keys, byte for byte.
	RoleNumkeys Role = iota
	// RoleKey: the key Arg.Key of the queue.
	RoleKey
	// RoleID: the job's id.
	RoleID
	// RoleBase: the queue's base, `emq:{q}:`.
	RoleBase
	// RoleRowPrefix: what the row keys of the queue start with, `emq:{q}:job:`.
	RoleRowPrefix
	// RoleWord: one of Arg.Words.
	RoleWord
	// RoleOption: the first of Arg.Words, or left out; it is the last argument.
	RoleOption
	// RoleCursor: a place in the audit.
	RoleCursor
	// RoleNumber: an integer in Arg.Range.
	RoleNumber
	// RoleToken: a fencing token.
	RoleToken
	// RoleBytes: opaque bytes, which no decision looks at.
	RoleBytes
)

// Access says what a verb does to a key, in the server's own key-spec flags.
type Access uint16

// Flags of a key spec, numbered as the server numbers them.
const (
	AccessRO     Access = 1 << 0
	AccessRW     Access = 1 << 1
	AccessRead   Access = 1 << 4
	AccessUpdate Access = 1 << 5
	AccessInsert Access = 1 << 6
	AccessDelete Access = 1 << 7
)

// maxCount bounds what one call may be asked for.
const maxCount = 1000

// Range bounds a number, both ends included.
type Range struct {
	min, max         int64
	minText, maxText string
}

func between(min, max int64) Range {
	return Range{min, max, strconv.FormatInt(min, 10), strconv.FormatInt(max, 10)}
}

// Arg is one argument of a verb.
type Arg struct {
	Name   string
	Role   Role
	Key    Key       // of RoleKey
	Access Access    // of RoleKey, and of a base that is declared as a key itself
	Range  Range     // of RoleNumber
	Words  [2]string // of RoleWord and RoleOption
}

// Command is all there is to know of a verb. Registration, COMMAND DOCS, the checks and the docs derive from it.
type Command struct {
	Name       string
	Summary    string
	Complexity string
	Since      string
	// Flags are the server's command flags; all verbs answer getkeys as well.
	Flags string
	// Categories are the ACL categories, which the server derives from nothing.
	Categories string
	// Tips are hints for clients and proxies.
	Tips string
	// Args are the arguments in their order, the verb's name left out.
	Args []Arg
	Plan Plan
	// Fields names the numbers of ReplyNumbers.
	Fields []string
	// Results are what a call can come to, and Fates the names of what can become of an entry on the way: what INFO counts.
	// The refusals that follow from the arguments are added to them.
	Results []Result
	Fates   [NumFates]string

	decide  func(*Request, *Outcome)
	numkeys string
	id      int   // where in Request.Args the id is, 0 if there is none
	word    int   // where the keyword is, 0 if there is none
	option  int   // where the option is, 0 if there is none
	cursor  int   // where the cursor is, 0 if there is none
	numbers []int // where the numbers are
	places  []place
}

// Arity is the number of arguments, the verb's name included; negative if there may be more, as the server has it.
func (c *Command) Arity() int {
	if c.option > 0 {
		return -len(c.Args)
	}
	return len(c.Args) + 1
}

// ReadOnly tells that the verb writes nothing, so that replicas run it too.
func (c *Command) ReadOnly() bool { return strings.HasPrefix(c.Flags, "readonly ") }

// Numkeys is the verb's count of keys as its first argument must spell it; empty if it has none.
func (c *Command) Numkeys() string { return c.numkeys }

// Table is the module on one screen.
var Table = [NumVerbs]Command{
	Enqueue: {
		Name:       "EMQ.ENQUEUE",
		Summary:    "Puts a new job into a queue, in the order of its id; a job that exists already is left alone.",
		Complexity: "O(log(N)) with N the number of pending jobs.",
		Flags:      "write deny-oom fast getkeys-api",
		Categories: "emq write fast",
		Args: []Arg{
			{Name: "numkeys", Role: RoleNumkeys},
			{Name: "row", Role: RoleKey, Key: KeyRow, Access: AccessRW | AccessInsert},
			{Name: "pending", Role: RoleKey, Key: KeyPending, Access: AccessRW | AccessInsert},
			{Name: "id", Role: RoleID},
			{Name: "payload", Role: RoleBytes},
		},
		Plan:    Plan{Keys: []Key{KeyRow, KeyPending}, Counter: NoKey, Source: NoKey, Member: NoKey},
		Results: []Result{ResultEnqueued, ResultDuplicate},
		decide:  decideEnqueue,
	},
	Claim: {
		Name:       "EMQ.CLAIM",
		Summary:    "Takes the first pending job under a lease, with the fencing token that its holder must present.",
		Complexity: "O((D+1)*log(N)) with N the number of jobs and D, at most 100, the number of broken entries dropped on the way.",
		Flags:      "write fast getkeys-api",
		Categories: "emq write fast",
		Tips:       "nondeterministic_output",
		Args: []Arg{
			{Name: "numkeys", Role: RoleNumkeys},
			{Name: "pending", Role: RoleKey, Key: KeyPending, Access: AccessRW | AccessRead | AccessDelete},
			{Name: "active", Role: RoleKey, Key: KeyActive, Access: AccessRW | AccessInsert},
			{Name: "rowprefix", Role: RoleRowPrefix},
			{Name: "lease_ms", Role: RoleNumber, Range: between(1, lease.MaxMillis)},
		},
		Plan: Plan{
			Keys:    []Key{KeyPending, KeyActive},
			Values:  []Field{FieldState, FieldAttempts, FieldPayload},
			Counter: NoKey,
			Source:  KeyPending,
			Member:  NoKey,
		},
		Results: []Result{ResultClaimed, ResultEmpty},
		Fates:   [NumFates]string{Dropped: entriesDropped, Buried: jobsBuried},
		decide:  decideClaim,
	},
	Complete: {
		Name:       "EMQ.COMPLETE",
		Summary:    "Settles a held job as done and removes it.",
		Complexity: "O(log(N)+M) with N the number of active jobs and M the number of fields in the job's row.",
		Flags:      "write getkeys-api",
		Categories: "emq write slow",
		Args: []Arg{
			{Name: "numkeys", Role: RoleNumkeys},
			{Name: "active", Role: RoleKey, Key: KeyActive, Access: AccessRW | AccessDelete},
			{Name: "row", Role: RoleKey, Key: KeyRow, Access: AccessRW | AccessDelete},
			{Name: "id", Role: RoleID},
			{Name: "token", Role: RoleToken},
			{Name: "base", Role: RoleBase},
		},
		Plan: Plan{
			Keys:    []Key{KeyRow, KeyActive, KeyPending, KeyCompleted},
			Values:  []Field{FieldState, FieldAttempts, FieldGroup, FieldParent},
			Late:    []Field{FieldLeaseEpoch},
			Counter: KeyCompleted,
			Source:  NoKey,
			Member:  NoKey,
		},
		Results: []Result{ResultCompleted, ResultGone, ResultStale, ResultScript},
		decide:  decideComplete,
	},
	Fail: {
		Name:       "EMQ.FAIL",
		Summary:    "Gives a held job back after a failure: to a later retry, or to the dead letters at the cap.",
		Complexity: "O(log(N)) with N the number of jobs in the set that is left or entered.",
		Flags:      "write fast getkeys-api",
		Categories: "emq write fast",
		Args: []Arg{
			{Name: "numkeys", Role: RoleNumkeys},
			{Name: "active", Role: RoleKey, Key: KeyActive, Access: AccessRW | AccessDelete},
			{Name: "schedule", Role: RoleKey, Key: KeySchedule, Access: AccessRW | AccessInsert},
			{Name: "dead", Role: RoleKey, Key: KeyDead, Access: AccessRW | AccessInsert},
			{Name: "row", Role: RoleKey, Key: KeyRow, Access: AccessRW | AccessUpdate},
			{Name: "id", Role: RoleID},
			{Name: "token", Role: RoleToken},
			{Name: "delay_ms", Role: RoleNumber, Range: between(0, lease.MaxMillis)},
			{Name: "max", Role: RoleNumber, Range: between(1, lease.MaxAttempts)},
			{Name: "error", Role: RoleBytes},
			{Name: "base", Role: RoleBase},
		},
		Plan: Plan{
			Keys:        []Key{KeyRow, KeyActive, KeyPending, KeySchedule, KeyDead},
			Values:      []Field{FieldState, FieldAttempts, FieldFailures, FieldGroup, FieldParent},
			Late:        []Field{FieldLeaseEpoch},
			LateCounter: true,
			Counter:     KeyFailed,
			Source:      NoKey,
			Member:      NoKey,
		},
		Results: []Result{ResultScheduled, ResultDead, ResultGone, ResultStale, ResultScript},
		decide:  decideFail,
	},
	Schedule: {
		Name:       "EMQ.SCHEDULE",
		Summary:    "Puts a new job into a queue for later; a job that exists already is left alone.",
		Complexity: "O(log(N)) with N the number of scheduled jobs.",
		Flags:      "write deny-oom fast getkeys-api",
		Categories: "emq write fast",
		Args: []Arg{
			{Name: "numkeys", Role: RoleNumkeys},
			{Name: "row", Role: RoleKey, Key: KeyRow, Access: AccessRW | AccessInsert},
			{Name: "schedule", Role: RoleKey, Key: KeySchedule, Access: AccessRW | AccessInsert},
			{Name: "id", Role: RoleID},
			{Name: "payload", Role: RoleBytes},
			{Name: "mode", Role: RoleWord, Words: [2]string{scheduleAt, scheduleIn}},
			{Name: "ms", Role: RoleNumber, Range: between(0, lease.MaxMillis)},
		},
		Plan:    Plan{Keys: []Key{KeyRow, KeySchedule}, Counter: NoKey, Source: NoKey, Member: NoKey},
		Results: []Result{ResultScheduled, ResultDuplicate},
		decide:  decideSchedule,
	},
	Extend: {
		Name:       "EMQ.EXTEND",
		Summary:    "Gives a held job's lease a new deadline, counted from now.",
		Complexity: "O(log(N)) with N the number of active jobs.",
		Flags:      "write fast getkeys-api",
		Categories: "emq write fast",
		Args: []Arg{
			{Name: "numkeys", Role: RoleNumkeys},
			{Name: "active", Role: RoleKey, Key: KeyActive, Access: AccessRW | AccessUpdate},
			{Name: "row", Role: RoleKey, Key: KeyRow, Access: AccessRW | AccessUpdate},
			{Name: "id", Role: RoleID},
			{Name: "token", Role: RoleToken},
			{Name: "lease_ms", Role: RoleNumber, Range: between(1, lease.MaxMillis)},
		},
		Plan: Plan{
			Keys:    []Key{KeyRow, KeyActive},
			Values:  []Field{FieldState, FieldAttempts, FieldGroup, FieldParent},
			Late:    []Field{FieldLeaseEpoch},
			Counter: NoKey,
			Source:  NoKey,
			Member:  KeyActive,
		},
		Results: []Result{ResultExtended, ResultGone, ResultStale, ResultScript},
		decide:  decideExtend,
	},
	Promote: {
		Name:       "EMQ.PROMOTE",
		Summary:    "Moves the scheduled jobs that are due to pending.",
		Complexity: "O(M*log(N)) with N the number of jobs and M, at most 10000, the number of due entries looked at.",
		Flags:      "write getkeys-api",
		Categories: "emq write slow",
		Tips:       "nondeterministic_output",
		Args: []Arg{
			{Name: "numkeys", Role: RoleNumkeys},
			{Name: "schedule", Role: RoleKey, Key: KeySchedule, Access: AccessRW | AccessDelete},
			{Name: "pending", Role: RoleKey, Key: KeyPending, Access: AccessRW | AccessInsert},
			{Name: "base", Role: RoleBase},
			{Name: "limit", Role: RoleNumber, Range: between(1, maxLooked)},
		},
		Plan: Plan{
			Keys:    []Key{KeySchedule, KeyPending},
			Values:  []Field{FieldState, FieldGroup},
			Counter: NoKey,
			Source:  KeySchedule,
			Due:     true,
			Member:  NoKey,
		},
		Results: []Result{ResultPromoted, ResultEmpty},
		Fates:   [NumFates]string{Returned: jobsPromoted, Dropped: entriesDropped, Left: entriesLeft},
		decide:  decidePromote,
	},
	Reap: {
		Name:       "EMQ.REAP",
		Summary:    "Takes back the leases that have expired: to pending, or to the dead letters at the cap on lost leases.",
		Complexity: "O(M*log(N)) with N the number of jobs and M, at most 10000, the number of expired entries looked at.",
		Flags:      "write getkeys-api",
		Categories: "emq write slow",
		Tips:       "nondeterministic_output",
		Args: []Arg{
			{Name: "numkeys", Role: RoleNumkeys},
			{Name: "active", Role: RoleKey, Key: KeyActive, Access: AccessRW | AccessRead | AccessDelete},
			{Name: "pending", Role: RoleKey, Key: KeyPending, Access: AccessRW | AccessInsert},
			{Name: "dead", Role: RoleKey, Key: KeyDead, Access: AccessRW | AccessInsert},
			{Name: "base", Role: RoleBase},
			{Name: "max_stalled", Role: RoleNumber, Range: between(0, lease.MaxAttempts)},
			{Name: "limit", Role: RoleNumber, Range: between(1, maxLooked)},
		},
		Plan: Plan{
			Keys:    []Key{KeyActive, KeyPending, KeyDead, KeyFailed},
			Values:  []Field{FieldState, FieldLeaseEpoch, FieldStalled, FieldGroup, FieldParent},
			Counter: KeyFailed,
			Source:  KeyActive,
			Due:     true,
			Member:  NoKey,
		},
		Results: []Result{ResultReaped, ResultEmpty},
		Fates:   [NumFates]string{Returned: leasesReturned, Stalled: leasesStalled, Buried: jobsBuried, Dropped: entriesDropped, Left: entriesLeft},
		decide:  decideReap,
	},
	Stats: {
		Name:       "EMQ.STATS",
		Summary:    "Tells how many jobs of a queue are in which state, and the next times that matter.",
		Complexity: "O(log(N)) with N the number of jobs.",
		Flags:      "readonly fast getkeys-api",
		Categories: "emq read fast",
		Tips:       "nondeterministic_output",
		Args:       []Arg{{Name: "base", Role: RoleBase, Access: AccessRO | AccessRead}},
		Plan:       Plan{Keys: statsKeys, Counter: NoKey, Source: NoKey, Member: NoKey, Figures: true},
		Fields:     statsFields,
		Results:    []Result{ResultTold},
		decide:     decideStats,
	},
	Audit: {
		Name:    "EMQ.AUDIT",
		Summary: "Looks through a queue, a part in each call, for jobs that are not where their rows say, and puts them right if asked to.",
		Complexity: "O(M*log(N)) with N the number of jobs and M about count, or the size of a set that is in a compact " +
			"encoding; the rows are found among all keys of the database.",
		Flags:      "write getkeys-api",
		Categories: "emq write slow",
		Tips:       "nondeterministic_output",
		Args: []Arg{
			{Name: "base", Role: RoleBase, Access: AccessRW | AccessRead | AccessUpdate},
			{Name: "cursor", Role: RoleCursor},
			{Name: "count", Role: RoleNumber, Range: between(1, maxCount)},
			{Name: "fix", Role: RoleOption, Words: [2]string{tokenFix}},
		},
		Plan: Plan{
			Keys:    []Key{KeyPending, KeyActive, KeySchedule, KeyDead},
			Values:  []Field{FieldState, FieldAttempts, FieldLeaseEpoch, FieldGroup},
			Counter: NoKey,
			Source:  NoKey,
			Member:  NoKey,
			Scans:   true,
		},
		Results: []Result{ResultClean, ResultFound},
		Fates:   [NumFates]string{Reported: findingsLeft, Repaired: findingsFixed},
		decide:  decideAudit,
	},
}

// The parts of a command that its arguments imply.
func init() {
	for v := range Table {
		c := &Table[v]
		c.Since = Version
		keys, hasNumkeys := 0, false
		for i, a := range c.Args {
			if p, ok := placeOf(i+1, &a); ok {
				c.places = append(c.places, p)
			}
			switch a.Role {
			case RoleNumkeys:
				hasNumkeys = true
			case RoleKey:
				keys++
			case RoleID:
				c.id = i + 1
			case RoleWord:
				c.word = i + 1
			case RoleOption:
				c.option = i + 1
			case RoleCursor:
				c.cursor = i + 1
			case RoleNumber:
				c.numbers = append(c.numbers, i+1)
			}
		}
		if hasNumkeys {
			c.numkeys = strconv.Itoa(keys)
		}
		c.addRefusals()
	}
}

// The names of what becomes of entries, as INFO has them: of the verbs', and of the pump's.
const (
	jobsPromoted   = "jobs_promoted"
	leasesReturned = "leases_returned"
	leasesStalled  = "leases_stalled"
	jobsBuried     = "jobs_buried"
	entriesDropped = "entries_dropped"
	entriesLeft    = "entries_left"
	findingsLeft   = "findings_left"
	findingsFixed  = "findings_fixed"
)

// addRefusals adds those that any verb with such arguments can meet.
func (c *Command) addRefusals() {
	if c.numkeys != "" || c.cursor > 0 {
		c.Results = append(c.Results, ResultArgument)
	}
	if c.id > 0 {
		c.Results = append(c.Results, ResultKind)
	}
	if !c.ReadOnly() {
		c.Results = append(c.Results, ResultReplica)
	}
	c.Results = append(c.Results, ResultKey, ResultFence, ResultType, ResultInternal)
}
