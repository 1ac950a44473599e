// Package exporter exports the figures of the queues of one server, and all numbers of its INFO emq, to Prometheus. See
// docs/operations.md, "In Prometheus", for the metrics and the rights that its user needs.
package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	emq "emq/clients/go"
	"emq/operator"
)

const (
	// rest is the label of the sum of all queues without figures of their own; no queue has a brace in its name.
	rest = "{rest}"
	// patience bounds a sample: a server that hangs counts as down.
	patience = 10 * time.Second
)

// sampler asks the server at most once in an interval, whoever scrapes, and exports the last sample until then.
type sampler struct {
	conn   emq.Conn
	server *operator.Server
	room   int           // how many queues are named
	every  time.Duration // the largest age of a sample

	lock sync.Mutex
	// named are the queues with figures of their own: the first that were seen, for good. An idle queue is not listed,
	// and a counter that moved to the rest and back would seem to be reset.
	named []string
	known map[string]bool
	last  time.Time
	shown []prometheus.Metric
}

// New returns a collector for the server at a connection, which it asks at most once in `every`. Up to room queues have
// figures of their own; all others are summed.
func New(c emq.Conn, room int, every time.Duration) prometheus.Collector {
	return &sampler{conn: c, server: operator.New(c), room: room, every: every, known: map[string]bool{}}
}

// Describe describes nothing, because the server decides which fields INFO emq has.
func (s *sampler) Describe(chan<- *prometheus.Desc) {}

// Collect exports a sample, and takes a new one if the last is too old. If that fails, emq_up is 0 and the only metric.
func (s *sampler) Collect(out chan<- prometheus.Metric) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.last.IsZero() || time.Since(s.last) >= s.every {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		began := time.Now()
		metrics, err := s.sample(ctx)
		cancel()
		if err != nil {
			slog.Error("no figures", "error", err)
			metrics = nil
		}
		s.last, s.shown = time.Now(), append(metrics, up.of(float64(count(err == nil))), took.of(time.Since(began).Seconds()))
	}
	for _, m := range s.shown {
		out <- m
	}
}

func (s *sampler) sample(ctx context.Context) ([]prometheus.Metric, error) {
	info, err := s.conn.Do(ctx, "INFO", "emq")
	if err != nil {
		return nil, fmt.Errorf("INFO emq: %w", err)
	}
	metrics := numbers(info.Str)
	if len(metrics) == 0 {
		return nil, fmt.Errorf("INFO emq is empty: the module is not loaded")
	}

	names, err := s.server.Names(ctx)
	if err != nil {
		return nil, fmt.Errorf("EMQ.QUEUES: %w", err)
	}
	var others []string
	for _, name := range names {
		switch {
		case s.known[name]:
		case len(s.named) < s.room:
			s.known[name], s.named = true, append(s.named, name)
		default:
			others = append(others, name)
		}
	}
	metrics = append(metrics, queues.of(float64(len(names))))

	err = s.stats(ctx, s.named, func(name string, f figures) { metrics = append(metrics, f.metrics(label(name))...) })
	if err != nil {
		return nil, err
	}
	sum := figures{}
	err = s.stats(ctx, others, func(_ string, f figures) { sum.add(f) })
	if err != nil {
		return nil, err
	}
	if len(others) > 0 {
		metrics = append(metrics, sum.metrics(rest)...)
	}
	return metrics, nil
}

// stats asks for the figures of each queue.
func (s *sampler) stats(ctx context.Context, names []string, each func(name string, f figures)) error {
	if len(names) == 0 {
		return nil // Queues would ask for all
	}
	found, err := s.server.Queues(ctx, names...)
	if err != nil {
		return err
	}
	for _, q := range found {
		refusal := new(emq.Error)
		switch {
		case q.Err == nil:
			each(q.Name, q.All)
		case errors.As(q.Err, &refusal) && refusal.Class() == "WRONGTYPE":
			// this queue is broken; the others are not affected
		default:
			return fmt.Errorf("EMQ.STATS of %s: %w", label(q.Name), q.Err)
		}
	}
	return nil
}

// label is a queue's name as a label, which must be UTF-8; another name is quoted.
func label(name string) string {
	if strings.ToValidUTF8(name, "") != name {
		return strconv.QuoteToASCII(name)
	}
	return name
}

// figures are the reply of STATS without nulls.
type figures map[string]int64

// add sums numbers of jobs and clients, and keeps the most urgent of ages and times. The counters are left out: an idle
// queue is not listed, so their sum would decrease.
func (f figures) add(g figures) {
	for _, name := range []string{"pending", "active", "scheduled", "dead", "waiting", "paused"} {
		f[name] += g[name]
	}
	first := func(name string, sooner func(a, b int64) bool) {
		if n, ok := g[name]; ok {
			if old, ok := f[name]; !ok || sooner(n, old) {
				f[name] = n
			}
		}
	}
	first("oldest_pending_age_ms", func(a, b int64) bool { return a > b })
	first("next_due_ms", func(a, b int64) bool { return a < b })
	first("next_expiry_ms", func(a, b int64) bool { return a < b })
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
