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

// A job moves in three steps, each of them a script. At every moment at most one of the two queues hands the job out,
// and each step can be repeated after a crash:
//
//	take    renames the old queue's row to emq:{q}:moving:ID, which nobody claims, and notes the destination in the hash emq:{q}:moving
//	put     writes the job into the new queue, and notes its arrival in the set emq:{q}:arrived
//	forget  deletes the old queue's copy, then the new queue's note
//
// While jobs are on their way, the field moving of emq:{q}:meta holds their number, the time and the destination. It
// keeps the old queue listed even if the queue has no other key, and lets everybody who may read queues report the
// move. A job that is called back is marked in the new queue's set, so that a put which is still under way leaves it
// alone.

const (
	identityKey = "{emq}:version"
	identity    = "echomq:6.0.0"
)

// fenced begins the scripts of the old queue. They may run without free memory, so that jobs can be moved away from a
// full server.
const fenced = `#!lua flags=allow-oom
local wire = redis.call('GET', KEYS[1])
if wire ~= ARGV[1] then
  return redis.error_reply('EMQFENCE ' .. KEYS[1] .. ' is "' .. tostring(wire) .. '"')
end
`

// tell updates the field moving of meta. A take passes its time and destination; otherwise those that the field has are
// kept. A meta of another type is left alone.
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

// take takes jobs until it has 1 MiB of them, and returns how many it looked at and those that it took. Jobs of lanes
// and flows stay.
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

// settled ends the move of jobs. ARGV are ids, notes and sets: without a set the old queue's copy is deleted, otherwise
// the job goes back into that set.
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

// recall returns which jobs of a move have arrived in the new queue, and marks the others, so that they can't arrive
// later. ARGV are the members of the set arrived: the move's name and the job's id.
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
	move string // unique for each call of take, so that arrivals of different moves can't be confused
	note string // in the old queue: score, state, move and destination
	gone bool   // to be forgotten by the old queue
}

// MoveTo moves jobs of a state to another queue, of the same server or of another client, with all of their fields. It
// returns how many moved, and how many stayed because the other queue already has a job with that id. Jobs that are no
// longer in that state stay, and so do jobs in hand and those of lanes and flows. Workers may use both queues
// meanwhile: no job can ever be claimed from both, and none is lost.
//
// If the move is broken off, up to a hundred jobs may be on their way, and no queue hands them out. The next MoveTo
// between the same queues, with any jobs or none, completes it; [Queue.MoveBack] takes them back. Until then a move to
// another queue is refused.
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

// move moves jobs and returns those that it took. Jobs whose id the new queue already has are given up with giveUp, and
// otherwise go back.
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
		if before { // the answer to the first try was lost: find what it took by the note
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

// deliver puts jobs that were taken into their new queue. If that queue refuses them they go back, even if the refusal
// is temporary, like a replica's. If it can't be reached they stay on their way.
func (q *queue) deliver(ctx context.Context, to *queue, parcels []parcel, giveUp bool) error {
	for len(parcels) > 0 {
		n := 1 // a put is for jobs of one move
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

// resume completes an earlier move, and returns how many of its jobs arrived.
func (q *queue) resume(ctx context.Context, to *queue) (moved int, err error) {
	parcels, err := q.onTheirWay(ctx, to)
	if err == nil {
		err = q.deliver(ctx, to, parcels, false)
	}
	return countGone(parcels), err
}

// MoveBack takes back the jobs that a MoveTo or a [Client.Drain] to a queue has left on their way. It returns how many
// are back, and how many had arrived: those stay with the other queue, which may have done them already. That queue is
// asked, and from then on refuses the jobs that have not arrived, so that none is in both queues or done twice, even if
// the move is still running somewhere. Like MoveTo it can be repeated.
//
// Arrivals are remembered for a week. Jobs whose id was enqueued again meanwhile stay on their way, and cause an error.
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

// MoveBackUnasked takes back the jobs that are on their way to a queue which is gone for good. Which of them had
// arrived there is not known: should the other queue come back, those are in both, and jobs that were done there are
// done again.
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

// takeBack deletes the copies of the jobs that are gone, and puts the others back into their sets.
func (q *queue) takeBack(ctx context.Context, parcels []parcel) error {
	n, before, err := q.settle(ctx, parcels)
	if err == nil && !before && n < len(parcels) {
		err = fmt.Errorf("emq: queue %q: %d jobs can't come back, since their ids were enqueued again; they are kept in %smoving",
			q.name, len(parcels)-n, q.base)
	}
	return err
}

// settle has the old queue delete its copies of the jobs that are gone, and take back the others. It returns for how
// many it did so, and whether an earlier try whose answer was lost may have done it.
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

// Moving describes the jobs that a move has on their way, or has left there.
type Moving struct {
	Jobs  int       // 0 if none are on their way
	Since time.Time // when the last of them were taken; zero if unknown
	// Queue is the destination. If Here is true it is on the same server, otherwise on the server that the moving
	// client calls Server.
	Queue, Server string
	Here          bool
}

// String describes the destination.
func (m Moving) String() string {
	switch {
	case m.Here:
		return strconv.Quote(m.Queue)
	case m.Server == "":
		return strconv.Quote(m.Queue) + " of another server"
	}
	return fmt.Sprintf("%q of the server %q", m.Queue, m.Server)
}

// Moving returns what is on its way from the queue to another. It needs the right to HGET.
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
	// Somebody deleted the field, so count the jobs themselves.
	notes, err := q.c.do(ctx, q.srv, "HGETALL", q.base+"moving")
	for i := 1; i < len(notes.List); i += 2 {
		if words := strings.SplitN(notes.List[i].Str, " ", 4); len(words) == 4 {
			m = movingTo(words[3])
		}
		m.Jobs = len(notes.List) / 2
	}
	return m, err
}

// whither encodes a destination. The brace separates the names, since no queue's name contains one.
func (q *queue) whither(to *queue) string {
	if to.srv == q.srv {
		return "{" + to.name + "}"
	}
	return to.srv.name + "/{" + to.name + "}"
}

// movingTo decodes what whither encoded.
func movingTo(whither string) Moving {
	server, queue := whither, ""
	if i := strings.LastIndexByte(whither, '{'); i >= 0 {
		server, queue = whither[:i], whither[i+1:]
	}
	return Moving{Queue: strings.TrimSuffix(queue, "}"), Server: strings.TrimSuffix(server, "/"), Here: server == ""}
}

// onTheirWay reads the jobs that were taken and not yet forgotten. It is an error if they go to another queue than to.
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

// parcels reads the jobs that were taken and not yet forgotten, and their destination.
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
			continue // another client that completes the same move has just settled it
		}
		whither = words[3]
		parcels = append(parcels, parcel{Record: record(id, State(words[1]), words[0], row.List), move: words[2], note: note})
	}
	return parcels, whither, nil
}
