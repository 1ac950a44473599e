package emq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// move puts a job into the set of its state on its new server, with all fields of its row but the lease, unless it is there. It
// claims an empty store, and refuses one of another wire.
const move = `
local wire = redis.call('GET', KEYS[3])
if not wire then
  redis.call('SET', KEYS[3], ARGV[1])
elseif wire ~= ARGV[1] then
  return redis.error_reply('EMQFENCE ' .. KEYS[3] .. ' is "' .. wire .. '"')
end
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
for i = 4, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('HDEL', KEYS[1], 'lease_epoch')
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[2])
return 1`

// Drain moves jobs to the servers on which their queues live now, after servers have come or gone, and tells how many it moved:
// of the given queues, or without any, of all that there are. To empty a server that leaves, a client knows all servers
// and [Client.DrainTo] which of them stay.
//
// First all producers and workers are started anew with the new servers. On each server where a queue does not live any more it
// is then paused; its jobs in hand are waited for, and the others are moved with their failures and dead letters. At the end
// the old place is as if the queue had never been there. A Drain that was broken off is begun again.
//
// It needs the rights to EVAL, ZRANGE and HGETALL beside the module's.
func (c *Client) Drain(ctx context.Context, queues ...string) (moved int, err error) {
	return c.DrainTo(ctx, c, queues...)
}

// DrainTo is Drain with the places of another client, which has the same servers but those that leave.
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
	sets := map[State]string{StatePending: "pending", StateScheduled: "schedule", StateDead: "dead", StateActive: "active"}
	left := func() (n int64, err error) {
		for _, set := range sets {
			r, err := q.c.do(ctx, q.srv, "ZCARD", q.base+set)
			if err != nil {
				return 0, err
			}
			n += r.Int
		}
		return n, nil
	}
	if n, err := left(); n == 0 || err != nil {
		return 0, err
	}
	if err := q.gate(ctx, "EMQ.PAUSE", q.base, "0"); err != nil {
		return 0, err
	}
	for {
		for _, state := range slices.Sorted(maps.Keys(sets)) {
			if state == StateActive {
				continue
			}
			n, err := q.drainState(ctx, to, state, sets[state])
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
		if err := sleep(ctx, 50*time.Millisecond); err != nil { // for the jobs in hand
			return moved, errors.Join(fmt.Errorf("%d jobs are still there", n), err)
		}
	}
}

func (q *queue) drainState(ctx context.Context, to *queue, state State, set string) (moved int, err error) {
	for begin := int64(0); ; {
		r, err := q.c.do(ctx, q.srv, "ZRANGE", q.base+set, strconv.FormatInt(begin, 10), strconv.FormatInt(begin+batchJobs-1, 10))
		if err != nil || len(r.List) == 0 {
			return moved, err
		}
		there := make([]bool, len(r.List))
		err = inParallel(len(r.List), func(i int) (err error) {
			there[i], err = q.copyTo(ctx, to, state, set, r.List[i].Str)
			return err
		})
		var ids []ID
		for i, id := range r.List {
			if there[i] {
				ids = append(ids, ID(id.Str))
			}
		}
		n, removeErr := q.operate(ctx, "EMQ.REMOVE", state, ids)
		moved += n
		if err = errors.Join(err, removeErr); err != nil {
			return moved, err
		}
		begin += int64(len(r.List) - len(ids)) // those whose row is of another state, which AUDIT puts right
	}
}

// copyTo tells whether a job is in its new place.
func (q *queue) copyTo(ctx context.Context, to *queue, state State, set, id string) (bool, error) {
	row, err := q.c.do(ctx, q.srv, "HGETALL", q.rows+id)
	if err != nil {
		return false, err
	}
	score, err := q.c.do(ctx, q.srv, "ZSCORE", q.base+set, id)
	if err != nil {
		return false, err
	}
	args := []string{"EVAL", move, "3", to.rows + id, to.base + set, "{emq}:version", "echomq:6.0.0", id, score.Str}
	found := false
	for i := 0; i+1 < len(row.List); i += 2 {
		args = append(args, row.List[i].Str, row.List[i+1].Str)
		found = found || row.List[i].Str == "state" && row.List[i+1].Str == string(state)
	}
	if !found || score.Null {
		return false, nil
	}
	_, err = to.c.do(ctx, to.srv, args...)
	return err == nil, err
}
