package main

import (
	"context"
	"fmt"
	"log"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

const (
	// batch is how many bases one QUEUES gives and how many STATS go in one pipeline: some 0.3 ms of the server's time.
	batch = 100
	// rest is the queue's label where all that have no figures of their own are summed; no queue has a brace in its name.
	rest = "{rest}"
	// patience bounds a sample: a server that hangs is one that is down.
	patience = 10 * time.Second
)

// sampler asks the server at most once in a while, whoever scrapes, and shows the last sample until then.
type sampler struct {
	client *redis.Client
	room   int           // how many queues are named
	every  time.Duration // how old a sample may be

	lock sync.Mutex
	// named are the queues with figures of their own: the first that were met, for good. An idle queue is in no list, and a
	// counter that went to the rest and back would seem to start anew.
	named []string
	known map[string]bool
	last  time.Time
	shown []prometheus.Metric
}

func newSampler(client *redis.Client, room int, every time.Duration) *sampler {
	return &sampler{client: client, room: room, every: every, known: map[string]bool{}}
}

// Describe describes nothing: what INFO emq has is the server's to say.
func (s *sampler) Describe(chan<- *prometheus.Desc) {}

// Collect shows a sample, and takes one if the last is too old. If that fails, emq_up is 0 and the only figure.
func (s *sampler) Collect(out chan<- prometheus.Metric) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.last.IsZero() || time.Since(s.last) >= s.every {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		began := time.Now()
		metrics, err := s.sample(ctx)
		cancel()
		if err != nil {
			log.Print(err)
			metrics = nil
		}
		s.last, s.shown = time.Now(), append(metrics, up.of(float64(count(err == nil))), took.of(time.Since(began).Seconds()))
	}
	for _, m := range s.shown {
		out <- m
	}
}

func (s *sampler) sample(ctx context.Context) ([]prometheus.Metric, error) {
	info, err := s.client.Info(ctx, "emq").Result()
	if err != nil {
		return nil, fmt.Errorf("INFO emq: %w", err)
	}
	metrics := numbers(info)
	if len(metrics) == 0 {
		return nil, fmt.Errorf("INFO emq is empty: the module is not loaded")
	}

	var others []string
	listed := 0
	for after := ""; ; {
		bases, err := s.client.Do(ctx, "EMQ.QUEUES", after, batch).StringSlice()
		if err != nil {
			return nil, fmt.Errorf("EMQ.QUEUES: %w", err)
		}
		for _, base := range bases {
			switch {
			case s.known[base]:
			case len(s.named) < s.room:
				s.known[base], s.named = true, append(s.named, base)
			default:
				others = append(others, base)
			}
		}
		if listed += len(bases); len(bases) < batch {
			break
		}
		after = bases[len(bases)-1]
	}
	metrics = append(metrics, queues.of(float64(listed)))

	err = s.stats(ctx, s.named, func(base string, f figures) { metrics = append(metrics, f.metrics(name(base))...) })
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
func (s *sampler) stats(ctx context.Context, bases []string, each func(base string, f figures)) error {
	for len(bases) > 0 {
		part := bases[:min(batch, len(bases))]
		bases = bases[len(part):]
		pipe := s.client.Pipeline()
		asked := make([]*redis.Cmd, len(part))
		for i, base := range part {
			asked[i] = pipe.Do(ctx, "EMQ.STATS", base)
		}
		_, _ = pipe.Exec(ctx)
		for i, cmd := range asked {
			reply, err := cmd.Result()
			if err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE ") {
				continue // somebody broke this queue; the others are none the worse
			}
			if err != nil {
				return fmt.Errorf("EMQ.STATS %s: %w", part[i], err)
			}
			each(part[i], read(reply))
		}
	}
	return nil
}

// name is the queue's name in its base. A label has to be UTF-8; a name that is not is shown quoted.
func name(base string) string {
	q := strings.TrimSuffix(strings.TrimPrefix(base, "emq:{"), "}:")
	if strings.ToValidUTF8(q, "") != q {
		return strconv.QuoteToASCII(q)
	}
	return q
}

// figures are what STATS says; a null is not there.
type figures map[string]int64

// read understands a map, as RESP3 has it, and the list of RESP2.
func read(reply any) figures {
	f := figures{}
	put := func(name, value any) {
		if n, ok := value.(int64); ok {
			f[fmt.Sprint(name)] = n
		}
	}
	switch pairs := reply.(type) {
	case map[any]any:
		for name, value := range pairs {
			put(name, value)
		}
	case []any:
		for i := 0; i+1 < len(pairs); i += 2 {
			put(pairs[i], pairs[i+1])
		}
	}
	return f
}

// add sums what can be summed: numbers of jobs and clients. Of ages and times it keeps that which matters first. The
// counters are left out: a queue that is idle is in no list, so their sum would go down.
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
