package waiting

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// crew are workers that wait for jobs and whose connections are reset at any moment, as those of a crashed program are.
type crew struct {
	lock   sync.Mutex
	got    map[string]int // the jobs in the replies, and how often each came
	resets int
	err    error
}

// work is one life of a worker: it waits, completes, and is cut off.
func (c *crew) work(address string, dice *rand.Rand, quit <-chan struct{}) error {
	n, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer n.Close()
	in := bufio.NewReader(n)
	ask := func(args []string, limit time.Duration) (string, error) {
		if _, err := io.WriteString(n, wire.Encode(args)); err != nil {
			return "", err
		}
		_ = n.SetReadDeadline(time.Now().Add(limit))
		return wire.Read(in)
	}
	for range 1 + dice.IntN(20) {
		select {
		case <-quit:
			return nil
		default:
		}
		reply, err := ask(wire.BClaim(lease, 200, q), wire.Patience)
		if err != nil {
			return err
		}
		if reply == wire.Empty {
			continue
		}
		job, ok := wire.Value(reply).([]any)
		if !ok || len(job) != 4 || job[3] != int64(1) {
			return fmt.Errorf("no job: %q", reply)
		}
		id := job[1].(string)
		c.lock.Lock()
		c.got[id]++
		c.lock.Unlock()
		if reply, err := ask(q.Complete(id, "1"), wire.Patience); err != nil || reply != wire.Integer(1) {
			return errors.Join(fmt.Errorf("COMPLETE of %s: %q", id, reply), err)
		}
	}
	if _, err = ask(wire.BClaim(lease, 0, q), time.Duration(dice.IntN(2000))*time.Microsecond); err == nil {
		return nil // the reply came and is discarded: the job stays leased
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	c.lock.Lock()
	c.resets++
	c.lock.Unlock()
	return n.(*net.TCPConn).SetLinger(0)
}

// Fifty workers are cut off while thousands of jobs arrive: each job is completed or leased, none is lost or granted twice.
func TestReset(t *testing.T) {
	const workers = 50
	seed := store.Seed(t)
	jobs := 2000
	if os.Getenv("EMQ_PROOF") != "" {
		jobs = 10_000
	}
	b := begin(t)
	c, quit := &crew{got: map[string]int{}}, make(chan struct{})
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			dice := rand.New(rand.NewPCG(seed, uint64(i)))
			for {
				select {
				case <-quit:
					return
				default:
				}
				if err := c.work(b.Addr(), dice, quit); err != nil {
					c.lock.Lock()
					c.err = errors.Join(c.err, err)
					c.lock.Unlock()
					return
				}
			}
		})
	}
	dice := rand.New(rand.NewPCG(seed, workers))
	for i := 0; i < jobs; {
		var commands [][]string
		for range min(jobs-i, 1+dice.IntN(60)) {
			commands = append(commands, q.Enqueue(fmt.Sprintf("JOB%05d", i), "x"))
			i++
		}
		if dice.IntN(2) == 0 {
			commands = exec(commands...)
		}
		b.Pipeline(commands)
		waits := dice.IntN(workers)
		store.WaitFor(t, "workers that wait", func() bool { return b.count("emq_waiting_clients") >= waits || c.failed() })
	}
	store.WaitFor(t, "the last job", func() bool { return b.Do("ZCARD", q.Pending()) == wire.Integer(0) || c.failed() })
	close(quit)
	all.Wait()
	require.NoError(t, c.err)
	b.waiting(0)
	completed, err := strconv.Atoi(wire.Value(b.Do("HGET", q.Completed(), "count")).(string))
	require.NoError(t, err)
	active := b.Members(q.Active())
	require.Equal(t, jobs, completed+len(active))
	require.Len(t, c.got, completed)
	for id, n := range c.got {
		require.Equal(t, 1, n, id)
	}
	for _, id := range active {
		require.NotContains(t, c.got, id)
		require.Equal(t, wire.Bulk("1"), b.Do("HGET", q.Row(id), "attempts"))
	}
	require.NotZero(t, c.resets)
	t.Logf("%d completed, %d leased to workers that were cut off, %d times RST", completed, len(active), c.resets)
}

func (c *crew) failed() bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.err != nil
}
