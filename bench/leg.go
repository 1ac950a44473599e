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

// leg is one measurement of one executor on one axis, in parts: most figures are one for each. Times are microseconds.
type leg struct {
	Executor string `json:"executor"`
	Pair     int    `json:"pair"`

	// Server time of one command, by commandstats.
	Enqueue  []float64 `json:"enqueue_us,omitempty"`
	Claim    []float64 `json:"claim_us,omitempty"`
	Complete []float64 `json:"complete_us,omitempty"`
	Fail     []float64 `json:"fail_us,omitempty"`

	// Of one job, enqueued, claimed and completed: server time by commandstats, and processor time of the process.
	Job []float64 `json:"job_us,omitempty"`
	CPU []float64 `json:"cpu_us,omitempty"`
	// Bytes that it adds to the append-only file, where there is one.
	AOF []float64 `json:"aof_bytes,omitempty"`
	// Jobs a second, and the middle latency of a pipeline.
	Rate []float64 `json:"jobs_per_s,omitempty"`
	P50  []float64 `json:"p50_us"`
	// Generator is the share of the time that the load generator was busy: below 1, it was not what was measured.
	Generator []float64 `json:"generator_busy,omitempty"`

	// The tail of the latencies is of all parts together: one alone has too few.
	P95 float64 `json:"p95_us"`
	P99 float64 `json:"p99_us"`

	// Switches are how often a second the server's other threads went to sleep, where that was looked at.
	Switches float64 `json:"switches_per_s,omitempty"`

	// Samples are how many latencies there are, where that was looked at.
	Samples int64 `json:"samples,omitempty"`

	latency *hdrhistogram.Histogram
}

// life is what becomes of a job that goes well.
var life = []load.Verb{load.Enqueue, load.Claim, load.Complete}

// parts is how many pieces a leg is measured in: as short as the counters of the server allow, some 20 ms.
const parts = 16

// measure runs one pair, a leg of each runner: first jobs through their whole life, many at a time, then every verb by
// itself. The runners take turns part by part, since the machine is another from second to second.
func measure(ctx context.Context, pair int, who []*runner) ([]*leg, error) {
	runtime.GC() // the collector is off while the clock runs
	legs := make([]*leg, len(who))
	for i, r := range who {
		legs[i] = &leg{Executor: r.Name, Pair: pair, latency: hdrhistogram.New(1, int64(time.Minute), 3)}
	}
	takeTurns := func(turn int, part func(*runner, context.Context, *leg) error) error {
		for i := range who {
			at := place(i, turn, len(who))
			if err := who[at].warmUp(ctx); err != nil {
				return err
			}
			if err := part(who[at], ctx, legs[at]); err != nil {
				return fmt.Errorf("%s: %w", who[at].Name, err)
			}
			if err := who[at].bed.inStep(ctx); err != nil { // the replica's work is no one else's
				return err
			}
		}
		return nil
	}
	for part := range parts {
		if err := takeTurns(pair*parts+part, (*runner).wholeLives); err != nil {
			return nil, err
		}
	}
	for part := range parts / 2 {
		if err := takeTurns(pair*parts/2+part, (*runner).verbByVerb); err != nil {
			return nil, err
		}
	}
	for i, r := range who {
		if err := r.check(ctx); err != nil {
			return nil, err
		}
		legs[i].P95, legs[i].P99 = percentile(legs[i].latency, 95), percentile(legs[i].latency, 99)
	}
	return legs, nil
}

func percentile(h *hdrhistogram.Histogram, p float64) float64 {
	return float64(h.ValueAtPercentile(p)) / 1e3
}

// place is who comes i-th in a turn: all orders take turns, so that nobody always follows the same.
func place(i, turn, n int) int {
	if turn%2 == 1 {
		i = n - 1 - i
	}
	return (i + turn/2) % n
}

// warmUp takes some jobs through their life, for the caches are full of what the others did.
func (r *runner) warmUp(ctx context.Context) error {
	_, err := r.live(ctx, r.whole(r.bed.axis.Jobs/parts/4, r.bed.axis))
	return err
}

func (r *runner) live(ctx context.Context, n int) (load.Result, error) {
	r.done += int64(n)
	return r.load.Run(ctx, n, life...)
}

func (r *runner) wholeLives(ctx context.Context, l *leg) error {
	n := r.whole(r.bed.axis.Jobs/parts, r.bed.axis)
	first, err := r.spent(ctx)
	if err != nil {
		return err
	}
	busy := processorTime()
	result, err := r.live(ctx, n)
	if err != nil {
		return err
	}
	busy = processorTime() - busy
	last, err := r.spent(ctx)
	if err != nil {
		return err
	}
	if calls := last.calls - first.calls; calls != int64(len(life)*n/max(r.batch, 1)) {
		return fmt.Errorf("the server counts %d calls for %d jobs", calls, n)
	}
	l.latency.Merge(result.Latency)
	l.Job = append(l.Job, float64(last.usec-first.usec)/float64(n))
	l.CPU = append(l.CPU, (last.cpu-first.cpu)*1e6/float64(n))
	if last.aof > 0 {
		l.AOF = append(l.AOF, float64(last.aof-first.aof)/float64(n))
	}
	l.Rate = append(l.Rate, float64(n)/result.Took.Seconds())
	l.P50 = append(l.P50, percentile(result.Latency, 50))
	l.Generator = append(l.Generator, float64(busy)/float64(result.Took))
	return nil
}

// verbByVerb runs every verb by itself, since the scripts have one line of statistics for all.
func (r *runner) verbByVerb(ctx context.Context, l *leg) error {
	n := r.whole(r.bed.axis.Jobs/(2*parts), r.bed.axis)
	last, err := r.spent(ctx)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		verb load.Verb
		cost *[]float64
	}{
		{load.Enqueue, &l.Enqueue}, {load.Claim, &l.Claim}, {load.Complete, &l.Complete},
		{load.Enqueue, &l.Enqueue}, {load.Claim, &l.Claim}, {load.Fail, &l.Fail},
	} {
		if _, err := r.load.Run(ctx, n, step.verb); err != nil {
			return err
		}
		now, err := r.spent(ctx)
		if err != nil {
			return err
		}
		*step.cost = append(*step.cost, float64(now.usec-last.usec)/float64(n))
		last = now
	}
	r.done += int64(n)
	// The rows of the jobs that failed, and their schedule, are all trace of them.
	if _, err := r.load.Run(ctx, n, load.Drop); err != nil {
		return err
	}
	return r.control.Del(ctx, "emq:{"+queueName+"}:schedule").Err()
}

// spent is what the server has spent since it started.
type spent struct {
	calls, usec int64   // on a runner's verbs
	aof         int64   // bytes of the append-only file; 0 = there is none
	cpu         float64 // seconds of processor time, all threads, user and system
}

func (r *runner) spent(ctx context.Context) (s spent, err error) {
	info, err := r.control.Info(ctx, "commandstats", "cpu", "persistence").Result()
	if err != nil {
		return s, err
	}
	s.aof, _ = strconv.ParseInt(infoField(info, "aof_current_size"), 10, 64)
	seen := map[string]bool{}
	for _, verb := range verbNames {
		stat := r.stat(verb)
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
