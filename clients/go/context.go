package emq

import (
	"context"
	"sync"
	"time"
)

// jobContext is a context as [context.WithCancelCause] returns, but created on first use, since many handlers never
// look at it.
type jobContext struct {
	values context.Context // never ends by itself

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

// Value asks the created context, because package context finds a parent's cancellation by Value: so derived contexts
// need no goroutine.
func (c *jobContext) Value(key any) any { return c.get().Value(key) }
