//go:build !linux

package spawn

import "syscall"

// Attributes: only Linux ties a child's life to its parent's.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func loop() {
	for r := range queue {
		r.result <- r.cmd.Start()
	}
}
