// Package main is floor.c with the reads of the verbs and, for each command, one call into Go that does nothing: what
// comes before any decision. Built like the module, it is a module of its own.
package main

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror -DREADS -DCROSSING
// #cgo linux LDFLAGS: -Wl,-z,now
import "C"

import (
	"runtime"
	"runtime/debug"
	"unsafe"
)

// The exports have the shape of the module's: see module/exports.go.

func guard(ok *C.int) {
	if recover() != nil {
		*ok = 0
	}
}

//export crossingDecide
func crossingDecide(verb C.int, request, outcome unsafe.Pointer) (ok C.int) {
	defer guard(&ok)
	return 1
}

//export crossingStart
func crossingStart() (ok C.int) {
	defer guard(&ok)
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(32 << 20)
	debug.SetMaxStack(16 << 20)
	runtime.GOMAXPROCS(2)
	return 1
}

//export crossingYield
func crossingYield() (ok C.int) {
	defer guard(&ok)
	runtime.Gosched()
	return 1
}

// A c-shared library has a main function that never runs.
func main() {}
