package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"emq/bench/load"
	"emq/bench/stats"
)

// leg is one measurement of one executor on one axis. Times are microseconds.
type leg struct {
	Executor string `json:"executor"`
	Pair     int    `json:"pair"`

	// Server time of one command, by commandstats.
	Enqueue  float64 `json:"enqueue_us"`
	Claim    float64 `json:"claim_us"`
	Complete float64 `json:"complete_us"`
	Fail     float64 `json:"fail_us"`

	// Of one job, enqueued, claimed and completed: server time by commandstats, and processor time of the process.
	Job float64 `json:"job_us"`
	CPU float64 `json:"cpu_us"`
	// Jobs a second, and the latency of a pipeline.
	Rate float64 `json:"jobs_per_s"`
	P50  float64 `json:"p50_us"`
	P95  float64 `json:"p95_us"`
	P99  float64 `json:"p99_us"`
	// Generator is the share of the time that the load generator was busy: below 1, it was not what was measured.
	Generator float64 `json:"generator_busy"`

	// Switches are how often a second the server's other threads went to sleep, where that was looked at.
	Switches float64 `json:"switches_per_s,omitempty"`

	latency *hdrhistogram.Histogram
}

// measure runs one leg: first jobs through their whole life, many at a time, then every verb by itself.
func (b *bed) measure(ctx context.Context, e *executor) (*leg, error) {
	runtime.GC() // the collector is off while the clock runs
	l := &leg{Executor: e.Name}
	if err := b.wholeLives(ctx, e, l); err != nil {
		return nil, err
	}
	if err := b.verbByVerb(ctx, e, l); err != nil {
		return nil, err
	}
	if err := b.inStep(ctx); err != nil {
		return nil, err
	}
	return l, b.check(ctx, e)
}

// life is what becomes of a job that goes well.
var life = []load.Verb{load.Enqueue, load.Claim, load.Complete}

// parts is how many pieces a leg is measured in. Server time is the median of theirs, since whatever else runs on the
// machine lengthens some of them; all other figures are of the whole.
const parts = 16

func (b *bed) wholeLives(ctx context.Context, e *executor, l *leg) error {
	n := b.axis.Jobs / parts
	if err := b.live(ctx, e, 2*n, func(load.Result) {}); err != nil { // warms up
		return err
	}
	var took time.Duration
	var server []float64
	l.latency = hdrhistogram.New(1, int64(time.Minute), 3)
	generator := processorTime()
	first, err := b.spent(ctx, e)
	if err != nil {
		return err
	}
	last := first
	for range parts {
		if err := b.live(ctx, e, n, func(r load.Result) {
			took += r.Took
			l.latency.Merge(r.Latency)
		}); err != nil {
			return err
		}
		now, err := b.spent(ctx, e)
		if err != nil {
			return err
		}
		if calls := now.calls - last.calls; calls != int64(len(life)*n) {
			return fmt.Errorf("%s: the server counts %d calls for %d jobs", e.Name, calls, n)
		}
		server = append(server, float64(now.usec-last.usec)/float64(n))
		last = now
	}
	l.Generator = float64(processorTime()-generator) / float64(took)
	l.Job = stats.Median(server)
	l.CPU = (last.cpu - first.cpu) * 1e6 / float64(parts*n)
	l.Rate = float64(parts*n) / took.Seconds()
	percentile := func(p float64) float64 { return float64(l.latency.ValueAtPercentile(p)) / 1e3 }
	l.P50, l.P95, l.P99 = percentile(50), percentile(95), percentile(99)
	return nil
}

func (b *bed) live(ctx context.Context, e *executor, n int, report func(load.Result)) error {
	r, err := b.load[e].Run(ctx, n, life...)
	if err != nil {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	b.done[e] += int64(n)
	report(r)
	return nil
}

// verbByVerb runs every verb by itself, since the scripts have one line of statistics for all.
func (b *bed) verbByVerb(ctx context.Context, e *executor, l *leg) error {
	n := b.axis.Jobs / (2 * parts) / b.axis.Depth * b.axis.Depth
	order := append(append([]load.Verb{}, life...), load.Enqueue, load.Claim, load.Fail, load.Drop)
	var cost [load.NumVerbs][]float64
	for range parts / 2 {
		last, err := b.spent(ctx, e)
		if err != nil {
			return err
		}
		for _, v := range order {
			if _, err := b.load[e].Run(ctx, n, v); err != nil {
				return fmt.Errorf("%s: %w", e.Name, err)
			}
			now, err := b.spent(ctx, e)
			if err != nil {
				return err
			}
			cost[v] = append(cost[v], float64(now.usec-last.usec)/float64(n))
			last = now
		}
		b.done[e] += int64(n)
		// The rows of the jobs that failed are gone, and with their schedule all trace of them.
		if err := b.control[e].Del(ctx, "emq:{"+queueName+"}:schedule").Err(); err != nil {
			return err
		}
	}
	l.Enqueue, l.Claim = stats.Median(cost[load.Enqueue]), stats.Median(cost[load.Claim])
	l.Complete, l.Fail = stats.Median(cost[load.Complete]), stats.Median(cost[load.Fail])
	return nil
}

// spent is what the server has spent since it started.
type spent struct {
	calls, usec int64   // on an executor's verbs
	cpu         float64 // seconds of processor time, all threads, user and system
}

func (b *bed) spent(ctx context.Context, e *executor) (s spent, err error) {
	info, err := b.control[e].Info(ctx, "commandstats", "cpu").Result()
	if err != nil {
		return s, err
	}
	seen := map[string]bool{}
	for _, verb := range verbNames {
		stat := e.stat(verb)
		if seen[stat] {
			continue
		}
		seen[stat] = true
		for pair := range strings.SplitSeq(infoField(info, "cmdstat_"+stat), ",") {
			name, value, _ := strings.Cut(pair, "=")
			n, _ := strconv.ParseInt(value, 10, 64)
			switch name {
			case "calls":
				s.calls += n
			case "usec":
				s.usec += n
			}
		}
	}
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(infoField(info, field), 64)
		if err != nil {
			return s, err
		}
		s.cpu += seconds
	}
	return s, nil
}

// processorTime is what this program has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
