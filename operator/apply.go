package operator

import (
	"context"
	"errors"
	"iter"

	emq "emq/clients/go"
)

// Action is what can be done with jobs.
type Action string

// The actions. A dead job that is requeued starts afresh; a scheduled one is run now; a released one is taken from its holder,
// uncounted, and can be claimed at once.
const (
	Requeue Action = "requeue"
	Remove  Action = "remove"
	Release Action = "release"
)

// Apply does it with all jobs of a sequence that are still of that state, 500 in a call, and tells how many were changed. It
// ends with the context, between two calls, and after the first refusal; what was changed until then stays changed.
func (s *Server) Apply(ctx context.Context, a Action, queue string, state emq.State, ids iter.Seq2[string, error], step func(Progress)) (Progress, error) {
	return Progress{}, errors.ErrUnsupported
}
