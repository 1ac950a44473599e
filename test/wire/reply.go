package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// Replies, as the bytes of RESP2.
const (
	OK    = "+OK\r\n"
	Nil   = "$-1\r\n"
	Empty = "*0\r\n"
	// WrongType is the server's own text, which the verbs use too.
	WrongType = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
	// Gone is the answer to a job that has no row.
	Gone = "-EMQSTALE job gone\r\n"
	// Kind is the answer to an id that is not of a job.
	Kind = "-EMQKIND job id must be JOB-namespaced\r\n"
)

// Bulk is a string.
func Bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// Integer is a number.
func Integer(n int64) string { return fmt.Sprintf(":%d\r\n", n) }

// Array is a list of replies.
func Array(of ...string) string { return fmt.Sprintf("*%d\r\n%s", len(of), strings.Join(of, "")) }

// Claimed is the answer to a claim that found a job.
func Claimed(id, payload string, token int64) string {
	return Array(Bulk(id), Bulk(payload), Integer(token))
}

// Stale is the answer to a token that is not the holder's; the verb is the scripts' own word, complete or retry.
func Stale(verb string) string { return "-EMQSTALE " + verb + " token mismatch\r\n" }

// IsError tells whether a reply is an error.
func IsError(reply string) bool { return strings.HasPrefix(reply, "-") }

// Value reads a reply's bytes: strings and errors as string, integers as int64, arrays as []any, nil as nil.
func Value(reply string) any {
	v, rest := value(reply)
	if rest != "" {
		panic(fmt.Sprintf("bytes after a reply: %q", rest))
	}
	return v
}

// value reads the first reply and returns what comes after it.
func value(reply string) (v any, rest string) {
	line, rest, ok := strings.Cut(reply, "\r\n")
	if !ok || line == "" {
		panic(fmt.Sprintf("no reply: %q", reply))
	}
	kind, text := line[0], line[1:]
	if kind == '+' || kind == '-' {
		return text, rest
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("no reply: %q", reply))
	}
	switch {
	case kind == ':':
		return n, rest
	case n < 0:
		return nil, rest
	case kind == '$':
		return rest[:n], rest[n+2:]
	}
	list := make([]any, n)
	for i := range list {
		list[i], rest = value(rest)
	}
	return list, rest
}
