package test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// No broken entry blocks a queue: it is dropped or buried, and the same call hands out the next job.
func TestBrokenEntries(t *testing.T) {
	const row = "emq:{q}:job:JOB0"
	const (
		droppedOnly = "dropped"     // the entry leaves pending, nothing else happens
		isDead      = "dead"        // the row is marked dead and enters that set
		deadNoEntry = "dead, alone" // the row is marked dead
		handedOut   = "handed out"  // the entry is not broken
	)
	tests := []struct {
		name   string
		given  []string
		id     string
		fate   string
		broken []string
	}{
		{"no row", nil, "JOB0", droppedOnly, nil},
		{"the row is a string", []string{"SET " + row + " x"}, "JOB0", droppedOnly, []string{row + ": is a string"}},
		{"the row is a list", []string{"RPUSH " + row + " x"}, "JOB0", droppedOnly, []string{row + ": is a list"}},
		{"the row is a set", []string{"SADD " + row + " x"}, "JOB0", droppedOnly, []string{row + ": is a set"}},
		{"the row is a sorted set", []string{"ZADD " + row + " 1 x"}, "JOB0", droppedOnly, []string{row + ": is a zset"}},
		{"the row is a stream", []string{"XADD " + row + " 1-1 f v"}, "JOB0", droppedOnly, []string{row + ": is a stream"}},
		{"not JOB, without a row", nil, "ABC", droppedOnly, nil},
		{"not JOB, with a row", []string{"HSET emq:{q}:job:ABC state pending attempts 0 payload x"}, "ABC", droppedOnly, []string{"emq:{q}:job:ABC: state pending, in []"}},
		{"an empty member", nil, `""`, droppedOnly, nil},
		{"JO", nil, "JO", droppedOnly, nil},
		{"active, and there", []string{"HSET " + row + " state active attempts 3 payload x", "ZADD emq:{q}:active 9 JOB0"}, "JOB0", droppedOnly, nil},
		{"scheduled, and there", []string{"HSET " + row + " state scheduled attempts 3 payload x", "ZADD emq:{q}:schedule 9 JOB0"}, "JOB0", droppedOnly, nil},
		{"dead, and there", []string{"HSET " + row + " state dead attempts 3 payload x", "ZADD emq:{q}:dead 0 JOB0"}, "JOB0", droppedOnly, nil},
		{"active, bad attempts, and there", []string{"HSET " + row + " state active attempts bad payload x", "ZADD emq:{q}:active 9 JOB0"}, "JOB0", droppedOnly, []string{row + `: attempts "bad"`}},
		{"active, but not there", []string{"HSET " + row + " state active attempts 3 payload x"}, "JOB0", handedOut, nil},
		{"scheduled, but not there", []string{"HSET " + row + " state scheduled attempts 3 payload x"}, "JOB0", handedOut, nil},
		{"dead, but not there", []string{"HSET " + row + " state dead attempts 3 payload x"}, "JOB0", handedOut, nil},
		{"active, and in another set", []string{"HSET " + row + " state active attempts 3 payload x", "ZADD emq:{q}:dead 0 JOB0"}, "JOB0", handedOut, []string{row + ": state active, in [active dead]"}},
		{"no state", []string{"HSET " + row + " attempts 3 payload x"}, "JOB0", handedOut, nil},
		{"an unknown state", []string{"HSET " + row + " state odd attempts 3 payload x"}, "JOB0", handedOut, nil},
		{"pending, and also active", []string{"HSET " + row + " state pending attempts 3 payload x", "ZADD emq:{q}:active 9 JOB0"}, "JOB0", handedOut, nil},
		{"no attempts", []string{"HSET " + row + " state pending payload x"}, "JOB0", isDead, nil},
		{"attempts abc", []string{"HSET " + row + " state pending attempts abc payload x"}, "JOB0", isDead, nil},
		{"attempts empty", []string{"HSET " + row + ` state pending attempts "" payload x`}, "JOB0", isDead, nil},
		{"attempts 05", []string{"HSET " + row + " state pending attempts 05 payload x"}, "JOB0", isDead, nil},
		{"attempts +5", []string{"HSET " + row + " state pending attempts +5 payload x"}, "JOB0", isDead, nil},
		{"attempts -1", []string{"HSET " + row + " state pending attempts -1 payload x"}, "JOB0", isDead, nil},
		{"attempts 1.0", []string{"HSET " + row + " state pending attempts 1.0 payload x"}, "JOB0", isDead, nil},
		{"attempts 2^53-1", []string{"HSET " + row + " state pending attempts 9007199254740991 payload x"}, "JOB0", isDead, nil},
		{"attempts 2^64", []string{"HSET " + row + " state pending attempts 18446744073709551616 payload x"}, "JOB0", isDead, nil},
		{"bad attempts, state active, not there", []string{"HSET " + row + " state active attempts abc payload x"}, "JOB0", isDead, nil},
		{"bad attempts, dead is a string", []string{"HSET " + row + " state pending attempts abc payload x", "SET emq:{q}:dead x"}, "JOB0", deadNoEntry, []string{"emq:{q}:dead: is a string", row + ": state dead, in []"}},
		{"bad attempts, dead is a hash", []string{"HSET " + row + " state pending attempts abc payload x", "HSET emq:{q}:dead a b"}, "JOB0", deadNoEntry, []string{"emq:{q}:dead: is a hash", row + ": state dead, in []"}},
		{"dead is a string, state says dead", []string{"HSET " + row + " state dead attempts 3 payload x", "SET emq:{q}:dead x"}, "JOB0", handedOut, []string{"emq:{q}:dead: is a string"}},
		{"schedule is a string, state says scheduled", []string{"HSET " + row + " state scheduled attempts 3 payload x", "SET emq:{q}:schedule x"}, "JOB0", handedOut, []string{"emq:{q}:schedule: is a string"}},
	}
	s := witnessed(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := s.fresh(t)
			st.Must(tt.given...)
			st.Must("ZADD emq:{q}:pending 0 " + tt.id)
			st.put(good, "JOB1", "pending", "attempts", "0")
			st.damaged(tt.broken...)
			before := st.Do("DEBUG", "DIGEST-VALUE", row)

			want := claimed("JOB1", "x", 1)
			if tt.fate == handedOut {
				want = claimed("JOB0", "x", 4)
			}
			o := st.effects(want, good.Claim(30000)...)

			require.NotContains(t, st.Members(good.Pending()), words(tt.id)[0])
			switch tt.fate {
			case droppedOnly:
				require.Equal(t, before, st.Do("DEBUG", "DIGEST-VALUE", row), "the row is left alone")
				require.Equal(t, show([]string{"ZREM", good.Pending(), words(tt.id)[0]}), o.stream[1])
			case isDead, deadNoEntry:
				fields := st.row(good, "JOB0")
				require.Equal(t, "dead", fields["state"])
				require.Contains(t, fields["last_error"], "attempts", "the row has the reason")
				require.Equal(t, "x", fields["payload"], "the payload is kept")
				if tt.fate == isDead {
					require.Equal(t, int64(0), st.score(good.Dead(), "JOB0"))
				}
				st.reply(integer(0), "EXISTS emq:{q}:metrics:failed")
			case handedOut:
				require.Equal(t, "active", st.row(good, "JOB0")["state"])
			}
		})
	}
}

// An expired row counts as absent.
func TestExpiredRows(t *testing.T) {
	st := open(t)
	st.put(good, "JOB0", "pending", "attempts", "0")
	st.put(good, "JOB1", "pending", "attempts", "0")
	st.put(good, "JOB2", "active", "attempts", "1")
	st.Must("DEBUG SET-ACTIVE-EXPIRE 0")
	st.expired("emq:{q}:job:JOB0", "emq:{q}:job:JOB2")
	require.Equal(t, "1", st.take(good, "JOB1"))
	require.Equal(t, integer(0), st.Do(good.Complete("JOB2", "1")...))
	st.damaged("emq:{q}:active: JOB2 has no row")
	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB0", "new")...))
	require.Equal(t, claimed("JOB0", "new", 1), st.Do(good.Claim(1000)...))
}

// One call drops at most 100 broken entries; the next call continues.
func TestTheBoundOfBrokenEntries(t *testing.T) {
	s := witnessed(t)
	kinds := map[string]func(st *fixture, id string){
		"without rows": func(*fixture, string) {},
		"bad rows": func(st *fixture, id string) {
			require.Equal(st.t, integer(2), st.Do("HSET", good.Row(id), "state", "pending", "payload", "x"))
		},
		"in other sets": func(st *fixture, id string) {
			require.Equal(st.t, integer(2), st.Do("HSET", good.Row(id), "state", "scheduled", "attempts", "1"))
			require.Equal(st.t, integer(1), st.Do("ZADD", good.Schedule(), "9", id))
		},
	}
	for kind, prepare := range kinds {
		for _, n := range []int{99, 100, 101, 250} {
			t.Run(fmt.Sprintf("%d %s", n, kind), func(t *testing.T) {
				st := s.fresh(t)
				for i := range n {
					id := fmt.Sprintf("JOB%04d", i)
					require.Equal(t, integer(1), st.Do("ZADD", good.Pending(), "0", id))
					prepare(st, id)
				}
				st.put(good, "JOB9999", "pending", "attempts", "0")
				left := n
				for ; left >= 100; left -= 100 {
					st.effects(empty, good.Claim(1000)...)
					require.Equal(t, left-100+1, len(st.Members(good.Pending())), "100 entries are dealt with in one call")
				}
				st.effects(claimed("JOB9999", "x", 1), good.Claim(1000)...)
				require.Empty(t, st.Members(good.Pending()))
			})
		}
	}
}

// A row without a payload is handed out with nil, and gets none.
func TestMissingPayload(t *testing.T) {
	st := open(t)
	st.Must("HSET emq:{q}:job:JOB1 state pending attempts 0 data x", "ZADD emq:{q}:pending 0 JOB1")
	require.Equal(t, array(bulk("JOB1"), nothing, integer(1)), st.Do(good.Claim(1000)...))
	require.Equal(t, integer(1), st.Do(good.Complete("JOB1", "1")...))
}

// Rows and sets in every encoding of the server.
func TestEncodings(t *testing.T) {
	st := open(t)
	for i, config := range []string{"1", "512"} {
		st.Must("CONFIG SET hash-max-listpack-entries "+config, "CONFIG SET zset-max-listpack-entries "+config)
		for j := range 20 {
			id := "JOB" + strconv.Itoa(i) + strconv.Itoa(j+10)
			require.Equal(t, integer(1), st.Do(good.Enqueue(id, "x")...))
		}
		for range 20 {
			job := value(st.Do(good.Claim(1000)...)).([]any)
			require.Equal(t, integer(1), st.Do(good.Complete(job[0].(string), "1")...))
		}
	}
	st.reply(bulk("40"), "HGET emq:{q}:metrics:completed count")
}
