// Package waiting answers one question: does a claim that waits get its job? Clients wait for jobs, while jobs come,
// clients leave and the server changes in every way and order.
package waiting

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/valkey"
	"emq/test/wire"
)

const (
	q, r, s = wire.Queue("q"), wire.Queue("r"), wire.Queue("s")
	// lease is one that outlasts every test, in ms.
	lease = 3_600_000
)

func TestMain(m *testing.M) {
	store.Needs("VALKEY_SERVER", "EMQ_MODULE", "EMQ_MODULE_DEBUG")
	os.Exit(m.Run())
}

// logged makes the server write an append-only file, so that the propagated commands can be read.
var logged = []string{"--appendonly", "yes", "--appendfsync", "no"}

// bed is a server with a connection to it.
type bed struct {
	*store.Place
	*wire.Conn
	t    *testing.T
	read int // number of commands of the append-only file that were read
}

// begin starts a server with an empty store of our wire. Its pump is off.
func begin(t *testing.T, args ...string) *bed {
	t.Helper()
	t.Parallel()
	return serve(t, store.Module(append(logged, args...)...))
}

func serve(t *testing.T, o valkey.Options) *bed {
	t.Helper()
	b := &bed{Place: store.Open(t, o), t: t}
	b.Conn = b.Place.Conn()
	b.Must("SET " + wire.Identity + " " + wire.Wire6)
	return b
}

// share runs a test on the server with an empty store, and checks the store that it leaves.
func (b *bed) share(name string, test func(b *bed)) {
	b.t.Helper()
	b.t.Run(name, func(t *testing.T) {
		own := &bed{Place: b.Place, Conn: wire.Dial(t, b.Socket), t: t}
		own.Must("FLUSHALL", "SET "+wire.Identity+" "+wire.Wire6)
		own.waiting(0)
		test(own)
	})
}

// claimant is a client that waits.
type claimant struct {
	*wire.Conn
	b  *bed
	id string // by which the server knows it
}

// client opens a connection that has not sent anything yet.
func (b *bed) client() *claimant {
	b.t.Helper()
	return named(b, wire.Dial(b.t, b.Socket))
}

func named(b *bed, c *wire.Conn) *claimant {
	b.t.Helper()
	return &claimant{c, b, c.ID()}
}

// wait makes a new client wait without a timeout, and returns when it waits.
func (b *bed) wait(queues ...wire.Queue) *claimant {
	b.t.Helper()
	return b.client().wait(0, queues...)
}

// waits makes n new clients wait, one after the other.
func (b *bed) waits(n int, queues ...wire.Queue) []*claimant {
	b.t.Helper()
	all := make([]*claimant, n)
	for i := range all {
		all[i] = b.wait(queues...)
	}
	return all
}

func (w *claimant) wait(timeout int64, queues ...wire.Queue) *claimant {
	w.b.t.Helper()
	w.Send(wire.BClaim(lease, timeout, queues...))
	w.blocked()
	return w
}

// blocked waits until the server has blocked the client.
func (w *claimant) blocked() {
	w.b.t.Helper()
	store.WaitFor(w.b.t, "a client to be blocked", func() bool {
		return strings.Contains(w.b.Do("CLIENT", "LIST", "ID", w.id), " flags=b")
	})
}

// gets asserts the one reply to the claim that waited.
func (w *claimant) gets(reply string) {
	w.b.t.Helper()
	require.Equal(w.b.t, reply, w.Receive())
	require.Equal(w.b.t, "+PONG\r\n", w.Do("PING"), "a second reply")
}

// has asserts that it got a job for the first time.
func (w *claimant) has(q wire.Queue, id string) { w.b.t.Helper(); w.gets(wire.BClaimed(q, id, "x", 1)) }

// waiting waits until n clients wait, by the module's count.
func (b *bed) waiting(n int) {
	b.t.Helper()
	store.WaitFor(b.t, fmt.Sprintf("%d waiting clients", n), func() bool { return b.Info("emq_waiting_clients") == strconv.Itoa(n) })
	if n == 0 {
		require.Equal(b.t, "0", b.Info("emq_waiting_queues"))
	}
}

// row writes the row of a pending job, without its entry.
func (b *bed) row(q wire.Queue, ids ...string) {
	b.t.Helper()
	for _, id := range ids {
		require.Equal(b.t, wire.Integer(3), b.Do("HSET", q.Row(id), "state", "pending", "attempts", "0", "payload", "x"))
	}
}

// before runs commands followed by a claim from a queue, before any other client's command.
func (b *bed) before(q wire.Queue, commands ...[]string) []string {
	b.t.Helper()
	return b.Behind(q.Claim(lease), commands...)
}

// exec is a transaction.
func exec(commands ...[]string) [][]string {
	return append(append([][]string{{"MULTI"}}, commands...), []string{"EXEC"})
}

func words(line string) []string { return wire.Words(line) }

// leased asserts that exactly these jobs are active.
func (b *bed) leased(q wire.Queue, ids ...string) {
	b.t.Helper()
	require.Equal(b.t, ids, b.Members(q.Active()))
}

// count is a number of INFO.
func (b *bed) count(name string) int {
	b.t.Helper()
	n, err := strconv.Atoi(b.Info(name))
	require.NoError(b.t, err)
	return n
}

// version is the server's version as a number.
func (b *bed) version() int {
	b.t.Helper()
	var major, minor, patch int
	_, err := fmt.Sscanf(b.Info("valkey_version"), "%d.%d.%d", &major, &minor, &patch)
	require.NoError(b.t, err)
	return major<<16 | minor<<8 | patch
}

// hidden reports whether the module receives no event for a set that RENAME, COPY, MOVE or RESTORE creates.
func (b *bed) hidden() bool { v := b.version(); return v >= 0x080100 && v < 0x090102 }
