package emq

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"time"
)

// settlement is what the server is told of a job.
type settlement uint8

const (
	toComplete settlement = iota
	toDrop                // complete, although it was not done
	toRetry
	toBury
	toRelease // later, at the handler's wish
	toReturn  // at once, since the worker stops
)

// settler tells the server what became of a queue's jobs. A settlement is sent at once, and those that come while it is under way go
// together, in the next calls. Of jobs that take no time, many are done at the same moment: the first lets the others have their
// turn, and they go with it.
type settler struct {
	busy  bool
	queue []*task
	spare []*task
}

// noTime is what a job takes at most that takes no time.
const noTime = time.Millisecond

// settle has the server told of a job, once. The caller may be the one who tells it, and of other jobs as well.
func (h *handling) settle(t *task, what settlement, delay time.Duration, why error) {
	took := h.w.now() - t.since
	h.mu.Lock()
	defer h.mu.Unlock()
	switch t.phase {
	case settling, finished:
		return
	case lost:
		h.unlocked(func() { h.done(t, Lost, ErrLeaseLost) })
		return
	}
	t.phase, t.what, t.delay, t.err, t.took = settling, what, delay, why, took
	s := &h.settler
	s.queue = append(s.queue, t)
	if s.busy {
		return
	}
	if s.busy = true; took < noTime && h.hand.first != h.hand.last {
		h.unlocked(runtime.Gosched)
	}
	for len(s.queue) > 0 {
		tasks := s.queue
		s.queue = s.spare[:0]
		h.unlocked(func() { h.tell(tasks) })
		clear(tasks)
		s.spare = tasks[:0]
	}
	s.busy = false
}

// unlocked does something without the lock that is held.
func (h *handling) unlocked(do func()) {
	h.mu.Unlock()
	defer h.mu.Lock()
	do()
}

// tell sends the settlements of some jobs.
func (h *handling) tell(tasks []*task) {
	slices.SortStableFunc(tasks, func(a, b *task) int { return int(a.what) - int(b.what) })
	for len(tasks) > 0 {
		what, n := tasks[0].what, 1
		for n < len(tasks) && n < batchJobs && tasks[n].what == what {
			n++
		}
		some := tasks[:n]
		tasks = tasks[n:]
		switch what {
		case toComplete, toDrop:
			h.send(some, func(args []string, t *task) []string { return append(args, string(t.ID), t.token) }, "EMQ.MCOMPLETE", h.base)
		case toRetry, toBury:
			most := h.max
			if what == toBury {
				most = 1
			}
			h.send(some, func(args []string, t *task) []string {
				return append(args, string(t.ID), t.token, millis(t.delay), errorText(t.err))
			}, "EMQ.MFAIL", h.base, strconv.FormatInt(most, 10))
		default:
			_ = inParallel(n, func(i int) error {
				h.send(some[i:i+1], func(args []string, t *task) []string {
					return append(args, string(t.ID), t.token, millis(t.delay))
				}, "EMQ.RELEASE", h.base)
				return nil
			})
		}
	}
}

// send makes one call for some jobs, and makes it again until it is answered or their leases are over.
func (h *handling) send(tasks []*task, each func([]string, *task) []string, head ...string) {
	var doubt, late error
	for n := int64(1); ; n++ {
		args := make([]string, len(head), len(head)+4*len(tasks))
		copy(args, head)
		for _, t := range tasks {
			args = each(args, t)
		}
		call, cancel := context.WithTimeout(context.Background(), callTimeout)
		r, err := h.srv.conn.Do(call, args...)
		cancel()
		refusal, passes := refused(err)
		switch {
		case err == nil && head[0] == "EMQ.RELEASE":
			h.done(tasks[0], told(tasks[0], 1, false), nil)
			return
		case err == nil && len(r.List) == len(tasks):
			for i, t := range tasks {
				h.answered(t, r.List[i].Int, doubt != nil)
			}
			return
		case err == nil:
			err = unexpected(head[0], r)
			fallthrough
		case refusal != nil && !passes:
			h.w.refuse(err)
			for _, t := range tasks {
				if refusal != nil && refusal.Is(ErrStale) {
					h.answered(t, -1, doubt != nil)
				} else {
					h.done(t, Lost, err)
				}
			}
			return
		case refusal == nil:
			doubt = err
		}
		late = err
		_ = sleep(context.Background(), reconnects(n))
		now := h.w.now()
		var left []*task
		for _, t := range tasks {
			h.mu.Lock()
			over := t.deadline <= now
			h.mu.Unlock()
			if over || errors.Is(err, ErrClosed) {
				h.done(t, Lost, errors.Join(ErrLeaseLost, late))
			} else {
				left = append(left, t)
			}
		}
		if tasks = left; len(tasks) == 0 {
			return
		}
	}
}

// refuse stops a worker whose settlements or heartbeats are refused: it would claim jobs that it can't end. A refusal that is
// about one job is none of these.
func (w *Worker) refuse(err error) {
	var refusal *Error
	if errors.As(err, &refusal) && refusal.Class() != "EMQSTALE" && refusal.Class() != "EMQSCRIPT" {
		w.abort(&fatal{err})
	}
}

// answered notes the status that a job's settlement got. If the call was sent before and that answer lost, a job that is gone,
// or no longer held, is as it should be.
func (h *handling) answered(t *task, status int64, before bool) {
	switch {
	case status >= 1, status == 0 && before, status == -1 && before && t.what >= toRetry:
		h.done(t, told(t, status, before), t.err)
	case status == -2:
		h.done(t, Lost, errors.New("the job belongs to a lane or a flow, whose scripts settle it"))
	default:
		h.done(t, Lost, ErrLeaseLost)
	}
}

// told is the outcome of a settlement that was accepted.
func told(t *task, status int64, before bool) Outcome {
	switch {
	case t.what == toComplete:
		return Completed
	case t.what == toDrop:
		return Dropped
	case t.what == toRelease:
		return Snoozed
	case t.what == toReturn:
		return Returned
	case status == 2, t.what == toBury && before:
		return Died
	}
	return Retried
}

// done ends the work on a job.
func (h *handling) done(t *task, o Outcome, err error) {
	defer h.w.tasks.Done()
	h.mu.Lock()
	h.hand.remove(t)
	t.phase = finished
	h.mu.Unlock()
	t.end(nil)
	h.w.counts[o].Add(1)
	for _, hook := range h.w.observe {
		failed := protect(func() error {
			hook(Event{Queue: h.name, ID: t.ID, Token: t.Token, Outcome: o, Err: err, Took: t.took})
			return nil
		})
		if failed != nil {
			h.w.log.Error("emq: a hook", "queue", h.name, "id", string(t.ID), "error", failed)
		}
	}
	level := slog.LevelDebug
	switch o {
	case Retried, Dropped:
		level = slog.LevelInfo
	case Lost:
		level = slog.LevelWarn
	case Died:
		level = slog.LevelError
	}
	if ctx := context.Background(); level > slog.LevelDebug && h.w.log.Enabled(ctx, level) {
		attrs := []slog.Attr{slog.String("queue", h.name), slog.String("id", string(t.ID)), slog.Int64("token", t.Token),
			slog.Any("error", err)}
		if o == Retried {
			attrs = append(attrs, slog.Duration("in", t.delay))
		}
		h.w.log.LogAttrs(ctx, level, "emq: job "+o.String(), attrs...)
	}
}
