package emq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/clients/go"
	"emq/test/store"
	"emq/test/wire"
)

func TestEnqueue(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	q := emq.NewQueue[mail](c, "mail")
	conn, name := s.Conn(), wire.Queue("mail")
	now, err := q.Enqueue(t.Context(), mail{"ann"})
	require.NoError(t, err)
	require.Equal(t, wire.Bulk(`{"to":"ann"}`), conn.Do("HGET", name.Row(string(now.ID)), "payload"))
	require.Equal(t, wire.Bulk("0"), conn.Do("ZSCORE", name.Pending(), string(now.ID)))

	own := emq.ID("JOB00000000001")
	r, err := q.Enqueue(t.Context(), mail{"bob"}, emq.As(own))
	require.NoError(t, err)
	require.Equal(t, emq.Receipt{ID: own, Created: true}, r)
	r, err = q.Enqueue(t.Context(), mail{"eve"}, emq.As(own))
	require.NoError(t, err)
	require.Equal(t, emq.Receipt{ID: own}, r)
	require.Equal(t, wire.Bulk(`{"to":"bob"}`), conn.Do("HGET", name.Row(string(own)), "payload"))

	due := time.UnixMilli(time.Now().Add(time.Hour).UnixMilli())
	at, err := q.Enqueue(t.Context(), mail{"at"}, emq.At(due))
	require.NoError(t, err)
	in, err := q.Enqueue(t.Context(), mail{"in"}, emq.In(2*time.Hour))
	require.NoError(t, err)
	later, err := q.Jobs(t.Context(), emq.StateScheduled, "", 10)
	require.NoError(t, err)
	require.Len(t, later, 2)
	require.Equal(t, at.ID, later[0].ID)
	require.Equal(t, due, later[0].Due)
	require.Equal(t, in.ID, later[1].ID)

	n, err := q.EnqueueMany(t.Context(), slices.Values([]mail{{"x"}, {"y"}}), emq.In(3*time.Hour))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, map[string]string{"pending": "2", "scheduled": "4"}, sizes(t, s, "mail"))
}

// Nothing is sent that can't be right.
func TestEnqueueRefuses(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	q := emq.NewQueue[any](c, "q")
	enqueue := func(q emq.Queue[any], v any, opts ...emq.JobOption) error {
		_, err := q.Enqueue(t.Context(), v, opts...)
		return err
	}
	require.ErrorContains(t, enqueue(q, 1, emq.As("JOB1")), "is no job id")
	require.ErrorContains(t, enqueue(q, 1, emq.In(time.Duration(1<<63-1)), emq.As("x")), "is no job id")
	require.ErrorContains(t, enqueue(q, 1, emq.At(time.UnixMilli(1<<60))), "can't be due")
	require.ErrorContains(t, enqueue(q, 1, emq.In(-time.Second)), "can't be due")
	require.ErrorContains(t, enqueue(q, make(chan int)), "unsupported type")
	require.ErrorContains(t, enqueue(emq.NewQueue[any](c, "q", emq.Encoding(emq.Raw)), 1), "takes []byte or string")
	for _, name := range []string{"", "{", "a}b", "a\x00"} {
		require.ErrorContains(t, enqueue(emq.NewQueue[any](c, name), 1), "can't be a queue's name")
	}
	require.ErrorContains(t, enqueue(emq.NewQueue[any](c, "q", emq.Lease(0)), 1), "a lease of 0s")
	require.ErrorContains(t, enqueue(emq.NewQueue[any](c, "q", emq.Failures(0, nil)), 1), "can't fail 0 times")
	_, err := q.EnqueueMany(t.Context(), slices.Values([]any{1}), emq.As("JOB00000000001"))
	require.ErrorContains(t, err, "can't have one id")
	n, err := q.EnqueueMany(t.Context(), slices.Values([]any{1, 2, make(chan int), 4}))
	require.ErrorContains(t, err, "unsupported type")
	require.Equal(t, 2, n)
	require.Equal(t, map[string]string{"pending": "2"}, sizes(t, s, "q"))

	s.Conn().Must("SET {emq}:version echomq:4.0.0")
	require.ErrorIs(t, enqueue(q, 1), emq.ErrFence)
	s.Conn().Must("SET {emq}:version echomq:6.0.0", "CONFIG SET maxmemory 1")
	require.ErrorIs(t, enqueue(q, 1), emq.ErrFull)
	s.Conn().Must("CONFIG SET maxmemory 0")

	_, err = emq.Open("http://localhost")
	require.ErrorContains(t, err, "it begins with valkey://")
	_, err = emq.OpenAll(nil)
	require.ErrorContains(t, err, "no server")
}

// A sequence is sent in calls of a hundred, all of it.
func TestEnqueueMany(t *testing.T) {
	s := serve(t)
	q := emq.NewQueue[string](client(t, s), "q", emq.Encoding(emq.Raw))
	n, err := q.EnqueueMany(t.Context(), func(yield func(string) bool) {
		for i := range 1234 {
			if !yield(strings.Repeat("x", i*10)) {
				return
			}
		}
	})
	require.NoError(t, err)
	require.Equal(t, 1234, n)
	require.Equal(t, map[string]string{"pending": "1234"}, sizes(t, s, "q"))
	jobs, err := q.Jobs(t.Context(), emq.StatePending, "", 1000)
	require.NoError(t, err)
	rest, err := q.Jobs(t.Context(), emq.StatePending, jobs[999].ID, 1000)
	require.NoError(t, err)
	for i, j := range append(jobs, rest...) {
		require.Len(t, j.Value, i*10, "in the order sent")
	}
	require.Len(t, rest, 234)
}

// A server that is not there is waited for, within the caller's patience.
func TestPatience(t *testing.T) {
	s := serve(t)
	require.NoError(t, s.Stop())
	q := emq.NewQueue[int](client(t, s, emq.Patience(time.Millisecond)), "q")
	_, err := q.Enqueue(t.Context(), 1)
	require.ErrorContains(t, err, "connection refused")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err = emq.NewQueue[int](client(t, s), "q").Enqueue(ctx, 1)
	require.ErrorIs(t, err, context.Canceled)

	sent := make(chan error)
	go func() {
		_, err := emq.NewQueue[int](client(t, s), "q").Enqueue(t.Context(), 2)
		sent <- err
	}()
	s.Start()
	require.NoError(t, <-sent)
	require.Equal(t, map[string]string{"pending": "1"}, sizes(t, s, "q"))
	c, err := emq.Open("valkey://" + s.Addr())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	_, err = emq.NewQueue[int](c, "q").Enqueue(t.Context(), 3)
	require.ErrorIs(t, err, emq.ErrClosed)
}

func TestOperate(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	q := emq.NewQueue[string](c, "q", emq.Failures(1, emq.Constant(0)))
	var events gathered
	w := emq.NewWorker(c, quiet, events.observe())
	emq.Handle(w, q, func(context.Context, *emq.Job[string]) error { return errors.New("boom") })
	_, err := q.EnqueueMany(t.Context(), slices.Values([]string{"a", "b", "c"}))
	require.NoError(t, err)
	conn := s.Conn()
	conn.Do(wire.Queue("q").Enqueue("JOBx", "no json")...)
	r := run(t, w)
	events.wait(t, 4)
	r.stop(t)

	dead, err := q.Jobs(t.Context(), emq.StateDead, "", 2)
	require.NoError(t, err)
	require.Len(t, dead, 2)
	more, err := q.Jobs(t.Context(), emq.StateDead, dead[1].ID, 10)
	require.NoError(t, err)
	require.Len(t, more, 2)
	require.Equal(t, "a", dead[0].Value)
	require.Equal(t, 1, dead[0].Failures)
	require.Equal(t, "boom", dead[0].LastError)
	require.Equal(t, emq.ID("JOBx"), more[1].ID)
	require.ErrorContains(t, more[1].Err, "invalid character")
	require.Equal(t, "no json", string(more[1].Payload))

	n, err := q.Requeue(t.Context(), emq.StateDead, dead[0].ID, "JOBnone")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	n, err = q.Remove(t.Context(), emq.StateAny, dead[1].ID, more[1].ID, "JOBnone")
	require.NoError(t, err)
	require.Equal(t, 2, n)
	_, err = q.Remove(t.Context(), "deed", dead[0].ID)
	require.ErrorContains(t, err, "ERR state")
	require.Equal(t, map[string]string{"pending": "1", "dead": "1"}, sizes(t, s, "q"))

	require.NoError(t, q.Pause(t.Context(), time.Hour))
	require.NoError(t, q.Limit(t.Context(), emq.Limits{Concurrency: 3, Max: 10, Per: time.Minute}))
	st, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.True(t, st.Paused)
	require.True(t, st.PausedUntil.After(time.Now().Add(30*time.Minute)))
	require.Equal(t, emq.Limits{Concurrency: 3, Max: 10, Per: time.Minute}, st.Limits)
	require.Equal(t, []int64{1, 0, 0, 1, 0, 4}, []int64{st.Pending, st.Active, st.Scheduled, st.Dead, st.Completed, st.Failed})
	require.NoError(t, q.Resume(t.Context()))
	require.NoError(t, q.Limit(t.Context(), emq.Limits{}))
	st, err = q.Stats(t.Context())
	require.NoError(t, err)
	require.False(t, st.Paused)
	require.Zero(t, st.PausedUntil)
	require.Zero(t, st.Limits)
	require.ErrorContains(t, q.Limit(t.Context(), emq.Limits{Max: 1}), "ERR max and duration_ms")

	for _, bad := range []func() error{
		func() error { _, err := q.Jobs(t.Context(), emq.StateAny, "", 1); return err },
		func() error { _, err := q.Jobs(t.Context(), emq.StateDead, "", 0); return err },
		func() error { _, err := q.Jobs(t.Context(), emq.StateScheduled, "JOBgone", 1); return err },
	} {
		require.ErrorContains(t, bad(), "emq: ")
	}
}

// A paused queue hands out nothing, and a worker that waits gets its jobs when the pause is over.
func TestPauseAndWorker(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	q := emq.NewQueue[int](c, "q")
	require.NoError(t, q.Pause(t.Context(), 0))
	_, err := q.EnqueueMany(t.Context(), slices.Values([]int{1, 2, 3}))
	require.NoError(t, err)
	var events gathered
	w := emq.NewWorker(c, quiet, events.observe())
	emq.Handle(w, q, func(context.Context, *emq.Job[int]) error { return nil })
	r := run(t, w)
	conn := s.Conn()
	for blocked(conn) == "" {
	}
	require.Empty(t, events.all())
	require.NoError(t, q.Resume(t.Context()))
	events.wait(t, 3)
	r.stop(t)
}

// The backoff counts claims, or failures alone if it is asked to.
func TestExactFailures(t *testing.T) {
	for _, exact := range []bool{false, true} {
		t.Run(fmt.Sprint(exact), func(t *testing.T) {
			s := serve(t)
			c := client(t, s)
			counted := make(chan int64, 1)
			opts := []emq.QueueOption{emq.Failures(9, func(n int64) time.Duration { counted <- n; return time.Hour })}
			if exact {
				opts = append(opts, emq.ExactFailures())
			}
			q := emq.NewQueue[int](c, "q", opts...)
			job, err := q.Enqueue(t.Context(), 1)
			require.NoError(t, err)
			// It was claimed four times already, and failed once.
			s.Conn().Do("HSET", wire.Queue("q").Row(string(job.ID)), "attempts", "4", "failures", "1")
			w := emq.NewWorker(c, quiet)
			emq.Handle(w, q, func(context.Context, *emq.Job[int]) error { return errors.New("boom") })
			run(t, w)
			require.Equal(t, map[bool]int64{false: 5, true: 2}[exact], <-counted)
		})
	}
}

// A batch has jobs for now and for later, with ids of their own or none; one that is there already is left alone, and tells so;
// a batch with a bad one puts nothing there.
func TestEnqueueBatch(t *testing.T) {
	s := serve(t)
	q := raw(client(t, s), "q")
	at := time.UnixMilli(4_000_000_000_000)
	own := emq.ID("JOB00000000001")
	job := func(v string, opts ...emq.JobOption) emq.NewJob[string] {
		return emq.NewJob[string]{Value: v, Options: opts}
	}
	batch := []emq.NewJob[string]{job("a"), job("b", emq.At(at)), job("c", emq.In(time.Hour)), job("d", emq.As(own)), job("e", emq.At(at), emq.As("JOB00000000002"))}
	receipts, err := q.EnqueueBatch(t.Context(), batch...)
	require.NoError(t, err)
	for i, r := range receipts {
		require.True(t, r.Created, i)
	}
	require.Equal(t, own, receipts[3].ID)
	require.Equal(t, map[string]string{"pending": "2", "scheduled": "3"}, sizes(t, s, "q"))
	require.Equal(t, 4e12, s.Keyspace()["emq:{q}:schedule"].(store.ZSet)[string(receipts[1].ID)])
	again, err := q.EnqueueBatch(t.Context(), batch[3], job("f"), batch[4])
	require.NoError(t, err)
	require.Equal(t, []bool{false, true, false}, []bool{again[0].Created, again[1].Created, again[2].Created})
	require.Equal(t, own, again[0].ID)

	digest := s.Conn().Do("DEBUG", "DIGEST")
	_, err = q.EnqueueBatch(t.Context(), job("g"), job("h", emq.As("JOBx")))
	require.Error(t, err)
	_, err = q.EnqueueBatch(t.Context(), make([]emq.NewJob[string], 1001)...)
	require.Error(t, err)
	require.Equal(t, digest, s.Conn().Do("DEBUG", "DIGEST"))
	require.Empty(t, s.Keyspace().Check(wire.Wire6))
}
