package emq

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A job moves in three steps, each a script, so that at every moment one place at most hands it out, and each can be repeated
// after a crash:
//
//	take    the old queue's row becomes emq:{q}:moving:ID, which nobody claims, and the hash emq:{q}:moving notes where it goes
//	put     the new queue gets it, and notes in the set emq:{q}:arrived that it came
//	forget  the old queue's copy goes, then the new one's note
//
// While jobs are on their way, the field moving of emq:{q}:meta tells how many, since when and whither: so the old queue is listed
// although it may hold nothing else, and whoever may read queues can tell of them. A job that is called back is noted in the new
// queue's set as one that is not to come: its put, if it is still to be carried out, then leaves it alone.

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

// tell keeps the field moving of meta right: of a take with its time and whither it goes, else with those that it has. A meta that is no
// hash is left alone.
const tell = `
local function tell(base, time, whither)
  local meta, n = base .. 'meta', redis.call('HLEN', KEYS[2])
  local kind = redis.call('TYPE', meta).ok
  if kind ~= 'none' and kind ~= 'hash' then return end
  if n == 0 then return redis.call('HDEL', meta, 'moving') end
  if not time then
    time, whither = string.match(redis.call('HGET', meta, 'moving') or '', '^%d+ (%d+) (.*)$')
  end
  if time then redis.call('HSET', meta, 'moving', n .. ' ' .. time .. ' ' .. whither) end
end
`

// take looks at jobs until it has 1 MiB of them, and answers how many it looked at and those that it took. Jobs of lanes and flows stay.
const take = fenced + tell + `
local base, state, set, note = ARGV[2], ARGV[3], ARGV[2] .. ARGV[4], ARGV[5]
local taken, bytes, seen = {}, 0, 0
for i = 7, #ARGV do
  if bytes >= 1048576 then break end
  seen = seen + 1
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
if #taken > 0 then tell(base, ARGV[6], string.match(note, '^%S+ (.*)$')) end
return {seen, taken}`

// settled ends the way of jobs: ARGV are ids and their notes. Without a set the copies go; else they go back to it.
const settled = fenced + tell + `
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
tell(ARGV[2])
return n`

// recall asks the new queue which jobs of a move have arrived, and has the others not arrive any more. ARGV are names of moves with
// ids, as the inbox has them.
const recall = `#!lua flags=allow-oom
local wire = redis.call('GET', KEYS[1])
if wire and wire ~= ARGV[1] then
  return redis.error_reply('EMQFENCE ' .. KEYS[1] .. ' is "' .. wire .. '"')
end
local arrived = {}
for i = 2, #ARGV do
  arrived[i - 1] = redis.call('SISMEMBER', KEYS[2], ARGV[i])
  if arrived[i - 1] == 0 then
    redis.call('SADD', KEYS[2], '-' .. ARGV[i])
    redis.call('EXPIRE', KEYS[2], 604800)
  end
end
return arrived`

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
// whatever jobs or none, has them arrive, and [Queue.MoveBack] takes them back. A move to another queue is refused until then.
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
		note := name + " " + q.whither(to)
		args := []string{"EVAL", take, "2", identityKey, q.base + "moving", identity, q.base, string(s), setOf[s], note,
			strconv.FormatInt(time.Now().UnixMilli(), 10)}
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
		arrived := []string{"SREM", to.base + "arrived"}
		back, called := 0, 0
		for i := range some {
			p := &some[i]
			switch {
			case i < len(put) && put[i] == isThere:
				arrived = append(arrived, p.move+string(p.ID))
				p.gone = true
			case i < len(put) && put[i] == calledBack:
				called++
			case i < len(put) && put[i] == wasThere && giveUp:
				p.gone = true
			default:
				back++
			}
		}
		ends, before, failed := q.settle(ctx, some)
		if err = errors.Join(err, failed); err != nil {
			return err
		}
		if called > 0 {
			return fmt.Errorf("emq: queue %q: its jobs on their way to %q were called back", q.name, to.name)
		}
		if back > 0 && ends < n && !before {
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

// MoveBack takes jobs back that a MoveTo or a [Client.Drain] to a queue has left on their way, and tells how many are where they were, and
// how many had arrived, which that queue keeps, or has done. It asks the other queue, which from then on refuses the jobs that have
// not arrived: so none is in both, or done twice, even if the move still goes on somewhere. Like MoveTo it can be repeated.
//
// What arrived is known for a week. Jobs whose id was enqueued again meanwhile stay on their way, with an error.
func (q Queue[T]) MoveBack(ctx context.Context, to Queue[T]) (back, arrived int, err error) {
	if err := cmp.Or(q.err, to.err); err != nil {
		return 0, 0, err
	}
	parcels, err := q.onTheirWay(ctx, to.queue)
	for some := range slices.Chunk(parcels, batchJobs) {
		args := []string{"EVAL", recall, "2", identityKey, to.base + "arrived", identity}
		for _, p := range some {
			args = append(args, p.move+string(p.ID))
		}
		r, err := to.c.do(ctx, to.srv, args...)
		if err == nil && len(r.List) != len(some) {
			err = unexpected("EVAL", r)
		}
		if err != nil {
			return back, arrived, err
		}
		n := 0
		for i := range some {
			if some[i].gone = r.List[i].Int == 1; some[i].gone {
				n++
			}
		}
		if err := q.takeBack(ctx, some); err != nil {
			return back, arrived, err
		}
		back, arrived = back+len(some)-n, arrived+n
	}
	return back, arrived, err
}

// MoveBackUnasked takes jobs back that are on their way to a queue which is gone for good. It can't be known which of them had arrived
// there: those are then in both places if the other one comes back, and what was done there is done again.
func (q Queue[T]) MoveBackUnasked(ctx context.Context) (back int, err error) {
	if q.err != nil {
		return 0, q.err
	}
	parcels, _, err := q.parcels(ctx)
	for some := range slices.Chunk(parcels, batchJobs) {
		if err := q.takeBack(ctx, some); err != nil {
			return back, err
		}
		back += len(some)
	}
	return back, err
}

// takeBack forgets the jobs that are gone, and puts the others where they were.
func (q *queue) takeBack(ctx context.Context, parcels []parcel) error {
	n, before, err := q.settle(ctx, parcels)
	if err == nil && !before && n < len(parcels) {
		err = fmt.Errorf("emq: queue %q: %d jobs can't come back, since their ids were enqueued again; they are kept in %smoving",
			q.name, len(parcels)-n, q.base)
	}
	return err
}

// settle has the old queue forget the jobs that are gone, and take the others back. It tells how many it did, and whether some may have
// been done before.
func (q *queue) settle(ctx context.Context, parcels []parcel) (n int, before bool, err error) {
	args := []string{"EVAL", settled, "2", identityKey, q.base + "moving", identity, q.base}
	for _, p := range parcels {
		set := setOf[p.State]
		if p.gone {
			set = ""
		}
		args = append(args, string(p.ID), p.note, set)
	}
	r, before, err := q.c.try(ctx, q.srv, args...)
	return int(r.Int), before, err
}

// Moving is what a move has on its way, or has left there.
type Moving struct {
	Jobs  int       // 0 if there are none
	Since time.Time // when the last of them were taken; zero if that is not known
	// Queue is the one to which they go, of the same server if Here is true, and else of the one that the client which moves
	// knows as Server.
	Queue, Server string
	Here          bool
}

// String is the place to which the jobs go.
func (m Moving) String() string {
	switch {
	case m.Here:
		return strconv.Quote(m.Queue)
	case m.Server == "":
		return strconv.Quote(m.Queue) + " of another server"
	}
	return fmt.Sprintf("%q of the server %q", m.Queue, m.Server)
}

// Moving tells of the jobs that are on their way from the queue to another. It needs the right to HGET.
func (q Queue[T]) Moving(ctx context.Context) (m Moving, err error) {
	if q.err != nil {
		return m, q.err
	}
	r, err := q.c.do(ctx, q.srv, "HGET", q.base+"meta", "moving")
	if refusal := (*Error)(nil); errors.As(err, &refusal) && refusal.Class() == "WRONGTYPE" {
		r, err = Reply{Null: true}, nil
	}
	if err != nil {
		return m, err
	}
	if words := strings.SplitN(r.Str, " ", 3); len(words) == 3 {
		ms, _ := strconv.ParseInt(words[1], 10, 64)
		m = movingTo(words[2])
		m.Since = time.UnixMilli(ms)
		m.Jobs, err = strconv.Atoi(words[0])
		return m, err
	}
	// Somebody took the field away.
	notes, err := q.c.do(ctx, q.srv, "HGETALL", q.base+"moving")
	for i := 1; i < len(notes.List); i += 2 {
		if words := strings.SplitN(notes.List[i].Str, " ", 4); len(words) == 4 {
			m = movingTo(words[3])
		}
		m.Jobs = len(notes.List) / 2
	}
	return m, err
}

// whither is the name of the place to which jobs go. No queue's name has a brace.
func (q *queue) whither(to *queue) string {
	if to.srv == q.srv {
		return "{" + to.name + "}"
	}
	return to.srv.name + "/{" + to.name + "}"
}

// movingTo reads what whither wrote.
func movingTo(whither string) Moving {
	server, queue := whither, ""
	if i := strings.LastIndexByte(whither, '{'); i >= 0 {
		server, queue = whither[:i], whither[i+1:]
	}
	return Moving{Queue: strings.TrimSuffix(queue, "}"), Server: strings.TrimSuffix(server, "/"), Here: server == ""}
}

// onTheirWay reads the jobs that were taken and not yet forgotten. All go to one place.
func (q *queue) onTheirWay(ctx context.Context, to *queue) ([]parcel, error) {
	parcels, whither, err := q.parcels(ctx)
	if err == nil && len(parcels) > 0 && whither != q.whither(to) {
		err = fmt.Errorf("emq: queue %q has %d jobs on their way to %s, of a move that was broken off: repeat that one first, or take them back",
			q.name, len(parcels), movingTo(whither))
	}
	if err != nil {
		return nil, err
	}
	return parcels, nil
}

// parcels reads them, wherever they go.
func (q *queue) parcels(ctx context.Context) (parcels []parcel, whither string, err error) {
	notes, err := q.c.do(ctx, q.srv, "HGETALL", q.base+"moving")
	if err != nil {
		return nil, "", err
	}
	for i := 0; i+1 < len(notes.List); i += 2 {
		id, note := notes.List[i].Str, notes.List[i+1].Str
		words := strings.SplitN(note, " ", 4)
		if len(words) != 4 {
			return nil, "", fmt.Errorf("emq: queue %q: %smoving has a note that is none for %s: %q", q.name, q.base, id, note)
		}
		row, err := q.c.do(ctx, q.srv, "HGETALL", q.base+"moving:"+id)
		if err != nil {
			return nil, "", err
		}
		if len(row.List) == 0 {
			continue // another, which moves the same, has just been done with it
		}
		whither = words[3]
		parcels = append(parcels, parcel{Record: record(id, State(words[1]), words[0], row.List), move: words[2], note: note})
	}
	return parcels, whither, nil
}
