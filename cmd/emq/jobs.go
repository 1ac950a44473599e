package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	emq "emq/clients/go"
	"emq/operator"
)

var states = []emq.State{emq.StatePending, emq.StateActive, emq.StateScheduled, emq.StateDead}

// stateFlag adds a flag for one of the states.
func stateFlag(cmd *cobra.Command, s *string, standard, what string, of ...emq.State) {
	names := make([]string, len(of))
	for i, state := range of {
		names[i] = string(state)
	}
	cmd.Flags().StringVarP(s, "state", "s", standard, what+": "+strings.Join(names, ", "))
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

// stateOf parses such a flag.
func stateOf(s string, of ...emq.State) (emq.State, error) {
	if slices.Contains(of, emq.State(s)) {
		return emq.State(s), nil
	}
	return "", usage("--state %s is none of %v", printable(s), of)
}

// timeOf parses a time: how long ago, or a point in local time.
func timeOf(s string) (time.Time, error) {
	now := time.Now()
	if d, err := durationOf(s); err == nil {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.Local), nil
		}
	}
	return now, usage("%q is no time: how long ago (90m, 2h30m, 3d), 15:04, 2006-01-02 or 2006-01-02 15:04", s)
}

// durationOf parses a duration in Go's form, or in days.
func durationOf(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		d, err := time.ParseDuration(days + "h")
		if err == nil && d.Abs() > math.MaxInt64/24 {
			err = errors.New("too long")
		}
		return 24 * d, err
	}
	return time.ParseDuration(s)
}

// possible refuses names that no queue can have.
func possible(names ...string) error {
	for _, name := range names {
		if err := emq.CheckName(name); err != nil {
			return usage("%w", err)
		}
	}
	return nil
}

// present refuses names of queues that do not exist and never had a job. It also refuses a server without the module or
// of another wire, which can't tell: that it lists no queues does not mean that they are empty. A queue that is partly
// broken, or whose figures the user may not read, counts as existing.
func (a *app) present(ctx context.Context, s *operator.Server, names ...string) error {
	if err := possible(names...); err != nil {
		return err
	}
	queues, err := s.Queues(ctx, names...)
	if err != nil {
		return err
	}
	for _, q := range queues {
		switch {
		case q.Err != nil && !isClass(q.Err, "WRONGTYPE") && !isClass(q.Err, "NOPERM"):
			return q.Err
		case blank(q):
			if moves, err := s.Moves(ctx, q.Name); err != nil {
				return err
			} else if len(moves) > 0 {
				continue // the queue exists: all of its jobs are on their way to another
			}
			return absent("there is no queue %s; \"emq ls\" lists them", shell(q.Name))
		}
	}
	return nil
}

// blank reports whether a queue has never had a job.
func blank(q operator.Queue) bool {
	return q.Err == nil && q.Pending+q.Active+q.Scheduled+q.Dead+q.Completed+q.Failed+q.Waiting == 0 && !q.Paused && q.Limits == emq.Limits{}
}

// jobRecord is a job's record for --json, without its payload.
func jobRecord(j operator.Job) *record {
	return new(record).bytes("queue", j.Queue).bytes("id", j.ID).set("state", j.State).time("made_at_ms", j.Made).time("due_at_ms", j.Due).
		set("claims", j.Claims).set("failures", j.Failures).set("lost_leases", j.LostLeases).bytes("last_error", j.LastError).
		set("payload_bytes", j.PayloadBytes).set("foreign", j.Foreign).fault(j.Err)
}

// payload adds a job's payload, or null if there is none.
func (r *record) payload(j operator.Job) *record {
	if j.Payload == nil {
		return r.set("payload", nil)
	}
	return r.bytes("payload", string(j.Payload))
}

// room is the width of the terminal; for other outputs, the largest width of a line.
func (a *app) room() int {
	if f, ok := bare(a.out).(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 200
}

// jobPage is how many jobs a table prints at a time.
const jobPage = 1000

// jobTable lists jobs page by page. Errors and payloads are cut to the width that the first page leaves for them.
type jobTable struct {
	*table
	a      *app
	failed bool // has a column for errors
	left   int
}

func (a *app) jobTable() *jobTable { return &jobTable{a: a} }

// print prints jobs of a state. more announces further pages: their jobs may have errors even if these have none.
func (t *jobTable) print(state emq.State, jobs []operator.Job, more bool) error {
	if len(jobs) == 0 {
		return nil
	}
	p := t.a.colours(t.a.out)
	var rows [][]string
	for _, j := range jobs {
		row := []string{printable(j.ID), ago(j.Made)}
		if state == emq.StateActive || state == emq.StateScheduled {
			row = append(row, span(time.Until(j.Due)))
		}
		rows = append(rows, append(row, count(j.Claims), count(j.Failures)))
	}
	if t.table == nil {
		head := []string{"ID", ">MADE"}
		if timed := map[emq.State]string{emq.StateActive: ">LEASE", emq.StateScheduled: ">DUE"}[state]; timed != "" {
			head = append(head, timed)
		}
		head = append(head, ">CLAIMS", ">FAILURES")
		used := 0
		for _, row := range rows {
			width := 0
			for i, cell := range row {
				width += max(wide(cell), len(head[i])) + 2
			}
			used = max(used, width)
		}
		t.left = max(t.a.room()-used, 30)
		if t.failed = more || slices.ContainsFunc(jobs, func(j operator.Job) bool { return j.LastError != "" }); t.failed {
			head = append(head, "LAST ERROR")
		}
		t.table = columns(append(head, "PAYLOAD")...)
	}
	for i, j := range jobs {
		row, left := rows[i], t.left
		if t.failed {
			half := left * 3 / 5
			row = append(row, cut(printable(j.LastError), half-2))
			left -= half
		}
		body := cut(printable(string(j.Payload)), left)
		switch {
		case j.Err != nil:
			body = p.red(printable(j.Err.Error()))
		case j.Payload == nil && j.PayloadBytes > 0:
			body = p.faint("(" + size(j.PayloadBytes) + ")")
		}
		t.add(append(row, body)...)
	}
	return t.table.print(t.a)
}

// readable is a payload for people: indented JSON, text without terminal control characters, or else bytes in hex; kind
// says which. Of a long payload it is the beginning, about so many bytes.
func readable(payload []byte, most int) (text, kind string) {
	var indented bytes.Buffer
	begin := bytes.TrimLeft(payload, " \t\r\n")
	strange := func(c rune) bool {
		return c == utf8.RuneError || unicode.IsControl(c) && !strings.ContainsRune("\t\n\r", c)
	}
	switch {
	case !utf8.Valid(payload) || bytes.IndexFunc(payload, strange) >= 0:
		return strings.TrimSuffix(hex.Dump(payload[:min(len(payload), most)]), "\n"), "binary"
	case len(begin) > 0 && (begin[0] == '{' || begin[0] == '[') && json.Indent(&indented, payload, "", "  ") == nil:
		text, kind = strings.TrimSpace(indented.String()), "JSON"
	default:
		text, kind = string(payload), "text"
	}
	if len(payload) > most {
		text = strings.ToValidUTF8(text[:min(len(text), most)], "") // without an incomplete character at the end
	}
	return block(text), kind
}

// block is a text of several lines, each printable.
func block(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = printable(strings.ReplaceAll(strings.TrimSuffix(line, "\r"), "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

// completing returns the server for a shell's completion, which must neither ask for a password nor take long.
func (a *app) completing() (context.Context, *operator.Server, context.CancelFunc, error) {
	a.quiet, a.timeout = true, min(a.timeout, time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	s, err := a.server(ctx)
	return ctx, s, cancel, err
}

// completeQueues completes the names of queues, for the first n arguments or, with -1, for all.
func (a *app) completeQueues(n int) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		if n >= 0 && len(args) >= n {
			return nil, none
		}
		ctx, s, cancel, err := a.completing()
		defer cancel()
		if err != nil {
			return nil, none
		}
		names, err := s.Names(ctx)
		if err != nil {
			return nil, none
		}
		return slices.DeleteFunc(names, func(name string) bool {
			return !strings.HasPrefix(name, begun) || name != printable(name) || slices.Contains(args, name)
		}), none
	}
}

// again is the command's name with the flags for the same server, for printed commands.
func (a *app) again() string {
	s := "emq"
	for _, f := range [][2]string{{"--url", a.URL}, {"--context", a.context}, {"--password-file", a.PasswordFile}, {"--tls-ca", a.TLSCA},
		{"--tls-cert", a.TLSCert}, {"--tls-key", a.TLSKey}} {
		if f[1] != "" {
			s += " " + f[0] + " " + shell(f[1])
		}
	}
	return s
}

// line is a printed command: its name, the names and ids that it is about, and flags, each quoted for the shell. Names
// that look like a flag come last.
func (a *app) line(command string, about []string, flags ...string) string {
	words := append(slices.Clone(about), flags...)
	if slices.ContainsFunc(about, func(word string) bool { return strings.HasPrefix(word, "-") }) {
		words = append(append(slices.Clone(flags), "--"), about...)
	}
	s := a.again() + " " + command
	for _, w := range words {
		s += " " + shell(w)
	}
	return s
}
