// Command ring spreads queues over several servers with go-redis' Ring, carries jobs through them, and tells where each
// queue lives. The servers know nothing of one another.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// block is how long a claim waits for a job.
const block = 3 * time.Second

func main() {
	addrs := flag.String("addrs", "127.0.0.1:6399", "the servers, separated by commas")
	queues := flag.Int("queues", 12, "how many queues")
	jobs := flag.Int("jobs", 1000, "how many jobs for each queue")
	workers := flag.Int("workers", 4, "how many workers for each queue")
	flag.Parse()
	ctx := context.Background()

	// A queue's place is decided by its own name and the names of the shards, not by their addresses: a server that moves
	// keeps its name, and with it its queues.
	shards := map[string]string{}
	for i, addr := range strings.Split(*addrs, ",") {
		shards[fmt.Sprintf("shard-%d", i)] = addr
	}
	ring := redis.NewRing(&redis.RingOptions{
		Addrs:       shards,
		MaxRetries:  -1,                       // a claim whose answer was lost may have taken a job
		ReadTimeout: block + 10*time.Second,   // claims wait, each on a connection that it has for itself
		PoolSize:    *queues * (*workers + 1), // on each server: all queues may live there
		// By default a Ring gives the queues of a server that is down to the others. Its jobs would stay behind, so the
		// queues wait for it.
		HeartbeatFn: func(context.Context, *redis.Client) bool { return true },
	})
	defer ring.Close()

	var done atomic.Int64
	begin := time.Now()
	var work errgroup.Group
	for i := range *queues {
		base := fmt.Sprintf("emq:{queue-%d}:", i)
		work.Go(func() error { return produce(ctx, ring, base, *jobs) })
		for w := range *workers {
			share := *jobs / *workers
			if w < *jobs%*workers {
				share++
			}
			work.Go(func() error { return carry(ctx, ring, base, share, &done) })
		}
	}
	if err := work.Wait(); err != nil {
		log.Fatal(err)
	}
	took := time.Since(begin)

	for i := range *queues {
		base := fmt.Sprintf("emq:{queue-%d}:", i)
		shard, err := ring.GetShardClientForKey(base)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("queue", base, "lives on", shard.Options().Addr)
	}
	fmt.Printf("%d jobs in %s, %.0f/s\n", done.Load(), took.Round(time.Millisecond), float64(done.Load())/took.Seconds())
}

// produce enqueues so many jobs of one queue.
func produce(ctx context.Context, ring *redis.Ring, base string, jobs int) error {
	for range jobs {
		id := "JOB" + ulid.Make().String()
		if err := do(ctx, ring, 2, "EMQ.ENQUEUE", 2, base+"job:"+id, base+"pending", id, "x").Err(); err != nil {
			return err
		}
	}
	return nil
}

// carry claims and completes so many jobs of one queue, as they come.
func carry(ctx context.Context, ring *redis.Ring, base string, jobs int, done *atomic.Int64) error {
	for claimed := 0; claimed < jobs; {
		job, err := do(ctx, ring, 3, "EMQ.BCLAIM", 30_000, block.Milliseconds(), base).Slice()
		if err != nil {
			return err
		}
		if len(job) == 0 {
			continue // nothing came
		}
		claimed++
		id, token := job[1].(string), job[3]
		n, err := do(ctx, ring, 2, "EMQ.COMPLETE", 2, base+"active", base+"job:"+id, id, token, base).Int64()
		if err != nil {
			return err
		}
		done.Add(n)
	}
	return nil
}

// do sends a verb to the server of its queue: where its first key stands is said, since a Ring takes the first argument of a
// command that it does not know for the key. Here that is numkeys or the lease, and all would go to one server.
func do(ctx context.Context, ring *redis.Ring, key int8, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(key)
	_ = ring.Process(ctx, cmd) // the command holds it
	return cmd
}
