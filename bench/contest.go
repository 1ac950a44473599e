package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"emq/bench/stats"
)

// contest sets executors of several servers against each other, all in turns, part by part: what the axes, measured one
// after another, can't show.
type contest struct {
	name    string
	what    string
	stands  []stand
	rows    []versus
	metrics []metric
	medians bool // the figures themselves are shown as well
}

// stand is one server, and who works in it on which axis.
type stand struct {
	axis axis
	who  []*executor
}

// versus is what is compared.
type versus struct{ one, other *executor }

func (v versus) String() string { return v.one.Name + " / " + v.other.Name }

// The steps between the floor and the verbs: floor/steps.h says what each adds. They have a server of their own, and in
// it a floor: two Go runtimes in one process would be in each other's way, and in the verbs' server every executor pays
// for what the module does when a key is made.
var (
	floorAlone = ofModule("floor alone", "floor", 2)
	reads      = ofModule("reads", "reads", 3)
	crossing   = ofModule("crossing", "crossing", 4)
)

func limits(a axis) contest {
	return contest{
		name:    "limits",
		what:    "from the floor to the verbs, " + a.What + "; alone is in a server without the module",
		stands:  []stand{{a, []*executor{&native, &floor}}, {a, []*executor{&floorAlone, &reads, &crossing}}},
		rows:    []versus{{&reads, &floorAlone}, {&crossing, &floorAlone}, {&floor, &floorAlone}, {&native, &floorAlone}, {&native, &floor}},
		metrics: slices.Concat(metrics[:1], metrics[4:]),
	}
}

// What a verb takes as the backlog grows.
var (
	nativeFull   = ofModule("native, 1 M", "emq", 0)
	floorFull    = ofModule("floor, 1 M", "floor", 2)
	scriptedFull = func() executor { e := scripted; e.Name = "scripts, 1 M"; return e }()
)

func growth() contest {
	full, _ := axisNamed("backlog1m")
	return contest{
		name:    "growth",
		what:    "server time at a backlog of 1 M, of that at 1 k",
		stands:  []stand{{base, []*executor{&scripted, &native, &floor}}, {full, []*executor{&scriptedFull, &nativeFull, &floorFull}}},
		rows:    []versus{{&scriptedFull, &scripted}, {&nativeFull, &native}, {&floorFull, &floor}},
		metrics: metrics[6:],
	}
}

// Many jobs in a call.
var batched = func() (all []*executor) {
	for i, n := range []int{1, 10, 100, 1000} {
		e := batchesOf(n, 3+i)
		all = append(all, &e)
	}
	return all
}()

// batches sets them against the verbs that take one job, in pipelines.
func batches(a axis) contest {
	c := contest{
		name:    "batch",
		what:    "many jobs in a call, " + a.What,
		stands:  []stand{{a, append([]*executor{&scripted, &floor}, batched...)}},
		metrics: slices.Concat(metrics[:3], metrics[6:]),
		medians: true,
	}
	if len(a.Settings) > 0 {
		c.metrics = append(c.metrics, aofBytes)
	}
	for _, other := range []*executor{&floor, &scripted} {
		for _, e := range batched {
			c.rows = append(c.rows, versus{e, other})
		}
	}
	return c
}

// measureBatches measures what a job costs that is one of many in a call, without an append-only file and with one.
func (p *plan) measureBatches(ctx context.Context, r *report) error {
	silent := base
	if p.quick {
		silent.Jobs /= 2
	}
	logged := silent
	logged.What = "64 B, backlog 1 k, AOF left to the system to write, pipelines of 64"
	logged.Settings = []string{"--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0"}
	if err := p.hold(ctx, batches(silent), r); err != nil {
		return err
	}
	return p.hold(ctx, batches(logged), r)
}

// measureGrowth measures what a verb takes as the backlog grows.
func (p *plan) measureGrowth(ctx context.Context, r *report) error { return p.hold(ctx, growth(), r) }

// measureLimits measures what lies between the floor and the verbs, with pipelines and without.
func (p *plan) measureLimits(ctx context.Context, r *report) error {
	if err := buildFloor(ctx, p.modules["reads"], "-DREADS"); err != nil {
		return err
	}
	if err := buildCrossing(ctx, p.modules["crossing"]); err != nil {
		return err
	}
	if err := proveEqual(ctx, p.modules, &floorAlone, &reads, &crossing); err != nil {
		return err
	}
	for _, name := range []string{"base", "clients50"} {
		a, _ := axisNamed(name)
		if err := p.hold(ctx, limits(a), r); err != nil {
			return err
		}
	}
	return nil
}

func (p *plan) hold(ctx context.Context, c contest, r *report) (err error) {
	var who []*runner
	for _, s := range c.stands {
		b, err := makeBed(ctx, p.modules, s.axis, s.who)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.close()) }()
		who = append(who, b.runners...)
	}
	if err := r.identify(ctx, who[0].bed.server); err != nil {
		return err
	}
	to := &result{Axis: c.stands[0].axis, contest: &c}
	to.Axis.Name, to.Axis.What = c.name, c.what
	r.Contests = append(r.Contests, to)
	return p.measurePairs(ctx, to, who)
}

// buildCrossing builds the package beside floor.c as the module is built.
func buildCrossing(ctx context.Context, to string) error {
	script, err := filepath.Abs("../module/emq.map")
	if err != nil {
		return err
	}
	defer os.Remove(fmt.Sprintf("%s.%d.h", to, os.Getpid())) // of no use
	return build(ctx, to, "go build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false",
		"-ldflags", "-extldflags '-Wl,--version-script="+script+"'", "./floor")
}

func (r *report) summarizeContests() {
	for _, a := range r.Contests {
		a.Ratios = map[string]map[string]stats.Bound{}
		for _, row := range a.contest.rows {
			a.Ratios[row.String()] = a.ratios(row.one.Name, row.other.Name, a.contest.metrics)
		}
	}
}

func (r *report) printContests(to io.Writer) {
	for _, a := range r.Contests {
		fmt.Fprintf(to, "\n%s: median over the pairs [95 %% bound]\n\n", a.Axis.What)
		w := table(to)
		for _, m := range a.contest.metrics {
			fmt.Fprintf(w, "\t%s", m.name)
		}
		fmt.Fprintln(w)
		for _, row := range a.contest.rows {
			fmt.Fprint(w, row)
			for _, m := range a.contest.metrics {
				fmt.Fprint(w, "\t", bound(a.Ratios[row.String()][m.name], 2))
			}
			fmt.Fprintln(w)
		}
		w.Flush()
		if a.contest.medians {
			a.printMedians(to)
		}
	}
}

func (r *result) printMedians(to io.Writer) {
	fmt.Fprint(to, "\nmedians: of one job, times in µs\n\n")
	w := table(to)
	defer w.Flush()
	for _, m := range r.contest.metrics {
		fmt.Fprintf(w, "\t%s", m.name)
	}
	fmt.Fprintln(w)
	for _, s := range r.contest.stands {
		for _, e := range s.who {
			fmt.Fprint(w, e.Name)
			for _, m := range r.contest.metrics {
				fmt.Fprintf(w, "\t%.*f", m.places(), r.median(e.Name, m))
			}
			fmt.Fprintln(w)
		}
	}
}
