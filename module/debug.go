//go:build emqdebug

package main

// #cgo CFLAGS: -DEMQ_DEBUG
// #include "emq.h"
import "C"

import (
	"runtime"

	"emq/commands"
)

// panicID is the job id whose decision panics, so that a test can see how a server takes a fault in the module.
const panicID = "JOB-debug-panic"

func trigger(c *commands.Call) {
	for _, job := range c.Jobs {
		if job.ID == panicID {
			panic("the debug trigger was met")
		}
	}
	if c.Figures != nil && c.Figures.Oldest == panicID {
		panic("the debug trigger was met")
	}
	for _, arg := range c.Args {
		if arg == panicID {
			panic("the debug trigger was met")
		}
	}
}

// emqSetProcessors sets GOMAXPROCS, for EMQ.DEBUG YIELD.
//
//export emqSetProcessors
func emqSetProcessors(n C.int) (ok C.int) {
	defer guard(&ok)
	runtime.GOMAXPROCS(int(n))
	return 1
}

// emqReadRuntime reads statistics of the Go runtime, for EMQ.DEBUG RUNTIME.
//
//export emqReadRuntime
func emqReadRuntime(out *C.emq_runtime) (ok C.int) {
	defer guard(&ok)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	*out = C.emq_runtime{
		goroutines: C.int64_t(runtime.NumGoroutine()),
		gomaxprocs: C.int64_t(runtime.GOMAXPROCS(0)),
		numgc:      C.int64_t(m.NumGC),
		mallocs:    C.int64_t(m.Mallocs),
		heap_alloc: C.int64_t(m.HeapAlloc),
	}
	return 1
}
