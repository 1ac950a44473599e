package operator

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Sample is what a [Sampler] knows at a time.
type Sample struct {
	At     time.Time
	Err    error // the server could not be asked; the rest is then of the last time it could
	Queues []Sampled
	Checks []Check
}

// Sampled is a queue and how it moves.
type Sampled struct {
	Queue
	At      time.Time // when its figures were read
	In, Out float64   // jobs per second, since the figures before: made, and completed or dead
	Hour    []Minute  // the last 60 minutes, the oldest first, as far as it was watched
	Trouble Status    // whether it needs a hand
	Why     string
}

// Minute is a queue in one minute: its jobs at the end, and how many came and went.
type Minute struct{ Jobs, In, Out int64 }

// Sampler asks a server for its figures again and again, once for all who look: a process has one. It asks often for the
// queues that somebody looks at, and for the others in turn, so that the server spends no more on 10,000 queues than on some
// hundred.
type Sampler struct{}

// Sampler of a server; [Sampler.Run] has it work.
func (s *Server) Sampler() *Sampler { return &Sampler{} }

// Run samples until the context ends. While nobody watches it slows down.
func (p *Sampler) Run(ctx context.Context) error { return errors.ErrUnsupported }

// Latest is the last sample, whose queues are in the order of need: those in trouble first, then by their backlog. It is never
// changed.
func (p *Sampler) Latest() *Sample { return &Sample{} }

// Watch yields a sample whenever there is a new one, until the context ends. The named queues are asked for often while
// somebody watches them.
func (p *Sampler) Watch(ctx context.Context, queues ...string) iter.Seq[*Sample] {
	return func(yield func(*Sample) bool) {}
}
