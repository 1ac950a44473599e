package web

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	emq "emq/clients/go"
	"emq/operator"
)

// choice selects jobs of a queue.
type choice struct {
	Queue string
	State emq.State
	Match string        // in payloads and errors
	Older time.Duration // by their ids
}

// longestMatch bounds the text to search for, in bytes, because it is kept with the results.
const longestMatch = 1000

func (c choice) filter() operator.Filter {
	return operator.Filter{Match: c.Match, OlderThan: c.Older}
}

// jobs walks through the selected jobs, or with groups only through those of the groups, in one walk for all groups. It
// can include parts of the payloads.
func (c choice) jobs(ctx context.Context, s *operator.Server, groups []string, after operator.Cursor, window, payload int64, step func(operator.Progress)) iter.Seq2[operator.Job, error] {
	f := c.filter()
	f.Rows, f.Payload = len(groups) > 0 || payload > 0, payload
	meant := map[string]bool{} // by original error: the same one often occurs thousands of times
	of := func(text string) bool {
		yes, known := meant[text]
		if !known {
			if len(meant) >= 1000 {
				clear(meant)
			}
			yes = slices.Contains(groups, operator.Normalise(text))
			meant[text] = yes
		}
		return yes
	}
	return func(yield func(operator.Job, error) bool) {
		for j, err := range s.Select(ctx, c.Queue, c.State, after, window, f, step) {
			if err == nil && len(groups) > 0 && (j.Err != nil || !of(j.LastError)) {
				continue
			}
			if !yield(j, err) {
				return
			}
		}
	}
}

// OlderText is the age as it is in forms.
func (c choice) OlderText() string {
	if c.Older == 0 {
		return ""
	}
	return strings.TrimSuffix(strings.TrimSuffix(c.Older.String(), "0s"), "0m")
}

// Words describes the choice in words.
func (c choice) Words() string {
	var w []string
	if c.Match != "" {
		w = append(w, "with “"+visible(c.Match)+"” in the payload or the error")
	}
	if c.Older > 0 {
		w = append(w, "older than "+span(c.Older))
	}
	return strings.Join(w, ", ")
}

// chosen parses a choice from a form or a URL.
func chosen(r *request, otherwise emq.State, of ...emq.State) (c choice, err error) {
	if c.Queue, c.Match = r.queue(), r.FormValue("match"); len(c.Match) > longestMatch {
		return c, bad("A text to look for has at most 1,000 bytes.")
	}
	if c.State, err = asked(r, otherwise, of...); err != nil {
		return c, err
	}
	if text := strings.TrimSpace(r.FormValue("older")); text != "" {
		if days, ok := strings.CutSuffix(text, "d"); ok {
			n, err := strconv.Atoi(days)
			if err != nil || n < 0 || n > 36500 {
				return c, bad("%.20q is no age such as 90m, 12h or 7d.", text)
			}
			c.Older = time.Duration(n) * 24 * time.Hour
		} else if c.Older, err = time.ParseDuration(text); err != nil || c.Older < 0 {
			return c, bad("%.20q is no age such as 90m, 12h or 7d.", text)
		}
	}
	return c, nil
}

// grouping is a walk through the jobs of a choice that counts them by their errors. Viewers of the same choice share it.
type grouping struct {
	choice
	Began time.Time

	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	progress operator.Progress
	groups   []operator.Group
	err      error
	ended    time.Time
	seen     time.Time // when somebody looked last
}

// counted is a grouping at one time.
type counted struct {
	choice
	Progress operator.Progress
	Groups   []operator.Group
	Err      error
	Began    time.Time
	Ended    time.Time
}

// Jobs is the number of jobs.
func (c counted) Jobs() (n int64) {
	for _, g := range c.Groups {
		n += g.Jobs
	}
	return n
}

// Took is the duration of the count.
func (c counted) Took() time.Duration { return c.Ended.Sub(c.Began) }

func (g *grouping) look() counted {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = time.Now()
	return counted{g.choice, g.progress, g.groups, g.err, g.Began, g.ended}
}

// stale reports whether a result should not be shown again: it is older than 15 s and than ten times its duration. So
// the same walk takes at most a tenth of the time, however many viewers reload the page.
func (g *grouping) stale() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.ended.IsZero() && time.Since(g.ended) > max(15*time.Second, 10*g.ended.Sub(g.Began)) || g.err != nil
}

// groupings are the running walks, and recent results.
type groupings struct {
	mu    sync.Mutex
	of    map[choice]*grouping
	under int           // how many have not ended
	slots chan struct{} // bounds concurrent walks
}

// shownError is the number of characters that are shown of a group's error.
const shownError = 200

// mostCounts bounds the waiting and running walks, and mostResults the kept results.
const mostCounts, mostResults = 50, 100

// grouping returns the walk of a choice, an existing or a new one. It waits a moment for its end, so that a short one
// is shown complete.
func (p *Page) grouping(ctx context.Context, c choice, anew bool) counted {
	p.groups.mu.Lock()
	g := p.groups.of[c]
	under := g != nil && g.look().Ended.IsZero()
	p.groups.tidy()
	if g == nil || !under && (anew || g.stale()) {
		if p.groups.under >= mostCounts {
			p.groups.mu.Unlock()
			return counted{choice: c, Err: &failure{http.StatusTooManyRequests, "Too many counts are under way: try it again in a moment."}, Began: time.Now(), Ended: time.Now()}
		}
		p.groups.under++
		g = &grouping{choice: c, Began: time.Now(), seen: time.Now(), done: make(chan struct{})}
		var walk context.Context
		walk, g.cancel = context.WithCancel(p.ctx)
		p.groups.of[c] = g
		go p.walk(walk, g)
	}
	p.groups.mu.Unlock()
	select {
	case <-g.done:
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	return g.look()
}

// tidy drops results that nobody looks at any more, and if there are too many, the least recently seen one.
func (all *groupings) tidy() {
	var oldest choice
	var seen time.Time
	results := 0
	for key, g := range all.of {
		g.mu.Lock()
		switch {
		case g.ended.IsZero():
		case time.Since(g.seen) > 10*time.Minute:
			delete(all.of, key)
		default:
			if results++; results == 1 || g.seen.Before(seen) {
				oldest, seen = key, g.seen
			}
		}
		g.mu.Unlock()
	}
	if results >= mostResults {
		delete(all.of, oldest)
	}
}

// last is the last count of a choice, however old, or else a new one.
func (p *Page) last(ctx context.Context, c choice) counted {
	p.groups.mu.Lock()
	g := p.groups.of[c]
	p.groups.mu.Unlock()
	if g != nil {
		if was := g.look(); !was.Ended.IsZero() && was.Err == nil {
			return was
		}
	}
	return p.grouping(ctx, c, false)
}

// forget drops the counts of a queue, because they are no longer right.
func (p *Page) forget(queue string) {
	p.groups.mu.Lock()
	defer p.groups.mu.Unlock()
	for c := range p.groups.of {
		if c.Queue == queue {
			delete(p.groups.of, c)
		}
	}
}

func (p *Page) walk(ctx context.Context, g *grouping) {
	defer close(g.done)
	defer g.cancel()
	defer func() {
		p.groups.mu.Lock()
		defer p.groups.mu.Unlock()
		p.groups.under--
	}()
	end := func(groups []operator.Group, err error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.groups, g.err, g.ended = groups, err, time.Now()
	}
	select {
	case p.groups.slots <- struct{}{}:
		defer func() { <-p.groups.slots }()
	case <-ctx.Done():
		end(nil, ctx.Err())
		return
	}
	groups, err := p.server.Groups(ctx, g.Queue, g.State, g.filter(), func(now operator.Progress) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.progress = now
		if time.Since(g.seen) > time.Minute { // all viewers have left
			g.cancel()
		}
	})
	if errors.Is(err, context.Canceled) {
		err = errors.New("the count was broken off")
	}
	for i := range groups { // an error may have 64 KiB, and this stays
		groups[i].Example.LastError = strings.Clone(cut(groups[i].Example.LastError, shownError))
	}
	end(groups, err)
}

// groupsScreen shows the jobs in a state by their errors.
type groupsScreen struct {
	counted
	p *Page
}

// Other reports whether a group has the jobs beyond the largest number of groups, and so no error of its own.
func (g groupsScreen) Other(group string) bool { return group == "{other}" }

// Link is the URL of a group's jobs.
func (g groupsScreen) Link(group string) string {
	return g.p.at([]string{"q", g.Queue, "search"}, "state", string(g.State), "group", mark(group), "match", g.Match, "older", g.OlderText())
}

// Here is the screen's own URL, and Anew the URL that counts again.
func (g groupsScreen) Here() string { return g.here() }
func (g groupsScreen) Anew() string { return g.here("anew", "1") }

func (g groupsScreen) here(more ...string) string {
	return g.p.at([]string{"q", g.Queue, "groups"}, append([]string{"state", string(g.State), "match", g.Match, "older", g.OlderText()}, more...)...)
}

// Actions are the buttons for the jobs.
func (g groupsScreen) Actions() []deed { return deeds(g.State) }

// Share is a group's percentage of all jobs.
func (g groupsScreen) Share(n int64) int64 { return max(1, 100*n/max(1, g.Jobs())) }

func (p *Page) grouped(w http.ResponseWriter, r *request) error {
	c, err := chosen(r, emq.StateDead, emq.StateDead, emq.StateScheduled)
	if err != nil {
		return err
	}
	anew := r.FormValue("anew") != ""
	g := groupsScreen{p.grouping(r.Context(), c, anew), p}
	if anew { // so that reloading the page does not count again
		http.Redirect(w, r.Request, g.Here(), http.StatusFound)
		return nil
	}
	f := frame{Title: "Errors of " + cut(visible(c.Queue), 60), Screen: "groups", Failed: passes(g.Err), Body: g}
	if g.Ended.IsZero() {
		f.Again = 2
	}
	return p.render(w, r, http.StatusOK, "groups", f)
}

// mark is a group in forms and URLs, where an empty value means no group, and not the group of jobs without an error.
func mark(group string) string { return "-" + encode(group) }

func unmark(s string) []string {
	if s == "" {
		return nil
	}
	return []string{decode(s[1:])}
}
