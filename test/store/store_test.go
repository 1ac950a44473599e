package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

func TestRead(t *testing.T) {
	conn := wire.Dial(t, store.Serve(t).Socket)
	conn.Must(`SET s "\x00\xff"`, "HSET h f v g w", "ZADD z 1732872600000 a 0.5 b -1 c", "SELECT 15", "RPUSH l x")
	want := store.New()
	want[0]["s"] = store.String("\x00\xff")
	want[0]["h"] = store.Hash{"f": "v", "g": "w"}
	want[0]["z"] = store.ZSet{"a": 1732872600000, "b": 0.5, "c": -1}
	want[15]["l"] = store.Other{Type: "list", Dump: wire.Value(conn.Do("DUMP", "l")).(string)}
	require.Equal(t, want, store.Read(t, conn))
}

func TestDiff(t *testing.T) {
	a, b := store.New(), store.New()
	a[0] = store.Keyspace{"s": store.String("x"), "z": store.ZSet{"m": 1, "n": 1.5}, "h": store.Hash{"f": "v w"}}
	b[0] = a[0].Clone()
	require.Empty(t, store.Diff(a, b))
	b[0]["z"].(store.ZSet)["m"] = 2
	require.Equal(t, 1.0, a[0]["z"].(store.ZSet)["m"], "a clone shares nothing")
	delete(b[0], "s")
	b[3]["h"] = store.Hash{}
	require.Equal(t, []string{
		`db 0: s: want "x", got nothing`,
		"db 0: z: want zset m=1 n=1.5, got zset m=2 n=1.5",
		"db 3: h: want nothing, got hash",
	}, store.Diff(a, b))
}

// TestCheck breaks one thing at a time in a sound keyspace, and expects exactly that finding.
func TestCheck(t *testing.T) {
	sound := func() store.Keyspace {
		row := func(state, attempts string) store.Hash {
			return store.Hash{"state": state, "attempts": attempts, "payload": "x"}
		}
		return store.Keyspace{
			wire.Identity:               store.String(wire.Wire6),
			"emq:{q}:job:JOB1":          row("pending", "0"),
			"emq:{q}:job:JOB2":          row("active", "1"),
			"emq:{q}:job:JOB3":          row("scheduled", "2"),
			"emq:{q}:job:JOB4":          row("dead", "abc"),
			"emq:{q}:pending":           store.ZSet{"JOB1": 0},
			"emq:{q}:active":            store.ZSet{"JOB2": 1732872600000},
			"emq:{q}:schedule":          store.ZSet{"JOB3": 1732872600000},
			"emq:{q}:dead":              store.ZSet{"JOB4": 0},
			"emq:{q}:metrics:completed": store.Hash{"count": "7"},
			"another's":                 store.Other{Type: "list"},
		}
	}
	set := func(key string, value any) func(store.Keyspace) { return func(k store.Keyspace) { k[key] = value } }
	field := func(key, field, value string) func(store.Keyspace) {
		return func(k store.Keyspace) { k[key].(store.Hash)[field] = value }
	}
	entry := func(key, id string, score float64) func(store.Keyspace) {
		return func(k store.Keyspace) { k[key].(store.ZSet)[id] = score }
	}
	require.Empty(t, sound().Check(wire.Wire6))
	for _, tt := range []struct {
		name  string
		wreck func(store.Keyspace)
		want  []string
	}{
		{"entry without a row", entry("emq:{q}:dead", "JOB9", 0), []string{"emq:{q}:dead: JOB9 has no row"}},
		{"row in no set", func(k store.Keyspace) { delete(k, "emq:{q}:pending") }, []string{"emq:{q}:job:JOB1: state pending, in []"}},
		{"row in two sets", entry("emq:{q}:dead", "JOB1", 0), []string{"emq:{q}:job:JOB1: state pending, in [dead pending]"}},
		{"row in another set", field("emq:{q}:job:JOB1", "state", "dead"), []string{"emq:{q}:job:JOB1: state dead, in [pending]"}},
		{"unknown state", field("emq:{q}:job:JOB1", "state", "lost"), []string{`emq:{q}:job:JOB1: state "lost"`}},
		{"bad token", field("emq:{q}:job:JOB1", "attempts", "01"), []string{`emq:{q}:job:JOB1: attempts "01"`}},
		{"active, never claimed", field("emq:{q}:job:JOB2", "attempts", "0"), []string{"emq:{q}:job:JOB2: active with attempts 0"}},
		{"score of pending", entry("emq:{q}:pending", "JOB1", 5), []string{"emq:{q}:pending: JOB1 has the score 5"}},
		{"score of active", entry("emq:{q}:active", "JOB2", 1.5), []string{"emq:{q}:active: JOB2 has the score 1.5"}},
		{"counter", field("emq:{q}:metrics:completed", "count", "-1"), []string{"emq:{q}:metrics:completed: map[count:-1]"}},
		{"set of another type", set("emq:{r}:active", store.String("")), []string{"emq:{r}:active: is a string"}},
		{"row of another type", set("emq:{r}:job:JOB1", store.Other{Type: "list"}), []string{"emq:{r}:job:JOB1: is a list"}},
		{"no identity", func(k store.Keyspace) { delete(k, wire.Identity) }, []string{"emq:{q}:: rows without an identity"}},
		{"another identity", set(wire.Identity, store.String(wire.Wire4)), []string{"emq:{q}:: rows under another identity"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := sound()
			tt.wreck(k)
			require.Equal(t, tt.want, k.Check(wire.Wire6))
		})
	}
}
