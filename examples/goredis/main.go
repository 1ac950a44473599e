// Command goredis carries jobs through their life with go-redis, on the server that `make run` starts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"
)

const queue = "emq:{letters}:" // the names of all keys of a queue begin with its base

func main() {
	addr := flag.String("addr", "127.0.0.1:6399", "the server")
	flag.Parse()
	ctx := context.Background()
	db := redis.NewClient(&redis.Options{Addr: *addr})
	defer db.Close()
	// Claims have a client of their own. It has no read timeout, since they wait, and sends none again, since one whose
	// answer was lost may have taken a job.
	claims := redis.NewClient(&redis.Options{Addr: *addr, ReadTimeout: -1, ContextTimeoutEnabled: true, MaxRetries: -1})
	defer claims.Close()

	// A producer. A ULID sorts by the time it was minted, and jobs are claimed in the order of their ids.
	for _, payload := range []string{"to: ann", "to: bob"} {
		id := "JOB" + ulid.Make().String()
		created := must(db.Do(ctx, "EMQ.ENQUEUE", 2, queue+"job:"+id, queue+"pending", id, payload).Int())
		fmt.Println("enqueue", payload, "->", created)
	}

	// A worker: a claim that waits up to 3 s for a job, a heartbeat while it works, and a settlement with the token that
	// came along.
	for {
		job := must(claims.Do(ctx, "EMQ.BCLAIM", 30_000, 3_000, queue).Slice())
		if len(job) == 0 {
			fmt.Println("claim -> nothing came")
			break
		}
		id, payload, token := job[1].(string), job[2].(string), job[3].(int64)
		fmt.Println("claim ->", payload, "with token", token)
		row := queue + "job:" + id
		stop := every(10*time.Second, func() {
			must(db.Do(ctx, "EMQ.EXTEND", 2, queue+"active", row, id, token, 30_000).Int())
		})
		err := deliver(payload)
		stop()
		if err == nil {
			done := must(db.Do(ctx, "EMQ.COMPLETE", 2, queue+"active", row, id, token, queue).Int())
			fmt.Println("complete", payload, "->", done)
		} else { // try again in 5 s; after the third failure it is dead
			state := must(db.Do(ctx, "EMQ.FAIL", 4, queue+"active", queue+"schedule", queue+"dead", row,
				id, token, 5_000, 3, err.Error(), queue).Text())
			fmt.Println("fail", payload, "->", state)
			err = db.Do(ctx, "EMQ.COMPLETE", 2, queue+"active", row, id, token, queue).Err()
			fmt.Println("complete", payload, "->", err)
		}
	}
}

// deliver stands for the work.
func deliver(letter string) error {
	if letter == "to: bob" {
		return errors.New("mailbox full")
	}
	return nil
}

// every calls beat at each interval until it is told to stop, which waits for the last call.
func every(interval time.Duration, beat func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(interval):
				beat()
			}
		}
	})
	return func() { cancel(); running.Wait() }
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
