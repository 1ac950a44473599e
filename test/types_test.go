package test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const wrongTypeText = "WRONGTYPE Operation against a key holding the wrong kind of value\r\n"

// makers write one key of each type that Valkey has.
var makers = map[string][]string{
	"string": {"SET", "KEY", "x"},
	"list":   {"RPUSH", "KEY", "x"},
	"set":    {"SADD", "KEY", "x"},
	"zset":   {"ZADD", "KEY", "1", "JOBx"},
	"hash":   {"HSET", "KEY", "state", "pending"},
	"stream": {"XADD", "KEY", "1-1", "f", "v"},
}

func (st *store) make(kind, key string) {
	st.t.Helper()
	require.NotEqual(st.t, byte('-'), st.do(with(makers[kind], 1, key)...)[0])
}

// Each verb refuses a wrong type at each key that it must read or write, whether or not there is a job.
func TestWrongTypes(t *testing.T) {
	q := queue("q")
	verbs := []struct {
		name    string
		args    []string
		looksAt []string
	}{
		{"enqueue", q.enqueue("JOB1", "x"), []string{q.row("JOB1"), q.pending()}},
		{"claim", q.claim(1000), []string{q.pending(), q.active()}},
		{"complete", q.complete("JOB1", "1"), []string{q.row("JOB1"), q.active(), q.pending()}},
		{"fail", q.fail("JOB1", "1", 0, 1, "why"), []string{q.row("JOB1"), q.active(), q.pending(), q.schedule(), q.dead()}},
	}
	s := witnessed(t)
	for _, verb := range verbs {
		for _, key := range verb.looksAt {
			right := "zset"
			if key == q.row("JOB1") {
				right = "hash"
			}
			for kind := range makers {
				if kind == right {
					continue
				}
				t.Run(verb.name+"/"+key+"/"+kind, func(t *testing.T) {
					st := s.fresh(t)
					st.make(kind, key)
					st.damaged(key + ": is a " + kind)
					st.refused(wrongTypeText, verb.args...)
				})
			}
		}
	}
}

// A key that a verb has no need of may be of any type.
func TestTypesThatDoNotMatter(t *testing.T) {
	q := queue("q")
	tests := []struct {
		name, state, want string
		args              []string
		keys              []string
	}{
		{"enqueue", "", integer(1), q.enqueue("JOB1", "x"), []string{q.active(), q.schedule(), q.dead(), q.completed(), q.failed()}},
		{"claim", "pending", claimed("JOB1", "x", 2), q.claim(1000), []string{q.schedule(), q.dead(), q.completed(), q.failed()}},
		{"complete", "active", integer(1), q.complete("JOB1", "1"), []string{q.schedule(), q.dead(), q.completed(), q.failed()}},
		{"fail", "active", bulk("dead"), q.fail("JOB1", "1", 0, 1, "why"), []string{q.completed(), q.failed()}},
		{"fail", "active", bulk("scheduled"), q.fail("JOB1", "1", 0, 2, "why"), []string{q.completed(), q.failed()}},
	}
	s := start(t, withModule())
	for _, tt := range tests {
		for _, key := range tt.keys {
			t.Run(tt.name+"/"+tt.want+"/"+key, func(t *testing.T) {
				st := s.fresh(t)
				if tt.state != "" {
					st.put(q, "JOB1", tt.state, "attempts", "1")
				}
				st.given("SET " + key + " x")
				st.damaged(key + ": is a string")
				require.Equal(t, tt.want, st.do(tt.args...))
				st.reply(bulk("x"), "GET "+key)
			})
		}
	}
}
