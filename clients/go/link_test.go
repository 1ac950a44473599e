package emq_test

import (
	"bytes"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
)

// link is a way to a server on which connections can be reset and answers lost.
type link struct {
	to       string
	listener net.Listener

	mu      sync.Mutex
	carried map[*net.TCPConn]bool
	lose    []byte // the answer to the next request with these bytes is lost, once the server has carried it out
	lost    chan struct{}
	look    []byte // the next request with these bytes is seen
	seen    chan struct{}
}

func newLink(t testing.TB, s *store.Place) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &link{to: s.Addr(), listener: listener, carried: map[*net.TCPConn]bool{}, lost: make(chan struct{}, 100)}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { l.carry(from.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		l.reset()
		all.Wait()
	})
	return l
}

func (l *link) url() string { return "valkey://" + l.listener.Addr().String() }

// reset ends every connection with an RST.
func (l *link) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.carried {
		_ = c.SetLinger(0)
		_ = c.Close()
	}
}

// loseAnswer has the answer to the next request that has the verb lost, and the connection with it.
func (l *link) loseAnswer(verb string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose = []byte(verb + "\r\n")
}

// sees tells when the next request that has the verb passes.
func (l *link) sees(verb string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.look, l.seen = []byte(verb+"\r\n"), make(chan struct{})
	return l.seen
}

func (l *link) carry(from *net.TCPConn) {
	c, err := net.Dial("tcp", l.to)
	if err != nil {
		_ = from.Close()
		return
	}
	to := c.(*net.TCPConn)
	l.mu.Lock()
	l.carried[from], l.carried[to] = true, true
	l.mu.Unlock()
	var muted sync.Once
	mute := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		pass(from, to, func(b []byte) bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.lose != nil && bytes.Contains(b, l.lose) {
				l.lose = nil
				muted.Do(func() { close(mute) })
			}
			if l.look != nil && bytes.Contains(b, l.look) {
				l.look = nil
				close(l.seen)
			}
			return true
		})
		_ = to.Close()
	})
	wg.Go(func() {
		pass(to, from, func([]byte) bool {
			select {
			case <-mute: // the server has answered
				l.lost <- struct{}{}
				return false
			default:
				return true
			}
		})
		_ = from.Close()
	})
	wg.Wait()
	l.mu.Lock()
	delete(l.carried, from)
	delete(l.carried, to)
	l.mu.Unlock()
}

// pass carries bytes until there are no more, or one lot may not pass.
func pass(from, to net.Conn, may func([]byte) bool) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			if !may(b[:n]) {
				return
			}
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
