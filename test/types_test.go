package test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/wire"
)

// wrongTypeText is the server's own refusal, without the mark of an error.
var wrongTypeText = strings.TrimPrefix(wire.WrongType, "-")

// makers write one key of each type that Valkey has.
var makers = map[string][]string{
	"string": {"SET", "KEY", "x"},
	"list":   {"RPUSH", "KEY", "x"},
	"set":    {"SADD", "KEY", "x"},
	"zset":   {"ZADD", "KEY", "1", "JOBx"},
	"hash":   {"HSET", "KEY", "state", "pending"},
	"stream": {"XADD", "KEY", "1-1", "f", "v"},
}

func (st *fixture) make(kind, key string) {
	st.t.Helper()
	require.NotEqual(st.t, byte('-'), st.Do(with(makers[kind], 1, key)...)[0])
}

// Each verb refuses a wrong type of each key that it must read or write, whether or not there is a job, and whether or
// not it is due.
func TestWrongTypes(t *testing.T) {
	q := queue("q")
	verbs := []struct {
		name    string
		args    []string
		looksAt []string
	}{
		{"enqueue", q.Enqueue("JOB1", "x"), []string{q.Row("JOB1"), q.Pending()}},
		{"claim", q.Claim(1000), []string{q.Pending(), q.Active()}},
		{"complete", q.Complete("JOB1", "1"), []string{q.Row("JOB1"), q.Active(), q.Pending()}},
		{"fail", q.Fail("JOB1", "1", 0, 1, "why"), []string{q.Row("JOB1"), q.Active(), q.Pending(), q.Schedule(), q.Dead()}},
		{"schedule", q.ScheduleIn("JOB1", "x", 0), []string{q.Row("JOB1"), q.Schedule()}},
		{"extend", q.Extend("JOB1", "1", 1000), []string{q.Row("JOB1"), q.Active()}},
		{"promote", q.Promote(10), []string{q.Schedule(), q.Pending()}},
		{"reap", q.Reap(1, 10), []string{q.Active(), q.Pending()}},
		{"menqueue", q.Menqueue("JOB1", "x"), []string{q.Pending()}},
		{"mschedule", q.Mschedule("at", "JOB1", "1", "x"), []string{q.Schedule()}},
		{"mclaim", q.Mclaim(1000, 10), []string{q.Pending(), q.Active()}},
		{"mcomplete", q.Mcomplete("JOB1", "1"), []string{q.Active(), q.Pending()}},
		{"mextend", q.Mextend(1000, "JOB1", "1"), []string{q.Active()}},
		{"mfail", q.Mfail(1, "JOB1", "1", "0", "why"), []string{q.Active(), q.Pending(), q.Schedule(), q.Dead()}},
		{"release", q.Release("JOB1", "1", 0), []string{q.Row("JOB1"), q.Active(), q.Pending(), q.Schedule()}},
		{"requeue", q.Requeue("dead", "JOB1"), []string{q.Active(), q.Pending(), q.Schedule(), q.Dead()}},
		{"remove", q.Remove("any", "JOB1"), []string{q.Active(), q.Pending(), q.Schedule(), q.Dead()}},
		{"pause", q.Pause(0), []string{q.Meta()}},
		{"resume", q.Resume(), []string{q.Meta()}},
		{"limit", q.Limit(0, 0, 0), []string{q.Meta()}},
		{"stats", q.Stats(), []string{q.Pending(), q.Active(), q.Schedule(), q.Dead()}},
		{"audit", q.Audit("rows:0", 10), []string{q.Pending(), q.Active(), q.Schedule(), q.Dead()}},
		{"fix", q.Fix("0", 10), []string{q.Pending(), q.Active(), q.Schedule(), q.Dead()}},
	}
	s := witnessed(t)
	for _, verb := range verbs {
		for _, key := range verb.looksAt {
			right := "zset"
			if key == q.Row("JOB1") || key == q.Meta() {
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
					if verb.name == "promote" || verb.name == "reap" {
						for _, state := range []string{"scheduled", "active"} {
							if id := "JOB-" + state; q.Set(state) != key {
								st.put(q, id, state, "attempts", "1")
								st.lapse(q, id)
							}
						}
						st.refused(wrongTypeText, verb.args...)
					}
				})
			}
		}
	}
}

// A key that a verb does not need may have any type.
func TestTypesThatDoNotMatter(t *testing.T) {
	q := queue("q")
	tests := []struct {
		name, state, want string
		args              []string
		keys              []string
	}{
		{"enqueue", "", integer(1), q.Enqueue("JOB1", "x"), []string{q.Active(), q.Schedule(), q.Dead(), q.Completed(), q.Failed()}},
		{"claim", "pending", claimed("JOB1", "x", 2), q.Claim(1000), []string{q.Schedule(), q.Dead(), q.Completed(), q.Failed()}},
		{"complete", "active", integer(1), q.Complete("JOB1", "1"), []string{q.Schedule(), q.Dead(), q.Completed(), q.Failed()}},
		{"fail", "active", bulk("dead"), q.Fail("JOB1", "1", 0, 1, "why"), []string{q.Completed(), q.Failed()}},
		{"fail", "active", bulk("scheduled"), q.Fail("JOB1", "1", 0, 2, "why"), []string{q.Completed(), q.Failed()}},
		{"schedule", "", integer(1), q.ScheduleIn("JOB1", "x", 1000), []string{q.Pending(), q.Active(), q.Dead(), q.Completed(), q.Failed()}},
		{"extend", "active", integer(1), q.Extend("JOB1", "1", 1000), []string{q.Pending(), q.Schedule(), q.Dead(), q.Completed(), q.Failed()}},
		{"promote", "scheduled", integer(1), q.Promote(10), []string{q.Active(), q.Dead(), q.Completed(), q.Failed()}},
		{"reap", "active", reaped([]string{"JOB1"}, nil), q.Reap(2, 10), []string{q.Schedule(), q.Dead(), q.Completed(), q.Failed()}},
		{"reap", "active", reaped(nil, []string{"JOB1"}), q.Reap(1, 10), []string{q.Schedule(), q.Completed(), q.Failed()}},
		{"menqueue", "", status(1), q.Menqueue("JOB1", "x"), []string{q.Active(), q.Schedule(), q.Dead(), q.Completed(), q.Failed()}},
		{"mschedule", "", status(1), q.Mschedule("in", "JOB1", "1", "x"), []string{q.Pending(), q.Active(), q.Dead(), q.Completed(), q.Failed()}},
		{"mclaim", "pending", array(claimed("JOB1", "x", 2)), q.Mclaim(1000, 10), []string{q.Schedule(), q.Dead(), q.Completed(), q.Failed()}},
		{"mcomplete", "active", status(1), q.Mcomplete("JOB1", "1"), []string{q.Schedule(), q.Dead(), q.Completed(), q.Failed()}},
		{"mextend", "active", status(1), q.Mextend(1000, "JOB1", "1"), []string{q.Pending(), q.Schedule(), q.Dead(), q.Completed(), q.Failed()}},
		{"mfail", "active", status(2), q.Mfail(1, "JOB1", "1", "0", "why"), []string{q.Completed(), q.Failed()}},
		{"release", "active", bulk("scheduled"), q.Release("JOB1", "1", 5), []string{q.Dead(), q.Completed(), q.Failed(), q.Meta()}},
		{"requeue", "dead", status(1), q.Requeue("dead", "JOB1"), []string{q.Completed(), q.Failed(), q.Meta()}},
		{"remove", "active", status(1), q.Remove("active", "JOB1"), []string{q.Completed(), q.Failed(), q.Meta()}},
		{"pause", "pending", "+OK\r\n", q.Pause(0), []string{q.Active(), q.Schedule(), q.Dead(), q.Completed(), q.Failed()}},
		{"resume", "active", integer(0), q.Resume(), []string{q.Pending(), q.Schedule(), q.Dead(), q.Completed(), q.Failed()}},
		{"limit", "active", "+OK\r\n", q.Limit(1, 0, 0), []string{q.Pending(), q.Schedule(), q.Dead(), q.Completed(), q.Failed()}},
		{"claim", "pending", claimed("JOB1", "x", 2), q.Claim(1000), []string{q.Meta()}},
		{"mclaim", "pending", array(claimed("JOB1", "x", 2)), q.Mclaim(1000, 1), []string{q.Meta()}},
		{"fix", "active", array(bulk("schedule:0"), empty), q.Fix("active:0", 10), []string{q.Completed(), q.Failed()}},
	}
	s := start(t, withModule())
	for _, tt := range tests {
		for _, key := range tt.keys {
			t.Run(tt.name+"/"+tt.want+"/"+key, func(t *testing.T) {
				st := s.fresh(t)
				if tt.state != "" {
					st.put(q, "JOB1", tt.state, "attempts", "1")
				}
				if tt.state == "active" || tt.state == "scheduled" {
					st.lapse(q, "JOB1")
				}
				st.Must("SET " + key + " x")
				st.damaged(key + ": is a string")
				require.Equal(t, tt.want, st.Do(tt.args...))
				st.reply(bulk("x"), "GET "+key)
			})
		}
	}
}
