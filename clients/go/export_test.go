package emq

import "time"

// SetClock sets the clock of a client's ids, and its node.
func SetClock(c *Client, now func() time.Time, node uint64) {
	c.ids.now, c.ids.node = now, node
}
