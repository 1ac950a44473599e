package store

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/test/valkey"
	"emq/test/wire"
)

// WaitFor waits until something that must happen has happened.
func WaitFor(t testing.TB, what string, happened func() bool) {
	t.Helper()
	require.True(t, Await(happened), "waited too long for: %s", what)
}

// Await waits until something has happened or the deadline passes, and reports whether it has happened.
func Await(happened func() bool) bool {
	for end := time.Now().Add(wire.Patience); !happened(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// Place is a server that can be restarted with the same data, socket and port.
type Place struct {
	*valkey.Server
	// Options are those of the next start.
	Options valkey.Options
	// Panics says that the module may panic in this test; Dies, that the test kills the server, so that its exit is not
	// checked.
	Panics, Dies bool
	t            testing.TB
}

// Module are the options of a server with the module, with further settings as on the command line; its pump is off,
// because most tests control the time themselves. Debug is for a server with the debug build, which has fault triggers;
// Pumped for one with the pump on; Plain for one without the module.
func Module(args ...string) valkey.Options {
	return valkey.Options{Module: os.Getenv("EMQ_MODULE"), Args: args, Still: true}
}

func Debug(args ...string) valkey.Options {
	return valkey.Options{Module: os.Getenv("EMQ_MODULE_DEBUG"), Args: args, Still: true}
}

func Pumped(args ...string) valkey.Options {
	return valkey.Options{Module: os.Getenv("EMQ_MODULE"), Args: args}
}

func Plain(args ...string) valkey.Options { return valkey.Options{Args: args} }

// Open starts a server for the test. At the end of the test it must stop when asked; no run of it may have crashed.
func Open(t testing.TB, o valkey.Options) *Place {
	t.Helper()
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "emq")
		require.NoError(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		o.Dir = dir
	}
	require.False(t, o.Still && o.Module == "", "EMQ_MODULE and EMQ_MODULE_DEBUG name the module, and `make test` sets them")
	p := &Place{t: t, Options: o}
	p.Start()
	t.Cleanup(func() {
		if p.Dies {
			_ = p.Kill()
			return
		}
		require.NoError(t, p.Stop(), "the server's end")
		p.Sound()
	})
	return p
}

// Serve is Open for a server with the module, whose pump is off.
func Serve(t testing.TB, args ...string) *Place { t.Helper(); return Open(t, Module(args...)) }

// Start starts the server again.
func (p *Place) Start() {
	p.t.Helper()
	s, err := valkey.Start(p.Options)
	require.NoError(p.t, err)
	p.Server, p.Options.Port = s, s.Port()
}

// Sound asserts that this run of the server logged no crash and no panic.
func (p *Place) Sound() {
	p.t.Helper()
	log := p.Log()
	require.NotContains(p.t, log, "BUG REPORT", "the server crashed")
	if !p.Panics {
		require.NotContains(p.t, log, "panic: ", "the module panicked")
	}
}

// Crash kills the server at once, as a power failure would.
func (p *Place) Crash() {
	p.t.Helper()
	require.NoError(p.t, p.Kill())
	p.Sound()
}

// Conn opens a connection for inspection and administration.
func (p *Place) Conn() *wire.Conn { p.t.Helper(); return wire.Dial(p.t, p.Socket) }

// Keyspace reads everything that the server has in its first database.
func (p *Place) Keyspace() Keyspace {
	p.t.Helper()
	c := p.Conn()
	defer c.Close()
	return Read(p.t, c)[0]
}

// Appended reads the commands of a part of the server's append-only file, base or incr.
func (p *Place) Appended(part string) (commands [][]string) {
	p.t.Helper()
	files, err := filepath.Glob(filepath.Join(p.Dir, "appendonlydir", "*."+part+".aof"))
	require.NoError(p.t, err)
	require.Len(p.t, files, 1)
	f, err := os.Open(files[0])
	require.NoError(p.t, err)
	defer f.Close()
	for r := bufio.NewReader(f); ; {
		begin, err := r.Peek(1)
		if err != nil {
			return commands
		}
		if begin[0] == '#' { // an annotation
			_, err := r.ReadString('\n')
			require.NoError(p.t, err)
			continue
		}
		args, err := wire.ReadCommand(r)
		require.NoError(p.t, err)
		commands = append(commands, args)
	}
}

// Following are the settings of a replica of an address. It panics if it can't execute a command of the stream.
func Following(address string) []string {
	host, port, _ := net.SplitHostPort(address)
	return []string{"--replicaof", host + " " + port, "--propagation-error-behavior", "panic"}
}

// Linked waits until a replica is in contact with its primary.
func (p *Place) Linked() {
	p.t.Helper()
	c := p.Conn()
	defer c.Close()
	WaitFor(p.t, "the replica's link", func() bool { return c.Info("master_link_status") == "up" })
}

// Online waits until a primary has a replica that is online.
func (p *Place) Online() {
	p.t.Helper()
	c := p.Conn()
	defer c.Close()
	WaitFor(p.t, "a replica to be online", func() bool { return strings.Contains(c.Do("INFO", "replication"), "state=online") })
}

// InStep waits until the replicas have all writes of the connection's server, and asserts that their digests equal its own.
func InStep(t testing.TB, primary *wire.Conn, replicas ...*wire.Conn) {
	t.Helper()
	primary.Must("SET in-step x") // so that the connection has something to wait for
	require.Equal(t, wire.Integer(int64(len(replicas))), primary.Do("WAIT", strconv.Itoa(len(replicas)), "0"))
	for _, replica := range replicas {
		require.Equal(t, primary.Do("DEBUG", "DIGEST"), replica.Do("DEBUG", "DIGEST"))
	}
}
