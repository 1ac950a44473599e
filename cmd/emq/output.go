package main

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
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

// printable escapes invisible characters, which might control a terminal, as Go does; the result is one line.
func printable(s string) string {
	if strings.IndexFunc(s, func(c rune) bool { return c == utf8.RuneError || !unicode.IsPrint(c) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		c, n := utf8.DecodeRuneInString(s)
		switch {
		case c == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unicode.IsPrint(c):
			b.WriteRune(c)
		default:
			q := strconv.QuoteRune(c)
			b.WriteString(q[1 : len(q)-1])
		}
		s = s[n:]
	}
	return b.String()
}

// shell quotes a text as a word of a shell.
func shell(s string) string {
	switch {
	case s != "" && strings.IndexFunc(s, func(c rune) bool {
		return !(c < 128 && (unicode.IsLetter(c) || unicode.IsDigit(c)) || strings.ContainsRune("-_./:@,+", c))
	}) < 0:
		return s
	case s == printable(s):
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\'' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < ' ' || c >= 127:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return "$'" + b.String() + "'"
}

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

// table prints rows in columns. A column whose name begins with > is aligned to the right.
type table struct {
	head []string
	rows [][]string
}

func columns(head ...string) *table { return &table{head: head} }

// add adds a row of printable texts.
func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print(a *app) error {
	_, err := io.WriteString(a.out, strings.Join(t.lines(a.colours(a.out)), "\n")+"\n")
	return err
}

func (t *table) lines(p palette) (lines []string) {
	widths := make([]int, len(t.head))
	for i, h := range t.head {
		widths[i] = uniseg.StringWidth(strings.TrimPrefix(h, ">"))
	}
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], wide(cell))
		}
	}
	line := func(cells []string) {
		var l strings.Builder
		for i, cell := range cells {
			pad := strings.Repeat(" ", widths[i]-wide(cell))
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
	line(head)
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

// count formats a number with separated thousands.
func count[N int | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// many is a number of things: "1 job", "3,000 jobs".
func many[N int | int64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return count(n) + " " + thing
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
