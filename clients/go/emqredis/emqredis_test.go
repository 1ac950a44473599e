package emqredis_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"emq/clients/go"
	"emq/clients/go/emqredis"
	"emq/test/store"
)

func serve(t *testing.T) *store.Place {
	t.Helper()
	if os.Getenv("VALKEY_SERVER") == "" || os.Getenv("EMQ_MODULE") == "" {
		t.Skip("VALKEY_SERVER and EMQ_MODULE are not set: `make test-clients-go` sets them")
	}
	return store.Open(t, store.Pumped())
}

// Whatever the package asks of a connection, through go-redis: replies of each form, refusals, a wait that is ended.
func TestThroughGoRedis(t *testing.T) {
	s := serve(t)
	conn := emqredis.New(&redis.Options{Addr: s.Addr()})
	c := emq.Use(conn)
	t.Cleanup(func() { _ = c.Close() })
	q := emq.NewQueue[string](c, "q", emq.Failures(2, emq.Constant(time.Hour)))
	w := emq.NewWorker(c, emq.Log(slog.New(slog.DiscardHandler)))
	emq.Handle(w, q, func(_ context.Context, j *emq.Job[string]) error {
		if j.Value == "good" {
			return nil
		}
		return errors.New("boom")
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	store.WaitFor(t, "the wait", func() bool { return s.Conn().Info("emq_waiting_clients") == "1" })
	_, err := q.EnqueueMany(t.Context(), slices.Values([]string{"good", "bad", "good"}))
	require.NoError(t, err)
	store.WaitFor(t, "the work", func() bool { return w.Count(emq.Completed) == 2 && w.Count(emq.Retried) == 1 })
	store.WaitFor(t, "the wait", func() bool { return s.Conn().Info("emq_waiting_clients") == "1" })
	cancel()
	require.NoError(t, <-done)
	require.Equal(t, "0", s.Conn().Info("emq_waiting_clients"))

	later, err := q.Jobs(t.Context(), emq.StateScheduled, "", 10)
	require.NoError(t, err)
	require.Len(t, later, 1)
	require.Equal(t, "boom", later[0].LastError)
	require.WithinDuration(t, time.Now().Add(time.Hour), later[0].Due, time.Minute)
	st, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2}, []int64{st.Scheduled, st.Completed})
	require.ErrorContains(t, q.Limit(t.Context(), emq.Limits{Max: 1}), "ERR max and duration_ms")
	s.Conn().Must("SET {emq}:version echomq:4.0.0")
	_, err = q.Enqueue(t.Context(), "x")
	require.ErrorIs(t, err, emq.ErrFence)
	require.NoError(t, c.Close())
	_, err = q.Enqueue(t.Context(), "x")
	require.ErrorIs(t, err, emq.ErrClosed)
}

// A client whose settings would cost jobs is refused.
func TestWrap(t *testing.T) {
	good := redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, ReadTimeout: -1, ContextTimeoutEnabled: true}
	for want, change := range map[string]func(*redis.Options){
		"":                      func(*redis.Options) {},
		"MaxRetries":            func(o *redis.Options) { o.MaxRetries = 0 },
		"ReadTimeout":           func(o *redis.Options) { o.ReadTimeout = 0 },
		"ContextTimeoutEnabled": func(o *redis.Options) { o.ContextTimeoutEnabled = false },
	} {
		o := good
		change(&o)
		c := redis.NewClient(&o)
		_, err := emqredis.Wrap(c)
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want+" has to be")
		}
		require.NoError(t, c.Close())
	}
}
