package emq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Job is a job in a handler's hands.
type Job[T any] struct {
	ID    ID
	Queue string
	Value T
	// Token counts the job's claims, this one included. A job that was claimed again has a higher one.
	Token int64
}

// Handler does a job. nil completes it; an error is a failure, after which it comes again, later each time, until it is dead.
// [Dead], [RetryIn], [Snooze] and [Drop] say otherwise. A job can be handed out twice, if the first worker was too slow or
// died, so a handler does nothing that must not be done again.
type Handler[T any] func(ctx context.Context, job *Job[T]) error

// Task is a job before its payload is decoded, as middleware sees it.
type Task struct {
	ID      ID
	Queue   string
	Payload []byte
	Token   int64 // as in Job
}

// TaskFunc handles a task.
type TaskFunc func(ctx context.Context, t *Task) error

// Middleware wraps what handles a task.
type Middleware func(next TaskFunc) TaskFunc

// Outcome is what became of a job that a worker had.
type Outcome int

// The outcomes of a job.
const (
	Completed Outcome = iota // done
	Retried                  // failed, and scheduled again
	Died                     // failed, and dead
	Snoozed                  // put off by its handler
	Dropped                  // completed by its handler, undone
	Returned                 // given back since the worker stops, uncounted
	Lost                     // the lease was lost, and the server told nothing
	numOutcomes
)

func (o Outcome) String() string {
	return [...]string{"completed", "retried", "died", "snoozed", "dropped", "returned", "lost"}[o]
}

// Event tells a hook what became of a job.
type Event struct {
	Queue   string
	ID      ID
	Token   int64
	Outcome Outcome
	Err     error         // what the handler returned, or why the server was not told
	Took    time.Duration // of the handler, since the claim
}

// Worker claims the jobs of queues and has handlers do them.
type Worker struct {
	c         *Client
	log       *slog.Logger
	grace     time.Duration
	slots     int
	wrap      []Middleware
	observe   []func(Event)
	handlings []*handling
	err       error // the first mistake of the program's

	began   time.Time // of all times inside, which are counted from here
	mu      sync.Mutex
	taken   int  // slots, of all queues
	scarce  bool // there are fewer than the queues could take
	weights int  // of all queues
	wakes   []*line

	tasks  sync.WaitGroup
	ran    bool                    // or does; under the lock
	abort  context.CancelCauseFunc // ends Run with an error
	counts [numOutcomes]atomic.Int64
}

// WorkerOption changes how a worker behaves.
type WorkerOption func(*Worker)

// Grace is how long a worker that stops lets its handlers go on; the default is 20 s. With 0 their contexts end at once.
func Grace(d time.Duration) WorkerOption { return func(w *Worker) { w.grace = d } }

// Slots bounds the handlers that run at a time, over all queues; the default, and 0, is the sum of their [Concurrency].
func Slots(n int) WorkerOption { return func(w *Worker) { w.slots = n } }

// Wrap has every task go through middleware, the first of them outermost. Batches do not.
func Wrap(m ...Middleware) WorkerOption { return func(w *Worker) { w.wrap = append(w.wrap, m...) } }

// Observe calls a hook for each job that a worker is done with. It is called by the goroutines that settle jobs, so it does not
// wait for anything, nor end its goroutine, as a test's FailNow does. If it panics, the log says so.
func Observe(hook func(Event)) WorkerOption {
	return func(w *Worker) { w.observe = append(w.observe, hook) }
}

// Log names the logger; the default is slog.Default().
func Log(l *slog.Logger) WorkerOption { return func(w *Worker) { w.log = l } }

// NewWorker is a worker without queues: see [Handle].
func NewWorker(c *Client, opts ...WorkerOption) *Worker {
	w := &Worker{c: c, log: slog.Default(), grace: 20 * time.Second, began: time.Now()}
	for _, o := range opts {
		o(w)
	}
	switch {
	case w.log == nil:
		w.err = errors.New("emq: the logger is nil")
	case w.grace < 0:
		w.err = fmt.Errorf("emq: a worker can't have a grace of %s", w.grace)
	case w.slots < 0:
		w.err = fmt.Errorf("emq: a worker can't have %d slots", w.slots)
	case slices.ContainsFunc(w.wrap, func(m Middleware) bool { return m == nil }):
		w.err = errors.New("emq: middleware is nil")
	case slices.ContainsFunc(w.observe, func(hook func(Event)) bool { return hook == nil }):
		w.err = errors.New("emq: a hook is nil")
	}
	return w
}

// HandleOption changes how one queue is worked on.
type HandleOption func(*handling)

// Concurrency is how many handlers of the queue run at a time; the default is 10. Of [HandleBatch] it is how many batches, and
// the default is 1.
func Concurrency(n int) HandleOption { return func(h *handling) { h.concurrency = n } }

// Timeout ends a handler's context after a while, with [ErrTimeout]. If the handler does not return within another ten seconds its
// job has failed, and its slot stays taken until it does. By default, and with 0, there is no timeout.
func Timeout(d time.Duration) HandleOption { return func(h *handling) { h.timeout = d } }

// Weight is the queue's share where there are not [Slots] for all; the default is 1. With weights of 3 and 1 the first queue
// is asked first three times of four.
func Weight(n int) HandleOption { return func(h *handling) { h.weight = n } }

// Handle has a worker do the jobs of a queue. It is called before [Worker.Run], which tells what can't be, and which ends with
// an error if Handle is called later. A payload that does not decode is dead at once.
func Handle[T any](w *Worker, q Queue[T], do Handler[T], opts ...HandleOption) {
	h := w.add(q.queue, 10, do == nil, opts)
	h.run = func(ctx context.Context, t *Task) error {
		job, err := decode[T](h.queue, t)
		if err != nil {
			return Dead(err)
		}
		_, _, err = read(protect(func() error { return do(ctx, job) }))
		return err // which middleware can read
	}
	for i := len(w.wrap) - 1; i >= 0 && w.wrap[i] != nil; i-- {
		if h.run = w.wrap[i](h.run); h.run == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.mistake(errors.New("emq: middleware gives no TaskFunc"))
			return
		}
	}
}

// HandleBatch has a worker do up to size jobs of a queue at a time. A batch that is not full waits so long for more. The
// handler returns an error for each job, in their order, as a [Handler] does, or nil if all are done. The context ends if
// all their leases are lost.
func HandleBatch[T any](w *Worker, q Queue[T], size int, wait time.Duration, do func(context.Context, []*Job[T]) []error, opts ...HandleOption) {
	h := w.add(q.queue, 1, do == nil, append(opts[:len(opts):len(opts)], func(h *handling) { h.size, h.wait = size, wait }))
	h.runMany = func(ctx context.Context, tasks []*task) []error {
		errs := make([]error, len(tasks))
		var jobs []*Job[T]
		var of []int
		for i, t := range tasks {
			job, err := decode[T](h.queue, &t.Task)
			if err != nil {
				errs[i] = Dead(err)
				continue
			}
			jobs, of = append(jobs, job), append(of, i)
		}
		if len(jobs) == 0 {
			return errs
		}
		var found []error
		err := protect(func() error { found = do(ctx, jobs); return nil })
		if err == nil && found != nil && len(found) != len(jobs) {
			err = fmt.Errorf("the handler of a batch returned %d errors for %d jobs", len(found), len(jobs))
		}
		for i, at := range of {
			switch {
			case err != nil:
				errs[at] = err
			case found != nil:
				errs[at] = found[i]
			}
		}
		return errs
	}
}

func decode[T any](q *queue, t *Task) (*Job[T], error) {
	job := &Job[T]{ID: t.ID, Queue: t.Queue, Token: t.Token}
	if err := protect(func() error { return q.codec.Decode(t.Payload, &job.Value) }); err != nil {
		return nil, fmt.Errorf("the payload can't be decoded: %w", err)
	}
	return job, nil
}

// maxShare bounds concurrency and weight, so that their sums and products are numbers.
const maxShare = 1_000_000

// add adds a queue, unless the worker runs already or something is wrong, which Run then tells.
func (w *Worker) add(q *queue, concurrency int, isNil bool, opts []HandleOption) *handling {
	h := &handling{queue: q, w: w, concurrency: concurrency, weight: 1, size: 1}
	for _, o := range opts {
		o(h)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.check(h, isNil); err != nil {
		w.mistake(err)
	} else {
		w.handlings = append(w.handlings, h)
	}
	return h
}

// check tells why a queue can't be handled. The lock is held.
func (w *Worker) check(h *handling, isNil bool) error {
	q := h.queue
	switch {
	case q == nil:
		return errors.New("emq: a queue to handle is made by NewQueue")
	case w.ran:
		return fmt.Errorf("emq: queue %q is handled too late: the worker runs already", q.name)
	case q.err != nil:
		return q.err
	case q.c != w.c:
		return fmt.Errorf("emq: queue %q is another client's than the worker", q.name)
	case isNil:
		return fmt.Errorf("emq: queue %q: the handler is nil", q.name)
	case h.concurrency < 1 || h.weight < 1 || h.concurrency > maxShare || h.weight > maxShare:
		return fmt.Errorf("emq: queue %q: concurrency and weight are at least 1 and at most %d", q.name, maxShare)
	case h.size < 1 || h.size > 1000:
		return fmt.Errorf("emq: queue %q: a batch can't have %d jobs", q.name, h.size)
	case h.wait < 0:
		return fmt.Errorf("emq: queue %q: a batch can't wait %s", q.name, h.wait)
	case h.timeout < 0:
		return fmt.Errorf("emq: queue %q: a handler can't have a timeout of %s", q.name, h.timeout)
	case slices.ContainsFunc(w.handlings, func(other *handling) bool { return other.name == q.name }):
		return fmt.Errorf("emq: queue %q has a handler already", q.name)
	}
	return nil
}

// mistake has Run end with an error, or not begin. The lock is held.
func (w *Worker) mistake(err error) {
	if w.err == nil {
		w.err = err
	}
	if w.ran {
		w.abort(&fatal{err})
	}
}

// Count is how many jobs of the worker had an outcome so far.
func (w *Worker) Count(o Outcome) int64 { return w.counts[o].Load() }

// lastCall is how long handlers may still return after their contexts have ended with [ErrStopping], and overtime after
// [ErrTimeout].
const (
	lastCall = time.Second
	overtime = 10 * time.Second
)

// Run claims and handles jobs until the context ends. Then it claims no more and lets the handlers go on for [Grace]; after that
// their contexts end with [ErrStopping], and what is still in hand is given back uncounted. Run returns when the server
// has been told of all, or can't be: nil, or the refusal because of which nothing can be claimed, if the first claim met it (no
// such module, no rights, another wire), or because of which jobs can't be settled or their leases extended. A server that
// can't be reached is waited for. A worker runs once, and not at all if it was made with what can't be: then Run tells what.
//
// A handler that ignores the end of its context goes on after Run has returned; its job is given to others.
func (w *Worker) Run(ctx context.Context) error {
	claiming, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if err := w.start(stop); err != nil {
		return err
	}
	all := 0
	for _, h := range w.handlings {
		all += (h.concurrency + 1) * h.size // a batch is gathered while others run
		w.weights += h.weight
	}
	if w.scarce = w.slots > 0 && w.slots < all && len(w.handlings) > 1; w.slots <= 0 {
		w.slots = all
	}
	lines, err := w.lines()
	if err != nil {
		return err
	}
	for _, h := range w.handlings {
		h.values = context.WithoutCancel(ctx)
		h.more, h.most = sync.NewCond(&h.mu), runtime.GOMAXPROCS(0)
		defer h.close()
	}

	beating, stopBeats := context.WithCancel(context.Background())
	var claims, beats sync.WaitGroup
	for _, l := range lines {
		claims.Go(func() {
			if err := l.run(claiming); err != nil {
				stop(err)
			}
		})
		beats.Go(func() { l.beat(beating) })
	}
	claims.Wait()
	var f *fatal
	grace := w.grace
	if errors.As(context.Cause(claiming), &f) && errors.Is(f, ErrFence) {
		grace = 0 // what the handlers do can't be settled
	}
	w.finish(grace)
	stopBeats()
	beats.Wait()
	for _, l := range lines {
		l.drop()
	}
	if f != nil {
		return f.error
	}
	return nil
}

// start begins a worker's only run, which a function can end.
func (w *Worker) start(stop context.CancelCauseFunc) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return w.err
	case len(w.handlings) == 0:
		return errors.New("emq: the worker has no queue to handle")
	case w.ran:
		return errors.New("emq: the worker has run already")
	}
	w.ran, w.abort = true, stop
	return nil
}

// finish waits for the handlers, for the time of grace, and gives back what they do not finish.
func (w *Worker) finish(grace time.Duration) {
	done := make(chan struct{})
	go func() {
		w.tasks.Wait()
		close(done)
	}()
	for _, h := range w.handlings {
		h.flush()
	}
	waits := func(d time.Duration) bool {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-done:
			return false
		case <-t.C:
			return true
		}
	}
	if waits(grace) {
		for _, h := range w.handlings {
			h.cancelAll(ErrStopping)
		}
		if waits(lastCall) {
			var wg sync.WaitGroup
			for _, h := range w.handlings {
				wg.Go(h.returnAll)
			}
			wg.Wait()
		}
	}
	<-done
	w.log.Info("emq: the worker has stopped", "completed", w.Count(Completed), "retried", w.Count(Retried), "died", w.Count(Died),
		"returned", w.Count(Returned), "lost", w.Count(Lost))
}

// now is the time since the worker began.
func (w *Worker) now() time.Duration { return time.Since(w.began) }
