package web

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	emq "emq/clients/go"
	"emq/operator"
)

var states = []emq.State{emq.StatePending, emq.StateActive, emq.StateScheduled, emq.StateDead}

// asked is the state that a request names, or else the default.
func asked(r *request, otherwise emq.State, of ...emq.State) (emq.State, error) {
	name := emq.State(r.FormValue("state"))
	if name == "" {
		return otherwise, nil
	}
	for _, s := range of {
		if s == name {
			return s, nil
		}
	}
	return "", bad("There is no state %.40q here.", string(name))
}

// figures is a queue's current figures, with its traffic as far as the sampler knows.
func (p *Page) figures(ctx context.Context, name string) operator.Sampled {
	s := operator.Sampled{At: time.Now()}
	o := p.latest()
	if i, ok := o.byName[name]; ok {
		s = o.Queues[i]
	}
	now, err := p.server.Queues(ctx, name)
	if err == nil && len(now) == 1 {
		s.Queue = now[0]
	} else if s.Err = err; err != nil {
		s.Name = name
	}
	return s
}

// count is the number of a queue's jobs in a state.
func count(s emq.Stats, state emq.State) int64 {
	switch state {
	case emq.StatePending:
		return s.Pending
	case emq.StateActive:
		return s.Active
	case emq.StateScheduled:
		return s.Scheduled
	}
	return s.Dead
}

// queueScreen shows a queue with a page of its jobs.
type queueScreen struct {
	operator.Sampled
	State  emq.State
	N      int
	Jobs   operator.Page
	JobErr error
	after  operator.Cursor
	p      *Page
}

// base is the prefix of all keys of a queue.
func base(queue string) string { return "emq:{" + queue + "}:" }

// Tabs are the states with their numbers of jobs.
func (q queueScreen) Tabs() []tab {
	var all []tab
	for _, s := range states {
		all = append(all, tab{s, count(q.Stats, s), s == q.State})
	}
	return all
}

type tab struct {
	State emq.State
	Jobs  int64
	Here  bool
}

// Link is the URL of the same list at another place.
func (q queueScreen) Link(c operator.Cursor) string {
	n := ""
	if q.N != 50 {
		n = strconv.Itoa(q.N)
	}
	return q.p.at([]string{"q", q.Name}, "state", string(q.State), "n", n, "after", string(c))
}

// Lines are commands that do the same as the forms of a queue.
func (q queueScreen) Lines() []string {
	cli, b := q.p.o.CLI, base(q.Name)
	l := q.Limits
	return []string{
		shell(cli, "EMQ.PAUSE", b, "900000"), shell(cli, "EMQ.PAUSE", b, "0"), shell(cli, "EMQ.RESUME", b),
		shell(cli, "EMQ.LIMIT", b, strconv.Itoa(l.Concurrency), strconv.Itoa(l.Max), strconv.FormatInt(l.Per.Milliseconds(), 10)),
	}
}

// After is where the list begins, Number is the number of its first job, and Sizes are its possible lengths.
func (q queueScreen) After() operator.Cursor { return q.after }
func (q queueScreen) Number() int64          { return q.Jobs.Before + 1 }
func (q queueScreen) Sizes() []int           { return []int{25, 50, 100, 200, 500} }

// Head and Row are the rows of the table of jobs.
func (q queueScreen) Head(can bool) rowOf                { return row(operator.Job{}, q.State, can) }
func (q queueScreen) Row(j operator.Job, can bool) rowOf { return row(j, q.State, can) }

// Actions are the buttons for the jobs of the list.
func (q queueScreen) Actions() []deed { return deeds(q.State) }

func (p *Page) queue(w http.ResponseWriter, r *request) error {
	name := r.queue()
	q := queueScreen{Sampled: p.figures(r.Context(), name), p: p, N: 50}
	q.Name = name
	for _, s := range states {
		if q.State = s; count(q.Stats, s) > 0 {
			break
		}
	}
	if q.State == emq.StateDead && q.Dead == 0 {
		q.State = emq.StatePending
	}
	var err error
	if q.State, err = asked(r, q.State, states...); err != nil {
		return err
	}
	if text := r.FormValue("n"); text != "" {
		if q.N, err = strconv.Atoi(text); err != nil || q.N < 1 || q.N > 500 {
			return bad("A page has 1 to 500 jobs.")
		}
	}
	if text := r.FormValue("from"); text != "" {
		t, err := moment(text)
		if err != nil {
			return err
		}
		c, err := p.server.At(r.Context(), name, q.State, t)
		if err != nil {
			return err
		}
		http.Redirect(w, r.Request, q.Link(c), http.StatusFound)
		return nil
	}
	q.after = operator.Cursor(r.FormValue("after"))
	q.Jobs, q.JobErr = p.server.Jobs(r.Context(), name, q.State, q.after, q.N, 512)
	return p.render(w, r, http.StatusOK, "queue", frame{Title: cut(visible(name), 60), Screen: "queue",
		Live: p.at([]string{"events"}, "view", "queue", "queue", encode(name)), Failed: passes(q.JobErr, q.Err), Body: q})
}

// moment parses a time from a browser's field, in UTC.
func moment(text string) (time.Time, error) {
	for _, form := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339} {
		if t, err := time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, bad("%.40q is no time such as 2026-01-31T12:30.", text)
}

// hour sends the chart's figures.
func (p *Page) hour(w http.ResponseWriter, r *request) error {
	type figures struct {
		T    []int64 `json:"t"`
		Jobs []int64 `json:"jobs"`
		In   []int64 `json:"in"`
		Out  []int64 `json:"out"`
	}
	f := figures{T: []int64{}, Jobs: []int64{}, In: []int64{}, Out: []int64{}}
	o := p.latest()
	if i, ok := o.byName[r.queue()]; ok {
		q := o.Queues[i]
		for i, m := range q.Hour {
			f.T = append(f.T, minute(q, i).Unix())
			f.Jobs, f.In, f.Out = append(f.Jobs, m.Jobs), append(f.In, m.In), append(f.Out, m.Out)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(f)
}

// minute is when a minute of a queue's hour began.
func minute(q operator.Sampled, i int) time.Time {
	return q.At.Truncate(time.Minute).Add(-time.Duration(len(q.Hour)-i) * time.Minute)
}

// five is a step of five minutes, for those who read the hour as a table.
type five struct {
	From          time.Time
	Jobs, In, Out int64
}

// Fives is the hour in steps of five minutes, the latest first.
func (q queueScreen) Fives() (all []five) {
	for i := len(q.Hour) - 1; i >= 0; i-- {
		m, begin := q.Hour[i], minute(q.Sampled, i)
		if at := begin.Truncate(5 * time.Minute); len(all) == 0 || !all[len(all)-1].From.Equal(at) {
			all = append(all, five{From: at, Jobs: m.Jobs})
		}
		last := &all[len(all)-1]
		last.In, last.Out = last.In+m.In, last.Out+m.Out
	}
	return all
}

// Sums are the jobs that came and went in the hour, and the largest backlog.
func (q queueScreen) Sums() (s struct{ Jobs, In, Out, Minutes int64 }) {
	for _, m := range q.Hour {
		s.Jobs, s.In, s.Out = max(s.Jobs, m.Jobs), s.In+m.In, s.Out+m.Out
	}
	s.Minutes = int64(len(q.Hour))
	return s
}

func (p *Page) pause(w http.ResponseWriter, r *request) error {
	seconds, err := strconv.ParseInt(r.PostFormValue("for"), 10, 64)
	if err != nil || seconds < 0 || seconds > 10*365*24*3600 {
		return bad("A pause takes so many seconds, or 0 until it is resumed.")
	}
	d := time.Duration(seconds) * time.Second
	text := "The queue is paused until somebody resumes it."
	if d > 0 {
		text = "The queue is paused for " + span(d) + "."
	}
	return p.gate(w, r, text, p.server.Pause(r.Context(), r.queue(), d), "pause", "for", d)
}

func (p *Page) resume(w http.ResponseWriter, r *request) error {
	return p.gate(w, r, "The queue is no longer paused.", p.server.Resume(r.Context(), r.queue()), "resume")
}

func (p *Page) limit(w http.ResponseWriter, r *request) error {
	number := func(name string) int {
		text := strings.TrimSpace(r.PostFormValue(name))
		if text == "" {
			return 0
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return -1
		}
		return int(n)
	}
	l := emq.Limits{Concurrency: number("concurrency"), Max: number("max")}
	if text := strings.TrimSpace(r.PostFormValue("per")); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || !(seconds >= 0 && seconds <= 1e8) {
			return bad("The time of a limit is in seconds: 0.5, 1, 60.")
		}
		l.Per = time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
	}
	if l.Concurrency < 0 || l.Max < 0 {
		return bad("Limits are whole numbers up to 2147483647; 0, or nothing, is no limit.")
	}
	if (l.Max == 0) != (l.Per == 0) {
		return bad("So many jobs in a time: give both, or neither.")
	}
	return p.gate(w, r, "The limits are set.", p.server.Limit(r.Context(), r.queue(), l), "limit", "concurrency", l.Concurrency, "max", l.Max, "per", l.Per)
}

// gate finishes a POST about a queue as a whole.
func (p *Page) gate(w http.ResponseWriter, r *request, text string, err error, what string, more ...any) error {
	p.log(r, what, err, more...)
	return p.to(w, r, p.at([]string{"q", r.queue()}), text, err)
}

// log logs who did what.
func (p *Page) log(r *request, what string, err error, more ...any) {
	args := append([]any{"action", what, "queue", r.queue(), "user", r.user, "from", r.RemoteAddr}, more...)
	if err != nil {
		p.o.Logger.Warn("refused", append(args, "error", err)...)
		return
	}
	p.o.Logger.Info("done by the page", args...)
}
