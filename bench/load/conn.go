package load

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// conn is one connection and the pipeline on it.
type conn struct {
	fd    int
	index int
	poll  *poller
	form  *[NumVerbs]form
	out   [NumVerbs]pipeline

	unsent []byte // of the pipeline that is being sent
	armed  bool   // the poller waits for room to send
	in     []byte
	have   int // bytes in in
	left   int // replies to come
	at     int // which of the run's verbs this is
	began  time.Time
}

// pipeline is a request, repeated, of which only the ids vary.
type pipeline struct {
	bytes []byte
	jobs  [][]int // where the id of each job goes
}

func (c *conn) dial(g *Generator, index int, o Options) error {
	*c = conn{fd: -1, index: index, poll: g.poll, form: &g.form}
	largest := 0
	for v := range g.form {
		f := &g.form[v]
		c.out[v].bytes = bytes.Repeat(f.request, g.depth)
		for i := range g.depth {
			for _, job := range f.jobs {
				at := slices.Clone(job)
				for k := range at {
					at[k] += i * len(f.request)
				}
				c.out[v].jobs = append(c.out[v].jobs, at)
			}
		}
		largest = max(largest, len(f.reply))
	}
	c.in = make([]byte, max(minReadBuffer, 4*largest))

	fd, err := connect(o)
	if err != nil {
		return err
	}
	c.fd = fd
	return c.poll.add(fd, index)
}

// connect returns a descriptor that does not block, in the right database. The runtime's own poller never learns of it.
func connect(o Options) (int, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return -1, err
	}
	syscall.CloseOnExec(fd)
	if err := open(fd, o); err != nil {
		_ = syscall.Close(fd)
		return -1, err
	}
	return fd, nil
}

func open(fd int, o Options) error {
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: o.Socket}); err != nil {
		return err
	}
	if _, err := syscall.Write(fd, Command("SELECT", strconv.Itoa(o.DB))); err != nil {
		return err
	}
	var answer [64]byte
	if n, err := syscall.Read(fd, answer[:]); err != nil || string(answer[:max(n, 0)]) != "+OK\r\n" {
		return fmt.Errorf("SELECT %d: %q, %v", o.DB, answer[:max(n, 0)], err)
	}
	return syscall.SetNonblock(fd, true)
}

func (c *conn) close() {
	if c.fd >= 0 {
		_ = syscall.Close(c.fd)
		c.fd = -1
	}
}

// fill writes the ids into a pipeline and makes it the one to send.
func (c *conn) fill(v Verb, take func() id) {
	p := &c.out[v]
	for _, job := range p.jobs {
		next := take()
		for _, at := range job {
			copy(p.bytes[at:], next[:])
		}
	}
	c.unsent = p.bytes
}

// write sends what there is room for.
func (c *conn) write() error {
	for len(c.unsent) > 0 {
		n, err := write(c.fd, c.unsent)
		if err == syscall.EAGAIN {
			break
		}
		if err != 0 {
			return err
		}
		c.unsent = c.unsent[n:]
	}
	if more := len(c.unsent) > 0; more != c.armed {
		c.armed = more
		return c.poll.watchWrite(c.fd, c.index, more)
	}
	return nil
}

// come reads what has come on a connection: nothing, if nothing has yet.
func come(fd int, into []byte) (n int, err error) {
	n, errno := read(fd, into)
	switch {
	case errno == syscall.EAGAIN:
		return 0, nil
	case errno != 0:
		return 0, errno
	case n == 0:
		return 0, io.ErrUnexpectedEOF
	}
	return n, nil
}

// read takes what has come and compares it; the ids of claimed jobs go to held.
func (c *conn) read(v Verb, held *fifo) error {
	n, err := come(c.fd, c.in[c.have:])
	if n == 0 {
		return err
	}
	c.have += n
	f := &c.form[v]
	got := c.in[:c.have]
	for c.left > 0 && len(got) >= len(f.reply) {
		if !f.matches(got) {
			return unexpected(v, f, got)
		}
		for _, at := range f.ids {
			held.push(id(got[at:]))
		}
		got = got[len(f.reply):]
		c.left--
	}
	// What is there of the next reply must be right as well: a shorter one, an error say, would never fill up.
	if !f.matches(got) || c.left == 0 && len(got) > 0 {
		return unexpected(v, f, got)
	}
	c.have = copy(c.in, got)
	return nil
}

func unexpected(v Verb, f *form, got []byte) error {
	clip := func(b []byte) string {
		s, _, _ := strings.Cut(string(b[:min(len(b), 200)]), "\r\n")
		return s
	}
	return fmt.Errorf("%s was answered %q, expected %q", v, clip(got), clip(f.reply))
}
