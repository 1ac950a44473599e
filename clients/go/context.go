package emq

import (
	"context"
	"sync"
	"time"
)

// jobContext is what [context.WithCancelCause] returns, made when somebody looks at it: many handlers do not.
type jobContext struct {
	values context.Context // which has no end of its own

	mu     sync.Mutex
	made   context.Context
	cancel context.CancelCauseFunc
	ended  bool
	cause  error
}

func (c *jobContext) get() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil {
		if c.made, c.cancel = context.WithCancelCause(c.values); c.ended {
			c.cancel(c.cause)
		}
	}
	return c.made
}

// end cancels the context. Only the first cause counts.
func (c *jobContext) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.made != nil:
		c.cancel(cause)
	case !c.ended:
		c.ended, c.cause = true, cause
	}
}

func (c *jobContext) Deadline() (time.Time, bool) { return c.values.Deadline() }
func (c *jobContext) Done() <-chan struct{}       { return c.get().Done() }
func (c *jobContext) Err() error                  { return c.get().Err() }

// Value knows what the context knows that is made, its cause too, so that children of it need no goroutine.
func (c *jobContext) Value(key any) any { return c.get().Value(key) }
