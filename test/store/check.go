package store

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"emq/test/wire"
)

// number is a count or a token in its only spelling.
var number = regexp.MustCompile(`^(0|[1-9][0-9]{0,18})$`)

// Check returns what is wrong with a keyspace that only clients of the given identity wrote, one line each, sorted:
// each row must be in exactly one set, the one that its state names; no set may have an entry without a row; scores,
// tokens and counters must be valid; and where there is a row, there must be the identity.
func (k Keyspace) Check(identity string) []string {
	c := checker{keys: k, identity: identity}
	queues := map[wire.Queue]bool{}
	for key := range k {
		if q, _, ok := wire.Split(key); ok {
			queues[q] = true
		}
	}
	for q := range queues {
		c.queue(q)
	}
	slices.Sort(c.found)
	return c.found
}

type checker struct {
	keys     Keyspace
	identity string
	found    []string
}

func (c *checker) note(key, format string, args ...any) {
	c.found = append(c.found, wire.Show(key)+": "+fmt.Sprintf(format, args...))
}

func (c *checker) queue(q wire.Queue) {
	holds := map[string][]string{} // id → the sets that hold it
	for _, name := range slices.Sorted(maps.Values(wire.SetOf)) {
		key := q.Base() + name
		set, ok := c.keys[key].(ZSet)
		if !ok {
			c.absent(key)
		}
		for id, score := range set {
			holds[id] = append(holds[id], name)
			if _, ok := c.keys[q.Row(id)].(Hash); !ok {
				c.note(key, "%s has no row", wire.Show(id))
			}
			least, most := 0.0, 0.0 // a job can be due at any time, but no lease ends before one was granted
			switch name {
			case "active":
				least, most = 1, 1<<53
			case "schedule":
				most = 1 << 53
			}
			if score < least || score > most || score != float64(int64(score)) {
				c.note(key, "%s has the score %v", wire.Show(id), score)
			}
		}
	}
	rows := false
	for key := range c.keys {
		if id, ok := strings.CutPrefix(key, q.RowPrefix()); ok {
			c.row(key, holds[id])
			rows = true
		}
	}
	if identity, ok := c.keys[wire.Identity]; rows && identity != any(String(c.identity)) {
		if ok {
			c.note(q.Base(), "rows under another identity")
		} else {
			c.note(q.Base(), "rows without an identity")
		}
	}
	c.counter(q.Completed())
	c.counter(q.Failed())
	c.gates(q.Meta())
}

// gates checks that every field of the gates is a number, and that a rate limit has both fields.
func (c *checker) gates(key string) {
	meta, ok := c.keys[key].(Hash)
	if !ok {
		c.absent(key)
		return
	}
	for _, field := range []string{"paused", "paused_until", "concurrency", "max", "duration", "window", "used"} {
		if text, there := meta[field]; there && !number.MatchString(text) {
			c.note(key, "%s %q", field, text)
		}
	}
	_, hasMax := meta["max"]
	if _, hasDuration := meta["duration"]; hasMax != hasDuration {
		c.note(key, "half a rate")
	}
}

func (c *checker) row(key string, holds []string) {
	row, ok := c.keys[key].(Hash)
	if !ok {
		c.absent(key)
		return
	}
	set, known := wire.SetOf[row["state"]]
	if !known {
		c.note(key, "state %q", row["state"])
	} else if !slices.Equal(holds, []string{set}) {
		c.note(key, "state %s, in %v", row["state"], holds)
	}
	if row["state"] == "dead" {
		return // a row may be there because its token is broken
	}
	token, err := strconv.ParseInt(row["attempts"], 10, 64)
	if !number.MatchString(row["attempts"]) || err != nil {
		c.note(key, "attempts %q", row["attempts"])
	} else if row["state"] == "active" && token < 1 {
		c.note(key, "active with attempts %d", token)
	}
}

func (c *checker) counter(key string) {
	counter, ok := c.keys[key].(Hash)
	if !ok {
		c.absent(key)
	} else if len(counter) != 1 || !number.MatchString(counter["count"]) {
		c.note(key, "%v", map[string]string(counter))
	}
}

// absent notes a key that has the wrong type.
func (c *checker) absent(key string) {
	switch v := c.keys[key].(type) {
	case nil:
	case String:
		c.note(key, "is a string")
	case Hash:
		c.note(key, "is a hash")
	case ZSet:
		c.note(key, "is a zset")
	case Other:
		c.note(key, "is a %s", v.Type)
	}
}
