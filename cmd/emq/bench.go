package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	emq "emq/clients/go"
	"emq/operator"
)

func newBench(a *app) *cobra.Command {
	b := bench{app: a}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "how many jobs a second this server carries, as asked from here",
		Long: `Enqueues jobs into a queue of its own, claims and completes them, and tells how many a second, and how long a call took. The
queue is gone afterwards, also after an interrupt.

These are absolute figures, of this server, network, machine and moment: they are not to be compared with those of others,
nor with "make bench", which compares the module with scripts on a still machine. The server's other clients feel the load.`,
		Example: `  emq bench --clients 8 --batch 100`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case b.clients < 1 || b.clients > 1000:
				return usage("--clients is 1 to 1000")
			case b.batch < 1 || b.batch > 1000:
				return usage("--batch is 1 to 1000")
			case b.jobs < 1 || b.jobs > 100_000_000:
				return usage("--jobs is 1 to 100000000")
			case b.size < 0 || b.size > 1<<20:
				return usage("--size is 0 to 1048576")
			}
			return b.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.IntVar(&b.clients, "clients", 4, "how many connections call at a time")
	f.IntVar(&b.jobs, "jobs", 20_000, "how many jobs")
	f.IntVar(&b.size, "size", 100, "bytes of a payload")
	f.IntVar(&b.batch, "batch", 1, "jobs in a call; 1 has the verbs for one job sent")
	return a.bulk(cmd)
}

type bench struct {
	*app
	clients, jobs, size, batch int

	conns   []emq.Conn
	base    string
	payload string
	held    sync.Map // id → token
}

func (b *bench) run(ctx context.Context) error {
	s, err := b.server(ctx)
	if err != nil {
		return err
	}
	queues, err := s.Queues(ctx)
	if err != nil {
		return err
	}
	var work int64
	busy := 0
	for _, q := range queues {
		if n := q.Pending + q.Active + q.Scheduled; n > 0 || q.Waiting > 0 {
			work, busy = work+n, busy+1
		}
	}
	if b.dryRun {
		fmt.Fprintf(b.out, "Would send %s; %s have work here. Nothing was changed.\n", many(b.jobs, "job"), many(busy, "queue"))
		return nil
	}
	if busy > 0 {
		if err := b.confirm(ctx, "Load this server, on which %s with %s are worked on", many(busy, "queue"), many(work, "job")); err != nil {
			return err
		}
	}
	p, err := b.resolve()
	if err != nil {
		return err
	}
	for range b.clients {
		o, err := p.option(ctx, b.app)
		if err != nil {
			return err
		}
		c := emq.Dial(o)
		defer c.Close()
		b.conns = append(b.conns, c)
	}
	b.base = "emq:{bench-" + strings.ToLower(rand.Text()[:10]) + "}:"
	b.payload = strings.Repeat("x", b.size)
	defer b.clean(context.WithoutCancel(ctx))
	if !b.json {
		fmt.Fprintf(b.err, "%s of %s each, %s, %d in a call. Absolute figures of here and now, comparable with no others.\n",
			many(b.jobs, "job"), size(int64(b.size)), many(b.clients, "client"), b.batch)
	}
	t := columns("", ">JOBS/S", ">P50", ">P95", ">P99")
	for _, phase := range []struct {
		name string
		call func(context.Context, emq.Conn, []string) error
	}{
		{"enqueue", b.enqueue},
		{"claim", b.claim},
		{"complete", b.complete},
	} {
		times, took, err := b.phase(ctx, phase.name, phase.call)
		if err != nil {
			return stopped(ctx, err, "%s of the bench was not finished; its queue was removed", phase.name)
		}
		slices.Sort(times)
		at := func(part int) time.Duration { return times[min(len(times)-1, len(times)*part/100)] }
		rate := float64(b.jobs) / took.Seconds()
		if b.json {
			if err := b.emit(new(record).set("phase", phase.name).set("jobs", b.jobs).set("clients", b.clients).set("batch", b.batch).
				set("payload_bytes", b.size).set("jobs_per_second", int64(rate)).set("p50_us", at(50).Microseconds()).
				set("p95_us", at(95).Microseconds()).set("p99_us", at(99).Microseconds())); err != nil {
				return err
			}
			continue
		}
		us := func(part int) string { return at(part).Round(time.Microsecond).String() }
		t.add(phase.name, count(int64(rate)), us(50), us(95), us(99))
	}
	if b.json {
		return nil
	}
	return t.print(b.app)
}

// id is the id of the nth job: ids sort by number.
func (b *bench) id(n int) string { return fmt.Sprintf("JOB%011d", n) }

// phase makes calls for all jobs with all clients, and reports the latencies and the total time.
func (b *bench) phase(ctx context.Context, name string, call func(context.Context, emq.Conn, []string) error) (times []time.Duration, took time.Duration, err error) {
	step, done := b.progress(name)
	defer done()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next, settled atomic.Int64
	var all sync.WaitGroup
	each := make([][]time.Duration, b.clients)
	began := time.Now()
	for i, c := range b.conns {
		all.Go(func() {
			for ctx.Err() == nil {
				first := int(next.Add(int64(b.batch))) - b.batch
				if first >= b.jobs {
					return
				}
				var ids []string
				for n := first; n < min(first+b.batch, b.jobs); n++ {
					ids = append(ids, b.id(n))
				}
				at := time.Now()
				if err := call(ctx, c, ids); err != nil {
					stop(err)
					return
				}
				each[i] = append(each[i], time.Since(at))
				if n := settled.Add(int64(len(ids))); i == 0 {
					step(operator.Progress{Seen: n, Total: int64(b.jobs)})
				}
			}
		})
	}
	all.Wait()
	return slices.Concat(each...), time.Since(began), context.Cause(ctx)
}

func (b *bench) enqueue(ctx context.Context, c emq.Conn, ids []string) error {
	if b.batch == 1 {
		_, err := c.Do(ctx, "EMQ.ENQUEUE", "2", b.base+"job:"+ids[0], b.base+"pending", ids[0], b.payload)
		return err
	}
	args := []string{"EMQ.MENQUEUE", b.base}
	for _, id := range ids {
		args = append(args, id, b.payload)
	}
	_, err := c.Do(ctx, args...)
	return err
}

// claim claims as many jobs as there are ids.
func (b *bench) claim(ctx context.Context, c emq.Conn, ids []string) error {
	const lease = "600000"
	var jobs []emq.Reply
	if b.batch == 1 {
		job, err := c.Do(ctx, "EMQ.CLAIM", "2", b.base+"pending", b.base+"active", b.base+"job:", lease)
		if err != nil {
			return err
		}
		jobs = append(jobs, job)
	} else {
		r, err := c.Do(ctx, "EMQ.MCLAIM", b.base, lease, strconv.Itoa(len(ids)))
		if err != nil {
			return err
		}
		jobs = r.List
	}
	for _, job := range jobs {
		if len(job.List) != 3 {
			return errors.New("a job of the bench is missing: somebody claims them")
		}
		b.held.Store(job.List[0].Str, strconv.FormatInt(job.List[2].Int, 10))
	}
	return nil
}

func (b *bench) complete(ctx context.Context, c emq.Conn, ids []string) error {
	token := func(id string) string {
		t, _ := b.held.LoadAndDelete(id)
		text, _ := t.(string)
		return text
	}
	if b.batch == 1 {
		_, err := c.Do(ctx, "EMQ.COMPLETE", "2", b.base+"active", b.base+"job:"+ids[0], ids[0], token(ids[0]), b.base)
		return err
	}
	args := []string{"EMQ.MCOMPLETE", b.base}
	for _, id := range ids {
		args = append(args, id, token(id))
	}
	_, err := c.Do(ctx, args...)
	return err
}

// clean removes what is left of the queue.
func (b *bench) clean(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c := b.conns[0]
	for {
		left := 0
		for _, set := range []string{"pending", "active"} {
			r, err := c.Do(ctx, "ZRANGE", b.base+set, "0", "499")
			if err == nil && len(r.List) > 0 {
				args := []string{"EMQ.REMOVE", b.base, "any"}
				for _, id := range r.List {
					args = append(args, id.Str)
				}
				_, err = c.Do(ctx, args...)
			}
			if err != nil {
				fmt.Fprintf(b.err, "emq: the queue %s could not be removed: %s\n", b.base, err)
				return
			}
			left += len(r.List)
		}
		if left == 0 {
			break
		}
	}
	if _, err := c.Do(ctx, "DEL", b.base+"metrics:completed", b.base+"metrics:failed"); err != nil {
		fmt.Fprintf(b.err, "emq: the counters of %s could not be removed: %s\n", b.base, err)
	}
}
