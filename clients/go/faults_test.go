package emq_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/clients/go"
	"emq/test/store"
	"emq/test/valkey"
	"emq/test/wire"
)

// An answer to ENQUEUE, SCHEDULE or MENQUEUE is lost: the job is sent again, and is there once.
func TestLostEnqueue(t *testing.T) {
	s := serve(t)
	l := newLink(t, s)
	q := emq.NewQueue[int](open(t, l.url()), "q")
	l.loseAnswer("EMQ.ENQUEUE")
	r, err := q.Enqueue(t.Context(), 1)
	require.NoError(t, err)
	require.True(t, r.Created, "it was the call that made it")
	<-l.lost
	l.loseAnswer("EMQ.SCHEDULE")
	r, err = q.Enqueue(t.Context(), 2, emq.In(time.Hour))
	require.NoError(t, err)
	require.True(t, r.Created)
	<-l.lost
	l.loseAnswer("EMQ.MENQUEUE")
	n, err := q.EnqueueMany(t.Context(), slices.Values([]int{3, 4, 5}))
	require.NoError(t, err)
	require.Equal(t, 3, n)
	<-l.lost
	require.Equal(t, map[string]string{"pending": "4", "scheduled": "1"}, sizes(t, s, "q"))
}

// A command of the caller's own goes on when its server is back, and tells if it may have been carried out twice.
func TestDo(t *testing.T) {
	s := serve(t)
	l := newLink(t, s)
	c := open(t, l.url())
	s.Conn().Must("EMQ.ENQUEUE 2 emq:{q}:job:JOB1 emq:{q}:pending JOB1 x")
	r, again, err := c.Do(t.Context(), "q", "EMQ.REMOVE", "emq:{q}:", "any", "JOB1", "JOB2")
	require.NoError(t, err)
	require.False(t, again)
	require.Equal(t, []emq.Reply{{Int: 1}, {}}, r.List)

	l.loseAnswer("INCR")
	r, again, err = c.Do(t.Context(), "q", "INCR", "n")
	require.NoError(t, err)
	require.True(t, again)
	require.Equal(t, int64(2), r.Int)
	<-l.lost

	_, _, err = c.Do(t.Context(), "q", "INCR", "emq:{q}:none", "x")
	var refusal *emq.Error
	require.ErrorAs(t, err, &refusal)
	ctx, cancel := context.WithCancel(t.Context())
	s.Crash()
	cancel()
	_, _, err = c.Do(ctx, "q", "PING")
	require.ErrorIs(t, err, context.Canceled)
	s.Start()
	_, _, err = c.Do(t.Context(), "q", "PING")
	require.NoError(t, err)
}

// The answer to a settlement is lost: it is sent again, and that it then finds nothing is as it should be.
func TestLostSettlement(t *testing.T) {
	s := serve(t)
	for _, c := range []struct {
		verb   string
		answer error
		want   emq.Outcome
		sizes  map[string]string
	}{
		{"EMQ.MCOMPLETE", nil, emq.Completed, map[string]string{"completed": "1"}},
		{"EMQ.MFAIL", errors.New("boom"), emq.Retried, map[string]string{"scheduled": "1"}},
		{"EMQ.MFAIL", emq.Dead(errors.New("boom")), emq.Died, map[string]string{"dead": "1"}},
		{"EMQ.RELEASE", emq.Snooze(time.Hour), emq.Snoozed, map[string]string{"scheduled": "1"}},
	} {
		t.Run(fmt.Sprint(c.verb, c.want), func(t *testing.T) {
			l, name := newLink(t, s), t.Name()
			client := open(t, l.url())
			q := emq.NewQueue[int](client, name, emq.Failures(5, emq.Constant(time.Hour)))
			var events gathered
			w := emq.NewWorker(client, quiet, events.observe())
			emq.Handle(w, q, func(context.Context, *emq.Job[int]) error { return c.answer })
			_, err := q.Enqueue(t.Context(), 1)
			require.NoError(t, err)
			l.loseAnswer(c.verb)
			r := run(t, w)
			<-l.lost
			e := events.wait(t, 1)[0]
			r.stop(t)
			require.Equal(t, c.want, e.Outcome)
			require.Equal(t, c.sizes, sizes(t, s, name))
		})
	}
}

// The answer to a claim is lost: it is not sent again, so one job waits for its lease, and no more.
func TestLostClaim(t *testing.T) {
	s := serve(t)
	for _, verb := range []string{"EMQ.MCLAIM", "EMQ.BCLAIM"} {
		t.Run(verb, func(t *testing.T) {
			l, name := newLink(t, s), t.Name()
			c := open(t, l.url())
			q := emq.NewQueue[int](c, name, emq.Lease(time.Hour))
			var events gathered
			w := emq.NewWorker(c, quiet, events.observe())
			emq.Handle(w, q, func(context.Context, *emq.Job[int]) error { return nil }, emq.Concurrency(1))
			enqueue := func(n int) {
				_, err := emq.NewQueue[int](client(t, s), name).EnqueueMany(t.Context(), slices.Values(make([]int, n)))
				require.NoError(t, err)
			}
			l.loseAnswer(verb)
			if verb == "EMQ.MCLAIM" {
				enqueue(5)
			}
			r := run(t, w)
			if verb == "EMQ.BCLAIM" {
				conn := s.Conn()
				store.WaitFor(t, "the wait", func() bool { return blocked(conn) != "" })
				enqueue(5)
			}
			<-l.lost
			events.wait(t, 4)
			store.WaitFor(t, "the settlements", func() bool { return sizes(t, s, name)["completed"] == "4" })
			r.stop(t)
			require.Equal(t, map[string]string{"completed": "4", "active": "1"}, sizes(t, s, name))
		})
	}
}

// Two programs make the same ids: the job of the second is made under another one, in whatever call.
func TestSameIDs(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	q := emq.NewQueue[string](c, "q")
	at := time.UnixMilli(1_800_000_000_000)
	for _, x := range []*emq.Client{c, client(t, s)} {
		emq.SetClock(x, func() time.Time { return at }, 7)
	}
	first, err := q.Enqueue(t.Context(), "a")
	require.NoError(t, err)
	other := client(t, s)
	emq.SetClock(other, func() time.Time { return at }, 7)
	second, err := emq.NewQueue[string](other, "q").Enqueue(t.Context(), "b")
	require.NoError(t, err)
	require.True(t, second.Created)
	require.NotEqual(t, first.ID, second.ID)
	third := client(t, s)
	emq.SetClock(third, func() time.Time { return at }, 7)
	n, err := emq.NewQueue[string](third, "q").EnqueueMany(t.Context(), slices.Values([]string{"c", "d"}))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, map[string]string{"pending": "4"}, sizes(t, s, "q"))
}

const producers = 4

// crowd is producers and workers under load, and what is known of each job.
type crowd struct {
	t        testing.TB
	q        emq.Queue[int]
	worker   *running
	stopped  chan struct{}
	produced sync.WaitGroup
	next     atomic.Int64

	mu        sync.Mutex
	confirmed map[emq.ID]bool
	done      map[emq.ID]int // completed, by the worker's account
	lost      int
}

func newCrowd(t testing.TB, producer, consumer *emq.Client, opts ...emq.QueueOption) *crowd {
	c := &crowd{t: t, q: emq.NewQueue[int](producer, "crowd", opts...), stopped: make(chan struct{}),
		confirmed: map[emq.ID]bool{}, done: map[emq.ID]int{}}
	w := emq.NewWorker(consumer, quiet, emq.Observe(func(e emq.Event) {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch e.Outcome {
		case emq.Completed:
			c.done[e.ID]++
		case emq.Lost:
			c.lost++
		}
	}))
	emq.Handle(w, emq.NewQueue[int](consumer, "crowd", opts...), func(context.Context, *emq.Job[int]) error { return nil }, emq.Concurrency(16))
	c.worker = run(t, w)
	for range producers {
		c.produced.Go(func() {
			for {
				select {
				case <-c.stopped:
					return
				default:
				}
				r, err := c.q.Enqueue(context.Background(), int(c.next.Add(1)))
				if err != nil {
					t.Errorf("a producer: %v", err)
					return
				}
				c.mu.Lock()
				c.confirmed[r.ID] = true
				c.mu.Unlock()
			}
		})
	}
	return c
}

func (c *crowd) more(n int) {
	c.t.Helper()
	count := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.done)
	}
	from := count()
	store.WaitFor(c.t, "more work", func() bool { return count() >= from+n })
}

// end stops the producers, waits until all is done, and asserts that no job was lost, nor completed twice except those that
// may have been enqueued a second time after they were done.
func (c *crowd) end(s *store.Place, twice int) {
	c.t.Helper()
	close(c.stopped)
	c.produced.Wait()
	conn := s.Conn()
	store.WaitFor(c.t, "all to be done", func() bool {
		n := sizes(c.t, s, "crowd")
		return n["pending"] == "" && n["active"] == "" && n["scheduled"] == ""
	})
	c.worker.stop(c.t)
	require.NotContains(c.t, sizes(c.t, s, "crowd"), "dead")
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.confirmed {
		require.Equal(c.t, wire.Integer(0), conn.Do("EXISTS", wire.Queue("crowd").Row(string(id))))
	}
	again := 0
	for _, n := range c.done {
		again += n - 1
	}
	require.LessOrEqual(c.t, again, twice, "were completed twice")
	// What was completed and not confirmed as such was Lost: its answer, or its lease.
	require.LessOrEqual(c.t, len(c.confirmed)-len(c.done), c.lost)
	c.t.Logf("%d jobs, %d of them without the server's word", len(c.confirmed), c.lost)
}

// The server is killed and started again under load, with each write on disk before it is answered: no job is lost, and the
// worker settles what it has on the next connection.
func TestServerKilled(t *testing.T) {
	s := serve(t, "--appendonly", "yes", "--appendfsync", "always")
	c := newCrowd(t, client(t, s), client(t, s), emq.Lease(2*time.Second))
	for range 3 {
		c.more(300)
		s.Crash()
		s.Start()
	}
	c.more(300)
	c.end(s, 3*producers)
}

// Connections are reset under load.
func TestReset(t *testing.T) {
	const resets = 5
	s := serve(t)
	ofProducers, ofWorkers := newLink(t, s), newLink(t, s)
	c := newCrowd(t, open(t, ofProducers.url()), open(t, ofWorkers.url()), emq.Lease(2*time.Second))
	for range resets {
		c.more(200)
		ofWorkers.reset()
		c.more(200)
		ofProducers.reset()
	}
	c.more(200)
	c.end(s, resets*producers)
}

// Clients are unblocked with an error, and killed, while they wait and work.
func TestUnblocked(t *testing.T) {
	s := serve(t)
	s.Conn().Must("SET {emq}:version echomq:6.0.0")
	c := client(t, s)
	q := emq.NewQueue[int](c, "q")
	var events gathered
	w := emq.NewWorker(c, quiet, events.observe())
	emq.Handle(w, q, func(context.Context, *emq.Job[int]) error { return nil })
	r := run(t, w)
	conn := s.Conn()
	for i := range 3 {
		waiter := ""
		store.WaitFor(t, "a client that waits", func() bool {
			waiter = blocked(conn)
			return waiter != ""
		})
		if i == 1 {
			conn.Do("CLIENT", "KILL", "ID", waiter)
		} else {
			conn.Do("CLIENT", "UNBLOCK", waiter, "ERROR")
		}
		_, err := q.Enqueue(t.Context(), i)
		require.NoError(t, err)
		events.wait(t, i+1)
	}
	r.stop(t)
	require.Equal(t, map[string]string{"completed": "3"}, sizes(t, s, "q"))
}

// waits finds the id of a client that waits in the server.
var waits = regexp.MustCompile(`(?m)^id=(\d+) .* flags=b`)

// blocked is the id of a client that waits in the server, if there is one.
func blocked(c *wire.Conn) string {
	if m := waits.FindStringSubmatch(text(c.Do("CLIENT", "LIST"))); m != nil {
		return m[1]
	}
	return ""
}

// The worker's primary becomes a replica, and later the primary again: it waits and goes on.
func TestReadonly(t *testing.T) {
	s := serve(t)
	c := newCrowd(t, client(t, s), client(t, s), emq.Lease(2*time.Second))
	c.more(100)
	s.Conn().Must("REPLICAOF 127.0.0.1 1")
	time.Sleep(50 * time.Millisecond) // long enough for some refusals, and none is asserted
	s.Conn().Must("REPLICAOF NO ONE")
	c.more(100)
	c.end(s, 0)
}

const group = "emq"

// The primary is killed under load, with three Sentinels watching: the clients find the new one by themselves. Each job
// that was there before the kill is done.
func TestSentinelFailover(t *testing.T) {
	primary := serve(t)
	replica := store.Open(t, store.Pumped(store.Following(primary.Addr())...))
	replica.Linked()
	primary.Online()
	url := ""
	var watchers []*store.Place
	for i := range 3 {
		s := store.Open(t, valkey.Options{Sentinel: []string{
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", group, primary.Port()),
			"sentinel down-after-milliseconds " + group + " 1000",
			"sentinel failover-timeout " + group + " 5000",
		}})
		watchers = append(watchers, s)
		if i == 0 {
			url = "valkey://" + s.Addr() + "?master_set=" + group
		} else {
			url += "&addr=" + s.Addr()
		}
	}
	for _, s := range watchers {
		conn := s.Conn()
		store.WaitFor(t, "the Sentinels", func() bool {
			m := monitored(conn)
			return m["num-other-sentinels"] == "2" && m["num-slaves"] == "1" && m["flags"] == "master"
		})
	}
	c := newCrowd(t, open(t, url, emq.Patience(2*time.Minute)), open(t, url), emq.Lease(3*time.Second))
	c.more(300)
	require.Equal(t, wire.Integer(1), primary.Conn().Do("WAIT", "1", "0"))
	primary.Crash()
	store.WaitFor(t, "the failover", func() bool {
		return monitored(watchers[0].Conn())["port"] == strconv.Itoa(replica.Port())
	})
	c.more(300)
	// What was confirmed by the old primary alone in its last moment is not there; all that is there is done.
	close(c.stopped)
	c.produced.Wait()
	store.WaitFor(t, "all to be done", func() bool {
		n := sizes(t, replica, "crowd")
		return n["pending"] == "" && n["active"] == "" && n["scheduled"] == ""
	})
	c.worker.stop(t)
	require.NotContains(t, sizes(t, replica, "crowd"), "dead")
	primary.Start() // for its end
}

// monitored is what a Sentinel knows of the primary.
func monitored(c *wire.Conn) map[string]string {
	m := map[string]string{}
	list, _ := wire.Value(c.Do("SENTINEL", "MASTER", group)).([]any)
	for i := 0; i+1 < len(list); i += 2 {
		m[list[i].(string)] = list[i+1].(string)
	}
	return m
}
