// Command goredis carries jobs through their life with go-redis, on the server that `make run` starts.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"
)

const queue = "emq:{letters}:" // the names of all keys of a queue begin with its base

func main() {
	addr := flag.String("addr", "127.0.0.1:6399", "the server")
	flag.Parse()
	ctx := context.Background()
	// A CLAIM whose answer was lost may have taken a job, so it is not sent again unseen.
	db := redis.NewClient(&redis.Options{Addr: *addr, MaxRetries: -1})
	defer db.Close()

	// A producer. A ULID sorts by the time it was minted, and jobs are claimed in the order of their ids.
	for _, payload := range []string{"to: ann", "to: bob"} {
		id := "JOB" + ulid.Make().String()
		created := must(db.Do(ctx, "EMQ.ENQUEUE", 2, queue+"job:"+id, queue+"pending", id, payload).Int())
		fmt.Println("enqueue", payload, "->", created)
	}

	// A worker. It settles what it claimed with the token that came along.
	for {
		job := must(db.Do(ctx, "EMQ.CLAIM", 2, queue+"pending", queue+"active", queue+"job:", 30_000).Slice())
		if len(job) == 0 {
			fmt.Println("claim -> nothing to do")
			break
		}
		id, payload, token := job[0].(string), job[1].(string), job[2].(int64)
		fmt.Println("claim ->", payload, "with token", token)
		row := queue + "job:" + id
		if payload == "to: ann" {
			done := must(db.Do(ctx, "EMQ.COMPLETE", 2, queue+"active", row, id, token, queue).Int())
			fmt.Println("complete", payload, "->", done)
		} else { // try again in 5 s; after the third failure it is dead
			state := must(db.Do(ctx, "EMQ.FAIL", 4, queue+"active", queue+"schedule", queue+"dead", row,
				id, token, 5_000, 3, "mailbox full", queue).Text())
			fmt.Println("fail", payload, "->", state)
			err := db.Do(ctx, "EMQ.COMPLETE", 2, queue+"active", row, id, token, queue).Err()
			fmt.Println("complete", payload, "->", err)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
