package emqtest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	"emq/clients/go"
	"emq/clients/go/emqtest"
	"emq/test/store"
)

var quiet = emq.Log(slog.New(slog.DiscardHandler))

// A job's whole life without a server: it fails, is due later, and is dead at its last failure.
func TestLife(t *testing.T) {
	s := emqtest.New()
	q := emq.NewQueue[string](s.Client(), "q", emq.Failures(2, emq.Constant(time.Hour)))
	work := func(answer error) (done int) {
		w := emq.NewWorker(s.Client(), quiet)
		emq.Handle(w, q, func(context.Context, *emq.Job[string]) error { done++; return answer }, emq.Concurrency(1))
		s.Work(t, w)
		return done
	}
	_, err := q.EnqueueMany(t.Context(), slices.Values([]string{"a", "b"}))
	require.NoError(t, err)
	_, err = q.Enqueue(t.Context(), "later", emq.In(30*time.Minute))
	require.NoError(t, err)
	boom := errors.New("boom")
	require.Equal(t, 2, work(boom))
	require.Zero(t, work(boom))
	s.Advance(30 * time.Minute)
	require.Equal(t, 1, work(nil))
	s.Advance(31 * time.Minute)
	require.Equal(t, 2, work(boom))
	dead, err := q.Jobs(t.Context(), emq.StateDead, "", 10)
	require.NoError(t, err)
	require.Len(t, dead, 2)
	require.Equal(t, []any{"a", 2, "boom", int64(2)}, []any{dead[0].Value, dead[0].Failures, dead[0].LastError, dead[0].Token})
	n, err := q.Requeue(t.Context(), emq.StateDead, dead[0].ID)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, 1, work(nil))
	st, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int64{0, 0, 0, 1, 2, 2}, []int64{st.Pending, st.Active, st.Scheduled, st.Dead, st.Completed, st.Failed})
}

// Work returns when the last job is done, however that falls together with its look: a change that it missed would have it wait
// for a minute and fail.
func TestWorkReturns(t *testing.T) {
	s := emqtest.New()
	q := emq.NewQueue[int](s.Client(), "q")
	for range 150 {
		_, err := q.EnqueueMany(t.Context(), slices.Values(make([]int, 200)))
		require.NoError(t, err)
		w := emq.NewWorker(s.Client(), quiet)
		emq.Handle(w, q, func(context.Context, *emq.Job[int]) error { return nil })
		s.Work(t, w)
	}
}

// A worker waits for a job, for one that is due, and is stopped while it waits.
func TestWaits(t *testing.T) {
	s := emqtest.New()
	q := emq.NewQueue[int](s.Client(), "q")
	w := emq.NewWorker(s.Client(), quiet)
	came := make(chan int)
	emq.Handle(w, q, func(_ context.Context, j *emq.Job[int]) error { came <- j.Value; return nil })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	for i := range 3 {
		_, err := q.Enqueue(t.Context(), i, emq.In(time.Duration(i)*time.Millisecond))
		require.NoError(t, err)
		require.Equal(t, i, <-came)
	}
	cancel()
	require.NoError(t, <-done)
}

// What a worker held is another's when its lease is over.
func TestLostLease(t *testing.T) {
	s := emqtest.New()
	q := emq.NewQueue[int](s.Client(), "q", emq.Lease(200*time.Millisecond))
	w := emq.NewWorker(s.Client(), quiet)
	causes := make(chan error, 1)
	emq.Handle(w, q, func(ctx context.Context, j *emq.Job[int]) error {
		if j.Token > 1 {
			return nil
		}
		s.Advance(time.Minute)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil
	})
	_, err := q.Enqueue(t.Context(), 1)
	require.NoError(t, err)
	s.Work(t, w)
	require.Equal(t, emq.ErrLeaseLost, <-causes)
	require.Equal(t, int64(1), w.Count(emq.Lost))
	require.Equal(t, int64(1), w.Count(emq.Completed))
}

// The same calls, by chance, get the same answers here and from a server.
func TestLikeAServer(t *testing.T) {
	if os.Getenv("VALKEY_SERVER") == "" || os.Getenv("EMQ_MODULE") == "" {
		t.Skip("VALKEY_SERVER and EMQ_MODULE are not set: `make test-clients-go` sets them")
	}
	place := store.Open(t, store.Module("--hz", "500"))
	memory := emqtest.New()
	seed := store.Seed(t)
	dice := rand.New(rand.NewPCG(seed, 0))
	conn := emq.Dial(valkey.ClientOption{InitAddress: []string{place.Addr()}})
	t.Cleanup(conn.Close)
	answers := map[string]int{}
	for history := range 30 {
		base := fmt.Sprintf("emq:{q%d}:", history)
		id := func() string { return fmt.Sprint("JOB", dice.IntN(6)) }
		token := func() string { return fmt.Sprint(dice.IntN(4)) }
		some := func(words ...string) string { return words[dice.IntN(len(words))] }
		for range 60 {
			i, k := id(), token()
			row := base + "job:" + i
			args := [][]string{
				{"EMQ.ENQUEUE", "2", row, base + "pending", i, "x"},
				{"EMQ.SCHEDULE", "2", row, base + "schedule", i, "x", "in", some("0", "3600000")},
				{"EMQ.MENQUEUE", base, i, "a", id(), "b", id(), "c"},
				{"EMQ.MSCHEDULE", base, "in", i, "3600000", "a", id(), "3600000", "b"},
				{"EMQ.CLAIM", "2", base + "pending", base + "active", base + "job:", "3600000"},
				{"EMQ.MCLAIM", base, "3600000", some("1", "2", "9", "x")},
				{"EMQ.BCLAIM", "3600000", "1", base},
				{"EMQ.COMPLETE", "2", base + "active", row, i, k, base},
				{"EMQ.MCOMPLETE", base, i, k, id(), token(), i, k},
				{"EMQ.FAIL", "4", base + "active", base + "schedule", base + "dead", row, i, k, "3600000", some("1", "2"), "why", base},
				{"EMQ.MFAIL", base, some("1", "2"), i, k, "3600000", "why", id(), token(), "0", "why"},
				{"EMQ.EXTEND", "2", base + "active", row, i, k, "3600000"},
				{"EMQ.MEXTEND", base, "3600000", i, k, id(), token()},
				{"EMQ.RELEASE", base, i, k, some("0", "3600000")},
				{"EMQ.REQUEUE", base, some("dead", "scheduled"), i, id(), i},
				{"EMQ.REMOVE", base, some("pending", "active", "scheduled", "dead", "any"), i, id()},
				{"EMQ.PAUSE", base, some("0", "3600000")},
				{"EMQ.RESUME", base},
				{"EMQ.LIMIT", base, some("0", "1", "2"), some("0", "2"), some("0", "3600000")},
				{"EMQ.QUEUES", some("", base, "emq:{q1"), some("1", "2", "100")},
				{"HMGET", row, "state", "attempts", "payload", "failures", "last_error"},
				{"ZRANGE", base + some("pending", "active", "dead"), "0", "9"},
			}[dice.IntN(22)]
			// A server promotes at its own time; here it is at once.
			_, _ = conn.Do(t.Context(), "EMQ.PROMOTE", "2", base+"schedule", base+"pending", base, "100")
			want, wantErr := conn.Do(t.Context(), args...)
			got, err := memory.Do(t.Context(), args...)
			require.Equal(t, fmt.Sprint(wantErr), fmt.Sprint(err), "%q", args)
			require.Equal(t, fmt.Sprint(want), fmt.Sprint(got), "%q", args)
			answers[args[0]+fmt.Sprint(got)]++
		}
	}
	require.Greater(t, len(answers), 100)
}
