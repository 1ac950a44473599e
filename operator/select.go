package operator

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	emq "emq/clients/go"
)

// Filter selects jobs; its zero value selects all.
type Filter struct {
	Match     string        // in the payload or the last error, whatever the case of its letters
	Group     string        // the normalised last error: see [Normalise]
	OlderThan time.Duration // by the time in the id; a job without one does not match
	MadeAfter time.Time     // likewise

	// Rows requests the rows of the selected jobs although the filter does not need them; Payload also their payloads
	// of up to that many bytes.
	Rows    bool
	Payload int64
}

// Progress is the progress of a walk. Total is approximate.
type Progress struct {
	Seen, Chosen, Changed, Refused int64
	// Skipped jobs had payloads that were too long to search.
	Skipped int64
	Total   int64
	// Next is where the walk can be continued; empty if it is complete.
	Next Cursor
}

const (
	// stride is the number of entries that a walk reads at a time.
	stride = 500
	// searched is the longest payload that is searched.
	searched = 1 << 20
)

// Select walks a state from a place on, at most `window` jobs or with 0 all, and yields those that match the filter. It
// reads only what the filter needs, so without one the jobs have only ids and times; payloads of more than 1 MiB are
// not searched. step, if not nil, is called after each page. While the server fails over or restarts it waits, up to
// half a minute, and goes on.
func (s *Server) Select(ctx context.Context, queue string, state emq.State, after Cursor, window int64, f Filter, step func(Progress)) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		if err := s.walk(ctx, queue, state, after, window, f, step, func(j Job) bool { return yield(j, nil) }); err != nil {
			yield(Job{}, err)
		}
	}
}

func (s *Server) walk(ctx context.Context, queue string, state emq.State, after Cursor, window int64, f Filter, step func(Progress), yield func(Job) bool) error {
	if f.Group == others {
		return fmt.Errorf("%s is no group: it is what all others are counted under", others)
	}
	set, err := s.set(s.patient(), queue, state)
	if err != nil {
		return err
	}
	at, err := after.place(set.timed)
	if err != nil {
		return err
	}
	var p Progress
	if p.Total, err = set.count(ctx, at); err != nil {
		return err
	}
	if window > 0 {
		p.Total = min(p.Total, window)
	}
	c := f.chooser()
	for more := true; more; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := int64(stride)
		if window > 0 {
			n = min(n, window-p.Seen)
		}
		var entries []entry
		if entries, more, err = set.after(ctx, at, int(n)); err != nil || len(entries) == 0 {
			return err
		}
		at = place{entry: entries[len(entries)-1], given: true}
		jobs, err := c.jobs(ctx, set, entries)
		if err != nil {
			return err
		}
		for _, j := range jobs {
			p.Chosen++
			if !yield(j) {
				return nil
			}
		}
		if p.Next = ""; more {
			p.Next = at.cursor(set.timed)
		}
		p.Seen += int64(len(entries))
		p.Skipped = c.skipped.Load()
		if p.Total = max(p.Total, p.Seen); step != nil {
			step(p)
		}
	}
	return nil
}

// chooser is a prepared filter.
type chooser struct {
	Filter
	before  time.Time // made before
	match   string    // folded
	bound   int64     // of payloads
	skipped atomic.Int64
	errors  normaliser
}

func (f Filter) chooser() *chooser {
	c := &chooser{Filter: f, match: fold(f.Match), bound: f.Payload}
	if f.OlderThan > 0 {
		c.before = time.Now().Add(-f.OlderThan)
	}
	if c.match != "" && c.bound >= 0 {
		c.bound = max(c.bound, searched)
	}
	return c
}

// jobs returns the selected jobs of the entries.
func (c *chooser) jobs(ctx context.Context, s *set, entries []entry) (list []Job, err error) {
	chosen := entries[:0]
	for _, e := range entries {
		if c.young(made(e.id)) {
			chosen = append(chosen, e)
		}
	}
	if c.match != "" || c.Group != "" || c.Rows || c.Payload != 0 {
		return s.jobs(ctx, chosen, c.bound, c.chooses)
	}
	for _, e := range chosen {
		j := Job{ID: e.id, Queue: s.queue, State: s.state, Made: made(e.id)}
		list = append(list, s.due(j, e))
	}
	return list, nil
}

// young reports whether a job was made within the filter's times.
func (c *chooser) young(made time.Time) bool {
	switch {
	case !c.before.IsZero() && (made.IsZero() || made.After(c.before)):
		return false
	case !c.MadeAfter.IsZero() && !made.After(c.MadeAfter):
		return false
	}
	return true
}

// chooses reports whether a job matches, and removes its payload if that was read only for the search.
func (c *chooser) chooses(j *Job) bool {
	if c.Group != "" && (j.Err != nil || c.errors.normalise(j.LastError) != c.Group) {
		return false
	}
	found := c.match == ""
	if !found && j.Err == nil {
		if j.PayloadBytes > searched {
			c.skipped.Add(1)
		}
		found = strings.Contains(fold(j.LastError), c.match) || j.PayloadBytes <= searched && strings.Contains(fold(string(j.Payload)), c.match)
	}
	if c.Payload >= 0 && j.PayloadBytes > c.Payload {
		j.Payload = nil
	}
	return found
}

// fold makes texts equal that differ only in the case of letters. Bytes that are not text stay unchanged.
func fold(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			b.WriteByte(c)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			b.WriteByte(s[i])
		} else {
			b.WriteRune(unicode.ToLower(unicode.ToUpper(r)))
		}
		i += n
	}
	return b.String()
}
