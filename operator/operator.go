// Package operator shows people the queues of a server, and lets them repair their jobs. The command emq and the page
// of package web are built on it. It reads from the server only what is shown, a page of jobs at a time, and changes
// jobs only by the verbs, some hundred in a call. It needs the rights of the user "operator" in docs/operations.md.
package operator

import (
	"context"
	"sync"
	"sync/atomic"

	emq "emq/clients/go"
)

// Server is a server with the module, as an operator sees it. It is safe for concurrent use.
type Server struct {
	conn emq.Conn
	once *emq.Client        // does not retry: who looks wants to know that the server is gone
	more []emq.ClientOption // for clients that wait while the server fails over
}

// New returns the server at a connection, which the caller must close.
func New(c emq.Conn) *Server { return &Server{conn: c, once: emq.Use(c, emq.Patience(0))} }

// Impatient returns the server for callers who wait for the answer: calls do not wait for a failover or for a replica
// to become the primary, but fail at once.
func (s *Server) Impatient() *Server {
	other := *s
	other.more = []emq.ClientOption{emq.Patience(0)}
	return &other
}

// asker sends a command and returns its reply.
type asker func(ctx context.Context, args ...string) (emq.Reply, error)

// patient waits while a server fails over or restarts, for long work.
func (s *Server) patient() asker {
	c := emq.Use(s.conn, s.more...)
	return func(ctx context.Context, args ...string) (emq.Reply, error) {
		r, _, err := c.Do(ctx, "", args...)
		return r, err
	}
}

// calls is the number of concurrent commands; a client library sends them in one write.
const calls = 64

// parallel makes n calls, some concurrently, and returns the first error, after which it begins no more.
func parallel(n int, call func(i int) error) (err error) {
	var wg sync.WaitGroup
	var once sync.Once
	var next, failed atomic.Int64
	for range min(n, calls) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failed.Load() == 0; i = int(next.Add(1)) - 1 {
				if e := call(i); e != nil {
					failed.Store(1)
					once.Do(func() { err = e })
				}
			}
		})
	}
	wg.Wait()
	return err
}
