// Package wire answers one question: how do tests talk to a server? It has a connection whose replies are their exact
// bytes, the names of a queue's keys, the verbs with all their arguments, and a way to write a command on one line.
package wire

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Patience bounds every wait, so that a hang becomes a failure. Nothing is asserted about speed.
const Patience = 120 * time.Second

// Conn is a connection that ends with its test. Commands go out as arrays of bulk strings; replies come back as the
// exact bytes that were read.
type Conn struct {
	// Pushes are the out-of-band messages of RESP3 that came between replies.
	Pushes []string
	// Heard, if it is set, is called for each command with its reply.
	Heard func(args []string, reply string)

	t testing.TB
	n net.Conn
	r *bufio.Reader
}

// Dial connects to a server's unix socket.
func Dial(t testing.TB, socket string) *Conn {
	t.Helper()
	n, err := net.Dial("unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	return &Conn{t: t, n: n, r: bufio.NewReader(n)}
}

// DialTCP connects to an address; such a connection can be reset.
func DialTCP(t testing.TB, address string) *Conn {
	t.Helper()
	n, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	return &Conn{t: t, n: n, r: bufio.NewReader(n)}
}

// Dial3 is Dial for a connection that speaks RESP3.
func Dial3(t testing.TB, socket string) *Conn {
	t.Helper()
	c := Dial(t, socket)
	require.False(t, IsError(c.Do("HELLO", "3")), "HELLO 3")
	return c
}

// Close ends the connection before its test does.
func (c *Conn) Close() error { return c.n.Close() }

// Reset closes a connection of DialTCP with RST, as the kernel does for a crashed program: data that were not read are lost.
func (c *Conn) Reset() {
	c.t.Helper()
	require.NoError(c.t, c.n.(*net.TCPConn).SetLinger(0))
	require.NoError(c.t, c.Close())
}

// Ended asserts that the server closes the connection without another reply, and closes this end.
func (c *Conn) Ended() {
	c.t.Helper()
	require.NoError(c.t, c.n.SetReadDeadline(time.Now().Add(Patience)))
	reply, err := Read(c.r)
	require.Error(c.t, err, "%q", reply)
	require.False(c.t, errors.Is(err, os.ErrDeadlineExceeded), "the connection is still open")
	require.NoError(c.t, c.Close())
}

// Do sends one command and returns its reply.
func (c *Conn) Do(args ...string) string {
	c.t.Helper()
	c.Send(args)
	return c.answer(args)
}

// Pipeline sends all commands before it reads the first reply, and returns the replies.
func (c *Conn) Pipeline(commands [][]string) []string {
	c.t.Helper()
	sent := make(chan error, 1)
	go func() { // concurrently with the reads, so that neither side blocks for ever on a full socket
		_, err := io.WriteString(c.n, Encode(commands...))
		sent <- err
	}()
	replies := make([]string, len(commands))
	for i, args := range commands {
		replies[i] = c.answer(args)
	}
	require.NoError(c.t, <-sent)
	return replies
}

// answer reads the reply to a command.
func (c *Conn) answer(args []string) string {
	c.t.Helper()
	reply := c.Receive()
	if c.Heard != nil {
		c.Heard(args, reply)
	}
	return reply
}

// Run is Do for a command that is written as a line; see Words.
func (c *Conn) Run(line string) string {
	c.t.Helper()
	return c.Do(Words(line)...)
}

// Must runs command lines that must not fail.
func (c *Conn) Must(lines ...string) {
	c.t.Helper()
	for _, line := range lines {
		reply := c.Run(line)
		require.False(c.t, IsError(reply), "%s: %q", line, reply)
	}
}

// Send sends commands without reading a reply; Receive reads the next one.
func (c *Conn) Send(commands ...[]string) {
	c.t.Helper()
	require.NoError(c.t, c.n.SetWriteDeadline(time.Now().Add(Patience)))
	_, err := io.WriteString(c.n, Encode(commands...))
	require.NoError(c.t, err)
}

// Receive reads one reply; pushed messages before it go to Pushes.
func (c *Conn) Receive() string {
	c.t.Helper()
	for {
		require.NoError(c.t, c.n.SetReadDeadline(time.Now().Add(Patience)))
		reply, err := Read(c.r)
		require.NoError(c.t, err, "reading a reply")
		if reply[0] != '>' {
			return reply
		}
		c.Pushes = append(c.Pushes, reply)
	}
}

// ID is the server's id of this client.
func (c *Conn) ID() string {
	c.t.Helper()
	return strconv.FormatInt(Value(c.Do("CLIENT", "ID")).(int64), 10)
}

// Behind runs commands and, before any other client's command, a claim. The jobs that the commands made claimable must
// be gone by then, because waiting clients are served first.
func (c *Conn) Behind(claim []string, commands ...[]string) []string {
	c.t.Helper()
	replies := c.Pipeline(append(commands, claim))
	last := len(replies) - 1
	for i, reply := range replies[:last] {
		require.False(c.t, IsError(reply), "%s: %s", Line(commands[i]), reply)
	}
	require.Equal(c.t, Empty, replies[last], "who waits is served first")
	return replies[:last]
}

// Members returns the entries of a sorted set, in order.
func (c *Conn) Members(key string) []string {
	c.t.Helper()
	list, ok := Value(c.Do("ZRANGE", key, "0", "-1")).([]any)
	require.True(c.t, ok, "%s is no sorted set", key)
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].(string)
	}
	return ids
}

// Now is the server's clock, in ms.
func (c *Conn) Now() int64 {
	c.t.Helper()
	pair := Value(c.Do("TIME")).([]any)
	seconds, err := strconv.ParseInt(pair[0].(string), 10, 64)
	require.NoError(c.t, err)
	micros, err := strconv.ParseInt(pair[1].(string), 10, 64)
	require.NoError(c.t, err)
	return seconds*1000 + micros/1000
}

// Info returns one field of INFO.
func (c *Conn) Info(name string) string {
	c.t.Helper()
	text := Value(c.Do("INFO", "everything")).(string)
	for line := range strings.SplitSeq(text, "\r\n") {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return value
		}
	}
	require.Fail(c.t, "INFO has no such field", name)
	return ""
}
