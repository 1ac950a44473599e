package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"emq/operator"
)

// overview is a sample, and what is computed from it for several uses.
type overview struct {
	*operator.Sample
	byName                                    map[string]int
	Pending, Active, Scheduled, Dead, Waiting int64
	In, Out                                   float64
	Trouble, Paused                           int
}

// latest is the overview of the last sample, which is computed once for all viewers.
func (p *Page) latest() *overview { return p.overview(p.sampler.Latest()) }

func (p *Page) overview(s *operator.Sample) *overview {
	return p.over.of(s, func() *overview {
		o := &overview{Sample: s, byName: make(map[string]int, len(s.Queues))}
		for i, q := range s.Queues {
			o.byName[q.Name] = i
			o.Pending, o.Active, o.Scheduled = o.Pending+q.Pending, o.Active+q.Active, o.Scheduled+q.Scheduled
			o.Dead, o.Waiting, o.In, o.Out = o.Dead+q.Dead, o.Waiting+q.Waiting, o.In+q.In, o.Out+q.Out
			if q.Trouble != operator.OK {
				o.Trouble++
			}
			if q.Paused {
				o.Paused++
			}
		}
		return o
	})
}

// listing is a page of the queues.
type listing struct {
	*overview
	Name       string // the text that the shown names contain
	Page, Size int
	Pages      int
	Found      int // number of queues with such a name
	Shown      []operator.Sampled
	p          *Page
}

func (p *Page) listing(o *overview, q url.Values) listing {
	l := listing{overview: o, p: p, Name: q.Get("name"), Size: 50}
	if q.Get("n") == "100" {
		l.Size = 100
	}
	l.Page, _ = strconv.Atoi(q.Get("page"))
	l.Page = max(l.Page, 1)
	var found []int // there may be thousands: only those on the page are copied
	part := strings.ToLower(l.Name)
	for i := range o.Queues {
		if part == "" || strings.Contains(strings.ToLower(visible(o.Queues[i].Name)), part) {
			found = append(found, i)
		}
	}
	l.Found = len(found)
	l.Pages = max(1, (l.Found+l.Size-1)/l.Size)
	l.Page = min(l.Page, l.Pages)
	for _, i := range found[min((l.Page-1)*l.Size, l.Found):min(l.Page*l.Size, l.Found)] {
		l.Shown = append(l.Shown, o.Queues[i])
	}
	return l
}

// Query is the listing's query for another page.
func (l listing) Query(page int) []string {
	query := []string{"name", l.Name}
	if l.Size != 50 {
		query = append(query, "n", strconv.Itoa(l.Size))
	}
	if page > 1 {
		query = append(query, "page", strconv.Itoa(page))
	}
	return query
}

// Link is the URL of the page that many steps further.
func (l listing) Link(step int) string { return l.p.at(nil, l.Query(l.Page+step)...) }

// Events is the URL of the stream of the page's changes.
func (l listing) Events() string {
	return l.p.at([]string{"events"}, append([]string{"view", "queues"}, l.Query(l.Page)...)...)
}

// First is a command that enqueues a first job.
func (l listing) First() string {
	return shell(l.p.o.CLI, "EMQ.ENQUEUE", "2", "emq:{mails}:job:JOB00000000001", "emq:{mails}:pending", "JOB00000000001", "to: ann")
}

func (l listing) names() []string {
	names := make([]string, len(l.Shown))
	for i, q := range l.Shown {
		names[i] = q.Name
	}
	return names
}

func (p *Page) queues(w http.ResponseWriter, r *request) error {
	l := p.listing(p.latest(), r.URL.Query())
	return p.render(w, r, http.StatusOK, "queues", frame{
		Title: "Queues", Screen: "queues", Live: l.Events(), Body: l,
	})
}

// banner says that the server can't be asked, and since when the figures are old.
type banner struct {
	Text   string
	At     time.Time
	Passes bool // it will end by itself; otherwise the server keeps refusing
}

// banner is the banner if the last sample failed.
func (p *Page) banner(s *operator.Sample) *banner {
	if s.Err == nil {
		return nil
	}
	b := &banner{Text: strings.TrimSuffix(reason(s.Err), "."), Passes: passes(s.Err)}
	for _, q := range s.Queues {
		if q.At.After(b.At) {
			b.At = q.At
		}
	}
	return b
}

func (p *Page) health(w http.ResponseWriter, r *request) error {
	checks := slices.Clone(p.latest().Checks)
	if checks == nil { // there was no check yet
		checks = p.server.Doctor(r.Context())
	}
	slices.SortStableFunc(checks, operator.WorstFirst)
	return p.render(w, r, http.StatusOK, "health", frame{Title: "Health", Screen: "health", Body: checks})
}
