// Package gates answers one question: does a gate hold back exactly what it should, and let go at once? Workers claim
// in every way from paused and limited queues, clients wait for gates to open, and servers stop and fail over.
package gates

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

const (
	q, r, s = wire.Queue("q"), wire.Queue("r"), wire.Queue("s")
	// lease is one that outlasts every test, in ms.
	lease = 3_600_000
	ok    = "+OK\r\n"
)

func TestMain(m *testing.M) {
	store.Needs("VALKEY_SERVER", "EMQ_MODULE")
	os.Exit(m.Run())
}

// logged makes the server write an append-only file, which has all writes in their order.
var logged = []string{"--appendonly", "yes", "--appendfsync", "no", "--aof-use-rdb-preamble", "no"}

// bed is a server with a connection to it.
type bed struct {
	*store.Place
	*wire.Conn
	t *testing.T
}

// begin starts a server with an empty store of our wire. Its pump is off.
func begin(t *testing.T, args ...string) *bed {
	t.Helper()
	return serve(t, store.Open(t, store.Module(append(logged, args...)...)))
}

func serve(t *testing.T, place *store.Place) *bed {
	t.Helper()
	b := &bed{Place: place, Conn: place.Conn(), t: t}
	b.Must("SET " + wire.Identity + " " + wire.Wire6)
	return b
}

// share runs a test on the server with an empty store, and checks the store that it leaves.
func (b *bed) share(name string, test func(b *bed)) {
	b.t.Helper()
	b.t.Run(name, func(t *testing.T) {
		own := &bed{Place: b.Place, Conn: wire.Dial(t, b.Socket), t: t}
		own.Must("FLUSHALL", "SET "+wire.Identity+" "+wire.Wire6)
		store.WaitFor(t, "nobody to wait", func() bool { return own.Info("emq_waiting_clients") == "0" })
		test(own)
	})
}

// enqueue puts jobs into a queue.
func (b *bed) enqueue(queue wire.Queue, ids ...string) {
	b.t.Helper()
	for _, id := range ids {
		require.Equal(b.t, wire.Integer(1), b.Do(queue.Enqueue(id, "x")...))
	}
}

// take claims these jobs, one after the other.
func (b *bed) take(queue wire.Queue, ids ...string) {
	b.t.Helper()
	for _, id := range ids {
		require.Equal(b.t, wire.Claimed(id, "x", 1), b.Do(queue.Claim(lease)...))
	}
}

// wait makes a new client wait without a timeout, and returns when it waits.
func (b *bed) wait(queues ...wire.Queue) *wire.Conn {
	b.t.Helper()
	c := wire.Dial(b.t, b.Socket)
	id := c.ID()
	c.Send(wire.BClaim(lease, 0, queues...))
	store.WaitFor(b.t, "a client to be blocked", func() bool { return strings.Contains(b.Do("CLIENT", "LIST", "ID", id), " flags=b") })
	return c
}

// opens runs commands followed by a claim from q, before any other client's command.
func (b *bed) opens(commands ...[]string) []string {
	b.t.Helper()
	return b.Behind(q.Claim(lease), commands...)
}

// units groups the commands of each transaction of an append-only file.
func units(commands [][]string) (all [][][]string) {
	var open bool
	for _, args := range commands {
		switch verb := strings.ToUpper(args[0]); {
		case verb == "MULTI":
			open = true
			all = append(all, nil)
		case verb == "EXEC":
			open = false
		case open:
			all[len(all)-1] = append(all[len(all)-1], args)
		default:
			all = append(all, [][]string{args})
		}
	}
	return all
}
