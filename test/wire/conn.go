// Package wire answers one question: how is a server spoken to? It holds a connection whose replies are their exact
// bytes, the names of a queue's keys, the four verbs with every argument in its place, and a way to write a command on
// one line.
package wire

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// replyWait bounds every wait for the server, so that a hang is a failure. Nothing is asserted about speed.
const replyWait = 120 * time.Second

// Conn is a connection that ends with its test. Commands go out as arrays of bulk strings; replies come back as the
// exact bytes that were read.
type Conn struct {
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
	return &Conn{t, n, bufio.NewReader(n)}
}

// Do sends one command and returns its reply.
func (c *Conn) Do(args ...string) string {
	c.t.Helper()
	c.Send(args)
	return c.Receive()
}

// Run is Do for a command that is written as a line; see Words.
func (c *Conn) Run(line string) string {
	c.t.Helper()
	return c.Do(Words(line)...)
}

// Must runs command lines that may not fail.
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
	var b strings.Builder
	for _, args := range commands {
		fmt.Fprintf(&b, "*%d\r\n", len(args))
		for _, a := range args {
			b.WriteString(Bulk(a))
		}
	}
	require.NoError(c.t, c.n.SetDeadline(time.Now().Add(replyWait)))
	_, err := io.WriteString(c.n, b.String())
	require.NoError(c.t, err)
}

// Receive reads one reply.
func (c *Conn) Receive() string {
	c.t.Helper()
	var b strings.Builder
	require.NoError(c.t, c.copyReply(&b), "reading a reply")
	return b.String()
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

// copyReply reads one whole reply of RESP2.
func (c *Conn) copyReply(b *strings.Builder) error {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return err
	}
	b.WriteString(line)
	if line[0] != '$' && line[0] != '*' {
		return nil
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(line[1:], "\r\n"), 10, 64)
	if err != nil || n < 0 {
		return err
	}
	if line[0] == '$' {
		_, err := io.CopyN(b, c.r, n+2)
		return err
	}
	for range n {
		if err := c.copyReply(b); err != nil {
			return err
		}
	}
	return nil
}
