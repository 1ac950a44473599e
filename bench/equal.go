package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"emq/test/valkey"
)

// trace is all that a server lets the world see of what an executor did.
type trace struct {
	replies, keys, propagated, events []string
}

// proveEqual has some executors do the same work in one server, and asserts that the world sees the same of all: replies,
// keys, what is propagated, and keyspace events. A floor that did less would be no floor.
func proveEqual(ctx context.Context, m modules, who ...*executor) (err error) {
	s, err := m.start(who, "--appendonly", "yes", "--appendfsync", "always", "--notify-keyspace-events", "KEA")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	first, err := traceOf(ctx, s, who[0])
	if err != nil {
		return err
	}
	for _, e := range who[1:] {
		t, err := traceOf(ctx, s, e)
		if err != nil {
			return err
		}
		for _, part := range []struct {
			what     string
			is, must []string
		}{
			{"replies", t.replies, first.replies},
			{"keys", t.keys, first.keys},
			{"propagated commands", t.propagated, first.propagated},
			{"keyspace events", t.events, first.events},
		} {
			if !slices.Equal(part.is, part.must) {
				return fmt.Errorf("of %s, the %s differ from those of %s:\n%s\ninstead of\n%s", e.Name, part.what, who[0].Name,
					strings.Join(part.is, "\n"), strings.Join(part.must, "\n"))
			}
		}
	}
	return nil
}

func traceOf(ctx context.Context, s *valkey.Server, e *executor) (t trace, err error) {
	c := control(s, e.db)
	defer c.Close()
	if err := e.prepare(ctx, c); err != nil {
		return t, err
	}
	events := c.PSubscribe(ctx, fmt.Sprintf("__key*@%d__:*", e.db), "the end")
	defer events.Close()
	for range 2 {
		if _, err := events.Receive(ctx); err != nil { // the confirmations
			return t, err
		}
	}

	for _, step := range everyPath() {
		words := append(e.open(step[0]), step[1:]...)
		args := make([]any, len(words))
		for i, w := range words {
			args[i] = w
		}
		reply, err := c.Do(ctx, args...).Result()
		t.replies = append(t.replies, fmt.Sprint(step[0], " ", reply, " ", err))
	}
	if err := c.Publish(ctx, "the end", "").Err(); err != nil {
		return t, err
	}
	for {
		m, err := events.ReceiveMessage(ctx)
		if err != nil {
			return t, err
		}
		if m.Channel == "the end" {
			break
		}
		_, kind, _ := strings.Cut(m.Channel, "__:")
		t.events = append(t.events, kind+" "+m.Payload)
	}
	if t.keys, err = contents(ctx, c); err != nil {
		return t, err
	}
	t.propagated, err = propagated(s.Dir, e.db)
	return t, err
}

// everyPath is a few jobs' life with every write that the floor knows in it.
func everyPath() [][]string {
	base := "emq:{" + queueName + "}:"
	pending, active, schedule, dead, row := base+"pending", base+"active", base+"schedule", base+"dead", base+"job:"
	enqueue := func(id string) []string { return []string{"ENQUEUE", "2", row + id, pending, id, "payload of " + id} }
	claim := []string{"CLAIM", "2", pending, active, row, "30000"}
	fail := func(id, max string) []string {
		return []string{"FAIL", "4", active, schedule, dead, row + id, id, "1", "60000", max, "an error", base}
	}
	complete := func(id string) []string { return []string{"COMPLETE", "2", active, row + id, id, "1", base} }
	const a, b, c, d, e = "JOB00000000001", "JOB00000000002", "JOB00000000003", "JOB00000000004", "JOB00000000005"
	return [][]string{
		enqueue(a), enqueue(b), enqueue(c), enqueue(d),
		claim, claim, claim, claim, claim, // the last finds the queue empty
		complete(a), fail(b, "25"), fail(c, "1"), complete(d),
		enqueue(e), claim, // and stays leased
	}
}

// instants are all that may differ: the milliseconds at which leases and delays end.
var instants = regexp.MustCompile(`\b1[0-9]{12}\b`)

func contents(ctx context.Context, c *redis.Client) ([]string, error) {
	names, err := c.Keys(ctx, "*").Result()
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var lines []string
	for _, name := range names {
		kind, err := c.Type(ctx, name).Result()
		if err != nil {
			return nil, err
		}
		read := map[string][]any{
			"string": {"GET", name}, "hash": {"HGETALL", name}, "zset": {"ZRANGE", name, "0", "-1", "WITHSCORES"},
		}[kind]
		value, err := c.Do(ctx, read...).Result()
		if err != nil {
			return nil, fmt.Errorf("%s, a %s: %w", name, kind, err)
		}
		lines = append(lines, instants.ReplaceAllString(fmt.Sprint(name, " ", value), "<ms>"))
	}
	return lines, nil
}

// propagated are the commands in the append-only file of a data folder, of one database.
func propagated(dir string, db int) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		return nil, fmt.Errorf("one append-only file was expected, there are %v %w", files, err)
	}
	f, err := os.Open(files[0])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var lines []string
	selected := ""
	for r := bufio.NewReader(f); ; {
		words, err := readCommand(r)
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
		if words[0] == "SELECT" {
			selected = words[1]
		} else if selected == strconv.Itoa(db) {
			lines = append(lines, instants.ReplaceAllString(strings.Join(words, " "), "<ms>"))
		}
	}
}

func readCommand(r *bufio.Reader) ([]string, error) {
	number := func(kind byte) (int, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if line[0] != kind {
			return 0, fmt.Errorf("%q is no command", line)
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number('*')
	if err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		size, err := number('$')
		if err != nil {
			return nil, err
		}
		word := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(r, word); err != nil {
			return nil, err
		}
		words[i] = string(word[:size])
	}
	return words, nil
}
