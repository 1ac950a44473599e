// Command worker claims jobs of the queue `mail`, works on each for a while and completes it, on the server that `make
// run` starts. While it works it extends its lease; a worker that dies stops doing so, and the server takes the job back.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const queue = "emq:{mail}:"

var (
	addr  = flag.String("addr", "127.0.0.1:6399", "the server")
	lease = flag.Duration("lease", 5*time.Second, "how long a job stays this worker's without a sign of life")
	work  = flag.Duration("work", 2*time.Second, "how long each job takes")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	// A CLAIM whose answer was lost may have taken a job, so it is not sent again unseen.
	db := redis.NewClient(&redis.Options{Addr: *addr, MaxRetries: -1})
	defer db.Close()

	fmt.Printf("worker %d waits for jobs\n", os.Getpid())
	for ctx.Err() == nil {
		job, err := db.Do(ctx, "EMQ.CLAIM", 2, queue+"pending", queue+"active", queue+"job:", lease.Milliseconds()).Slice()
		if err == nil && len(job) == 3 {
			err = do(ctx, db, job[0].(string), job[2].(int64))
		} else {
			pause(ctx, 100*time.Millisecond)
		}
		if err != nil && ctx.Err() == nil {
			log.Print(err)
			pause(ctx, time.Second)
		}
	}
}

// do works on a job that was claimed, for as long as it is this worker's.
func do(ctx context.Context, db *redis.Client, id string, token int64) error {
	fmt.Printf("worker %d claimed %s with token %d\n", os.Getpid(), id, token)
	for end := time.Now().Add(*work); ; {
		left := time.Until(end)
		if left <= 0 {
			break
		}
		pause(ctx, min(left, *lease/3))
		if ctx.Err() != nil {
			return nil // the lease runs out, and another worker gets the job
		}
		extended, err := db.Do(ctx, "EMQ.EXTEND", 2, queue+"active", queue+"job:"+id, id, token, lease.Milliseconds()).Int()
		if extended == -1 || err != nil && strings.HasPrefix(err.Error(), "EMQSTALE") {
			fmt.Printf("worker %d lost %s\n", os.Getpid(), id)
			return nil
		}
		// Any other error is the connection's, or the server's for a while: the lease still has two thirds to go.
	}
	_, err := db.Do(ctx, "EMQ.COMPLETE", 2, queue+"active", queue+"job:"+id, id, token, queue).Int()
	if err == nil {
		fmt.Printf("worker %d completed %s\n", os.Getpid(), id)
	}
	return err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
