package operator

import (
	"context"
	"errors"

	emq "emq/clients/go"
)

// Queue is a queue and its figures.
type Queue struct {
	Name string // its bytes, which need not be text
	emq.Stats
	// Err says why there are no figures: one of the queue's keys is broken, or the user may not read it.
	Err error
}

// Names lists the queues that the user may read, in the order of their bytes.
func (s *Server) Names(ctx context.Context) ([]string, error) { return s.once.Queues(ctx) }

// Queues returns the figures of the named queues, in their order, or of all if none is named. A queue without figures
// has an Err of its own, and does not affect the others.
func (s *Server) Queues(ctx context.Context, names ...string) (list []Queue, err error) {
	if len(names) == 0 {
		if names, err = s.Names(ctx); err != nil {
			return nil, err
		}
	}
	list = make([]Queue, len(names))
	err = parallel(len(names), func(i int) error {
		q := emq.NewQueue[[]byte](s.once, names[i])
		list[i].Name = names[i]
		if list[i].Err = q.Err(); list[i].Err != nil {
			return nil
		}
		list[i].Stats, list[i].Err = q.Stats(ctx)
		if !own(list[i].Err) {
			return list[i].Err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// own reports whether an error concerns only one queue, so that others can be asked.
func own(err error) bool {
	if err == nil {
		return true
	}
	class := class(err)
	return class == "WRONGTYPE" || class == "NOPERM" || class == "ERR"
}

// class is the class of a refusal; empty for any other error.
func class(err error) string {
	if refusal := (*emq.Error)(nil); errors.As(err, &refusal) {
		return refusal.Class()
	}
	return ""
}
