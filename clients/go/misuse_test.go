package emq_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"emq/clients/go"
	"emq/test/store"
)

// rude is an error one method of which panics.
type rude struct{ method string }

func (e rude) panics(method string) bool {
	if e.method == method {
		panic("rude " + method)
	}
	return false
}

func (e rude) Error() string { e.panics("Error"); return "rude" }
func (e rude) Is(error) bool { return e.panics("Is") }
func (e rude) As(any) bool   { return e.panics("As") }
func (e rude) Unwrap() error { e.panics("Unwrap"); return nil }

// late is an error that gives its text once, and panics then.
type late struct{ asked bool }

func (e *late) Error() string {
	if e.asked {
		panic("too late")
	}
	e.asked = true
	return "late"
}

// An error that can't be asked is a failure whose text says so, or whatever the handler wants for the job; neither the worker nor a
// hook nor middleware is hurt.
func TestErrorThatPanics(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	for name, c2 := range map[string]struct {
		err  error
		want emq.Outcome
		text string
	}{
		"nil":    {(*net.OpError)(nil), emq.Retried, "*net.OpError"},
		"Error":  {rude{"Error"}, emq.Retried, "panic: rude Error"},
		"Is":     {rude{"Is"}, emq.Retried, "panic: rude Is"},
		"As":     {rude{"As"}, emq.Retried, "panic: rude As"},
		"Unwrap": {rude{"Unwrap"}, emq.Retried, "panic: rude Unwrap"},
		"late":   {nil, emq.Retried, "panic: too late"},
		"Dead":   {emq.Dead(rude{"Error"}), emq.Died, "panic: rude Error"},
		"joined": {errors.Join(errors.New("x"), (*net.OpError)(nil)), emq.Retried, "joinError"},
	} {
		for _, many := range []bool{false, true} {
			t.Run(fmt.Sprint(name, many), func(t *testing.T) {
				q := emq.NewQueue[int](c, fmt.Sprint(name, many), emq.Failures(2, emq.Constant(time.Hour)))
				var events gathered
				ask := func(next emq.TaskFunc) emq.TaskFunc {
					return func(ctx context.Context, t *emq.Task) error {
						err := next(ctx, t)
						_ = err != nil && errors.Is(err, context.Canceled)
						return err
					}
				}
				w := emq.NewWorker(c, quiet, events.observe(), emq.Wrap(ask))
				answer := func(v int) error {
					switch {
					case v != 1:
						return nil
					case name == "late":
						return new(late) // which nobody has asked
					}
					return c2.err
				}
				if many {
					emq.HandleBatch(w, q, 1, 0, func(_ context.Context, jobs []*emq.Job[int]) []error { return []error{answer(jobs[0].Value)} })
				} else {
					emq.Handle(w, q, func(_ context.Context, j *emq.Job[int]) error { return answer(j.Value) }, emq.Concurrency(1))
				}
				first, err := q.Enqueue(t.Context(), 1)
				require.NoError(t, err)
				_, err = q.Enqueue(t.Context(), 2)
				require.NoError(t, err)
				r := run(t, w)
				for _, e := range events.wait(t, 2) {
					if e.ID == first.ID {
						assert.Equal(t, c2.want, e.Outcome)
					} else {
						assert.Equal(t, emq.Completed, e.Outcome)
					}
				}
				r.stop(t)
				state := map[emq.Outcome]emq.State{emq.Retried: emq.StateScheduled, emq.Died: emq.StateDead}[c2.want]
				jobs, err := q.Jobs(t.Context(), state, "", 10)
				require.NoError(t, err)
				require.Len(t, jobs, 1)
				require.Equal(t, 1, jobs[0].Failures)
				require.Contains(t, jobs[0].LastError, c2.text)
			})
		}
	}
}

// failed enqueues a job whose handler fails with "boom", and returns what became of it.
func failed(t *testing.T, c *emq.Client, q emq.Queue[int]) emq.Event {
	t.Helper()
	var events gathered
	w := emq.NewWorker(c, quiet, events.observe())
	emq.Handle(w, q, func(context.Context, *emq.Job[int]) error { return errors.New("boom") })
	_, err := q.Enqueue(t.Context(), 1)
	require.NoError(t, err)
	r := run(t, w)
	defer r.stop(t)
	return events.wait(t, 1)[0]
}

// A backoff that panics has the job wait as it would by default; the failure keeps the handler's text.
func TestBackoffThatPanics(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	q := emq.NewQueue[int](c, "q", emq.Failures(2, func(int64) time.Duration { panic("no idea") }))
	require.Equal(t, emq.Retried, failed(t, c, q).Outcome)
	jobs, err := q.Jobs(t.Context(), emq.StateScheduled, "", 10)
	require.NoError(t, err)
	require.Len(t, jobs, 1)
	require.Regexp(t, `(?s)boom.*backoff.*panic: no idea`, jobs[0].LastError)
}

// A hook that panics loses no job, and keeps no other hook from its event.
func TestHookThatPanics(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	q := emq.NewQueue[int](c, "q")
	var events gathered
	var lines bytes.Buffer
	w := emq.NewWorker(c, emq.Log(slog.New(slog.NewTextHandler(&lines, nil))), emq.Observe(func(emq.Event) { panic("no hook") }), events.observe())
	emq.Handle(w, q, func(context.Context, *emq.Job[int]) error { return nil })
	_, err := q.EnqueueMany(t.Context(), slices.Values([]int{1, 2, 3}))
	require.NoError(t, err)
	r := run(t, w)
	events.wait(t, 3)
	r.stop(t)
	require.Equal(t, map[string]string{"completed": "3"}, sizes(t, s, "q"))
	require.Contains(t, lines.String(), "panic: no hook")
}

// A batch whose handler ends its goroutine has failed, as a job has.
func TestBatchGoexit(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	q := emq.NewQueue[int](c, "q")
	var events gathered
	w := emq.NewWorker(c, quiet, events.observe())
	emq.HandleBatch(w, q, 1, 0, func(context.Context, []*emq.Job[int]) []error { runtime.Goexit(); return nil })
	_, err := q.EnqueueMany(t.Context(), slices.Values([]int{1, 2}))
	require.NoError(t, err)
	r := run(t, w)
	for _, e := range events.wait(t, 2) {
		require.Equal(t, emq.Retried, e.Outcome)
		require.ErrorContains(t, e.Err, "ended its goroutine")
	}
	r.stop(t)
}

// fussy can't be decoded.
type fussy struct{}

func (*fussy) UnmarshalJSON([]byte) error { panic("fussy") }

// Where jobs are listed, a value that panics is one that does not decode.
func TestJobsThatPanic(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	_, err := emq.NewQueue[int](c, "q").Enqueue(t.Context(), 1)
	require.NoError(t, err)
	jobs, err := emq.NewQueue[fussy](c, "q").Jobs(t.Context(), emq.StatePending, "", 10)
	require.NoError(t, err)
	require.Len(t, jobs, 1)
	require.ErrorContains(t, jobs[0].Err, "panic: fussy")
	require.Equal(t, "1", string(jobs[0].Payload))
}

// What a worker is given that can't be is refused by its Run, with the first mistake; nothing runs.
func TestWorkerRefuses(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	do := func(context.Context, *emq.Job[int]) error { return nil }
	doMany := func(context.Context, []*emq.Job[int]) []error { return nil }
	of := func(q emq.Queue[int], do emq.Handler[int], opts ...emq.HandleOption) func(*emq.Worker) {
		return func(w *emq.Worker) { emq.Handle(w, q, do, opts...) }
	}
	with := func(opts ...emq.WorkerOption) []emq.WorkerOption { return opts }
	q := emq.NewQueue[int](c, "q")
	for _, c2 := range []struct {
		want   string
		opts   []emq.WorkerOption
		handle func(*emq.Worker)
	}{
		{`queue "q": the handler is nil`, nil, of(q, nil)},
		{`queue "q": the handler is nil`, nil, func(w *emq.Worker) { emq.HandleBatch(w, q, 1, 0, nil) }},
		{"a batch can't wait -1s", nil, func(w *emq.Worker) { emq.HandleBatch(w, q, 1, -time.Second, doMany) }},
		{"made by NewQueue", nil, of(emq.Queue[int]{}, do)},
		{"a lease of 999µs", nil, of(emq.NewQueue[int](c, "q", emq.Lease(999*time.Microsecond)), do)},
		{"a lease of -1s", nil, of(emq.NewQueue[int](c, "q", emq.Lease(-time.Second)), do)},
		{"the codec is nil", nil, of(emq.NewQueue[int](c, "q", emq.Encoding(nil)), do)},
		{"no server", nil, of(emq.NewQueue[int](nil, "q"), do)},
		{"no server", nil, of(emq.NewQueue[int](emq.UseAll(nil), "q"), do)},
		{"no server", nil, of(emq.NewQueue[int](emq.Use(nil), "q"), do)},
		{"a timeout of -1s", nil, of(q, do, emq.Timeout(-time.Second))},
		{"at least 1", nil, of(q, do, emq.Weight(0))},
		{"at most 1000000", nil, of(q, do, emq.Concurrency(1<<62))},
		{"at most 1000000", nil, of(q, do, emq.Weight(1<<62))},
		{"-1 slots", with(emq.Slots(-1)), of(q, do)},
		{"a grace of -1s", with(emq.Grace(-time.Second)), of(q, do)},
		{"the logger is nil", with(emq.Log(nil)), of(q, do)},
		{"a hook is nil", with(emq.Observe(nil)), of(q, do)},
		{"middleware is nil", with(emq.Wrap(nil)), of(q, do)},
		{"middleware gives no TaskFunc", with(emq.Wrap(func(emq.TaskFunc) emq.TaskFunc { return nil })), of(q, do)},
		{"-1 slots", with(emq.Slots(-1)), of(q, nil)},
	} {
		w := emq.NewWorker(c, c2.opts...)
		c2.handle(w)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		assert.ErrorContains(t, w.Run(ctx), c2.want)
		cancel()
	}
	w := emq.NewWorker(nil)
	emq.Handle(w, q, do)
	require.ErrorContains(t, w.Run(t.Context()), "another client's")
}

// A queue that is handled when the worker runs already ends its Run, whose other jobs are settled.
func TestHandleTooLate(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	q := emq.NewQueue[int](c, "q")
	w := emq.NewWorker(c, quiet)
	emq.Handle(w, q, func(context.Context, *emq.Job[int]) error {
		emq.Handle(w, emq.NewQueue[int](c, "late"), func(context.Context, *emq.Job[int]) error { return nil })
		return nil
	})
	_, err := q.Enqueue(t.Context(), 1)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.ErrorContains(t, w.Run(ctx), `queue "late" is handled too late`)
	require.Equal(t, map[string]string{"completed": "1"}, sizes(t, s, "q"))
}

// Without a backoff a queue has the default's.
func TestNoBackoff(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	for name, b := range map[string]emq.Backoff{"nil": nil, "less than none": emq.Exponential(-time.Hour, -time.Minute)} {
		q := emq.NewQueue[int](c, name, emq.Failures(2, b))
		require.EqualError(t, failed(t, c, q).Err, "boom")
	}
}

// A job has one time at which it is due.
func TestDueTwice(t *testing.T) {
	c, err := emq.Open("valkey://127.0.0.1:1")
	require.NoError(t, err)
	defer c.Close()
	q := emq.NewQueue[int](c, "q")
	in, at := emq.In(time.Second), emq.At(time.UnixMilli(1_900_000_000_000))
	for want, opts := range map[string][]emq.JobOption{
		"due In or At, not both":                  {in, at},
		"In or At, not both":                      {at, in},
		"can't be due in -1s":                     {emq.In(-time.Second)},
		"can't be due in -1ns":                    {emq.In(-1)},
		"can't be due at 287396-":                 {emq.At(time.UnixMilli(1 << 53))},
		"can't be due in -2s":                     {emq.In(-2 * time.Second), emq.In(1)},
		"no job id: that is JOB and 11 base-62 d": {emq.As("user-17")},
	} {
		_, err := q.Enqueue(t.Context(), 1, opts...)
		require.ErrorContains(t, err, want)
		_, err = q.EnqueueMany(t.Context(), slices.Values([]int{1}), opts...)
		require.Error(t, err)
		_, err = q.EnqueueBatch(t.Context(), emq.NewJob[int]{Value: 1, Options: opts})
		require.ErrorContains(t, err, want)
	}
}

// What is said of a server is its name, if it has one, and never its password.
func TestURLs(t *testing.T) {
	const secret = "S3cret"
	for _, text := range []string{
		"valkey://u:S3cret@h:6379?mastr_set=x", "valkey://u:S3cret@h?S3cret=1", "valkey://u:S3cret@h?a=%zz", "valkey://u:S3cret@h?db=1;addr=x",
		"valkey://u:%zzS3cret@h", "valkey://u:S3cret/1@h:6379", "valkey://:12/S3cret@h", "valkey://u:12#S3cret@h", "valkey://u:12?S3cret@h", "valkey://u:S3cret?x@h:6379",
		"http://u:S3cret@h", "u:S3cret@h:6379", "valkey://u:S3cret@h:port", "valkey://u:S3cret@h/0/1", "valkey://u:S3cret@h/x", "valkey://u:S3cret @h",
		"valkey://u:S3cret@h?dial_timeout=S3cret", "valkeys://u:S3cret@h?skip_verify=S3cret", "unix://u:S3cret@run/valkey.sock", "",
	} {
		c, err := emq.Open(text)
		if !assert.Error(t, err, text) {
			require.NoError(t, c.Close())
			continue
		}
		require.NotContains(t, err.Error(), secret)
		require.NotContains(t, err.Error(), `""`)
		_, err = emq.OpenAll(map[string]string{"east": text})
		require.ErrorContains(t, err, `the URL of server "east"`)
		require.NotContains(t, err.Error(), secret)
	}
	for _, text := range []string{
		"valkey://u:p@h:6379/0", "redis://h", "valkeys://h?skip_verify=true", "rediss://h", "unix:///run/valkey.sock?db=1",
		"valkey://s1:26379?addr=s2:26379&master_set=m&client_name=n&protocol=2&client_cache=0&max_retries=0&dial_timeout=1s&write_timeout=1s&db=1",
		"valkey://u:p%40%2F%3F%23@h", "valkey://:p@h",
	} {
		c, err := emq.Open(text)
		require.NoError(t, err, text)
		require.NoError(t, c.Close())
	}
}

// A password that a server refuses is in no error and no line of the log.
func TestPasswordIsToldNobody(t *testing.T) {
	s := serve(t, "--requirepass", "right")
	c := open(t, "valkey://S3user:S3cret@"+s.Addr(), emq.Patience(0))
	var lines bytes.Buffer
	q := emq.NewQueue[int](c, "q")
	_, err := q.Enqueue(t.Context(), 1)
	require.ErrorContains(t, err, "WRONGPASS")
	require.NotContains(t, err.Error(), "S3cret")
	w := emq.NewWorker(c, emq.Log(slog.New(slog.NewTextHandler(&lines, nil))))
	emq.Handle(w, q, func(context.Context, *emq.Job[int]) error { return nil })
	err = w.Run(t.Context())
	require.ErrorContains(t, err, "WRONGPASS")
	require.NotContains(t, err.Error()+lines.String(), "S3cret")
}

// mute takes connections and answers nothing, as a port does that speaks no TLS, or a server that hangs.
type mute struct {
	net.Listener
	taken, ended atomic.Int64
}

func newMute(t *testing.T) *mute {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m := &mute{Listener: l}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			m.taken.Add(1)
			all.Go(func() {
				_, _ = io.Copy(io.Discard, c)
				m.ended.Add(1)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return m
}

// A connection that is not answered is given up when the caller's patience is over, and the error says whither it was; the wait for it
// ends with the context.
func TestConnectThatHangs(t *testing.T) {
	for scheme, want := range map[string]string{
		"valkeys": "by TLS: context deadline exceeded (is that a port for TLS?)",
		"valkey":  "",
	} {
		m := newMute(t)
		addr := m.Addr().String()
		_, err := emq.NewQueue[int](open(t, scheme+"://"+addr, emq.Patience(time.Second)), "q").Enqueue(t.Context(), 1)
		require.ErrorContains(t, err, "no connection to "+addr)
		require.ErrorContains(t, err, want)
		require.Equal(t, int64(1), m.taken.Load(), "tries")

		m = newMute(t)
		c := open(t, scheme+"://"+m.Addr().String())
		ctx, cancel := context.WithCancel(t.Context())
		tried := make(chan error)
		go func() {
			_, err := emq.NewQueue[int](c, "q").Enqueue(ctx, 1)
			tried <- err
		}()
		store.WaitFor(t, "the connection", func() bool { return m.taken.Load() == 1 })
		cancel()
		require.ErrorIs(t, <-tried, context.Canceled)
		require.Equal(t, int64(0), m.ended.Load(), "it was not waited for")
	}
}

// writer is a function that takes what is written.
type writer func([]byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }

// A line of the log names a server that has a name, and no other.
func TestLogNamesServers(t *testing.T) {
	for name, want := range map[string]string{"": `trying again" error=`, "east": `trying again" server=east error=`} {
		c, err := emq.OpenAll(map[string]string{name: "valkey://127.0.0.1:1"})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var lines bytes.Buffer
		w := emq.NewWorker(c, emq.Log(slog.New(slog.NewTextHandler(writer(func(b []byte) { lines.Write(b); cancel() }), nil))))
		emq.Handle(w, emq.NewQueue[int](c, "q"), func(context.Context, *emq.Job[int]) error { return nil })
		require.NoError(t, w.Run(ctx))
		require.Contains(t, lines.String(), want)
		require.NoError(t, c.Close())
	}
}
