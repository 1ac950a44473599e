package emq

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Queue is a queue whose jobs carry values of one type. It is a small value, made once and copied freely.
type Queue[T any] struct{ *queue }

// queue is what is the same for all types.
type queue struct {
	c    *Client
	srv  *server
	name string
	err  error // the name or an option can't be
	base, rows, pending, scheduled,
	active string

	codec   Codec
	lease   time.Duration
	max     int64
	backoff Backoff
	exact   bool

	posts posts
}

// QueueOption changes how a queue's jobs are encoded, leased and retried. Producers and workers of a queue use the same
// [Encoding]; the others matter to workers alone.
type QueueOption func(*queue)

// Encoding names the codec of a queue's payloads; the default is [JSON].
func Encoding(c Codec) QueueOption { return func(q *queue) { q.codec = c } }

// Lease is how long the server waits for a sign of life before it gives a job to another worker; the default is 30 s. A worker
// extends the leases of its jobs in hand at a third of it, so a handler may take as long as it likes. The least is 1 ms,
// and less than a second asks much of network and scheduler.
func Lease(d time.Duration) QueueOption { return func(q *queue) { q.lease = d } }

// Failures is how often a job may fail before it is dead, and how long it waits after each failure. The default is 25, with
// Exponential(time.Second, time.Hour), which is also what nil stands for.
func Failures(max int, b Backoff) QueueOption {
	return func(q *queue) {
		if q.max, q.backoff = int64(max), b; b == nil {
			q.backoff = defaultBackoff
		}
	}
}

// ExactFailures has the [Backoff] count failures instead of claims, at the price of one more round trip for each failure, and
// of the right to HGET.
func ExactFailures() QueueOption { return func(q *queue) { q.exact = true } }

// NewQueue is the queue of that name. A name is not empty and has no braces and no NUL; with another name every call fails.
func NewQueue[T any](c *Client, name string, opts ...QueueOption) Queue[T] {
	base := "emq:{" + name + "}:"
	q := &queue{
		c: c, name: name,
		base: base, rows: base + "job:", pending: base + "pending", scheduled: base + "schedule", active: base + "active",
		codec: JSON, lease: 30 * time.Second, max: 25, backoff: defaultBackoff,
	}
	for _, o := range opts {
		o(q)
	}
	if c != nil {
		q.srv = c.home(name)
	}
	switch q.err = CheckName(name); {
	case q.err != nil:
	case q.srv == nil || q.srv.conn == nil:
		q.err = errNoServer
	case q.codec == nil:
		q.err = fmt.Errorf("emq: queue %q: the codec is nil", name)
	case q.lease < time.Millisecond || q.lease.Milliseconds() > maxMillis:
		q.err = fmt.Errorf("emq: queue %q: a lease of %s is not possible", name, q.lease)
	case q.max < 1 || q.max > 1<<31-1:
		q.err = fmt.Errorf("emq: queue %q: a job can't fail %d times", name, q.max)
	}
	return Queue[T]{q}
}

// CheckName tells why a name can't be a queue's.
func CheckName(name string) error {
	if name == "" || strings.ContainsAny(name, "{}\x00") {
		return fmt.Errorf("emq: %q can't be a queue's name: it must not be empty nor have braces or NUL", name)
	}
	return nil
}

// Name is the queue's name.
func (q *queue) Name() string { return q.name }

// Err tells why every call fails, if the name or an option can't be.
func (q *queue) Err() error { return q.err }

// JobOption says when a job is due, or which id it has.
type JobOption func(*jobOptions)

type jobOptions struct {
	id   ID
	mode string // of SCHEDULE; "" for now
	ms   int64
	err  error
}

// In makes a job claimable after a while, by the server's clock, to the millisecond. Less than none is an error, and so is [At] besides.
func In(d time.Duration) JobOption {
	return func(o *jobOptions) { o.due("In", d >= 0, d.Milliseconds(), d) }
}

// At makes a job claimable at a time, to the millisecond; at once, if it has passed.
func At(t time.Time) JobOption {
	return func(o *jobOptions) { o.due("At", true, max(t.UnixMilli(), 0), t) }
}

// As gives a job an id of the caller's, so that enqueueing it again does nothing as long as it is there: see [ParseID].
func As(id ID) JobOption {
	return func(o *jobOptions) {
		if o.id = id; o.err == nil {
			_, o.err = id.number()
		}
	}
}

const maxMillis = 1<<52 - 1 // the contract's bound on times

// due notes what In or At says, in ms and as the caller gave it.
func (o *jobOptions) due(option string, can bool, ms int64, given any) {
	mode := strings.ToLower(option)
	switch {
	case o.err != nil:
	case o.mode != "" && o.mode != mode:
		o.err = errors.New("emq: a job is due In or At, not both")
	case !can || ms > maxMillis:
		o.err = fmt.Errorf("emq: a job can't be due %s %s", mode, given)
	}
	o.mode, o.ms = mode, ms
}

func (q *queue) options(opts []JobOption) (o jobOptions, err error) {
	if q.err != nil || len(opts) == 0 {
		return o, q.err
	}
	for _, apply := range opts {
		apply(&o)
	}
	return o, o.err
}

// Receipt is what came of an Enqueue.
type Receipt struct {
	ID ID
	// Created is false if a job of this id was there already: it was left alone.
	Created bool
}

// Enqueue puts a job into the queue. If the answer is lost the job is sent again under the same id: that makes no second job,
// unless the first was done meanwhile. After an error, the receipt has the id under which the job may be there. Jobs that many
// goroutines enqueue at once, and that are due now, go together in one call.
func (q Queue[T]) Enqueue(ctx context.Context, v T, opts ...JobOption) (Receipt, error) {
	o, err := q.options(opts)
	if err != nil {
		return Receipt{}, err
	}
	encoded, err := q.codec.Encode(v)
	if err != nil {
		return Receipt{}, fmt.Errorf("emq: a job for queue %q: %w", q.name, err)
	}
	payload := string(encoded)
	own := o.id != ""
	for {
		id := o.id
		if !own {
			id = q.c.ids.next()
		}
		var status int64
		var before bool
		if o.mode == "" {
			before, err = q.c.insist(ctx, func(ctx context.Context) (err error) {
				status, err = q.post(ctx, id, payload)
				return err
			})
		} else {
			var r Reply
			r, before, err = q.c.try(ctx, q.srv, "EMQ.SCHEDULE", "2", q.rows+string(id), q.scheduled, string(id), payload,
				o.mode, strconv.FormatInt(o.ms, 10))
			status = r.Int
		}
		switch {
		case err != nil:
			return Receipt{ID: id}, err
		case status == 1 || !own && before: // it was there because it had been sent
			return Receipt{id, true}, nil
		case own:
			return Receipt{id, false}, nil
		}
		q.c.ids.reseed() // another program makes the same ids
	}
}

const (
	batchJobs  = 100     // of a call with many jobs
	batchBytes = 1 << 20 // about
)

// EnqueueMany puts many jobs into the queue, in calls of a hundred, as the sequence yields them, and tells how many. If a call
// fails, the jobs before it are there, those of it may be, and no more of the sequence is read.
func (q Queue[T]) EnqueueMany(ctx context.Context, vs iter.Seq[T], opts ...JobOption) (n int, err error) {
	o, err := q.options(opts)
	if o.id != "" {
		err = errors.New("emq: many jobs can't have one id")
	}
	if err != nil {
		return 0, err
	}
	var batch []*entry
	size := 0
	flush := func() error {
		err := q.enqueueBatch(ctx, batch)
		if err == nil {
			n += len(batch)
		}
		batch, size = batch[:0], 0
		return err
	}
	for v := range vs {
		payload, err := q.codec.Encode(v)
		if err != nil {
			return n, errors.Join(fmt.Errorf("emq: a job for queue %q: %w", q.name, err), flush())
		}
		batch = append(batch, &entry{jobOptions: o, payload: string(payload)})
		if size += len(payload); len(batch) == batchJobs || size >= batchBytes {
			if err := flush(); err != nil {
				return n, err
			}
		}
	}
	return n, flush()
}

// NewJob is a job for [Queue.EnqueueBatch].
type NewJob[T any] struct {
	Value   T
	Options []JobOption
}

// EnqueueBatch puts jobs into the queue, at most 1000, each with its own options, in as few calls as their kinds and sizes allow: one for
// those that are claimable at once, one for those that are due at a time, one for those due after a while. After an error,
// those that have a receipt are there, and others may be.
func (q Queue[T]) EnqueueBatch(ctx context.Context, jobs ...NewJob[T]) ([]Receipt, error) {
	receipts := make([]Receipt, len(jobs))
	if len(jobs) > 1000 {
		return nil, fmt.Errorf("emq: %d jobs can't be enqueued at a time", len(jobs))
	}
	kinds := map[string][]*entry{}
	sizes := map[string]int{}
	for i, job := range jobs {
		o, err := q.options(job.Options)
		if err != nil {
			return receipts, err
		}
		payload, err := q.codec.Encode(job.Value)
		if err != nil {
			return receipts, fmt.Errorf("emq: a job for queue %q: %w", q.name, err)
		}
		kinds[o.mode] = append(kinds[o.mode], &entry{jobOptions: o, payload: string(payload), receipt: &receipts[i]})
		sizes[o.mode] += len(payload)
	}
	for _, mode := range slices.Sorted(maps.Keys(kinds)) {
		batch := kinds[mode]
		for len(batch) > 0 {
			n, size := 0, 0
			for ; n < len(batch) && size < batchBytes; n++ {
				size += len(batch[n].payload)
			}
			if err := q.enqueueBatch(ctx, batch[:n:n]); err != nil {
				return receipts, err
			}
			batch = batch[n:]
		}
	}
	return receipts, nil
}

// entry is a job of a batch.
type entry struct {
	jobOptions
	payload string
	receipt *Receipt // nil if nobody asks
}

// enqueueBatch sends jobs of one kind in a call. If other programs have made the ids that it made, it sends those jobs again.
func (q *queue) enqueueBatch(ctx context.Context, batch []*entry) error {
	for len(batch) > 0 {
		mode := batch[0].mode
		args := []string{"EMQ.MENQUEUE", q.base}
		if mode != "" {
			args = []string{"EMQ.MSCHEDULE", q.base, mode}
		}
		ids := make([]ID, len(batch))
		for i, e := range batch {
			if ids[i] = e.id; ids[i] == "" {
				ids[i] = q.c.ids.next()
			}
			args = append(args, string(ids[i]))
			if mode != "" {
				args = append(args, strconv.FormatInt(e.ms, 10))
			}
			args = append(args, e.payload)
		}
		r, before, err := q.c.try(ctx, q.srv, args...)
		if err != nil {
			return err
		}
		if len(r.List) != len(batch) {
			return unexpected(args[0], r)
		}
		var again []*entry
		for i, e := range batch {
			created := r.List[i].Int == 1
			if !created && !before && e.id == "" {
				again = append(again, e)
				continue
			}
			if e.receipt != nil {
				*e.receipt = Receipt{ids[i], created || e.id == ""}
			}
		}
		if batch = again; len(again) > 0 {
			q.c.ids.reseed()
		}
	}
	return nil
}
