package web

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	emq "emq/clients/go"
	"emq/operator"
)

const (
	// A payload of up to fetched bytes is read without a request; shown bytes of it are shown at first, and most on
	// request. More can be downloaded.
	fetched = 256 << 10
	first   = 16 << 10
	most    = 1 << 20
)

// deed is a button for jobs.
type deed struct {
	Action operator.Action
	Label  string
	Grave  bool // it can't be undone
}

// deeds are the buttons for jobs in a state.
func deeds(s emq.State) []deed {
	remove := deed{operator.Remove, "Remove", true}
	switch s {
	case emq.StateDead:
		return []deed{{operator.Requeue, "Requeue", false}, remove}
	case emq.StateScheduled:
		return []deed{{operator.Requeue, "Run now", false}, remove}
	case emq.StateActive:
		return []deed{{operator.Release, "Release", false}, remove}
	}
	return []deed{remove}
}

// done is the past participle of a deed.
func done(a operator.Action, s emq.State) string {
	switch {
	case a == operator.Remove:
		return "removed"
	case a == operator.Release:
		return "released"
	case s == emq.StateScheduled:
		return "made pending"
	}
	return "requeued"
}

// allowed parses the action of a form, which must be possible in the state.
func allowed(r *request) (operator.Action, emq.State, error) {
	s, err := asked(r, "", states...)
	if err != nil {
		return "", "", err
	}
	a := operator.Action(r.PostFormValue("action"))
	for _, d := range deeds(s) {
		if d.Action == a && s != "" {
			return a, s, nil
		}
	}
	return "", "", bad("Jobs that are %.20s can't be asked to %.20q.", string(s), string(a))
}

// jobScreen shows a job.
type jobScreen struct {
	operator.Job
	As      string // json, text or hex
	Text    string // of the payload, as far as it is shown
	Fetched bool
	Cut     bool // there is more of it
	All     bool // all of it was requested
	p       *Page
}

// Actions are the job's buttons.
func (j jobScreen) Actions() []deed {
	if j.Foreign || j.Err != nil {
		return nil
	}
	return deeds(j.State)
}

// Line is a command that does the same as a button.
func (j jobScreen) Line(a operator.Action) string {
	b := base(j.Queue)
	switch a {
	case operator.Release:
		return shell(j.p.o.CLI, "EMQ.RELEASE", b, j.ID, strconv.FormatInt(j.Claims, 10), "0")
	case operator.Requeue:
		return shell(j.p.o.CLI, "EMQ.REQUEUE", b, string(j.State), j.ID)
	}
	return shell(j.p.o.CLI, "EMQ.REMOVE", b, string(j.State), j.ID)
}

// Forms are how a payload can be shown.
func (j jobScreen) Forms() []string { return []string{"json", "text", "hex"} }

// Look is a command that shows the row.
func (j jobScreen) Look() string { return shell(j.p.o.CLI, "HGETALL", base(j.Queue)+"job:"+j.ID) }

// View is the job's own URL, with its payload in another form.
func (j jobScreen) View(as string, all bool) string {
	payload := ""
	if all {
		payload = "all"
	}
	return j.p.at([]string{"q", j.Queue, "j", j.ID}, "as", as, "payload", payload)
}

func (p *Page) job(w http.ResponseWriter, r *request) error {
	j := jobScreen{p: p, All: r.FormValue("payload") == "all", As: r.FormValue("as")}
	var err error
	var done func()
	if j.Job, done, err = p.whole(r.Context(), r.queue(), r.id(), j.All); err != nil {
		return err
	}
	j.Queue, j.ID = r.queue(), r.id()
	if j.Fetched = j.Payload != nil || j.PayloadBytes == 0; j.Fetched {
		j.As, j.Text, err = as(j.Payload, j.As)
	}
	j.Payload = nil // only the text is needed while the screen is sent, which may take long
	if done(); err != nil {
		return err
	}
	if j.Fetched {
		bound := first
		if j.All {
			bound = most
		}
		j.Cut = len(j.Text) > bound || j.PayloadBytes > most
		if len(j.Text) > bound {
			for bound > 0 && !utf8.RuneStart(j.Text[bound]) {
				bound--
			}
			j.Text = j.Text[:bound]
		}
	}
	return p.render(w, r, http.StatusOK, "job", frame{Title: cut(visible(j.ID), 60), Screen: "job", Body: j})
}

// as formats a payload for people: in the requested form, or else in the first that fits. If the form does not fit, it
// shows the bytes.
func as(payload []byte, form string) (string, string, error) {
	// More is never shown.
	head := payload[:min(len(payload), most)]
	for form == "" {
		switch {
		case len(payload) <= most && json.Valid(payload):
			form = "json"
		case utf8.Valid(payload) && !bytes.ContainsRune(head, 0):
			form = "text"
		default:
			form = "hex"
		}
	}
	switch form {
	case "json":
		var b bytes.Buffer
		if len(payload) <= most && json.Indent(&b, payload, "", "  ") == nil {
			return form, lines(b.String()), nil
		}
		return form, lines(string(head)), nil
	case "text":
		return form, lines(string(head)), nil
	case "hex":
		return form, hex.Dump(head[:min(len(head), most/4)]), nil
	}
	return "", "", bad("A payload is shown as json, text or hex.")
}

// lines is visible, but keeps ends of lines and tabs.
func lines(s string) string {
	var b strings.Builder
	for line := range strings.SplitAfterSeq(s, "\n") {
		body, end := strings.TrimSuffix(line, "\n"), strings.HasSuffix(line, "\n")
		for i, part := range strings.Split(body, "\t") {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(visible(part))
		}
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// whole reads a job, with all its payload if that is requested. The number of such payloads is bounded, because each is
// in memory in one piece until done is called.
func (p *Page) whole(ctx context.Context, queue, id string, all bool) (j operator.Job, done func(), err error) {
	done = func() {}
	if j, err = p.server.Job(ctx, queue, id, fetched); err != nil || !all || j.PayloadBytes <= fetched {
		return j, done, err
	}
	select {
	case p.payloads <- struct{}{}:
		done = func() { <-p.payloads }
	case <-ctx.Done():
		return j, done, ctx.Err()
	}
	if j, err = p.server.Job(ctx, queue, id, -1); err != nil {
		done()
	}
	return j, done, err
}

// payload sends an unchanged payload. Whatever it is, no browser renders it as a page.
func (p *Page) payload(w http.ResponseWriter, r *request) error {
	j, done, err := p.whole(r.Context(), r.queue(), r.id(), true)
	if err != nil {
		return err
	}
	defer done()
	if j.Err != nil {
		return j.Err
	}
	name := strings.ReplaceAll(encode(r.id()), "~", "_")
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name[:min(len(name), 100)]+".bin"))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Content-Length", strconv.Itoa(len(j.Payload)))
	s := stream{w, http.NewResponseController(w)} // a long one may take longer than other responses
	defer s.end()
	for part := range slices.Chunk(j.Payload, 256<<10) {
		s.wait()
		if _, err := w.Write(part); err != nil {
			return nil // the viewer has left
		}
	}
	return nil
}

// do does something with one job.
func (p *Page) do(w http.ResponseWriter, r *request) error {
	a, s, err := allowed(r)
	if err != nil {
		return err
	}
	if a == operator.Remove { // after a confirmation
		return bad("What removes jobs asks first: send it to bulk.")
	}
	got, err := p.server.Impatient().Apply(r.Context(), a, r.queue(), s, func(yield func(string, error) bool) { yield(r.id(), nil) }, nil)
	p.log(r, string(a), err, "id", r.id(), "changed", got.Changed)
	text := "The job was " + done(a, s) + "."
	switch {
	case got.Refused > 0:
		text = "!The job was left alone: it belongs to a lane or a flow of EchoMQ's scripts, or is another's by now."
	case got.Changed == 0:
		text = fmt.Sprintf("!Nothing was changed: the job is no longer %s.", s)
	}
	return p.to(w, r, p.at([]string{"q", r.queue(), "j", r.id()}), text, err)
}

// find looks for a job in all queues.
func (p *Page) find(w http.ResponseWriter, r *request) error {
	id := strings.TrimSpace(r.FormValue("id"))
	type screen struct {
		ID     string
		Queues []string
		Err    error
	}
	f := screen{ID: id}
	if id != "" {
		if !strings.HasPrefix(id, "JOB") {
			f.Err = bad("An id begins with JOB.")
		} else if queue := r.FormValue("queue"); queue != "" {
			f.Queues = []string{decode(queue)}
		} else {
			f.Queues, f.Err = p.server.Find(r.Context(), id)
		}
		if f.Err == nil && len(f.Queues) == 1 {
			http.Redirect(w, r.Request, p.at([]string{"q", f.Queues[0], "j", id}), http.StatusFound)
			return nil
		}
	}
	return p.render(w, r, http.StatusOK, "find", frame{Title: "Find", Screen: "find", Body: f})
}
