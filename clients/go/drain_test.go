package emq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/clients/go"
	"emq/test/store"
	"emq/test/wire"
)

// A server is added to two others: its share of the jobs moves to it, with failures and dead letters, while workers
// continue. Then it is removed.
func TestDrain(t *testing.T) {
	places := map[string]*store.Place{}
	urls := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		places[name] = serve(t)
		urls[name] = "valkey://" + places[name].Addr()
	}
	openAll := func(names ...string) *emq.Client {
		some := map[string]string{}
		for _, name := range names {
			some[name] = urls[name]
		}
		c, err := emq.OpenAll(some)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	two, three := openAll("a", "b"), openAll("a", "b", "c")
	var names []string
	var moving []string
	for i := range 6 {
		name := fmt.Sprint("queue-", i)
		names = append(names, name)
		if three.Server(name) == "c" {
			moving = append(moving, name)
		}
	}
	require.NotEmpty(t, moving)

	held, holding := make(chan struct{}), make(chan struct{}, len(names))
	w := emq.NewWorker(two, quiet)
	for _, name := range names {
		q := emq.NewQueue[string](two, name, emq.Failures(2, emq.Constant(time.Hour)), emq.Encoding(emq.Raw))
		emq.Handle(w, q, func(_ context.Context, j *emq.Job[string]) error {
			switch j.Value {
			case "held":
				holding <- struct{}{}
				<-held
				return nil
			case "dead":
				return emq.Dead(errors.New("boom"))
			}
			return errors.New("boom")
		})
		_, err := q.EnqueueMany(t.Context(), slices.Values([]string{"held", "dead", "fails"}))
		require.NoError(t, err)
	}
	r := run(t, w)
	for _, name := range names {
		<-holding
		at := places[two.Server(name)]
		store.WaitFor(t, "the failures", func() bool {
			n := sizes(t, at, name)
			return n["dead"] == "1" && n["scheduled"] == "1"
		})
		q := emq.NewQueue[string](two, name, emq.Encoding(emq.Raw))
		require.NoError(t, q.Pause(t.Context(), 0))
		_, err := q.EnqueueMany(t.Context(), slices.Values(make([]string, 250)))
		require.NoError(t, err)
	}
	drained := make(chan error, 1)
	var moved int
	go func() {
		var err error
		moved, err = three.Drain(t.Context())
		drained <- err
	}()
	store.WaitFor(t, "all but the job in hand", func() bool {
		return slices.ContainsFunc(moving, func(name string) bool { return sizes(t, places["c"], name)["pending"] == "250" })
	})
	close(held)
	require.NoError(t, <-drained)
	require.Equal(t, 252*len(moving), moved)
	r.stop(t)

	for _, name := range names {
		at := places[three.Server(name)]
		want := map[string]string{"pending": "250", "scheduled": "1", "dead": "1"}
		if !slices.Contains(moving, name) {
			want["completed"] = "1"
		}
		require.Equal(t, want, sizes(t, at, name), name)
		q := emq.NewQueue[string](three, name, emq.Encoding(emq.Raw))
		later, err := q.Jobs(t.Context(), emq.StateScheduled, "", 1)
		require.NoError(t, err)
		require.Equal(t, []any{"fails", 1, "boom", int64(1)}, []any{later[0].Value, later[0].Failures, later[0].LastError, later[0].Token})
		require.WithinDuration(t, time.Now().Add(time.Hour), later[0].Due, time.Minute)
		require.Empty(t, at.Keyspace().Check(wire.Wire6))
	}
	for _, name := range moving {
		old := places[two.Server(name)].Conn()
		require.Equal(t, wire.Integer(0), old.Do("EXISTS", wire.Queue(name).Pending(), wire.Queue(name).Dead(), wire.Queue(name).Base()+"meta"))
	}

	all, err := three.Queues(t.Context())
	require.NoError(t, err)
	require.Equal(t, names, all)
	n, err := three.DrainTo(t.Context(), two)
	require.NoError(t, err)
	require.Equal(t, 252*len(moving), n)
	for _, name := range names {
		require.Equal(t, "250", sizes(t, places[two.Server(name)], name)["pending"])
	}
}

// A store of another wire gets no jobs, and none is lost.
func TestDrainToAnotherWire(t *testing.T) {
	a, b := serve(t), serve(t)
	from := open(t, "valkey://"+a.Addr())
	to, err := emq.OpenAll(map[string]string{"b": "valkey://" + b.Addr()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = to.Close() })
	b.Conn().Must("SET {emq}:version echomq:4.0.0")
	_, err = emq.NewQueue[int](from, "q").Enqueue(t.Context(), 1)
	require.NoError(t, err)
	n, err := from.DrainTo(t.Context(), to, "q")
	require.ErrorIs(t, err, emq.ErrFence)
	require.Zero(t, n)
	require.Equal(t, map[string]string{"pending": "1"}, sizes(t, a, "q"))
	require.Empty(t, sizes(t, b, "q"))
}
