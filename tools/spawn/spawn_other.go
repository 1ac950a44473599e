//go:build !linux

package spawn

import "syscall"

// Attributes are empty: only Linux can kill a child with its parent.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func loop() {
	for r := range queue {
		r.result <- r.cmd.Start()
	}
}
