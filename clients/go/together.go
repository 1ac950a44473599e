package emq

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// posts batches the jobs that goroutines enqueue at the same time into one call, which shares its cost here and in the
// server. A goroutine that enqueues alone sends its job immediately. Otherwise the first one yields once to the
// goroutines that are ready to run, then sends everything that was added; nobody waits longer than that.
type posts struct {
	callers atomic.Int64

	mu   sync.Mutex
	open *bundle // not sent yet
}

// bundle holds the jobs of one call.
type bundle struct {
	jobs []post
	size int
	done chan struct{} // closed when the call has returned; nil for a single job
	err  error
}

type post struct {
	id      ID
	payload string
	status  int64
}

// post sends a job, without retrying, and returns its status.
func (q *queue) post(ctx context.Context, id ID, payload string) (status int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	defer q.posts.callers.Add(-1)
	if q.posts.callers.Add(1) == 1 {
		return q.postOne(ctx, id, payload)
	}
	b, at := q.posts.join(post{id: id, payload: payload})
	if at == 0 {
		runtime.Gosched()
		if q.posts.close(b); len(b.jobs) == 1 {
			return q.postOne(ctx, id, payload)
		}
		go q.postAll(b) // must not end with this caller's context
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if refusal, passes := refused(b.err); refusal != nil && !passes {
		return q.postOne(ctx, id, payload) // the refusal may be due to another's job, or to a user who may not use MENQUEUE
	}
	return b.jobs[at].status, b.err
}

func (q *queue) postOne(ctx context.Context, id ID, payload string) (status int64, err error) {
	r, err := q.srv.conn.Do(ctx, "EMQ.ENQUEUE", "2", q.rows+string(id), q.pending, string(id), payload)
	return r.Int, err
}

func (q *queue) postAll(b *bundle) {
	defer close(b.done)
	args := make([]string, 2, 2+2*len(b.jobs))
	args[0], args[1] = "EMQ.MENQUEUE", q.base
	for i := range b.jobs {
		args = append(args, string(b.jobs[i].id), b.jobs[i].payload)
	}
	call, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	r, err := q.srv.conn.Do(call, args...)
	switch {
	case err != nil:
		b.err = err
	case len(r.List) != len(b.jobs):
		b.err = unexpected(args[0], r)
	default:
		for i := range b.jobs {
			b.jobs[i].status = r.List[i].Int
		}
	}
}

// join adds a job to the open bundle and returns its index there. Whoever gets index 0 closes and sends the bundle.
func (p *posts) join(job post) (b *bundle, at int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = &bundle{}
	} else if p.open.done == nil {
		p.open.done = make(chan struct{})
	}
	b, at = p.open, len(p.open.jobs)
	b.jobs = append(b.jobs, job)
	if b.size += len(job.payload); len(b.jobs) == batchJobs || b.size >= batchBytes {
		p.open = nil
	}
	return b, at
}

// close makes later jobs start another bundle.
func (p *posts) close(b *bundle) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == b {
		p.open = nil
	}
}
