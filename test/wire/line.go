package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// Words parses a command line: words separated by blanks; a word with unprintable bytes is a quoted Go string.
func Words(line string) []string {
	var list []string
	for line = strings.TrimLeft(line, " "); line != ""; line = strings.TrimLeft(line, " ") {
		word := line
		if line[0] == '"' {
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				panic(fmt.Sprintf("bad quoted word in %q", line))
			}
			if word, err = strconv.Unquote(quoted); err != nil {
				panic(fmt.Sprintf("bad quoted word in %q", line))
			}
			line = line[len(quoted):]
		} else {
			word, line, _ = strings.Cut(line, " ")
		}
		list = append(list, word)
	}
	return list
}

// Line writes a command so that Words reads it back.
func Line(args []string) string {
	shown := make([]string, len(args))
	for i, a := range args {
		shown[i] = Show(a)
	}
	return strings.Join(shown, " ")
}

// Show writes a word as it is if it is printable and has neither blanks nor quotes, else as a quoted Go string.
func Show(word string) string {
	if quoted := strconv.QuoteToASCII(word); word == "" || len(quoted) != len(word)+2 || strings.Contains(word, " ") {
		return quoted
	}
	return word
}
