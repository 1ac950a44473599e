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

// guard ends an export that panicked: it makes the export report failure and leaves value and stack for C to log, since
// what Go itself would print is lost in a daemon.
func guard(ok *C.int) {
	v := recover()
	if v == nil {
		return
	}
	*ok = 0
	text := unsafe.Slice((*byte)(unsafe.Pointer(&C.emq_panic_text[0])), C.EMQ_MAX_PANIC)
	text[copy(text[:len(text)-1], fmt.Sprintf("%v\n%s", v, debug.Stack()))] = 0
}

// emqDecide is the one crossing of a command: it decides the verb on what C read and appends to the outcome. It answers 0
// if the decision panicked; the outcome is then void.
//
//export emqDecide
func emqDecide(verb C.int, call *C.emq_call, outcome *C.emq_outcome) (ok C.int) {
	defer guard(&ok)
	c := (*commands.Call)(unsafe.Pointer(call))
	trigger(c)
	commands.Decide(commands.Verb(verb), c, (*commands.Outcome)(unsafe.Pointer(outcome)))
	return 1
}

// emqStart sets the runtime up and answers 1: that it answers at all shows that the runtime works. Settings are made in
// code because the server clears the environment before it loads modules.
//
//export emqStart
func emqStart() (ok C.int) {
	defer guard(&ok)
	// Commands allocate nothing, so there is nothing to collect; the limit is a net under that.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(32 << 20)
	debug.SetMaxStack(16 << 20)
	// Fixed, so that the runtime does not adapt it later; with one alone, letting the scheduler in gains nothing.
	runtime.GOMAXPROCS(2)
	return 1
}

// emqYield lets the Go scheduler in; see runtime.c.
//
//export emqYield
func emqYield() (ok C.int) {
	defer guard(&ok)
	runtime.Gosched()
	return 1
}
