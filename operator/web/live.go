package web

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"emq/operator"
)

// stream is an answer that goes on: server-sent events.
type stream struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func open(w http.ResponseWriter) stream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx hands it on as it comes
	w.WriteHeader(http.StatusOK)
	return stream{w, http.NewResponseController(w)}
}

// wait gives who reads another while; one who does not is left. Some writers know no deadlines; then the listener's own must do.
func (s stream) wait() { _ = s.c.SetWriteDeadline(time.Now().Add(30 * time.Second)) }

// end leaves the connection to whatever request comes next on it.
func (s stream) end() { _ = s.c.SetWriteDeadline(time.Time{}) }

// send sends an event, or without a name a comment that only shows whether there is still somebody.
func (s stream) send(event string, data []byte) error {
	s.wait()
	var b bytes.Buffer
	if event == "" {
		b.WriteString(":\n\n")
	} else {
		fmt.Fprintf(&b, "event: %s\n", event)
		if bytes.IndexByte(data, '\r') >= 0 { // it ends a line too
			data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
		}
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			b.WriteString("data: ")
			b.Write(line)
			b.WriteByte('\n')
		}
		b.WriteByte('\n')
	}
	if _, err := s.w.Write(b.Bytes()); err != nil {
		return err
	}
	return s.c.Flush()
}

// frames are what was drawn of the last sample, by view, for all who look at the same.
type frames struct {
	mu    sync.Mutex
	of    *operator.Sample
	drawn map[string]*cached[*operator.Sample, []byte]
}

func (f *frames) draw(s *operator.Sample, view string, make func() []byte) []byte {
	f.mu.Lock()
	if f.of != s {
		f.of, f.drawn = s, map[string]*cached[*operator.Sample, []byte]{}
	}
	one := f.drawn[view]
	if one == nil {
		one = &cached[*operator.Sample, []byte]{}
		f.drawn[view] = one
	}
	f.mu.Unlock()
	return one.of(s, make)
}

// events streams what changes on a screen: whenever there is a new sample, the parts of the view that have changed by it.
func (p *Page) events(w http.ResponseWriter, r *request) error {
	q := r.URL.Query()
	view := q.Get("view")
	if view != "queues" && view != "queue" && view != "status" {
		return bad("A view is queues, queue or status.")
	}
	select {
	case p.streams <- struct{}{}:
		defer func() { <-p.streams }()
	default:
		return &failure{http.StatusTooManyRequests, "Too many are looking already: this screen is not live."}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)() // so that a server that shuts down need not wait for those who look
	s := open(w)
	defer s.end()
	if s.send("", nil) != nil {
		return nil
	}
	var last []byte
	names, _ := p.watched(p.latest(), view, q)
	for ctx.Err() == nil {
		again := false
		for sample := range p.sampler.Watch(ctx, names...) {
			o := p.overview(sample)
			now, _ := p.watched(o, view, q)
			drawn := p.frames.draw(sample, r.URL.RawQuery, func() []byte { return p.patch(o, view, q) })
			var err error
			if bytes.Equal(drawn, last) {
				err = s.send("", nil)
			} else {
				err = s.send("patch", drawn)
			}
			if err != nil {
				return nil
			}
			last = drawn
			if !slices.Equal(now, names) { // others are worst now
				names, again = now, true
				break
			}
		}
		if !again {
			return nil
		}
	}
	return nil
}

// watched is which queues a view shows.
func (p *Page) watched(o *overview, view string, q url.Values) ([]string, listing) {
	switch view {
	case "queues":
		l := p.listing(o, q)
		return l.names(), l
	case "queue":
		return []string{decode(q.Get("queue"))}, listing{}
	}
	return nil, listing{}
}

// patch is the parts of a view, each with its id.
func (p *Page) patch(o *overview, view string, q url.Values) []byte {
	var b bytes.Buffer
	t := p.screens["parts"]
	draw := func(name string, data any) {
		if err := t.ExecuteTemplate(&b, name, data); err != nil {
			p.o.Logger.Error("a part can't be made", "part", name, "error", err)
		}
	}
	draw("banner", p.banner(o.Sample))
	switch view {
	case "queues":
		_, l := p.watched(o, view, q)
		draw("totals", l)
		draw("queues", l)
		draw("news", l)
	case "queue":
		if i, ok := o.byName[decode(q.Get("queue"))]; ok {
			draw("figures", o.Queues[i])
		}
	}
	return b.Bytes()
}
