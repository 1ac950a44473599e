package spawn

import (
	"runtime"
	"syscall"
)

// Attributes makes the kernel kill the child when this program ends, however it ends.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

func loop() {
	runtime.LockOSThread() // for ever: see Start
	for r := range queue {
		r.result <- r.cmd.Start()
	}
}
