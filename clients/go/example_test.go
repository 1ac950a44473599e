package emq_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"emq/clients/go"
	"emq/clients/go/emqtest"
)

type Mail struct {
	To string
}

func send(_ context.Context, to string) error {
	fmt.Println("to", to)
	return nil
}

// A program that works until it is told to stop.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client := emqtest.New().Client() // or emq.Open("valkey://localhost:6379")

	mails := emq.NewQueue[Mail](client, "mails", emq.Failures(5, emq.Exponential(time.Second, time.Hour)))
	if _, err := mails.Enqueue(ctx, Mail{To: "ann"}); err != nil {
		fmt.Println(err)
		return
	}
	worker := emq.NewWorker(client, emq.Grace(30*time.Second), emq.Log(slog.New(slog.DiscardHandler)))
	emq.Handle(worker, mails, func(ctx context.Context, job *emq.Job[Mail]) error {
		defer stop() // of the example
		return send(ctx, job.Value.To)
	}, emq.Concurrency(20), emq.Timeout(time.Minute))
	if err := worker.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: to ann
}

func ExampleQueue_Enqueue() {
	ctx := context.Background()
	mails := emq.NewQueue[Mail](emqtest.New().Client(), "mails")
	_, _ = mails.Enqueue(ctx, Mail{To: "ann"})
	_, _ = mails.Enqueue(ctx, Mail{To: "bob"}, emq.In(10*time.Minute))
	// The same id twice is one job.
	id, _ := emq.ParseID("JOB0Zz0Zz0Zz0Z")
	first, _ := mails.Enqueue(ctx, Mail{To: "eve"}, emq.As(id))
	second, _ := mails.Enqueue(ctx, Mail{To: "eve"}, emq.As(id))
	fmt.Println(first.Created, second.Created)
	stats, _ := mails.Stats(ctx)
	fmt.Println(stats.Pending, "pending,", stats.Scheduled, "scheduled")
	// Output:
	// true false
	// 2 pending, 1 scheduled
}

func ExampleQueue_EnqueueMany() {
	numbers := emq.NewQueue[int](emqtest.New().Client(), "numbers")
	n, err := numbers.EnqueueMany(context.Background(), func(yield func(int) bool) {
		for i := range 1000 {
			if !yield(i) {
				return
			}
		}
	})
	fmt.Println(n, err)
	// Output: 1000 <nil>
}

// What a handler can answer.
func ExampleHandler() {
	var errNoMailbox, errBusy = errors.New("no such mailbox"), errors.New("busy")
	handle := func(ctx context.Context, job *emq.Job[Mail]) error {
		switch err := send(ctx, job.Value.To); {
		case errors.Is(err, errNoMailbox):
			return emq.Dead(err) // no retry would help
		case errors.Is(err, errBusy):
			return emq.RetryIn(time.Minute, err)
		default:
			return err
		}
	}
	fmt.Println(handle(context.Background(), &emq.Job[Mail]{Value: Mail{To: "ann"}}))
	// Output:
	// to ann
	// <nil>
}

func ExampleHandleBatch() {
	s := emqtest.New()
	rows := emq.NewQueue[int](s.Client(), "rows")
	_, _ = rows.EnqueueMany(context.Background(), slices.Values([]int{1, 2, 3, 4, 5}))
	worker := emq.NewWorker(s.Client(), emq.Log(slog.New(slog.DiscardHandler)))
	emq.HandleBatch(worker, rows, 100, 10*time.Millisecond, func(ctx context.Context, jobs []*emq.Job[int]) []error {
		fmt.Println("insert", len(jobs), "rows")
		return nil
	})
	ctx, stop := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer stop()
	fmt.Println(worker.Run(ctx))
	// Output:
	// insert 5 rows
	// <nil>
}

// A queue's dead letters are looked at, and tried again.
func ExampleQueue_Jobs() {
	ctx, s := context.Background(), emqtest.New()
	mails := emq.NewQueue[Mail](s.Client(), "mails")
	var after emq.ID
	for {
		dead, err := mails.Jobs(ctx, emq.StateDead, after, 100)
		if err != nil || len(dead) == 0 {
			break
		}
		for _, job := range dead {
			fmt.Println(job.ID, job.Value.To, job.LastError)
			_, _ = mails.Requeue(ctx, emq.StateDead, job.ID)
			after = job.ID
		}
	}
	// Output:
}
