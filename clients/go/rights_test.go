package emq_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/clients/go"
	"emq/test/store"
)

// What the page says that a user needs is enough, and each right is needed.
func TestRights(t *testing.T) {
	s := serve(t)
	s.Conn().Must("SET {emq}:version echomq:6.0.0")
	s.Conn().Must("ACL SETUSER app on >secret ~emq:{mails}:* ~{emq}:version resetchannels +@emq +hello +client|setinfo +client|id +client|unblock")
	c := open(t, "valkey://app:secret@"+s.Addr())
	q := emq.NewQueue[int](c, "mails", emq.Failures(9, emq.Constant(time.Hour)))
	work := func(q emq.Queue[int]) *emq.Worker {
		var events gathered
		w := emq.NewWorker(c, quiet, events.observe())
		emq.Handle(w, q, func(_ context.Context, j *emq.Job[int]) error {
			if j.Value == 1 {
				return nil
			}
			return errors.New("boom")
		})
		r := run(t, w)
		conn := s.Conn()
		store.WaitFor(t, "the wait", func() bool { return blocked(conn) != "" })
		_, err := q.EnqueueMany(t.Context(), slices.Values([]int{1, 2}))
		require.NoError(t, err)
		events.wait(t, 2)
		store.WaitFor(t, "the wait", func() bool { return blocked(conn) != "" })
		r.stop(t)
		require.Empty(t, blocked(conn))
		return w
	}
	w := work(q)
	require.Equal(t, int64(1), w.Count(emq.Completed))
	require.NoError(t, q.Pause(t.Context(), 0))
	require.NoError(t, q.Resume(t.Context()))
	_, err := q.Stats(t.Context())
	require.NoError(t, err)

	_, err = q.Jobs(t.Context(), emq.StateScheduled, "", 9)
	require.ErrorContains(t, err, "NOPERM")
	s.Conn().Must("ACL SETUSER app +zrange +zrank +zscore +hmget +hget")
	jobs, err := q.Jobs(t.Context(), emq.StateScheduled, "", 9)
	require.NoError(t, err)
	_, err = q.Jobs(t.Context(), emq.StateScheduled, jobs[0].ID, 9)
	require.NoError(t, err)
	work(emq.NewQueue[int](c, "mails", emq.Failures(9, emq.Constant(time.Hour)), emq.ExactFailures()))
	refusals := s.Conn().Do("ACL", "LOG")
	require.True(t, strings.HasPrefix(refusals, "*1\r\n"), "one refusal, that of Jobs: %s", refusals)

	// Without CLIENT UNBLOCK a worker stops too, when its wait is over.
	s.Conn().Must("ACL SETUSER app -client|unblock")
	w = emq.NewWorker(c, quiet)
	emq.Handle(w, q, func(context.Context, *emq.Job[int]) error { return nil })
	r := run(t, w)
	conn := s.Conn()
	store.WaitFor(t, "the wait", func() bool { return blocked(conn) != "" })
	r.stop(t)

	// A queue of others is refused at once.
	w = emq.NewWorker(c, quiet)
	emq.Handle(w, emq.NewQueue[int](c, "others"), func(context.Context, *emq.Job[int]) error { return nil })
	require.ErrorContains(t, w.Run(t.Context()), "NOPERM")
}
