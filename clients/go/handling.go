package emq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// handling is a worker's work on one queue.
type handling struct {
	*queue
	w           *Worker
	concurrency int
	weight      int
	timeout     time.Duration
	run         TaskFunc
	values      context.Context // of Run, without its end

	// Of batches.
	runMany func(context.Context, []*task) []error
	size    int
	wait    time.Duration

	taken   int  // slots, with one for a claim that waits; under the worker's lock
	awaited bool // a claim waits for the queue; of the line's goroutine, as is
	hot     bool // that more jobs may be there

	mu        sync.Mutex
	hand      hand // all tasks, in the order in which their leases are to be extended
	extending bool
	batch     []*task // the one that is gathered
	batchDue  *time.Timer
	batches   int // that run
	stopped   bool

	// Goroutines do the tasks. One that comes takes the first, and calls another for the next, so that a handler that takes its
	// time holds nothing up; but as long as those that were called have had no turn, one that is done takes the next itself.
	todo   []*task
	begun  int        // how many of them are
	more   *sync.Cond // for those that have nothing to do
	idle   int        // how many these are
	called int        // and how many of them, or new ones, are to come
	most   int        // that can come at a time: more would have no processor
	closed bool       // they end

	settler settler
}

// task is a job in hand.
type task struct {
	Task
	token  string
	since  time.Duration
	ctx    jobContext
	cancel context.CancelCauseFunc // of a batch's context, in its place

	// Under the handling's lock.
	prev, next *task
	extendAt   time.Duration // when the lease is to be extended
	deadline   time.Duration // when it ends, at the earliest
	phase      phase

	// Once it is settling.
	what  settlement
	delay time.Duration
	err   error
	took  time.Duration
}

// end ends the context of the task's handler.
func (t *task) end(cause error) {
	if t.cancel != nil {
		t.cancel(cause)
	} else {
		t.ctx.end(cause)
	}
}

type phase uint8

const (
	working  phase = iota
	settling       // the server is to be told, or was
	lost           // it is another's; the handler may still run
	finished
)

// hand is a list of tasks.
type hand struct{ first, last *task }

func (l *hand) append(t *task) {
	if t.prev, t.next = l.last, nil; l.last == nil {
		l.first = t
	} else {
		l.last.next = t
	}
	l.last = t
}

func (l *hand) remove(t *task) {
	if t.prev == nil {
		l.first = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		l.last = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
}

// task is a job that was granted under a lease, at a time or after it. Without a payload, its Payload is nil.
func (h *handling) task(id, payload Reply, token int64, granted, lease time.Duration) *task {
	t := &task{Task: Task{ID: ID(id.Str), Queue: h.name, Token: token}, token: strconv.FormatInt(token, 10)}
	if !payload.Null {
		t.Payload = []byte(payload.Str)
	}
	t.ctx.values = h.values
	t.extendAt, t.deadline = granted+lease/3, granted+lease
	return t
}

// begin begins the work on tasks whose slots are taken.
func (h *handling) begin(stopping bool, tasks ...*task) {
	var not []*task
	now := h.w.now()
	h.w.tasks.Add(len(tasks))
	h.mu.Lock()
	for _, t := range tasks {
		t.since = now
		h.hand.append(t)
		switch {
		case stopping, t.Payload == nil:
			not = append(not, t)
		case h.runMany != nil:
			h.gather(t)
		default:
			h.todo = append(h.todo, t)
		}
	}
	h.call()
	h.mu.Unlock()
	for _, t := range not {
		h.free(1)
		if stopping {
			h.settle(t, toReturn, 0, nil)
		} else {
			h.settle(t, toBury, 0, errors.New("the row has no payload"))
		}
	}
}

// call has a goroutine come for the next task. The lock is held.
func (h *handling) call() {
	switch {
	case h.begun == len(h.todo) || h.called == h.most:
		return
	case h.idle > 0:
		h.idle--
		h.more.Signal()
	default:
		go h.work()
	}
	h.called++
}

// work does tasks as they come. A goroutine is kept for the next ones, since its stack has grown already.
func (h *handling) work() {
	h.mu.Lock()
	for h.called--; !h.closed; {
		if t := h.next(); t != nil {
			h.call()
			h.mu.Unlock()
			h.serve(t) // which may end the goroutine
			h.mu.Lock()
			continue
		}
		h.idle++
		h.more.Wait()
		h.called--
	}
	h.mu.Unlock()
}

// next is the next task, or nil. The lock is held.
func (h *handling) next() *task {
	if h.begun == len(h.todo) {
		h.todo, h.begun = h.todo[:0], 0
		return nil
	}
	t := h.todo[h.begun]
	h.todo[h.begun] = nil
	h.begun++
	return t
}

// close ends the goroutines that have nothing to do; the others end when they have done what they do.
func (h *handling) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.more.Broadcast()
}

// serve has the handler do a job.
func (h *handling) serve(t *task) {
	var ctx context.Context = &t.ctx
	if h.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = h.limit(ctx, t)
		defer cancel()
	}
	err := errExit
	defer func() {
		h.free(1)
		h.conclude(t, ctx, err)
	}()
	err = protect(func() error { return h.run(ctx, &t.Task) })
}

// limit is a handler's context with the queue's [Timeout]. A handler that ignores its end keeps its slot, but not its jobs: they
// have failed.
func (h *handling) limit(ctx context.Context, tasks ...*task) (context.Context, context.CancelFunc) {
	if h.timeout <= 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.timeout, ErrTimeout)
	late := time.AfterFunc(h.timeout+overtime, func() {
		if context.Cause(ctx) == ErrTimeout {
			for _, t := range tasks {
				h.conclude(t, ctx, ErrTimeout)
			}
		}
	})
	return ctx, func() { late.Stop(); cancel() }
}

// errExit is the error of a handler that calls runtime.Goexit, as a test's FailNow does.
var errExit = errors.New("emq: the handler ended its goroutine")

// conclude has a handler's answer told to the server.
func (h *handling) conclude(t *task, ctx context.Context, err error) {
	if err == nil {
		h.settle(t, toComplete, 0, nil)
		return
	}
	v, late, err := read(err)
	switch {
	case v != nil:
		h.settle(t, v.what, v.delay, err)
	case context.Cause(ctx) == ErrStopping:
		h.settle(t, toReturn, 0, err)
	default:
		if context.Cause(ctx) == ErrTimeout && !late {
			err = errors.Join(ErrTimeout, err)
		}
		delay, failed := h.delay(t)
		if failed != nil {
			err = fmt.Errorf("%w; the queue's backoff: %w", err, failed)
		}
		h.settle(t, toRetry, delay, err)
	}
}

// delay is how long a job waits after a failure. If the queue's backoff panics it is as long as by default.
func (h *handling) delay(t *task) (d time.Duration, err error) {
	n := h.failures(t)
	if err = protect(func() error { d = h.backoff(n); return nil }); err != nil {
		d = defaultBackoff(n)
	}
	return d, err
}

// failures is what the queue's backoff counts, with this failure.
func (h *handling) failures(t *task) int64 {
	if !h.exact {
		return t.Token
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	r, err := h.srv.conn.Do(ctx, "HGET", h.rows+string(t.ID), "failures")
	if err != nil {
		return t.Token
	}
	n, _ := strconv.ParseInt(r.Str, 10, 64)
	return n + 1
}

// free gives slots back.
func (h *handling) free(n int) {
	h.w.mu.Lock()
	h.taken -= n
	h.w.taken -= n
	h.w.mu.Unlock()
	h.w.wakeLines()
}

// gather puts a task into the batch. The lock is held.
func (h *handling) gather(t *task) {
	h.batch = append(h.batch, t)
	if len(h.batch) >= h.size {
		h.startBatch()
	} else if h.batchDue == nil {
		h.batchDue = time.AfterFunc(h.wait, h.flush)
	}
}

// flush starts the batch as it is.
func (h *handling) flush() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.startBatch()
}

// startBatch has the handler do what was gathered. The lock is held.
func (h *handling) startBatch() {
	if h.batchDue != nil {
		h.batchDue.Stop()
		h.batchDue = nil
	}
	if len(h.batch) == 0 || h.batches >= h.concurrency || h.stopped {
		return // the end of one that runs starts it
	}
	taken, tasks := len(h.batch), h.batch[:0]
	for _, t := range h.batch {
		if t.phase == working {
			tasks = append(tasks, t)
		} else {
			go h.settle(t, toReturn, 0, nil) // it was lost meanwhile
		}
	}
	h.batch = nil
	h.batches++
	ctx, cancel := context.WithCancelCause(h.values)
	left := len(tasks)
	for _, t := range tasks {
		t.cancel = func(cause error) { // called once for each task, under the lock or when it is settled
			if cause == ErrLeaseLost {
				if left--; left > 0 {
					return
				}
			}
			if cause != nil {
				cancel(cause)
			}
		}
	}
	go func() {
		defer cancel(nil)
		ctx, stop := h.limit(ctx, tasks...)
		defer stop()
		errs := slices.Repeat([]error{errExit}, len(tasks))
		defer func() {
			h.mu.Lock()
			h.batches--
			if h.batchDue == nil {
				h.startBatch()
			}
			h.mu.Unlock()
			h.free(taken)
			for i, t := range tasks {
				h.conclude(t, ctx, errs[i])
			}
		}()
		if len(tasks) > 0 {
			errs = h.runMany(ctx, tasks) // which may end the goroutine
		}
	}()
}

// room is how many jobs the queue can take, of its own slots. The worker's lock is held.
func (h *handling) room() int {
	if h.runMany == nil {
		return h.concurrency - h.taken
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	room := h.size - len(h.batch)
	if h.batches >= h.concurrency {
		room = 0
	}
	if h.awaited {
		room--
	}
	return room
}

// lose ends the work on a task that is another's. The lock is held.
func (h *handling) lose(t *task) {
	if t.phase != working {
		return
	}
	t.phase = lost
	t.end(ErrLeaseLost)
}

func (h *handling) cancelAll(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	for t := h.hand.first; t != nil; t = t.next {
		if t.phase == working {
			t.end(cause)
		}
	}
}

// returnAll gives back the tasks whose handlers do not return.
func (h *handling) returnAll() {
	h.mu.Lock()
	var left []*task
	for t := h.hand.first; t != nil; t = t.next {
		if t.phase == working || t.phase == lost {
			left = append(left, t)
		}
	}
	h.mu.Unlock()
	for _, t := range left {
		h.settle(t, toReturn, 0, errors.New("the handler did not return"))
	}
}
