package operator

import (
	"context"
	"errors"
	"iter"
	"time"

	emq "emq/clients/go"
)

// Filter chooses jobs; its zero value chooses all.
type Filter struct {
	Match     string        // in the payload or the last error, whatever the case of its letters
	Group     string        // the last error, normalised, is this: see [Normalise]
	OlderThan time.Duration // by the id; one that does not tell is not older
	MadeAfter time.Time     // likewise
}

// Progress is how far a walk has come. Total is about how many there are to walk.
type Progress struct {
	Seen, Chosen, Changed, Refused int64
	Total                          int64
	Next                           Cursor // where it goes on; empty at the end
}

// Select walks a state from a place on, at most `window` jobs, 0 being all, and yields those that the filter chooses. It reads
// only what the filter looks at; payloads of more than 1 MiB are not searched. step, if not nil, is called after each page.
func (s *Server) Select(ctx context.Context, queue string, state emq.State, after Cursor, window int64, f Filter, step func(Progress)) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) { yield(Job{}, errors.ErrUnsupported) }
}
