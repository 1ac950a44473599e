package valkey

import (
	"runtime"
	"syscall"
)

// childAttr has the kernel kill the server when this program ends, however it ends.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

func spawnLoop() {
	runtime.LockOSThread() // for good: see spawn
	for r := range spawnQueue {
		r.result <- r.cmd.Start()
	}
}
