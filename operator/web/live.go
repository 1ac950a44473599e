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

// stream is a response of server-sent events.
type stream struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func open(w http.ResponseWriter) stream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // so that nginx does not buffer it
	w.WriteHeader(http.StatusOK)
	return stream{w, http.NewResponseController(w)}
}

// wait extends the deadline for writing; a viewer who does not read is dropped. Some writers have no deadlines; then
// the listener's must do.
func (s stream) wait() { _ = s.c.SetWriteDeadline(time.Now().Add(30 * time.Second)) }

// end removes the deadline, for the next request on the connection.
func (s stream) end() { _ = s.c.SetWriteDeadline(time.Time{}) }

// send sends an event or, without a name, a comment that only shows whether the viewer is still there.
func (s stream) send(event string, data []byte) error {
	s.wait()
	var b bytes.Buffer
	if event == "" {
		b.WriteString(":\n\n")
	} else {
		fmt.Fprintf(&b, "event: %s\n", event)
		if bytes.IndexByte(data, '\r') >= 0 { // it would end a line too
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

// frames are the rendered parts of the last sample, by view, for all viewers of the same.
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

// events streams the changes of a screen: for each new sample, the parts of the view that have changed.
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
	defer context.AfterFunc(p.ctx, cancel)() // so that a server that shuts down does not wait for viewers
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
			if !slices.Equal(now, names) { // the order of need has changed
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

// watched are the queues that a view shows.
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

// patch renders the parts of a view, each with its id.
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
