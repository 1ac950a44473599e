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

// runClient uses EMQ through its Go package, as its page does: the worker fetches by itself, as asynq's server does.
func runClient(ctx context.Context, l load) (f figures, err error) {
	c := goClient(l) // for the figures alone
	defer c.Close()
	o, err := valkey.ParseURL("unix://" + l.Socket)
	if err != nil {
		return f, err
	}
	client := emq.Use(emq.Dial(o))
	defer client.Close()
	queue := emq.NewQueue[string](client, "peers", emq.Encoding(emq.Raw))
	payload := strings.Repeat("x", l.Payload)
	if f.Enqueue, err = enqueueAll(ctx, l, c, func(ctx context.Context, _ int) error {
		_, err := queue.Enqueue(ctx, payload)
		return err
	}); err != nil {
		return f, err
	}

	var done atomic.Int64
	warm, last := make(chan struct{}), make(chan struct{})
	worker := emq.NewWorker(client, emq.Log(slog.New(slog.DiscardHandler)), emq.Observe(func(emq.Event) {
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
