//go:build !linux

package valkey

import "syscall"

// childAttr: only Linux ties a child's life to its parent's.
func childAttr() *syscall.SysProcAttr { return nil }

func spawnLoop() {
	for r := range spawnQueue {
		r.result <- r.cmd.Start()
	}
}
