package operator

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Count formats a whole number with separated thousands.
func Count[N int | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Many is a number of things: "1 job", "3,000 jobs".
func Many[N int | int64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return Count(n) + " " + thing
}

// Info returns the fields of a reply of INFO.
func Info(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// Printable escapes invisible characters as Go does, because they might control a terminal or change the direction of
// the text. The result is one line.
func Printable(s string) string {
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
			b.WriteString(s[:n])
		default:
			q := strconv.QuoteRune(c)
			b.WriteString(q[1 : len(q)-1])
		}
		s = s[n:]
	}
	return b.String()
}

// Shell quotes a text as a word of a shell where needed. A word with invisible bytes is in $'…', as in bash, zsh and
// POSIX of 2024.
func Shell(s string) string {
	switch {
	case s != "" && strings.IndexFunc(s, func(c rune) bool {
		return !(c < 128 && (unicode.IsLetter(c) || unicode.IsDigit(c)) || strings.ContainsRune("-_./:@%,+", c))
	}) < 0:
		return s
	case s == Printable(s):
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
