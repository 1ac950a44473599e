package test

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	identity = "{emq}:version"
	wire6    = "echomq:6.0.0"

	maxTime  = 1<<52 - 1
	maxInt31 = 1<<31 - 1
	maxToken = 1<<53 - 1 // what the last claim of a row grants
)

// queue is a queue's name; its methods are the names of its keys.
type queue string

func (q queue) base() string           { return "emq:{" + string(q) + "}:" }
func (q queue) rows() string           { return q.base() + "job:" }
func (q queue) row(id string) string   { return q.rows() + id }
func (q queue) pending() string        { return q.base() + "pending" }
func (q queue) active() string         { return q.base() + "active" }
func (q queue) schedule() string       { return q.base() + "schedule" }
func (q queue) dead() string           { return q.base() + "dead" }
func (q queue) completed() string      { return q.base() + "metrics:completed" }
func (q queue) failed() string         { return q.base() + "metrics:failed" }
func (q queue) set(name string) string { return q.base() + name }

// The four verbs, with every key and argument in its place.

func (q queue) enqueue(id, payload string) []string {
	return []string{"EMQ.ENQUEUE", "2", q.row(id), q.pending(), id, payload}
}

func (q queue) claim(lease int64) []string {
	return []string{"EMQ.CLAIM", "2", q.pending(), q.active(), q.rows(), strconv.FormatInt(lease, 10)}
}

func (q queue) complete(id, token string) []string {
	return []string{"EMQ.COMPLETE", "2", q.active(), q.row(id), id, token, q.base()}
}

func (q queue) fail(id, token string, delay, limit int64, reason string) []string {
	return []string{
		"EMQ.FAIL", "4", q.active(), q.schedule(), q.dead(), q.row(id), id, token,
		strconv.FormatInt(delay, 10), strconv.FormatInt(limit, 10), reason, q.base(),
	}
}

// Replies, as the bytes of RESP2; the two versions differ only in how they write nil.

const (
	nothing = "$-1\r\n"
	empty   = "*0\r\n"
	gone    = "-EMQSTALE job gone\r\n"
)

func bulk(s string) string      { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
func integer(n int64) string    { return fmt.Sprintf(":%d\r\n", n) }
func array(of ...string) string { return fmt.Sprintf("*%d\r\n%s", len(of), strings.Join(of, "")) }

// claimed is the reply to a claim that found a job.
func claimed(id, payload string, token int64) string {
	return array(bulk(id), bulk(payload), integer(token))
}

func stale(verb string) string { return "-EMQSTALE " + verb + " token mismatch\r\n" }

// with returns a copy of a command with one word replaced; 0 is the verb itself.
func with(args []string, at int, word string) []string {
	changed := append([]string(nil), args...)
	changed[at] = word
	return changed
}

// words reads a command line: words parted by blanks; a word with bytes that would not show is written as a quoted Go
// string.
func words(line string) []string {
	var list []string
	for line = strings.TrimLeft(line, " "); line != ""; line = strings.TrimLeft(line, " ") {
		if line[0] != '"' {
			word, rest, _ := strings.Cut(line, " ")
			list, line = append(list, word), rest
			continue
		}
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			panic(fmt.Sprintf("bad quoted word in %q", line))
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			panic(fmt.Sprintf("bad quoted word in %q", line))
		}
		list, line = append(list, word), line[len(quoted):]
	}
	return list
}

// show is the line that words would read as these words.
func show(args []string) string {
	shown := make([]string, len(args))
	for i, a := range args {
		shown[i] = a
		if e := escape(a); e != a || a == "" || strings.Contains(a, " ") {
			shown[i] = `"` + e + `"`
		}
	}
	return strings.Join(shown, " ")
}

// escape writes every byte that is not printable ASCII, and the quote and the backslash, as a Go string would.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\\' || c == '"':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
