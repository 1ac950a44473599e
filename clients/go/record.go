package emq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Record is a job with every field of its row, to be stored in a file or put into another place.
type Record struct {
	ID    ID
	State State
	Due   time.Time // of a scheduled job; when the lease of an active one ends; zero for the others
	// Fields are those of the row, including the payload and unknown ones, except state and lease_epoch.
	Fields map[string]string
}

// setOf names the sorted set of each state.
var setOf = map[State]string{StatePending: "pending", StateActive: "active", StateScheduled: "schedule", StateDead: "dead"}

// Records reads jobs of a state. It leaves out those that are no longer in that state, and ids whose row is not a hash.
// It needs the rights to HGETALL and ZSCORE.
func (q Queue[T]) Records(ctx context.Context, s State, ids ...ID) ([]Record, error) {
	if q.err != nil {
		return nil, q.err
	}
	if setOf[s] == "" {
		return nil, fmt.Errorf("emq: jobs of state %q can't be read", s)
	}
	found := make([]*Record, len(ids))
	err := inParallel(len(ids), func(i int) error {
		score, err := q.c.do(ctx, q.srv, "ZSCORE", q.base+setOf[s], string(ids[i]))
		if err != nil || score.Null {
			return err
		}
		row, err := q.c.do(ctx, q.srv, "HGETALL", q.rows+string(ids[i]))
		if refusal := (*Error)(nil); errors.As(err, &refusal) && refusal.Class() == "WRONGTYPE" {
			return nil
		} else if err != nil {
			return err
		}
		r := record(string(ids[i]), s, score.Str, row.List)
		if r.Fields["state"] == string(s) {
			delete(r.Fields, "state")
			found[i] = &r
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var list []Record
	for _, r := range found {
		if r != nil {
			list = append(list, *r)
		}
	}
	return list, nil
}

func record(id string, s State, score string, row []Reply) Record {
	r := Record{ID: ID(id), State: s, Fields: map[string]string{}}
	for i := 0; i+1 < len(row); i += 2 {
		r.Fields[row[i].Str] = row[i+1].Str
	}
	delete(r.Fields, "lease_epoch")
	if s == StateScheduled || s == StateActive {
		ms, _ := strconv.ParseFloat(score, 64)
		r.Due = time.UnixMilli(int64(ms))
	}
	return r
}

// Check returns an error if the record can't be a job.
func (r *Record) Check() error {
	_, paid := r.Fields["payload"]
	attempts := r.Fields["attempts"]
	n, err := strconv.ParseUint(attempts, 10, 53)
	switch {
	case !strings.HasPrefix(string(r.ID), idPrefix):
		return fmt.Errorf("emq: %.40q is no job's id: it does not begin with %s", string(r.ID), idPrefix)
	case setOf[r.State] == "":
		return fmt.Errorf("emq: %s has the state %q, which is none", r.ID, r.State)
	case !paid:
		return fmt.Errorf("emq: %s has no payload", r.ID)
	case r.State != StateDead && (err != nil || n > 1<<53-2 || strconv.FormatUint(n, 10) != attempts):
		return fmt.Errorf("emq: %s has %q for its attempts, which is no number of claims", r.ID, attempts)
	case r.State == StateScheduled && (r.Due.UnixMilli() < 0 || r.Due.UnixMilli() > maxMillis):
		return fmt.Errorf("emq: %s can't be due at %s", r.ID, r.Due)
	}
	return nil
}

// put writes the jobs that are absent, each with all of its fields and the entry in its set. When a move is repeated, a
// job that had arrived is not written again even if it is done and gone, because the set arrived remembers it; nor is a
// job that was called back. It claims an empty store and refuses one of another wire. Without memory for the jobs the
// server refuses the whole call.
const put = `#!lua
local wire = redis.call('GET', KEYS[1])
if wire and wire ~= ARGV[1] then
  return redis.error_reply('EMQFENCE ' .. KEYS[1] .. ' is "' .. wire .. '"')
end
for _, name in ipairs({'pending', 'schedule', 'dead'}) do
  local kind = redis.call('TYPE', ARGV[2] .. name).ok
  if kind ~= 'none' and kind ~= 'zset' then
    return redis.error_reply('WRONGTYPE ' .. ARGV[2] .. name .. ' is a ' .. kind)
  end
end
if not wire then redis.call('SET', KEYS[1], ARGV[1]) end
local i, statuses = 3, {}
while i <= #ARGV do
  local id, set, score, move, n = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], 2 * ARGV[i + 4]
  local row, status = ARGV[2] .. 'job:' .. id, 1
  if move ~= '' and redis.call('SISMEMBER', KEYS[2], '-' .. move .. id) == 1 then
    status = -1
  elseif move == '' or redis.call('SISMEMBER', KEYS[2], move .. id) == 0 then
    status = 1 - redis.call('EXISTS', row)
    if status == 1 then
      if move ~= '' then
        redis.call('SADD', KEYS[2], move .. id)
        redis.call('EXPIRE', KEYS[2], 604800)
      end
      for field = i + 5, i + 4 + n, 2 do redis.call('HSET', row, ARGV[field], ARGV[field + 1]) end
      redis.call('ZADD', ARGV[2] .. set, score, id)
    end
  end
  statuses[#statuses + 1] = status
  i = i + 5 + n
end
return statuses`

// The statuses that put returns for a job.
const (
	calledBack = -1 // its move was called back
	wasThere   = 0  // a job with its id exists
	isThere    = 1
)

// Restore puts recorded jobs into the queue, each completely or not at all, and returns which of them it put there. A
// job whose id exists is left alone. Dead jobs stay dead and scheduled ones keep their time. Active ones become
// pending, since their holders have no lease here. It needs the right to EVAL, and to the plain commands that its
// script sends.
func (q Queue[T]) Restore(ctx context.Context, records ...Record) ([]bool, error) {
	for i := range records {
		if err := records[i].Check(); err != nil {
			return nil, err
		}
	}
	put, err := q.put(ctx, "", records)
	var there []bool
	for _, status := range put {
		there = append(there, status == isThere)
	}
	return there, err
}

// put restores records in calls of a hundred, as part of the named move, or of none if the name is empty.
func (q *queue) put(ctx context.Context, move string, records []Record) (statuses []int64, err error) {
	if q.err != nil {
		return nil, q.err
	}
	for len(records) > 0 {
		args := []string{"EVAL", put, "2", identityKey, q.base + "arrived", identity, q.base}
		n, size := 0, 0
		for ; n < len(records) && n < batchJobs && size < batchBytes; n++ {
			r := &records[n]
			state, score := r.State, "0"
			switch state {
			case StateActive:
				state = StatePending
			case StateScheduled:
				score = strconv.FormatInt(r.Due.UnixMilli(), 10)
			}
			names := slices.Sorted(maps.Keys(r.Fields))
			names = slices.DeleteFunc(names, func(name string) bool { return name == "state" || name == "lease_epoch" })
			args = append(args, string(r.ID), setOf[state], score, move, strconv.Itoa(len(names)+1), "state", string(state))
			for _, name := range names {
				args = append(args, name, r.Fields[name])
				size += len(name) + len(r.Fields[name])
			}
		}
		r, before, err := q.c.try(ctx, q.srv, args...)
		if before && err != nil && move != "" {
			err = fmt.Errorf("emq: it is not known whether the jobs arrived: %v", err) // not %w: a refusal would mean that nothing has changed
		}
		if err != nil {
			return statuses, err
		}
		if len(r.List) != n {
			return statuses, unexpected("EVAL", r)
		}
		for _, status := range r.List {
			if before && move == "" {
				status.Int = isThere
			}
			statuses = append(statuses, status.Int)
		}
		records = records[n:]
	}
	return statuses, nil
}
