package operators

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"emq/test/page"
	"emq/test/store"
	"emq/test/wire"
)

// load runs producers and waiting workers on one queue, while an operator works on it.
type load struct {
	*redis.Client
	q             wire.Queue
	made, done    atomic.Int64
	running, most atomic.Int64 // number of workers that have a job now, and its maximum
	quit          context.Context
	stop          context.CancelFunc
	all           sync.WaitGroup
}

// breath is how long a producer pauses when too many jobs wait.
const breath = 2 * time.Millisecond

// begin starts the load. Workers complete what they get, unless they keep it.
func begin(t *testing.T, s *store.Place, q wire.Queue, producers, workers int, keep bool) *load {
	t.Helper()
	l := &load{q: q, Client: redis.NewClient(&redis.Options{
		Network: "unix", Addr: s.Socket, Protocol: 2, DisableIdentity: true, MaxRetries: -1, PoolSize: producers + workers, ReadTimeout: -1,
	})}
	l.quit, l.stop = context.WithCancel(t.Context())
	forever := func(what func() error) {
		l.all.Go(func() {
			for l.quit.Err() == nil {
				if err := what(); err != nil {
					t.Errorf("under load: %v", err)
					return
				}
			}
		})
	}
	for range producers {
		forever(func() error {
			if l.made.Load()-l.done.Load() > 2000 {
				select {
				case <-l.quit.Done():
				case <-time.After(breath):
				}
				return nil
			}
			id := fmt.Sprintf("JOB9%010d", l.made.Add(1))
			return l.send(q.Enqueue(id, "x")).Err()
		})
	}
	for range workers {
		forever(func() error {
			job, err := l.send([]string{"EMQ.BCLAIM", "1000000", "200", q.Base()}).Slice()
			if err != nil || len(job) == 0 {
				return err
			}
			if n := l.running.Add(1); n > l.most.Load() {
				l.most.Store(n)
			}
			if keep {
				return nil
			}
			id, token := job[1].(string), strconv.FormatInt(job[3].(int64), 10)
			err = l.send(q.Extend(id, token, 1000000)).Err() // so that it takes a while
			l.running.Add(-1)
			if err == nil {
				err = l.send(q.Complete(id, token)).Err()
			}
			l.done.Add(1)
			return err
		})
	}
	t.Cleanup(func() {
		l.end()
		_ = l.Close()
	})
	return l
}

func (l *load) end() {
	l.stop()
	l.all.Wait()
}

func (l *load) send(args []string) *redis.Cmd {
	words := make([]any, len(args))
	for i, word := range args {
		words[i] = word
	}
	return l.Do(context.Background(), words...)
}

// more waits until the workers have done so many more.
func (l *load) more(t *testing.T, n int64) {
	t.Helper()
	target := l.done.Load() + n
	store.WaitFor(t, "more jobs to be done", func() bool { return l.done.Load() >= target || t.Failed() })
}

// Five thousand of eight thousand dead letters are requeued by their error, with the page's commands, while clients use
// the same queue: these jobs are completed, and the other dead letters stay.
func TestRequeueUnderLoad(t *testing.T) {
	s := store.Open(t, store.Module())
	c, q := s.Conn(), wire.Queue("bulk")
	buried(t, c, q, 8000, func(i int) string {
		if i%8 < 5 {
			return "smtp: timeout\nafter 30 s"
		}
		return "no such mailbox"
	})
	l := begin(t, s, q, 2, 4, false)
	l.more(t, 100)
	dir := t.TempDir()
	terminal(t, s, dir, "default")
	for _, block := range page.Commands(t, "../../docs/howto.md") {
		if strings.HasPrefix(block[0].Line, "cd ") {
			page.Follow(t, dir, block, "valkey-cli", dir+"/valkey-cli")
		}
	}
	store.WaitFor(t, "those that were requeued to be done", func() bool {
		return c.Do("ZRANGEBYLEX", q.Pending(), "[JOB0", "(JOB9", "LIMIT", "0", "1") == wire.Empty || t.Failed()
	})
	l.end()
	require.Equal(t, wire.Integer(3000), c.Do("ZCARD", q.Dead()))
	require.Empty(t, s.Keyspace().Check(wire.Wire6))
}

// A queue is paused and resumed under load, with fifty waiting workers: running jobs go on, then nobody gets a job,
// although new ones come, and after the pause all continue. No job is lost.
func TestPauseUnderLoad(t *testing.T) {
	s := store.Open(t, store.Pumped("--emq.pump-interval-ms", "50"))
	c, q := s.Conn(), wire.Queue("mail")
	l := begin(t, s, q, 2, 50, false)
	for range store.Rounds(t, 3, 20) {
		l.more(t, 500)
		c.Must("EMQ.PAUSE emq:{mail}: 0")
		claimed := c.Info("emq_bclaim_claimed")
		made := l.made.Load()
		store.WaitFor(t, "jobs to pile up and workers to wait", func() bool {
			return l.made.Load() > made+100 && c.Do("ZCARD", q.Active()) == wire.Integer(0) && c.Info("emq_waiting_clients") == "50" || t.Failed()
		})
		require.Equal(t, claimed, c.Info("emq_bclaim_claimed"))
		require.Equal(t, wire.Integer(1), c.Run("EMQ.RESUME emq:{mail}:"))
	}
	l.more(t, 500)
	l.end()
	completed, err := l.HGet(context.Background(), q.Completed(), "count").Int64()
	require.NoError(t, err)
	require.Equal(t, l.done.Load(), completed)
	require.Equal(t, wire.Integer(l.made.Load()-completed), c.Do("ZCARD", q.Pending()), "what was made and not done waits")
	require.Empty(t, s.Keyspace().Check(wire.Wire6))
}

// A queue is limited to three active jobs under load; then the limit is removed.
func TestThreeAtATime(t *testing.T) {
	s := store.Open(t, store.Pumped("--emq.pump-interval-ms", "50"))
	c, q := s.Conn(), wire.Queue("mail")
	c.Must("EMQ.LIMIT emq:{mail}: 3 0 0")
	l := begin(t, s, q, 2, 20, false)
	l.more(t, 2000)
	require.LessOrEqual(t, l.most.Load(), int64(3))
	require.NotZero(t, l.most.Load())
	c.Must("EMQ.LIMIT emq:{mail}: 0 0 0")
	store.WaitFor(t, "more than three at a time", func() bool { return l.most.Load() > 3 || t.Failed() })
	l.end()
	require.Empty(t, s.Keyspace().Check(wire.Wire6))
}

// A queue is limited to a hundred jobs a second. The time of each claim follows from the deadline, so it is by the
// server's own clock.
func TestHundredASecond(t *testing.T) {
	s := store.Open(t, store.Pumped("--emq.pump-interval-ms", "50"))
	c, q := s.Conn(), wire.Queue("mail")
	c.Must("EMQ.LIMIT emq:{mail}: 0 100 1000")
	l := begin(t, s, q, 2, 20, true)
	store.WaitFor(t, "three windows and a half", func() bool { return l.running.Load() >= 350 || t.Failed() })
	l.end()
	held, err := l.ZRangeWithScores(context.Background(), q.Active(), 0, -1).Result()
	require.NoError(t, err)
	var at []int64
	for _, job := range held {
		at = append(at, int64(job.Score))
	}
	require.True(t, slices.IsSorted(at))
	for len(at) > 0 {
		n, _ := slices.BinarySearch(at, at[0]+1000)
		require.LessOrEqual(t, n, 100, "claims in one window")
		at = at[n:]
	}
	require.Empty(t, s.Keyspace().Check(wire.Wire6))
}
