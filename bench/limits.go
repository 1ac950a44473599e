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

// limit is a step from the floor to the verbs, and the floor that it is set against.
type limit struct{ step, floor *executor }

func (l limit) String() string { return l.step.Name + " / " + l.floor.Name }

// The steps between the floor and the verbs: floor/steps.h says what each adds. They have a server of their own, and in
// it a floor: two Go runtimes in one process would be in each other's way, and in the verbs' server every executor pays
// for what the module does when a key is made.
var (
	floorAlone = ofModule("floor alone", "floor", 2)
	reads      = ofModule("reads", "reads", 3)
	crossing   = ofModule("crossing", "crossing", 4)

	limits = []limit{{&reads, &floorAlone}, {&crossing, &floorAlone}, {&floor, &floorAlone}, {&native, &floorAlone}, {&native, &floor}}
)

// measureLimits measures what lies between the floor and the verbs, with pipelines and without.
func (p *plan) measureLimits(ctx context.Context, r *report) error {
	if err := buildFloor(ctx, p.modules["reads"], "-DREADS"); err != nil {
		return err
	}
	if err := buildCrossing(ctx, p.modules["crossing"]); err != nil {
		return err
	}
	for _, name := range []string{"base", "clients50"} {
		a, _ := axisNamed(name)
		to := &result{Axis: a}
		r.Limits = append(r.Limits, to)
		if err := p.measureLimitsOn(ctx, to, r); err != nil {
			return err
		}
	}
	return nil
}

// measureLimitsOn has both servers take turns on one axis, part by part.
func (p *plan) measureLimitsOn(ctx context.Context, to *result, r *report) (err error) {
	var who []*runner
	for _, together := range [][]*executor{{&native, &floor}, {&floorAlone, &reads, &crossing}} {
		if err := proveEqual(ctx, p.modules, together...); err != nil {
			return err
		}
		b, err := makeBed(ctx, p.modules, to.Axis, together)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.close()) }()
		who = append(who, b.runners...)
	}
	if err := r.identify(ctx, who[0].bed.server); err != nil {
		return err
	}
	return p.measurePairs(ctx, to, who)
}

// buildCrossing builds the package beside floor.c as the module is built.
func buildCrossing(ctx context.Context, to string) error {
	script, err := filepath.Abs("module/emq.map")
	if err != nil {
		return err
	}
	defer os.Remove(fmt.Sprintf("%s.%d.h", to, os.Getpid())) // of no use
	return build(ctx, to, "go build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false",
		"-ldflags", "-extldflags '-Wl,--version-script="+script+"'", "./bench/floor")
}

// limitMetrics are a job's server time, the tail of the latency, and each verb's server time.
var limitMetrics = slices.Concat(metrics[:1], metrics[4:])

func (r *report) summarizeLimits() {
	for _, a := range r.Limits {
		a.Ratios = map[string]map[string]stats.Bound{}
		for _, l := range limits {
			a.Ratios[l.String()] = map[string]stats.Bound{}
			for _, m := range limitMetrics {
				if b, ok := a.compare(l.step.Name, l.floor.Name, m); ok {
					a.Ratios[l.String()][m.name] = b
				}
			}
		}
	}
}

func (r *report) printLimits(to io.Writer) {
	for _, a := range r.Limits {
		fmt.Fprintf(to, "\nfrom the floor to the verbs, %s; alone is in a server without the module: median over the pairs [95 %% bound]\n\n", a.Axis.What)
		w := table(to)
		for _, m := range limitMetrics {
			fmt.Fprintf(w, "\t%s", m.name)
		}
		fmt.Fprintln(w)
		for _, l := range limits {
			fmt.Fprint(w, l)
			for _, m := range limitMetrics {
				b := a.Ratios[l.String()][m.name]
				fmt.Fprintf(w, "\t%.2f [%.2f %.2f]", b.Median, b.Low, b.High)
			}
			fmt.Fprintln(w)
		}
		w.Flush()
	}
}
