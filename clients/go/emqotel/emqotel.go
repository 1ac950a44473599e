// Package emqotel makes a span of OpenTelemetry of each job that a worker of package emq handles.
package emqotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"emq/clients/go"
)

// Wrap is middleware that has each task handled in a span of its own, of kind consumer: "process" and the queue's name. An error
// of the handler's is recorded in it, its panic too. A span begins no trace of the producer's, for a payload carries no
// context; put one into the job's value and link it, if that is needed.
func Wrap(p trace.TracerProvider) emq.Middleware {
	tracer := p.Tracer("emq/clients/go")
	return func(next emq.TaskFunc) emq.TaskFunc {
		return func(ctx context.Context, t *emq.Task) error {
			ctx, span := tracer.Start(ctx, "process "+t.Queue, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
				attribute.String("messaging.system", "emq"),
				attribute.String("messaging.destination.name", t.Queue),
				attribute.String("messaging.message.id", string(t.ID)),
				attribute.Int64("emq.token", t.Token),
			))
			defer span.End()
			err := next(ctx, t)
			if err != nil {
				span.RecordError(err)
				span.SetStatus(codes.Error, "")
			}
			return err
		}
	}
}
