package test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// A sweeper is a verb that takes due entries from a set: PROMOTE from schedule, REAP from active.
type sweeper struct {
	name, state string
	args        func(limit int64) []string
	reply       func(moved ...string) string // of a call that moved these to pending
}

func (sw sweeper) set() string { return good.Set(sw.state) }

var sweepers = []sweeper{
	{"promote", "scheduled", good.Promote, func(moved ...string) string { return integer(int64(len(moved))) }},
	{"reap", "active", func(limit int64) []string { return good.Reap(9, limit) }, func(moved ...string) string { return reaped(moved, nil) }},
}

// over adds a job to the verb's set, with a time in the past, and any further fields.
func (sw sweeper) over(st *fixture, at int, id string, fields ...string) {
	st.t.Helper()
	st.put(good, id, sw.state, append([]string{"attempts", "1"}, fields...)...)
	require.Equal(st.t, integer(0), st.Do("ZADD", sw.set(), strconv.Itoa(at), id))
}

// No broken entry hinders the jobs after it: the same call drops, moves or leaves it, and goes on.
func TestBrokenEntriesOfASweep(t *testing.T) {
	const row = "emq:{q}:job:JOB0"
	const (
		dropped = "dropped" // the entry leaves the set, nothing else happens
		moved   = "moved"   // as any other
		left    = "left"    // nothing happens
		// moved, and the row is written with what it held
		rewritten = "rewritten"
	)
	type broken struct {
		name   string
		given  []string
		id     string
		fate   string
		damage []string
	}
	s := witnessed(t)
	for _, sw := range sweepers {
		other := map[string]string{"scheduled": "active", "active": "scheduled"}[sw.state]
		otherSet := good.Set(other)
		tests := []broken{
			{"no row", nil, "JOB0", dropped, nil},
			{"the row is a string", []string{"SET " + row + " x"}, "JOB0", dropped, []string{row + ": is a string"}},
			{"the row is a list", []string{"RPUSH " + row + " x"}, "JOB0", dropped, []string{row + ": is a list"}},
			{"the row is a set", []string{"SADD " + row + " x"}, "JOB0", dropped, []string{row + ": is a set"}},
			{"the row is a sorted set", []string{"ZADD " + row + " 1 x"}, "JOB0", dropped, []string{row + ": is a zset"}},
			{"the row is a stream", []string{"XADD " + row + " 1-1 f v"}, "JOB0", dropped, []string{row + ": is a stream"}},
			{"not JOB, without a row", nil, "ABC", dropped, nil},
			{"not JOB, with a row", []string{"HSET emq:{q}:job:ABC state " + sw.state + " attempts 1"}, "ABC", dropped,
				[]string{"emq:{q}:job:ABC: state " + sw.state + ", in []"}},
			{"not JOB, of a lane", []string{"HSET emq:{q}:job:ABC state " + sw.state + " attempts 1 group g"}, "ABC", dropped,
				[]string{"emq:{q}:job:ABC: state " + sw.state + ", in []"}},
			{"an empty member", nil, `""`, dropped, nil},
			{"JO", nil, "JO", dropped, nil},
			{"pending, and there", []string{"HSET " + row + " state pending attempts 3", "ZADD emq:{q}:pending 0 JOB0"}, "JOB0", dropped, nil},
			{"dead, and there", []string{"HSET " + row + " state dead attempts 3", "ZADD emq:{q}:dead 0 JOB0"}, "JOB0", dropped, nil},
			{other + ", and there", []string{"HSET " + row + " state " + other + " attempts 3", "ZADD " + otherSet + " 9000000000000 JOB0"}, "JOB0", dropped, nil},
			{"dead, there, bad attempts", []string{"HSET " + row + " state dead attempts bad", "ZADD emq:{q}:dead 0 JOB0"}, "JOB0", dropped, nil},
			{"dead, there, of a lane", []string{"HSET " + row + " state dead attempts 3 group g", "ZADD emq:{q}:dead 0 JOB0"}, "JOB0", dropped, nil},
			{"pending, but not there", []string{"HSET " + row + " state pending attempts 3"}, "JOB0", rewritten, nil},
			{"dead, but not there", []string{"HSET " + row + " state dead attempts 3"}, "JOB0", moved, nil},
			{other + ", but not there", []string{"HSET " + row + " state " + other + " attempts 3"}, "JOB0", moved, nil},
			{other + ", but in dead", []string{"HSET " + row + " state " + other + " attempts 3", "ZADD emq:{q}:dead 0 JOB0"}, "JOB0", moved,
				[]string{row + ": state pending, in [dead pending]"}},
			{"dead, while dead is a string", []string{"HSET " + row + " state dead attempts 3", "SET emq:{q}:dead x"}, "JOB0", moved,
				[]string{"emq:{q}:dead: is a string"}},
			{"in its state, and in pending too", []string{"HSET " + row + " state " + sw.state + " attempts 3", "ZADD emq:{q}:pending 0 JOB0"}, "JOB0", moved, nil},
			{"in its state, and in dead too", []string{"HSET " + row + " state " + sw.state + " attempts 3", "ZADD emq:{q}:dead 0 JOB0"}, "JOB0", moved,
				[]string{row + ": state pending, in [dead pending]"}},
			{"no state", []string{"HSET " + row + " attempts 3"}, "JOB0", moved, nil},
			{"an unknown state", []string{"HSET " + row + " state odd attempts 3"}, "JOB0", moved, nil},
			{"no attempts", []string{"HSET " + row + " state " + sw.state}, "JOB0", moved, []string{row + `: attempts ""`}},
			{"bad attempts", []string{"HSET " + row + " state " + sw.state + " attempts abc"}, "JOB0", moved, []string{row + `: attempts "abc"`}},
			{"of a flow", []string{"HSET " + row + " state " + sw.state + " attempts 3 parent JOB9"}, "JOB0", moved, nil},
			{"of a lane", []string{"HSET " + row + " state " + sw.state + " attempts 3 group g"}, "JOB0", left, nil},
			{"of a lane without a name", []string{"HSET " + row + " state " + sw.state + ` attempts 3 group ""`}, "JOB0", left, nil},
			{"of a lane and a flow", []string{"HSET " + row + " state " + sw.state + " attempts 3 group g parent JOB9"}, "JOB0", left, nil},
			{"of a lane, in another state", []string{"HSET " + row + " state " + other + " attempts 3 group g"}, "JOB0", left,
				[]string{row + ": state " + other + ", in [" + sw.set()[len(good.Base()):] + "]"}},
		}
		for _, tt := range tests {
			t.Run(sw.name+"/"+tt.name, func(t *testing.T) {
				st := s.fresh(t)
				st.Must(tt.given...)
				st.Must("ZADD " + sw.set() + " 1 " + tt.id)
				sw.over(st, 2, "JOB1")
				st.damaged(tt.damage...)
				id := words(tt.id)[0]
				before := st.Do("DEBUG", "DIGEST-VALUE", good.Row(id))

				want := sw.reply("JOB1")
				if tt.fate == moved || tt.fate == rewritten {
					want = sw.reply("JOB0", "JOB1")
				}
				var o observed
				if tt.fate == rewritten {
					o = st.observe(func() { require.Equal(t, want, st.Do(sw.args(10)...)) }, family(sw.args(10))...)
					require.Subset(t, o.aborted, o.changed)
				} else {
					o = st.effects(want, sw.args(10)...)
				}

				switch tt.fate {
				case dropped:
					require.Equal(t, before, st.Do("DEBUG", "DIGEST-VALUE", good.Row(id)), "the row is left alone")
					require.Equal(t, show([]string{"ZREM", sw.set(), id}), o.stream[1])
					require.NotContains(t, st.Members(sw.set()), id)
				case left:
					require.Equal(t, before, st.Do("DEBUG", "DIGEST-VALUE", good.Row(id)), "the row is left alone")
					require.Equal(t, []string{id}, st.Members(sw.set()))
				case moved, rewritten:
					require.Equal(t, "pending", st.row(good, id)["state"])
					require.Equal(t, []string{"JOB0", "JOB1"}, st.Members(good.Pending()))
					require.Equal(t, int64(0), st.score(good.Pending(), id))
					require.Empty(t, st.Members(sw.set()))
				}
				if tt.fate == left {
					st.quiet(sw.reply(), sw.args(10)...)
				}
			})
		}
	}
}

// The limit counts entries that are moved or dropped, not those that stay; the earliest time comes first, then the
// lowest id.
func TestTheLimitOfASweep(t *testing.T) {
	s := witnessed(t)
	for _, sw := range sweepers {
		t.Run(sw.name, func(t *testing.T) {
			st := s.fresh(t)
			for at, kind := range []string{"group", "job", "none", "group", "job", "job", "none", "group", "job"} {
				switch id := "JOB" + strconv.Itoa(at); kind {
				case "none":
					st.Must(fmt.Sprintf("ZADD %s %d %s", sw.set(), at+1, id))
				case "group":
					sw.over(st, at+1, id, "group", "g")
				default:
					sw.over(st, at+1, id)
				}
			}
			st.put(good, "JOBlate", sw.state, "attempts", "1")
			st.effects(sw.reply("JOB1"), sw.args(1)...)
			st.effects(sw.reply("JOB4"), sw.args(2)...)
			st.effects(sw.reply("JOB5"), sw.args(2)...)
			require.Equal(t, []string{"JOB0", "JOB3", "JOB7", "JOB8", "JOBlate"}, st.Members(sw.set()))
			st.effects(sw.reply("JOB8"), sw.args(1)...)
			st.quiet(sw.reply(), sw.args(1)...)
			st.quiet(sw.reply(), sw.args(10_000)...)
			require.Equal(t, []string{"JOB1", "JOB4", "JOB5", "JOB8"}, st.Members(good.Pending()))
		})
		t.Run(sw.name+", in order", func(t *testing.T) {
			st := s.fresh(t)
			times := map[string]string{"JOBa": "-inf", "JOBb": "-5.5", "JOBc": "0", "JOBd": "1", "JOBe": "1", "JOBf": "1.25", "JOBg": "3"}
			for _, id := range []string{"JOBg", "JOBe", "JOBa", "JOBd", "JOBf", "JOBc", "JOBb"} {
				st.put(good, id, sw.state, "attempts", "1")
				st.Must("ZADD " + sw.set() + " XX " + times[id] + " " + id)
			}
			st.put(good, "JOBz", sw.state, "attempts", "1")
			st.Must("ZADD " + sw.set() + " XX +inf JOBz")
			st.damaged(sw.set() + ": JOBz has the score +Inf")
			require.Equal(t, sw.reply("JOBa", "JOBb"), st.Do(sw.args(2)...))
			require.Equal(t, []string{"JOBc", "JOBd", "JOBe", "JOBf", "JOBg", "JOBz"}, st.Members(sw.set()))
			require.Equal(t, sw.reply("JOBc", "JOBd", "JOBe", "JOBf", "JOBg"), st.Do(sw.args(100)...))
		})
		for _, encoding := range []string{"0", "512"} {
			t.Run(sw.name+", several hundred, zset-max-listpack-entries "+encoding, func(t *testing.T) {
				st := s.fresh(t)
				st.Must("CONFIG SET zset-max-listpack-entries " + encoding)
				t.Cleanup(func() { st.Must("CONFIG SET zset-max-listpack-entries 128") })
				var ids []string
				for i := range 300 {
					ids = append(ids, fmt.Sprintf("JOB%03d", i))
					sw.over(st, 7, ids[i])
				}
				require.Equal(t, sw.reply(ids[:100]...), st.Do(sw.args(100)...))
				require.Equal(t, ids[:100], st.Members(good.Pending()))
				st.effects(sw.reply(ids[100:]...), sw.args(10_000)...)
				require.Equal(t, ids, st.Members(good.Pending()))
			})
		}
	}
}

// One call looks at 10000 entries, whatever becomes of them; up to that number, entries that stay do not hold up others.
func TestTheBoundOfASweep(t *testing.T) {
	s := start(t, withModule())
	fill := func(st *fixture, sw sweeper, n int, row ...string) {
		var commands [][]string
		for i := range n {
			id := fmt.Sprintf("JOB%06d", i)
			commands = append(commands, []string{"ZADD", sw.set(), "1", id})
			if row != nil {
				commands = append(commands, append([]string{"HSET", good.Row(id), "state", sw.state, "attempts", "1"}, row...))
			}
		}
		st.Pipeline(commands)
	}
	for _, sw := range sweepers {
		for _, beyond := range []int{-1, 0, 1} {
			t.Run(fmt.Sprintf("%s/rows of a lane, and a job, %+d", sw.name, beyond), func(t *testing.T) {
				st := s.fresh(t)
				fill(st, sw, 10_000+beyond, "group", "g")
				sw.over(st, 2, "JOBz")
				want := sw.reply("JOBz")
				if beyond >= 0 {
					want = sw.reply()
				}
				require.Equal(t, want, st.Do(sw.args(1)...))
				require.Equal(t, integer(int64(map[bool]int{true: 10_001 + beyond, false: 10_000 + beyond}[beyond >= 0])), st.Do("ZCARD", sw.set()))
				st.Must("FLUSHALL")
			})
		}
		t.Run(sw.name+"/entries without rows", func(t *testing.T) {
			st := s.fresh(t)
			fill(st, sw, 10_005)
			require.Equal(t, sw.reply(), st.Do(sw.args(10_000)...))
			st.reply(integer(5), "ZCARD "+sw.set())
			require.Equal(t, sw.reply(), st.Do(sw.args(3)...))
			st.reply(integer(2), "ZCARD "+sw.set())
			st.Must("FLUSHALL")
		})
		t.Run(sw.name+"/jobs", func(t *testing.T) {
			st := s.fresh(t)
			fill(st, sw, 10_003, "payload", "x")
			first := value(st.Do(sw.args(10_000)...))
			if sw.name == "promote" {
				require.Equal(t, int64(10_000), first)
			} else {
				require.Len(t, first.([]any)[0], 10_000)
			}
			st.reply(integer(3), "ZCARD "+sw.set())
			st.reply(integer(10_000), "ZCARD emq:{q}:pending")
			require.Equal(t, sw.reply("JOB010000", "JOB010001", "JOB010002"), st.Do(sw.args(10_000)...))
		})
	}
	t.Run("reap/jobs that die", func(t *testing.T) {
		st := s.fresh(t)
		fill(st, sweepers[1], 10_000, "stalled", "1")
		lists := value(st.Do(good.Reap(2, 10_000)...)).([]any)
		require.Empty(t, lists[0])
		require.Len(t, lists[1], 10_000)
		st.reply(bulk("10000"), "HGET emq:{q}:metrics:failed count")
		st.reply(integer(10_000), "ZCARD emq:{q}:dead")
	})
}

// Expired rows and sets count as absent.
func TestExpiredKeysOfASweep(t *testing.T) {
	s := start(t, withModule())
	for _, sw := range sweepers {
		t.Run(sw.name, func(t *testing.T) {
			st := s.fresh(t)
			sw.over(st, 1, "JOB0")
			sw.over(st, 2, "JOB1")
			st.Must("DEBUG SET-ACTIVE-EXPIRE 0")
			st.expired("emq:{q}:job:JOB0")
			t.Cleanup(func() { st.Must("DEBUG SET-ACTIVE-EXPIRE 1") })
			require.Equal(t, sw.reply("JOB1"), st.Do(sw.args(10)...))
			require.Empty(t, st.Members(sw.set()))
			st.Must("HSET emq:{q}:job:JOB1 state "+sw.state, "ZREM emq:{q}:pending JOB1", "ZADD "+sw.set()+" 1 JOB1")
			st.expired(sw.set())
			require.Equal(t, sw.reply(), st.Do(sw.args(10)...))
			st.damaged("emq:{q}:job:JOB1: state " + sw.state + ", in []")
		})
	}
}

// Which lost leases count, and what becomes of the job: the epoch, the cap, the flow.
func TestLostLeases(t *testing.T) {
	s := start(t, withModule())
	run := s.fresh(t).Info("run_id")
	tests := []struct {
		name    string
		fields  []string
		max     int64
		dead    bool
		stalled string // "-" is none
	}{
		{"of this server", []string{"lease_epoch", run}, 3, false, "1"},
		{"of this server, again", []string{"lease_epoch", run, "stalled", "1"}, 3, false, "2"},
		{"of this server, at the cap", []string{"lease_epoch", run, "stalled", "2"}, 3, true, "3"},
		{"of this server, past the cap", []string{"lease_epoch", run, "stalled", "900"}, 3, true, "901"},
		{"of this server, the cap is one", []string{"lease_epoch", run}, 1, true, "1"},
		{"of this server, no cap", []string{"lease_epoch", run, "stalled", "900"}, 0, false, "901"},
		{"of this server, the largest cap", []string{"lease_epoch", run, "stalled", "2147483646"}, maxInt31, true, "2147483647"},
		{"of a script", nil, 3, false, "1"},
		{"of a script, at the cap", []string{"stalled", "2"}, 3, true, "3"},
		{"of another server", []string{"lease_epoch", "e"}, 3, false, "-"},
		{"of another server, at the cap", []string{"lease_epoch", "e", "stalled", "2"}, 3, false, "2"},
		{"of another server, the cap is one", []string{"lease_epoch", "e"}, 1, false, "-"},
		{"of no server", []string{"lease_epoch", ""}, 1, false, "-"},
		{"of nearly this server", []string{"lease_epoch", run[:39]}, 1, false, "-"},
		{"of this server and more", []string{"lease_epoch", run + "\x00"}, 1, false, "-"},
		{"stalled is a word", []string{"lease_epoch", run, "stalled", "abc"}, 2, false, "1"},
		{"stalled is negative", []string{"lease_epoch", run, "stalled", "-7"}, 2, false, "1"},
		{"stalled with a zero before", []string{"lease_epoch", run, "stalled", "07"}, 2, false, "1"},
		{"stalled is empty", []string{"lease_epoch", run, "stalled", ""}, 2, false, "1"},
		{"stalled is 2^53-2", []string{"lease_epoch", run, "stalled", "9007199254740990"}, 0, false, "9007199254740991"},
		{"stalled is 2^53-1", []string{"lease_epoch", run, "stalled", "9007199254740991"}, 2, false, "1"},
		{"stalled is 2^64", []string{"lease_epoch", run, "stalled", "18446744073709551616"}, 2, false, "1"},
		{"of a flow, at the cap", []string{"lease_epoch", run, "stalled", "2", "parent", "JOB9"}, 3, false, "3"},
		{"of a flow of no name, at the cap", []string{"lease_epoch", run, "stalled", "2", "parent", ""}, 3, false, "3"},
		{"of a flow and another server", []string{"lease_epoch", "e", "stalled", "2", "parent", "JOB9"}, 3, false, "2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := s.fresh(t)
			st.put(good, "JOB1", "active", slices.Concat([]string{"attempts", "4", "failures", "1", "last_error", "old", "progress", "50"}, tt.fields)...)
			st.lapse(good, "JOB1")
			want := st.row(good, "JOB1")
			want["state"] = "pending"
			if tt.stalled != "-" {
				want["stalled"] = tt.stalled
			}
			answer := reaped([]string{"JOB1"}, nil)
			if tt.dead {
				want["state"], want["last_error"] = "dead", "stalled"
				answer = reaped(nil, []string{"JOB1"})
			}
			require.Equal(t, answer, st.Do(good.Reap(tt.max, 10)...))
			require.Equal(t, want, st.row(good, "JOB1"), "attempts and lease_epoch stay")
			if tt.dead {
				st.reply(bulk("1"), "HGET emq:{q}:metrics:failed count")
				st.refusal("EMQSTALE complete token mismatch\r\n", good.Complete("JOB1", "4")...)
			} else {
				st.reply(integer(0), "EXISTS emq:{q}:metrics:failed")
				require.Equal(t, claimed("JOB1", "x", 5), st.Do(good.Claim(1000)...))
			}
		})
	}
}

// A job that kills its workers becomes dead when its lost leases reach the cap; a FAIL in between resets the count.
func TestAJobThatKillsItsWorkers(t *testing.T) {
	st := open(t)
	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
	lose := func(want string) {
		t.Helper()
		token := st.take(good, "JOB1")
		st.lapse(good, "JOB1")
		require.Equal(t, want, st.Do(good.Reap(3, 10)...))
		st.quiet(stale("extend"), good.Extend("JOB1", token, 1000)...)
	}
	back, dead := reaped([]string{"JOB1"}, nil), reaped(nil, []string{"JOB1"})
	st.s.observers = newObservers(t, st.s)
	lose(back)
	lose(back)
	require.Equal(t, "3", st.take(good, "JOB1"))
	require.Equal(t, bulk("scheduled"), st.Do(good.Fail("JOB1", "3", 0, 9, "its worker lived")...))
	require.Equal(t, integer(1), st.Do(good.Promote(10)...))
	lose(back)
	lose(back)
	require.Equal(t, "2", st.row(good, "JOB1")["stalled"])
	lose(dead)
	require.Equal(t, map[string]string{"state": "dead", "attempts": "6", "payload": "x", "failures": "1", "stalled": "3", "last_error": "stalled",
		"lease_epoch": st.Info("run_id")}, st.row(good, "JOB1"))
	require.Equal(t, empty, st.Do(good.Claim(1000)...))
}

// The holder of a lease that was lost and returned may settle the job until another claims it, and may not extend it.
func TestHolderAfterAReap(t *testing.T) {
	s := witnessed(t)
	lost := func(t *testing.T) *fixture {
		st := s.fresh(t)
		require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
		require.Equal(t, "1", st.take(good, "JOB1"))
		st.lapse(good, "JOB1")
		require.Equal(t, reaped([]string{"JOB1"}, nil), st.Do(good.Reap(3, 10)...))
		st.quiet(stale("extend"), good.Extend("JOB1", "1", 1000)...)
		return st
	}
	t.Run("completes", func(t *testing.T) {
		require.Equal(t, integer(1), lost(t).Do(good.Complete("JOB1", "1")...))
	})
	t.Run("fails, and that forgets the stalls", func(t *testing.T) {
		st := lost(t)
		require.Equal(t, bulk("scheduled"), st.Do(good.Fail("JOB1", "1", 0, 3, "late")...))
		require.Equal(t, map[string]string{"state": "scheduled", "attempts": "1", "payload": "x", "failures": "1", "last_error": "late"}, st.row(good, "JOB1"))
		require.Equal(t, integer(1), st.Do(good.Promote(10)...))
		for _, args := range [][]string{good.Complete("JOB1", "1"), good.Fail("JOB1", "1", 0, 3, "again"), good.Extend("JOB1", "1", 1000)} {
			st.refused("EMQSTALE ", args...)
		}
	})
	t.Run("is fenced by the next claim", func(t *testing.T) {
		st := lost(t)
		require.Equal(t, "2", st.take(good, "JOB1"))
		for _, args := range [][]string{good.Complete("JOB1", "1"), good.Fail("JOB1", "1", 0, 3, "late"), good.Extend("JOB1", "1", 1000)} {
			st.refused("EMQSTALE ", args...)
		}
		require.Equal(t, integer(1), st.Do(good.Extend("JOB1", "2", 1000)...))
	})
}

// EXTEND counts from now, even if the new deadline is earlier; an expired lease that was not returned yet is still the
// holder's.
func TestExtend(t *testing.T) {
	st := open(t)
	run := st.Info("run_id")
	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
	require.Equal(t, "1", st.take(good, "JOB1"))
	for _, lease := range []int64{60_000, 1000, 1 << 40, 30_000} {
		from := st.Now()
		require.Equal(t, integer(1), st.Do(good.Extend("JOB1", "1", lease)...))
		require.GreaterOrEqual(t, st.score(good.Active(), "JOB1"), from+lease)
		require.LessOrEqual(t, st.score(good.Active(), "JOB1"), st.Now()+lease)
		require.Equal(t, map[string]string{"state": "active", "attempts": "1", "payload": "x", "lease_epoch": run}, st.row(good, "JOB1"))
	}
	st.lapse(good, "JOB1")
	require.Equal(t, integer(1), st.Do(good.Extend("JOB1", "1", 60_000)...))
	require.Equal(t, reaped(nil, nil), st.Do(good.Reap(1, 10)...))

	st.Must("HSET emq:{q}:job:JOB1 lease_epoch another")
	require.Equal(t, integer(1), st.Do(good.Extend("JOB1", "1", 60_000)...))
	require.Equal(t, run, st.row(good, "JOB1")["lease_epoch"], "the lease is this server's now")
	st.lapse(good, "JOB1")
	require.Equal(t, reaped(nil, []string{"JOB1"}), st.Do(good.Reap(1, 10)...))
}

// Of jobs that are due at the same time, the one with the lower id is claimed first, so a retry comes before newer jobs.
func TestPromotedJobsAreClaimedInOrder(t *testing.T) {
	st := open(t)
	for i, id := range []string{"JOB5", "JOB2", "JOB8"} {
		require.Equal(t, integer(1), st.Do(good.ScheduleAt(id, "x", int64(3-i))...))
	}
	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB6", "x")...))
	require.Equal(t, "1", st.take(good, "JOB6"))
	require.Equal(t, integer(2), st.Do(good.Promote(2)...), "the earliest two")
	require.Equal(t, []string{"JOB2", "JOB8"}, st.Members(good.Pending()))
	require.Equal(t, integer(1), st.Do(good.Promote(2)...))
	require.Equal(t, bulk("scheduled"), st.Do(good.Fail("JOB6", "1", 0, 3, "why")...))
	require.Equal(t, integer(1), st.Do(good.Promote(2)...))
	for _, id := range []string{"JOB2", "JOB5", "JOB6", "JOB8"} {
		st.take(good, id)
	}
}

// After a restart, existing leases count as another server's: their expiry does not count, unless the job is claimed or
// extended again.
func TestLeasesOfARestartedServer(t *testing.T) {
	s := start(t, withModule("--appendonly", "yes", "--appendfsync", "always"))
	st := s.attachPlain(t)
	for i := range 3 {
		id := "JOB" + strconv.Itoa(i)
		require.Equal(t, integer(1), st.Do(good.Enqueue(id, "x")...))
		require.Equal(t, "1", st.take(good, id))
	}
	st.lapse(good, "JOB0", "JOB1", "JOB2")
	s.Crash()
	s.Start()

	st = s.attach(t)
	require.Equal(t, integer(1), st.Do(good.Extend("JOB1", "1", 60_000)...))
	require.Equal(t, reaped([]string{"JOB0", "JOB2"}, nil), st.Do(good.Reap(1, 10)...))
	require.NotContains(t, st.row(good, "JOB0"), "stalled")
	require.Equal(t, integer(1), st.Do(good.Complete("JOB2", "1")...), "its holder comes back")
	require.Equal(t, "2", st.take(good, "JOB0"))
	st.lapse(good, "JOB0", "JOB1")
	require.Equal(t, reaped(nil, []string{"JOB0", "JOB1"}), st.Do(good.Reap(1, 10)...))
}
