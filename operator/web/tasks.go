package web

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"emq/operator"
)

// order is an action on jobs: those with the ids, or those of the choice, or of these the ones in the groups.
type order struct {
	choice
	Action operator.Action
	IDs    []string
	Groups []string
	All    bool
	Jobs   int64 // their number when it was ordered; -1: not known
}

// Done is the past participle of the action.
func (o order) Done() string { return done(o.Action, o.State) }

// Label is the button's label.
func (o order) Label() string {
	for _, d := range deeds(o.State) {
		if d.Action == o.Action {
			return d.Label
		}
	}
	return string(o.Action)
}

// Grave reports whether it can't be undone.
func (o order) Grave() bool { return o.Action == operator.Remove }

// ids yields the ids of the jobs.
func (o order) ids(ctx context.Context, s *operator.Server, step func(operator.Progress)) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, id := range o.IDs {
			if !yield(id, nil) {
				return
			}
		}
		if len(o.IDs) > 0 {
			return
		}
		for j, err := range o.jobs(ctx, s, o.Groups, "", 0, 0, step) {
			if !yield(j.ID, err) || err != nil {
				return
			}
		}
	}
}

// task is an order in execution, whether or not somebody watches it.
type task struct {
	order
	N     int
	User  string
	Began time.Time
	stop  context.CancelFunc

	mu       sync.Mutex
	progress operator.Progress // of the changes
	walked   operator.Progress // of the walk that finds the jobs
	state    string
	err      error
	ended    time.Time
}

// report is a task at one time.
type report struct {
	order
	N                int
	User             string
	Began, Ended     time.Time
	Progress, Walked operator.Progress
	Status           string // waiting, running, stopped, failed or done
	Err              error
}

// Handled is the number of its jobs that are done.
func (t report) Handled() int64 { return t.Progress.Changed + t.Progress.Refused }

// Top and Bar are its progress: by jobs, if their number is known, or else by the walk.
func (t report) Top() int64 {
	switch {
	case t.Status == "done": // whatever was counted before
		return t.Bar()
	case t.Jobs >= 0:
		return max(1, t.Jobs)
	}
	return max(1, t.Walked.Total)
}

// Bar is the part of Top that is done.
func (t report) Bar() int64 {
	switch {
	case t.Status == "done":
		return max(1, t.Handled())
	case t.Jobs >= 0:
		return t.Handled()
	}
	return t.Walked.Seen
}

// Took is its duration.
func (t report) Took() time.Duration { return t.Ended.Sub(t.Began) }

// Running reports whether it has not ended.
func (t report) Running() bool { return t.Ended.IsZero() }

func (t *task) report() report {
	t.mu.Lock()
	defer t.mu.Unlock()
	return report{t.order, t.N, t.User, t.Began, t.ended, t.progress, t.walked, t.state, t.err}
}

// tasks are the recent tasks, the latest first.
type tasks struct {
	mu    sync.Mutex
	n     int
	all   []*task
	slots chan struct{} // bounds the running tasks
}

// keptTasks bounds the remembered tasks, and mostTasks those that wait or run.
const keptTasks, mostTasks = 100, 50

func (p *Page) begin(o order, user string) (*task, error) {
	ctx, stop := context.WithCancel(p.ctx)
	p.tasks.mu.Lock()
	under := 0
	for _, t := range p.tasks.all {
		if t.report().Running() {
			under++
		}
	}
	if under >= mostTasks {
		p.tasks.mu.Unlock()
		stop()
		return nil, &failure{http.StatusTooManyRequests, "Too many tasks are under way: wait until some have ended, or stop some."}
	}
	p.tasks.n++
	t := &task{order: o, N: p.tasks.n, User: user, Began: time.Now(), stop: stop, state: "waiting"}
	p.tasks.all = slices.Insert(p.tasks.all, 0, t)
	for i := len(p.tasks.all) - 1; i >= keptTasks; i-- {
		if !p.tasks.all[i].report().Running() {
			p.tasks.all = slices.Delete(p.tasks.all, i, i+1)
		}
	}
	p.tasks.mu.Unlock()
	go p.carry(ctx, t)
	return t, nil
}

func (p *Page) carry(ctx context.Context, t *task) {
	defer t.stop()
	defer p.forget(t.Queue)
	set := func(change func()) {
		t.mu.Lock()
		defer t.mu.Unlock()
		change()
	}
	var got operator.Progress
	var err error
	select {
	case p.tasks.slots <- struct{}{}:
		defer func() { <-p.tasks.slots }()
		set(func() { t.state = "running" })
		got, err = p.server.Apply(ctx, t.Action, t.Queue, t.State,
			t.ids(ctx, p.server, func(now operator.Progress) { set(func() { t.walked = now }) }),
			func(now operator.Progress) { set(func() { t.progress = now }) })
	case <-ctx.Done():
		err = ctx.Err()
	}
	set(func() {
		t.ended, t.state, t.err = time.Now(), "done", err
		if got.Changed+got.Refused > 0 {
			t.progress = got
		}
		switch {
		case errors.Is(err, context.Canceled):
			t.state, t.err = "stopped", nil
		case err != nil:
			t.state = "failed"
		}
	})
	end := t.report()
	p.o.Logger.Info("a task of the page ended", "task", t.N, "action", string(t.Action), "queue", t.Queue, "state", string(t.State),
		"user", t.User, "status", end.Status, "changed", end.Progress.Changed, "refused", end.Progress.Refused, "error", err)
}

func (p *Page) task(r *request) (*task, error) {
	n, err := strconv.Atoi(r.PathValue("n"))
	p.tasks.mu.Lock()
	defer p.tasks.mu.Unlock()
	for _, t := range p.tasks.all {
		if err == nil && t.N == n {
			return t, nil
		}
	}
	return nil, &failure{http.StatusNotFound, "There is no such task. Tasks are forgotten when the page's own server ends."}
}

// bulkScreen asks for the confirmation of an order.
type bulkScreen struct {
	order
	Counted time.Time // when its jobs were counted; zero if the number is exact or not known
	P       *Page
}

// Line is a command that does the same for the chosen ids, if they are few.
func (b bulkScreen) Line() string {
	if len(b.IDs) == 0 || len(b.IDs) > 20 || b.Action == operator.Release {
		return ""
	}
	verb := "EMQ.REMOVE"
	if b.Action == operator.Requeue {
		verb = "EMQ.REQUEUE"
	}
	return shell(b.P.o.CLI, append([]string{verb, base(b.Queue), string(b.State)}, b.IDs...)...)
}

// bulk asks for a confirmation, and with it begins the task.
func (p *Page) bulk(w http.ResponseWriter, r *request) error {
	if err := r.ParseForm(); err != nil {
		return bad("The form can't be read: %v", err)
	}
	a, s, err := allowed(r)
	if err != nil {
		return err
	}
	b := bulkScreen{P: p}
	if b.choice, err = chosen(r, s, states...); err != nil {
		return err
	}
	b.Action, b.All, b.Jobs = a, r.PostFormValue("all") != "", -1
	for _, id := range r.PostForm["id"] {
		b.IDs = append(b.IDs, decode(id))
	}
	for _, g := range r.PostForm["group"] {
		b.Groups = append(b.Groups, unmark(g)...)
	}
	slices.Sort(b.Groups)
	b.Groups = slices.Compact(b.Groups)
	if b.All {
		b.IDs, b.Groups = nil, nil
	}
	switch {
	case len(b.IDs) > 1000:
		return bad("At most 1,000 jobs are chosen one by one.")
	case len(b.IDs) > 0 && len(b.Groups) > 0:
		return bad("Choose jobs or groups.")
	case len(b.IDs) > 0:
		b.Jobs = int64(len(b.IDs))
	case len(b.Groups) > 0 || b.All && (b.Match != "" || b.Older > 0):
		c := p.last(r.Context(), b.choice)
		if c.Ended.IsZero() || c.Err != nil {
			break
		}
		b.Counted, b.Jobs = c.Ended, 0
		for _, g := range c.Groups {
			if b.All || slices.Contains(b.Groups, g.Error) {
				b.Jobs += g.Jobs
			}
		}
	case b.All:
		now, err := p.server.Queues(r.Context(), b.Queue)
		if err != nil {
			return err
		}
		if len(now) == 1 && now[0].Err == nil {
			b.Counted, b.Jobs = time.Now(), count(now[0].Stats, s)
		}
	default:
		return bad("Nothing was chosen: tick some first.")
	}
	if r.PostFormValue("sure") == "" {
		return p.render(w, r, http.StatusOK, "bulk", frame{Title: b.Label() + "?", Screen: "bulk", Body: b})
	}
	if n, err := strconv.ParseInt(r.PostFormValue("jobs"), 10, 64); err == nil && n >= 0 { // as it was confirmed
		b.Jobs = n
	}
	t, err := p.begin(b.order, r.user)
	if err != nil {
		return err
	}
	p.log(r, "begin "+string(a), nil, "task", t.N, "state", string(s), "jobs", b.Jobs)
	return p.to(w, r, p.at([]string{"tasks", strconv.Itoa(t.N)}), "", nil)
}

func (p *Page) taskList(w http.ResponseWriter, r *request) error {
	p.tasks.mu.Lock()
	var all []report
	again := 0
	for _, t := range p.tasks.all {
		all = append(all, t.report())
		if all[len(all)-1].Running() {
			again = 3
		}
	}
	p.tasks.mu.Unlock()
	return p.render(w, r, http.StatusOK, "tasks", frame{Title: "Tasks", Screen: "tasks", Again: again, Body: all})
}

func (p *Page) taskOne(w http.ResponseWriter, r *request) error {
	t, err := p.task(r)
	if err != nil {
		return err
	}
	f := frame{Title: fmt.Sprintf("Task %d", t.N), Screen: "task", Body: t.report()}
	if t.report().Running() {
		f.Again = 2
	}
	return p.render(w, r, http.StatusOK, "task", f)
}

func (p *Page) taskStop(w http.ResponseWriter, r *request) error {
	t, err := p.task(r)
	if err != nil {
		return err
	}
	t.stop()
	p.o.Logger.Info("a task of the page is stopped", "task", t.N, "user", r.user)
	return p.to(w, r, p.at([]string{"tasks", strconv.Itoa(t.N)}), "", nil)
}

// taskAgain continues a task: the jobs that it has changed are no longer in the state, and so are left alone.
func (p *Page) taskAgain(w http.ResponseWriter, r *request) error {
	t, err := p.task(r)
	if err != nil {
		return err
	}
	was := t.report()
	if was.Running() {
		return bad("The task is still under way.")
	}
	o := t.order
	if o.Jobs >= 0 {
		o.Jobs = max(0, o.Jobs-was.Progress.Changed)
	}
	next, err := p.begin(o, r.user)
	if err != nil {
		return err
	}
	p.o.Logger.Info("a task of the page goes on", "task", t.N, "as", next.N, "user", r.user)
	return p.to(w, r, p.at([]string{"tasks", strconv.Itoa(next.N)}), "", nil)
}
