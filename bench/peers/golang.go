package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

func goPeers() []peer {
	return []peer{
		{name: "EMQ", client: "go-redis " + version("github.com/redis/go-redis/v9"), against: "asynq", run: runEMQ},
		{name: "EMQ", client: "clients/go", against: "asynq", run: runClient, latency: inGo(0, openClient)},
		{name: "asynq", client: "asynq " + version("github.com/hibiken/asynq"), run: runAsynq, latency: inGo(time.Second, openAsynq)},
	}
}

// version is that of a module in this build.
func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == module {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return ""
}

// goClient is a pool with a connection for each worker.
func goClient(l load) *redis.Client {
	return redis.NewClient(&redis.Options{Network: "unix", Addr: l.Socket, PoolSize: l.Workers, DisableIdentity: true})
}

// inParallel calls the workers until each has reported that there is nothing left for it.
func inParallel(ctx context.Context, workers int, step func(context.Context) (more bool, err error)) error {
	group, ctx := errgroup.WithContext(ctx)
	for range workers {
		group.Go(func() error {
			for {
				if more, err := step(ctx); err != nil || !more {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// enqueueAll has the producers make jobs, and measures those after the warm-up.
func enqueueAll(ctx context.Context, l load, c *redis.Client, enqueue func(ctx context.Context, n int) error) (figure, error) {
	batch := func(from, to int) error {
		var next atomic.Int64
		next.Store(int64(from))
		return inParallel(ctx, l.Workers, func(ctx context.Context) (bool, error) {
			n := int(next.Add(1)) - 1
			if n >= to {
				return false, nil
			}
			return true, enqueue(ctx, n)
		})
	}
	if err := batch(0, l.WarmUp); err != nil {
		return figure{}, err
	}
	k, err := startClock(ctx, c)
	if err != nil {
		return figure{}, err
	}
	if err := batch(l.WarmUp, l.WarmUp+l.Jobs); err != nil {
		return figure{}, err
	}
	return k.stop(ctx)
}

// runEMQ is the plain way to use EMQ: each worker claims a job, does it, completes it, and goes on.
func runEMQ(ctx context.Context, l load) (f figures, err error) {
	c := goClient(l)
	defer c.Close()
	const base = "emq:{peers}:"
	payload := strings.Repeat("x", l.Payload)
	if f.Enqueue, err = enqueueAll(ctx, l, c, func(ctx context.Context, n int) error {
		id := fmt.Sprintf("JOB%011d", n)
		return c.Do(ctx, "EMQ.ENQUEUE", "2", base+"job:"+id, base+"pending", id, payload).Err()
	}); err != nil {
		return f, err
	}

	work := func(jobs int) error {
		var left atomic.Int64
		left.Store(int64(jobs))
		return inParallel(ctx, l.Workers, func(ctx context.Context) (bool, error) {
			if left.Add(-1) < 0 {
				return false, nil
			}
			job, err := c.Do(ctx, "EMQ.CLAIM", "2", base+"pending", base+"active", base+"job:", "30000").Slice()
			if err != nil {
				return false, err
			}
			if len(job) != 3 {
				return false, errors.New("a job is missing")
			}
			id := job[0].(string)
			return true, c.Do(ctx, "EMQ.COMPLETE", "2", base+"active", base+"job:"+id, id, job[2], base).Err()
		})
	}
	if err := work(l.WarmUp); err != nil {
		return f, err
	}
	k, err := startClock(ctx, c)
	if err != nil {
		return f, err
	}
	if err := work(l.Jobs); err != nil {
		return f, err
	}
	if f.Process, err = k.stop(ctx); err != nil {
		return f, err
	}
	completed, err := c.HGet(ctx, base+"metrics:completed", "count").Int()
	if err == nil && completed != l.WarmUp+l.Jobs {
		err = fmt.Errorf("%d jobs were completed", completed)
	}
	return f, err
}

// runAsynq uses asynq as its documentation does, with as many workers.
func runAsynq(ctx context.Context, l load) (f figures, err error) {
	c := goClient(l)
	defer c.Close()
	opt := asynqOption(l)
	client := asynq.NewClient(opt)
	defer client.Close()
	payload := []byte(strings.Repeat("x", l.Payload))
	if f.Enqueue, err = enqueueAll(ctx, l, c, func(ctx context.Context, _ int) error {
		_, err := client.EnqueueContext(ctx, asynq.NewTask("job", payload))
		return err
	}); err != nil {
		return f, err
	}

	// The server fetches by itself, so the clock runs from the job that ends the warm-up to the last one.
	var done atomic.Int64
	warm, last := make(chan struct{}), make(chan struct{})
	server := asynqServer(l)
	if err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		switch int(done.Add(1)) {
		case l.WarmUp:
			close(warm)
		case l.WarmUp + l.Jobs:
			close(last)
		}
		return nil
	})); err != nil {
		return f, err
	}
	defer server.Shutdown()
	if f.Process, err = between(ctx, c, warm, last); err != nil {
		return f, err
	}
	server.Shutdown()
	processed, err := c.Get(ctx, "asynq:{default}:processed:"+time.Now().UTC().Format("2006-01-02")).Result()
	if err == nil && processed != strconv.Itoa(l.WarmUp+l.Jobs) {
		err = fmt.Errorf("%s jobs were processed", processed)
	}
	return f, err
}

func asynqOption(l load) asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Network: "unix", Addr: l.Socket, PoolSize: l.Workers}
}

func asynqServer(l load) *asynq.Server {
	return asynq.NewServer(asynqOption(l), asynq.Config{Concurrency: l.Workers, LogLevel: asynq.FatalLevel})
}

// openAsynq is a queue of asynq's. Its server looks for jobs, by default a second after it found none, half a second more or
// less by chance.
func openAsynq(l load, begun func(string)) (queue, error) {
	client, server := asynq.NewClient(asynqOption(l)), asynqServer(l)
	err := server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		begun(string(t.Payload()))
		return nil
	}))
	return queue{
		enqueue: func(ctx context.Context, payload string) error {
			_, err := client.EnqueueContext(ctx, asynq.NewTask("job", []byte(payload)))
			return err
		},
		close: func() error {
			server.Shutdown()
			return client.Close()
		},
	}, err
}

func wait(ctx context.Context, c chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(10 * time.Minute):
		return errors.New("the jobs are not processed")
	}
}
