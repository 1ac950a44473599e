package test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"emq/test/wire"
)

// The contents of the row and the sets at each step of a job's life.
func TestLife(t *testing.T) {
	st := open(t)
	run := st.Info("run_id")

	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "work")...))
	assert.Equal(t, map[string]string{"state": "pending", "attempts": "0", "payload": "work"}, st.row(good, "JOB1"))
	st.reply(array(bulk("state"), bulk("attempts"), bulk("payload")), "HKEYS emq:{q}:job:JOB1")
	assert.Equal(t, int64(0), st.score(good.Pending(), "JOB1"))

	from := st.Now()
	require.Equal(t, claimed("JOB1", "work", 1), st.Do(good.Claim(30000)...))
	assert.Equal(t, map[string]string{"state": "active", "attempts": "1", "payload": "work", "lease_epoch": run}, st.row(good, "JOB1"))
	assert.GreaterOrEqual(t, st.score(good.Active(), "JOB1"), from+30000)
	assert.LessOrEqual(t, st.score(good.Active(), "JOB1"), st.Now()+30000)

	from = st.Now()
	require.Equal(t, bulk("scheduled"), st.Do(good.Fail("JOB1", "1", 1500, 2, "first")...))
	assert.Equal(t, map[string]string{"state": "scheduled", "attempts": "1", "payload": "work", "failures": "1", "last_error": "first"}, st.row(good, "JOB1"))
	assert.GreaterOrEqual(t, st.score(good.Schedule(), "JOB1"), from+1500)
	assert.LessOrEqual(t, st.score(good.Schedule(), "JOB1"), st.Now()+1500)
	assert.Empty(t, st.Members(good.Active()))

	st.lapse(good, "JOB1")
	require.Equal(t, integer(1), st.Do(good.Promote(10)...))
	assert.Equal(t, map[string]string{"state": "pending", "attempts": "1", "payload": "work", "failures": "1", "last_error": "first"}, st.row(good, "JOB1"))
	assert.Equal(t, int64(0), st.score(good.Pending(), "JOB1"))
	require.Equal(t, claimed("JOB1", "work", 2), st.Do(good.Claim(30000)...))
	require.Equal(t, bulk("dead"), st.Do(good.Fail("JOB1", "2", 1500, 2, "second")...))
	assert.Equal(t, map[string]string{"state": "dead", "attempts": "2", "payload": "work", "failures": "2", "last_error": "second"}, st.row(good, "JOB1"))
	assert.Equal(t, int64(0), st.score(good.Dead(), "JOB1"))
	st.reply(bulk("1"), "HGET emq:{q}:metrics:failed count")

	st.move(good, "JOB1", "dead", "pending")
	require.Equal(t, claimed("JOB1", "work", 3), st.Do(good.Claim(30000)...))
	require.Equal(t, integer(1), st.Do(good.Complete("JOB1", "3")...))
	assert.Empty(t, st.row(good, "JOB1"))
	st.reply(bulk("1"), "HGET emq:{q}:metrics:completed count")
	assert.Equal(t, union([]string{identity, good.Completed(), good.Failed()}, nil), union(st.keys(), nil))

	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "work")...), "the id is free again")
	require.Equal(t, claimed("JOB1", "work", 1), st.Do(good.Claim(30000)...))
}

// Jobs leave in the order of their ids' bytes, which is the order in which they were minted; a lower score goes first.
func TestClaimOrder(t *testing.T) {
	st := open(t)
	ids := []string{"JOB", "JOB\x00", "JOB\x00\x00", "JOB1", "JOB10", "JOB2", "JOBa", "JOB\x7f", "JOB\x80", "JOB\xff"}
	for _, i := range []int{5, 0, 9, 3, 7, 1, 8, 2, 6, 4} {
		require.Equal(t, integer(1), st.Do(good.Enqueue(ids[i], "x")...))
	}
	for _, id := range ids {
		require.Equal(t, "1", st.take(good, id))
	}
	var minted []string
	for range 50 {
		id := newID()
		minted = append(minted, id)
		require.Equal(t, integer(1), st.Do(good.Enqueue(id, "x")...))
	}
	for id, score := range map[string]string{"JOBz1": "-1", "JOBz0": "-inf", "JOB+": "+inf", "JOB-": "0.5"} {
		st.put(good, id, "pending", "attempts", "0")
		st.Must("ZADD emq:{q}:pending " + score + " " + id)
	}
	for _, id := range slices.Concat([]string{"JOBz0", "JOBz1"}, minted, []string{"JOB-", "JOB+"}) {
		require.Equal(t, "1", st.take(good, id))
	}
	require.Equal(t, empty, st.Do(good.Claim(1000)...))
}

// A caller holds a job if its token matches and the lease was not given back. Each case is a store, and a settlement that is
// refused or accepted.
func TestHolder(t *testing.T) {
	s := witnessed(t)
	tests := []struct {
		name   string
		state  string
		fields []string
		token  string
		held   bool
	}{
		{"active", "active", []string{"attempts", "1", "lease_epoch", "e"}, "1", true},
		{"active, leased by a script", "active", []string{"attempts", "1"}, "1", true},
		{"active, another token", "active", []string{"attempts", "2", "lease_epoch", "e"}, "1", false},
		{"active, the next token", "active", []string{"attempts", "1", "lease_epoch", "e"}, "2", false},
		{"active, token 01", "active", []string{"attempts", "1"}, "01", false},
		{"active, token with a blank", "active", []string{"attempts", "1"}, " 1", false},
		{"active, token and NUL", "active", []string{"attempts", "1"}, "1\x00", false},
		{"active, no token", "active", []string{"attempts", "1"}, "", false},
		{"active, thirty nines", "active", []string{"attempts", "1"}, nines, false},
		{"active, the largest token", "active", []string{"attempts", "9007199254740991"}, "9007199254740991", true},
		{"active, the largest token but one", "active", []string{"attempts", "9007199254740990"}, "9007199254740990", true},
		{"active, never claimed", "active", []string{"attempts", "0"}, "0", false},
		{"lapsed", "pending", []string{"attempts", "3", "lease_epoch", "e"}, "3", true},
		{"lapsed, stalled before", "pending", []string{"attempts", "3", "lease_epoch", "e", "stalled", "1"}, "3", true},
		{"lapsed, an empty epoch", "pending", []string{"attempts", "3", "lease_epoch", ""}, "3", true},
		{"lapsed, another token", "pending", []string{"attempts", "3", "lease_epoch", "e"}, "2", false},
		{"pending, no epoch: given back and promoted", "pending", []string{"attempts", "3", "failures", "1"}, "3", false},
		{"pending, never claimed", "pending", []string{"attempts", "0"}, "0", false},
		{"pending, never claimed, with an epoch", "pending", []string{"attempts", "0", "lease_epoch", "e"}, "0", false},
		{"scheduled", "scheduled", []string{"attempts", "1"}, "1", false},
		{"scheduled, with an epoch", "scheduled", []string{"attempts", "1", "lease_epoch", "e"}, "1", false},
		{"dead", "dead", []string{"attempts", "1"}, "1", false},
		{"dead, with an epoch", "dead", []string{"attempts", "1", "lease_epoch", "e"}, "1", false},
	}
	for _, tt := range tests {
		settle := map[string]struct {
			args  []string
			taken string
			stale string
		}{
			"complete": {good.Complete("JOB1", tt.token), integer(1), stale("complete")},
			"fail":     {good.Fail("JOB1", tt.token, 0, 9, "why"), bulk("scheduled"), stale("retry")},
			"extend":   {good.Extend("JOB1", tt.token, 1000), integer(1), stale("extend")},
		}
		for verb, c := range settle {
			t.Run(tt.name+"/"+verb, func(t *testing.T) {
				st := s.fresh(t)
				st.put(good, "JOB1", tt.state, tt.fields...)
				if tt.state == "active" && tt.fields[1] == "0" {
					st.damaged("emq:{q}:job:JOB1: active with attempts 0")
				}
				if !tt.held || verb == "extend" && tt.state != "active" {
					st.quiet(c.stale, c.args...)
					return
				}
				st.effects(c.taken, c.args...)
			})
		}
	}
}

// A broken row has no holder, even if a token equals its attempts.
func TestHolderOfABrokenRow(t *testing.T) {
	s := witnessed(t)
	tests := []struct {
		name   string
		fields []string
		token  string
		broken string
	}{
		{"attempts is a word", []string{"attempts", "abc"}, "abc", `emq:{q}:job:JOB1: attempts "abc"`},
		{"attempts with a zero before", []string{"attempts", "05"}, "05", `emq:{q}:job:JOB1: attempts "05"`},
		{"attempts negative", []string{"attempts", "-1"}, "-1", `emq:{q}:job:JOB1: attempts "-1"`},
		{"attempts empty", []string{"attempts", ""}, "", `emq:{q}:job:JOB1: attempts ""`},
		{"no attempts", []string{"payload", "x"}, "", `emq:{q}:job:JOB1: attempts ""`},
		{"attempts a fraction", []string{"attempts", "1.0"}, "1.0", `emq:{q}:job:JOB1: attempts "1.0"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := s.fresh(t)
			st.put(good, "JOB1", "active", tt.fields...)
			st.damaged(tt.broken)
			st.quiet(stale("complete"), good.Complete("JOB1", tt.token)...)
			st.quiet(stale("retry"), good.Fail("JOB1", tt.token, 0, 9, "why")...)
			st.quiet(stale("extend"), good.Extend("JOB1", tt.token, 1000)...)
		})
	}
	t.Run("no state", func(t *testing.T) {
		st := s.fresh(t)
		st.put(good, "JOB1", "active", "attempts", "1")
		st.Must("HDEL emq:{q}:job:JOB1 state")
		st.damaged(`emq:{q}:job:JOB1: state ""`)
		st.quiet(stale("complete"), good.Complete("JOB1", "1")...)
		st.quiet(stale("retry"), good.Fail("JOB1", "1", 0, 9, "why")...)
		st.quiet(stale("extend"), good.Extend("JOB1", "1", 1000)...)
	})
}

// A job that is in no set can be settled but not extended; an entry in active without a row gives no lease.
func TestExtendTakesTheEntry(t *testing.T) {
	s := witnessed(t)
	for state, set := range wire.SetOf {
		for _, active := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in active %v", state, active), func(t *testing.T) {
				st := s.fresh(t)
				st.put(good, "JOB1", state, "attempts", "1", "lease_epoch", "e")
				if state == "active" && !active {
					st.Must("ZREM emq:{q}:active JOB1")
					st.damaged("emq:{q}:job:JOB1: state active, in []")
				} else if state != "active" && active {
					st.Must("ZADD emq:{q}:active 9000000000000 JOB1")
					in := []string{"active", set}
					slices.Sort(in)
					st.damaged(fmt.Sprintf("emq:{q}:job:JOB1: state %s, in %v", state, in))
				}
				if active && (state == "active" || state == "pending") {
					st.effects(integer(1), good.Extend("JOB1", "1", 1000)...)
				} else {
					st.quiet(stale("extend"), good.Extend("JOB1", "1", 1000)...)
				}
			})
		}
	}
}

// A job is settled twice, in every order, also after the retry was promoted: the second settlement is refused, before
// and after the job is claimed again.
func TestSettlingTwice(t *testing.T) {
	s := witnessed(t)
	hold := func(t *testing.T) *fixture {
		st := s.fresh(t)
		require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
		require.Equal(t, "1", st.take(good, "JOB1"))
		return st
	}
	second := func(st *fixture) {
		st.quiet(stale("complete"), good.Complete("JOB1", "1")...)
		st.quiet(stale("retry"), good.Fail("JOB1", "1", 0, 9, "again")...)
		st.quiet(stale("extend"), good.Extend("JOB1", "1", 1000)...)
	}
	t.Run("after a retry", func(t *testing.T) {
		st := hold(t)
		require.Equal(t, bulk("scheduled"), st.Do(good.Fail("JOB1", "1", 0, 9, "why")...))
		second(st)
		require.Equal(t, integer(1), st.Do(good.Promote(10)...))
		second(st)
		require.Equal(t, "2", st.take(good, "JOB1"))
		second(st)
		require.Equal(t, integer(1), st.Do(good.Complete("JOB1", "2")...))
	})
	t.Run("after death", func(t *testing.T) {
		st := hold(t)
		require.Equal(t, bulk("dead"), st.Do(good.Fail("JOB1", "1", 0, 1, "why")...))
		second(st)
		st.move(good, "JOB1", "dead", "pending")
		second(st)
	})
	t.Run("after completion", func(t *testing.T) {
		st := hold(t)
		require.Equal(t, integer(1), st.Do(good.Complete("JOB1", "1")...))
		st.quiet(integer(0), good.Complete("JOB1", "1")...)
		st.quiet(gone, good.Fail("JOB1", "1", 0, 9, "why")...)
		st.quiet(integer(-1), good.Extend("JOB1", "1", 1000)...)
	})
	t.Run("after a lapse", func(t *testing.T) {
		st := hold(t)
		st.move(good, "JOB1", "active", "pending")
		require.Equal(t, bulk("scheduled"), st.Do(good.Fail("JOB1", "1", 0, 9, "late")...), "nobody claimed it meanwhile")
		second(st)
	})
	t.Run("after a lapse and another claim", func(t *testing.T) {
		st := hold(t)
		st.move(good, "JOB1", "active", "pending")
		require.Equal(t, "2", st.take(good, "JOB1"))
		second(st)
		require.Equal(t, integer(1), st.Do(good.Complete("JOB1", "2")...))
	})
}

// Rows of lanes and flows are handed out, but only the scripts can settle them, whatever the token.
func TestScriptRows(t *testing.T) {
	s := witnessed(t)
	for _, field := range []string{"group", "parent"} {
		for _, content := range []string{"g", ""} {
			for _, state := range []string{"active", "pending", "scheduled", "dead"} {
				for _, token := range []string{"1", "7", ""} {
					t.Run(field+" "+strconv.Quote(content)+"/"+state+"/token "+token, func(t *testing.T) {
						st := s.fresh(t)
						st.put(good, "JOB1", state, "attempts", "1", "lease_epoch", "e", field, content)
						st.refused("EMQSCRIPT ", good.Complete("JOB1", token)...)
						st.refused("EMQSCRIPT ", good.Fail("JOB1", token, 0, 9, "why")...)
						st.refused("EMQSCRIPT ", good.Extend("JOB1", token, 1000)...)
					})
				}
			}
		}
		t.Run(field+"/claim", func(t *testing.T) {
			st := s.fresh(t)
			st.put(good, "JOB1", "pending", "attempts", "0", field, "g", field+"_policy", "p")
			require.Equal(t, "1", st.take(good, "JOB1"))
			row := st.row(good, "JOB1")
			require.Equal(t, "g", row[field])
			require.Equal(t, "p", row[field+"_policy"])
		})
	}
}

// FAIL gives the lease back and counts failures; a field that is not a canonical number counts as 0.
func TestFailures(t *testing.T) {
	s := start(t, withModule())
	tests := []struct {
		failures string
		limit    int64
		want     string
		counted  string
	}{
		{"-", 2, "scheduled", "1"},
		{"-", 1, "dead", "1"},
		{"0", 2, "scheduled", "1"},
		{"1", 2, "dead", "2"},
		{"1", 3, "scheduled", "2"},
		{"5", 3, "dead", "6"},
		{"abc", 2, "scheduled", "1"},
		{"05", 2, "scheduled", "1"},
		{"-3", 2, "scheduled", "1"},
		{"1.0", 2, "scheduled", "1"},
		{"", 2, "scheduled", "1"},
		{"2147483646", maxInt31, "dead", "2147483647"},
		{"2147483645", maxInt31, "scheduled", "2147483646"},
		{"9007199254740990", maxInt31, "dead", "9007199254740991"},
		{"9007199254740991", 2, "scheduled", "1"},
		{nines, 2, "scheduled", "1"},
	}
	for _, tt := range tests {
		t.Run(tt.failures+" of "+strconv.FormatInt(tt.limit, 10), func(t *testing.T) {
			st := s.fresh(t)
			st.put(good, "JOB1", "active", "attempts", "4", "lease_epoch", "e", "stalled", "2", "last_error", "old")
			if tt.failures != "-" {
				require.Equal(t, integer(1), st.Do("HSET", good.Row("JOB1"), "failures", tt.failures))
			}
			require.Equal(t, bulk(tt.want), st.Do(good.Fail("JOB1", "4", 0, tt.limit, "new")...))
			require.Equal(t, map[string]string{
				"state": tt.want, "attempts": "4", "payload": "x", "failures": tt.counted, "last_error": "new",
			}, st.row(good, "JOB1"))
		})
	}
}

// Claims that ended in a lost lease do not count as failures.
func TestLostLeasesAreNotFailures(t *testing.T) {
	st := open(t)
	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
	for range 5 {
		st.take(good, "JOB1")
		st.lapse(good, "JOB1")
		require.Equal(t, reaped([]string{"JOB1"}, nil), st.Do(good.Reap(0, 10)...))
	}
	require.Equal(t, "6", st.take(good, "JOB1"))
	require.Equal(t, bulk("scheduled"), st.Do(good.Fail("JOB1", "6", 0, 2, "why")...))
	require.Equal(t, map[string]string{"state": "scheduled", "attempts": "6", "payload": "x", "failures": "1", "last_error": "why"}, st.row(good, "JOB1"))
}

// The row and entry of a scheduled job, due at a time or after a delay. The time may be in the past.
func TestSchedule(t *testing.T) {
	st := open(t)
	from := st.Now()
	require.Equal(t, integer(1), st.Do(good.ScheduleIn("JOB1", "work", 60_000)...))
	assert.GreaterOrEqual(t, st.score(good.Schedule(), "JOB1"), from+60_000)
	assert.LessOrEqual(t, st.score(good.Schedule(), "JOB1"), st.Now()+60_000)
	assert.Equal(t, map[string]string{"state": "scheduled", "attempts": "0", "payload": "work"}, st.row(good, "JOB1"))
	st.reply(array(bulk("state"), bulk("attempts"), bulk("payload")), "HKEYS emq:{q}:job:JOB1")
	require.Equal(t, integer(1), st.Do(good.ScheduleAt("JOB2", "", from-1000)...))
	require.Equal(t, integer(1), st.Do(good.ScheduleAt("JOB3", allBytes, from+1<<40)...))
	assert.Equal(t, from+1<<40, st.score(good.Schedule(), "JOB3"))
	assert.Equal(t, allBytes, st.row(good, "JOB3")["payload"])
	require.Equal(t, empty, st.Do(good.Claim(1000)...), "nothing is pending before it was promoted")
	require.Equal(t, integer(1), st.Do(good.Promote(10)...))
	require.Equal(t, claimed("JOB2", "", 1), st.Do(good.Claim(30000)...))
	require.Equal(t, integer(0), st.Do(good.Promote(10)...))
	require.Equal(t, integer(0), st.Do(good.Enqueue("JOB1", "other")...))
	require.Equal(t, integer(0), st.Do(good.ScheduleAt("JOB2", "other", 1)...))
}

func TestErrorsAreBytes(t *testing.T) {
	s := start(t, withModule())
	for what, reason := range map[string]string{"empty": "", "every byte": allBytes, "long": strings.Repeat("e", 1<<20)} {
		t.Run(what, func(t *testing.T) {
			st := s.fresh(t)
			st.put(good, "JOB1", "active", "attempts", "1")
			require.Equal(t, bulk("dead"), st.Do(good.Fail("JOB1", "1", 0, 1, reason)...))
			require.Equal(t, reason, st.row(good, "JOB1")["last_error"])
		})
	}
}

// An id that is already in dead or schedule, by somebody's mistake, does not hinder the holder.
func TestEntriesInOtherSets(t *testing.T) {
	s := start(t, withModule())
	for _, set := range []string{"schedule", "dead"} {
		t.Run(set, func(t *testing.T) {
			st := s.fresh(t)
			st.put(good, "JOB1", "active", "attempts", "1")
			st.Must("ZADD " + good.Base() + set + " 5 JOB1")
			want := map[string]string{"schedule": "scheduled", "dead": "dead"}[set]
			limit := map[string]int64{"schedule": 9, "dead": 1}[set]
			require.Equal(t, bulk(want), st.Do(good.Fail("JOB1", "1", 1000, limit, "why")...))
			require.Equal(t, []string{"JOB1"}, st.Members(good.Base()+set))
		})
	}
}
