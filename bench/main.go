// Command bench measures what a job costs under each of three executors: the Lua scripts, the native verbs, and a floor
// in C that does the same writes and nothing else (floor/floor.c). All three run in one server and take turns many times
// a second, and each is set against the others turn by turn, so that what disturbs the machine disturbs them alike.
//
// `make bench` runs it all, `make bench-quick` less of it in less time; see -help for a part of it. It runs in its own
// folder, from which all paths are, and is a module of its own, so that the project's users get none of what it needs.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

func main() {
	only := flag.String("axis", "", "measure these axes alone, separated by commas: "+axisNames())
	who := flag.String("only", "", "run one executor alone, to profile it: scripts, native or floor; no ratios then")
	pairs := flag.Int("pairs", 15, "how many times each executor is measured on an axis")
	quick := flag.Bool("quick", false, "fewer pairs of shorter legs, and no backlog of a million")
	out := flag.String("out", "../build/bench", "where the JSON and the plots go")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	debug.SetGCPercent(-1) // see measure
	debug.SetMemoryLimit(2 << 30)

	p, err := newPlan(*only, *who, *pairs, *quick, *out)
	if err == nil {
		err = p.run(ctx)
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// plan is what one run of the program does.
type plan struct {
	axes       []axis
	studies    []study
	who        []*executor
	pairs      int
	quick      bool
	memoryJobs int
	out        string
	modules    modules
}

// study is what is measured besides the axes, in a way of its own. It is chosen like an axis.
type study struct {
	name    string
	when    when
	measure func(*plan, context.Context, *report) error
}

// when says which runs a study is a part of, unless it is asked for by its name.
type when int

const (
	onRequest when = iota
	inFull
	always
)

var studies = []study{
	{"batch", always, (*plan).measureBatches},
	{"wait", always, (*plan).measureWait},
	{"yield", onRequest, (*plan).measureYield},
	{"growth", inFull, (*plan).measureGrowth},
	{"limits", onRequest, (*plan).measureLimits},
	{"memory", always, (*plan).measureMemory},
}

func newPlan(only, who string, pairs int, quick bool, out string) (*plan, error) {
	p := &plan{axes: axes, who: executors, pairs: pairs, quick: quick, memoryJobs: 100_000, out: out}
	if pairs < 1 {
		return nil, errors.New("-pairs is at least 1")
	}
	if quick {
		p.pairs, p.memoryJobs = min(pairs, 3), 20_000
		p.axes = nil
		for _, a := range axes {
			if a.Jobs /= 2; a.Backlog < 1_000_000 {
				p.axes = append(p.axes, a)
			}
		}
	}
	for _, s := range studies {
		if who == "" && (s.when == always || s.when == inFull && !quick) {
			p.studies = append(p.studies, s)
		}
	}
	if only != "" {
		p.axes, p.studies = nil, nil
		for name := range strings.SplitSeq(only, ",") {
			if i := slices.IndexFunc(studies, func(s study) bool { return s.name == name }); i >= 0 {
				p.studies = append(p.studies, studies[i])
				continue
			}
			a, ok := axisNamed(name)
			if !ok {
				return nil, fmt.Errorf("no axis %q; there are %s", name, axisNames())
			}
			p.axes = append(p.axes, a)
		}
	}
	if who != "" {
		p.who = nil
		for _, e := range executors {
			if e.Name == who {
				p.who = append(p.who, e)
			}
		}
		if p.who == nil {
			return nil, fmt.Errorf("no executor %q", who)
		}
	}
	p.modules = modules{
		"emq":   cmp.Or(os.Getenv("EMQ_MODULE"), "../build/emq.so"),
		"debug": cmp.Or(os.Getenv("EMQ_MODULE_DEBUG"), "../build/emq-debug.so"),
	}
	for _, name := range []string{"floor", "reads", "crossing"} {
		var err error
		if p.modules[name], err = filepath.Abs("../build/" + name + ".so"); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// run measures axis by axis, and reports what there is even if it is interrupted.
func (p *plan) run(ctx context.Context) error {
	if err := buildFloor(ctx, p.modules["floor"]); err != nil {
		return err
	}
	if err := proveEqual(ctx, p.modules, &native, &floor); err != nil {
		return err
	}
	r := newReport(p)
	err := errors.Join(p.measure(ctx, r), r.write(p.out), r.plots(p.out))
	r.print(os.Stdout)
	return err
}

func (p *plan) measure(ctx context.Context, r *report) error {
	for _, a := range p.axes {
		if err := p.measureAxis(ctx, a, r); err != nil {
			return fmt.Errorf("axis %s: %w", a.Name, err)
		}
	}
	for _, s := range p.studies {
		if err := s.measure(p, ctx, r); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (p *plan) measureAxis(ctx context.Context, a axis, r *report) (err error) {
	b, err := makeBed(ctx, p.modules, a, p.who)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if len(p.who) == 1 {
		fmt.Fprintf(os.Stderr, "the server's pid is %d\n", b.server.Pid())
	}
	if err := r.identify(ctx, b.server); err != nil {
		return err
	}
	if err := p.measurePairs(ctx, r.begin(a), b.runners); err != nil {
		return err
	}
	return b.checkReplica(ctx)
}

func (p *plan) measurePairs(ctx context.Context, to *result, who []*runner) error {
	bar := progress(to.Axis.Name, p.pairs+1)
	for pair := range p.pairs + 1 { // the first warms up and does not count
		legs, err := measure(ctx, pair, who)
		if err != nil {
			return err
		}
		if pair > 0 {
			to.Legs = append(to.Legs, legs...)
		}
		_ = bar.Add(1)
	}
	return nil
}

// progress shows on a terminal how far a part of the run is.
func progress(what string, steps int) *progressbar.ProgressBar {
	return progressbar.NewOptions(steps, progressbar.OptionSetDescription(fmt.Sprintf("%-12s", what)),
		progressbar.OptionSetVisibility(term.IsTerminal(int(os.Stderr.Fd()))),
		progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())
}

// buildFloor compiles the floor, as the module's own C is compiled.
func buildFloor(ctx context.Context, to string, flags ...string) error {
	return build(ctx, to, cmp.Or(os.Getenv("CC"), "gcc"), append([]string{"-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden",
		"-Wall", "-Wextra", "-Werror", "floor/floor.c", "../module/abi.c"}, flags...)...)
}

// build has a compiler make a library. It goes through another file, for a server of an earlier run may have the old one
// mapped. Valkey refuses a module without the execute bit.
func build(ctx context.Context, to, compiler string, args ...string) error {
	made := fmt.Sprintf("%s.%d.tmp", to, os.Getpid())
	words := append(append(strings.Fields(compiler), "-o", made), args...)
	cc := exec.CommandContext(ctx, words[0], words[1:]...)
	cc.Stdout, cc.Stderr = os.Stderr, os.Stderr
	if err := cc.Run(); err != nil {
		return fmt.Errorf("build %s: %w", to, err)
	}
	if err := os.Chmod(made, 0o755); err != nil {
		return err
	}
	return os.Rename(made, to)
}
