// Command worker waits for jobs of the queue `mail`, works on each for a while and completes it, on the server that `make
// run` starts. While it works it extends its lease; a worker that dies stops doing so, and the server takes the job back.
// A worker that is asked to stop gives back what it has.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const queue = "emq:{mail}:"

var (
	addr  = flag.String("addr", "127.0.0.1:6399", "the server")
	lease = flag.Duration("lease", 5*time.Second, "how long a job stays this worker's without a sign of life")
	work  = flag.Duration("work", 2*time.Second, "how long each job takes")
	block = flag.Duration("block", 3*time.Second, "how long a claim waits for a job")
)

func main() {
	flag.Parse()
	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	db := redis.NewClient(&redis.Options{Addr: *addr})
	defer db.Close()
	// Claims have a client of their own. Its read timeout is longer than they wait, so that a server which fell silent is
	// noticed, and it sends none again, since one whose answer was lost may have taken a job.
	claims := redis.NewClient(&redis.Options{Addr: *addr, ReadTimeout: *block + 10*time.Second, MaxRetries: -1})
	defer claims.Close()

	fmt.Printf("worker %d waits for jobs\n", os.Getpid())
	for stop.Err() == nil {
		if err := serve(stop, db, claims); err != nil && stop.Err() == nil {
			log.Print(err)
			pause(stop, time.Second)
		}
	}
}

// serve claims jobs on one connection, and works on them, until that fails or the worker is asked to stop.
func serve(stop context.Context, db, claims *redis.Client) error {
	ctx := context.Background()
	conn := claims.Conn()
	defer conn.Close()
	client, err := conn.ClientID(ctx).Result()
	if err != nil {
		return err
	}
	// A claim that waits is not cancelled: its answer, which may be a job, would be lost. It is ended from another connection.
	unblocked := make(chan struct{})
	unwatch := context.AfterFunc(stop, func() { db.ClientUnblock(ctx, client); close(unblocked) })
	defer func() {
		if !unwatch() {
			<-unblocked
		}
	}()
	for stop.Err() == nil {
		job, err := conn.Do(ctx, "EMQ.BCLAIM", lease.Milliseconds(), block.Milliseconds(), queue).Slice()
		if err != nil {
			return err
		}
		if len(job) == 0 {
			continue // nothing came
		}
		if err := do(stop, db, job[1].(string), job[3].(int64)); err != nil {
			return err
		}
	}
	return nil
}

// do works on a job that was claimed, for as long as it is this worker's.
func do(stop context.Context, db *redis.Client, id string, token int64) error {
	fmt.Printf("worker %d claimed %s with token %d\n", os.Getpid(), id, token)
	ctx := context.Background()
	for end := time.Now().Add(*work); ; {
		left := time.Until(end)
		if left <= 0 {
			break
		}
		pause(stop, min(left, *lease/3))
		if stop.Err() != nil { // at once, and uncounted; without this it would be another's when the lease is over
			err := db.Do(ctx, "EMQ.RELEASE", queue, id, token, 0).Err()
			if err == nil {
				fmt.Printf("worker %d gave back %s\n", os.Getpid(), id)
			}
			return err
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
