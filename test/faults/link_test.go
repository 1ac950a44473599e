package faults

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// link is a way to a server that can be cut: every connection that it carries ends, and it carries none until it is
// mended. Nothing listens in between, so whoever comes is turned away at once.
type link struct {
	to string

	sync.Mutex
	listener net.Listener
	address  string
	carried  []net.Conn
}

func newLink(t testing.TB, to string) *link {
	t.Helper()
	l := &link{to: to, address: "127.0.0.1:0"}
	l.mend(t)
	t.Cleanup(l.cut)
	return l
}

func (l *link) cut() {
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

func (l *link) mend(t testing.TB) {
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

// carry joins a connection to one of its own to the server, unless the link was cut in the meantime.
func (l *link) carry(listener net.Listener, from net.Conn) {
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
	for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].Close()
			_ = pair[1].Close()
		}()
	}
}
