package emq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	callTimeout = 10 * time.Second // of a call that does not wait
	blockFor    = 5 * time.Second  // of one that does; after that it is sent anew
	maxQueues   = 100              // that one BCLAIM waits for
	maxClaim    = 100              // of one MCLAIM
)

// line claims the jobs of those of a worker's queues that live on one server. It claims no more than there are free slots:
// MCLAIM fills them as long as there are jobs, then BCLAIM waits, for one job and for all queues that have room. A claim is
// never sent again, since one whose answer was lost may have taken a job.
type line struct {
	w         *Worker
	srv       *server
	handlings []*handling
	wake      chan struct{} // a slot is free

	waiter Dedicated // the connection on which BCLAIM waits
	id     string    // its id on the server; "" if that can't be known

	served   bool // the server has answered a claim
	troubles int64
}

// fatal is what a worker can't start, or go on, with.
type fatal struct{ error }

func (f *fatal) Unwrap() error { return f.error }

func (w *Worker) lines() ([]*line, error) {
	var lines []*line
	for _, s := range w.c.servers {
		l := &line{w: w, srv: s, wake: make(chan struct{}, 1)}
		for _, h := range w.handlings {
			if h.srv == s {
				h.hot = true
				l.handlings = append(l.handlings, h)
			}
		}
		if len(l.handlings) > maxQueues {
			return nil, fmt.Errorf("emq: a worker can't wait for %d queues of one server, %d at most", len(l.handlings), maxQueues)
		}
		if len(l.handlings) > 0 {
			lines = append(lines, l)
		}
	}
	w.wakes = lines
	return lines, nil
}

// wakeLines tells that there is a free slot.
func (w *Worker) wakeLines() {
	for _, l := range w.wakes {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// run claims until the context ends. An error is fatal.
func (l *line) run(ctx context.Context) error {
	for ctx.Err() == nil {
		claimed, err := l.fill(ctx)
		if err == nil && claimed == 0 {
			err = l.await(ctx)
		}
		if err == nil {
			if l.served = true; l.troubles > 0 {
				l.troubles = 0
				l.w.log.Info("emq: claiming again", l.srv.attrs()...)
			}
			continue
		}
		if ctx.Err() != nil {
			break
		}
		// What is refused at the start is a mistake to be mended; later, rights may come back. A store of another wire does not.
		if refusal, passes := refused(err); refusal != nil && !passes && (!l.served || errors.Is(err, ErrFence)) {
			return &fatal{err}
		}
		if l.troubles++; l.troubles == 1 {
			l.w.log.Warn("emq: nothing can be claimed; trying again", l.srv.attrs("error", err)...)
		}
		_ = sleep(ctx, reconnects(l.troubles))
	}
	return nil
}

// fill claims from the queues that may have jobs as many as there is room for.
func (l *line) fill(ctx context.Context) (claimed int, err error) {
	for _, h := range l.ordered(func(h *handling) bool { return h.hot && !h.awaited }) {
		if l.w.works(h) {
			runtime.Gosched() // whoever is about to give a slot back does so, and the call fills that too
		}
		if ctx.Err() != nil {
			return claimed, ctx.Err()
		}
		n := l.w.reserve(h, maxClaim)
		if n == 0 {
			continue
		}
		// Not even the worker's end makes it give up a claim that is under way.
		call, cancel := context.WithTimeout(context.Background(), callTimeout)
		asked := l.w.now()
		r, err := l.srv.conn.Do(call, "EMQ.MCLAIM", h.base, millis(h.lease), strconv.Itoa(n))
		cancel()
		if err != nil {
			h.free(n)
			return claimed, err
		}
		h.hot = len(r.List) == n
		if len(r.List) < n {
			h.free(n - len(r.List))
		}
		tasks := make([]*task, 0, len(r.List))
		for _, job := range r.List {
			if len(job.List) != 3 {
				err = unexpected("EMQ.MCLAIM", r)
				break
			}
			tasks = append(tasks, h.task(job.List[0], job.List[1], job.List[2].Int, asked, h.lease))
		}
		h.begin(ctx.Err() != nil, tasks...)
		if claimed += len(tasks); err != nil {
			return claimed, err
		}
	}
	return claimed, nil
}

// ordered are the line's queues that are meant, in an order by chance and weight.
func (l *line) ordered(meant func(*handling) bool) []*handling {
	if len(l.handlings) == 1 {
		if meant(l.handlings[0]) {
			return l.handlings
		}
		return nil
	}
	type place struct {
		h  *handling
		at float64
	}
	var places []place
	for _, h := range l.handlings {
		if meant(h) {
			places = append(places, place{h, rand.ExpFloat64() / float64(h.weight)})
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	list := make([]*handling, len(places))
	for i, p := range places {
		list[i] = p.h
	}
	return list
}

// works tells that slots of a queue are taken.
func (w *Worker) works(h *handling) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return h.taken > 0
}

// reserve takes slots for a queue, as many as it may have and at most so many. Where there are not slots for all, a queue
// takes no more than its share at a time.
func (w *Worker) reserve(h *handling, most int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.slots - w.taken
	n := min(h.room(), left, most)
	if n <= 0 {
		return 0
	}
	if w.scarce {
		n = min(n, max(left*h.weight/w.weights, 1))
	}
	h.taken += n
	w.taken += n
	return n
}

// await waits for a job of any queue that has room. If there is none, it waits for room.
func (l *line) await(ctx context.Context) error {
	open, more := l.open()
	if more {
		return nil
	}
	if len(open) == 0 {
		select {
		case <-l.wake:
		case <-ctx.Done():
		}
		return nil
	}
	r, err := l.ask(ctx, open)
	granted := l.w.now()

	var to *handling
	if len(r.List) > 0 {
		for _, h := range open {
			if len(r.List) == 4 && h.base == r.List[0].Str {
				to = h
			}
		}
		if to == nil {
			err = unexpected("EMQ.BCLAIM", r)
		}
	}
	l.close(open, to)
	if to != nil {
		to.hot = true
		to.begin(ctx.Err() != nil, to.task(r.List[1], r.List[2], r.List[3].Int, granted, l.lease(open)))
	}
	return err
}

// open takes a slot for the job that is waited for, in each queue that has room and in the worker; unless one of them got
// that room just now, and may have more jobs.
func (l *line) open() (open []*handling, more bool) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.w.taken >= l.w.slots {
		return nil, false
	}
	open = l.ordered(func(h *handling) bool { return h.room() > 0 })
	if slices.ContainsFunc(open, func(h *handling) bool { return h.hot }) {
		return nil, true
	}
	for _, h := range open {
		h.taken++
		h.awaited = true
	}
	if len(open) > 0 {
		l.w.taken++
	}
	return open, false
}

// close gives the slots back, except that of the queue whose job came.
func (l *line) close(open []*handling, to *handling) {
	l.w.mu.Lock()
	for _, h := range open {
		if h.awaited = false; h != to {
			h.taken--
		}
	}
	if to == nil {
		l.w.taken--
	}
	l.w.mu.Unlock()
	l.w.wakeLines()
}

type answer struct {
	Reply
	err error
}

// ask waits in the server for a job of the open queues. Queues that get room meanwhile are filled; if one of them then has no
// more jobs, the wait ends, to begin anew with that one. The answer is read in any case.
func (l *line) ask(ctx context.Context, open []*handling) (Reply, error) {
	if err := l.connect(); err != nil {
		return Reply{}, err
	}
	args := []string{"EMQ.BCLAIM", millis(l.lease(open)), millis(blockFor)}
	for _, h := range open {
		args = append(args, h.base)
	}
	came := make(chan answer, 1)
	waiter := l.waiter
	go func() {
		call, cancel := context.WithTimeout(context.Background(), blockFor+callTimeout)
		defer cancel()
		r, err := waiter.Do(call, args...)
		came <- answer{r, err}
	}()
	var a answer
	for waits := true; waits; {
		select {
		case a = <-came:
			waits = false
		case <-ctx.Done():
			a, waits = l.interrupt(came), false
		case <-l.wake:
			if l.closed(open) {
				continue
			}
			if _, err := l.fill(ctx); err == nil && !l.closed(open) {
				a, waits = l.interrupt(came), false
			}
		}
	}
	if a.err != nil {
		l.drop()
	}
	return a.Reply, a.err
}

// closed tells that no queue has room but those that are waited for.
func (l *line) closed(open []*handling) bool {
	if len(open) == len(l.handlings) {
		return true
	}
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.taken >= l.w.slots || !slices.ContainsFunc(l.handlings, func(h *handling) bool { return !h.awaited && h.room() > 0 })
}

// interrupt ends a wait in the server, and reads its answer: a job may be in it. CLIENT UNBLOCK may come too early.
func (l *line) interrupt(came <-chan answer) answer {
	for n := int64(1); l.id != ""; n++ {
		call, cancel := context.WithTimeout(context.Background(), callTimeout)
		_, err := l.srv.conn.Do(call, "CLIENT", "UNBLOCK", l.id)
		cancel()
		if refusal, passes := refused(err); refusal != nil && !passes {
			l.w.log.Warn("emq: a claim that waits can't be ended", l.srv.attrs("error", err)...)
			break
		}
		select {
		case a := <-came:
			return a
		case <-time.After(reconnects(n)):
		}
	}
	return <-came
}

// connect provides the connection on which claims wait.
func (l *line) connect() error {
	if l.waiter != nil {
		return nil
	}
	call, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	d, err := l.srv.conn.Dedicate(call)
	if err != nil {
		return err
	}
	r, err := d.Do(call, "CLIENT", "ID")
	if refusal, passes := refused(err); err != nil && (refusal == nil || passes) {
		d.Close()
		return err
	}
	if l.waiter, l.id = d, ""; err == nil {
		l.id = strconv.FormatInt(r.Int, 10)
	}
	return nil
}

func (l *line) drop() {
	if l.waiter != nil {
		l.waiter.Close()
		l.waiter = nil
	}
}

// lease is that of the job that is waited for: the shortest, since one call has one. The first heartbeat sets the queue's own.
func (l *line) lease(of []*handling) time.Duration {
	return slices.MinFunc(of, func(a, b *handling) int { return cmp.Compare(a.queue.lease, b.queue.lease) }).queue.lease
}

// beat extends the leases of all jobs in hand, until the context ends.
func (l *line) beat(ctx context.Context) {
	var calls sync.WaitGroup
	defer calls.Wait()
	for {
		now := l.w.now()
		next := now + l.lease(l.handlings)/3
		for _, h := range l.handlings {
			if at, ok := h.due(now); ok {
				calls.Go(func() { h.extend(ctx) })
			} else if at > 0 {
				next = min(next, at)
			}
		}
		if sleep(ctx, max(next-now, time.Millisecond)) != nil {
			return
		}
	}
}

// due tells that a lease is to be extended, or when the first will be. Then nobody but the caller extends any.
func (h *handling) due(now time.Duration) (at time.Duration, due bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.extending || h.hand.first == nil {
		return 0, false
	}
	at = h.hand.first.extendAt
	h.extending = at <= now
	return at, h.extending
}

// extend extends the leases that are due, and those that soon will be.
func (h *handling) extend(ctx context.Context) {
	defer func() {
		h.mu.Lock()
		h.extending = false
		h.mu.Unlock()
	}()
	for ctx.Err() == nil {
		now := h.w.now()
		args := []string{"EMQ.MEXTEND", h.base, millis(h.lease)}
		var tasks []*task
		until := now + h.lease/3
		h.mu.Lock()
		for t := h.hand.first; t != nil && t.extendAt <= now+h.lease/30 && len(tasks) < batchJobs; t = t.next {
			if t.deadline <= now {
				h.lose(t)
				continue
			}
			if t.phase == lost {
				continue
			}
			tasks, args, until = append(tasks, t), append(args, string(t.ID), t.token), min(until, t.deadline)
		}
		h.mu.Unlock()
		if len(tasks) == 0 {
			return
		}
		call, cancel := context.WithTimeout(ctx, until-now)
		r, err := h.srv.conn.Do(call, args...)
		cancel()
		if err == nil && len(r.List) != len(tasks) {
			err = unexpected(args[0], r)
		}
		h.extended(tasks, r.List, err, now)
		if err != nil {
			if ctx.Err() == nil {
				h.w.log.Warn("emq: leases could not be extended", "queue", h.name, "jobs", len(tasks), "error", err)
			}
			if refusal, passes := refused(err); refusal != nil && !passes {
				h.w.refuse(err)
			}
			return
		}
	}
}

// extended notes what came of a call that was sent at a time.
func (h *handling) extended(tasks []*task, statuses []Reply, err error, sent time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, t := range tasks {
		if t.phase == finished {
			continue
		}
		switch {
		case err != nil && t.deadline <= h.w.now():
			h.lose(t)
		case err != nil:
			t.extendAt = h.w.now() + h.lease/12
		case statuses[i].Int == 1:
			t.extendAt, t.deadline = sent+h.lease/3, sent+h.lease
		default:
			h.lose(t)
			t.extendAt = sent + h.lease/3
		}
		// Those that are due later follow.
		h.hand.remove(t)
		h.hand.append(t)
	}
}
