package commands

import (
	"strconv"
	"strings"

	"emq/lease"
)

// Version is this module's own version, as major, minor and patch. It is not the wire's: that is fence.Identity.
const Version = "0.2.0"

// Category is the verbs' own ACL category.
const Category = "emq"

// Verb is the number of a verb, its index in Table.
type Verb uint8

// The core verbs (WIRE6 §4), and those that were added later (§6, §7).
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
	Menqueue
	Mschedule
	Mclaim
	Mcomplete
	Mextend
	Mfail
	Bclaim
	Release
	Requeue
	Remove
	Pause
	Resume
	Limit
	Queues
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
	// RoleToken: a fencing token.
	RoleToken
	// RolePayload and RoleError: opaque bytes, which no decision looks at.
	RolePayload
	RoleError
	// RoleAfter: any bytes; the reply lists what follows them.
	RoleAfter
	// The rest are integers in Arg.Range: a lease, a delay and a due time in ms; the caps on failures and on lost
	// leases; how many entries a sweep takes, and how many a scan or a claim is asked for; how long, in ms, to wait and
	// to pause; and the limits of a queue.
	RoleLease
	RoleDelay
	RoleDue
	RoleMax
	RoleMaxStalled
	RoleLimit
	RoleCount
	RoleTimeout
	RolePause
	RoleConcurrency
	RoleRateMax
	RoleRateDuration
	NumRoles
)

// IsNumber reports whether an argument of this role is an integer.
func (r Role) IsNumber() bool { return r >= RoleLease }

// IsOpaque reports whether no decision looks at an argument of this role.
func (r Role) IsOpaque() bool { return r == RolePayload || r == RoleError || r == RoleAfter }

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

// maxCount bounds the argument count; maxListText is MaxList, and maxQueuesText is maxQueues.
const (
	maxCount      = 1000
	maxListText   = "1000"
	maxQueuesText = "100"
)

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
	Key    Key      // of RoleKey
	Access Access   // of RoleKey, and of a base that is declared as a key itself
	Range  Range    // of a number
	Words  []string // of RoleWord and RoleOption
}

// Command describes a verb. Registration, COMMAND DOCS, the checks and the docs derive from it.
type Command struct {
	// The fields that every decision uses come first, so that they share cache lines.
	digit      byte            // of numkeys, 0 if there is none
	at         [NumRoles]uint8 // the index in Call.Args of a role's argument (in a list, the first job's); 0 if there is none
	listAt     int             // where the list begins, 0 if there is none
	particular bool            // checkParticulars has something to check
	places     []place
	numbers    []int // indexes of the numbers

	// admit makes the checks of the whole call that follow those of the arguments: the fence, and the types of keys. If it
	// returns false, it has refused or replied.
	admit func(*Command, *Call, *Outcome) bool
	// decide decides on one job: NextFinish ends the call, NextMore continues with the next job.
	decide func(*Command, *Call, *Job, *Outcome) Next
	Plan   Plan

	Name       string
	Summary    string
	Complexity string
	Since      string
	// Flags are the server's command flags; all verbs answer getkeys as well.
	Flags string
	// Categories are the ACL categories. The server does not derive any from the flags.
	Categories string
	// Tips are hints for clients and proxies.
	Tips string
	// Args are the arguments in their order, the verb's name left out.
	Args []Arg
	// List are the arguments of one job of a list. They follow Args and are repeated for each job.
	List []Arg
	// Fields are the names of the numbers of ReplyNumbers.
	Fields []string
	// Results are the results of the verb that INFO counts, to which init adds the refusals that follow from the arguments.
	// Dispositions are the names in INFO of what can become of an entry.
	Results      []Result
	Dispositions [NumDispositions]string

	// empty replies for a queue that has no job to hand out.
	empty func(*Outcome)
	// checkMore makes a further check of the arguments, after all others; nil for most verbs.
	checkMore func(*Command, *Call, *Outcome) bool
	// finish replies when there are no more jobs; want says how many to read while there may be more.
	finish func(*Command, *Call, *Outcome)
	want   func(*Command, *Call, *Outcome) int32

	numkeys     string
	listNumbers []int // indexes of the numbers of a list's first job
	worded      bool  // there is a keyword, an option or a cursor
}

// Arity is the number of arguments, the verb's name included; negative, by the server's convention, if there may be more.
func (v *Command) Arity() int {
	if v.List != nil {
		return -(len(v.Args) + len(v.List) + 1)
	}
	if v.at[RoleOption] > 0 {
		return -len(v.Args)
	}
	return len(v.Args) + 1
}

// ReadOnly reports whether the verb writes nothing, so that replicas run it too.
func (v *Command) ReadOnly() bool { return strings.HasPrefix(v.Flags, "readonly") }

// Numkeys is the required value of the argument numkeys; empty if the verb has no such argument.
func (v *Command) Numkeys() string { return v.numkeys }

// At is the index of a role's argument, where the verb's name has index 0; 0 if there is none.
func (v *Command) At(r Role) int { return int(v.at[r]) }

// arg is the argument of a role, or the empty string if it was left out.
func (v *Command) arg(c *Call, r Role) string {
	if i := v.At(r); i < len(c.Args) {
		return c.Args[i]
	}
	return ""
}

// number is the value of a role's argument that is a number, as check has parsed it.
func (v *Command) number(o *Outcome, r Role) int64 { return o.given[v.at[r]] }

// of is a role's argument for one job of a list.
func (v *Command) of(c *Call, j *Job, r Role) string { return c.Args[v.At(r)+int(j.Shift)] }

// numberOf is the value of a role's argument for one job of a list.
func (v *Command) numberOf(c *Call, j *Job, r Role) int64 {
	n, _ := lease.Decimal(v.of(c, j, r))
	return n
}

// argument is the value of a field that is set to the job's argument of a role, as sent.
func (v *Command) argument(j *Job, r Role) Value {
	return Value{ValueArg, int64(v.at[r]) + int64(j.Shift)}
}

// isListed reports whether an argument belongs to a list.
func (v *Command) isListed(at int) bool { return v.List != nil && at >= v.listAt }

// listed is the number of jobs that a call lists.
func (v *Command) listed(c *Call) int {
	if v.List == nil {
		return 0
	}
	return (len(c.Args) - v.listAt) / len(v.List)
}

// argAt is the description of an argument, by its index.
func (v *Command) argAt(at int) *Arg {
	if v.isListed(at) {
		return &v.List[(at-v.listAt)%len(v.List)]
	}
	return &v.Args[at-1]
}

// Table describes each verb: its arguments, what is read for it, and how it is decided.
var Table = [NumVerbs]Command{
	Enqueue: {
		Name:       "EMQ.ENQUEUE",
		Since:      "0.1.0",
		Summary:    "Puts a new job into a queue, in the order of its id; a job that exists already is left alone.",
		Complexity: "O(log(N)) with N the number of pending jobs.",
		Flags:      "write deny-oom fast getkeys-api",
		Categories: "emq write fast",
		Args: []Arg{
			{Name: "numkeys", Role: RoleNumkeys},
			{Name: "row", Role: RoleKey, Key: KeyRow, Access: AccessRW | AccessInsert},
			{Name: "pending", Role: RoleKey, Key: KeyPending, Access: AccessRW | AccessInsert},
			{Name: "id", Role: RoleID},
			{Name: "payload", Role: RolePayload},
		},
		Plan:    Plan{Keys: []Key{KeyPending}, Jobs: NamedJob, Walk: NoKey, Member: NoKey},
		Results: []Result{ResultEnqueued, ResultDuplicate},
		admit:   (*Command).admitEnqueue,
		decide:  (*Command).decideEnqueue,
	},
	Claim: {
		Name:       "EMQ.CLAIM",
		Since:      "0.1.0",
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
			{Name: "lease_ms", Role: RoleLease, Range: between(1, lease.MaxMillis)},
		},
		Plan: Plan{
			Keys:   []Key{KeyPending, KeyActive, KeyMeta},
			Jobs:   WalkedJobs,
			Walk:   KeyPending,
			Values: []Field{FieldState, FieldAttempts, FieldPayload},
			Probes: gateProbes,
			Member: NoKey,
			Gated:  true,
		},
		Results:      []Result{ResultClaimed, ResultEmpty},
		Dispositions: [NumDispositions]string{Dropped: entriesDropped, Buried: jobsBuried},
		admit:        (*Command).admitClaim,
		empty:        answerEmpty,
		decide:       (*Command).decideClaim,
		finish:       (*Command).finishClaim,
		want:         (*Command).wantOne,
	},
	Complete: {
		Name:       "EMQ.COMPLETE",
		Since:      "0.1.0",
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
			Keys:   []Key{KeyActive, KeyPending, KeyCompleted},
			Jobs:   NamedJob,
			Walk:   NoKey,
			Values: []Field{FieldState, FieldAttempts, FieldGroup, FieldParent},
			Late:   []Field{FieldLeaseEpoch},
			Probes: []Probe{{Key: KeyCompleted, Field: FieldCount}},
			Member: NoKey,
		},
		Results: []Result{ResultCompleted, ResultGone, ResultStale, ResultScript},
		admit:   (*Command).admitComplete,
		decide:  (*Command).decideComplete,
	},
	Fail: {
		Name:       "EMQ.FAIL",
		Since:      "0.1.0",
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
			{Name: "delay_ms", Role: RoleDelay, Range: between(0, lease.MaxMillis)},
			{Name: "max", Role: RoleMax, Range: between(1, lease.MaxAttempts)},
			{Name: "error", Role: RoleError},
			{Name: "base", Role: RoleBase},
		},
		Plan: Plan{
			Keys:       []Key{KeyActive, KeyPending, KeySchedule, KeyDead},
			Jobs:       NamedJob,
			Walk:       NoKey,
			Values:     []Field{FieldState, FieldAttempts, FieldFailures, FieldGroup, FieldParent},
			Late:       []Field{FieldLeaseEpoch},
			Probes:     []Probe{{Key: KeyFailed, Field: FieldCount}},
			LateProbes: true,
			Member:     NoKey,
		},
		Results: []Result{ResultScheduled, ResultDead, ResultGone, ResultStale, ResultScript},
		admit:   (*Command).admitFail,
		decide:  (*Command).decideFail,
	},
	Schedule: {
		Name:       "EMQ.SCHEDULE",
		Since:      "0.1.0",
		Summary:    "Puts a new job into a queue for later; a job that exists already is left alone.",
		Complexity: "O(log(N)) with N the number of scheduled jobs.",
		Flags:      "write deny-oom fast getkeys-api",
		Categories: "emq write fast",
		Args: []Arg{
			{Name: "numkeys", Role: RoleNumkeys},
			{Name: "row", Role: RoleKey, Key: KeyRow, Access: AccessRW | AccessInsert},
			{Name: "schedule", Role: RoleKey, Key: KeySchedule, Access: AccessRW | AccessInsert},
			{Name: "id", Role: RoleID},
			{Name: "payload", Role: RolePayload},
			{Name: "mode", Role: RoleWord, Words: []string{scheduleAt, scheduleIn}},
			{Name: "ms", Role: RoleDue, Range: between(0, lease.MaxMillis)},
		},
		Plan:    Plan{Keys: []Key{KeySchedule}, Jobs: NamedJob, Walk: NoKey, Member: NoKey},
		Results: []Result{ResultScheduled, ResultDuplicate},
		admit:   (*Command).admitSchedule,
		decide:  (*Command).decideSchedule,
	},
	Extend: {
		Name:       "EMQ.EXTEND",
		Since:      "0.1.0",
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
			{Name: "lease_ms", Role: RoleLease, Range: between(1, lease.MaxMillis)},
		},
		Plan: Plan{
			Keys:   []Key{KeyActive},
			Jobs:   NamedJob,
			Walk:   NoKey,
			Values: []Field{FieldState, FieldAttempts, FieldGroup, FieldParent},
			Late:   []Field{FieldLeaseEpoch},
			Member: KeyActive,
		},
		Results: []Result{ResultExtended, ResultGone, ResultStale, ResultScript},
		admit:   (*Command).admitExtend,
		decide:  (*Command).decideExtend,
	},
	Promote: {
		Name:       "EMQ.PROMOTE",
		Since:      "0.1.0",
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
			{Name: "limit", Role: RoleLimit, Range: between(1, maxLooked)},
		},
		Plan: Plan{
			Keys:   []Key{KeySchedule, KeyPending},
			Jobs:   WalkedJobs,
			Walk:   KeySchedule,
			Due:    true,
			Values: []Field{FieldState, FieldGroup},
			Member: NoKey,
		},
		Results:      []Result{ResultPromoted, ResultEmpty},
		Dispositions: [NumDispositions]string{Returned: jobsPromoted, Dropped: entriesDropped, Left: entriesLeft},
		admit:        (*Command).admitPromote,
		decide:       (*Command).decidePromote,
		finish:       (*Command).finishPromote,
		want:         (*Command).wantSwept,
	},
	Reap: {
		Name:       "EMQ.REAP",
		Since:      "0.1.0",
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
			{Name: "max_stalled", Role: RoleMaxStalled, Range: between(0, lease.MaxAttempts)},
			{Name: "limit", Role: RoleLimit, Range: between(1, maxLooked)},
		},
		Plan: Plan{
			Keys:   []Key{KeyActive, KeyPending, KeyDead, KeyFailed},
			Jobs:   WalkedJobs,
			Walk:   KeyActive,
			Due:    true,
			Values: []Field{FieldState, FieldLeaseEpoch, FieldStalled, FieldGroup, FieldParent},
			Probes: []Probe{{Key: KeyFailed, Field: FieldCount}},
			Member: NoKey,
		},
		Results:      []Result{ResultReaped, ResultEmpty},
		Dispositions: [NumDispositions]string{Returned: leasesReturned, Stalled: leasesStalled, Buried: jobsBuried, Dropped: entriesDropped, Left: entriesLeft},
		admit:        (*Command).admitReap,
		decide:       (*Command).decideReap,
		finish:       (*Command).finishReap,
		want:         (*Command).wantSwept,
	},
	Stats: {
		Name:       "EMQ.STATS",
		Since:      "0.1.0",
		Summary:    "Tells how many jobs of a queue are in which state, and the next times that matter.",
		Complexity: "O(log(N)) with N the number of jobs.",
		Flags:      "readonly fast getkeys-api",
		Categories: "emq read fast",
		Tips:       "nondeterministic_output",
		Args:       []Arg{{Name: "base", Role: RoleBase, Access: AccessRO | AccessRead}},
		Plan: Plan{
			Keys:    []Key{KeyPending, KeyActive, KeySchedule, KeyDead, KeyCompleted, KeyFailed, KeyMeta},
			Walk:    NoKey,
			Probes:  append([]Probe{probeCompleted: {Key: KeyCompleted, Field: FieldCount}, probeFailed: {Key: KeyFailed, Field: FieldCount}}, gateProbes...),
			Member:  NoKey,
			Figures: true,
		},
		Fields:  statsFields,
		Results: []Result{ResultOK},
		admit:   (*Command).admitStats,
		finish:  (*Command).finishStats,
	},
	Audit: {
		Name:    "EMQ.AUDIT",
		Since:   "0.1.0",
		Summary: "Looks through a queue, a part in each call, for jobs that are not where their rows say, and puts them right if asked to.",
		Complexity: "O(M*log(N)) with N the number of jobs and M about count, or the size of a set that is in a compact " +
			"encoding; the rows are found among all keys of the database.",
		Flags:      "write getkeys-api",
		Categories: "emq write slow",
		Tips:       "nondeterministic_output",
		Args: []Arg{
			{Name: "base", Role: RoleBase, Access: AccessRW | AccessRead | AccessUpdate},
			{Name: "cursor", Role: RoleCursor},
			{Name: "count", Role: RoleCount, Range: between(1, maxCount)},
			{Name: "fix", Role: RoleOption, Words: []string{tokenFix}},
		},
		Plan: Plan{
			Keys:   []Key{KeyPending, KeyActive, KeySchedule, KeyDead, KeyMeta},
			Jobs:   ScannedJobs,
			Walk:   NoKey,
			Values: []Field{FieldState, FieldAttempts, FieldLeaseEpoch, FieldGroup},
			Probes: gateProbes,
			Member: NoKey,
		},
		Results:      []Result{ResultClean, ResultFound},
		Dispositions: [NumDispositions]string{Reported: findingsLeft, Repaired: findingsFixed},
		admit:        (*Command).admitAudit,
		decide:       (*Command).decideAudit,
		finish:       (*Command).finishAudit,
		want:         (*Command).wantMost,
	},
	Menqueue: {
		Name:       "EMQ.MENQUEUE",
		Since:      "0.2.0",
		Summary:    "Puts new jobs into a queue; those that exist already are left alone.",
		Complexity: "O(M*log(N)) with N the number of pending jobs and M the number of jobs in the call.",
		Flags:      "write deny-oom getkeys-api",
		Categories: "emq write slow",
		Args:       []Arg{{Name: "base", Role: RoleBase, Access: AccessRW | AccessInsert}},
		List:       []Arg{{Name: "id", Role: RoleID}, {Name: "payload", Role: RolePayload}},
		Plan:       Plan{Keys: []Key{KeyPending}, Jobs: ListedJobs, Walk: NoKey, Member: NoKey, Merged: true},
		Results:    []Result{ResultEnqueued, ResultDuplicate},
		admit:      (*Command).admitMenqueue,
		decide:     (*Command).decideMenqueue,
		finish:     (*Command).finishList,
		want:       (*Command).wantMost,
	},
	Mschedule: {
		Name:       "EMQ.MSCHEDULE",
		Since:      "0.2.0",
		Summary:    "Puts new jobs into a queue for later; those that exist already are left alone.",
		Complexity: "O(M*log(N)) with N the number of scheduled jobs and M the number of jobs in the call.",
		Flags:      "write deny-oom getkeys-api",
		Categories: "emq write slow",
		Args: []Arg{
			{Name: "base", Role: RoleBase, Access: AccessRW | AccessInsert},
			{Name: "mode", Role: RoleWord, Words: []string{scheduleAt, scheduleIn}},
		},
		List: []Arg{
			{Name: "id", Role: RoleID},
			{Name: "ms", Role: RoleDue, Range: between(0, lease.MaxMillis)},
			{Name: "payload", Role: RolePayload},
		},
		Plan:    Plan{Keys: []Key{KeySchedule}, Jobs: ListedJobs, Walk: NoKey, Member: NoKey, Merged: true},
		Results: []Result{ResultScheduled, ResultDuplicate},
		admit:   (*Command).admitMschedule,
		decide:  (*Command).decideMschedule,
		finish:  (*Command).finishList,
		want:    (*Command).wantMost,
	},
	Mclaim: {
		Name:       "EMQ.MCLAIM",
		Since:      "0.2.0",
		Summary:    "Takes the first pending jobs under leases, each with the fencing token that its holder must present.",
		Complexity: "O((D+M)*log(N)) with N the number of jobs, M the number of jobs taken and D, at most 100, that of broken entries dropped on the way.",
		Flags:      "write getkeys-api",
		Categories: "emq write slow",
		Tips:       "nondeterministic_output",
		Args: []Arg{
			{Name: "base", Role: RoleBase, Access: AccessRW | AccessRead | AccessUpdate},
			{Name: "lease_ms", Role: RoleLease, Range: between(1, lease.MaxMillis)},
			{Name: "count", Role: RoleCount, Range: between(1, maxCount)},
		},
		Plan: Plan{
			Keys:   []Key{KeyPending, KeyActive, KeyMeta},
			Jobs:   WalkedJobs,
			Walk:   KeyPending,
			Values: []Field{FieldState, FieldAttempts, FieldPayload},
			Probes: gateProbes,
			Member: NoKey,
			Gated:  true,
			Merged: true,
		},
		Results:      []Result{ResultClaimed, ResultEmpty},
		Dispositions: [NumDispositions]string{Dropped: entriesDropped, Buried: jobsBuried},
		admit:        (*Command).admitClaim,
		empty:        answerNoJobs,
		decide:       (*Command).decideMclaim,
		finish:       (*Command).finishMclaim,
		want:         (*Command).wantMclaim,
	},
	Mcomplete: {
		Name:       "EMQ.MCOMPLETE",
		Since:      "0.2.0",
		Summary:    "Settles held jobs as done and removes them.",
		Complexity: "O(M*log(N)) with N the number of active jobs and M the number of jobs in the call and of the fields in their rows.",
		Flags:      "write getkeys-api",
		Categories: "emq write slow",
		Args:       []Arg{{Name: "base", Role: RoleBase, Access: AccessRW | AccessDelete}},
		List:       []Arg{{Name: "id", Role: RoleID}, {Name: "token", Role: RoleToken}},
		Plan: Plan{
			Keys:   []Key{KeyActive, KeyPending, KeyCompleted},
			Jobs:   ListedJobs,
			Walk:   NoKey,
			Values: []Field{FieldState, FieldAttempts, FieldGroup, FieldParent},
			Late:   []Field{FieldLeaseEpoch},
			Probes: []Probe{{Key: KeyCompleted, Field: FieldCount}},
			Member: NoKey,
			Merged: true,
		},
		Results: []Result{ResultCompleted, ResultGone, ResultStale, ResultScript},
		admit:   (*Command).admitMcomplete,
		decide:  (*Command).decideMcomplete,
		finish:  (*Command).finishMcomplete,
		want:    (*Command).wantMost,
	},
	Mextend: {
		Name:       "EMQ.MEXTEND",
		Since:      "0.2.0",
		Summary:    "Gives the leases of held jobs a new deadline, counted from now.",
		Complexity: "O(M*log(N)) with N the number of active jobs and M the number of jobs in the call.",
		Flags:      "write getkeys-api",
		Categories: "emq write slow",
		Args: []Arg{
			{Name: "base", Role: RoleBase, Access: AccessRW | AccessUpdate},
			{Name: "lease_ms", Role: RoleLease, Range: between(1, lease.MaxMillis)},
		},
		List: []Arg{{Name: "id", Role: RoleID}, {Name: "token", Role: RoleToken}},
		Plan: Plan{
			Keys:   []Key{KeyActive},
			Jobs:   ListedJobs,
			Walk:   NoKey,
			Values: []Field{FieldState, FieldAttempts, FieldGroup, FieldParent},
			Late:   []Field{FieldLeaseEpoch},
			Member: KeyActive,
			Merged: true,
		},
		Results: []Result{ResultExtended, ResultGone, ResultStale, ResultScript},
		admit:   (*Command).admitMextend,
		decide:  (*Command).decideMextend,
		finish:  (*Command).finishList,
		want:    (*Command).wantMost,
	},
	Mfail: {
		Name:       "EMQ.MFAIL",
		Since:      "0.2.0",
		Summary:    "Gives held jobs back after failures: to later retries, or to the dead letters at the cap.",
		Complexity: "O(M*log(N)) with N the number of jobs in the sets that are left or entered and M the number of jobs in the call.",
		Flags:      "write getkeys-api",
		Categories: "emq write slow",
		Args: []Arg{
			{Name: "base", Role: RoleBase, Access: AccessRW | AccessUpdate},
			{Name: "max", Role: RoleMax, Range: between(1, lease.MaxAttempts)},
		},
		List: []Arg{
			{Name: "id", Role: RoleID},
			{Name: "token", Role: RoleToken},
			{Name: "delay_ms", Role: RoleDelay, Range: between(0, lease.MaxMillis)},
			{Name: "error", Role: RoleError},
		},
		Plan: Plan{
			Keys:   []Key{KeyActive, KeyPending, KeySchedule, KeyDead, KeyFailed},
			Jobs:   ListedJobs,
			Walk:   NoKey,
			Values: []Field{FieldState, FieldAttempts, FieldFailures, FieldGroup, FieldParent},
			Late:   []Field{FieldLeaseEpoch},
			Probes: []Probe{{Key: KeyFailed, Field: FieldCount}},
			Member: NoKey,
			Merged: true,
		},
		Results: []Result{ResultScheduled, ResultDead, ResultGone, ResultStale, ResultScript},
		admit:   (*Command).admitMfail,
		decide:  (*Command).decideMfail,
		finish:  (*Command).finishMfail,
		want:    (*Command).wantMost,
	},
	Bclaim: {
		Name:    "EMQ.BCLAIM",
		Since:   "0.2.0",
		Summary: "Takes the first pending job of several queues under a lease, and waits if there is none.",
		Complexity: "O((D+Q)*log(N)) with N the number of jobs, Q the number of queues and D, at most 100, that of broken entries dropped " +
			"on the way.",
		Flags:      "write blocking getkeys-api",
		Categories: "emq write slow blocking",
		Tips:       "nondeterministic_output",
		Args: []Arg{
			{Name: "lease_ms", Role: RoleLease, Range: between(1, lease.MaxMillis)},
			{Name: "timeout_ms", Role: RoleTimeout, Range: between(0, lease.MaxMillis)},
		},
		List:    []Arg{{Name: "base", Role: RoleBase, Access: AccessRW | AccessRead | AccessUpdate}},
		Plan:    Plan{Jobs: ListedQueues, Walk: NoKey, Member: NoKey},
		Results: []Result{ResultClaimed, ResultEmpty, ResultTimedOut, ResultWokenIdle},
		admit:   (*Command).admitBclaim,
		decide:  (*Command).decideBclaim,
		finish:  (*Command).finishBclaim,
		want:    (*Command).wantMost,
	},
	Release: {
		Name:       "EMQ.RELEASE",
		Since:      "0.2.0",
		Summary:    "Gives a held job back, uncounted: to be claimed at once, or later.",
		Complexity: "O(log(N)) with N the number of jobs in the set that is left or entered.",
		Flags:      "write fast getkeys-api",
		Categories: "emq write fast",
		Args: []Arg{
			{Name: "base", Role: RoleBase, Access: AccessRW | AccessUpdate},
			{Name: "id", Role: RoleID},
			{Name: "token", Role: RoleToken},
			{Name: "delay_ms", Role: RoleDelay, Range: between(0, lease.MaxMillis)},
		},
		Plan: Plan{
			Keys:   []Key{KeyActive, KeyPending, KeySchedule},
			Jobs:   NamedJob,
			Walk:   NoKey,
			Values: []Field{FieldState, FieldAttempts, FieldGroup, FieldParent},
			Late:   []Field{FieldLeaseEpoch},
			Member: KeyActive,
		},
		Results: []Result{ResultReleased, ResultGone, ResultStale, ResultScript},
		admit:   (*Command).admitRelease,
		decide:  (*Command).decideRelease,
	},
	Requeue: {
		Name:       "EMQ.REQUEUE",
		Since:      "0.2.0",
		Summary:    "Moves dead or scheduled jobs to pending, now; dead ones start afresh.",
		Complexity: "O(M*log(N)) with N the number of jobs in the sets that are left or entered and M the number of jobs in the call.",
		Flags:      "write getkeys-api",
		Categories: "emq write slow",
		Args: []Arg{
			{Name: "base", Role: RoleBase, Access: AccessRW | AccessUpdate},
			{Name: "state", Role: RoleWord, Words: []string{lease.Dead, lease.Scheduled}},
		},
		List:    []Arg{{Name: "id", Role: RoleID}},
		Plan:    operatorPlan,
		Results: []Result{ResultRequeued, ResultGone, ResultScript},
		admit:   (*Command).admitOperator,
		decide:  (*Command).decideRequeue,
		finish:  (*Command).finishList,
		want:    (*Command).wantMost,
	},
	Remove: {
		Name:       "EMQ.REMOVE",
		Since:      "0.2.0",
		Summary:    "Removes jobs of a state, whoever holds them.",
		Complexity: "O(M*log(N)) with N the number of jobs in the sets and M the number of jobs in the call and of the fields in their rows.",
		Flags:      "write getkeys-api",
		Categories: "emq write slow",
		Args: []Arg{
			{Name: "base", Role: RoleBase, Access: AccessRW | AccessDelete},
			{Name: "state", Role: RoleWord, Words: []string{lease.Pending, lease.Active, lease.Scheduled, lease.Dead, stateAny}},
		},
		List:    []Arg{{Name: "id", Role: RoleID}},
		Plan:    operatorPlan,
		Results: []Result{ResultRemoved, ResultGone, ResultScript},
		admit:   (*Command).admitOperator,
		decide:  (*Command).decideRemove,
		finish:  (*Command).finishList,
		want:    (*Command).wantMost,
	},
	Pause: {
		Name:       "EMQ.PAUSE",
		Since:      "0.2.0",
		Summary:    "Holds all claims of a queue back, for a time or until RESUME.",
		Complexity: "O(1)",
		Flags:      "write fast getkeys-api",
		Categories: "emq write fast",
		Args: []Arg{
			{Name: "base", Role: RoleBase, Access: AccessRW | AccessUpdate},
			{Name: "ms", Role: RolePause, Range: between(0, lease.MaxMillis)},
		},
		Plan:    gatePlan,
		Results: []Result{ResultPaused},
		admit:   (*Command).admitGate,
		finish:  (*Command).finishPause,
	},
	Resume: {
		Name:       "EMQ.RESUME",
		Since:      "0.2.0",
		Summary:    "Ends the pause of a queue.",
		Complexity: "O(1)",
		Flags:      "write fast getkeys-api",
		Categories: "emq write fast",
		Args:       []Arg{{Name: "base", Role: RoleBase, Access: AccessRW | AccessUpdate}},
		Plan:       gatePlan,
		Results:    []Result{ResultResumed, ResultNotPaused},
		admit:      (*Command).admitGate,
		finish:     (*Command).finishResume,
	},
	Limit: {
		Name:       "EMQ.LIMIT",
		Since:      "0.2.0",
		Summary:    "Limits how many jobs of a queue are active at a time, and how many are handed out in a window of time.",
		Complexity: "O(1)",
		Flags:      "write fast getkeys-api",
		Categories: "emq write fast",
		Args: []Arg{
			{Name: "base", Role: RoleBase, Access: AccessRW | AccessUpdate},
			{Name: "concurrency", Role: RoleConcurrency, Range: between(0, lease.MaxAttempts)},
			{Name: "max", Role: RoleRateMax, Range: between(0, lease.MaxAttempts)},
			{Name: "duration_ms", Role: RoleRateDuration, Range: between(0, lease.MaxMillis)},
		},
		Plan:      gatePlan,
		Results:   []Result{ResultLimited},
		admit:     (*Command).admitGate,
		checkMore: (*Command).checkLimit,
		finish:    (*Command).finishLimit,
	},
	Queues: {
		Name:       "EMQ.QUEUES",
		Since:      "0.2.0",
		Summary:    "Lists the queues of the selected database that the caller may read, a part in each call, in the order of their bases.",
		Complexity: "O(log(N)+M) with N the number of queues and M the number that is walked.",
		Flags:      "readonly",
		Categories: "emq read slow",
		Tips:       "nondeterministic_output",
		Args: []Arg{
			{Name: "after", Role: RoleAfter},
			{Name: "count", Role: RoleCount, Range: between(1, maxCount)},
		},
		Plan:    Plan{Walk: NoKey, Member: NoKey},
		Results: []Result{ResultOK},
		admit:   (*Command).admitQueues,
		finish:  (*Command).finishQueues,
	},
}

// init fills in what the arguments of each command imply.
func init() {
	for i := range Table {
		v := &Table[i]
		keys := 0
		for i, a := range v.Args {
			if a.Role == RoleKey || a.Role == RoleRowPrefix || a.Role == RoleBase {
				v.places = append(v.places, place{i + 1, a.Role, a.Key})
			}
			if a.Role == RoleKey {
				keys++
			}
			if a.Role.IsNumber() {
				v.numbers = append(v.numbers, i+1)
			}
			v.at[a.Role] = uint8(i + 1)
		}
		if v.List != nil {
			v.listAt = len(v.Args) + 1
		}
		for i, a := range v.List {
			if a.Role.IsNumber() {
				v.listNumbers = append(v.listNumbers, v.listAt+i)
			}
			v.at[a.Role] = uint8(v.listAt + i)
		}
		v.worded = v.at[RoleWord]+v.at[RoleOption]+v.at[RoleCursor] > 0
		v.particular = v.worded || v.List != nil || v.checkMore != nil
		if v.at[RoleNumkeys] > 0 {
			v.numkeys = strconv.Itoa(keys)
			v.digit = v.numkeys[0]
		}
		v.addRefusals()
	}
}

// The number of further jobs that a verb wants to read.
func (v *Command) wantOne(*Call, *Outcome) int32  { return 1 }
func (v *Command) wantMost(*Call, *Outcome) int32 { return Window }

func (v *Command) wantSwept(c *Call, o *Outcome) int32 {
	return int32(min(Window, v.remaining(c, o, o.Done)))
}

// The names of dispositions in INFO, of the verbs and of the pump.
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

// addRefusals adds the refusals that any verb with such arguments can have.
func (v *Command) addRefusals() {
	if v.numkeys != "" || v.worded || v.List != nil || len(v.numbers) > 0 {
		v.Results = append(v.Results, ResultArgument)
	}
	if v.at[RoleID] > 0 {
		v.Results = append(v.Results, ResultKind)
	}
	if !v.ReadOnly() {
		v.Results = append(v.Results, ResultReplica)
	}
	if len(v.places) > 0 || v.Plan.Jobs == ListedQueues {
		v.Results = append(v.Results, ResultKey, ResultType)
	}
	v.Results = append(v.Results, ResultFence, ResultInternal)
}
