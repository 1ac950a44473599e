package web

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"emq/operator"
)

// Names of queues, ids and errors are any bytes. In URLs and in fields of forms they are encoded so that nothing on the
// way changes them: letters, digits, `-` and `_` stand for themselves, so does `.` except at the beginning, and all
// other bytes are `~` and two hexadecimal digits. So slashes, `..`, bytes that are not UTF-8 and empty names survive
// proxies, browsers and forms.

const digits = "0123456789ABCDEF"

func encode(name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			b.WriteByte('~')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}

// decode is lenient, so that a handwritten URL works too: bytes that encode would have escaped stand for themselves.
func decode(s string) string {
	if !strings.Contains(s, "~") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '~' && i+2 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// visible is a text for people: invisible bytes and characters, and those that change the direction of the text, are
// escaped as in Go.
func visible(s string) string { return operator.Printable(s) }

// at is a URL of the page: segments, which it encodes, and pairs of a query's names and values, without those whose
// value is empty.
func (p *Page) at(segments []string, query ...string) string {
	var b strings.Builder
	b.WriteString(p.base)
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(encode(s))
	}
	if len(segments) == 0 {
		b.WriteByte('/')
	}
	mark := byte('?')
	for i := 0; i+1 < len(query); i += 2 {
		if query[i+1] != "" {
			b.WriteByte(mark)
			b.WriteString(url.QueryEscape(query[i]) + "=" + url.QueryEscape(query[i+1]))
			mark = '&'
		}
	}
	return b.String()
}

// shell formats a command for a shell, with quotes where needed. A word can't contain a NUL, so such a command is
// passed by standard input, where valkey-cli has its own quotes.
func shell(cli string, words ...string) string {
	if strings.Contains(strings.Join(words, ""), "\x00") {
		line := make([]string, len(words))
		for i, w := range words {
			if line[i] = w; operator.Shell(w) != w {
				line[i] = `"` + escaped(w, '"') + `"`
			}
		}
		return "printf '%s\\n' " + operator.Shell(strings.Join(line, " ")) + " | " + cli
	}
	line := []string{cli}
	for _, w := range words {
		line = append(line, operator.Shell(w))
	}
	return strings.Join(line, " ")
}

// escaped escapes a quote, a backslash and each byte that is not printable ASCII with a backslash.
func escaped(w string, q byte) string {
	var b strings.Builder
	for i := range len(w) {
		switch c := w[i]; {
		case c == q || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
