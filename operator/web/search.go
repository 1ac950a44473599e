package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	emq "emq/clients/go"
	"emq/operator"
)

const (
	window  = 100_000 // jobs that a search looks at by default
	atOnce  = 2000    // of which a plain request looks at so many; a stream, or the next request, continues there
	patient = 1500 * time.Millisecond
	hits    = 200 // jobs that are shown; more on request
)

// search is a search through the jobs of a choice, from a place on.
type search struct {
	choice
	Groups []string // one, or none
	After  operator.Cursor
	Window int64

	Jobs     []operator.Job
	Progress operator.Progress
	Next     operator.Cursor // where it can be continued
	Done     bool            // nothing is left to search
	Full     bool            // there were more hits than are shown
	Err      error
	p        *Page
}

func (p *Page) searching(r *request) (s search, err error) {
	s.p, s.Window = p, window
	if s.choice, err = chosen(r, emq.StateDead, states...); err != nil {
		return s, err
	}
	s.Groups, s.After = unmark(r.FormValue("group")), operator.Cursor(r.FormValue("after"))
	if text := r.FormValue("window"); text != "" {
		if s.Window, err = strconv.ParseInt(text, 10, 64); err != nil || s.Window < 1 || s.Window > 10_000_000 {
			return s, bad("A search looks at 1 to 10,000,000 jobs.")
		}
	}
	return s, nil
}

// Grouped reports whether the search is for the jobs of one error; Group is that error, and Mark its form in URLs.
func (s search) Grouped() bool { return len(s.Groups) > 0 }
func (s search) Group() string { return s.Groups[0] }
func (s search) Mark() string {
	if s.Grouped() {
		return mark(s.Group())
	}
	return ""
}

// Link is the URL of the same search from another place on, over a number of jobs.
func (s search) Link(kind string, after operator.Cursor, window int64) string {
	path := []string{"q", s.Queue, "search"}
	if kind != "" {
		path = append(path, kind)
	}
	return s.p.at(path, "state", string(s.State), "match", s.Match, "group", s.Mark(), "older", s.OlderText(),
		"after", string(after), "window", strconv.FormatInt(window, 10))
}

// Left is the part of the window that was not searched yet.
func (s search) Left() int64 { return max(0, s.Window-s.Progress.Seen) }

// On is the URL where the search continues, and Stream the stream that continues it.
func (s search) On() string     { return s.Link("", s.Next, window) }
func (s search) Stream() string { return s.Link("events", s.Next, s.Left()) }

// Streams reports whether a stream can continue it.
func (s search) Streams() bool { return !s.Done && s.Left() > 0 && !s.Full && s.Err == nil }

// Actions are the buttons for the found jobs.
func (s search) Actions() []deed { return deeds(s.State) }

// run searches, and reports hits and progress. It ends after window jobs, and as soon as there are more hits than are shown.
func (s *search) run(ctx context.Context, window int64, hit func(operator.Job) error, step func() error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found := 0
	s.Next = s.After
	for j, err := range s.jobs(ctx, s.p.server, s.Groups, s.After, window, 512, func(now operator.Progress) {
		s.Progress, s.Next = now, now.Next
		if step != nil && step() != nil {
			cancel()
		}
	}) {
		if err != nil {
			if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
				s.Err = err
			}
			return
		}
		// Jobs after the last shown one are searched again when the search continues.
		s.Next = operator.Behind(s.State, j)
		if hit(j) != nil {
			return
		}
		if found++; found >= hits {
			s.Full = true
			return
		}
	}
	s.Done = s.Next == "" && ctx.Err() == nil
}

var errSearches = &failure{http.StatusTooManyRequests, "Too many searches are under way; try it again in a moment."}

// search searches a part of the window at once, and shows the hits. A page that can run the stream continues by itself.
func (p *Page) search(w http.ResponseWriter, r *request) error {
	s, err := p.searching(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), patient)
	defer cancel()
	select {
	case p.looks <- struct{}{}:
		defer func() { <-p.looks }()
	case <-ctx.Done():
		return errSearches
	}
	s.run(ctx, min(s.Window, atOnce), func(j operator.Job) error { s.Jobs = append(s.Jobs, j); return nil }, nil)
	return p.render(w, r, http.StatusOK, "search", frame{Title: "Search in " + cut(visible(s.Queue), 60), Screen: "search", Failed: passes(s.Err), Body: s})
}

// searchEvents is the rest of a search as a stream: rows as they are found, the progress, and at the end where it can
// be continued. It ends with the connection.
func (p *Page) searchEvents(w http.ResponseWriter, r *request) error {
	s, err := p.searching(r)
	if err != nil {
		return err
	}
	select {
	case p.searches <- struct{}{}:
		defer func() { <-p.searches }()
	default:
		return errSearches
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	out := open(w)
	defer out.end()
	var told time.Time
	tell := func(event string) error {
		told = time.Now()
		data := map[string]any{"seen": s.Progress.Seen, "skipped": s.Progress.Skipped, "window": s.Window, "total": s.Progress.Total}
		if event == "end" {
			data["full"] = s.Full
			if s.Err != nil {
				data["error"] = reason(s.Err)
			}
			if !s.Done {
				data["next"] = s.On()
			}
		}
		text, _ := json.Marshal(data)
		return out.send(event, text)
	}
	_ = tell("progress")
	s.run(ctx, s.Window, func(j operator.Job) error {
		var b bytes.Buffer
		if err := p.screens["parts"].ExecuteTemplate(&b, "hit", row(j, s.State, r.role == Operator)); err != nil {
			return err
		}
		return out.send("hit", b.Bytes())
	}, func() error {
		if time.Since(told) < 200*time.Millisecond {
			return nil
		}
		return tell("progress")
	})
	if ctx.Err() == nil {
		_ = tell("end")
	}
	return nil
}

// Top is the number of jobs to search.
func (s search) Top() int64 {
	if s.Progress.Total > 0 {
		return min(s.Window, s.Progress.Total)
	}
	return s.Window
}

// Head and Row are the rows of the table of jobs.
func (s search) Head(can bool) rowOf                { return row(operator.Job{}, s.State, can) }
func (s search) Row(j operator.Job, can bool) rowOf { return row(j, s.State, can) }

// rowOf is a job in a table of jobs.
type rowOf struct {
	operator.Job
	Tick  bool   // it can be chosen
	Timed string // the kind of its time, if it has one
	Error bool   // the error is shown rather than the payload
}

func row(j operator.Job, s emq.State, can bool) rowOf {
	timed := map[emq.State]string{emq.StateActive: "Lease ends", emq.StateScheduled: "Due"}
	return rowOf{j, can, timed[s], s == emq.StateDead}
}
