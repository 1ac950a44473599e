//go:build !linux

package load

import (
	"errors"
	"syscall"
	"time"
)

// Elsewhere the package builds and does not run.
type poller struct{}

type event struct {
	conn               int
	readable, writable bool
}

func newPoller() (*poller, error)                   { return nil, errors.New("the benchmark needs Linux") }
func (*poller) close() error                        { return nil }
func (*poller) add(int, int) error                  { return nil }
func (*poller) watchWrite(int, int, bool) error     { return nil }
func (*poller) wait(time.Duration) ([]event, error) { return nil, nil }
func read(int, []byte) (int, syscall.Errno)         { return 0, syscall.ENOSYS }
func write(int, []byte) (int, syscall.Errno)        { return 0, syscall.ENOSYS }
