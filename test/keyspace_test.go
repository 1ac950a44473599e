package test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The states of a row and the set that holds its id in each of them.
var setOf = map[string]string{"pending": "pending", "active": "active", "scheduled": "schedule", "dead": "dead"}

var (
	setNames  = []string{"pending", "active", "schedule", "dead"}
	counters  = []string{"metrics:completed", "metrics:failed"}
	canonical = regexp.MustCompile(`^(0|[1-9][0-9]{0,18})$`)
)

// check looks over every database: each row is in exactly one set, the one that its state names; no set has an entry
// without a row; scores and counters are what they should be; rows have an identity beside them; no row's token is
// below one that was granted. What is found must be exactly what the test declared as damaged.
func (st *store) check() {
	st.t.Helper()
	if st.t.Failed() {
		return // one report is enough
	}
	found := inspect(st.t, st.s.client, st.tokens)
	slices.Sort(found)
	slices.Sort(st.broken)
	assert.Equal(st.t, st.broken, found, "the keyspace after the test")
}

// inspect returns every violation in every database of a server.
func inspect(t *testing.T, client *redis.Client, granted tokens) []string {
	t.Helper()
	ctx := context.Background()
	space, err := client.InfoMap(ctx, "keyspace").Result()
	require.NoError(t, err)
	var found []string
	for name := range space["Keyspace"] {
		db, err := strconv.Atoi(strings.TrimPrefix(name, "db"))
		require.NoError(t, err)
		one := client.Conn()
		require.NoError(t, one.Select(ctx, db).Err())
		found = append(found, inspectDB(t, one, db, granted)...)
		require.NoError(t, one.Select(ctx, 0).Err())
		require.NoError(t, one.Close())
	}
	return found
}

func inspectDB(t *testing.T, c *redis.Conn, db int, granted tokens) []string {
	t.Helper()
	ctx := context.Background()
	var found []string
	where := ""
	if db != 0 {
		where = fmt.Sprintf("db %d: ", db)
	}
	note := func(format string, args ...any) { found = append(found, where+fmt.Sprintf(format, args...)) }

	keys := map[string]string{} // name → type
	var names []string
	for cursor := uint64(0); ; {
		page, next, err := c.Scan(ctx, cursor, "*", 1000).Result()
		require.NoError(t, err)
		names = append(names, page...)
		if cursor = next; cursor == 0 {
			break
		}
	}
	types, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, k := range names {
			p.Type(ctx, k)
		}
		return nil
	})
	require.True(t, err == nil || len(names) == 0, "TYPE: %v", err)
	for i, k := range names {
		if kind := types[i].(*redis.StatusCmd).Val(); kind != "none" {
			keys[k] = kind
		}
	}

	queues := map[queue][]string{} // name → ids with a row key
	for k := range keys {
		if name, rest, ok := splitKey(k); ok {
			ids := queues[name]
			if id, isRow := strings.CutPrefix(rest, "job:"); isRow {
				ids = append(ids, id)
			}
			queues[name] = ids
		}
	}

	for q, ids := range queues {
		if kind, ok := keys[identity]; len(ids) > 0 {
			if v, err := c.Get(ctx, identity).Result(); !ok {
				note("{%s}: rows without an identity", escape(string(q)))
			} else if kind != "string" || err != nil || v != wire6 {
				note("{%s}: rows under another identity", escape(string(q)))
			}
		}

		holds := map[string][]string{} // id → the sets that hold it
		for _, set := range setNames {
			key := q.set(set)
			kind, ok := keys[key]
			if !ok {
				continue
			}
			if kind != "zset" {
				note("%s: is a %s", escape(key), kind)
				continue
			}
			entries, err := c.ZRangeWithScores(ctx, key, 0, -1).Result()
			require.NoError(t, err)
			for _, e := range entries {
				id := e.Member.(string)
				holds[id] = append(holds[id], set)
				if keys[q.row(id)] != "hash" {
					note("%s: %s has no row", escape(key), escape(id))
				}
				if (set == "pending" || set == "dead") && e.Score != 0 {
					note("%s: %s has the score %v", escape(key), escape(id), e.Score)
				}
				if (set == "active" || set == "schedule") && (e.Score < 1 || e.Score > 1<<53 || e.Score != float64(int64(e.Score))) {
					note("%s: %s has the score %v", escape(key), escape(id), e.Score)
				}
			}
		}

		for _, id := range ids {
			key := q.row(id)
			if kind := keys[key]; kind != "hash" {
				note("%s: is a %s", escape(key), kind)
				continue
			}
			row, err := c.HGetAll(ctx, key).Result()
			require.NoError(t, err)
			set, known := setOf[row["state"]]
			if !known {
				note("%s: state %q", escape(key), row["state"])
			}
			if slices.Equal(holds[id], []string{set}) == false && known {
				note("%s: state %s, in %v", escape(key), row["state"], holds[id])
			}
			if row["state"] == "dead" {
				continue // a row may be there because its numbers are bad
			}
			if !canonical.MatchString(row["attempts"]) {
				note("%s: attempts %q", escape(key), row["attempts"])
				continue
			}
			token, err := strconv.ParseInt(row["attempts"], 10, 64)
			require.NoError(t, err)
			if last := granted[key]; token < last {
				note("%s: attempts %d after the token %d", escape(key), token, last)
			}
			if row["state"] == "active" && token < 1 {
				note("%s: active with attempts %d", escape(key), token)
			}
		}

		for _, name := range counters {
			key := q.set(name)
			kind, ok := keys[key]
			if !ok {
				continue
			}
			if kind != "hash" {
				note("%s: is a %s", escape(key), kind)
				continue
			}
			fields, err := c.HGetAll(ctx, key).Result()
			require.NoError(t, err)
			if len(fields) != 1 || !canonical.MatchString(fields["count"]) {
				note("%s: %v", escape(key), fields)
			}
		}
	}
	return found
}

// splitKey parts a queue's key into the queue's name and what follows it.
func splitKey(key string) (queue, string, bool) {
	rest, ok := strings.CutPrefix(key, "emq:{")
	if !ok {
		return "", "", false
	}
	name, rest, ok := strings.Cut(rest, "}:")
	return queue(name), rest, ok && name != "" && !strings.ContainsAny(name, "{}")
}

// tokens remembers, by row key, the last token that was granted in the row's present life.
type tokens map[string]int64

// observe returns a listener for a connection: each claim must grant a higher token than the one before, and a row's
// life ends when it is completed or removed.
func (k tokens) observe(t *testing.T) func([]string, string) {
	return func(args []string, reply string) {
		t.Helper()
		switch verb := strings.ToUpper(args[0]); {
		case verb == "EMQ.CLAIM" && strings.HasPrefix(reply, "*3\r\n"):
			job := value(reply).([]any)
			key, token := args[4]+job[0].(string), job[2].(int64)
			require.Greater(t, token, k[key], "the token of %s", escape(key))
			k[key] = token
		case verb == "EMQ.COMPLETE" && reply == integer(1):
			delete(k, args[3])
		case verb == "DEL" || verb == "UNLINK":
			for _, key := range args[1:] {
				delete(k, key)
			}
		case verb == "FLUSHALL" || verb == "FLUSHDB" || verb == "SELECT" || verb == "SWAPDB":
			clear(k)
		}
	}
}

// The check itself must be able to fail, for each thing that it looks for.
func TestKeyspaceCheckFindsDamage(t *testing.T) {
	s := start(t, withModule())
	tests := []struct {
		name, line, want string
	}{
		{"entry without a row", "ZADD emq:{q}:pending 0 JOB9", "emq:{q}:pending: JOB9 has no row"},
		{"row in no set", "ZREM emq:{q}:pending JOB1", "emq:{q}:job:JOB1: state pending, in []"},
		{"row in two sets", "ZADD emq:{q}:dead 0 JOB1", "emq:{q}:job:JOB1: state pending, in [pending dead]"},
		{"row in another state's set", "HSET emq:{q}:job:JOB1 state dead", "emq:{q}:job:JOB1: state dead, in [pending]"},
		{"unknown state", "HSET emq:{q}:job:JOB1 state lost", `emq:{q}:job:JOB1: state "lost"`},
		{"no attempts", "HDEL emq:{q}:job:JOB1 attempts", `emq:{q}:job:JOB1: attempts ""`},
		{"pending score", "ZADD emq:{q}:pending 5 JOB1", "emq:{q}:pending: JOB1 has the score 5"},
		{"active score", "ZADD emq:{q}:active 1.5 JOB2", "emq:{q}:active: JOB2 has the score 1.5"},
		{"active without a claim", "HSET emq:{q}:job:JOB2 attempts 0", "emq:{q}:job:JOB2: attempts 0 after the token 1|emq:{q}:job:JOB2: active with attempts 0"},
		{"token went back", "HSET emq:{q}:job:JOB3 attempts 1", "emq:{q}:job:JOB3: attempts 1 after the token 2"},
		{"counter", "HSET emq:{q}:metrics:completed count -1", "emq:{q}:metrics:completed: map[count:-1]"},
		{"set of another type", "SET emq:{q}:dead x", "emq:{q}:dead: is a string"},
		{"row of another type", "SET emq:{q}:job:JOB9 x", "emq:{q}:job:JOB9: is a string"},
		{"no identity", "DEL {emq}:version", "{q}: rows without an identity"},
		{"another identity", "SET {emq}:version x", "{q}: rows under another identity"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := s.fresh(t)
			q := queue("q")
			st.given(
				"HSET emq:{q}:job:JOB1 state pending attempts 0 payload x", "ZADD emq:{q}:pending 0 JOB1",
				"HSET emq:{q}:job:JOB2 state active attempts 1 payload x", "ZADD emq:{q}:active 99 JOB2",
				"HSET emq:{q}:job:JOB3 state pending attempts 2 payload x", "ZADD emq:{q}:pending 0 JOB3",
			)
			st.tokens[q.row("JOB2")], st.tokens[q.row("JOB3")] = 1, 2
			require.Empty(t, inspect(t, s.client, st.tokens))
			st.given(tt.line)
			st.damaged(strings.Split(tt.want, "|")...)
		})
	}
}
