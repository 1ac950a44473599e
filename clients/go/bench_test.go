package emq_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/clients/go"
	"emq/test/wire"
)

// turns is how often an answer lets all others go first, as a server on another machine would. A sleep would measure itself: one
// takes more processor time than the package does for ten jobs.
const turns = 4

// answers is a connection that says what a server would, with jobs that are made beforehand: the processor time that is left
// is what the package itself takes.
type answers struct {
	left  atomic.Int64
	jobs  []emq.Reply
	ones  []emq.Reply
	empty chan struct{}
}

func newAnswers(jobs int) *answers {
	a := &answers{empty: make(chan struct{})}
	a.left.Store(int64(jobs))
	for i := range 100 {
		a.jobs = append(a.jobs, emq.Reply{List: []emq.Reply{{Str: fmt.Sprintf("JOB%011d", i)}, {Str: `{"to":"somebody"}`}, {Int: 1}}})
		a.ones = append(a.ones, emq.Reply{Int: 1})
	}
	return a
}

func (a *answers) Do(ctx context.Context, args ...string) (emq.Reply, error) {
	if args[0] != "EMQ.ENQUEUE" {
		for range turns {
			runtime.Gosched()
		}
	}
	switch args[0] {
	case "EMQ.MCLAIM":
		n, _ := strconv.ParseInt(args[3], 10, 64)
		left := a.left.Add(-n)
		if n = max(min(n, left+n), 0); n == 0 {
			return emq.Reply{}, nil
		}
		return emq.Reply{List: a.jobs[:n]}, nil
	case "EMQ.MCOMPLETE":
		return emq.Reply{List: a.ones[:len(args)/2-1]}, nil
	case "EMQ.ENQUEUE":
		return emq.Reply{Int: 1}, nil
	case "EMQ.BCLAIM":
		<-a.empty
		return emq.Reply{}, nil
	case "CLIENT":
		if args[1] == "UNBLOCK" {
			close(a.empty)
		}
		return emq.Reply{Int: 1}, nil
	}
	panic(strings.Join(args, " "))
}

func (a *answers) Dedicate(context.Context) (emq.Dedicated, error) { return a, nil }
func (a *answers) Close()                                          {}

// What the package costs for each job, without client library and server.
func BenchmarkHandle(b *testing.B) {
	for _, handlers := range []int{1, 32} {
		b.Run(fmt.Sprint(handlers), func(b *testing.B) {
			b.ReportAllocs()
			c := emq.Use(newAnswers(b.N))
			defer costs(b, nil)()
			handle(b, c, emq.NewQueue[mail](c, "q"), handlers, b.N)
		})
	}
}

// costs reports at the end what each operation has taken since: of this process's time, and of the server's, if there is one.
func costs(b *testing.B, server *wire.Conn) (end func()) {
	used := func() map[string]float64 {
		var u syscall.Rusage
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		m := map[string]float64{"cpu-ns/op": float64(u.Utime.Nano() + u.Stime.Nano())}
		if server != nil {
			for _, part := range []string{"used_cpu_user", "used_cpu_sys"} {
				seconds, err := strconv.ParseFloat(server.Info(part), 64)
				require.NoError(b, err)
				m["server-ns/op"] += seconds * 1e9
			}
		}
		return m
	}
	before := used()
	return func() {
		for unit, n := range used() {
			b.ReportMetric((n-before[unit])/float64(b.N), unit)
		}
	}
}

func BenchmarkEnqueueAlone(b *testing.B) {
	b.ReportAllocs()
	q := emq.NewQueue[mail](emq.Use(newAnswers(0)), "q")
	defer costs(b, nil)()
	for b.Loop() {
		if _, err := q.Enqueue(context.Background(), mail{"somebody"}); err != nil {
			b.Fatal(err)
		}
	}
}

// handle runs a worker until so many jobs are done.
func handle(b *testing.B, c *emq.Client, q emq.Queue[mail], handlers, jobs int) {
	var done atomic.Int64
	all := make(chan struct{})
	w := emq.NewWorker(c, quiet, emq.Observe(func(emq.Event) {
		if done.Add(1) == int64(jobs) {
			close(all)
		}
	}))
	emq.Handle(w, q, func(context.Context, *emq.Job[mail]) error { return nil }, emq.Concurrency(handlers))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	b.ResetTimer()
	go func() { ended <- w.Run(ctx) }()
	<-all
	b.StopTimer()
	cancel()
	require.NoError(b, <-ended)
}

// The same with a server.
func BenchmarkServer(b *testing.B) {
	s := serve(b)
	c := client(b, s)
	q := emq.NewQueue[mail](c, "q")
	looker := s.Conn()
	b.Run("enqueue", func(b *testing.B) {
		defer costs(b, looker)()
		var wg sync.WaitGroup
		var next atomic.Int64
		for range 32 {
			wg.Go(func() {
				for next.Add(1) <= int64(b.N) {
					if _, err := q.Enqueue(context.Background(), mail{strings.Repeat("x", 50)}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	})
	s.Conn().Must("FLUSHALL")
	b.Run("enqueue many", func(b *testing.B) {
		defer costs(b, looker)()
		_, err := q.EnqueueMany(context.Background(), slices.Values(make([]mail, b.N)))
		require.NoError(b, err)
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	})
	for _, handlers := range []int{1, 32} {
		b.Run(fmt.Sprint("handle with ", handlers), func(b *testing.B) {
			s.Conn().Must("FLUSHALL")
			_, err := q.EnqueueMany(context.Background(), slices.Values(make([]mail, b.N)))
			require.NoError(b, err)
			defer costs(b, looker)()
			handle(b, c, q, handlers, b.N)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
