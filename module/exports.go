package main

// #include "emq.h"
import "C"

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"

	"emq/commands"
)

// guard recovers a panic of an export: it sets ok to 0 and leaves the value and the stack for C to log, since what Go itself
// would print is lost in a daemon.
func guard(ok *C.int) {
	v := recover()
	if v == nil {
		return
	}
	*ok = 0
	text := unsafe.Slice((*byte)(unsafe.Pointer(&C.emq_panic_text[0])), C.EMQ_MAX_PANIC)
	text[copy(text[:len(text)-1], fmt.Sprintf("%v\n%s", v, debug.Stack()))] = 0
}

// emqDecide is the only call of a command into Go: it decides the verb on what C has read and appends to the outcome. It
// returns 0 if the decision panicked; the outcome is then void.
//
//export emqDecide
func emqDecide(verb C.int, call *C.emq_call, outcome *C.emq_outcome) (ok C.int) {
	defer guard(&ok)
	c := (*commands.Call)(unsafe.Pointer(call))
	trigger(c)
	commands.Decide(commands.Verb(verb), c, (*commands.Outcome)(unsafe.Pointer(outcome)))
	return 1
}

// emqStart configures the runtime and returns 1; that it returns at all shows that the runtime works. The environment can't
// be used because the server clears it before it loads modules.
//
//export emqStart
func emqStart() (ok C.int) {
	defer guard(&ok)
	// Commands allocate nothing, so there is nothing to collect; the memory limit is a safety net.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(32 << 20)
	debug.SetMaxStack(16 << 20)
	// Fixed, so that the runtime does not adapt it later; with one processor, yielding to the scheduler gains nothing.
	runtime.GOMAXPROCS(2)
	return 1
}

// emqYield yields to the Go scheduler; see runtime.c.
//
//export emqYield
func emqYield() (ok C.int) {
	defer guard(&ok)
	runtime.Gosched()
	return 1
}
