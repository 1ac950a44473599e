package emq

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// State is where a job is in its life.
type State string

// The states of a job. StateAny is for [Queue.Remove] alone.
const (
	StatePending   State = "pending"   // to be claimed
	StateActive    State = "active"    // in a worker's hands
	StateScheduled State = "scheduled" // due later, new or after a failure
	StateDead      State = "dead"      // failed too often; stays until somebody looks
	StateAny       State = "any"
)

// Entry is a job as [Queue.Jobs] finds it.
type Entry[T any] struct {
	Job[T]
	State State
	// Due is when a scheduled job can be claimed and when an active one's lease ends; zero for the others.
	Due time.Time
	// Failures and LostLeases count what happened to the job, and LastError says what went wrong last.
	Failures, LostLeases int
	LastError            string
	// Err says that the payload is no T; Value is then not set, and Payload has it as it is.
	Err     error
	Payload []byte
}

// Jobs lists up to n jobs of a state, at most 1000, in the order in which they are claimed or due, beginning behind the
// job `after`, or at the first if that is empty. The list is read in two steps, so a job that moves meanwhile is left out. It
// needs the right to ZRANGE, ZRANK and HMGET.
func (q Queue[T]) Jobs(ctx context.Context, s State, after ID, n int) ([]Entry[T], error) {
	key, ok := map[State]string{StatePending: q.pending, StateActive: q.active, StateScheduled: q.scheduled, StateDead: q.base + "dead"}[s]
	switch {
	case q.err != nil:
		return nil, q.err
	case !ok:
		return nil, fmt.Errorf("emq: jobs of state %q can't be listed", s)
	case n < 1 || n > 1000:
		return nil, fmt.Errorf("emq: %d jobs can't be listed at a time", n)
	}
	timed := s == StateActive || s == StateScheduled
	args := []string{"ZRANGE", key, "0", strconv.Itoa(n - 1)}
	switch {
	case after != "" && timed:
		r, err := q.c.do(ctx, q.srv, "ZRANK", key, string(after))
		if err != nil {
			return nil, err
		}
		if r.Null {
			return nil, fmt.Errorf("emq: %s is no longer %s: the list begins anew", after, s)
		}
		args[2], args[3] = strconv.FormatInt(r.Int+1, 10), strconv.FormatInt(r.Int+int64(n), 10)
	case after != "": // in the order of ids, so that the job need not be there any more
		args = []string{"ZRANGE", key, "(" + string(after), "+", "BYLEX", "LIMIT", "0", strconv.Itoa(n)}
	}
	ids, err := q.c.do(ctx, q.srv, args...)
	if err != nil {
		return nil, err
	}
	found := make([]*Entry[T], len(ids.List))
	err = inParallel(len(ids.List), func(i int) error {
		id := ids.List[i].Str
		r, err := q.c.do(ctx, q.srv, "HMGET", q.rows+id, "state", "payload", "attempts", "failures", "stalled", "last_error")
		if err != nil || len(r.List) != 6 || State(r.List[0].Str) != s {
			return err
		}
		e := Entry[T]{State: s, Payload: []byte(r.List[1].Str), LastError: r.List[5].Str}
		e.ID, e.Queue = ID(id), q.name
		e.Token, _ = strconv.ParseInt(r.List[2].Str, 10, 64)
		e.Failures, _ = strconv.Atoi(r.List[3].Str)
		e.LostLeases, _ = strconv.Atoi(r.List[4].Str)
		e.Err = protect(func() error { return q.codec.Decode([]byte(r.List[1].Str), &e.Value) })
		if timed {
			score, err := q.c.do(ctx, q.srv, "ZSCORE", key, id)
			if err != nil || score.Null {
				return err
			}
			ms, _ := strconv.ParseFloat(score.Str, 64)
			e.Due = time.UnixMilli(int64(ms))
		}
		found[i] = &e
		return nil
	})
	var list []Entry[T]
	for _, e := range found {
		if e != nil {
			list = append(list, *e)
		}
	}
	return list, err
}

// inParallel makes n calls, some at a time, and returns the first error.
func inParallel(n int, call func(int) error) (err error) {
	var wg sync.WaitGroup
	var once sync.Once
	var next atomic.Int64
	for range min(n, 32) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if e := call(i); e != nil {
					once.Do(func() { err = e })
					return
				}
			}
		})
	}
	wg.Wait()
	return err
}

// Stats are a queue's figures.
type Stats struct {
	Pending, Active, Scheduled, Dead int64 // jobs, by state
	Completed, Failed                int64 // since the queue began; Failed counts the dead alone
	// OldestPending is how long the oldest pending job has been there; 0 if there is none or its id does not tell.
	OldestPending time.Duration
	// Waiting is how many clients of the server wait for a job of the queue.
	Waiting int64
	// Paused tells that nothing is handed out; PausedUntil when that ends by itself, zero if not.
	Paused      bool
	PausedUntil time.Time
	Limits      Limits
	// All has every figure that the server gives, by its name in the protocol; null ones are left out.
	All map[string]int64
}

// Limits bound what a queue hands out, over all workers. 0 is no limit.
type Limits struct {
	Concurrency int           // jobs that are active at a time
	Max         int           // jobs handed out in any window of Per
	Per         time.Duration // to the millisecond
}

// Stats tells how the queue is doing.
func (q Queue[T]) Stats(ctx context.Context) (s Stats, err error) {
	if q.err != nil {
		return s, q.err
	}
	r, err := q.c.do(ctx, q.srv, "EMQ.STATS", q.base)
	if err != nil {
		return s, err
	}
	s.All = map[string]int64{}
	for i := 0; i+1 < len(r.List); i += 2 {
		if !r.List[i+1].Null {
			s.All[r.List[i].Str] = r.List[i+1].Int
		}
	}
	ms := func(name string) time.Duration { return time.Duration(s.All[name]) * time.Millisecond }
	s.Pending, s.Active, s.Scheduled, s.Dead = s.All["pending"], s.All["active"], s.All["scheduled"], s.All["dead"]
	s.Completed, s.Failed, s.Waiting = s.All["completed"], s.All["failed"], s.All["waiting"]
	s.OldestPending, s.Paused = ms("oldest_pending_age_ms"), s.All["paused"] == 1
	if until, ok := s.All["paused_until_ms"]; ok {
		s.PausedUntil = time.UnixMilli(until)
	}
	s.Limits = Limits{int(s.All["concurrency"]), int(s.All["rate_max"]), ms("rate_duration_ms")}
	return s, nil
}

// Requeue makes dead or scheduled jobs pending at once, and tells how many were. A dead job starts afresh: its failures are
// forgotten.
func (q Queue[T]) Requeue(ctx context.Context, s State, ids ...ID) (int, error) {
	return q.operate(ctx, "EMQ.REQUEUE", s, ids)
}

// Remove removes jobs of a state, or of [StateAny], and tells how many were there. A job in a worker's hands is stopped by this: its
// context ends with [ErrLeaseLost] when its lease is next extended.
func (q Queue[T]) Remove(ctx context.Context, s State, ids ...ID) (int, error) {
	return q.operate(ctx, "EMQ.REMOVE", s, ids)
}

func (q *queue) operate(ctx context.Context, verb string, s State, ids []ID) (n int, err error) {
	if q.err != nil {
		return 0, q.err
	}
	for len(ids) > 0 {
		some := ids[:min(len(ids), batchJobs)]
		ids = ids[len(some):]
		args := []string{verb, q.base, string(s)}
		for _, id := range some {
			args = append(args, string(id))
		}
		r, before, err := q.c.try(ctx, q.srv, args...)
		if err != nil {
			return n, err
		}
		for _, status := range r.List {
			if status.Int == 1 || before {
				n++
			}
		}
	}
	return n, nil
}

// Pause keeps the queue's jobs from being claimed, by whatever worker, for a time, or with 0 until [Queue.Resume]. All else
// goes on: enqueueing, and the jobs in hand.
func (q Queue[T]) Pause(ctx context.Context, d time.Duration) error {
	return q.gate(ctx, "EMQ.PAUSE", q.base, millis(d))
}

// Resume ends a pause.
func (q Queue[T]) Resume(ctx context.Context) error { return q.gate(ctx, "EMQ.RESUME", q.base) }

// Limit sets the queue's limits anew, for all workers.
func (q Queue[T]) Limit(ctx context.Context, l Limits) error {
	return q.gate(ctx, "EMQ.LIMIT", q.base, strconv.Itoa(l.Concurrency), strconv.Itoa(l.Max), millis(l.Per))
}

func (q *queue) gate(ctx context.Context, args ...string) error {
	if q.err != nil {
		return q.err
	}
	_, err := q.c.do(ctx, q.srv, args...)
	return err
}

// millis is a duration in ms, rounded up, so that what is more than 0 stays so; less than 0 is 0.
func millis(d time.Duration) string {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return strconv.FormatInt(max(ms, 0), 10)
}
