package emq

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// posts has the jobs that many goroutines enqueue at once go together, in one call: what it costs, here and in the server, is
// shared. Who enqueues while nobody else does sends his job at once. Else, the first lets those that are ready to run have
// their turn, and sends all that came; nobody waits longer than that.
type posts struct {
	callers atomic.Int64

	mu   sync.Mutex
	open *bundle // that the first has not sent yet
}

// bundle is jobs that go in one call.
type bundle struct {
	jobs []post
	size int
	done chan struct{} // closed when the call is back; nil of one job
	err  error
}

type post struct {
	id      ID
	payload string
	status  int64
}

// post sends a job, once, and returns its status.
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
		go q.postAll(b) // which goes on when this context ends
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if refusal, passes := refused(b.err); refusal != nil && !passes {
		return q.postOne(ctx, id, payload) // it may be another's job that can't be, or the verb for many that is not permitted
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

// join puts a job into the open bundle, and tells the place that it has there. The first one closes and sends it.
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

// close has later jobs go into another bundle.
func (p *posts) close(b *bundle) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == b {
		p.open = nil
	}
}
