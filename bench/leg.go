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
)

// leg is one measurement of one executor on one axis. Times are microseconds.
type leg struct {
	Executor string `json:"executor"`
	Pair     int    `json:"pair"`

	// Server time of one command, by commandstats, each verb run by itself.
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

func (b *bed) wholeLives(ctx context.Context, e *executor, l *leg) error {
	life := []load.Verb{load.Enqueue, load.Claim, load.Complete}
	warmUp := b.axis.Jobs / 8
	if _, err := b.load[e].Run(ctx, warmUp, life...); err != nil {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	n := b.axis.Jobs
	before, err := b.spent(ctx, e)
	if err != nil {
		return err
	}
	generator := processorTime()
	r, err := b.load[e].Run(ctx, n, life...)
	if err != nil {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	l.Generator = float64(processorTime()-generator) / float64(r.Took)
	after, err := b.spent(ctx, e)
	if err != nil {
		return err
	}
	b.done[e] += int64(warmUp + n)
	if calls := after.calls - before.calls; calls != int64(3*n) {
		return fmt.Errorf("%s: the server counts %d calls for %d jobs", e.Name, calls, n)
	}
	l.Job = float64(after.usec-before.usec) / float64(n)
	l.CPU = (after.cpu - before.cpu) * 1e6 / float64(n)
	l.Rate = float64(n) / r.Took.Seconds()
	l.P50, l.P95, l.P99 = r.Percentile(50), r.Percentile(95), r.Percentile(99)
	l.latency = r.Latency
	return nil
}

func (b *bed) verbByVerb(ctx context.Context, e *executor, l *leg) error {
	n := chunk / b.axis.Depth * b.axis.Depth
	var usec [load.NumVerbs]int64
	var calls [load.NumVerbs]int64
	for range max(1, b.axis.Jobs/(4*chunk)) {
		last, err := b.spent(ctx, e)
		if err != nil {
			return err
		}
		for _, v := range []load.Verb{load.Enqueue, load.Claim, load.Complete, load.Enqueue, load.Claim, load.Fail, load.Drop} {
			if _, err := b.load[e].Run(ctx, n, v); err != nil {
				return fmt.Errorf("%s: %w", e.Name, err)
			}
			now, err := b.spent(ctx, e)
			if err != nil {
				return err
			}
			usec[v] += now.usec - last.usec
			calls[v] += now.calls - last.calls
			last = now
		}
		b.done[e] += int64(n)
		// The rows of the jobs that failed are gone, and with their schedule all trace of them.
		if err := b.control[e].Del(ctx, "emq:{"+queueName+"}:schedule").Err(); err != nil {
			return err
		}
	}
	mean := func(v load.Verb) float64 { return float64(usec[v]) / float64(calls[v]) }
	l.Enqueue, l.Claim, l.Complete, l.Fail = mean(load.Enqueue), mean(load.Claim), mean(load.Complete), mean(load.Fail)
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
