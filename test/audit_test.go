package test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
)

// audit goes through a whole queue and returns the findings, each as "finding id where remedy applied". It calls `between`
// before each further call.
func (st *fixture) audit(q queue, count int64, fix bool, between ...func()) (found []string) {
	st.t.Helper()
	call := q.Audit
	if fix {
		call = q.Fix
	}
	calls := 0
	for cursor := "0"; ; calls++ {
		require.Less(st.t, calls, 100_000, "the audit does not end")
		reply := value(st.Do(call(cursor, count)...)).([]any)
		for _, f := range reply[1].([]any) {
			found = append(found, strings.Trim(fmt.Sprint(f), "[]"))
		}
		if cursor = reply[0].(string); cursor == "0" {
			return found
		}
		for _, act := range between {
			act()
		}
	}
}

// breakage writes a job directly: in any sets, and with any state or none.
func (st *fixture) breakage(dice *rand.Rand, q queue, id string) {
	pick := func(list ...string) string { return list[dice.IntN(len(list))] }
	var lines []string
	switch dice.IntN(12) {
	case 0: // no row
	case 1:
		lines = append(lines, "RPUSH "+q.Row(id)+" x")
	default:
		row := "HSET " + q.Row(id) + " payload x"
		if state := pick("pending", "active", "scheduled", "dead", "pending", "active", "scheduled", "dead", ""); state != "" {
			row += " state " + state
		}
		if attempts := pick("0", "1", "3", "1", "3", "x", "01", "9007199254740990", ""); attempts != "" {
			row += " attempts " + attempts
		}
		if dice.IntN(2) == 0 {
			row += " lease_epoch " + pick("e1", "e2")
		}
		lines = append(lines, row)
	}
	for range dice.IntN(3) {
		set := pick("pending", "active", "scheduled", "dead")
		score := map[string]string{"pending": "0", "dead": "0", "active": pick("1", "9000000000000"), "scheduled": pick("1", "9000000000000")}[set]
		lines = append(lines, "ZADD "+q.Set(set)+" "+score+" "+id)
	}
	st.Must(lines...)
}

// TestAuditPutsStoresRight breaks queues at random and audits them with FIX: after that there are no findings, the store is
// valid except for keys that AUDIT must not remove, and every holder still holds its job.
func TestAuditPutsStoresRight(t *testing.T) {
	s := start(t, withModule())
	dice := rand.New(rand.NewPCG(store.Seed(t), 0))
	for round := range store.Rounds(t, 12, 200) {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			st := s.fresh(t)
			ids := []string{}
			for i := range 20 + dice.IntN(200) {
				id := fmt.Sprintf("JOB%03d", i)
				ids = append(ids, id)
				st.breakage(dice, good, id)
			}
			for range dice.IntN(4) {
				st.Must("ZADD " + good.Set([]string{"pending", "dead"}[dice.IntN(2)]) + " 0 XYZ" + strconv.Itoa(dice.IntN(9)))
			}
			held := func(id string) bool {
				row, ok := value(st.Do("HMGET", good.Row(id), "state", "attempts", "lease_epoch")).([]any)
				if !ok {
					return false
				}
				attempts, _ := row[1].(string)
				return slices.Contains([]string{"1", "3", "9007199254740990"}, attempts) && (row[0] == "active" || row[0] == "pending" && row[2] != nil)
			}
			var holders []string
			for _, id := range ids {
				if held(id) {
					holders = append(holders, id)
				}
			}
			count := int64(1 + dice.IntN(40))
			wrong := st.audit(good, count, false)
			require.NotEmpty(t, wrong)
			for _, f := range st.audit(good, count, true) {
				require.Contains(t, []string{"1", "0"}, f[len(f)-1:], f)
				require.Equal(t, strings.HasSuffix(f, "leave 0"), strings.HasSuffix(f, "0"), f)
			}
			for _, f := range st.audit(good, count, false) {
				require.Regexp(t, `^no-hash JOB\d+ rows leave 0$`, f)
				st.damaged(good.Row(strings.Fields(f)[1]) + ": is a list")
			}
			for _, id := range holders {
				require.True(t, held(id), "%s was held", id)
			}
		})
	}
}

// TestAuditBesideTheVerbs audits queues while clients use all verbs on them, with FIX and without: there are no false
// findings, and the audit loses, returns or moves no job.
func TestAuditBesideTheVerbs(t *testing.T) {
	s := start(t, withModule())
	dice := rand.New(rand.NewPCG(store.Seed(t), 1))
	st := s.fresh(t)
	tokens, next, settled := map[string]string{}, 0, 0
	most := 500 // jobs that are made
	act := func() {
		for range 1 + dice.IntN(20) {
			switch dice.IntN(8) {
			case 0, 1, 2:
				if next == most {
					continue // so that the audit comes to its end
				}
				next++
				id := fmt.Sprintf("JOB%06d", next)
				if dice.IntN(3) == 0 {
					require.Equal(t, integer(1), st.Do(good.ScheduleIn(id, "x", int64(dice.IntN(3)))...))
				} else {
					require.Equal(t, integer(1), st.Do(good.Enqueue(id, "x")...))
				}
			case 3, 4:
				if job, _ := value(st.Do(good.Claim([]int64{1, 100_000}[dice.IntN(2)])...)).([]any); len(job) == 3 {
					tokens[job[0].(string)] = strconv.FormatInt(job[2].(int64), 10)
				}
			case 5:
				for id, token := range tokens {
					if dice.IntN(2) == 0 {
						st.Do(good.Complete(id, token)...)
					} else {
						st.Do(good.Fail(id, token, int64(dice.IntN(2)), 3, "why")...)
					}
					delete(tokens, id)
					settled++
					break
				}
			case 6:
				st.Do(good.Promote(100)...)
			case 7:
				st.Do(good.Reap(3, 100)...)
			}
		}
	}
	for range 100 {
		act()
	}
	for range store.Rounds(t, 6, 100) {
		most = next + 500
		require.Empty(t, st.audit(good, int64(1+dice.IntN(20)), dice.IntN(2) == 0, act))
	}
	require.Greater(t, settled, 20)
	// An audit without FIX has no effects.
	before := st.digest()
	require.Empty(t, st.audit(good, 1000, true))
	require.Equal(t, before, st.digest())
}

// Large sets take several calls, and each entry is looked at, though the sets shrink and the server's tables with them.
func TestAuditOfLargeSets(t *testing.T) {
	st := open(t)
	const n = 20_000
	for _, set := range []string{good.Pending(), good.Active(), good.Schedule(), good.Dead()} {
		require.Equal(t, integer(n), st.Do("EVAL", "local n = 0; for i = 1, ARGV[1] do n = n + redis.call('ZADD', KEYS[1], 9e12, 'JOB' .. i) end return n", "1", set, strconv.Itoa(n)))
	}
	st.Must("EMQ.ENQUEUE 2 emq:{q}:job:JOBz emq:{q}:pending JOBz x")
	found := st.audit(good, 100, true)
	require.Len(t, found, 4*n)
	slices.Sort(found)
	require.Len(t, slices.Compact(found), 4*n, "no finding twice")
	require.Equal(t, integer(1), st.Do("EXISTS", good.Pending(), good.Active(), good.Schedule(), good.Dead()))
	require.Equal(t, []string{"JOBz"}, st.Members(good.Pending()))
}

// The rows of a queue are found among many other keys, and no other queue's: the pattern matches the name literally.
func TestAuditFindsItsOwnRows(t *testing.T) {
	st := open(t)
	names := []string{"a", "*", "?", "[a-z]", "[^b]", "\\a", "a*", "a-b]c^", "ab", "\x01\xff\r\n", strings.Repeat("n*", 3000)}
	for i := range 3000 {
		st.Must("SET other:" + strconv.Itoa(i) + " x")
	}
	for i, name := range names {
		require.Equal(t, integer(2), st.Do("HSET", queue(name).Row("JOB"+strconv.Itoa(i)), "state", "pending", "attempts", "0"))
	}
	for i, name := range names {
		want := []string{"no-set JOB" + strconv.Itoa(i) + " rows pending 1"}
		require.Equal(t, want, st.audit(queue(name), 500, true), escape(name)[:min(20, len(name))])
		require.Empty(t, st.audit(queue(name), 500, true))
	}
}

// An expired row counts as absent: its entry is dropped, and the server removes the row as usual.
func TestAuditMeetsWhatHasExpired(t *testing.T) {
	s := witnessed(t)
	st := s.fresh(t)
	st.Must("DEBUG SET-ACTIVE-EXPIRE 0")
	t.Cleanup(func() { st.Must("DEBUG SET-ACTIVE-EXPIRE 1") })
	for i := range 3 {
		require.Equal(t, integer(1), st.Do(good.Enqueue("JOB"+strconv.Itoa(i), "x")...))
		st.Must("PEXPIRE " + good.Row("JOB"+strconv.Itoa(i)) + " 1")
	}
	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB9", "x")...))
	st.Must("HSET emq:{q}:job:JOB8 state pending attempts 0")
	st.expired("emq:{q}:job:JOB8")
	o := st.observe(func() {
		require.Equal(t, []string{"no-row JOB0 pending drop 1", "no-row JOB1 pending drop 1", "no-row JOB2 pending drop 1"}, st.audit(good, 10, true))
	})
	for i := range 3 {
		require.Contains(t, o.stream, "ZREM emq:{q}:pending JOB"+strconv.Itoa(i))
	}
	require.Equal(t, integer(1), st.Do("EXISTS", good.Row("JOB9")))
	require.NotContains(t, strings.Join(o.stream, "\n"), "EMQ.")
	require.Equal(t, integer(3), st.Do("DBSIZE"), "the identity, a row, pending: SCAN removed what it met")
}

// A holder settles its job after an audit as before it.
func TestAuditKeepsHolders(t *testing.T) {
	s := start(t, withModule())
	for name, wreck := range map[string][]string{
		"its entry is gone":        {"DEL emq:{q}:active"},
		"it is dead":               {"DEL emq:{q}:active", "ZADD emq:{q}:dead 0 JOB1"},
		"it is pending":            {"DEL emq:{q}:active", "ZADD emq:{q}:pending 0 JOB1"},
		"it is pending by scripts": {"DEL emq:{q}:active", "HDEL emq:{q}:job:JOB1 lease_epoch", "ZADD emq:{q}:pending 0 JOB1"},
		"it is in all sets":        {"ZADD emq:{q}:pending 0 JOB1", "ZADD emq:{q}:schedule 1 JOB1", "ZADD emq:{q}:dead 0 JOB1"},
		"its state is gone":        {"HDEL emq:{q}:job:JOB1 state"},
		"it was returned by half":  {"DEL emq:{q}:active", "HSET emq:{q}:job:JOB1 state pending"},
	} {
		t.Run(name, func(t *testing.T) {
			st := s.fresh(t)
			require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
			token := st.take(good, "JOB1")
			st.Must(wreck...)
			require.NotEmpty(t, st.audit(good, 100, true))
			require.Empty(t, store.Read(t, st.Conn)[0].Check(wire6))
			st.Do(good.Reap(1, 10)...) // the deadline was set by the audit, so its expiry is no lost lease
			require.NotContains(t, st.row(good, "JOB1"), "stalled")
			require.Equal(t, integer(1), st.Do(good.Complete("JOB1", token)...))
		})
	}
}

// Where SCAN or ZSCAN is renamed, the audit says so and changes nothing.
func TestAuditWithoutScan(t *testing.T) {
	for _, name := range []string{"SCAN", "ZSCAN"} {
		t.Run(name, func(t *testing.T) {
			s := start(t, withModule("--rename-command", name, "hidden"))
			st := s.fresh(t)
			refusals := 0
			for _, cursor := range []string{"0", "active:0", "schedule:0", "dead:0", "rows:0"} {
				if strings.HasPrefix(st.Do(good.Fix(cursor, 10)...), "-ERR SCAN or ZSCAN ") {
					refusals++
				}
			}
			require.Equal(t, map[string]int{"SCAN": 1, "ZSCAN": 4}[name], refusals)
		})
	}
}
