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
// It counts all entries, including those that a verb would drop.

// The figures, in the order of the reply.
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

// Figures are what the host reads about a whole queue for STATS. The C mirror is emq_figures.
type Figures struct {
	// Sizes are the numbers of entries of the sorted sets.
	Sizes [NumKeys]int64
	// Next are the lowest scores of the sorted sets that have entries.
	Next [NumKeys]float64
	// Waiting is the number of clients of this server that wait for a job of the queue.
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

// admitStats also passes on an unclaimed store if the queue has no keys, because clients may wait for its first job.
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

// some replaces 0, which means that there is no value, by null.
func some(n int64) int64 {
	if n == 0 {
		return NoNumber
	}
	return n
}

// age is how long ago, in ms, a job was made, if its id contains that time. If the id is from a clock ahead of the server's,
// the age is 0.
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

// counted is the value of a counter; a missing or broken one counts as 0.
func (c *Call) counted(probe int) int64 {
	const full = "9223372036854775807" // it can't be incremented
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
