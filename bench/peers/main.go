// Command peers sets EMQ beside the job queues that people use: asynq, from Go, and BullMQ, from node. All of them run on
// one server, in turn, with the same payload and as many workers, each of which waits for every reply; the jobs do
// nothing. EMQ is driven from both languages, so that it is not the clients that are compared.
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
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
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
}

// figures are what one run of a peer took, for both halves of it.
type figures struct {
	Enqueue figure `json:"enqueue"`
	Process figure `json:"process"`
}

type figure struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu_seconds"` // of the server's process
}

// peer is a way to use a queue: it enqueues the jobs, and when that is done it processes them.
type peer struct {
	name, client string
	against      string // the peer that speaks the same language and is to be compared with this one
	run          func(context.Context, load) (figures, error)
}

func main() {
	l := load{}
	flag.IntVar(&l.Jobs, "jobs", 20_000, "jobs in a run")
	flag.IntVar(&l.Workers, "workers", 32, "producers, and then workers")
	flag.IntVar(&l.Payload, "payload", 64, "bytes in a job")
	runs := flag.Int("runs", 7, "runs of every peer")
	out := flag.String("out", "../build/bench", "where the JSON goes")
	flag.Parse()
	l.WarmUp = l.Jobs / 10

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := compare(ctx, l, *runs, *out)
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
	Peer   string    `json:"peer"`
	Client string    `json:"client"`
	Runs   []figures `json:"runs"`

	peer peer
}

func compare(ctx context.Context, l load, runs int, out string) (err error) {
	s, err := valkey.Start(valkey.Options{Module: cmp.Or(os.Getenv("EMQ_MODULE"), "../build/emq.so")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	l.Socket = s.Socket

	var found []*outcome
	for _, p := range append(goPeers(), nodePeers()...) {
		found = append(found, &outcome{Peer: p.name, Client: p.client, peer: p})
	}
	for run := range runs {
		for i := range found {
			o := found[(i+run)%len(found)]
			if err := empty(ctx, s); err != nil {
				return err
			}
			f, err := o.peer.run(ctx, l)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", o.Peer, o.Client, err)
			}
			o.Runs = append(o.Runs, f)
			fmt.Fprintf(os.Stderr, "run %d of %d: %-6s %s\n", run+1, runs, o.Peer, o.Client)
		}
	}
	print(os.Stdout, l, found)
	return write(out, l, found)
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

// clock measures a part of a run, on the wall and in the server.
type clock struct {
	client *redis.Client
	began  time.Time
	cpu    float64
}

func startClock(ctx context.Context, c *redis.Client) (k clock, err error) {
	k.client = c
	k.cpu, err = serverCPU(ctx, c)
	k.began = time.Now()
	return k, err
}

func (k clock) stop(ctx context.Context) (figure, error) {
	took := time.Since(k.began)
	cpu, err := serverCPU(ctx, k.client)
	return figure{took.Seconds(), cpu - k.cpu}, err
}

// between is what passed from the end of the warm-up to that of the last job.
func between(ctx context.Context, c *redis.Client, warm, last chan struct{}) (figure, error) {
	if err := wait(ctx, warm); err != nil {
		return figure{}, err
	}
	k, err := startClock(ctx, c)
	if err != nil {
		return figure{}, err
	}
	if err := wait(ctx, last); err != nil {
		return figure{}, err
	}
	return k.stop(ctx)
}

// serverCPU is the processor time that the server has used, in seconds.
func serverCPU(ctx context.Context, c *redis.Client) (sum float64, err error) {
	info, err := c.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(info, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if name != "used_cpu_user" && name != "used_cpu_sys" {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		sum += seconds
	}
	return sum, nil
}

// print writes the table. Each EMQ stands beside the peer of its own language.
func print(to io.Writer, l load, found []*outcome) {
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
	for _, o := range found {
		for _, other := range found {
			if o.peer.against != other.Peer {
				continue
			}
			fmt.Fprintf(w, "EMQ : %s\t%s", other.Peer, o.Client)
			for _, what := range []func(figure) float64{rate, cost} {
				for _, half := range []func(figures) figure{func(f figures) figure { return f.Enqueue }, func(f figures) figure { return f.Process }} {
					b := stats.Ratio(pairs(o.values(half), what), pairs(other.values(half), what))
					fmt.Fprintf(w, "\t%.2f [%.2f %.2f]", b.Median, b.Low, b.High)
				}
			}
			fmt.Fprintln(w)
		}
	}
}

func (o *outcome) values(half func(figures) figure) (all []figure) {
	for _, r := range o.Runs {
		all = append(all, half(r))
	}
	return all
}

func each(figures []figure, of func(figure) float64) (all []float64) {
	for _, f := range figures {
		all = append(all, of(f))
	}
	return all
}

// pairs are the same, each run a pair of one part.
func pairs(figures []figure, of func(figure) float64) (all [][]float64) {
	for _, v := range each(figures, of) {
		all = append(all, []float64{v})
	}
	return all
}

func median(figures []figure, of func(figure) float64) float64 {
	return stats.Median(each(figures, of))
}

func write(folder string, l load, found []*outcome) error {
	b, err := json.MarshalIndent(map[string]any{
		"jobs": l.Jobs, "workers": l.Workers, "payload": l.Payload, "peers": found,
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "peers.json"), append(b, '\n'), 0o644)
}
