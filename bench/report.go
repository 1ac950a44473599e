package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"emq/bench/stats"
	"emq/test/valkey"
)

// report is all that a run has found, as it is written to disk.
type report struct {
	Time   time.Time    `json:"time"`
	Host   host         `json:"host"`
	Server string       `json:"server"`
	Module string       `json:"module"`
	Pairs  int          `json:"pairs"`
	Axes   []*result    `json:"axes"`
	Memory []*footprint `json:"memory,omitempty"`
	Yield  *result      `json:"yield,omitempty"`
	// Contests are those of executors of several servers.
	Contests []*result `json:"contests,omitempty"`
	Wait     []*wait   `json:"wait,omitempty"`
	Weights  []*weight `json:"waiting_memory,omitempty"`
}

type host struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
}

// result is what was found on one axis.
type result struct {
	Axis axis   `json:"axis"`
	Legs []*leg `json:"legs"`
	// Ratios are of the native verbs to another executor, by its name; of a contest, each of one executor to another.
	Ratios map[string]map[string]stats.Bound `json:"ratios,omitempty"`

	contest *contest
}

// metric is a figure of a leg: one for each part of it, or one for all.
type metric struct {
	name string
	of   func(*leg) []float64
}

var (
	metrics = []metric{
		{"server", func(l *leg) []float64 { return l.Job }},
		{"cpu", func(l *leg) []float64 { return l.CPU }},
		{"jobs/s", func(l *leg) []float64 { return l.Rate }},
		{"p50", func(l *leg) []float64 { return l.P50 }},
		{"p95", func(l *leg) []float64 { return []float64{l.P95} }},
		{"p99", func(l *leg) []float64 { return []float64{l.P99} }},
		{"enqueue", func(l *leg) []float64 { return l.Enqueue }},
		claimTime,
		{"complete", func(l *leg) []float64 { return l.Complete }},
		{"fail", func(l *leg) []float64 { return l.Fail }},
	}
	claimTime     = metric{"claim", func(l *leg) []float64 { return l.Claim }}
	aofBytes      = metric{"AOF bytes", func(l *leg) []float64 { return l.AOF }}
	generatorBusy = metric{"generator", func(l *leg) []float64 { return l.Generator }}
)

// places is how many decimals a figure is shown with.
func (m metric) places() int {
	if m.name == "jobs/s" || m.name == aofBytes.name || m.name[0] == 'p' {
		return 0
	}
	return 2
}

func newReport(p *plan) *report {
	return &report{Time: time.Now().UTC().Truncate(time.Second), Pairs: p.pairs, Host: host{
		CPU: cpuModel(), Cores: runtime.NumCPU(), Kernel: firstLine("/proc/sys/kernel/osrelease"), Go: runtime.Version(),
	}}
}

func (r *report) axis(name string) *result {
	for _, a := range r.Axes {
		if a.Axis.Name == name {
			return a
		}
	}
	return nil
}

// byBacklog are the axes that differ in the backlog alone, if there are several.
func (r *report) byBacklog() []*result {
	var g []*result
	for _, name := range []string{"base", "backlog100k", "backlog1m"} {
		if a := r.axis(name); a != nil {
			g = append(g, a)
		}
	}
	return g
}

func (r *report) begin(a axis) *result {
	r.Axes = append(r.Axes, &result{Axis: a})
	return r.Axes[len(r.Axes)-1]
}

// parts are one metric of one executor, in the order of the pairs, part by part.
func (r *result) parts(executor string, m metric) [][]float64 {
	var parts [][]float64
	for _, l := range r.Legs {
		if l.Executor == executor {
			parts = append(parts, m.of(l))
		}
	}
	return parts
}

// values are the same, each leg's the median of its parts, since whatever else runs on the machine lengthens some.
func (r *result) values(executor string, m metric) []float64 {
	var values []float64
	for _, parts := range r.parts(executor, m) {
		values = append(values, stats.Median(parts))
	}
	return values
}

func (r *result) median(executor string, m metric) float64 {
	if values := r.values(executor, m); len(values) > 0 {
		return stats.Median(values)
	}
	return 0
}

// compare sets one executor against another.
func (r *result) compare(one, other string, m metric) (stats.Bound, bool) {
	over, under := r.parts(one, m), r.parts(other, m)
	if len(over) == 0 || len(under) == 0 {
		return stats.Bound{}, false
	}
	return stats.Ratio(over, under), true
}

func (r *result) ratios(one, other string, of []metric) map[string]stats.Bound {
	ratios := map[string]stats.Bound{}
	for _, m := range of {
		if b, ok := r.compare(one, other, m); ok {
			ratios[m.name] = b
		}
	}
	return ratios
}

var others = []string{scripted.Name, floor.Name}

func (r *report) summarize() {
	for _, a := range r.Axes {
		a.Ratios = map[string]map[string]stats.Bound{}
		for _, other := range others {
			if ratios := a.ratios(native.Name, other, metrics); len(ratios) > 0 {
				a.Ratios[other] = ratios
			}
		}
	}
	r.summarizeContests()
	r.summarizeWait()
}

// write stores the report as JSON.
func (r *report) write(folder string) error {
	r.summarize()
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "bench.json"), append(b, '\n'), 0o644)
}

// print writes the tables: the ratios first, since they alone carry over to another machine.
func (r *report) print(to io.Writer) {
	if len(r.Axes)+len(r.Memory) == 0 && r.Yield == nil && r.Contests == nil && r.Wait == nil {
		return
	}
	fmt.Fprintf(to, "\n%s\n%s\n%s, %d cores, Linux %s, %s; %d pairs\n", r.Module, r.Server, r.Host.CPU, r.Host.Cores, r.Host.Kernel, r.Host.Go, r.Pairs)
	perJob, perCommand := metrics[:6], metrics[6:]
	for _, other := range others {
		r.printRatios(to, other, perJob)
	}
	for _, other := range others {
		r.printRatios(to, other, perCommand)
	}
	r.printFigures(to)
	r.printMemory(to)
	r.printYield(to)
	r.printContests(to)
	r.printWait(to)
	r.printWeights(to)
}

func table(to io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(to, 0, 0, 2, ' ', 0) }

// bound is an estimate as the tables show it.
func bound(b stats.Bound, places int) string {
	return fmt.Sprintf("%.*f [%.*f %.*f]", places, b.Median, places, b.Low, places, b.High)
}

func (r *report) printRatios(to io.Writer, other string, shown []metric) {
	w := table(to)
	defer w.Flush()
	for i, a := range r.Axes {
		if a.Ratios[other] == nil {
			continue
		}
		if i == 0 {
			fmt.Fprintf(to, "\nnative / %s: median over the pairs [95 %% bound]\n\n", other)
			for _, m := range shown {
				fmt.Fprintf(w, "\t%s", m.name)
			}
			fmt.Fprintln(w)
		}
		fmt.Fprint(w, a.Axis.Name)
		for _, m := range shown {
			fmt.Fprint(w, "\t", bound(a.Ratios[other][m.name], 2))
		}
		fmt.Fprintln(w)
	}
}

func (r *report) printFigures(to io.Writer) {
	if len(r.Axes) == 0 {
		return
	}
	fmt.Fprint(to, "\nmedians: server time per command and per job, processor time per job, latency of a pipeline, all in µs\n\n")
	w := table(to)
	defer w.Flush()
	shown := append(append([]metric{}, metrics[6:]...), metrics[:6]...)
	fmt.Fprint(w, "\t")
	for _, m := range shown {
		fmt.Fprintf(w, "\t%s", m.name)
	}
	fmt.Fprintln(w, "\tgenerator")
	for _, a := range r.Axes {
		for _, e := range executors {
			if len(a.values(e.Name, metrics[0])) == 0 {
				continue
			}
			fmt.Fprintf(w, "%s\t%s", a.Axis.Name, e.Name)
			for _, m := range shown {
				fmt.Fprintf(w, "\t%.*f", m.places(), a.median(e.Name, m))
			}
			fmt.Fprintf(w, "\t%.0f %%\n", 100*a.median(e.Name, generatorBusy))
		}
	}
}

// identify has the server and the module say what they are.
func (r *report) identify(ctx context.Context, s *valkey.Server) error {
	for line := range strings.SplitSeq(s.Log(), "\n") {
		if _, said, ok := strings.Cut(line, "<emq> emq "); ok {
			said, _, _ = strings.Cut(said, ", on Valkey")
			r.Module = "emq " + said
		}
	}
	c := control(s, 0)
	defer c.Close()
	info, err := c.Info(ctx, "server", "memory").Result()
	r.Server = fmt.Sprintf("Valkey %s, %s, %s", infoField(info, "valkey_version"), infoField(info, "mem_allocator"), infoField(info, "multiplexing_api"))
	return err
}

func cpuModel() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.SplitSeq(string(b), "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

func firstLine(path string) string {
	b, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}
