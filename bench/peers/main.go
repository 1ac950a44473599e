// Command peers sets EMQ beside the job queues that people use: asynq, from Go, and BullMQ, from node. All of them run on
// one server, in turn, with the same payload and as many workers; the jobs do nothing. EMQ is driven from both languages,
// so that it is not the clients that are compared: by its packages, as its users do, and by its verbs alone, where each
// worker waits for every reply.
//
// Measured are how many jobs a second there are, what a job costs the server and the client, and how long it takes from
// the call that enqueues it to its handler.
//
// `make bench-peers` runs it, in the folder above.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"emq/bench/stats"
	"emq/test/valkey"
)

// load is what every peer is given.
type load struct {
	Socket  string // the server's
	Jobs    int
	WarmUp  int // jobs before the clock starts
	Workers int // and as many producers
	Payload int // bytes

	// Of latencies.
	Samples int           // jobs, one at a time
	Limit   time.Duration // for these jobs, since there are peers that take a second for each
	Pause   time.Duration // before each of them, at most
	Rate    int           // then jobs a second,
	Steady  time.Duration // for so long
}

// steadyJobs are those of the steady load.
func (l load) steadyJobs() int { return int(float64(l.Rate) * l.Steady.Seconds()) }

// figures are what one run of a peer took, for both halves of it.
type figures struct {
	Enqueue figure `json:"enqueue"`
	Process figure `json:"process"`
}

// peer is a way to use a queue: it enqueues the jobs, and when that is done it processes them.
type peer struct {
	name, client string
	against      string // the peer that speaks the same language and is to be compared with this one
	run          func(context.Context, load) (figures, error)
	latency      func(context.Context, load) (latencies, error) // nil for bare verbs, which have no worker
}

func main() {
	l := load{}
	flag.IntVar(&l.Jobs, "jobs", 20_000, "jobs in a run")
	flag.IntVar(&l.Workers, "workers", 32, "producers, and then workers")
	flag.IntVar(&l.Payload, "payload", 64, "bytes in a job")
	flag.IntVar(&l.Samples, "samples", 2_000, "jobs whose latency is measured one at a time, in a run")
	flag.DurationVar(&l.Limit, "limit", 15*time.Second, "the longest that these may take")
	flag.DurationVar(&l.Pause, "pause", 2*time.Millisecond, "the longest pause before each of them")
	flag.IntVar(&l.Rate, "rate", 1_000, "jobs a second of the steady load")
	flag.DurationVar(&l.Steady, "steady", 5*time.Second, "how long it lasts, in a run")
	runs := flag.Int("runs", 7, "runs of every peer")
	only := flag.String("only", "", "rates or latency")
	clients := flag.String("clients", "", "a regular expression for the clients that are measured; all by default")
	out := flag.String("out", "../build/bench", "where the JSON goes")
	flag.Parse()
	l.WarmUp = l.Jobs / 10

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := compare(ctx, l, *runs, *only, *clients, *out)
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// outcome is all that was found about a peer, its runs in order.
type outcome struct {
	Peer      string      `json:"peer"`
	Client    string      `json:"client"`
	Runs      []figures   `json:"runs,omitempty"`
	Latencies []latencies `json:"latencies,omitempty"`

	peer peer
}

func compare(ctx context.Context, l load, runs int, only, clients, out string) (err error) {
	if only != "" && only != "rates" && only != "latency" {
		return fmt.Errorf("-only is rates or latency, not %q", only)
	}
	if l.WarmUp < 1 || l.Workers < 1 || l.Payload < 2 || l.Samples < 1 || l.Limit <= 0 || l.Pause <= 0 || l.steadyJobs() < 1 || runs < 1 {
		return errors.New("all numbers are above 0, jobs at least 10, the payload 2 bytes, and of the steady load there is a job at least")
	}
	meant, err := regexp.Compile(clients)
	if err != nil {
		return err
	}
	s, err := valkey.Start(valkey.Options{Module: cmp.Or(os.Getenv("EMQ_MODULE"), "../build/emq.so")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	l.Socket = s.Socket

	var found []*outcome
	for _, p := range append(goPeers(), nodePeers()...) {
		if meant.MatchString(p.client) && (p.latency != nil || only != "latency") {
			found = append(found, &outcome{Peer: p.name, Client: p.client, peer: p})
		}
	}
	if len(found) == 0 {
		return fmt.Errorf("no client is like %q", clients)
	}
	for run := range runs {
		for i := range found {
			o := found[(i+run)%len(found)]
			if err := o.measure(ctx, s, l, only); err != nil {
				return fmt.Errorf("%s, %s: %w", o.Peer, o.Client, err)
			}
			fmt.Fprintf(os.Stderr, "run %d of %d: %-6s %s\n", run+1, runs, o.Peer, o.Client)
		}
	}
	if only != "latency" {
		printRates(os.Stdout, l, found)
		printCosts(os.Stdout, l, found, "enqueue", func(f figures) figure { return f.Enqueue })
		printCosts(os.Stdout, l, found, "process", func(f figures) figure { return f.Process })
	}
	if only != "rates" {
		printLatencies(os.Stdout, l, found)
	}
	return write(out, l, found)
}

func (o *outcome) measure(ctx context.Context, s *valkey.Server, l load, only string) error {
	if only != "latency" {
		if err := empty(ctx, s); err != nil {
			return err
		}
		f, err := o.peer.run(ctx, l)
		if err != nil {
			return err
		}
		o.Runs = append(o.Runs, f)
	}
	if only != "rates" && o.peer.latency != nil {
		if err := empty(ctx, s); err != nil {
			return err
		}
		f, err := o.peer.latency(ctx, l)
		if err != nil {
			return err
		}
		o.Latencies = append(o.Latencies, f)
	}
	return nil
}

// empty removes all data and gives the store to EMQ again, for its turn.
func empty(ctx context.Context, s *valkey.Server) error {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket, DisableIdentity: true})
	defer c.Close()
	if err := c.FlushAll(ctx).Err(); err != nil {
		return err
	}
	return c.Set(ctx, "{emq}:version", "echomq:6.0.0", 0).Err()
}

// contests are each EMQ and the peer of its own language.
func contests(found []*outcome) iter.Seq2[*outcome, *outcome] {
	return func(yield func(ours, theirs *outcome) bool) {
		for _, o := range found {
			for _, other := range found {
				if o.peer.against == other.Peer && !yield(o, other) {
					return
				}
			}
		}
	}
}

// printRates writes how many jobs a second there were, and what they cost the server.
func printRates(to io.Writer, l load, found []*outcome) {
	fmt.Fprintf(to, "\n%d jobs of %d bytes, %d producers, then %d workers; medians of %d runs [95 %% bound]\n\n", l.Jobs, l.Payload, l.Workers, l.Workers, len(found[0].Runs))
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "\tclient\tenqueue/s\tprocess/s\tserver µs per enqueue\tserver µs per process")
	rate := func(f figure) float64 { return float64(l.Jobs) / f.Seconds }
	cost := func(f figure) float64 { return f.CPU * 1e6 / float64(l.Jobs) }
	for _, o := range found {
		e, p := o.values(func(f figures) figure { return f.Enqueue }), o.values(func(f figures) figure { return f.Process })
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%.0f\t%.1f\t%.1f\n", o.Peer, o.Client,
			median(e, rate), median(p, rate), median(e, cost), median(p, cost))
	}
	for ours, theirs := range contests(found) {
		fmt.Fprintf(w, "EMQ : %s\t%s", theirs.Peer, ours.Client)
		for _, what := range []func(figure) float64{rate, cost} {
			for _, half := range []func(figures) figure{func(f figures) figure { return f.Enqueue }, func(f figures) figure { return f.Process }} {
				b := stats.Ratio(pairs(ours.values(half), what), pairs(theirs.values(half), what))
				fmt.Fprintf(w, "\t%.2f [%.2f %.2f]", b.Median, b.Low, b.High)
			}
		}
		fmt.Fprintln(w)
	}
}

func (o *outcome) values(half func(figures) figure) []figure { return each(o.Runs, half) }

func each[T, V any](values []T, of func(T) V) (all []V) {
	for _, v := range values {
		all = append(all, of(v))
	}
	return all
}

// pairs are the same, each run a pair of one part.
func pairs[T any](runs []T, of func(T) float64) [][]float64 {
	return each(runs, func(v T) []float64 { return []float64{of(v)} })
}

func median[T any](runs []T, of func(T) float64) float64 { return stats.Median(each(runs, of)) }

func write(folder string, l load, found []*outcome) error {
	b, err := json.MarshalIndent(map[string]any{
		"jobs": l.Jobs, "workers": l.Workers, "payload": l.Payload, "rate": l.Rate, "peers": found,
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "peers.json"), append(b, '\n'), 0o644)
}
