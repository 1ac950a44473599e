package clients

import (
	"bytes"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// link is a way to a server on which one answer is lost, that to the first CLAIM: the server has carried it out, and then
// the connection ends. Whatever else there is, then and later, is carried as it is.
type link struct {
	to     string
	looker *wire.Conn // a connection past the link
	lost   atomic.Bool
}

// newLink returns the address of a link to a server.
func newLink(t *testing.T, s *store.Place) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	l := &link{to: s.Addr(), looker: s.Conn()}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go l.carry(t, from)
		}
	}()
	return listener.Addr().String()
}

func (l *link) carry(t *testing.T, from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer to.Close()
	var mute atomic.Bool
	go pass(to, from, func([]byte) bool { return !mute.Load() })
	pass(from, to, func(request []byte) bool {
		if !bytes.Contains(request, []byte("EMQ.CLAIM")) || !l.lost.CompareAndSwap(false, true) {
			return true
		}
		mute.Store(true)
		_, _ = to.Write(request)
		store.WaitFor(t, "the claim to be carried out", func() bool { return l.looker.Info("emq_claim_claimed") == "1" })
		_ = from.Close()
		return false
	})
}

// pass carries what comes from one connection to another until either ends, but for what may not be carried.
func pass(from, to net.Conn, may func([]byte) bool) {
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
