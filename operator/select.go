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

// Filter chooses jobs; its zero value chooses all.
type Filter struct {
	Match     string        // in the payload or the last error, whatever the case of its letters
	Group     string        // the last error, normalised, is this: see [Normalise]
	OlderThan time.Duration // by the id; one that does not tell is not older
	MadeAfter time.Time     // likewise

	// Rows has the rows of the chosen jobs come along, though the filter does not look at them; Payload their payloads too, up to so
	// many bytes.
	Rows    bool
	Payload int64
}

// Progress is how far a walk has come. Total is about how many there are to walk.
type Progress struct {
	Seen, Chosen, Changed, Refused int64
	// Skipped are jobs whose payloads were too long to be searched.
	Skipped int64
	Total   int64
	// Next is where the walk goes on; empty if that was all.
	Next Cursor
}

const (
	// stride is how many entries a walk reads at a time.
	stride = 500
	// searched is the longest payload that is searched.
	searched = 1 << 20
)

// Select walks a state from a place on, at most `window` jobs, 0 being all, and yields those that the filter chooses. It reads
// only what the filter looks at, so without one the jobs have ids and times alone; payloads of more than 1 MiB are not searched.
// step, if not nil, is called after each page. While the server fails over or starts again it waits, up to half a minute, and goes on.
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

// chooser is a filter at work.
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

// jobs has those of the entries that are chosen.
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

// young reports whether a job was made when it is to have been.
func (c *chooser) young(made time.Time) bool {
	switch {
	case !c.before.IsZero() && (made.IsZero() || made.After(c.before)):
		return false
	case !c.MadeAfter.IsZero() && !made.After(c.MadeAfter):
		return false
	}
	return true
}

// chooses looks at a job, and takes its payload away if that was read to be searched alone.
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

// fold makes texts the same that differ in the case of letters alone. Bytes that are no text stay what they are.
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
