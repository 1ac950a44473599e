package wire

import (
	"slices"
	"strconv"
	"strings"
)

const (
	// Identity is the key that holds the wire of a store.
	Identity = "{emq}:version"
	// Wire6 is the identity of the native verbs, Wire4 that of the scripts.
	Wire6 = "echomq:6.0.0"
	Wire4 = "echomq:4.0.0"
)

// Queue is a queue's name; its methods make the names of its keys and the verbs on it.
type Queue string

// The names of a queue's keys.

func (q Queue) Base() string            { return "emq:{" + string(q) + "}:" }
func (q Queue) RowPrefix() string       { return q.Base() + "job:" }
func (q Queue) Row(id string) string    { return q.RowPrefix() + id }
func (q Queue) Pending() string         { return q.Base() + "pending" }
func (q Queue) Active() string          { return q.Base() + "active" }
func (q Queue) Schedule() string        { return q.Base() + "schedule" }
func (q Queue) Dead() string            { return q.Base() + "dead" }
func (q Queue) Meta() string            { return q.Base() + "meta" }
func (q Queue) Completed() string       { return q.Base() + "metrics:completed" }
func (q Queue) Failed() string          { return q.Base() + "metrics:failed" }
func (q Queue) Set(state string) string { return q.Base() + SetOf[state] }

// SetOf names, for each state of a row, the set that holds its id.
var SetOf = map[string]string{"pending": "pending", "active": "active", "scheduled": "schedule", "dead": "dead"}

// Split parts a key of a queue into the queue's name and what follows the base.
func Split(key string) (q Queue, rest string, ok bool) {
	rest, ok = strings.CutPrefix(key, "emq:{")
	if !ok {
		return "", "", false
	}
	name, rest, ok := strings.Cut(rest, "}:")
	return Queue(name), rest, ok && name != "" && !strings.ContainsAny(name, "{}\x00")
}

// The verbs. The scripted executor takes the same words and puts the SHA in the verb's place.

func (q Queue) Enqueue(id, payload string) []string {
	return []string{"EMQ.ENQUEUE", "2", q.Row(id), q.Pending(), id, payload}
}

func (q Queue) Claim(lease int64) []string {
	return []string{"EMQ.CLAIM", "2", q.Pending(), q.Active(), q.RowPrefix(), strconv.FormatInt(lease, 10)}
}

func (q Queue) Complete(id, token string) []string {
	return []string{"EMQ.COMPLETE", "2", q.Active(), q.Row(id), id, token, q.Base()}
}

func (q Queue) Fail(id, token string, delay, limit int64, reason string) []string {
	return []string{
		"EMQ.FAIL", "4", q.Active(), q.Schedule(), q.Dead(), q.Row(id), id, token,
		strconv.FormatInt(delay, 10), strconv.FormatInt(limit, 10), reason, q.Base(),
	}
}

// ScheduleAt and ScheduleIn are the two forms of EMQ.SCHEDULE: due at a time in Unix ms, or after a number of ms.
func (q Queue) ScheduleAt(id, payload string, at int64) []string {
	return []string{"EMQ.SCHEDULE", "2", q.Row(id), q.Schedule(), id, payload, "at", strconv.FormatInt(at, 10)}
}

func (q Queue) ScheduleIn(id, payload string, delay int64) []string {
	return With(q.ScheduleAt(id, payload, delay), 6, "in")
}

func (q Queue) Extend(id, token string, lease int64) []string {
	return []string{"EMQ.EXTEND", "2", q.Active(), q.Row(id), id, token, strconv.FormatInt(lease, 10)}
}

func (q Queue) Promote(limit int64) []string {
	return []string{"EMQ.PROMOTE", "2", q.Schedule(), q.Pending(), q.Base(), strconv.FormatInt(limit, 10)}
}

func (q Queue) Reap(maxStalled, limit int64) []string {
	return []string{
		"EMQ.REAP", "3", q.Active(), q.Pending(), q.Dead(), q.Base(),
		strconv.FormatInt(maxStalled, 10), strconv.FormatInt(limit, 10),
	}
}

// Queues is the verb of that name, which is about no single queue.
func Queues(after string, count int) []string {
	return []string{"EMQ.QUEUES", after, strconv.Itoa(count)}
}

// Stats is the verb of that name.
func (q Queue) Stats() []string { return []string{"EMQ.STATS", q.Base()} }

// Audit looks at one part of the queue; Fix also repairs what it finds.
func (q Queue) Audit(cursor string, count int64) []string {
	return []string{"EMQ.AUDIT", q.Base(), cursor, strconv.FormatInt(count, 10)}
}

func (q Queue) Fix(cursor string, count int64) []string {
	return append(q.Audit(cursor, count), "FIX")
}

// The verbs for many jobs. The words of the jobs follow one another as the verb takes them.

func (q Queue) Menqueue(jobs ...string) []string {
	return append([]string{"EMQ.MENQUEUE", q.Base()}, jobs...)
}

// Mschedule schedules at times or after delays, as the mode says.
func (q Queue) Mschedule(mode string, jobs ...string) []string {
	return append([]string{"EMQ.MSCHEDULE", q.Base(), mode}, jobs...)
}

func (q Queue) Mclaim(lease, count int64) []string {
	return []string{"EMQ.MCLAIM", q.Base(), strconv.FormatInt(lease, 10), strconv.FormatInt(count, 10)}
}

func (q Queue) Mcomplete(jobs ...string) []string {
	return append([]string{"EMQ.MCOMPLETE", q.Base()}, jobs...)
}

func (q Queue) Mextend(lease int64, jobs ...string) []string {
	return append([]string{"EMQ.MEXTEND", q.Base(), strconv.FormatInt(lease, 10)}, jobs...)
}

func (q Queue) Mfail(limit int64, jobs ...string) []string {
	return append([]string{"EMQ.MFAIL", q.Base(), strconv.FormatInt(limit, 10)}, jobs...)
}

// Release gives a job back, uncounted; Requeue and Remove are for operators, on jobs in a state.
func (q Queue) Release(id, token string, delay int64) []string {
	return []string{"EMQ.RELEASE", q.Base(), id, token, strconv.FormatInt(delay, 10)}
}

func (q Queue) Requeue(state string, ids ...string) []string {
	return append([]string{"EMQ.REQUEUE", q.Base(), state}, ids...)
}

func (q Queue) Remove(state string, ids ...string) []string {
	return append([]string{"EMQ.REMOVE", q.Base(), state}, ids...)
}

// The gates: a pause, for ms or, with 0, until Resume, and the limits.
func (q Queue) Pause(ms int64) []string {
	return []string{"EMQ.PAUSE", q.Base(), strconv.FormatInt(ms, 10)}
}

func (q Queue) Resume() []string { return []string{"EMQ.RESUME", q.Base()} }

func (q Queue) Limit(concurrency, rate, duration int64) []string {
	return []string{"EMQ.LIMIT", q.Base(), strconv.FormatInt(concurrency, 10), strconv.FormatInt(rate, 10), strconv.FormatInt(duration, 10)}
}

// Move returns the plain commands that take a job from one state to another.
func (q Queue) Move(id, from, to string) [][]string {
	return [][]string{
		{"ZREM", q.Set(from), id},
		{"HSET", q.Row(id), "state", to},
		{"ZADD", q.Set(to), "0", id},
	}
}

// BClaim waits for a job from several queues, in their order; timeout 0 means for ever.
func BClaim(lease, timeout int64, queues ...Queue) []string {
	args := []string{"EMQ.BCLAIM", strconv.FormatInt(lease, 10), strconv.FormatInt(timeout, 10)}
	for _, q := range queues {
		args = append(args, q.Base())
	}
	return args
}

// With returns a copy of a command with one word replaced; 0 is the verb itself.
func With(args []string, at int, word string) []string {
	changed := slices.Clone(args)
	changed[at] = word
	return changed
}
