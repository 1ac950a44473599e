package operator

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	emq "emq/clients/go"
)

// setOf names, for each state, the set that holds its jobs.
var setOf = map[emq.State]string{
	emq.StatePending: "pending", emq.StateActive: "active", emq.StateScheduled: "schedule", emq.StateDead: "dead",
}

// set is the jobs of a queue in one state.
type set struct {
	rows
	key   string
	state emq.State
	timed bool // the scores are times; else all are 0, and the order is that of the ids
}

func (s *Server) set(ask asker, queue string, state emq.State) (*set, error) {
	r, err := s.rows(ask, queue)
	if err != nil {
		return nil, err
	}
	name, ok := setOf[state]
	if !ok {
		return nil, fmt.Errorf("no job has the state %q", state)
	}
	return &set{r, r.base + name, state, state == emq.StateActive || state == emq.StateScheduled}, nil
}

// after returns up to n entries after a place, and whether there are more.
func (s *set) after(ctx context.Context, p place, n int) (list []entry, more bool, err error) {
	if !s.timed { // one command, so that it is atomic
		r, err := s.ask(ctx, "ZRANGE", s.key, p.bound(), "+", "BYLEX", "LIMIT", "0", strconv.Itoa(n+1))
		if err != nil {
			return nil, false, err
		}
		for _, id := range r.List {
			list = append(list, entry{id: id.Str})
		}
		return list[:min(n, len(list))], len(list) > n, nil
	}
	// By rank, because many may have the same time. A rank is valid only for a moment, so some entries before the place
	// are read too: if all of them are gone meanwhile, entries after the place may have been missed.
	const margin, tries = 100, 5
	for try := 1; ; try++ {
		rank, err := s.rank(ctx, p)
		if err != nil {
			return nil, false, err
		}
		from := max(rank-margin, 0)
		if list, err = s.ranks(ctx, from, rank+int64(n)); err != nil {
			return nil, false, err
		}
		more = len(list) > int(rank-from)+n // as many as were asked for
		behind := slices.IndexFunc(list, p.precedes)
		switch {
		case try < tries && (behind == 0 && from > 0 || behind < 0 && more):
			continue
		case behind < 0:
			return nil, false, nil
		}
		list = list[behind:]
		return list[:min(n, len(list))], more || len(list) > n, nil
	}
}

// before counts the entries before a place, and returns the place that is n entries earlier.
func (s *set) before(ctx context.Context, p place, n int) (count int64, begin place, err error) {
	if !p.given {
		return 0, begin, nil
	}
	var found []entry
	if s.timed {
		if count, err = s.rank(ctx, p); err == nil && count > int64(n) {
			found, err = s.ranks(ctx, count-int64(n)-1, count-int64(n)-1)
		}
	} else {
		var r emq.Reply
		if r, err = s.ask(ctx, "ZLEXCOUNT", s.key, "-", p.rest()); err == nil && r.Int > int64(n) {
			count = r.Int
			r, err = s.ask(ctx, "ZRANGE", s.key, p.rest(), "-", "BYLEX", "REV", "LIMIT", strconv.Itoa(n), "1")
			for _, id := range r.List {
				found = append(found, entry{id: id.Str})
			}
		} else {
			count = r.Int
		}
	}
	if err == nil && len(found) == 1 {
		begin = place{entry: found[0], given: true}
	}
	return count, begin, err
}

// count is the approximate number of entries after a place.
func (s *set) count(ctx context.Context, p place) (int64, error) {
	if !s.timed {
		r, err := s.ask(ctx, "ZLEXCOUNT", s.key, p.bound(), "+")
		return r.Int, err
	}
	rank, err := s.rank(ctx, p)
	if err != nil {
		return 0, err
	}
	r, err := s.ask(ctx, "ZCARD", s.key)
	return max(r.Int-rank, 0), err
}

// rank is the number of entries before a place in a set of times: by the entry, if it still exists; else by bisection
// among those with the same time, which may be millions.
func (s *set) rank(ctx context.Context, p place) (int64, error) {
	if !p.given {
		return 0, nil
	}
	if p.id != "" {
		r, err := s.ask(ctx, "ZRANK", s.key, p.id, "WITHSCORE")
		if err != nil {
			return 0, err
		}
		if len(r.List) == 2 && scoreOf(r.List[1]) == p.score {
			return r.List[0].Int + 1, nil
		}
	}
	r, err := s.ask(ctx, "ZCOUNT", s.key, "-inf", "("+score(p.score))
	low := r.Int
	if err != nil || p.id == "" {
		return low, err
	}
	if r, err = s.ask(ctx, "ZCOUNT", s.key, "-inf", score(p.score)); err != nil {
		return 0, err
	}
	for high := r.Int; low < high; {
		middle := low + (high-low)/2
		e, err := s.ranks(ctx, middle, middle)
		if err != nil {
			return 0, err
		}
		if len(e) == 0 || p.precedes(e[0]) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low, nil
}

// ranks returns the entries of some ranks, with their scores.
func (s *set) ranks(ctx context.Context, first, last int64) (list []entry, err error) {
	r, err := s.ask(ctx, "ZRANGE", s.key, strconv.FormatInt(first, 10), strconv.FormatInt(last, 10), "WITHSCORES")
	if err != nil {
		return nil, err
	}
	flat := r.List
	if len(flat) > 0 && len(flat[0].List) == 2 { // RESP3 has pairs
		flat = nil
		for _, pair := range r.List {
			flat = append(flat, pair.List...)
		}
	}
	for pair := range slices.Chunk(flat, 2) {
		list = append(list, entry{pair[0].Str, scoreOf(pair[1])})
	}
	return list, nil
}

// scoreOf is a score.
func scoreOf(r emq.Reply) float64 {
	f, _ := strconv.ParseFloat(r.Str, 64)
	return f
}
