package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	emq "emq/clients/go"
	"emq/operator"
	server "emq/test/valkey"
)

const (
	producers  = 2
	retryDelay = time.Minute
)

func newDemo(a *app) *cobra.Command {
	d := demo{app: a}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "carry jobs through their whole life, on a private server",
		Long: `Starts a Valkey with the module on a free port and carries jobs through their whole life: producers enqueue them, workers claim
them and complete most, some fail and wait for a retry, a few fail for good. In the end every job is accounted for, and the
server is stopped and its data removed. No other server is touched.`,
		Example: `  emq demo --server /usr/bin/valkey-server --module /usr/lib/valkey/emq.so`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d.jobs < 1 || d.workers < 1 {
				return usage("--jobs and --workers are at least 1")
			}
			return d.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.IntVar(&d.jobs, "jobs", 10_000, "how many jobs to enqueue")
	f.IntVar(&d.workers, "workers", 8, "how many are worked on at a time")
	f.StringVar(&d.binary, "server", cmp.Or(os.Getenv("VALKEY_SERVER"), "valkey-server"), "the server to start; $VALKEY_SERVER")
	f.StringVar(&d.module, "module", cmp.Or(os.Getenv("EMQ_MODULE"), "/usr/lib/valkey/emq.so"), "the module to load; $EMQ_MODULE")
	return cmd
}

type demo struct {
	*app
	jobs, workers  int
	binary, module string
}

// run runs the jobs on a server of its own, which it always stops.
func (d *demo) run(ctx context.Context) (err error) {
	// As in valkey.conf.example: a queue is persisted.
	s, err := server.Start(server.Options{Server: d.binary, Module: d.module, Args: []string{"--appendonly", "yes"}})
	if err != nil {
		return err
	}
	defer func() {
		if ctx.Err() != nil {
			err = ctx.Err() // a Ctrl-C reaches the server too, so that later errors mean nothing
		}
		err = errors.Join(err, s.Close())
	}()
	c, err := emq.Open("valkey://" + s.Addr())
	if err != nil {
		return err
	}
	defer c.Close()

	fmt.Fprintf(d.out, "A server on %s, %s, %d producers, %d workers.\n", s.Addr(), many(d.jobs, "job"), producers, d.workers)
	q := emq.NewQueue[int](c, "demo")
	began := time.Now()
	told, err := d.work(ctx, c, q)
	if err != nil {
		return err
	}
	return d.report(ctx, q, told, time.Since(began))
}

// work enqueues the jobs and works on them until every one has been claimed and settled once, and counts the replies.
func (d *demo) work(ctx context.Context, c *emq.Client, q emq.Queue[int]) (told map[string]int64, err error) {
	step, done := d.progress("settled")
	defer done()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	finished := errors.New("all jobs are settled")
	var enqueued, settled atomic.Int64
	w := emq.NewWorker(c, emq.Log(slog.New(slog.DiscardHandler)), emq.Observe(func(emq.Event) {
		n := settled.Add(1)
		step(operator.Progress{Seen: n, Total: int64(d.jobs)})
		if n == int64(d.jobs) {
			stop(finished)
		}
	}))
	emq.Handle(w, q, func(_ context.Context, j *emq.Job[int]) error { return handle(j.Value) }, emq.Concurrency(d.workers))
	var all sync.WaitGroup
	for p := range producers {
		all.Go(func() {
			for n := p; n < d.jobs; n += producers {
				r, err := q.Enqueue(ctx, n)
				if err != nil {
					stop(err)
					return
				}
				if r.Created {
					enqueued.Add(1)
				}
			}
		})
	}
	err = w.Run(ctx)
	all.Wait()
	if cause := context.Cause(ctx); err == nil && cause != finished {
		err = cause
	}
	return map[string]int64{"enqueued": enqueued.Load(), "completed": w.Count(emq.Completed), "scheduled": w.Count(emq.Retried), "dead": w.Count(emq.Died)}, err
}

// handle stands for the work: of a hundred jobs, five fail and may be tried again, two fail and may not.
func handle(n int) error {
	switch {
	case slices.Contains([]int{10, 30, 50, 70, 90}, n%100):
		return emq.RetryIn(retryDelay, errors.New("the mail server did not answer"))
	case n%100 == 20, n%100 == 80:
		return emq.Dead(errors.New("no such address"))
	}
	return nil
}

// report prints the states of the jobs in the server, and fails unless they agree with the replies.
func (d *demo) report(ctx context.Context, q emq.Queue[int], told map[string]int64, took time.Duration) error {
	stats, err := q.Stats(ctx)
	if err != nil {
		return err
	}
	var total int64
	exact := true
	fmt.Fprintln(d.out)
	for _, s := range []struct {
		name  string
		count int64
		note  string
	}{
		{"completed", stats.Completed, "done; their rows are gone"},
		{"scheduled", stats.Scheduled, "failed once, to be tried again after " + retryDelay.String()},
		{"dead", stats.Dead, "failed for good; kept to be looked at"},
		{"pending", stats.Pending, "not claimed"},
		{"active", stats.Active, "claimed and not settled"},
	} {
		total += s.count
		exact = exact && s.count == told[s.name]
		fmt.Fprintf(d.out, "  %-10s %8s   %s\n", s.name, count(s.count), s.note)
	}
	fmt.Fprintf(d.out, "  %-10s %8s   of %s enqueued\n\n", "in all", count(total), count(told["enqueued"]))

	first, err := q.Jobs(ctx, emq.StateScheduled, "", 1)
	if err != nil {
		return err
	}
	for _, j := range first {
		fmt.Fprintf(d.out, "The next to be due, in %s:\n  %s\n    claims      %d\n    failures    %d\n    last error  %s\n\n",
			span(time.Until(j.Due)), j.ID, j.Token, j.Failures, j.LastError)
	}
	fmt.Fprintf(d.out, "%.2f s: %.0f jobs a second were enqueued, claimed and settled.\n", took.Seconds(), float64(told["enqueued"])/took.Seconds())
	if total != int64(d.jobs) || told["enqueued"] != int64(d.jobs) || !exact {
		return refused("the server does not have every job where the clients were told")
	}
	fmt.Fprintln(d.out, "Every job is accounted for.")
	return nil
}
