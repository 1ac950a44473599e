// Package web is a web page about the queues of a server: their figures and traffic, their jobs, the dead letters by
// their errors, and the actions of an operator. It is an [http.Handler], to be served alone or as a part of a program:
//
//	page := web.New(operator.New(conn), web.Options{BasePath: "/queues", Auth: auth})
//	go page.Run(ctx)
//	mux.Handle("/queues/", page)
//
// A request reads from the server only what it shows. The figures of all queues come from one sampler for all viewers.
// See docs/page.md for the rest.
package web

import (
	"context"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"emq/operator"
)

// Options configure a page. The zero value allows everything to everybody: it is for a listener that only its owner can
// reach.
type Options struct {
	Title    string // of the page; "EMQ" if it is empty
	BasePath string // where the page is served: "/queues"
	ReadOnly bool   // nobody can change anything
	Auth     Auth   // who may view, and who may act; nil: everybody may do both
	// Hosts are the names under which the page is served, as browsers send them, without a port. Requests for other
	// names are refused, so that a foreign name can't be made to point here. If it is empty, all names are served.
	Hosts []string
	// CLI is the beginning of the commands that do the same as a button; "valkey-cli" if it is empty.
	CLI    string
	Logger *slog.Logger // slog.Default() if it is nil
}

// Page serves the page. [Page.Run] must run for it to know the queues.
type Page struct {
	server  *operator.Server
	sampler *operator.Sampler
	o       Options
	base    string // "" or "/queues", as it stands in URLs
	routes  http.Handler
	origins *http.CrossOriginProtection

	ctx  context.Context // for what outlasts a request; it ends with Run
	stop context.CancelFunc

	screens map[string]*template.Template
	over    cached[*operator.Sample, *overview]
	frames  frames

	groups   groupings
	tasks    tasks
	streams  chan struct{} // bounds the streams of changes
	searches chan struct{} // bounds those of searches
	looks    chan struct{} // bounds the searches without a stream
	payloads chan struct{} // bounds the long payloads in memory
}

// New returns a page about a server.
func New(s *operator.Server, o Options) *Page {
	if o.Title == "" {
		o.Title = "EMQ"
	}
	if o.CLI == "" {
		o.CLI = "valkey-cli"
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	p := &Page{server: s, sampler: s.Sampler(), o: o, origins: http.NewCrossOriginProtection()}
	for segment := range strings.SplitSeq(o.BasePath, "/") {
		if segment != "" {
			p.base += "/" + url.PathEscape(segment)
		}
	}
	p.groups = groupings{of: map[choice]*grouping{}, slots: make(chan struct{}, 2)}
	p.tasks.slots = make(chan struct{}, 2)
	p.streams, p.searches, p.looks = make(chan struct{}, 250), make(chan struct{}, 4), make(chan struct{}, 4)
	p.payloads = make(chan struct{}, 4)
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.screens = p.templates()
	p.routes = p.route()
	return p
}

// Run samples the queues for the page until the context ends; then it also ends background work and streams.
func (p *Page) Run(ctx context.Context) error {
	defer p.stop()
	return p.sampler.Run(ctx)
}

// Title is the page's title.
func (p *Page) Title() string { return p.o.Title }

// ReadOnly reports whether nobody can change anything.
func (p *Page) ReadOnly() bool { return p.o.ReadOnly }

// policy allows only what the page uses.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// ServeHTTP responds to a request.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if !p.served(r.Host) {
		http.Error(w, "This page is not served under that name.", http.StatusMisdirectedRequest)
		return
	}
	if err := p.origins.Check(r); err != nil {
		http.Error(w, "Requests that change something must come from this page itself: "+err.Error(), http.StatusForbidden)
		return
	}
	if embedded(r.Header) {
		http.Error(w, "Other sites may link to this page, and not embed what is on it.", http.StatusForbidden)
		return
	}
	p.routes.ServeHTTP(w, r)
}

// embedded reports whether another site embeds something of this page, as a picture, a script or a frame. It could not
// read it, but it could make the server count and search without limit.
func embedded(h http.Header) bool {
	switch h.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return h.Get("Sec-Fetch-Mode") != "navigate" || h.Get("Sec-Fetch-Dest") != "document"
	}
	return false
}

func (p *Page) served(host string) bool {
	if len(p.o.Hosts) == 0 {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return slices.ContainsFunc(p.o.Hosts, func(name string) bool { return strings.EqualFold(name, host) })
}

// cached is the last value that was computed from a key; it is computed again when the key changes.
type cached[K comparable, V any] struct {
	mu    sync.Mutex
	key   K
	value V
	made  bool
}

func (c *cached[K, V]) of(key K, make func() V) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.made || c.key != key {
		c.key, c.value, c.made = key, make(), true
	}
	return c.value
}
