// Package parity answers one question: does it matter which executor a client uses? It does the same to a store of
// each, the scripts' of wire 4 and the native verbs' of wire 6: on the ordinary path they must not differ, and each
// edge where they differ by design has a test that shows both sides. The scripts of the verbs that wire 6 added run on
// a store of wire 6: they must do the same as the native verbs, whatever is broken there.
package parity

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/scripted"
	"emq/test/store"
	"emq/test/wire"
)

// side is one of the two stores, with the executor of its wire.
type side struct {
	*wire.Conn
	verbs    scripted.Connection // runs a verb, written as the native one
	db       int
	identity string
}

// do runs a verb by the side's executor, and a plain command as it is.
func (s *side) do(args ...string) string {
	if strings.HasPrefix(args[0], "EMQ.") {
		return s.verbs.Do(args...)
	}
	return s.Do(args...)
}

// pair are the two stores: two databases of one server, so that they have the same clock.
type pair struct {
	t                *testing.T
	native, scripted *side
	reader           *wire.Conn
}

// open empties a server for one test and claims both stores, each for its own wire.
func open(t *testing.T, s *store.Place) *pair {
	t.Helper()
	p := &pair{
		t:        t,
		native:   &side{Conn: wire.Dial(t, s.Socket), db: 0, identity: wire.Wire6},
		scripted: &side{Conn: wire.Dial(t, s.Socket), db: 1, identity: wire.Wire4},
		reader:   wire.Dial(t, s.Socket),
	}
	p.reader.Must("FLUSHALL", "SET {emq}:version "+wire.Wire6)
	p.native.verbs = p.native
	p.scripted.Must("SELECT 1")
	e, err := scripted.Open(p.scripted)
	require.NoError(t, err)
	p.scripted.verbs = e
	return p
}

// openAdded is open for the verbs that wire 6 added: both stores are of wire 6, and on the scripts' store only the
// added verbs are scripts, because those of wire 4 don't write the fields that the added ones need.
func openAdded(t *testing.T, s *store.Place) *pair {
	t.Helper()
	p := open(t, s)
	p.scripted.Must("DEL " + wire.Identity)
	e, err := scripted.OpenAs(p.scripted, wire.Wire6)
	require.NoError(t, err)
	p.scripted.identity = wire.Wire6
	p.scripted.verbs = addedVerbs{p.scripted.Conn, e}
	return p
}

// addedVerbs runs scripts for the verbs that wire 6 added, and native verbs for the others.
type addedVerbs struct {
	native, scripts scripted.Connection
}

func (v addedVerbs) Do(args ...string) string {
	switch args[0] {
	case "EMQ.SCHEDULE", "EMQ.EXTEND", "EMQ.PROMOTE", "EMQ.REAP",
		"EMQ.MENQUEUE", "EMQ.MSCHEDULE", "EMQ.MCLAIM", "EMQ.MCOMPLETE", "EMQ.MEXTEND", "EMQ.MFAIL":
		return v.scripts.Do(args...)
	}
	return v.native.Do(args...)
}

// both does the same to both stores.
func (p *pair) both(args ...string) (native, scripted string) {
	p.t.Helper()
	return p.native.do(args...), p.scripted.do(args...)
}

// given prepares both stores; no command may fail.
func (p *pair) given(lines ...string) {
	p.t.Helper()
	for _, line := range lines {
		native, scripted := p.both(wire.Words(line)...)
		require.False(p.t, wire.IsError(native), "%s: %q", line, native)
		require.False(p.t, wire.IsError(scripted), "%s: %q", line, scripted)
	}
}
