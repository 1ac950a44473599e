package main

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"emq/operator"
)

// record is one line of --json: names and values in the order in which they were set. The names are stable, and
// documented in docs/command.md: …_ms is a duration, …_at_ms and …_until_ms are Unix times, …_bytes is a size.
type record struct{ line bytes.Buffer }

func (r *record) set(name string, v any) *record {
	if r.line.Len() == 0 {
		r.line.WriteByte('{')
	} else {
		r.line.WriteByte(',')
	}
	write := func(v any, end byte) {
		e := json.NewEncoder(&r.line)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			panic(err) // all values can be encoded
		}
		r.line.Truncate(r.line.Len() - 1)
		r.line.WriteByte(end)
	}
	write(name, ':')
	write(v, ' ')
	r.line.Truncate(r.line.Len() - 1)
	return r
}

// bytes sets a value that may not be text. If it is not UTF-8 it is null, and in base64 under name_base64.
func (r *record) bytes(name, s string) *record {
	if utf8.ValidString(s) {
		return r.set(name, s)
	}
	return r.set(name, nil).set(name+"_base64", base64.StdEncoding.EncodeToString([]byte(s)))
}

// time sets a Unix time in ms, or null for none.
func (r *record) time(name string, t time.Time) *record {
	if t.IsZero() {
		return r.set(name, nil)
	}
	return r.set(name, t.UnixMilli())
}

// fault sets the error, if there is one.
func (r *record) fault(err error) *record {
	if err != nil {
		r.set("error", strings.TrimPrefix(err.Error(), "emq: "))
	}
	return r
}

// emit prints a record.
func (a *app) emit(r *record) error {
	r.line.WriteString("}\n")
	_, err := a.out.Write(r.line.Bytes())
	return err
}

// printable, shell, count and many format texts as package operator does.
func printable(s string) string                   { return operator.Printable(s) }
func shell(s string) string                       { return operator.Shell(s) }
func count[N int | int64](n N) string             { return operator.Count(n) }
func many[N int | int64](n N, what string) string { return operator.Many(n, what) }

// output is the standard output. It remembers a failed write, so that the run fails even if a command ignores the error.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	o.err = cmp.Or(o.err, err)
	return n, err
}

// bare is the original stream of the command.
func bare(stream any) any {
	if o, ok := stream.(*output); ok {
		return o.Writer
	}
	return stream
}

// table prints rows in columns. A column whose name begins with > is aligned to the right. It can be printed in parts,
// of which the first determines the widths of the columns.
type table struct {
	head   []string
	rows   [][]string
	widths []int // determined by the first part
}

func columns(head ...string) *table { return &table{head: head} }

// add adds a row of printable texts.
func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// print prints the rows that were added since the last call.
func (t *table) print(a *app) error {
	a.unbar()
	_, err := io.WriteString(a.out, strings.Join(t.lines(a.colours(a.out)), "\n")+"\n")
	t.rows = nil
	return err
}

func (t *table) lines(p palette) (lines []string) {
	first := t.widths == nil
	if first {
		t.widths = make([]int, len(t.head))
		for i, h := range t.head {
			t.widths[i] = uniseg.StringWidth(strings.TrimPrefix(h, ">"))
		}
		for _, row := range t.rows {
			for i, cell := range row {
				t.widths[i] = max(t.widths[i], wide(cell))
			}
		}
	}
	line := func(cells []string) {
		var l strings.Builder
		for i, cell := range cells {
			pad := strings.Repeat(" ", max(t.widths[i]-wide(cell), 0))
			if strings.HasPrefix(t.head[i], ">") {
				cell = pad + cell
			} else {
				cell += pad
			}
			if i > 0 {
				l.WriteString("  ")
			}
			l.WriteString(cell)
		}
		lines = append(lines, strings.TrimRight(l.String(), " "))
	}
	head := make([]string, len(t.head))
	for i, h := range t.head {
		head[i] = p.faint(strings.TrimPrefix(h, ">"))
	}
	if first {
		line(head)
	}
	for _, row := range t.rows {
		line(row)
	}
	return lines
}

// wide is the number of columns that a text takes.
func wide(s string) int { return uniseg.StringWidth(plain(s)) }

// palette colours texts, or does not.
type palette bool

// colours is the palette of a stream: only terminals have colours, and only those without $NO_COLOR.
func (a *app) colours(stream any) palette {
	return palette(terminal(stream) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

func (p palette) paint(code, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
func (p palette) faint(s string) string  { return p.paint("2", s) }
func (p palette) bold(s string) string   { return p.paint("1", s) }
func (p palette) red(s string) string    { return p.paint("31", s) }
func (p palette) yellow(s string) string { return p.paint("33", s) }
func (p palette) green(s string) string  { return p.paint("32", s) }

// plain is a text without palette's colours.
func plain(s string) string {
	for {
		before, rest, ok := strings.Cut(s, "\x1b[")
		if !ok {
			return s
		}
		_, after, _ := strings.Cut(rest, "m")
		s = before + after
	}
}

// size is a number of bytes.
func size(n int64) string {
	switch {
	case n < 10_000:
		return many(n, "byte")
	case n < 10_000_000:
		return fmt.Sprintf("%.1f KiB", float64(n)/1024)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// span is a duration in its largest unit, or its two largest: 3m, 2h10m, 5d.
func span(d time.Duration) string {
	if d < 0 {
		return "-" + span(-d)
	}
	two := func(n time.Duration, unit string, rest time.Duration, small string) string {
		if n >= 10 || rest == 0 {
			return fmt.Sprintf("%d%s", n, unit)
		}
		return fmt.Sprintf("%d%s%d%s", n, unit, rest, small)
	}
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return two(d/time.Minute, "m", d%time.Minute/time.Second, "s")
	case d < day:
		return two(d/time.Hour, "h", d%time.Hour/time.Minute, "m")
	}
	return two(d/day, "d", d%day/time.Hour, "h")
}

// ago is how long ago a time was; empty for the zero time.
func ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return span(max(time.Since(t), 0))
}

// moment is a local time with its distance from now.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	away := span(time.Since(t)) + " ago"
	if d := time.Until(t); d > 0 {
		away = "in " + span(d)
	}
	return t.Local().Format("2006-01-02 15:04:05 MST") + " (" + away + ")"
}

// cut shortens a printable text to a width.
func cut(s string, width int) string {
	if uniseg.StringWidth(s) <= width {
		return s
	}
	var b strings.Builder
	left := width - 1
	for g := uniseg.NewGraphemes(s); g.Next() && left >= g.Width(); left -= g.Width() {
		b.WriteString(g.Str())
	}
	return b.String() + "…"
}
