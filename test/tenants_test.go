package test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/wire"
)

// wrongNumkeys are values that differ from the verb's numkeys.
func wrongNumkeys(right string) []string {
	counts := []string{"0" + right, "+" + right, "0", "1", "3", "5", "99", "-1", "", "x", " " + right, right + " ", right + "\x00", right + ".0", nines, "9223372036854775807", "4294967298"}
	return slices.DeleteFunc(counts, func(count string) bool { return count == right })
}

// A user limited to one queue names another tenant's keys with a numkeys that the server may not be able to parse: the
// call must be refused before any of them is accessed. So must a call with a wrong numkeys by a user with all rights.
func TestNumkeysByALimitedUser(t *testing.T) {
	// With these settings each access to a key raises its LFU counter, and nothing lowers it.
	s := start(t, withModule("--maxmemory-policy", "allkeys-lfu", "--lfu-log-factor", "0", "--lfu-decay-time", "0"))
	victim := queue("b")
	verbs := map[string]struct {
		args    []string
		numkeys string
	}{
		"enqueue":  {victim.Enqueue("JOB9", "x"), "2"},
		"claim":    {victim.Claim(1000), "2"},
		"complete": {victim.Complete("JOB1", "1"), "2"},
		"fail":     {victim.Fail("JOB1", "1", 0, 1, "why"), "4"},
		"schedule": {victim.ScheduleAt("JOB9", "x", 1), "2"},
		"extend":   {victim.Extend("JOB1", "1", 1000), "2"},
		"promote":  {victim.Promote(10), "2"},
		"reap":     {victim.Reap(1, 10), "3"},
	}
	for verb, v := range verbs {
		for _, count := range append(wrongNumkeys(v.numkeys), v.numkeys) {
			t.Run(verb+"/"+escape(count), func(t *testing.T) {
				st := s.fresh(t)
				st.put(victim, "JOB1", "active", "attempts", "1")
				st.put(victim, "JOB2", "pending", "attempts", "0")
				st.put(victim, "JOB3", "dead", "attempts", "1")
				st.lapse(victim, "JOB1")
				st.Must("ACL SETUSER tenant reset on >secret +@emq ~emq:{a}:*",
					"DEBUG SET-ACTIVE-EXPIRE 0", "ZADD emq:{b}:schedule 5 JOB4")
				st.expired("emq:{b}:schedule")
				t.Cleanup(func() { st.Must("ACL DELUSER tenant", "DEBUG SET-ACTIVE-EXPIRE 1") })
				tenant := s.dial(t)
				require.Equal(t, "+OK\r\n", tenant.Do("AUTH", "tenant", "secret"))
				keys := []string{identity, victim.Row("JOB1"), victim.Row("JOB2"), victim.Pending(), victim.Active(), victim.Dead()}
				frequencies := func() (list []string) {
					for _, k := range keys {
						list = append(list, st.Do("OBJECT", "FREQ", k)) // counts as a hit, but not as a touch
					}
					return list
				}
				lookups := func() []string {
					return []string{st.Do("DBSIZE"), st.Info("expired_keys"), st.Info("keyspace_hits"), st.Info("keyspace_misses")}
				}
				untouched := func(c *wire.Conn) string {
					touched := frequencies()
					looked := lookups()
					reply := c.Do(with(v.args, 1, count)...)
					require.Equal(t, looked, lookups(), "a key was looked up")
					require.Equal(t, touched, frequencies(), "a key was touched")
					return reply
				}
				if count == v.numkeys {
					require.Equal(t, "-NOPERM No permissions to access a key\r\n", untouched(tenant))
				} else {
					require.Regexp(t, `^-(ERR|NOPERM) `, untouched(tenant))
					require.Regexp(t, `^-ERR numkeys `, untouched(s.dial(t)))
				}
				st.Must("DEL emq:{b}:schedule") // expired, not yet gone
			})
		}
	}
}

// Names that resemble a queue's keys but are not, or end like another key: each is refused before any key is accessed,
// even a declared one.
func TestNamesThatAreNoQueuesTouchNothing(t *testing.T) {
	s := start(t, withModule("--maxmemory-policy", "allkeys-lfu", "--lfu-log-factor", "0", "--lfu-decay-time", "0"))
	st := s.fresh(t)
	keys := []string{identity}
	for _, base := range []string{good.Base(), "x", "emq:{q}"} {
		for _, name := range []string{good.Row("JOB1"), good.Completed(), good.Failed(), good.Pending(), good.Active(), good.Schedule(), good.Dead()} {
			key := base + strings.TrimPrefix(name, good.Base())
			st.Do("HSET", key, "state", "active", "attempts", "1")
			keys = append(keys, key)
		}
	}
	frequencies := func() (list []string) {
		for _, k := range keys {
			list = append(list, st.Do("OBJECT", "FREQ", k))
		}
		return list
	}
	refused := func(args []string) {
		before := frequencies()
		st.refusal("EMQKEY ", args...)
		require.Equal(t, before, frequencies(), show(args))
	}
	for _, args := range allOn(good) {
		for _, base := range []string{"", "x", "emq:{q}"} {
			other := slices.Clone(args)
			for i := range other {
				if rest, ok := strings.CutPrefix(other[i], good.Base()); ok {
					other[i] = base + rest
				}
			}
			refused(other)
		}
		for i, word := range args { // the set that begins with the base
			if rest, ok := strings.CutPrefix(word, good.Base()); ok && !strings.HasPrefix(rest, "job:") {
				refused(with(args, i, good.Base()+rest[:max(0, len(rest)-1)]+"?"))
				break
			}
		}
	}
	st.Must("FLUSHALL")
}

// Shows that the tests above can fail: an allowed verb accesses the keys and raises the counters.
func TestTouchesAreSeen(t *testing.T) {
	s := start(t, withModule("--maxmemory-policy", "allkeys-lfu", "--lfu-log-factor", "0", "--lfu-decay-time", "0"))
	st := s.fresh(t)
	st.put(good, "JOB1", "active", "attempts", "1")
	before := st.Do("OBJECT", "FREQ", good.Row("JOB1"))
	require.Equal(t, stale("complete"), st.Do(good.Complete("JOB1", "2")...))
	require.NotEqual(t, before, st.Do("OBJECT", "FREQ", good.Row("JOB1")))
}

// For a user without limits too, a wrong numkeys is refused before any other check.
func TestNumkeys(t *testing.T) {
	s := witnessed(t)
	for verb, args := range verbsOn(good) {
		right := args[1]
		for _, count := range wrongNumkeys(right) {
			t.Run(verb+"/"+escape(count), func(t *testing.T) {
				st := s.fresh(t)
				st.put(good, "JOB1", "active", "attempts", "1")
				st.refused("ERR ", with(args, 1, count)...)
				require.Contains(t, st.lastReply, "numkeys")
				require.Contains(t, st.lastReply, right)
			})
		}
	}
}

// A user with the module's category and the keys of one queue can use that queue and nothing else.
func TestOneTenant(t *testing.T) {
	s := start(t, withModule())
	st := s.fresh(t)
	st.Must("ACL SETUSER tenant reset on >secret +@emq ~emq:{a}:*")
	tenant := s.dial(t)
	require.Equal(t, "+OK\r\n", tenant.Do("AUTH", "tenant", "secret"))
	a, b := queue("a"), queue("b")
	require.Equal(t, integer(1), tenant.Do(a.Enqueue("JOB1", "x")...))
	require.Equal(t, claimed("JOB1", "x", 1), tenant.Do(a.Claim(1000)...))
	require.Equal(t, bulk("scheduled"), tenant.Do(a.Fail("JOB1", "1", 0, 2, "why")...))
	require.Equal(t, integer(1), tenant.Do(a.Promote(10)...))
	require.Equal(t, claimed("JOB1", "x", 2), tenant.Do(a.Claim(1000)...))
	require.Equal(t, integer(1), tenant.Do(a.Extend("JOB1", "2", 5000)...))
	st.lapse(a, "JOB1")
	require.Equal(t, reaped([]string{"JOB1"}, nil), tenant.Do(a.Reap(3, 10)...))
	require.Equal(t, integer(1), tenant.Do(a.Complete("JOB1", "2")...))
	require.Equal(t, integer(1), tenant.Do(a.ScheduleIn("JOB2", "x", 60_000)...))
	require.Equal(t, status(1, 1), tenant.Do(a.Menqueue("JOB3", "x", "JOB4", "x")...))
	require.Equal(t, array(claimed("JOB3", "x", 1), claimed("JOB4", "x", 1)), tenant.Do(a.Mclaim(1000, 10)...))
	require.Equal(t, status(1, 0), tenant.Do(a.Mextend(5000, "JOB3", "1", "JOB1", "1")...))
	require.Equal(t, status(1, 1), tenant.Do(a.Mfail(2, "JOB3", "1", "0", "why", "JOB4", "1", "0", "why")...))
	require.Equal(t, status(-1), tenant.Do(a.Mcomplete("JOB3", "1")...))
	require.Equal(t, status(0, 1), tenant.Do(a.Mschedule("in", "JOB3", "1", "x", "JOB5", "60000", "x")...))
	require.Equal(t, "+OK\r\n", tenant.Do(a.Pause(0)...))
	require.Equal(t, integer(1), tenant.Do(a.Resume()...))
	require.Equal(t, "+OK\r\n", tenant.Do(a.Limit(9, 9, 1000)...))
	require.Equal(t, status(1, 0), tenant.Do(a.Requeue("scheduled", "JOB5", "JOB1")...))
	require.Equal(t, claimed("JOB5", "x", 1), tenant.Do(a.Claim(1000)...))
	require.Equal(t, bulk("pending"), tenant.Do(a.Release("JOB5", "1", 0)...))
	require.Equal(t, status(1, 0), tenant.Do(a.Remove("pending", "JOB5", "JOB1")...))
	require.Equal(t, "+OK\r\n", tenant.Do(a.Limit(0, 0, 0)...))
	for verb, args := range allOn(b) {
		require.Equal(t, "-NOPERM No permissions to access a key\r\n", tenant.Do(args...), verb)
	}
	for verb, args := range verbsOn(a) {
		for i, word := range args {
			if q, _, ok := wire.Split(word); ok && word != a.Base() && word != a.RowPrefix() && q == a {
				require.Equal(t, "-NOPERM No permissions to access a key\r\n", tenant.Do(with(args, i, "emq:{b}:"+word[len(a.Base()):])...), "%s, %s", verb, word)
			}
		}
	}
	for _, line := range []string{"GET {emq}:version", "HGETALL emq:{a}:job:JOB1", "PING", "DEL emq:{a}:pending"} {
		require.Contains(t, tenant.Do(words(line)...), "-NOPERM ", line)
	}
	// Users without the right to write, and users without the category.
	st.Must("ACL SETUSER tenant reset on >secret +@emq %R~emq:{a}:*")
	for verb, args := range merge(merge(verbsOn(a), batchesOn(a)), operatorsOn(a)) {
		require.Equal(t, "-NOPERM No permissions to access a key\r\n", tenant.Do(args...), verb)
	}
	st.Must("ACL SETUSER tenant reset on >secret +@emq -emq.enqueue ~emq:{a}:*")
	require.Contains(t, tenant.Do(a.Enqueue("JOB1", "x")...), "-NOPERM ")
	require.Equal(t, empty, tenant.Do(a.Claim(1000)...))
	st.Must("ACL SETUSER tenant reset on >secret +@all -@write ~*")
	for verb, args := range merge(verbsOn(a), batchesOn(a)) {
		require.Contains(t, tenant.Do(args...), "-NOPERM ", "%s is in the category write", verb)
	}
}
