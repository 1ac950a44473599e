package main

// Build flags of the C side, in one place.

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
// #cgo linux LDFLAGS: -Wl,-z,now
import "C"
