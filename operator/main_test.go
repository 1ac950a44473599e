package operator

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"
	"go.uber.org/goleak"

	emq "emq/clients/go"
	"emq/test/store"
	"emq/test/wire"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("emq/tools/spawn.loop"), goleak.IgnoreCurrent())
}

// needs skips a test that has no server to run on.
func needs(t testing.TB) {
	t.Helper()
	if os.Getenv("VALKEY_SERVER") == "" || os.Getenv("EMQ_MODULE") == "" {
		t.Skip("VALKEY_SERVER and EMQ_MODULE are not set: `make test-tools` sets them")
	}
}

// serve starts a server on which no job moves by itself, and opens it.
func serve(t testing.TB, args ...string) (*store.Place, *wire.Conn, *Server) {
	t.Helper()
	needs(t)
	p := store.Open(t, store.Module(args...))
	return p, p.Conn(), at(t, p, "")
}

// at is a server as a user sees it; "" is the default user, who may do everything.
func at(t testing.TB, p *store.Place, user string) *Server {
	t.Helper()
	url := "valkey://" + p.Addr()
	if user != "" {
		url = "valkey://" + user + ":secret@" + p.Addr()
	}
	return via(t, url)
}

func via(t testing.TB, url string) *Server {
	t.Helper()
	o, err := valkey.ParseURL(url)
	require.NoError(t, err)
	conn := emq.Dial(o)
	t.Cleanup(conn.Close)
	return New(conn)
}

// must sends commands, none of which may be refused.
func must(t testing.TB, c *wire.Conn, commands ...[]string) {
	t.Helper()
	for i, reply := range c.Pipeline(commands) {
		require.False(t, wire.IsError(reply), "%q: %s", commands[i], reply)
	}
}

// ids are n ids that sort as they are made.
func ids(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = "JOB" + strconv.Itoa(1_000_000+i)
	}
	return list
}

// fill enqueues jobs; with a time they are scheduled for it.
func fill(t testing.TB, c *wire.Conn, q wire.Queue, at string, ids []string) {
	t.Helper()
	var commands [][]string
	for len(ids) > 0 {
		n := min(len(ids), 1000)
		words := []string{}
		for _, id := range ids[:n] {
			if words = append(words, id); at != "" {
				words = append(words, at)
			}
			words = append(words, "payload of "+id)
		}
		if ids = ids[n:]; at == "" {
			commands = append(commands, q.Menqueue(words...))
		} else {
			commands = append(commands, q.Mschedule("at", words...))
		}
	}
	must(t, c, commands...)
}

// bury claims jobs of a queue and fails them for good with the errors.
func bury(t testing.TB, c *wire.Conn, q wire.Queue, errors ...string) {
	t.Helper()
	for len(errors) > 0 {
		n := min(len(errors), 1000)
		claimed := wire.Value(c.Do(q.Mclaim(1<<30, int64(n))...)).([]any)
		require.Len(t, claimed, n)
		words := []string{}
		for i, job := range claimed {
			words = append(words, job.([]any)[0].(string), "1", "0", errors[i])
		}
		must(t, c, q.Mfail(1, words...))
		errors = errors[n:]
	}
}
