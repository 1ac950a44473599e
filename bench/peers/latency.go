package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"emq/bench/stats"
)

// latencies are how long jobs took from the call that enqueues one to its handler, which are in one process.
type latencies struct {
	Waiting latency `json:"waiting"` // one job at a time, while the workers wait
	Steady  latency `json:"steady"`  // so many jobs a second
}

// latency is of so many jobs, in µs.
type latency struct {
	Samples int     `json:"samples"`
	P50     float64 `json:"p50"`
	P95     float64 `json:"p95"`
	P99     float64 `json:"p99"`
}

func summary(micros []float64) latency {
	slices.Sort(micros)
	at := func(share float64) float64 { return micros[int(share*float64(len(micros)-1))] }
	return latency{len(micros), at(0.5), at(0.95), at(0.99)}
}

// queue is a peer's with a worker on it, for latencies.
type queue struct {
	enqueue func(ctx context.Context, payload string) error
	close   func() error
}

// inGo measures a peer that opens such a queue. Its worker calls begun with a job's payload, first of all; it asks for jobs every
// so often, or waits in the server, which is 0.
func inGo(asks time.Duration, open func(l load, begun func(payload string)) (queue, error)) func(context.Context, load) (latencies, error) {
	return func(ctx context.Context, l load) (found latencies, err error) {
		start := time.Now()
		began := make(chan float64, l.Samples+l.steadyJobs())
		q, err := open(l, func(payload string) {
			now := time.Since(start)
			sent, _ := strconv.ParseInt(strings.TrimSpace(payload), 10, 64)
			began <- float64(int64(now)-sent) / 1e3
		})
		if err != nil {
			return found, err
		}
		defer func() { err = errors.Join(err, q.close()) }()
		m := meter{load: l, most: max(asks, l.Pause), began: began, enqueue: func(ctx context.Context) error {
			return q.enqueue(ctx, fmt.Sprintf("%-*d", l.Payload, time.Since(start)))
		}}
		if _, err = m.oneByOne(ctx, l.Samples/10, l.Limit/5); err != nil {
			return found, err
		}
		waiting, err := m.oneByOne(ctx, l.Samples, l.Limit)
		if err != nil {
			return found, err
		}
		steady, err := m.steadily(ctx)
		if err != nil {
			return found, err
		}
		return latencies{summary(waiting), summary(steady)}, nil
	}
}

type meter struct {
	load
	most    time.Duration // a pause
	began   chan float64
	enqueue func(context.Context) error // its payload is the time
}

// oneByOne enqueues a job when the handler of the one before has begun and the worker had a while to wait again, at a
// moment that has nothing to do with when it asks.
func (m meter) oneByOne(ctx context.Context, jobs int, limit time.Duration) (micros []float64, err error) {
	for end := time.Now().Add(limit); len(micros) < jobs && time.Now().Before(end); {
		time.Sleep(rand.N(m.most))
		if err := m.enqueue(ctx); err != nil {
			return nil, err
		}
		v, err := m.next(ctx)
		if err != nil {
			return nil, err
		}
		micros = append(micros, v)
	}
	return micros, nil
}

// steadily enqueues jobs at their times, whether or not those before have begun. The first tenth does not count.
func (m meter) steadily(ctx context.Context) (micros []float64, err error) {
	jobs := m.steadyJobs()
	var calls sync.WaitGroup
	failed := make(chan error, jobs)
	for n, start := 0, time.Now(); n < jobs; n++ {
		time.Sleep(time.Until(start.Add(time.Duration(n) * time.Second / time.Duration(m.Rate))))
		calls.Go(func() { failed <- m.enqueue(ctx) })
	}
	calls.Wait()
	for range jobs {
		if err := <-failed; err != nil {
			return nil, err
		}
	}
	for range jobs {
		v, err := m.next(ctx)
		if err != nil {
			return nil, err
		}
		micros = append(micros, v)
	}
	return micros[jobs/10:], nil
}

func (m meter) next(ctx context.Context) (float64, error) {
	select {
	case v := <-m.began:
		return v, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-time.After(time.Minute):
		return 0, errors.New("a job is not begun")
	}
}

// printLatencies writes the tables of both cases.
func printLatencies(to io.Writer, l load, found []*outcome) {
	for _, part := range []struct {
		what string
		of   func(latencies) latency
	}{
		{"one job at a time", func(f latencies) latency { return f.Waiting }},
		{fmt.Sprintf("%d jobs a second", l.Rate), func(f latencies) latency { return f.Steady }},
	} {
		fmt.Fprintf(to, "\nfrom enqueue to handler, %d handlers that wait, %s: ms, medians of the runs [95 %% bound]\n\n", l.Workers, part.what)
		w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "\tclient\tp50\tp95\tp99\tjobs")
		points := []func(latency) float64{
			func(f latency) float64 { return f.P50 }, func(f latency) float64 { return f.P95 }, func(f latency) float64 { return f.P99 },
		}
		values := func(o *outcome) []latency { return each(o.Latencies, part.of) }
		for _, o := range found {
			if len(o.Latencies) == 0 {
				continue
			}
			jobs := 0
			for _, v := range values(o) {
				jobs += v.Samples
			}
			fmt.Fprintf(w, "%s\t%s", o.Peer, o.Client)
			for _, p := range points {
				fmt.Fprintf(w, "\t%.3f", median(values(o), p)/1e3)
			}
			fmt.Fprintf(w, "\t%d\n", jobs)
		}
		for ours, theirs := range contests(found) {
			if len(ours.Latencies) == 0 {
				continue
			}
			fmt.Fprintf(w, "EMQ : %s\t%s", theirs.Peer, ours.Client)
			for _, p := range points {
				b := stats.Ratio(pairs(values(ours), p), pairs(values(theirs), p))
				fmt.Fprintf(w, "\t%.2g [%.2g %.2g]", b.Median, b.Low, b.High)
			}
			fmt.Fprintln(w)
		}
		w.Flush()
	}
}
