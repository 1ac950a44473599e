package emqprom_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"emq/clients/go"
	"emq/clients/go/emqprom"
	"emq/clients/go/emqtest"
)

func TestObserve(t *testing.T) {
	r := prometheus.NewRegistry()
	s := emqtest.New()
	q := emq.NewQueue[string](s.Client(), "q", emq.Failures(5, emq.Constant(time.Hour)))
	for range 2 { // workers of one program
		_, err := q.EnqueueMany(t.Context(), slices.Values([]string{"good", "good", "bad"}))
		require.NoError(t, err)
		w := emq.NewWorker(s.Client(), emqprom.Observe(r), emq.Log(slog.New(slog.DiscardHandler)))
		emq.Handle(w, q, func(_ context.Context, j *emq.Job[string]) error {
			if j.Value == "bad" {
				return errors.New("boom")
			}
			return nil
		})
		s.Work(t, w)
	}
	require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(`
# HELP emq_jobs_total Jobs that a worker was done with.
# TYPE emq_jobs_total counter
emq_jobs_total{outcome="completed",queue="q"} 4
emq_jobs_total{outcome="retried",queue="q"} 2
`), "emq_jobs_total"))
	require.Equal(t, 2, testutil.CollectAndCount(r, "emq_job_seconds"))
}
