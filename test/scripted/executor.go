// Package scripted answers one question: how does the scripted executor hand a verb to a server? It runs the twin of
// the verb by its SHA and loads the script when the server does not know it, as the connectors of wire 4 do.
package scripted

import (
	"fmt"
	"strings"

	"emq/scripts"
	"emq/test/wire"
)

// Connection sends a command and returns the exact bytes of its reply.
type Connection interface {
	Do(args ...string) string
}

// Executor is a speaker of wire 4 on one connection.
type Executor struct{ conn Connection }

// Open claims the connection's database for wire 4, or verifies that it is of wire 4 already. It is an error if the
// database is of another wire: then nothing was written, and nothing may be.
func Open(conn Connection) (*Executor, error) {
	switch reply := conn.Do("SET", wire.Identity, wire.Wire4, "NX", "GET"); {
	case reply == wire.Nil, reply == wire.Bulk(wire.Wire4):
		return &Executor{conn}, nil
	case wire.IsError(reply):
		return nil, fmt.Errorf("the fence cannot be read: %s", reply)
	default:
		return nil, fmt.Errorf("the store speaks %q, this executor %q", wire.Value(reply), wire.Wire4)
	}
}

// Do runs a verb, written as the native one with every key and argument in its place.
func (e *Executor) Do(args ...string) string {
	script, ok := scripts.Of(args[0])
	if !ok {
		panic("scripted: no twin of " + args[0])
	}
	command := append([]string{"EVALSHA", script.SHA}, args[1:]...)
	reply := e.conn.Do(command...)
	if !strings.HasPrefix(reply, "-NOSCRIPT ") {
		return reply
	}
	if reply := e.conn.Do("SCRIPT", "LOAD", script.Source); reply != wire.Bulk(script.SHA) {
		return reply
	}
	return e.conn.Do(command...)
}
