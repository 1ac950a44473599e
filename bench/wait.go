package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/redis/go-redis/v9"

	"emq/bench/load"
	"emq/bench/stats"
	"emq/test/valkey"
)

// scene is how many wait, and for how many queues.
type scene struct {
	Queues int `json:"queues"`
	Each   int `json:"waiting_for_each"`
}

var (
	fifty     = scene{1, 50}
	scenes    = []scene{{1, 1}, fifty, {1, 1_000}, {1, 10_000}, {1_000, 10}}
	waitWays  = []load.Way{load.BClaim, load.BZPopMin, load.Plain}
	latencies = []metric{metrics[3], metrics[5]} // p50 and p99

	ours, bare, plain = load.BClaim.Name, load.BZPopMin.Name, load.Plain.Name
)

func (s scene) all() int { return s.Queues * s.Each }

func (s scene) String() string {
	if s.Queues == 1 {
		return fmt.Sprintf("%d on one queue", s.Each)
	}
	return fmt.Sprintf("%d on each of %d queues", s.Each, s.Queues)
}

// wait is what was found in a scene. A leg's executor is a way to wait.
type wait struct {
	Scene scene `json:"scene"`
	result
	// Beside are the ways among fifty who wait, on a server of their own, in the same turns.
	Beside *result `json:"beside_fifty,omitempty"`
	// Over is what BCLAIM takes above bare BZPOPMIN, in µs.
	Over map[string]stats.Bound `json:"over_us,omitempty"`
	// Growth is p50 as a ratio to that among fifty, of each way.
	Growth map[string]stats.Bound `json:"growth,omitempty"`
}

// besides is room for the clients and files that are not those who wait.
const besides = 100

// A turn of one way lasts for so many jobs, or until the time is over, since one job may take half a second.
const (
	turnJobs = 100
	turnTime = 50 * time.Millisecond
)

// turns is in how many parts a leg of a scene is measured: thousands take a while to change the way in which they wait.
func (s scene) turns() int {
	if s.all() > 1_000 {
		return 2
	}
	return parts / 2
}

// measureWait measures how long a job takes to reach one who waits for it, and what those who wait take in memory.
func (p *plan) measureWait(ctx context.Context, r *report) error {
	var files syscall.Rlimit // Go has raised it as far as it may
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	for _, s := range scenes {
		if p.quick && s.all() > 1_000 {
			continue
		}
		if need := uint64(s.all() + fifty.all() + besides); need > files.Cur {
			fmt.Fprintf(os.Stderr, "wait: %s needs %d open files and %d are allowed (ulimit -Hn), so it is left out\n", s, need, files.Cur)
			continue
		}
		if err := p.measureScene(ctx, s, r); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	if p.quick {
		return nil
	}
	for _, w := range []load.Way{load.BClaim, load.BZPopMin} {
		if err := r.weigh(ctx, p.modules, w); err != nil {
			return fmt.Errorf("memory, %s: %w", w.Name, err)
		}
	}
	return nil
}

// crowd is some who wait, and the server on which they do.
type crowd struct {
	*load.Crowd
	server  *valkey.Server
	control *redis.Client
	found   *result // where their legs go
}

func (p *plan) measureScene(ctx context.Context, s scene, r *report) (err error) {
	found := &wait{Scene: s}
	var crowds []*crowd
	join := func(s scene, to *result) error {
		c, err := serveCrowd(ctx, p.modules, s.all())
		if err != nil {
			return err
		}
		crowds = append(crowds, c)
		c.found = to
		to.Axis = axis{Name: "wait", What: s.String(), Payload: base.Payload, Conns: s.all()}
		return c.dial(s)
	}
	defer func() {
		for _, c := range crowds {
			err = errors.Join(err, c.close())
		}
	}()
	if err := join(s, &found.result); err != nil {
		return err
	}
	if s.all() > fifty.all() {
		found.Beside = &result{}
		if err := join(fifty, found.Beside); err != nil {
			return err
		}
	}
	if err := r.identify(ctx, crowds[0].server); err != nil {
		return err
	}
	r.Wait = append(r.Wait, found)
	bar := progress("wait", p.pairs+1)
	for pair := range p.pairs + 1 { // the first warms up and does not count
		if err := measureCrowds(ctx, pair, s.turns(), crowds); err != nil {
			return err
		}
		_ = bar.Add(1)
	}
	return nil
}

// serveCrowd starts a server on which so many can wait.
func serveCrowd(ctx context.Context, m modules, clients int) (_ *crowd, err error) {
	c := &crowd{}
	if c.server, err = m.start([]*executor{&native}, "--maxclients", strconv.Itoa(clients+besides)); err != nil {
		return nil, err
	}
	c.control = control(c.server, native.db)
	if err := native.prepare(ctx, c.control); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *crowd) dial(s scene) (err error) {
	c.Crowd, err = load.DialCrowd(load.CrowdOptions{Socket: c.server.Socket, Queues: s.Queues, Each: s.Each, Payload: base.Payload})
	return err
}

func (c *crowd) close() (err error) {
	if c.Crowd != nil {
		err = c.Crowd.Close()
	}
	return errors.Join(err, c.control.Close(), c.server.Close())
}

// measureCrowds runs one pair, a leg of each way in each crowd. In each crowd all wait in one way at a time, and the ways
// take turns.
func measureCrowds(ctx context.Context, pair, turns int, crowds []*crowd) error {
	runtime.GC() // the collector is off while the clock runs
	type contender struct {
		*crowd
		way load.Way
		leg *leg
	}
	var who []contender
	for _, c := range crowds {
		for _, w := range waitWays {
			l := &leg{Executor: w.Name, Pair: pair, latency: hdrhistogram.New(1, int64(time.Minute), 3)}
			who = append(who, contender{c, w, l})
		}
	}
	for turn := range turns {
		for i := range who {
			w := who[place(i, pair*turns+turn, len(who))]
			if err := w.turn(ctx, w.way, w.leg); err != nil {
				return fmt.Errorf("%s: %w", w.way.Name, err)
			}
		}
	}
	for _, w := range who {
		w.leg.P95, w.leg.P99 = percentile(w.leg.latency, 95), percentile(w.leg.latency, 99)
		if w.leg.Samples = w.leg.latency.TotalCount(); pair > 0 {
			w.found.Legs = append(w.found.Legs, w.leg)
		}
	}
	return nil
}

func (c *crowd) turn(ctx context.Context, w load.Way, l *leg) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.Enter(w); err != nil {
		return err
	}
	info, err := c.control.Info(ctx, "clients").Result()
	if err != nil {
		return err
	}
	if n := infoField(info, "blocked_clients"); n != strconv.Itoa(c.Len()) {
		return fmt.Errorf("%s wait, of %d", n, c.Len())
	}
	if _, err := c.rounds(ctx, turnJobs/4, turnTime/4); err != nil { // the caches are full of what the others did
		return err
	}
	took, err := c.rounds(ctx, turnJobs, turnTime)
	if err != nil {
		return err
	}
	l.latency.Merge(took)
	l.P50 = append(l.P50, percentile(took, 50))
	return c.Leave()
}

// rounds makes some jobs, one after another, at least one.
func (c *crowd) rounds(ctx context.Context, most int, limit time.Duration) (*hdrhistogram.Histogram, error) {
	all := hdrhistogram.New(1, int64(time.Minute), 3)
	for began := time.Now(); ; {
		took, err := c.Round()
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = all.RecordValue(int64(took))
		}
		if err != nil {
			return nil, err
		}
		if all.TotalCount() == int64(most) || time.Since(began) > limit {
			return all, nil
		}
	}
}

// weight is what one client takes in the server's memory, in bytes: its connection, and what waiting adds.
type weight struct {
	Way     string `json:"way"`
	Clients int    `json:"clients"`
	// By used_memory, and by the resident set.
	Connection    float64 `json:"connection"`
	ConnectionRSS float64 `json:"connection_rss"`
	Waiting       float64 `json:"waiting"`
	WaitingRSS    float64 `json:"waiting_rss"`
}

func (r *report) weigh(ctx context.Context, m modules, way load.Way) (err error) {
	s := scene{1, 1_000}
	c, err := serveCrowd(ctx, m, s.all())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	var empty, idle, waiting memory
	for _, step := range []struct {
		to   *memory
		take func() error
	}{
		{&empty, func() error { return nil }},
		{&idle, func() error { return c.dial(s) }},
		{&waiting, func() error { return c.Enter(way) }},
	} {
		if err := step.take(); err != nil {
			return err
		}
		if *step.to, err = c.shrunk(ctx); err != nil {
			return err
		}
	}
	each := func(bytes int64) float64 { return float64(bytes) / float64(s.all()) }
	r.Weights = append(r.Weights, &weight{
		Way: way.Name, Clients: s.all(),
		Connection: each(idle.used - empty.used), ConnectionRSS: each(idle.resident - empty.resident),
		Waiting: each(waiting.used - idle.used), WaitingRSS: each(waiting.resident - idle.resident),
	})
	return nil
}

// shrunk is the server's memory when the buffers of its clients have shrunk, which they do after some seconds without a
// request, and what was freed has been given back.
func (c *crowd) shrunk(ctx context.Context) (memory, error) {
	if _, err := settled(ctx, c.control, 70); err != nil {
		return memory{}, err
	}
	if err := c.control.Do(ctx, "MEMORY", "PURGE").Err(); err != nil {
		return memory{}, err
	}
	return settled(ctx, c.control, 3)
}

func (r *report) summarizeWait() {
	for _, w := range r.Wait {
		w.Over = map[string]stats.Bound{}
		for _, m := range latencies {
			if one, other := w.parts(ours, m), w.parts(bare, m); len(one) > 0 {
				w.Over[m.name] = stats.Difference(one, other)
			}
		}
		w.Ratios = map[string]map[string]stats.Bound{plain: w.ratios(ours, plain, latencies)}
		if w.Beside == nil || len(w.Beside.Legs) == 0 {
			continue
		}
		w.Growth = map[string]stats.Bound{}
		for _, way := range waitWays {
			w.Growth[way.Name] = stats.Ratio(w.parts(way.Name, latencies[0]), w.Beside.parts(way.Name, latencies[0]))
		}
	}
}

func (r *report) printWait(to io.Writer) {
	if len(r.Wait) == 0 {
		return
	}
	fmt.Fprint(to, "\nfrom the request that makes a job to the reply of one who waits for it: medians in µs, and how many jobs\n\n")
	w := table(to)
	for _, way := range waitWays {
		fmt.Fprintf(w, "\t%s p50\tp99\tjobs", way.Name)
	}
	fmt.Fprintln(w)
	for _, found := range r.Wait {
		fmt.Fprint(w, found.Scene)
		for _, way := range waitWays {
			fmt.Fprintf(w, "\t%.0f\t%.0f\t%d", found.median(way.Name, latencies[0]), found.median(way.Name, latencies[1]), found.jobs(way.Name))
		}
		fmt.Fprintln(w)
	}
	w.Flush()

	fmt.Fprintf(to, "\n%s: median over the pairs [95 %% bound]; differences in µs\n\n", ours)
	for _, m := range latencies {
		fmt.Fprintf(w, "\t%s − %s", m.name, bare)
	}
	for _, m := range latencies {
		fmt.Fprintf(w, "\t%s / %s", m.name, plain)
	}
	fmt.Fprintln(w)
	for _, found := range r.Wait {
		fmt.Fprint(w, found.Scene)
		for _, m := range latencies {
			fmt.Fprint(w, "\t", bound(found.Over[m.name], 0))
		}
		for _, m := range latencies {
			fmt.Fprint(w, "\t", bound(found.Ratios[plain][m.name], 2))
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	r.printGrowth(to)
}

func (r *report) printGrowth(to io.Writer) {
	w := table(to)
	defer w.Flush()
	first := true
	for _, found := range r.Wait {
		if found.Growth == nil {
			continue
		}
		if first {
			first = false
			fmt.Fprintf(to, "\np50 of each way, of that with %s: median over the pairs [95 %% bound]\n\n", fifty)
			for _, way := range waitWays {
				fmt.Fprint(w, "\t", way.Name)
			}
			fmt.Fprintln(w)
		}
		fmt.Fprint(w, found.Scene)
		for _, way := range waitWays {
			fmt.Fprint(w, "\t", bound(found.Growth[way.Name], 2))
		}
		fmt.Fprintln(w)
	}
}

func (r *report) printWeights(to io.Writer) {
	if len(r.Weights) == 0 {
		return
	}
	fmt.Fprintf(to, "\nbytes per client, of %d: its connection, and what waiting adds, by used_memory and by the resident set\n\n", r.Weights[0].Clients)
	w := table(to)
	defer w.Flush()
	fmt.Fprintln(w, "\tconnection\tresident\twaiting\tresident")
	for _, x := range r.Weights {
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t%.0f\n", x.Way, x.Connection, x.ConnectionRSS, x.Waiting, x.WaitingRSS)
	}
}

func (w *wait) jobs(way string) (n int64) {
	for _, l := range w.Legs {
		if l.Executor == way {
			n += l.Samples
		}
	}
	return n
}
