package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"emq/test/store"
	"emq/test/wire"
)

// With this variable the test binary is the command itself, so that the tests run it as people do, with its own
// streams, signals and terminals.
const asCommand = "EMQ_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// desk is the setting of a user of the command: a server, and an environment without anything from the machine.
type desk struct {
	t    testing.TB
	p    *store.Place
	c    *wire.Conn
	home string
	env  []string
}

// sit starts a server on which no job moves by itself.
func sit(t testing.TB, args ...string) *desk {
	t.Helper()
	if os.Getenv("VALKEY_SERVER") == "" || os.Getenv("EMQ_MODULE") == "" {
		t.Skip("VALKEY_SERVER and EMQ_MODULE are not set: `make test-tools` sets them")
	}
	p := store.Open(t, store.Module(args...))
	d := away(t)
	d.p, d.c = p, p.Conn()
	return d.with("EMQ_URL=unix://" + p.Socket)
}

// away is a desk without a server.
func away(t testing.TB) *desk {
	home := t.TempDir()
	return &desk{t: t, home: home, env: []string{asCommand + "=1", "HOME=" + home, "XDG_CONFIG_HOME=" + home, "PATH=" + os.Getenv("PATH"), "TZ=UTC",
		"TERM=xterm", "NO_COLOR=1"}}
}

// with is the desk with additional environment variables; of equal names the last counts.
func (d *desk) with(env ...string) *desk {
	other := *d
	other.env = append(append([]string{}, d.env...), env...)
	return &other
}

// told is the result of a run of the command.
type told struct {
	code     int
	out, err string
}

func (d *desk) command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env, cmd.Dir = d.env, d.home
	return cmd
}

// emq runs the command without a terminal.
func (d *desk) emq(args ...string) told { d.t.Helper(); return d.fed("", args...) }

// fed runs it with something on its standard input.
func (d *desk) fed(input string, args ...string) told {
	d.t.Helper()
	cmd := d.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	return told{code(d.t, cmd.Run()), out.String(), errs.String()}
}

func code(t testing.TB, err error) int {
	t.Helper()
	if ended := new(exec.ExitError); errors.As(err, &ended) {
		return ended.ExitCode()
	}
	require.NoError(t, err)
	return 0
}

// ok runs a command that must succeed without writing to standard error, and returns its output.
func (d *desk) ok(args ...string) string {
	d.t.Helper()
	r := d.emq(args...)
	require.Equal(d.t, told{0, r.out, ""}, r, "emq %q", args)
	return r.out
}

// records are the records of a run with --json.
func records(t testing.TB, out string) (list []map[string]any) {
	t.Helper()
	for line := range strings.Lines(out) {
		var r map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &r), "%s", line)
		list = append(list, r)
		for name := range r {
			seen.Store(name, true)
		}
	}
	return list
}

// seen are the names of all records in the tests, which the page must explain.
var seen sync.Map

func (d *desk) records(args ...string) []map[string]any {
	d.t.Helper()
	return records(d.t, d.ok(append(args, "--json")...))
}

// buffer is safe for a concurrent writer and reader.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// session is a run of the command on a terminal.
type session struct {
	t    testing.TB
	cmd  *exec.Cmd
	tty  *os.File
	said buffer
	done chan struct{}
}

// terminal runs the command on a terminal of 100 columns and 30 lines; its standard output goes to piped instead,
// unless that is nil.
func (d *desk) terminal(piped io.Writer, args ...string) *session {
	d.t.Helper()
	s := &session{t: d.t, cmd: d.command(args...), done: make(chan struct{})}
	s.cmd.Stdout = piped
	tty, err := pty.StartWithSize(s.cmd, &pty.Winsize{Rows: 30, Cols: 100})
	require.NoError(d.t, err)
	s.tty = tty
	go func() {
		defer close(s.done)
		b := make([]byte, 4096)
		for {
			n, err := tty.Read(b) // an error when the last one closes the other side
			_, _ = s.said.Write(b[:n])
			if err != nil {
				return
			}
		}
	}()
	d.t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = tty.Close()
	})
	return s
}

func (s *session) text() string { return s.said.String() }

// sees waits until a text is on the terminal.
func (s *session) sees(what string) {
	s.t.Helper()
	there := func() bool { return strings.Contains(s.text(), what) }
	store.Await(func() bool {
		select {
		case <-s.done:
			return true
		default:
			return there()
		}
	})
	require.True(s.t, there(), "the terminal never had %q:\n%q", what, s.text())
}

func (s *session) types(keys string) {
	s.t.Helper()
	_, err := s.tty.WriteString(keys)
	require.NoError(s.t, err)
}

// ends waits for the end of the run and returns its exit code and all its output.
func (s *session) ends() (int, string) {
	s.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- s.cmd.Wait() }()
	select {
	case err := <-ended:
		<-s.done
		return code(s.t, err), s.text()
	case <-time.After(2 * time.Minute):
		s.t.Fatalf("the command does not end; the terminal has %q", s.text())
	}
	return 0, ""
}

// asFound reports whether the terminal is in its original mode: with echo, line by line.
func (s *session) asFound() bool {
	s.t.Helper()
	state, err := unix.IoctlGetTermios(int(s.tty.Fd()), unix.TCGETS)
	require.NoError(s.t, err)
	return state.Lflag&unix.ECHO != 0 && state.Lflag&unix.ICANON != 0
}

// bury makes a queue of dead letters, each with its error.
func (d *desk) bury(q wire.Queue, ids []string, why func(i int) string) {
	d.t.Helper()
	for from := 0; from < len(ids); from += 1000 {
		some := ids[from:min(from+1000, len(ids))]
		jobs, fails := []string{}, []string{}
		for i, id := range some {
			jobs = append(jobs, id, "payload of "+id)
			fails = append(fails, id, "1", "0", why(from+i))
		}
		d.must(q.Menqueue(jobs...), q.Mclaim(1<<40, int64(len(some))), q.Mfail(1, fails...))
	}
}

// must sends commands that must not fail.
func (d *desk) must(commands ...[]string) {
	d.t.Helper()
	for i, reply := range d.c.Pipeline(commands) {
		require.False(d.t, wire.IsError(reply), "%.200q: %s", commands[i], reply)
	}
}
