package emqotel_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"emq/clients/go"
	"emq/clients/go/emqotel"
	"emq/clients/go/emqtest"
)

func TestWrap(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	p := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	s := emqtest.New()
	q := emq.NewQueue[string](s.Client(), "mails")
	for _, v := range []string{"good", "bad"} {
		_, err := q.Enqueue(t.Context(), v)
		require.NoError(t, err)
	}
	w := emq.NewWorker(s.Client(), emq.Wrap(emqotel.Wrap(p)), emq.Log(slog.New(slog.DiscardHandler)))
	inside := map[string]bool{}
	emq.Handle(w, q, func(ctx context.Context, j *emq.Job[string]) error {
		inside[j.Value] = oteltrace.SpanFromContext(ctx).SpanContext().IsValid()
		if j.Value == "bad" {
			panic("boom")
		}
		return nil
	}, emq.Concurrency(1))
	s.Work(t, w)
	require.Equal(t, map[string]bool{"good": true, "bad": true}, inside)
	ended := spans.Ended()
	require.Len(t, ended, 2)
	require.Equal(t, "process mails", ended[0].Name())
	require.Equal(t, codes.Unset, ended[0].Status().Code)
	require.Equal(t, codes.Error, ended[1].Status().Code)
	require.Contains(t, ended[1].Events()[0].Attributes[1].Value.AsString(), "panic: boom")
}
