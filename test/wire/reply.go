package wire

import (
	"bufio"
	"fmt"
	"io"
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
	// Gone is the reply if the job has no row.
	Gone = "-EMQSTALE job gone\r\n"
	// Kind is the reply to an id that is not a job's.
	Kind = "-EMQKIND job id must be JOB-namespaced\r\n"
)

// Bulk is a string.
func Bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// Integer is a number.
func Integer(n int64) string { return fmt.Sprintf(":%d\r\n", n) }

// Array is a list of replies.
func Array(of ...string) string { return fmt.Sprintf("*%d\r\n%s", len(of), strings.Join(of, "")) }

// Claimed is the reply to a claim that found a job.
func Claimed(id, payload string, token int64) string {
	return Array(Bulk(id), Bulk(payload), Integer(token))
}

// BClaimed is the reply to a claim that waits.
func BClaimed(q Queue, id, payload string, token int64) string {
	return Array(Bulk(q.Base()), Bulk(id), Bulk(payload), Integer(token))
}

// Statuses is the reply to a verb for listed jobs: a status for each.
func Statuses(of ...int64) string {
	list := make([]string, len(of))
	for i, n := range of {
		list[i] = Integer(n)
	}
	return Array(list...)
}

// Reaped is the reply to a reap: the jobs that are pending again, and those that are dead.
func Reaped(recovered, dead []string) string {
	bulks := func(ids []string) string {
		list := make([]string, len(ids))
		for i, id := range ids {
			list[i] = Bulk(id)
		}
		return Array(list...)
	}
	return Array(bulks(recovered), bulks(dead))
}

// Stale is the reply to a token that is not the holder's; the verb is the scripts' word: complete, retry or extend.
func Stale(verb string) string { return "-EMQSTALE " + verb + " token mismatch\r\n" }

// IsError reports whether a reply is an error.
func IsError(reply string) bool { return strings.HasPrefix(reply, "-") }

// Encode encodes commands as in a client's request, a replication stream and an append-only file.
func Encode(commands ...[]string) string {
	var b strings.Builder
	for _, args := range commands {
		fmt.Fprintf(&b, "*%d\r\n", len(args))
		for _, a := range args {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
		}
	}
	return b.String()
}

// Read reads one whole reply of RESP2 or RESP3 and returns its bytes.
func Read(r *bufio.Reader) (string, error) {
	var b strings.Builder
	err := copyReply(&b, r)
	return b.String(), err
}

func copyReply(b *strings.Builder, r *bufio.Reader) error {
	line, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	b.WriteString(line)
	if !strings.ContainsRune("$=!*~>%|", rune(line[0])) {
		return nil
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(line[1:], "\r\n"), 10, 64)
	if err != nil || n < 0 {
		return err
	}
	switch line[0] {
	case '$', '=', '!':
		_, err := io.CopyN(b, r, n+2)
		return err
	case '%':
		n *= 2
	case '|': // attributes come before what they belong to
		n = 2*n + 1
	}
	for range n {
		if err := copyReply(b, r); err != nil {
			return err
		}
	}
	return nil
}

// ReadCommand reads one command as Encode writes it.
func ReadCommand(r *bufio.Reader) ([]string, error) {
	reply, err := Read(r)
	if err != nil {
		return nil, err
	}
	list, ok := Value(reply).([]any)
	if !ok || len(list) == 0 {
		return nil, fmt.Errorf("no command: %q", reply)
	}
	args := make([]string, len(list))
	for i, word := range list {
		args[i] = word.(string)
	}
	return args, nil
}

// Value parses a reply: strings and errors as string, integers as int64, arrays, sets, maps and pushes as []any, nil as nil.
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
	switch kind {
	case '+', '-', ',', '#', '(':
		return text, rest
	case '_':
		return nil, rest
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
	case kind == '$' || kind == '=' || kind == '!':
		return rest[:n], rest[n+2:]
	case kind == '%':
		n *= 2
	}
	list := make([]any, n)
	for i := range list {
		list[i], rest = value(rest)
	}
	return list, rest
}
