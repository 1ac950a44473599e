// Package link answers one question: how does a test break what lies between a client and its server? It holds a way to a
// server that can be cut and mended, and on which an answer can be lost or late.
package link

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Link is a proxy in front of a server. When it is cut, it closes all its connections, and accepts none until it is
// mended: nothing listens meanwhile, so that clients are refused at once.
type Link struct {
	to   string
	lose atomic.Pointer[loss]
	hold atomic.Pointer[hold]
	mute atomic.Pointer[hold] // of all connections

	sync.Mutex
	listener net.Listener
	address  string
	carried  []net.Conn
}

// loss is the loss of the reply to the next request with this word.
type loss struct {
	word     []byte
	executed func()
}

// hold keeps back the answers of one connection, that of the next request with this word.
type hold struct {
	word []byte
	over chan struct{}
}

// New returns a link that ends with its test.
func New(t testing.TB, to string) *Link {
	t.Helper()
	l := &Link{to: to, address: "127.0.0.1:0"}
	l.Mend(t)
	t.Cleanup(l.Cut)
	return l
}

// Address is where clients connect to.
func (l *Link) Address() string { return l.address }

// Lose loses the reply to the next request that has this word: the request is passed on, executed waits until the server has
// executed it, and then the connection is closed.
func (l *Link) Lose(word string, executed func()) { l.lose.Store(&loss{[]byte(word), executed}) }

// Hold keeps back the answer to the next request that has this word, and what its connection answers after that, until
// what it returns is called.
func (l *Link) Hold(word string) (release func()) {
	h := &hold{[]byte(word), make(chan struct{})}
	l.hold.Store(h)
	return sync.OnceFunc(func() { close(h.over) })
}

// Stall keeps back all answers until what it returns is called.
func (l *Link) Stall() (release func()) {
	h := &hold{over: make(chan struct{})}
	l.mute.Store(h)
	return sync.OnceFunc(func() { close(h.over) })
}

// Cut closes all connections and stops listening.
func (l *Link) Cut() {
	l.Lock()
	defer l.Unlock()
	if l.listener == nil {
		return
	}
	_ = l.listener.Close()
	l.listener = nil
	for _, c := range l.carried {
		_ = c.Close()
	}
	l.carried = nil
}

// Mend listens again on the same address.
func (l *Link) Mend(t testing.TB) {
	t.Helper()
	l.Lock()
	defer l.Unlock()
	listener, err := net.Listen("tcp", l.address)
	require.NoError(t, err)
	l.listener, l.address = listener, listener.Addr().String()
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			l.carry(listener, from)
		}
	}()
}

// carry connects a client's connection to one to the server, unless the link was cut meanwhile.
func (l *Link) carry(listener net.Listener, from net.Conn) {
	to, err := net.Dial("tcp", l.to)
	if err != nil {
		_ = from.Close()
		return
	}
	l.Lock()
	defer l.Unlock()
	if l.listener != listener {
		_ = from.Close()
		_ = to.Close()
		return
	}
	l.carried = append(l.carried, from, to)
	var mute atomic.Bool
	var held atomic.Pointer[hold]
	go pass(to, from, func([]byte) bool {
		for _, h := range []*hold{held.Load(), l.mute.Load()} {
			if h != nil {
				<-h.over
			}
		}
		return !mute.Load()
	})
	go pass(from, to, func(request []byte) bool {
		if h := l.hold.Load(); h != nil && bytes.Contains(request, h.word) && l.hold.CompareAndSwap(h, nil) {
			held.Store(h)
		}
		lost := l.lose.Load()
		if lost == nil || !bytes.Contains(request, lost.word) || !l.lose.CompareAndSwap(lost, nil) {
			return true
		}
		mute.Store(true)
		_, _ = to.Write(request)
		lost.executed()
		_ = from.Close()
		return false
	})
}

// pass copies from one connection to another, except what may rejects, until either ends.
func pass(from, to net.Conn, may func([]byte) bool) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if !may(buffer[:n]) {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
