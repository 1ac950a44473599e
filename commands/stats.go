package commands

import "math"

// EMQ.STATS base
//
//	Keys     pending, active, schedule, dead; both counters
//	Reply    the figures of statsFields, each an integer or null
//	Effects  none; nothing expires, nothing counts as looked at
//	Refuses  EMQKEY, EMQFENCE, WRONGTYPE
//	See      WIRE6 §2, §3
//
// It tells what is there: entries that a verb would drop count as well.

// What STATS tells, in the order of the reply.
const (
	statPending = iota
	statActive
	statScheduled
	statDead
	statCompleted
	statFailed
	statOldestAge
	statNextDue
	statNextExpiry
	statWaiting
	statPaused
	statPausedUntil
	statConcurrency
	statRateMax
	statRateDuration
	numStats
)

var statsFields = []string{
	statPending:    "pending",
	statActive:     "active",
	statScheduled:  "scheduled",
	statDead:       "dead",
	statCompleted:  "completed",
	statFailed:     "failed",
	statOldestAge:  "oldest_pending_age_ms",
	statNextDue:    "next_due_ms",
	statNextExpiry: "next_expiry_ms",

	statWaiting:      "waiting",
	statPaused:       "paused",
	statPausedUntil:  "paused_until_ms",
	statConcurrency:  "concurrency",
	statRateMax:      "rate_max",
	statRateDuration: "rate_duration_ms",
}

// Figures are what the host reads of a whole queue for STATS. The C mirror is emq_figures.
type Figures struct {
	// Sizes tells how many entries a sorted set has.
	Sizes [NumKeys]int64
	// Next is the lowest score of a sorted set that has entries.
	Next [NumKeys]float64
	// Waiting is how many clients of this server wait for a job of the queue.
	Waiting int64
	// Oldest is the first pending entry, or empty.
	Oldest string
}

var statsSets = []Key{KeyPending, KeyActive, KeySchedule, KeyDead}

// The probes of STATS.
const (
	probeCompleted = iota
	probeFailed
	probeGates // the first of gateProbes
)

// admitStats goes on where there is nothing of the queue on an unclaimed store: clients may wait for its first job.
func (v *Command) admitStats(c *Call, o *Outcome) bool {
	ours := c.admit(o, func(*Outcome) {}, KeyPending, KeyActive, KeySchedule, KeyDead, KeyCompleted, KeyFailed, KeyMeta)
	return (ours || o.TextLen == 0) && c.typed(o, statsSets...)
}

func (v *Command) finishStats(c *Call, o *Outcome) {
	f, g := c.Figures, c.gates(probeGates)
	o.Numbers = [MaxNumbers]int64{
		statPending:    f.Sizes[KeyPending],
		statActive:     f.Sizes[KeyActive],
		statScheduled:  f.Sizes[KeySchedule],
		statDead:       f.Sizes[KeyDead],
		statCompleted:  c.counted(probeCompleted),
		statFailed:     c.counted(probeFailed),
		statOldestAge:  c.age(f.Oldest),
		statNextDue:    f.next(KeySchedule),
		statNextExpiry: f.next(KeyActive),

		statWaiting:      f.Waiting,
		statPausedUntil:  NoNumber,
		statConcurrency:  some(g.concurrency),
		statRateMax:      some(g.max),
		statRateDuration: some(g.duration),
	}
	if g.paused {
		o.Numbers[statPaused], o.Numbers[statPausedUntil] = 1, some(g.until)
	}
	o.answer(ResultOK, ReplyNumbers, numStats)
}

// some is a number, or null if it is 0, which means that there is none.
func some(n int64) int64 {
	if n == 0 {
		return NoNumber
	}
	return n
}

// age is how long ago, in ms, a job was made, if its id tells; one from a clock that is ahead of the server's is new.
func (c *Call) age(id string) int64 {
	at, ok := minted(id)
	if !ok {
		return NoNumber
	}
	return max(0, c.Now-at)
}

// next is the lowest score of a set as a time, rounded down.
func (f *Figures) next(set Key) int64 {
	if f.Sizes[set] == 0 {
		return NoNumber
	}
	switch score := math.Floor(f.Next[set]); {
	case score >= math.MaxInt64:
		return math.MaxInt64
	case score <= math.MinInt64:
		return math.MinInt64 + 1
	default:
		return int64(score)
	}
}

// counted is what a counter says; one that is absent or broken says 0.
func (c *Call) counted(probe int) int64 {
	const full = "9223372036854775807" // no 1 can be added to it
	count, _ := c.probe(probe)
	n, ok := counter(count)
	switch {
	case ok:
		return max(n, NoNumber+1)
	case count == full:
		return math.MaxInt64
	default:
		return 0
	}
}
