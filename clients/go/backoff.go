package emq

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff tells how long a job waits after a failure: n is 1 after its first claim, 2 after its second, and so on. Claims
// whose lease was lost count as well; [ExactFailures] counts failures alone.
type Backoff func(n int64) time.Duration

// Exponential doubles the wait with each failure, from base up to most, and takes a random part of up to the half off it,
// so that jobs which failed together do not come back together.
func Exponential(base, most time.Duration) Backoff {
	base, most = max(base, 0), max(most, 0)
	return func(n int64) time.Duration {
		d := most
		if n = max(n, 1) - 1; n < 62 && base <= most>>n {
			d = base << n
		}
		return d - time.Duration(rand.Int64N(int64(d)/2+1))
	}
}

// defaultBackoff is that of a queue for which [Failures] names no other.
var defaultBackoff = Exponential(time.Second, time.Hour)

// Constant always waits the same time.
func Constant(d time.Duration) Backoff { return func(int64) time.Duration { return d } }

// reconnects is the wait between tries to reach a server.
var reconnects = Exponential(10*time.Millisecond, time.Second)

// sleep waits, and reports whether the context ended first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
