package test

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

// conn is a raw connection: commands go out as arrays of bulk strings, replies come back as their exact bytes.
type conn struct {
	net.Conn
	t         *testing.T
	r         *bufio.Reader
	lastReply string
	pushes    []string                          // out-of-band messages, as they came
	heard     func(args []string, reply string) // told of every command and its reply
}

// dial opens a connection that ends with the test.
func (s *server) dial(t *testing.T) *conn {
	t.Helper()
	return dialUnix(t, s.Socket)
}

// dial3 opens a connection that speaks RESP3.
func (s *server) dial3(t *testing.T) *conn {
	t.Helper()
	c := s.dial(t)
	require.True(t, strings.HasPrefix(c.do("HELLO", "3"), "%"), "HELLO 3")
	return c
}

func dialUnix(t *testing.T, path string) *conn {
	t.Helper()
	n, err := net.Dial("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	return &conn{Conn: n, t: t, r: bufio.NewReader(n)}
}

// do sends a command and returns the exact bytes of its reply. Push messages that come first are kept apart.
func (c *conn) do(args ...string) string {
	c.t.Helper()
	c.send(args)
	reply := c.receive()
	if c.heard != nil {
		c.heard(args, reply)
	}
	return reply
}

func (c *conn) send(commands ...[]string) {
	c.t.Helper()
	require.NoError(c.t, c.SetDeadline(time.Now().Add(replyWait)))
	_, err := io.WriteString(c, encode(commands...))
	require.NoError(c.t, err)
}

func (c *conn) receive() string {
	c.t.Helper()
	for {
		f, err := frame(c.r)
		require.NoError(c.t, err, "reading a reply")
		if f[0] != '>' {
			return f
		}
		c.pushes = append(c.pushes, f)
	}
}

// pipeline sends all commands before it reads the first reply.
func (c *conn) pipeline(commands [][]string) []string {
	c.t.Helper()
	require.NoError(c.t, c.SetDeadline(time.Now().Add(replyWait)))
	sent := make(chan error, 1)
	go func() { // beside the reading, so that neither side waits for ever on a full socket
		_, err := io.WriteString(c, encode(commands...))
		sent <- err
	}()
	replies := make([]string, len(commands))
	for i := range commands {
		replies[i] = c.receive()
		if c.heard != nil {
			c.heard(commands[i], replies[i])
		}
	}
	require.NoError(c.t, <-sent)
	return replies
}

func encode(commands ...[]string) string {
	var b strings.Builder
	for _, args := range commands {
		fmt.Fprintf(&b, "*%d\r\n", len(args))
		for _, a := range args {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
		}
	}
	return b.String()
}

// frame reads one whole reply of RESP2 or RESP3 and returns its bytes.
func frame(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return line, err
	}
	count := 0
	if strings.ContainsRune("$=!*~>%|", rune(line[0])) {
		if count, err = strconv.Atoi(strings.TrimSuffix(line[1:], "\r\n")); err != nil {
			return line, err
		}
	}
	switch line[0] {
	case '$', '=', '!':
		if count < 0 {
			return line, nil
		}
		body := make([]byte, count+2)
		_, err := io.ReadFull(r, body)
		return line + string(body), err
	case '%':
		count *= 2
	case '|': // attributes come before what they belong to
		count = 2*count + 1
	}
	var b strings.Builder
	b.WriteString(line)
	for range count {
		f, err := frame(r)
		b.WriteString(f)
		if err != nil {
			return b.String(), err
		}
	}
	return b.String(), nil
}

// value reads a reply's bytes: strings and errors as string, integers as int64, arrays, sets and maps as []any, nil as
// nil.
func value(reply string) any {
	v, err := readValue(bufio.NewReader(strings.NewReader(reply)))
	if err != nil {
		panic(fmt.Sprintf("bad reply %q: %v", reply, err))
	}
	return v
}

func readValue(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, text := line[0], strings.TrimSuffix(line[1:], "\r\n")
	switch kind {
	case '+', '-', ',', '#', '(':
		return text, nil
	case '_':
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || kind == ':' {
		return n, err
	}
	if n < 0 {
		return nil, nil
	}
	switch kind {
	case '$', '=', '!':
		body := make([]byte, n+2)
		_, err := io.ReadFull(r, body)
		return string(body[:n]), err
	case '%':
		n *= 2
	}
	list := make([]any, n)
	for i := range list {
		if list[i], err = readValue(r); err != nil {
			return nil, err
		}
	}
	return list, nil
}
