package emq

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
)

// A job moves in three steps, each a script, so that at every moment one place at most hands it out, and each can be repeated
// after a crash:
//
//	take    the old queue's row becomes emq:{q}:moving:ID, which nobody claims, and the hash emq:{q}:moving notes where it goes
//	put     the new queue gets it, and notes in the set emq:{q}:arrived that it came
//	forget  the old queue's copy goes, then the new one's note

const (
	identityKey = "{emq}:version"
	identity    = "echomq:6.0.0"
)

// fenced opens the scripts of the old queue. Memory is allowed: a server that is full is one that is moved from.
const fenced = `#!lua flags=allow-oom
local wire = redis.call('GET', KEYS[1])
if wire ~= ARGV[1] then
  return redis.error_reply('EMQFENCE ' .. KEYS[1] .. ' is "' .. tostring(wire) .. '"')
end
`

// take looks at jobs until it has 1 MiB of them, and answers how many it looked at and those that it took. Jobs of lanes and flows stay.
const take = fenced + `
local base, state, set, note = ARGV[2], ARGV[3], ARGV[2] .. ARGV[4], ARGV[5]
local taken, bytes = {}, 0
for i = 6, #ARGV do
  if bytes >= 1048576 then return {i - 6, taken} end
  local id, row = ARGV[i], base .. 'job:' .. ARGV[i]
  local score = redis.call('ZSCORE', set, id)
  if score and redis.call('TYPE', row).ok == 'hash' then
    local at = redis.call('HMGET', row, 'state', 'group', 'parent')
    if at[1] == state and not at[2] and not at[3] and redis.call('EXISTS', KEYS[2] .. ':' .. id) == 0 then
      redis.call('HSET', KEYS[2], id, score .. ' ' .. state .. ' ' .. note)
      redis.call('RENAME', row, KEYS[2] .. ':' .. id)
      redis.call('ZREM', set, id)
      local fields = redis.call('HGETALL', KEYS[2] .. ':' .. id)
      for _, text in ipairs(fields) do bytes = bytes + #text end
      taken[#taken + 1] = {id, score, fields}
    end
  end
end
return {#ARGV - 5, taken}`

// settled ends the way of jobs: ARGV are ids and their notes. Without a set the copies go; else they go back to it.
const settled = fenced + `
local n = 0
for i = 3, #ARGV, 3 do
  local id, note, set = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local copy, row = KEYS[2] .. ':' .. id, ARGV[2] .. 'job:' .. id
  if redis.call('HGET', KEYS[2], id) == note and (set == '' or redis.call('EXISTS', row) == 0) then
    if set == '' then
      redis.call('DEL', copy)
    else
      redis.call('RENAME', copy, row)
      redis.call('ZADD', ARGV[2] .. set, string.match(note, '^%S+'), id)
    end
    redis.call('HDEL', KEYS[2], id)
    n = n + 1
  end
end
return n`

// parcel is a job on its way.
type parcel struct {
	Record
	move string // a name of its own for each try, so that no arrival is taken for another's
	note string // in the old queue: score, state, move and whither
	gone bool   // from the old queue
}

// MoveTo moves jobs of a state to another queue, of the same server or of another client, with all of their fields, and tells how many
// moved, and how many stay since the other queue has a job of that id. Jobs that are not of that state any more stay where they
// are, as do those in hand, and those of lanes and flows. Both queues can be worked on meanwhile: no job is ever claimable in
// both, and none gets lost.
//
// If it is broken off, up to a hundred jobs may be on their way, which no queue hands out: the next MoveTo of the same queues, with
// whatever jobs or none, has them arrive. A move to another queue is refused until then.
//
// It needs the right to EVAL, and to the plain commands that its scripts send.
func (q Queue[T]) MoveTo(ctx context.Context, to Queue[T], s State, ids ...ID) (moved, there int, err error) {
	switch {
	case q.err != nil:
		return 0, 0, q.err
	case to.err != nil:
		return 0, 0, to.err
	case q.name == to.name && q.srv == to.srv:
		return 0, 0, fmt.Errorf("emq: queue %q can't move to itself", q.name)
	case s == StateActive || setOf[s] == "":
		return 0, 0, fmt.Errorf("emq: jobs of state %q can't be moved", s)
	}
	moved, err = q.resume(ctx, to.queue)
	if err != nil {
		return moved, 0, err
	}
	parcels, err := q.move(ctx, to.queue, s, ids, false)
	n := countGone(parcels)
	if moved += n; err == nil {
		there = len(parcels) - n
	}
	return moved, there, err
}

func countGone(parcels []parcel) (n int) {
	for _, p := range parcels {
		if p.gone {
			n++
		}
	}
	return n
}

// move moves jobs, and answers those that it took. Those whose id is there are given up, or go back.
func (q *queue) move(ctx context.Context, to *queue, s State, ids []ID, giveUp bool) (all []parcel, err error) {
	for len(ids) > 0 {
		some := ids[:min(len(ids), batchJobs)]
		name := rand.Text() + "/"
		note := name + " " + to.srv.name + "/" + to.name
		args := []string{"EVAL", take, "2", identityKey, q.base + "moving", identity, q.base, string(s), setOf[s], note}
		for _, id := range some {
			args = append(args, string(id))
		}
		r, before, err := q.c.try(ctx, q.srv, args...)
		if err != nil {
			return all, err
		}
		if before { // the answer to the first was lost: what it took is found by its note
			parcels, err := q.onTheirWay(ctx, to)
			if err == nil {
				err = q.deliver(ctx, to, parcels, giveUp)
			}
			if all = append(all, parcels...); err != nil {
				return all, err
			}
		}
		if len(r.List) != 2 {
			return all, unexpected("EVAL", r)
		}
		var parcels []parcel
		for _, job := range r.List[1].List {
			if len(job.List) != 3 {
				return all, unexpected("EVAL", r)
			}
			id, score := job.List[0].Str, job.List[1].Str
			parcels = append(parcels, parcel{Record: record(id, s, score, job.List[2].List), move: name, note: score + " " + string(s) + " " + note})
		}
		err = q.deliver(ctx, to, parcels, giveUp)
		if all = append(all, parcels...); err != nil {
			return all, err
		}
		ids = ids[r.List[0].Int:]
	}
	return all, nil
}

// deliver puts jobs that were taken into their new queue. If that refuses them they go back to the old one, also if it may take
// them later, as a replica may; if it can't be reached, they stay on their way.
func (q *queue) deliver(ctx context.Context, to *queue, parcels []parcel, giveUp bool) error {
	for len(parcels) > 0 {
		n := 1 // of one move, and so of one name
		for n < len(parcels) && parcels[n].move == parcels[0].move {
			n++
		}
		some := parcels[:n]
		parcels = parcels[n:]
		records := make([]Record, n)
		for i, p := range some {
			records[i] = p.Record
		}
		put, err := to.put(ctx, some[0].move, records)
		if refusal, _ := refused(err); err != nil && refusal == nil {
			return err
		}
		args := []string{"EVAL", settled, "2", identityKey, q.base + "moving", identity, q.base}
		arrived := []string{"SREM", to.base + "arrived"}
		back := 0
		for i := range some {
			p := &some[i]
			set := ""
			switch {
			case i < len(put) && put[i]:
				arrived = append(arrived, p.move+string(p.ID))
				p.gone = true
			case i < len(put) && giveUp:
				p.gone = true
			default:
				set = setOf[p.State]
				back++
			}
			args = append(args, string(p.ID), p.note, set)
		}
		ends, before, failed := q.c.try(ctx, q.srv, args...)
		if err = errors.Join(err, failed); err != nil {
			return err
		}
		if back > 0 && ends.Int < int64(n) && !before {
			return fmt.Errorf("emq: queue %q: jobs that %q has already can't go back, since their ids were enqueued again; they are kept in %smoving", q.name, to.name, q.base)
		}
		if len(arrived) > 2 {
			if _, err := to.c.do(ctx, to.srv, arrived...); err != nil {
				return err
			}
		}
	}
	return nil
}

// resume has the jobs arrive that an earlier move left on their way, and tells how many did.
func (q *queue) resume(ctx context.Context, to *queue) (moved int, err error) {
	parcels, err := q.onTheirWay(ctx, to)
	if err == nil {
		err = q.deliver(ctx, to, parcels, false)
	}
	return countGone(parcels), err
}

// onTheirWay reads the jobs that were taken and not yet forgotten.
func (q *queue) onTheirWay(ctx context.Context, to *queue) ([]parcel, error) {
	notes, err := q.c.do(ctx, q.srv, "HGETALL", q.base+"moving")
	if err != nil {
		return nil, err
	}
	var parcels []parcel
	for i := 0; i+1 < len(notes.List); i += 2 {
		id, note := notes.List[i].Str, notes.List[i+1].Str
		words := strings.SplitN(note, " ", 4)
		if len(words) != 4 {
			return nil, fmt.Errorf("emq: queue %q: %smoving has a note that is none for %s: %q", q.name, q.base, id, note)
		}
		if whither := to.srv.name + "/" + to.name; words[3] != whither {
			return nil, fmt.Errorf("emq: queue %q has %d jobs on their way to %q, of a move that was broken off: repeat that one first",
				q.name, len(notes.List)/2, words[3])
		}
		row, err := q.c.do(ctx, q.srv, "HGETALL", q.base+"moving:"+id)
		if err != nil {
			return nil, err
		}
		if len(row.List) == 0 {
			continue // another, which moves the same, has just been done with it
		}
		parcels = append(parcels, parcel{Record: record(id, State(words[1]), words[0], row.List), move: words[2], note: note})
	}
	return parcels, nil
}
