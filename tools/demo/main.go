// Command demo carries jobs through their whole life on a server of its own: producers enqueue them, workers claim them
// and complete most, some fail and wait for a retry, a few fail for good. In the end every job is accounted for.
//
// `make demo` runs it. It exits with 1 if a job is missing.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/schollz/progressbar/v3"
	"github.com/valkey-io/valkey-go"
	"golang.org/x/sync/errgroup"

	server "emq/test/valkey"
)

const (
	producers   = 2
	retryDelay  = time.Minute
	maxFailures = 3
)

func main() {
	jobs := flag.Int("jobs", 10_000, "how many jobs to enqueue")
	workers := flag.Int("workers", 8, "how many workers claim them")
	binary := flag.String("server", os.Getenv("VALKEY_SERVER"), "the valkey-server to start; by default $VALKEY_SERVER")
	module := flag.String("module", cmp.Or(os.Getenv("EMQ_MODULE"), "build/emq.so"), "the module to load; by default $EMQ_MODULE")
	flag.Parse()
	if *jobs < 1 || *workers < 1 {
		fmt.Fprintln(os.Stderr, "demo: -jobs and -workers are at least 1")
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := demo(ctx, *binary, *module, *jobs, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo runs the jobs on a server of its own, and stops it whatever happened.
func demo(ctx context.Context, binary, module string, jobs, workers int) (err error) {
	// As valkey.conf.example has it: a queue is kept on disk.
	s, err := server.Start(server.Options{Server: binary, Module: module, Args: []string{"--appendonly", "yes"}})
	if err != nil {
		return err
	}
	defer func() {
		if ctx.Err() != nil {
			err = errors.New("interrupted") // a Ctrl-C reaches the server too: what failed after it means nothing
		}
		err = errors.Join(err, s.Close())
	}()

	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{s.Addr()}, ForceSingleClient: true, DisableCache: true,
		BlockingPoolSize: workers, // each of them may wait
	})
	if err != nil {
		return err
	}
	defer client.Close()

	q := queue{client: client, base: "emq:{demo}:"}
	fmt.Printf("A server on %s, %d jobs, %d producers, %d workers.\n", s.Addr(), jobs, producers, workers)
	began := time.Now()
	seen, err := work(ctx, q, jobs, workers)
	if err != nil {
		return err
	}
	// The workers have waited for another job since then.
	return report(ctx, q, seen, time.Unix(0, seen.latest.Load()).Sub(began))
}

// tally is what the clients were told about the jobs.
type tally struct {
	enqueued, completed, scheduled, dead atomic.Int64

	latest atomic.Int64 // when the latest one was settled, in Unix ns
}

// work runs producers and workers until every job has been claimed and settled once.
func work(ctx context.Context, q queue, jobs, workers int) (*tally, error) {
	seen := &tally{}
	bar := progressbar.NewOptions(jobs,
		progressbar.OptionSetDescription("settled"),
		progressbar.OptionSetItsString("jobs"),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionFullWidth(),
		progressbar.OptionThrottle(50*time.Millisecond))

	group, ctx := errgroup.WithContext(ctx)
	var producing atomic.Int64
	producing.Store(producers)
	for p := range producers {
		group.Go(func() error {
			defer producing.Add(-1)
			for n := p; n < jobs; n += producers {
				// A ULID sorts by the time it was minted, and pending jobs are claimed in the order of their ids.
				created, err := q.enqueue(ctx, "JOB"+ulid.Make().String(), strconv.Itoa(n))
				if err != nil {
					return err
				}
				if created {
					seen.enqueued.Add(1)
				}
			}
			return nil
		})
	}
	for range workers {
		group.Go(func() error {
			for {
				last := producing.Load() == 0 // before the claim: an empty queue then stays empty
				j, ok, err := q.claim(ctx)
				switch {
				case err != nil:
					return err
				case ok:
					if err := settle(ctx, q, j, seen); err != nil {
						return err
					}
					_ = bar.Add(1)
				case last:
					return nil
				}
			}
		})
	}
	err := group.Wait()
	_ = bar.Exit()
	fmt.Println()
	return seen, err
}

// settle stands for the work: of a hundred jobs, five fail and may be tried again, two fail and may not.
func settle(ctx context.Context, q queue, j job, seen *tally) error {
	n, err := strconv.Atoi(j.payload)
	if err != nil {
		return err
	}
	var answer string
	switch n % 100 {
	case 10, 30, 50, 70, 90:
		answer, err = q.fail(ctx, j, retryDelay, maxFailures, "the mail server did not answer")
	case 20, 80:
		answer, err = q.fail(ctx, j, 0, 1, "no such address")
	default:
		answer, err = "completed", q.complete(ctx, j)
	}
	if err != nil {
		return err
	}
	switch answer {
	case "completed":
		seen.completed.Add(1)
	case "scheduled":
		seen.scheduled.Add(1)
	case "dead":
		seen.dead.Add(1)
	default:
		return fmt.Errorf("%s was answered %q", j.id, answer)
	}
	seen.latest.Store(time.Now().UnixNano())
	return nil
}
