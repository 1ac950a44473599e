// Command exporter shows Prometheus the figures of the queues of one server, and all numbers of its INFO emq.
//
//	exporter -redis redis://exporter:secret@127.0.0.1:6379/0 -listen :9178
//
// What it shows, and which rights its user needs: docs/operations.md, "In Prometheus".
package main

import (
	"flag"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
)

func main() {
	address := flag.String("redis", os.Getenv("EMQ_REDIS"), "URL of the server and the database; also in EMQ_REDIS, where no list of processes shows its password")
	listen := flag.String("listen", "127.0.0.1:9178", "address of /metrics")
	named := flag.Int("queues", 100, "how many queues have figures of their own; those of all others are summed")
	every := flag.Duration("every", 10*time.Second, "the server is asked at most so often, however many scrape")
	flag.Parse()

	options, err := redis.ParseURL(*address)
	if err != nil {
		log.Fatalf("-redis: %v", err)
	}
	s := newSampler(redis.NewClient(options), *named, *every)
	registry := prometheus.NewRegistry()
	registry.MustRegister(s)
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	log.Printf("figures of %s on http://%s/metrics", options.Addr, *listen)
	log.Fatal((&http.Server{Addr: *listen, ReadHeaderTimeout: 10 * time.Second}).ListenAndServe())
}
