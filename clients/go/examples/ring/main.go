// Command ring spreads queues over several servers, carries jobs through them, and tells where each queue lives. The servers
// know nothing of one another. With -drain it moves the jobs that are elsewhere first, after servers were added.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"strings"
	"sync/atomic"
	"time"

	"emq/clients/go"
)

func main() {
	addrs := flag.String("addrs", "127.0.0.1:6399", "the servers, separated by commas")
	queues := flag.Int("queues", 12, "how many queues")
	jobs := flag.Int("jobs", 1000, "how many jobs for each queue")
	drain := flag.Bool("drain", false, "move the jobs that are not where their queue lives")
	flag.Parse()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	// A queue's place is decided by its own name and the names of the servers, not by their addresses: a server that moves
	// keeps its name, and with it its queues.
	servers := map[string]string{}
	for i, addr := range strings.Split(*addrs, ",") {
		servers[fmt.Sprintf("server-%d", i)] = "valkey://" + addr
	}
	client, err := emq.OpenAll(servers)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	var names []string
	for i := range *queues {
		names = append(names, fmt.Sprintf("queue-%d", i))
	}
	if *drain {
		moved, err := client.Drain(ctx, names...)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(moved, "jobs moved")
	}

	var left atomic.Int64
	left.Store(int64(*queues * *jobs))
	worker := emq.NewWorker(client)
	begin := time.Now()
	for _, name := range names {
		queue := emq.NewQueue[int](client, name)
		if _, err := queue.EnqueueMany(ctx, numbers(*jobs)); err != nil {
			log.Fatal(err)
		}
		emq.Handle(worker, queue, func(context.Context, *emq.Job[int]) error {
			if left.Add(-1) == 0 {
				stop()
			}
			return nil
		})
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	took := time.Since(begin)
	for _, name := range names {
		fmt.Println("queue", name, "lives on", strings.TrimPrefix(servers[client.Server(name)], "valkey://"))
	}
	done := worker.Count(emq.Completed)
	fmt.Printf("%d jobs in %s, %.0f/s\n", done, took.Round(time.Millisecond), float64(done)/took.Seconds())
}

func numbers(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := 0; i < n && yield(i); i++ {
		}
	}
}
