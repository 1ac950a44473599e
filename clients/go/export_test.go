package emq

import (
	"context"
	"time"
)

// SetClock sets the clock of a client's ids, and its node.
func SetClock(c *Client, now func() time.Time, node uint64) {
	c.ids.now, c.ids.node = now, node
}

// JobContext is a handler's context, and its end.
func JobContext(values context.Context) (context.Context, func(cause error)) {
	c := &jobContext{values: values}
	return c, c.end
}
