package emq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Drain moves jobs to the servers where their queues live now, after servers have been added or removed, and returns
// how many it moved. It does so for the given queues, or without any for all queues. To empty a server that is to be
// removed, use a client that knows all servers, and [Client.DrainTo] with one that knows those that stay.
//
// First restart all producers and workers with the new servers. On each server where a queue no longer lives, Drain
// pauses the queue, waits for its jobs in hand, and moves the others with their failures and dead letters. In the end
// the old place is as if the queue had never been there. A Drain that was broken off can be repeated.
//
// It needs the rights of [Queue.MoveTo], and to ZRANGE and ZCARD.
func (c *Client) Drain(ctx context.Context, queues ...string) (moved int, err error) {
	return c.DrainTo(ctx, c, queues...)
}

// DrainTo is Drain with the places of another client, which has the same servers except those that are to be removed.
func (c *Client) DrainTo(ctx context.Context, to *Client, queues ...string) (moved int, err error) {
	for _, s := range c.servers {
		names := queues
		if len(names) == 0 {
			if names, err = c.queuesOn(ctx, s); err != nil {
				return moved, err
			}
		}
		for _, name := range names {
			home := to.home(name)
			if home.name == s.name {
				continue
			}
			from, there := NewQueue[[]byte](c, name).queue, NewQueue[[]byte](to, name).queue
			if from.err != nil {
				return moved, from.err
			}
			from.srv, there.srv = s, home
			n, err := from.drain(ctx, there)
			if moved += n; err != nil {
				return moved, fmt.Errorf("emq: queue %q on server %q: %w", name, s.name, err)
			}
		}
	}
	return moved, nil
}

// drain moves all jobs of a queue to another place.
func (q *queue) drain(ctx context.Context, to *queue) (moved int, err error) {
	left := func() (n int64, err error) {
		for _, set := range setOf {
			r, err := q.c.do(ctx, q.srv, "ZCARD", q.base+set)
			if err != nil {
				return 0, err
			}
			n += r.Int
		}
		r, err := q.c.do(ctx, q.srv, "HLEN", q.base+"moving")
		return n + r.Int, err
	}
	if n, err := left(); n == 0 || err != nil {
		return 0, err
	}
	if err := q.gate(ctx, "EMQ.PAUSE", q.base, "0"); err != nil {
		return 0, err
	}
	if moved, err = q.resume(ctx, to); err != nil {
		return moved, err
	}
	for {
		for _, state := range []State{StateDead, StatePending, StateScheduled} {
			n, err := q.drainState(ctx, to, state)
			if moved += n; err != nil {
				return moved, err
			}
		}
		n, err := left()
		if err != nil {
			return moved, err
		}
		if n == 0 {
			return moved, q.gate(ctx, "EMQ.RESUME", q.base)
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil { // the rest are jobs in hand
			return moved, errors.Join(fmt.Errorf("%d jobs are still there", n), err)
		}
	}
}

// drainState moves the jobs of a state. A job that was enqueued in both places is the same job, so the old place gives
// it up.
func (q *queue) drainState(ctx context.Context, to *queue, s State) (moved int, err error) {
	for begin := 0; ; {
		r, err := q.c.do(ctx, q.srv, "ZRANGE", q.base+setOf[s], strconv.Itoa(begin), strconv.Itoa(begin+batchJobs-1))
		if err != nil || len(r.List) == 0 {
			return moved, err
		}
		ids := make([]ID, len(r.List))
		for i, id := range r.List {
			ids[i] = ID(id.Str)
		}
		parcels, err := q.move(ctx, to, s, ids, true)
		n := countGone(parcels)
		if moved += n; err != nil {
			return moved, err
		}
		begin += len(ids) - n // those whose row names another state; EMQ.AUDIT repairs them
	}
}
