package commands

import "strings"

// Result is the result of a call of a verb, by which INFO emq counts it.
type Result uint8

// The results of calls that were executed, and after them those of calls that were refused.
const (
	NoResult Result = iota
	ResultEnqueued
	ResultScheduled
	ResultDuplicate
	ResultClaimed
	ResultEmpty
	ResultCompleted
	ResultDead
	ResultExtended
	ResultGone
	ResultPromoted
	ResultReaped
	ResultOK
	ResultClean
	ResultFound
	ResultReleased
	ResultRequeued
	ResultRemoved
	ResultPaused
	ResultResumed
	ResultNotPaused
	ResultLimited
	ResultTimedOut
	ResultWokenIdle
	ResultArgument
	ResultKind
	ResultKey
	ResultReplica
	ResultFence
	ResultType
	ResultScript
	ResultStale
	ResultInternal
	NumResults
)

// Results has each result's name in INFO, and its meaning.
var Results = [NumResults]struct{ Name, When string }{
	ResultEnqueued:  {"enqueued", "the job was created and is pending"},
	ResultScheduled: {"scheduled", "the job waits for its time, created by SCHEDULE or given back by FAIL"},
	ResultDuplicate: {"duplicate", "the row was there already: nothing changed"},
	ResultClaimed:   {"claimed", "a job was handed out"},
	ResultEmpty:     {"empty", "there was nothing to hand out, a gate was shut, nothing was due or nothing had expired"},
	ResultCompleted: {"completed", "the job was settled as done"},
	ResultDead:      {"dead", "the job failed for the last time"},
	ResultExtended:  {"extended", "the lease got a new deadline"},
	ResultGone:      {"gone", "there was no such job, whether the verb says so with a number or with `EMQSTALE job gone`"},
	ResultPromoted:  {"promoted", "at least one job was moved to pending"},
	ResultReaped:    {"reaped", "at least one lease was taken back"},
	ResultOK:        {"ok", "the figures or the list were answered"},
	ResultClean:     {"clean", "nothing was found wrong"},
	ResultFound:     {"found", "something was found wrong, repaired or not"},
	ResultReleased:  {"released", "the job was given back, uncounted"},
	ResultRequeued:  {"requeued", "the job was moved to pending"},
	ResultRemoved:   {"removed", "the job was removed"},
	ResultPaused:    {"paused", "the queue is paused"},
	ResultResumed:   {"resumed", "the queue's pause was ended"},
	ResultNotPaused: {"not_paused", "the queue was not paused"},
	ResultLimited:   {"limited", "the queue's limits were set"},
	ResultTimedOut:  {"timed_out", "it waited in vain until its timeout, or CLIENT UNBLOCK"},
	ResultWokenIdle: {"woken_idle", "a waiting call was woken and found no job; it waits on, so this is no end of a call"},
	ResultArgument:  {"argument", "`ERR`: numkeys, a keyword, a number or a cursor was wrong"},
	ResultKind:      {"kind", "`EMQKIND`"},
	ResultKey:       {"key", "`EMQKEY`"},
	ResultReplica:   {"readonly", "`READONLY` of the module's; a replica that is not writable refuses before"},
	ResultFence:     {"fence", "`EMQFENCE`"},
	ResultType:      {"type", "`WRONGTYPE`"},
	ResultScript:    {"script", "`EMQSCRIPT`"},
	ResultStale:     {"stale", "`EMQSTALE … token mismatch`"},
	ResultInternal:  {"internal", "`ERR`: a fault in the module, or a server on which AUDIT can't scan"},
}

// resultOf is the result of each refusal.
var resultOf = [NumRefusals]Result{
	RefusedNumkeys:  ResultArgument,
	RefusedKind:     ResultKind,
	RefusedKey:      ResultKey,
	RefusedLength:   ResultArgument,
	RefusedWord:     ResultArgument,
	RefusedNumber:   ResultArgument,
	RefusedCursor:   ResultArgument,
	RefusedRate:     ResultArgument,
	RefusedPayload:  ResultArgument,
	RefusedReplica:  ResultReplica,
	RefusedFence:    ResultFence,
	RefusedType:     ResultType,
	RefusedGone:     ResultGone,
	RefusedScript:   ResultScript,
	RefusedToken:    ResultStale,
	RefusedInternal: ResultInternal,
}

// HostResults are the results of the refusals that the host finds.
var HostResults = [NumHostTexts]Result{
	HostPanicked:  ResultInternal,
	HostUnclaimed: ResultFence,
	HostForked:    ResultInternal,
	HostUnscanned: ResultInternal,
}

// InfoName is the name of one of the verb's counters in INFO, without the module's prefix.
func (v *Command) InfoName(what string) string {
	_, verb, _ := strings.Cut(v.Name, ".")
	return strings.ToLower(verb) + "_" + what
}
