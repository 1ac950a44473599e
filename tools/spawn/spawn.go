// Package spawn starts programs that are killed when this one ends, however it ends, where the system can do that.
package spawn

import (
	"os/exec"
	"sync"
)

// The kernel sends a child's death signal when the thread that started it ends, not the process. So one thread, which never
// ends, starts all children.
var (
	once  sync.Once
	queue = make(chan request)
)

type request struct {
	cmd    *exec.Cmd
	result chan error
}

// Start is cmd.Start, for a command that has the Attributes.
func Start(cmd *exec.Cmd) error {
	once.Do(func() { go loop() })
	r := request{cmd: cmd, result: make(chan error)}
	queue <- r
	return <-r.result
}
