package emq_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"
	"go.uber.org/goleak"

	"emq/clients/go"
	"emq/test/store"
	"emq/test/wire"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("emq/tools/spawn.loop"), goleak.IgnoreCurrent())
}

// serve starts a server whose pump runs.
func serve(t testing.TB, args ...string) *store.Place {
	t.Helper()
	if os.Getenv("VALKEY_SERVER") == "" || os.Getenv("EMQ_MODULE") == "" {
		t.Skip("VALKEY_SERVER and EMQ_MODULE are not set: `make test-clients-go` sets them")
	}
	return store.Open(t, store.Pumped(args...))
}

// client is a client of a server's, closed at the end of the test.
func client(t testing.TB, s *store.Place, opts ...emq.ClientOption) *emq.Client {
	t.Helper()
	return open(t, "valkey://"+s.Addr(), opts...)
}

func open(t testing.TB, url string, opts ...emq.ClientOption) *emq.Client {
	t.Helper()
	c, err := emq.Open(url, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// options are those of valkey-go for a server.
func options(t testing.TB, s *store.Place) valkey.ClientOption {
	t.Helper()
	o, err := valkey.ParseURL("valkey://" + s.Addr())
	require.NoError(t, err)
	return o
}

// quiet keeps what goes wrong on purpose out of the output.
var quiet = emq.Log(slog.New(slog.DiscardHandler))

// running is a worker that runs until stop is called, or the test ends.
type running struct {
	*emq.Worker
	cancel context.CancelFunc
	done   chan error
	once   sync.Once
	err    error
}

func run(t testing.TB, w *emq.Worker) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{Worker: w, cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- w.Run(ctx) }()
	t.Cleanup(func() { r.stop(t) })
	return r
}

// stop ends the worker and waits for it.
func (r *running) stop(t testing.TB) {
	t.Helper()
	r.once.Do(func() {
		r.cancel()
		select {
		case r.err = <-r.done:
		case <-time.After(2 * time.Minute):
			t.Error("the worker does not stop")
		}
	})
	require.NoError(t, r.err)
}

// gathered collects events.
type gathered struct {
	mu     sync.Mutex
	events []emq.Event
}

func (g *gathered) observe() emq.WorkerOption {
	return emq.Observe(func(e emq.Event) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.events = append(g.events, e)
	})
}

func (g *gathered) all() []emq.Event {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]emq.Event(nil), g.events...)
}

func (g *gathered) wait(t testing.TB, n int) []emq.Event {
	t.Helper()
	store.WaitFor(t, "the jobs to be settled", func() bool { return len(g.all()) >= n })
	return g.all()
}

// sizes are how many jobs a queue has of each state, and how many were completed.
func sizes(t testing.TB, s *store.Place, queue string) map[string]string {
	t.Helper()
	c, q := s.Conn(), wire.Queue(queue)
	defer c.Close()
	m := map[string]string{}
	for state := range wire.SetOf {
		if n := text(c.Do("ZCARD", q.Set(state))); n != "0" {
			m[state] = n
		}
	}
	if n := c.Do("HGET", q.Completed(), "count"); n != wire.Nil {
		m["completed"] = text(n)
	}
	return m
}

// text is a reply as text.
func text(reply string) string { return fmt.Sprint(wire.Value(reply)) }
