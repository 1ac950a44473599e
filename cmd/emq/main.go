// Command emq shows the queues of a Valkey server with EMQ, and repairs their jobs. See docs/command.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// build is set by the linker: see the Makefile.
var build = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
