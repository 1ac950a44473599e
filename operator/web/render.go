package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	emq "emq/clients/go"
	"emq/operator"
)

//go:embed templates assets
var files embed.FS

// request is a request with its sender.
type request struct {
	*http.Request
	user string
	role Role
}

// User is the sender's name, if it is known.
func (r *request) User() string { return r.user }

func (r *request) queue() string { return decode(r.PathValue("queue")) }
func (r *request) id() string    { return decode(r.PathValue("id")) }

// handler responds to a request, or returns an error and has written nothing.
type handler func(w http.ResponseWriter, r *request) error

// failure is what a viewer sees instead of a page.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }

func bad(format string, args ...any) error {
	return &failure{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

var errNoPage = &failure{http.StatusNotFound, "There is no such page."}

// handle requires at least the given role.
func (p *Page) handle(least Role, h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		r := &request{Request: hr, role: Operator}
		if p.o.Auth != nil {
			r.user, r.role = p.o.Auth.Who(hr)
		}
		if r.role == Nobody {
			if r.user != "" {
				p.o.Logger.Warn("not let in", "user", r.user, "from", r.RemoteAddr)
			}
			status := http.StatusForbidden
			if b, ok := p.o.Auth.(interface{ challenge() string }); ok {
				w.Header().Set("WWW-Authenticate", b.challenge())
				status = http.StatusUnauthorized
			}
			http.Error(w, "You may not see this page.", status)
			return
		}
		if p.o.ReadOnly {
			r.role = Viewer
		}
		var err error
		switch {
		case r.role < least && p.o.ReadOnly:
			err = &failure{http.StatusForbidden, "This page is read-only: nothing can be changed on it."}
		case r.role < least:
			err = &failure{http.StatusForbidden, "You may look, and change nothing: that takes the role of an operator."}
		default:
			hr.Body = http.MaxBytesReader(w, hr.Body, 1<<20)
			err = h(w, r)
		}
		if err != nil {
			p.fail(w, r, err)
		}
	})
}

// fail shows an error as a page.
func (p *Page) fail(w http.ResponseWriter, r *request, err error) {
	status := http.StatusBadRequest
	var f *failure
	var refusal *emq.Error
	switch {
	case errors.As(err, &f):
		status = f.status
	case errors.Is(err, operator.ErrNoJob):
		status = http.StatusNotFound
	case errors.As(err, &refusal), passes(err): // Valkey refused, or does not answer
		status = http.StatusBadGateway
	}
	if err := p.render(w, r, status, "error", frame{Title: http.StatusText(status), Screen: "error", Failed: passes(err), Body: err}); err != nil {
		p.o.Logger.Error("a page can't be made", "path", r.URL.Path, "error", err)
		http.Error(w, "This page can't be made.", http.StatusInternalServerError)
	}
}

// frame is the common part of all screens.
type frame struct {
	Title  string
	Screen string
	Live   string // the query of the stream with what changes on it; "" for the banner alone
	Failed bool   // something is missing on it that comes back by itself
	Again  int    // seconds after which to reload it without JavaScript; 0: never
	Body   any

	P     *Page
	R     *request
	Theme string
	Flash *flash
}

// Can reports whether the viewer may act.
func (f frame) Can() bool { return f.R.role == Operator }

// Here is the screen's own URL. For the response to a form it is the URL above, because the form's own can't be visited.
func (f frame) Here() string {
	if f.R.Method == http.MethodPost {
		return path.Dir(f.R.URL.EscapedPath())
	}
	return f.R.URL.RequestURI()
}

// Banner is why the server can't be asked.
func (f frame) Banner() *banner { return f.P.banner(f.P.sampler.Latest()) }

var pages = func() map[string]*template.Template {
	none := func(...any) string { return "" }
	base := template.New("").Funcs(formats).Funcs(template.FuncMap{"url": none, "asset": none, "ask": func() ask { return ask{} }})
	base = template.Must(base.ParseFS(files, "templates/layout.html", "templates/parts.html"))
	all := map[string]*template.Template{"parts": base}
	names, _ := fs.Glob(files, "templates/*.html")
	for _, name := range names {
		if short := strings.TrimSuffix(path.Base(name), ".html"); short != "layout" && short != "parts" {
			all[short] = template.Must(template.Must(base.Clone()).ParseFS(files, name))
		}
	}
	return all
}()

// templates are the screens, bound to this page.
func (p *Page) templates() map[string]*template.Template {
	all := maps.Clone(pages)
	for name, t := range all {
		all[name] = template.Must(t.Clone()).Funcs(template.FuncMap{"url": p.url, "asset": p.assetURL})
	}
	return all
}

// ask separates the path and the query. No name can be mistaken for it.
type ask struct{}

// url is [Page.at] for templates: the words before ask are the segments, those after it the query.
func (p *Page) url(words ...any) string {
	var segments, query []string
	to := &segments
	for _, w := range words {
		if w == (ask{}) {
			to = &query
			continue
		}
		*to = append(*to, fmt.Sprint(w))
	}
	return p.at(segments, query...)
}

// render writes a screen after it was rendered completely.
func (p *Page) render(w http.ResponseWriter, r *request, status int, name string, f frame) error {
	f.P, f.R, f.Theme = p, r, "auto"
	if c, err := r.Cookie("emq-theme"); err == nil && (c.Value == "dark" || c.Value == "light") {
		f.Theme = c.Value
	}
	f.Flash = p.unflash(w, r)
	var b bytes.Buffer
	if err := p.screens[name].ExecuteTemplate(&b, "layout", f); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, err := w.Write(b.Bytes())
	_ = err // the viewer has left
	return nil
}

// flash is the effect of a button, shown on the next screen.
type flash struct {
	Text string
	Bad  bool
}

// to finishes a POST: it redirects to a URL, which shows the effect.
func (p *Page) to(w http.ResponseWriter, r *request, where, text string, err error) error {
	if err != nil {
		text = "!" + outcome(err)
	}
	if text != "" {
		if len(text) > 1500 { // a cookie is limited to 4 KiB, and each byte may take three
			text = text[:1000] + "…"
		}
		p.keep(w, r, &http.Cookie{Name: "emq-flash", Value: url.QueryEscape(text), SameSite: http.SameSiteStrictMode, MaxAge: 60})
	}
	http.Redirect(w, r.Request, where, http.StatusSeeOther)
	return nil
}

// keep sets a cookie of the page. It is Secure if the request came by TLS. A proxy that is trusted to name the user is
// also believed about TLS.
func (p *Page) keep(w http.ResponseWriter, r *request, c *http.Cookie) {
	_, trusted := p.o.Auth.(proxied)
	c.Path, c.HttpOnly = p.base+"/", true
	c.Secure = r.TLS != nil || trusted && r.Header.Get("X-Forwarded-Proto") == "https"
	http.SetCookie(w, c)
}

func (p *Page) unflash(w http.ResponseWriter, r *request) *flash {
	c, err := r.Cookie("emq-flash")
	if err != nil {
		return nil
	}
	p.keep(w, r, &http.Cookie{Name: "emq-flash", MaxAge: -1, SameSite: http.SameSiteStrictMode})
	text, err := url.QueryUnescape(c.Value)
	if err != nil || text == "" {
		return nil
	}
	return &flash{strings.TrimPrefix(text, "!"), strings.HasPrefix(text, "!")}
}

// reason is the text of an error for people.
func reason(err error) string {
	var refusal *emq.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refusal) && refusal.Class() == "NOPERM":
		return "The page's user of Valkey has not the right to do this: " + visible(refusal.Text)
	case errors.As(err, &refusal) && refusal.Class() == "READONLY":
		return "This Valkey is a replica, and takes no changes: its primary does."
	case errors.As(err, &refusal):
		return "Valkey refused it: " + visible(refusal.Text)
	}
	return visible(strings.TrimPrefix(err.Error(), "emq: "))
}

// outcome explains why a change was not made, or that it may have been made although no answer came.
func outcome(err error) string {
	var refusal *emq.Error
	var broken *net.OpError
	switch {
	case errors.As(err, &refusal) || !passes(err):
		return reason(err)
	case errors.As(err, &broken) && broken.Op == "dial":
		return "Valkey can't be reached, so nothing was changed: " + reason(err)
	}
	return "Valkey did not answer (" + reason(err) + "). It may have been done all the same: see how it is now, before you do it again."
}

// passes reports whether one of the errors will end by itself: the server can't be reached, or does not serve at the
// moment.
func passes(errs ...error) bool {
	return slices.ContainsFunc(errs, func(err error) bool {
		if refusal := (*emq.Error)(nil); errors.As(err, &refusal) {
			return slices.Contains([]string{"LOADING", "MASTERDOWN", "READONLY", "BUSY", "TRYAGAIN", "NOREPLICAS", "MISCONF"}, refusal.Class())
		}
		var broken net.Error
		return errors.As(err, &broken) || errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded)
	})
}

// theme stores a viewer's choice of colours.
func (p *Page) theme(w http.ResponseWriter, r *request) error {
	theme := r.PostFormValue("theme")
	if theme != "dark" && theme != "light" && theme != "auto" {
		return bad("A theme is dark, light or auto.")
	}
	p.keep(w, r, &http.Cookie{Name: "emq-theme", Value: theme, SameSite: http.SameSiteLaxMode, MaxAge: 365 * 24 * 3600})
	to := r.PostFormValue("to")
	// Only a path of this page: //other.example would be another host, and so would /\other.example, also with a tab or an end
	// of line between the slashes, which browsers ignore.
	if _, err := url.Parse(to); err != nil || !strings.HasPrefix(to, p.base+"/") || strings.HasPrefix(to, "//") || strings.ContainsRune(to, '\\') {
		to = p.base + "/"
	}
	return p.to(w, r, to, "", nil)
}

var sums = func() map[string]string {
	all := map[string]string{}
	fs.WalkDir(files, "assets", func(name string, d fs.DirEntry, err error) error {
		if b, err := files.ReadFile(name); err == nil {
			sum := sha256.Sum256(b)
			all[strings.TrimPrefix(name, "assets/")] = hex.EncodeToString(sum[:6])
		}
		return err
	})
	return all
}()

func (p *Page) assetURL(name string) string { return p.base + "/assets/" + name + "?v=" + sums[name] }

func (p *Page) asset(w http.ResponseWriter, r *request) error {
	name := r.PathValue("file")
	b, err := files.ReadFile("assets/" + name)
	if err != nil {
		return errNoPage
	}
	kind := mime.TypeByExtension(path.Ext(name))
	switch path.Ext(name) { // independent of the system's tables
	case ".js":
		kind = "text/javascript; charset=utf-8"
	case ".css":
		kind = "text/css; charset=utf-8"
	case ".svg":
		kind = "image/svg+xml"
	case ".md", ".LICENSE":
		kind = "text/plain; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == sums[name] { // a changed file has another URL
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	w.Write(b)
	return nil
}
