package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	emq "emq/clients/go"
)

// Job is a job, read from its row and its set.
type Job struct {
	ID, Queue string
	State     emq.State
	// Made is when the id was made, if it is in the canonical form or a ULID; else zero.
	Made time.Time
	// Due is when a scheduled job becomes due, and when an active one's lease expires; zero for the others.
	Due time.Time
	// Claims is how often it was claimed: the row's attempts, which is also its holder's token.
	Claims               int64
	Failures, LostLeases int
	LastError            string
	// Payload is nil if it is longer than requested; PayloadBytes is its length.
	Payload      []byte
	PayloadBytes int64
	// Foreign jobs belong to a lane or a flow of EchoMQ's scripts: no verb changes them.
	Foreign bool
	// Err says why the row can't be read, or that it contradicts the set.
	Err error
}

// ErrNoJob: the queue has no job with that id.
var ErrNoJob = errors.New("there is no such job")

// Page is a page of the jobs in a state, in the order in which they are claimed or due.
type Page struct {
	Jobs []Job
	// Next is the place after the last of them, and empty if there are no more. Previous is where the previous page
	// begins, and empty on the first.
	Next, Previous Cursor
	First          bool
	// Before is the number of jobs before the page.
	Before int64
}

// Jobs returns up to n jobs in a state, 1 to 1000, after a place. It includes payloads of up to that many bytes; -1
// means any. A job that leaves the state meanwhile is left out, so a page may have fewer jobs or none, although there
// is a next page.
func (s *Server) Jobs(ctx context.Context, queue string, state emq.State, after Cursor, n int, payload int64) (p Page, err error) {
	set, err := s.set(s.conn.Do, queue, state)
	if err != nil {
		return p, err
	}
	if n < 1 || n > 1000 {
		return p, fmt.Errorf("a page has 1 to 1000 jobs, not %d", n)
	}
	begin, err := after.place(set.timed)
	if err != nil {
		return p, err
	}
	entries, more, err := set.after(ctx, begin, n)
	if err != nil {
		return p, err
	}
	before, previous, err := set.before(ctx, begin, n)
	if err != nil {
		return p, err
	}
	p.Before, p.First, p.Previous = before, before == 0, previous.cursor(set.timed)
	if more {
		p.Next = place{entry: entries[len(entries)-1], given: true}.cursor(set.timed)
	}
	p.Jobs, err = set.jobs(ctx, entries, payload, func(*Job) bool { return true })
	return p, err
}

// At is the place before the jobs that are due, or whose leases expire, at a time or later; for pending and dead jobs,
// before those that were made then or later, if their ids contain the time.
func (s *Server) At(ctx context.Context, queue string, state emq.State, t time.Time) (Cursor, error) {
	set, err := s.set(s.conn.Do, queue, state)
	if err != nil {
		return "", err
	}
	p := place{from: true, given: true}
	if set.timed {
		p.score = float64(t.UnixMilli())
		return p.cursor(true), nil
	}
	for _, rank := range []int64{-1, 0} {
		list, err := set.ranks(ctx, rank, rank)
		if err != nil {
			return "", err
		}
		if len(list) == 0 {
			return "", nil // there is only one place
		}
		if p.id = least(list[0].id, t); p.id != "" {
			return p.cursor(false), nil
		}
	}
	return "", fmt.Errorf("the ids of the %s jobs do not tell when they were made", state)
}

// Job returns one job in any state, with its payload if that has no more than so many bytes; -1 means any.
func (s *Server) Job(ctx context.Context, queue, id string, payload int64) (j Job, err error) {
	rows, err := s.rows(s.conn.Do, queue)
	if err != nil {
		return j, err
	}
	states := []emq.State{emq.StatePending, emq.StateActive, emq.StateScheduled, emq.StateDead}
	for range tries {
		if j, err = rows.row(ctx, id, payload); err != nil {
			return j, err
		}
		scores := make([]emq.Reply, len(states))
		err = parallel(len(states), func(i int) (err error) {
			scores[i], err = s.conn.Do(ctx, "ZSCORE", rows.base+setOf[states[i]], id)
			if class(err) == "WRONGTYPE" {
				scores[i].Null, err = true, nil
			}
			return err
		})
		if err != nil {
			return j, err
		}
		var in []emq.State
		for i, r := range scores {
			if r.Null {
				continue
			}
			in = append(in, states[i])
			if states[i] == emq.StateActive || states[i] == emq.StateScheduled {
				j.Due = time.UnixMilli(int64(scoreOf(r)))
			}
		}
		switch {
		case j.Err == errNoRow && len(in) == 0:
			return Job{}, ErrNoJob
		case j.Err == nil && (len(in) == 1 && in[0] == j.State || j.Foreign):
			return j, nil
		case setOf[j.State] == "" && len(in) > 0:
			j.State = in[0]
		}
	}
	if j.Err == nil {
		j.Err = errSets
	}
	return j, nil
}

// Find returns the queues that have a job with that id.
func (s *Server) Find(ctx context.Context, id string) (found []string, err error) {
	names, err := s.Names(ctx)
	if err != nil {
		return nil, err
	}
	has, err := s.existing(ctx, names, func(queue string) string { return "emq:{" + queue + "}:job:" + id })
	for i, name := range names {
		if has[i] {
			found = append(found, name)
		}
	}
	return found, err
}

// existing returns which queues have a key.
func (s *Server) existing(ctx context.Context, queues []string, key func(queue string) string) (has []bool, err error) {
	const some = 100 // are asked for in a call
	has = make([]bool, len(queues))
	return has, parallel((len(queues)+some-1)/some, func(part int) error {
		first := part * some
		return s.having(ctx, key, queues[first:min(first+some, len(queues))], has[first:])
	})
}

// having finds by bisection which queues have the key.
func (s *Server) having(ctx context.Context, key func(string) string, names []string, has []bool) error {
	args := []string{"EXISTS"}
	for _, name := range names {
		args = append(args, key(name))
	}
	r, err := s.conn.Do(ctx, args...)
	if err != nil || r.Int == 0 {
		return err
	}
	if r.Int == int64(len(names)) {
		for i := range names {
			has[i] = true
		}
		return nil
	}
	half := len(names) / 2
	if err := s.having(ctx, key, names[:half], has); err != nil {
		return err
	}
	return s.having(ctx, key, names[half:], has[half:])
}
