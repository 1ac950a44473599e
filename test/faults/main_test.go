package faults

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/valkey"
	"emq/test/wire"
)

// place is a server that comes back: after its end it is started again on the same data, the same socket and the same
// port.
type place struct {
	*valkey.Server
	t testing.TB
	o valkey.Options
}

// module are the options of a server with the module, plain those of one without.
func module(args ...string) valkey.Options {
	return valkey.Options{Module: os.Getenv("EMQ_MODULE"), Args: args}
}

func plain(args ...string) valkey.Options { return valkey.Options{Args: args} }

// open starts a server for the test. At the end of the test it must stop when asked; no run of it may have crashed.
func open(t testing.TB, o valkey.Options) *place {
	t.Helper()
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "emq")
		require.NoError(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		o.Dir = dir
	}
	p := &place{t: t, o: o}
	p.start()
	t.Cleanup(func() {
		require.NoError(t, p.Stop(), "the server's end")
		p.sound()
	})
	return p
}

func (p *place) start() {
	p.t.Helper()
	s, err := valkey.Start(p.o)
	require.NoError(p.t, err)
	p.Server, p.o.Port = s, s.Port()
}

// sound asserts that this run of the server logged no crash and no panic.
func (p *place) sound() {
	p.t.Helper()
	log := p.Log()
	require.NotContains(p.t, log, "BUG REPORT", "the server crashed")
	require.NotContains(p.t, log, "panic: ", "the module panicked")
}

// kill ends the server as a crash of the machine's power would end the process: at once.
func (p *place) kill() {
	p.t.Helper()
	require.NoError(p.t, p.Kill())
	p.sound()
}

// conn opens a connection for looking and ordering.
func (p *place) conn() *wire.Conn { p.t.Helper(); return wire.Dial(p.t, p.Socket) }

// keyspace reads everything that the server has in its first database.
func (p *place) keyspace() store.Keyspace {
	p.t.Helper()
	c := p.conn()
	defer c.Close()
	return store.Read(p.t, c)[0]
}

// following are the settings of a replica of an address that must be able to carry out all that it is sent.
func following(address string) []string {
	host, port, _ := net.SplitHostPort(address)
	return []string{"--replicaof", host + " " + port, "--propagation-error-behavior", "panic"}
}

// linked waits until a replica is in contact with its primary.
func (p *place) linked() {
	p.t.Helper()
	c := p.conn()
	defer c.Close()
	waitFor(p.t, "the replica's link", func() bool { return c.Info("master_link_status") == "up" })
}

// online waits until a primary has a replica that it sends everything to.
func (p *place) online() {
	p.t.Helper()
	c := p.conn()
	defer c.Close()
	waitFor(p.t, "a replica to be online", func() bool { return strings.Contains(c.Do("INFO", "replication"), "state=online") })
}

// number reads a number from INFO.
func number(t testing.TB, c *wire.Conn, name string) int {
	t.Helper()
	n, err := strconv.Atoi(c.Info(name))
	require.NoError(t, err, name)
	return n
}

// report fails the test if the ledger found a promise broken, and writes the fault's row of the table that `make proof`
// prints.
func report(t testing.TB, fault string, rounds int, c *crowd) {
	t.Helper()
	jobs := 0
	c.Lock()
	for _, j := range c.jobs {
		if j.enqueued != 0 {
			jobs++
		}
	}
	lost, twice := len(c.lost), len(c.twice)
	t.Logf("%s: %d rounds, %d jobs, %d lost, %d doubled; %d promises, %d stale settlements, %d answers that never came",
		fault, rounds, jobs, lost, twice, c.kept, c.stale, c.doubt)
	c.Unlock()
	if path := os.Getenv("EMQ_TABLE"); path != "" {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		require.NoError(t, err)
		_, err = f.WriteString(strings.Join([]string{fault, strconv.Itoa(rounds), strconv.Itoa(jobs), strconv.Itoa(lost), strconv.Itoa(twice)}, "|") + "\n")
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	c.verdict(t)
}

func TestMain(m *testing.M) {
	for _, name := range []string{"VALKEY_SERVER", "EMQ_MODULE"} {
		if os.Getenv(name) == "" {
			fmt.Fprintf(os.Stderr, "%s is not set, and `make test` sets it\n", name)
			os.Exit(1)
		}
	}
	redis.SetLogger(silence{}) // a server that is down is nothing to tell of
	os.Exit(m.Run())
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
