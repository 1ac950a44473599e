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
		Addrs:      shards,
		MaxRetries: -1, // a CLAIM whose answer was lost may have taken a job
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

// carry enqueues, claims and completes so many jobs of one queue.
func carry(ctx context.Context, ring *redis.Ring, base string, jobs int, done *atomic.Int64) error {
	for range jobs {
		id := "JOB" + ulid.Make().String()
		if err := do(ctx, ring, "EMQ.ENQUEUE", 2, base+"job:"+id, base+"pending", id, "x").Err(); err != nil {
			return err
		}
		// Others claim as well, so it may be another's job; there is one for each.
		job, err := do(ctx, ring, "EMQ.CLAIM", 2, base+"pending", base+"active", base+"job:", 30_000).Slice()
		if err != nil {
			return err
		}
		id, token := job[0].(string), job[2]
		n, err := do(ctx, ring, "EMQ.COMPLETE", 2, base+"active", base+"job:"+id, id, token, base).Int64()
		if err != nil {
			return err
		}
		done.Add(n)
	}
	return nil
}

// do sends a verb to the server of its queue. A Ring takes the first argument of a command that it does not know for its
// key, and here that is numkeys: all would go to the server of the key "2". The key is the second.
func do(ctx context.Context, ring *redis.Ring, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(2)
	_ = ring.Process(ctx, cmd) // the command holds it
	return cmd
}
