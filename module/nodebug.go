//go:build !emqdebug

package main

import "emq/commands"

// trigger does nothing in release builds; see debug.go.
func trigger(*commands.Call) {}
