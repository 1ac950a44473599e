package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/valkey-io/valkey-go"

	"emq/clients/go"
)

var quiet = emq.Log(slog.New(slog.DiscardHandler))

func dialClient(l load) (*emq.Client, emq.Queue[string], error) {
	o, err := valkey.ParseURL("unix://" + l.Socket)
	if err != nil {
		return nil, emq.Queue[string]{}, err
	}
	client := emq.Use(emq.Dial(o))
	return client, emq.NewQueue[string](client, "peers", emq.Encoding(emq.Raw)), nil
}

// runClient uses EMQ through its Go package, as its page does: the worker fetches by itself, as asynq's server does.
func runClient(ctx context.Context, l load) (f figures, err error) {
	c := goClient(l) // for the figures alone
	defer c.Close()
	client, queue, err := dialClient(l)
	if err != nil {
		return f, err
	}
	defer client.Close()
	payload := strings.Repeat("x", l.Payload)
	if f.Enqueue, err = enqueueAll(ctx, l, c, func(ctx context.Context, _ int) error {
		_, err := queue.Enqueue(ctx, payload)
		return err
	}); err != nil {
		return f, err
	}

	var done atomic.Int64
	warm, last := make(chan struct{}), make(chan struct{})
	worker := emq.NewWorker(client, quiet, emq.Observe(func(emq.Event) {
		switch int(done.Add(1)) {
		case l.WarmUp:
			close(warm)
		case l.WarmUp + l.Jobs:
			close(last)
		}
	}))
	emq.Handle(worker, queue, func(context.Context, *emq.Job[string]) error { return nil }, emq.Concurrency(l.Workers))
	working, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(working) }()
	if f.Process, err = between(ctx, c, warm, last); err != nil {
		return f, err
	}
	stop()
	if err := <-ended; err != nil {
		return f, err
	}
	if n := worker.Count(emq.Completed); n != int64(l.WarmUp+l.Jobs) {
		err = fmt.Errorf("%d jobs were completed", n)
	}
	return f, err
}

// openClient is a queue of the Go package, with a worker.
func openClient(l load, begun func(string)) (queue, error) {
	client, jobs, err := dialClient(l)
	if err != nil {
		return queue{}, err
	}
	worker := emq.NewWorker(client, quiet)
	emq.Handle(worker, jobs, func(_ context.Context, j *emq.Job[string]) error {
		begun(j.Value)
		return nil
	}, emq.Concurrency(l.Workers))
	working, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(working) }()
	return queue{
		enqueue: func(ctx context.Context, payload string) error {
			_, err := jobs.Enqueue(ctx, payload)
			return err
		},
		close: func() error {
			stop()
			err := <-ended
			client.Close()
			return err
		},
	}, nil
}
