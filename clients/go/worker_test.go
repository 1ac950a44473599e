package emq_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"emq/clients/go"
	"emq/test/store"
	"emq/test/wire"
)

type mail struct {
	To string `json:"to"`
}

// Whatever a handler answers comes to what it says, in the store and for the hook.
func TestOutcomes(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	q := emq.NewQueue[mail](c, "mail", emq.Failures(2, emq.Constant(time.Hour)))
	boom := errors.New("boom")
	var events gathered
	var seen emq.Job[mail]
	w := emq.NewWorker(c, quiet, events.observe())
	emq.Handle(w, q, func(_ context.Context, j *emq.Job[mail]) error {
		switch j.Value.To {
		case "done":
			seen = *j
			return nil
		case "failed":
			return boom
		case "long":
			return errors.New(strings.Repeat("x", 10_000))
		case "dead":
			return fmt.Errorf("wrapped: %w", emq.Dead(boom))
		case "in":
			return emq.RetryIn(2*time.Hour, boom)
		case "snooze":
			return emq.Snooze(time.Hour)
		case "drop":
			return emq.Drop(boom)
		}
		panic("no such address")
	})
	ids := map[string]emq.ID{}
	for _, to := range []string{"done", "failed", "dead", "in", "snooze", "drop", "panic", "long"} {
		r, err := q.Enqueue(t.Context(), mail{to})
		require.NoError(t, err)
		require.True(t, r.Created)
		ids[to] = r.ID
	}
	conn, name := s.Conn(), wire.Queue("mail")
	require.Equal(t, wire.Integer(1), conn.Do(name.Enqueue("JOBforeign", "no json")...))
	r := run(t, w)
	got := map[string]emq.Outcome{}
	for _, e := range events.wait(t, 9) {
		for to, id := range ids {
			if id == e.ID {
				got[to] = e.Outcome
			}
		}
		if e.ID == "JOBforeign" {
			got["foreign"] = e.Outcome
		}
	}
	r.stop(t)
	require.Equal(t, map[string]emq.Outcome{"done": emq.Completed, "failed": emq.Retried, "dead": emq.Died, "in": emq.Retried,
		"snooze": emq.Snoozed, "drop": emq.Dropped, "panic": emq.Retried, "long": emq.Retried, "foreign": emq.Died}, got)
	require.Equal(t, map[string]string{"completed": "2", "scheduled": "5", "dead": "2"}, sizes(t, s, "mail"))
	require.Equal(t, emq.Job[mail]{ID: ids["done"], Queue: "mail", Value: mail{"done"}, Token: 1}, seen)

	row := func(id emq.ID, field string) string { return text(conn.Do("HGET", name.Row(string(id)), field)) }
	require.Equal(t, "boom", row(ids["failed"], "last_error"))
	require.Equal(t, "1", row(ids["failed"], "failures"))
	require.Equal(t, "wrapped: boom", row(ids["dead"], "last_error"))
	require.Equal(t, "<nil>", row(ids["snooze"], "failures"))
	require.Contains(t, row("JOBforeign", "last_error"), "the payload can't be decoded: invalid character")
	stack := row(ids["panic"], "last_error")
	require.Contains(t, stack, "panic: no such address\n")
	require.Contains(t, stack, "worker_test.go")
	require.Len(t, row(ids["long"], "last_error"), 4096)
	due := func(id emq.ID) string { return conn.Do("ZSCORE", name.Schedule(), string(id)) }
	require.Greater(t, due(ids["in"]), due(ids["failed"]))
}

// A worker has no more jobs than handlers, even with many to be had, and each job is done once.
func TestClaimsNoMoreThanSlots(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	const jobs, slots = 500, 7
	q := emq.NewQueue[int](c, "q")
	n, err := q.EnqueueMany(t.Context(), slices.Values(make([]int, jobs)))
	require.NoError(t, err)
	require.Equal(t, jobs, n)
	looker := s.Conn()
	var mu sync.Mutex
	most := 0
	var events gathered
	var atOnce, top atomic.Int64
	w := emq.NewWorker(c, quiet, events.observe())
	emq.Handle(w, q, func(context.Context, *emq.Job[int]) error {
		now := atOnce.Add(1)
		defer atOnce.Add(-1)
		mu.Lock()
		defer mu.Unlock()
		top.Store(max(top.Load(), now))
		// Those that are being settled have no handler any more, so there are up to twice as many.
		active, _ := wire.Value(looker.Do("ZCARD", wire.Queue("q").Active())).(int64)
		most = max(most, int(active))
		return nil
	}, emq.Concurrency(slots))
	r := run(t, w)
	events.wait(t, jobs)
	r.stop(t)
	require.Equal(t, int64(slots), top.Load(), "handlers at a time")
	require.Greater(t, most, 1)
	require.Equal(t, map[string]string{"completed": fmt.Sprint(jobs)}, sizes(t, s, "q"))
	require.Equal(t, int64(jobs), w.Count(emq.Completed))
}

// Handlers that hold their jobs: no lease begins before there is a handler for it.
func TestHoardsNothing(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	var release = make(chan struct{})
	begun := make(chan string, 100)
	w := emq.NewWorker(c, quiet, emq.Slots(3))
	for _, name := range []string{"a", "b"} {
		q := emq.NewQueue[int](c, name)
		_, err := q.EnqueueMany(t.Context(), slices.Values(make([]int, 10)))
		require.NoError(t, err)
		emq.Handle(w, q, func(context.Context, *emq.Job[int]) error {
			begun <- name
			<-release
			return nil
		}, emq.Concurrency(2))
	}
	r := run(t, w)
	for range 3 {
		<-begun
	}
	active := func() (n int64) {
		for _, name := range []string{"a", "b"} {
			n += wire.Value(s.Conn().Do("ZCARD", wire.Queue(name).Active())).(int64)
		}
		return n
	}
	require.Equal(t, int64(3), active())
	close(release)
	for range 17 {
		<-begun
	}
	store.WaitFor(t, "the end of the work", func() bool { return w.Count(emq.Completed) == 20 })
	r.stop(t)
}

// While a worker waits for one queue, another queue of it gets room and then a job: the wait takes in both.
func TestWaitTakesInQueueWithRoom(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	busy, idle := emq.NewQueue[int](c, "busy"), emq.NewQueue[int](c, "idle")
	release := make(chan struct{})
	var events gathered
	w := emq.NewWorker(c, quiet, events.observe())
	emq.Handle(w, busy, func(context.Context, *emq.Job[int]) error { <-release; return nil }, emq.Concurrency(1))
	emq.Handle(w, idle, func(context.Context, *emq.Job[int]) error { return nil })
	_, err := busy.Enqueue(t.Context(), 1)
	require.NoError(t, err)
	r := run(t, w)
	waiting := func(q emq.Queue[int], n int64) func() bool {
		return func() bool {
			st, err := q.Stats(t.Context())
			require.NoError(t, err)
			return st.Waiting == n
		}
	}
	store.WaitFor(t, "the wait for the idle queue alone", func() bool { return waiting(busy, 0)() && waiting(idle, 1)() })
	release <- struct{}{}
	store.WaitFor(t, "the wait for both", func() bool { return waiting(busy, 1)() && waiting(idle, 1)() })
	require.Contains(t, s.Conn().Do("INFO", "commandstats"), "cmdstat_client|unblock:calls=", "the wait was ended for that")
	close(release)
	for _, q := range []emq.Queue[int]{busy, idle} {
		_, err := q.Enqueue(t.Context(), 2)
		require.NoError(t, err)
	}
	events.wait(t, 3)
	r.stop(t)
}

// A handler that takes many leases keeps its job, and its neighbours' too.
func TestHeartbeat(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	const lease = 300 * time.Millisecond
	q := emq.NewQueue[int](c, "q", emq.Lease(lease))
	var extended atomic.Int64
	var events gathered
	w := emq.NewWorker(c, quiet, events.observe())
	emq.Handle(w, q, func(ctx context.Context, j *emq.Job[int]) error {
		// Until its deadline has been seen to move so many times.
		looker := s.Conn()
		defer looker.Close()
		last := ""
		store.WaitFor(t, "heartbeats", func() bool {
			if at := looker.Do("ZSCORE", wire.Queue("q").Active(), string(j.ID)); at != last {
				last = at
				extended.Add(1)
			}
			return extended.Load() > 40 || ctx.Err() != nil
		})
		return context.Cause(ctx)
	})
	_, err := q.EnqueueMany(t.Context(), slices.Values([]int{1, 2, 3, 4}))
	require.NoError(t, err)
	r := run(t, w)
	for _, e := range events.wait(t, 4) {
		require.Equal(t, emq.Completed, e.Outcome, e.Err)
		require.Equal(t, int64(1), e.Token)
	}
	r.stop(t)
	require.Equal(t, map[string]string{"completed": "4"}, sizes(t, s, "q"))
}

// A job that was removed, or claimed by another, ends its handler's context with ErrLeaseLost, and nothing is settled.
func TestLostLease(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	q := emq.NewQueue[int](c, "q", emq.Lease(300*time.Millisecond))
	causes := make(chan error, 2)
	var events gathered
	w := emq.NewWorker(c, quiet, events.observe())
	emq.Handle(w, q, func(ctx context.Context, j *emq.Job[int]) error {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil
	}, emq.Concurrency(1))
	job, err := q.Enqueue(t.Context(), 1)
	require.NoError(t, err)
	r := run(t, w)
	conn, name := s.Conn(), wire.Queue("q")
	store.WaitFor(t, "the claim", func() bool { return sizes(t, s, "q")["active"] == "1" })
	// Another has it.
	conn.Do("HSET", name.Row(string(job.ID)), "attempts", "7")
	require.Equal(t, emq.ErrLeaseLost, <-causes)
	e := events.wait(t, 1)[0]
	require.Equal(t, emq.Lost, e.Outcome)
	require.Equal(t, emq.ErrLeaseLost, e.Err)
	require.NotContains(t, sizes(t, s, "q"), "completed")
	// The pump brings it back, and the worker gets it again; now it is removed.
	store.WaitFor(t, "the second claim", func() bool { return text(conn.Do("HGET", name.Row(string(job.ID)), "attempts")) == "8" })
	n, err := q.Remove(t.Context(), emq.StateActive, job.ID)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, emq.ErrLeaseLost, <-causes)
	events.wait(t, 2)
	r.stop(t)
	require.Empty(t, sizes(t, s, "q"))
	require.NotContains(t, conn.Do("INFO", "commandstats"), "cmdstat_EMQ.MCOMPLETE", "nothing is told of a lost job")
}

// A handler's context is as one of context.WithCancelCause, looked at before its end or after it. Children of it need no goroutine.
func TestContext(t *testing.T) {
	type key struct{}
	values := context.WithValue(t.Context(), key{}, "a value")
	for _, c := range []struct{ cause, want error }{{emq.ErrLeaseLost, emq.ErrLeaseLost}, {nil, context.Canceled}} {
		early, end := emq.JobContext(context.WithoutCancel(values))
		late, endLate := emq.JobContext(context.WithoutCancel(values))
		require.Equal(t, "a value", early.Value(key{}))
		require.NoError(t, early.Err())
		require.NoError(t, context.Cause(early))
		_, limited := early.Deadline()
		require.False(t, limited)
		children := func(of context.Context) []context.Context {
			before := runtime.NumGoroutine()
			list := []context.Context{of, context.WithValue(of, key{}, 1)}
			for range 100 {
				child, cancel := context.WithTimeout(of, time.Hour)
				t.Cleanup(cancel)
				list = append(list, child)
			}
			require.Less(t, runtime.NumGoroutine(), before+50)
			return list
		}
		all := children(early)
		ended := make(chan error, 1)
		context.AfterFunc(early, func() { ended <- context.Cause(early) })
		for _, end := range []func(error){end, endLate} {
			end(c.cause)
			end(emq.ErrTimeout) // too late
		}
		require.Equal(t, c.want, <-ended)
		for _, ctx := range append(all, children(late)...) {
			<-ctx.Done()
			require.Equal(t, context.Canceled, ctx.Err())
			require.Equal(t, c.want, context.Cause(ctx))
		}
	}
}

// What a handler began under its context ends with the job, and has the values of Run's context.
func TestContextOfJob(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	q := emq.NewQueue[bool](c, "q")
	type key struct{}
	kept := make(chan context.Context, 2)
	w := emq.NewWorker(c, quiet)
	emq.Handle(w, q, func(ctx context.Context, j *emq.Job[bool]) error {
		kept <- ctx
		if j.Value {
			return ctx.Err()
		}
		return nil
	})
	_, err := q.EnqueueMany(t.Context(), slices.Values([]bool{false, true}))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithValue(t.Context(), key{}, "of Run"))
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	for range 2 {
		ctx := <-kept
		require.Equal(t, "of Run", ctx.Value(key{}))
		<-ctx.Done()
		require.Equal(t, context.Canceled, context.Cause(ctx))
	}
	stop()
	require.NoError(t, <-done)
}

// Handlers that wait for one another run, as many as there are slots, whoever hands them their jobs.
func TestAllSlotsAtOnce(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	const slots, rounds = 50, 20
	q := emq.NewQueue[int](c, "q")
	_, err := q.EnqueueMany(t.Context(), slices.Values(make([]int, slots*rounds)))
	require.NoError(t, err)
	var mu sync.Mutex
	came, all := 0, make(chan struct{})
	w := emq.NewWorker(c, quiet)
	emq.Handle(w, q, func(ctx context.Context, _ *emq.Job[int]) error {
		mu.Lock()
		together := all
		came++
		number := came
		if number%slots == 0 {
			close(all)
			all = make(chan struct{})
		}
		mu.Unlock()
		if <-together; number%7 == 0 {
			runtime.Goexit()
		}
		return nil
	}, emq.Concurrency(slots))
	r := run(t, w)
	store.WaitFor(t, "all rounds", func() bool { return w.Count(emq.Completed)+w.Count(emq.Retried) == slots*rounds })
	r.stop(t)
}

// A row without a payload is a dead letter, for whatever handler.
func TestNoPayload(t *testing.T) {
	s := serve(t)
	c, conn := client(t, s), s.Conn()
	var events gathered
	w := emq.NewWorker(c, quiet, events.observe())
	one, many := emq.NewQueue[string](c, "one", emq.Encoding(emq.Raw)), emq.NewQueue[string](c, "many", emq.Encoding(emq.Raw))
	var handled atomic.Int64
	emq.Handle(w, one, func(context.Context, *emq.Job[string]) error { handled.Add(1); return nil })
	emq.HandleBatch(w, many, 1, 0, func(context.Context, []*emq.Job[string]) []error { handled.Add(1); return nil })
	for _, q := range []emq.Queue[string]{one, many} {
		r, err := q.Enqueue(t.Context(), "")
		require.NoError(t, err)
		conn.Do("HDEL", wire.Queue(q.Name()).Row(string(r.ID)), "payload")
		_, err = q.Enqueue(t.Context(), "")
		require.NoError(t, err)
	}
	r := run(t, w)
	events.wait(t, 4)
	r.stop(t)
	require.Equal(t, int64(2), handled.Load())
	for _, q := range []string{"one", "many"} {
		require.Equal(t, map[string]string{"completed": "1", "dead": "1"}, sizes(t, s, q))
	}
}

// A worker that stops lets its handlers end within the grace, ends the others' contexts, and gives their jobs back uncounted,
// also those of handlers that do not return.
func TestStop(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	q := emq.NewQueue[string](c, "q", emq.Lease(time.Hour))
	release, stuck := make(chan struct{}), make(chan struct{})
	begun := make(chan struct{}, 3)
	var events gathered
	var causes sync.Map
	w := emq.NewWorker(c, quiet, events.observe(), emq.Grace(100*time.Millisecond))
	emq.Handle(w, q, func(ctx context.Context, j *emq.Job[string]) error {
		begun <- struct{}{}
		switch j.Value {
		case "ends":
			<-release
			return nil
		case "listens":
			<-ctx.Done()
			causes.Store(j.Value, context.Cause(ctx))
			return ctx.Err()
		}
		<-stuck
		return nil
	}, emq.Concurrency(3))
	_, err := q.EnqueueMany(t.Context(), slices.Values([]string{"ends", "listens", "sticks", "waits"}))
	require.NoError(t, err)
	r := run(t, w)
	for range 3 {
		<-begun
	}
	r.cancel()
	release <- struct{}{}
	r.stop(t)
	require.Equal(t, map[string]string{"completed": "1", "pending": "3"}, sizes(t, s, "q"))
	got := map[emq.Outcome]int{}
	for _, e := range events.all() {
		got[e.Outcome]++
	}
	require.Equal(t, map[emq.Outcome]int{emq.Completed: 1, emq.Returned: 2}, got)
	cause, _ := causes.Load("listens")
	require.Equal(t, emq.ErrStopping, cause)
	jobs, err := q.Jobs(t.Context(), emq.StatePending, "", 10)
	require.NoError(t, err)
	for _, j := range jobs {
		require.Zero(t, j.Failures)
		require.Zero(t, j.LostLeases)
	}
	close(stuck)
}

// A worker that waits for jobs stops at once, and nobody waits after it: the next job stays pending.
func TestStopWhileWaiting(t *testing.T) {
	s := serve(t)
	s.Conn().Must("SET {emq}:version echomq:6.0.0")
	c := client(t, s)
	q := emq.NewQueue[int](c, "q")
	for range 20 {
		w := emq.NewWorker(c, quiet)
		emq.Handle(w, q, func(context.Context, *emq.Job[int]) error { return nil })
		r := run(t, w)
		store.WaitFor(t, "the wait", func() bool {
			st, err := q.Stats(t.Context())
			require.NoError(t, err)
			return st.Waiting == 1
		})
		r.stop(t)
		st, err := q.Stats(t.Context())
		require.NoError(t, err)
		require.Zero(t, st.Waiting)
	}
	require.Contains(t, s.Conn().Do("INFO", "commandstats"), "cmdstat_client|unblock:calls=", "the waits were ended for that")
	_, err := q.Enqueue(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"pending": "1"}, sizes(t, s, "q"))
}

// Workers that stop and start while jobs come: each job is done, none fails, none is claimed and then forgotten until its lease
// ends, which is an hour.
func TestStopUnderLoad(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	const jobs = 3000
	q := emq.NewQueue[int](c, "q", emq.Lease(time.Hour))
	var mu sync.Mutex
	done := map[int]int{}
	produced := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < jobs && err == nil; i++ {
			_, err = q.Enqueue(context.Background(), i)
		}
		produced <- err
	}()
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(done)
	}
	for round := 0; count() < jobs; round++ {
		w := emq.NewWorker(c, quiet, emq.Grace(time.Minute))
		emq.Handle(w, q, func(_ context.Context, j *emq.Job[int]) error {
			mu.Lock()
			defer mu.Unlock()
			done[j.Value]++
			return nil
		}, emq.Concurrency(8))
		r, before := run(t, w), count()
		store.WaitFor(t, "some work", func() bool { return count() >= min(before+100, jobs) })
		r.stop(t)
		require.Zero(t, w.Count(emq.Lost))
		require.NotContains(t, sizes(t, s, "q"), "active")
		require.Less(t, round, 100)
	}
	require.NoError(t, <-produced)
	for i, n := range done {
		require.Equal(t, 1, n, "job %d", i)
	}
	require.Equal(t, map[string]string{"completed": fmt.Sprint(jobs)}, sizes(t, s, "q"))
}

// A handler that ends its goroutine, as a test's FailNow does, has failed; its slot is free.
func TestGoexit(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	q := emq.NewQueue[int](c, "q")
	var events gathered
	w := emq.NewWorker(c, quiet, events.observe())
	emq.Handle(w, q, func(context.Context, *emq.Job[int]) error { runtime.Goexit(); return nil }, emq.Concurrency(1))
	_, err := q.EnqueueMany(t.Context(), slices.Values([]int{1, 2}))
	require.NoError(t, err)
	r := run(t, w)
	for _, e := range events.wait(t, 2) {
		require.Equal(t, emq.Retried, e.Outcome)
		require.ErrorContains(t, e.Err, "ended its goroutine")
	}
	r.stop(t)
}

func TestTimeout(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	q := emq.NewQueue[int](c, "q")
	var events gathered
	w := emq.NewWorker(c, quiet, events.observe())
	emq.Handle(w, q, func(ctx context.Context, _ *emq.Job[int]) error {
		<-ctx.Done()
		return ctx.Err()
	}, emq.Timeout(time.Millisecond))
	_, err := q.Enqueue(t.Context(), 1)
	require.NoError(t, err)
	r := run(t, w)
	e := events.wait(t, 1)[0]
	r.stop(t)
	require.Equal(t, emq.Retried, e.Outcome)
	require.ErrorIs(t, e.Err, emq.ErrTimeout)
}

func TestMiddleware(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	q := emq.NewQueue[string](c, "q", emq.Encoding(emq.Raw))
	type key struct{}
	var events gathered
	var order []string
	named := func(name string) emq.Middleware {
		return func(next emq.TaskFunc) emq.TaskFunc {
			return func(ctx context.Context, task *emq.Task) error {
				order = append(order, name+" "+string(task.Payload))
				err := next(context.WithValue(ctx, key{}, name), task)
				var p *emq.PanicError
				if errors.As(err, &p) {
					order = append(order, fmt.Sprint(name, " saw ", p.Value))
				}
				return err
			}
		}
	}
	w := emq.NewWorker(c, quiet, events.observe(), emq.Wrap(named("outer"), named("inner")))
	emq.Handle(w, q, func(ctx context.Context, j *emq.Job[string]) error {
		order = append(order, fmt.Sprint("handler in ", ctx.Value(key{})))
		panic("oh")
	})
	_, err := q.Enqueue(t.Context(), "\xff\x00")
	require.NoError(t, err)
	r := run(t, w)
	events.wait(t, 1)
	r.stop(t)
	require.Equal(t, []string{"outer \xff\x00", "inner \xff\x00", "handler in inner", "inner saw oh", "outer saw oh"}, order)
}

// A batch is full, or what came within the wait; each job is settled by its own error.
func TestBatch(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	q := emq.NewQueue[int](c, "q", emq.Failures(5, emq.Constant(time.Hour)))
	var events gathered
	var mu sync.Mutex
	var batches []int
	w := emq.NewWorker(c, quiet, events.observe())
	emq.HandleBatch(w, q, 10, 50*time.Millisecond, func(_ context.Context, jobs []*emq.Job[int]) []error {
		mu.Lock()
		defer mu.Unlock()
		batches = append(batches, len(jobs))
		errs := make([]error, len(jobs))
		for i, j := range jobs {
			switch j.Value % 5 {
			case 1:
				errs[i] = errors.New("boom")
			case 2:
				errs[i] = emq.Dead(errors.New("boom"))
			}
		}
		return errs
	})
	var values []int
	for i := range 25 {
		values = append(values, i)
	}
	_, err := q.EnqueueMany(t.Context(), slices.Values(values))
	require.NoError(t, err)
	r := run(t, w)
	events.wait(t, 25)
	r.stop(t)
	require.Equal(t, []int{10, 10, 5}, batches)
	require.Equal(t, map[string]string{"completed": "15", "scheduled": "5", "dead": "5"}, sizes(t, s, "q"))
}

// A job that is lost before its batch is full is not handed to the handler.
func TestBatchLosesOne(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	q := emq.NewQueue[int](c, "q", emq.Lease(300*time.Millisecond))
	var events gathered
	got := make(chan []int, 1)
	w := emq.NewWorker(c, quiet, events.observe())
	emq.HandleBatch(w, q, 3, time.Hour, func(_ context.Context, jobs []*emq.Job[int]) []error {
		var values []int
		for _, j := range jobs {
			values = append(values, j.Value)
		}
		got <- values
		return nil
	})
	first, err := q.Enqueue(t.Context(), 1)
	require.NoError(t, err)
	_, err = q.Enqueue(t.Context(), 2)
	require.NoError(t, err)
	r := run(t, w)
	conn, name := s.Conn(), wire.Queue("q")
	store.WaitFor(t, "the claims", func() bool { return sizes(t, s, "q")["active"] == "2" })
	require.Equal(t, wire.Integer(1), conn.Do(name.Complete(string(first.ID), "1")...), "somebody else settles it")
	grows := func(counter string) {
		t.Helper()
		n := conn.Info(counter)
		store.WaitFor(t, counter, func() bool { return conn.Info(counter) != n })
	}
	store.WaitFor(t, "the heartbeat that finds it gone", func() bool { return conn.Info("emq_mextend_gone") != "0" })
	grows("emq_mextend_extended") // so the one before was read
	_, err = q.Enqueue(t.Context(), 3)
	require.NoError(t, err)
	require.Equal(t, []int{2, 3}, <-got)
	events.wait(t, 3)
	r.stop(t)
	require.Equal(t, []int64{2, 1}, []int64{w.Count(emq.Completed), w.Count(emq.Lost)})
}

// The errors of a batch that panics, or answers for another number of jobs, are those of all its jobs.
func TestBatchThatGoesWrong(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	for i, c2 := range []struct {
		do   func(context.Context, []*emq.Job[int]) []error
		want string
	}{
		{func(context.Context, []*emq.Job[int]) []error { panic("oh") }, "panic: oh"},
		{func(context.Context, []*emq.Job[int]) []error { return make([]error, 7) }, "returned 7 errors for 2 jobs"},
	} {
		q := emq.NewQueue[int](c, fmt.Sprint("q", i))
		var events gathered
		w := emq.NewWorker(c, quiet, events.observe())
		emq.HandleBatch(w, q, 2, time.Hour, c2.do)
		_, err := q.EnqueueMany(t.Context(), slices.Values([]int{1, 2}))
		require.NoError(t, err)
		r := run(t, w)
		for _, e := range events.wait(t, 2) {
			assert.Equal(t, emq.Retried, e.Outcome)
			assert.ErrorContains(t, e.Err, c2.want)
		}
		r.stop(t)
	}
}

// What a worker can't begin with ends its Run; nothing has run.
func TestCannotRun(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	nop := func(context.Context, *emq.Job[int]) error { return nil }
	for what, c := range map[string]struct {
		make func() *emq.Worker
		want string
	}{
		"no queue": {func() *emq.Worker { return emq.NewWorker(c) }, "no queue"},
		"bad name": {func() *emq.Worker {
			w := emq.NewWorker(c)
			emq.Handle(w, emq.NewQueue[int](c, "a{b"), nop)
			return w
		}, "can't be a queue's name"},
		"twice": {func() *emq.Worker {
			w := emq.NewWorker(c)
			emq.Handle(w, emq.NewQueue[int](c, "a"), nop)
			emq.Handle(w, emq.NewQueue[int](c, "a"), nop)
			return w
		}, "has a handler already"},
		"another client's": {func() *emq.Worker {
			w := emq.NewWorker(client(t, s))
			emq.Handle(w, emq.NewQueue[int](c, "a"), nop)
			return w
		}, "another client's"},
		"concurrency": {func() *emq.Worker {
			w := emq.NewWorker(c)
			emq.Handle(w, emq.NewQueue[int](c, "a"), nop, emq.Concurrency(0))
			return w
		}, "at least 1"},
		"batch": {func() *emq.Worker {
			w := emq.NewWorker(c)
			emq.HandleBatch(w, emq.NewQueue[int](c, "a"), 0, 0, func(context.Context, []*emq.Job[int]) []error { return nil })
			return w
		}, "can't have 0 jobs"},
	} {
		require.ErrorContains(t, c.make().Run(t.Context()), c.want, what)
	}
	s.Conn().Must("SET {emq}:version echomq:4.0.0")
	w := emq.NewWorker(c, quiet)
	emq.Handle(w, emq.NewQueue[int](c, "a"), nop)
	err := w.Run(t.Context())
	require.ErrorIs(t, err, emq.ErrFence)
	require.False(t, strings.Contains(err.Error(), "fatal"))
	require.ErrorContains(t, w.Run(t.Context()), "has run already")
}
