package operator

import (
	"context"
	"time"

	emq "emq/clients/go"
)

// Pause keeps a queue's jobs from being claimed, for a time or, with 0, until [Server.Resume].
func (s *Server) Pause(ctx context.Context, queue string, d time.Duration) error {
	return emq.NewQueue[[]byte](s.once, queue).Pause(ctx, d)
}

// Resume ends a pause.
func (s *Server) Resume(ctx context.Context, queue string) error {
	return emq.NewQueue[[]byte](s.once, queue).Resume(ctx)
}

// Limit sets a queue's limits.
func (s *Server) Limit(ctx context.Context, queue string, l emq.Limits) error {
	return emq.NewQueue[[]byte](s.once, queue).Limit(ctx, l)
}
