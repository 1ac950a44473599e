package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// letIn is a way of letting the Go scheduler in: module/onload.c says why that is done at all.
type letIn struct {
	every      time.Duration
	processors int
}

// never is longer than a run.
const never = time.Hour

// ways are compared with the first, which is what the module does.
var ways = []letIn{
	{8 * time.Millisecond, 2}, {2 * time.Millisecond, 2}, {4 * time.Millisecond, 2}, {9 * time.Millisecond, 2}, {12 * time.Millisecond, 2},
	{never, 2}, {8 * time.Millisecond, 1}, {never, 1},
}

func (w letIn) String() string {
	every := w.every.String()
	if w.every == never {
		every = "never"
	}
	return fmt.Sprintf("%s, GOMAXPROCS %d", every, w.processors)
}

// measureYield runs the native verbs with each of the ways in turn, on one server, with clients that do not pipeline: it
// is their latency that the scheduler shows in, and the sleeps of Go's threads show what the scheduler does. Only the library for the tests can change its way.
func (p *plan) measureYield(ctx context.Context, r *report) (err error) {
	a, _ := axisNamed("clients50")
	a.Name, a.What = "yield", a.What+", letting the Go scheduler in more or less often"
	who := make([]*executor, len(ways))
	for i, w := range ways {
		e := native
		e.Name, e.module, e.db = w.String(), "debug", i
		who[i] = &e
	}
	b, err := makeBed(ctx, p.modules, a, who)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := r.identify(ctx, b.server); err != nil {
		return err
	}
	bar := progress(a.Name, (p.pairs+1)*len(who))
	r.Yield = &result{Axis: a}
	for pair := range p.pairs + 1 { // the first warms up and does not count
		for i := range who {
			at := place(i, pair, len(who))
			w, e := ways[at], b.runners[at]
			if err := e.control.Do(ctx, "EMQ.DEBUG", "YIELD", w.every.Microseconds(), w.processors).Err(); err != nil {
				return err
			}
			began, before := time.Now(), switches(b.server.Pid())
			// A leg at a time and not part by part, for Go's threads take a while to fall into a way.
			legs, err := measure(ctx, pair, []*runner{e})
			if err != nil {
				return err
			}
			legs[0].Switches = float64(switches(b.server.Pid())-before) / time.Since(began).Seconds()
			if pair > 0 {
				r.Yield.Legs = append(r.Yield.Legs, legs...)
			}
			_ = bar.Add(1)
		}
	}
	return nil
}

func (r *report) printYield(to io.Writer) {
	if r.Yield == nil {
		return
	}
	fmt.Fprintf(to, "\nthe Go scheduler is let in at most every …; against %s: median over the pairs [95 %% bound]\n\n", ways[0])
	w := table(to)
	defer w.Flush()
	shown := metrics[:6]
	for _, m := range shown {
		fmt.Fprintf(w, "\t%s", m.name)
	}
	fmt.Fprintln(w, "\tswitches/s")
	for _, way := range ways {
		fmt.Fprint(w, way)
		for _, m := range shown {
			if b, ok := r.Yield.compare(way.String(), ways[0].String(), m); ok {
				fmt.Fprint(w, "\t", bound(b, 2))
			}
		}
		fmt.Fprintf(w, "\t%.0f\n", r.Yield.median(way.String(), metric{of: func(l *leg) []float64 { return []float64{l.Switches} }}))
	}
}

// switches counts how often the threads of a process, all but the first, have gone to sleep: what Go's own threads do
// while the server works.
func switches(pid int) (n int64) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, task := range tasks {
		if strings.Contains(task, fmt.Sprintf("/task/%d/", pid)) {
			continue
		}
		status, _ := os.ReadFile(task)
		for line := range strings.Lines(string(status)) {
			if count, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				one, _ := strconv.ParseInt(strings.TrimSpace(count), 10, 64)
				n += one
			}
		}
	}
	return n
}
