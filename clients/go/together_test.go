package emq_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/clients/go"
	"emq/test/wire"
)

// atOnce makes the calls from as many goroutines on one processor, so that all have called before the first is
// answered.
func atOnce(n int, call func(i int)) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() { call(i) })
	}
	calls.Wait()
}

// Jobs that are enqueued at the same time share calls that stay within the server's limits, and each caller gets the
// answer for its own job.
func TestEnqueueTogether(t *testing.T) {
	s := serve(t)
	c, conn := client(t, s), s.Conn()
	const jobs, one = 3000, emq.ID("JOB00000000001")
	q := emq.NewQueue[int](c, "q")
	_, err := q.Enqueue(t.Context(), 0, emq.As(one))
	require.NoError(t, err)
	var mu sync.Mutex
	got := map[emq.ID]int{}
	made := map[int]int{}
	atOnce(jobs, func(i int) {
		var opts []emq.JobOption
		if i%3 > 0 { // each id twice, and one id that already exists
			opts = append(opts, emq.As(emq.ID(fmt.Sprintf("JOB%011d", i/3+1))))
		}
		r, err := q.Enqueue(t.Context(), i, opts...)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Errorf("job %d: %v", i, err)
		}
		if r.Created {
			got[r.ID] = i
			made[i%3]++
		}
	})
	require.Equal(t, map[int]int{0: jobs / 3, 1: made[1], 2: jobs/3 - 1 - made[1]}, made)
	require.Equal(t, map[string]string{"pending": fmt.Sprint(2 * jobs / 3)}, sizes(t, s, "q"))
	for id, i := range got {
		require.Equal(t, wire.Bulk(fmt.Sprint(i)), conn.Do("HGET", wire.Queue("q").Row(string(id)), "payload"))
	}
	require.Contains(t, conn.Do("INFO", "commandstats"), "cmdstat_EMQ.MENQUEUE:")

	// A call is full with a megabyte.
	large := emq.NewQueue[[]byte](c, "large", emq.Encoding(emq.Raw))
	before := [2]int{count(t, conn, "emq_menqueue_calls"), count(t, conn, "emq_menqueue_enqueued")}
	atOnce(20, func(int) {
		if _, err := large.Enqueue(t.Context(), make([]byte, 600<<10)); err != nil {
			t.Error(err)
		}
	})
	calls, enqueued := count(t, conn, "emq_menqueue_calls")-before[0], count(t, conn, "emq_menqueue_enqueued")-before[1]
	require.Positive(t, calls)
	require.LessOrEqual(t, enqueued, 2*calls)
}

func count(t *testing.T, c *wire.Conn, counter string) int {
	t.Helper()
	n, err := strconv.Atoi(c.Info(counter))
	require.NoError(t, err)
	return n
}

// A caller whose context ends does not disturb the others' call: it is not sent again.
func TestEnqueueTogetherAndLeave(t *testing.T) {
	s := serve(t)
	l, conn := newLink(t, s), s.Conn()
	q := emq.NewQueue[int](open(t, l.url()), "q")
	_, err := q.Enqueue(t.Context(), 0) // once connected, a call ends when its context ends
	require.NoError(t, err)
	conn.Must("CLIENT PAUSE 3600000 WRITE")
	ctx, cancel := context.WithCancel(t.Context())
	sent := l.sees("EMQ.MENQUEUE")
	var leave sync.WaitGroup
	leave.Go(func() {
		<-sent
		cancel()
	})
	var gone sync.WaitGroup
	gone.Add(10)
	leave.Go(func() {
		gone.Wait()
		conn.Must("CLIENT UNPAUSE")
	})
	atOnce(20, func(i int) {
		if i%2 == 0 { // this includes the sender: the second to run, since the first finds itself alone
			_, err := q.Enqueue(ctx, i)
			if gone.Done(); !errors.Is(err, context.Canceled) {
				t.Error("the call should end with its context:", err)
			}
			return
		}
		if r, err := q.Enqueue(t.Context(), i); err != nil || !r.Created {
			t.Errorf("%+v, %v", r, err)
		}
	})
	leave.Wait()
	require.Equal(t, []string{"0", "0"}, []string{conn.Info("emq_menqueue_duplicate"), conn.Info("emq_enqueue_duplicate")})

	// A caller whose context has already ended sends nothing, neither alone nor with others.
	there := sizes(t, s, "q")
	atOnce(20, func(i int) {
		of := t.Context()
		if i%2 == 0 {
			of = ctx
		}
		if _, err := q.Enqueue(of, i); !errors.Is(err, of.Err()) {
			t.Error(err)
		}
	})
	n, err := strconv.Atoi(there["pending"])
	require.NoError(t, err)
	require.Equal(t, map[string]string{"pending": fmt.Sprint(n + 10)}, sizes(t, s, "q"))
}

// When the answer to a shared call is lost, each job exists once, and each caller is told that it created its job.
func TestLostEnqueueTogether(t *testing.T) {
	s := serve(t)
	l := newLink(t, s)
	q := emq.NewQueue[int](open(t, l.url()), "q")
	l.loseAnswer("EMQ.MENQUEUE")
	atOnce(20, func(i int) {
		if r, err := q.Enqueue(t.Context(), i); err != nil || !r.Created {
			t.Errorf("%+v, %v", r, err)
		}
	})
	<-l.lost
	require.Equal(t, map[string]string{"pending": "20"}, sizes(t, s, "q"))
}

// Only the job that the server does not accept is refused.
func TestEnqueueTogetherTooLarge(t *testing.T) {
	s := serve(t, "--emq.max-payload-bytes", "100")
	q := emq.NewQueue[string](client(t, s), "q", emq.Encoding(emq.Raw))
	atOnce(20, func(i int) {
		payload := strings.Repeat("x", 95+i)
		r, err := q.Enqueue(t.Context(), payload)
		if len(payload) <= 100 && !r.Created || len(payload) > 100 && err == nil {
			t.Errorf("%d bytes: %+v, %v", len(payload), r, err)
		}
	})
	require.Equal(t, map[string]string{"pending": "6"}, sizes(t, s, "q"))
}

// A user who may only enqueue single jobs can do so at the same time as others. Each caller gets its own refusal.
func TestEnqueueTogetherWithoutRight(t *testing.T) {
	s := serve(t)
	conn := s.Conn()
	conn.Must("SET {emq}:version echomq:6.0.0")
	conn.Must("ACL SETUSER app on >secret ~* +emq.enqueue +hello +client|setinfo")
	c := open(t, "valkey://app:secret@"+s.Addr())
	q := emq.NewQueue[int](c, "q")
	atOnce(20, func(i int) {
		if r, err := q.Enqueue(t.Context(), i); err != nil || !r.Created {
			t.Errorf("%+v, %v", r, err)
		}
	})
	require.NotEqual(t, "0", conn.Info("acl_access_denied_cmd"))
	require.Equal(t, map[string]string{"pending": "20"}, sizes(t, s, "q"))
	conn.Must("SET {emq}:version echomq:4.0.0")
	q = emq.NewQueue[int](client(t, s), "q")
	atOnce(20, func(i int) {
		if _, err := q.Enqueue(t.Context(), i); !errors.Is(err, emq.ErrFence) {
			t.Error(err)
		}
	})
}
