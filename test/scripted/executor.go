// Package scripted answers one question: how does the scripted executor run a verb? It runs the twin of the verb by its
// SHA and loads the script when the server does not know it, as the connectors of wire 4 do.
package scripted

import (
	"fmt"
	"strings"

	"emq/lua"
	"emq/test/wire"
)

// Connection sends a command and returns the exact bytes of its reply.
type Connection interface {
	Do(args ...string) string
}

// Executor is a client of one wire on one connection.
type Executor struct {
	conn  Connection
	runID string // of the server, once a script has needed it; it can't change during a connection
}

// ofServer are the verbs whose twin takes the server's run_id as an additional last argument.
var ofServer = map[string]bool{"EMQ.EXTEND": true, "EMQ.REAP": true, "EMQ.MCLAIM": true, "EMQ.MEXTEND": true}

// countless are the verbs without numkeys. The base is the only key of their twins.
var countless = map[string]bool{
	"EMQ.MENQUEUE": true, "EMQ.MSCHEDULE": true, "EMQ.MCLAIM": true, "EMQ.MCOMPLETE": true, "EMQ.MEXTEND": true, "EMQ.MFAIL": true,
	"EMQ.RELEASE": true, "EMQ.REQUEUE": true, "EMQ.REMOVE": true,
}

// Open claims the connection's database for wire 4, or verifies that it belongs to wire 4 already. If it belongs to
// another wire, Open fails and writes nothing.
func Open(conn Connection) (*Executor, error) { return OpenAs(conn, wire.Wire4) }

// OpenAs is Open for a client of the given wire, because scripts run on a store of wire 6 too.
func OpenAs(conn Connection, identity string) (*Executor, error) {
	switch reply := conn.Do("SET", wire.Identity, identity, "NX", "GET"); {
	case reply == wire.Nil, reply == wire.Bulk(identity):
		return &Executor{conn: conn}, nil
	case wire.IsError(reply):
		return nil, fmt.Errorf("the fence cannot be read: %s", reply)
	default:
		return nil, fmt.Errorf("the store speaks %q, this executor %q", wire.Value(reply), identity)
	}
}

// Do runs a verb, which is given as the native one would be, with all keys and arguments.
func (e *Executor) Do(args ...string) string {
	script, ok := lua.Of(args[0])
	if !ok {
		panic("scripted: no twin of " + args[0])
	}
	command := []string{"EVALSHA", script.SHA}
	if countless[args[0]] {
		command = append(command, "1")
	}
	command = append(command, args[1:]...)
	if ofServer[args[0]] {
		if e.runID == "" {
			e.runID = e.askRunID()
		}
		command = append(command, e.runID)
	}
	reply := e.conn.Do(command...)
	if !strings.HasPrefix(reply, "-NOSCRIPT ") {
		return reply
	}
	if reply := e.conn.Do("SCRIPT", "LOAD", script.Source); reply != wire.Bulk(script.SHA) {
		return reply
	}
	return e.conn.Do(command...)
}

func (e *Executor) askRunID() string {
	reply := e.conn.Do("INFO", "server")
	_, rest, ok := strings.Cut(reply, "\nrun_id:")
	id, _, end := strings.Cut(rest, "\r")
	if !ok || !end {
		panic(fmt.Sprintf("scripted: no run_id in %q", reply))
	}
	return id
}
