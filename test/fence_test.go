package test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const underAnother = "emq:{q}:: rows under another identity"

// verbsOn are the writing verbs with numkeys, on a queue with a job that is held with the token 1.
func verbsOn(q queue) map[string][]string {
	return map[string][]string{
		"enqueue":  q.Enqueue("JOB2", "x"),
		"claim":    q.Claim(1000),
		"complete": q.Complete("JOB1", "1"),
		"fail":     q.Fail("JOB1", "1", 0, 1, "why"),
		"schedule": q.ScheduleIn("JOB2", "x", 1000),
		"extend":   q.Extend("JOB1", "1", 1000),
		"promote":  q.Promote(10),
		"reap":     q.Reap(1, 10),
	}
}

// A creator is a verb that makes a job, and so may claim an unclaimed store.
type creator struct {
	of  func(id, payload string) []string
	set string // which the job enters
}

var creators = map[string]creator{
	"enqueue":     {good.Enqueue, good.Pending()},
	"schedule in": {func(id, payload string) []string { return good.ScheduleIn(id, payload, 1000) }, good.Schedule()},
	"schedule at": {func(id, payload string) []string { return good.ScheduleAt(id, payload, 1) }, good.Schedule()},
}

// batchesOn are the verbs for many jobs on such a queue. They declare its base.
func batchesOn(q queue) map[string][]string {
	return map[string][]string{
		"menqueue":  q.Menqueue("JOB2", "x", "JOB3", "y"),
		"mschedule": q.Mschedule("in", "JOB2", "1000", "x", "JOB3", "2000", "y"),
		"mclaim":    q.Mclaim(1000, 10),
		"mcomplete": q.Mcomplete("JOB0", "1", "JOB1", "1"),
		"mextend":   q.Mextend(1000, "JOB0", "1", "JOB1", "1"),
		"mfail":     q.Mfail(1, "JOB0", "1", "0", "why", "JOB1", "1", "0", "why"),
	}
}

// operatorsOn are the verbs that give back, those of operators, and those of the gates, on such a queue.
func operatorsOn(q queue) map[string][]string {
	return map[string][]string{
		"release": q.Release("JOB1", "1", 0),
		"requeue": q.Requeue("dead", "JOB1", "JOB2"),
		"remove":  q.Remove("any", "JOB1", "JOB2"),
		"pause":   q.Pause(1000),
		"resume":  q.Resume(),
		"limit":   q.Limit(3, 100, 1000),
	}
}

func merge(a, b map[string][]string) map[string][]string {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

// allOn are all verbs on such a queue.
func allOn(q queue) map[string][]string {
	verbs := merge(merge(verbsOn(q), batchesOn(q)), operatorsOn(q))
	verbs["stats"], verbs["audit"], verbs["fix"] = q.Stats(), q.Audit("0", 10), q.Fix("active:0", 10)
	return verbs
}

// An identity that is another, whatever it is, refuses every verb and shows both values.
func TestFenceRefusesAnotherIdentity(t *testing.T) {
	s := witnessed(t)
	others := map[string]struct {
		set    []string
		broken string
	}{
		"wire 4":         {[]string{"SET", identity, "echomq:4.0.0"}, underAnother},
		"one byte more":  {[]string{"SET", identity, wire6 + "\x00"}, underAnother},
		"one byte less":  {[]string{"SET", identity, wire6[:len(wire6)-1]}, underAnother},
		"upper case":     {[]string{"SET", identity, "ECHOMQ:6.0.0"}, underAnother},
		"empty":          {[]string{"SET", identity, ""}, underAnother},
		"a number":       {[]string{"SET", identity, "6"}, underAnother},
		"every byte":     {[]string{"SET", identity, allBytes}, underAnother},
		"with a timeout": {[]string{"SET", identity, "echomq:7.0.0", "PX", "100000000"}, underAnother},
	}
	for kind, maker := range makers {
		if kind != "string" {
			others["a "+kind] = struct {
				set    []string
				broken string
			}{with(maker, 1, identity), underAnother}
		}
	}
	for what, other := range others {
		for verb, args := range allOn(good) {
			t.Run(what+"/"+verb, func(t *testing.T) {
				st := s.fresh(t)
				st.put(good, "JOB1", "active", "attempts", "1", "lease_epoch", "e")
				st.Must("DEL {emq}:version")
				require.NotEqual(t, byte('-'), st.Do(other.set...)[0])
				st.damaged(other.broken)
				st.refused("EMQFENCE ", args...)
				require.Contains(t, st.lastReply, wire6, "the value that would do")
				if what == "wire 4" {
					require.Contains(t, st.lastReply, "echomq:4.0.0", "the value that is there")
				}
			})
		}
	}
}

// The refusal is the same if the verb would have nothing to do.
func TestFenceRefusesOnAnEmptyStore(t *testing.T) {
	s := witnessed(t)
	for verb, args := range allOn(good) {
		t.Run(verb, func(t *testing.T) {
			st := s.bare(t)
			st.Must("SET {emq}:version echomq:4.0.0")
			st.refused("EMQFENCE ", args...)
		})
	}
}

// An absent identity: ENQUEUE and SCHEDULE claim it if they create a row; the others reply as for an empty queue if it
// has no keys, and refuse if it has some.
func TestFenceAbsent(t *testing.T) {
	s := witnessed(t)
	const orphans = "emq:{q}:: rows without an identity"
	empties := map[string]string{"claim": empty, "complete": integer(0), "fail": gone, "extend": integer(-1), "promote": integer(0),
		"reap": reaped(nil, nil)}
	looksAt := map[string]string{"claim": good.Pending(), "complete": good.Row("JOB1"), "fail": good.Row("JOB1"),
		"extend": good.Row("JOB1"), "promote": good.Schedule(), "reap": good.Active()}

	for verb, c := range creators {
		t.Run(verb+" claims it", func(t *testing.T) {
			st := s.bare(t)
			o := st.effects(integer(1), c.of("JOB1", "x")...)
			st.reply(bulk(wire6), "GET {emq}:version")
			st.reply(integer(-1), "PTTL {emq}:version")
			require.Equal(t, "MULTI", o.stream[0], "one atomic unit")
			require.Equal(t, "SET {emq}:version echomq:6.0.0 NX", o.stream[1], "the claim comes first")
			require.Equal(t, "EXEC", o.stream[len(o.stream)-1])
			require.Len(t, o.stream, 5)
		})
		t.Run(verb+" of a duplicate claims nothing", func(t *testing.T) {
			st := s.bare(t)
			st.put(good, "JOB1", "pending", "attempts", "0")
			st.damaged(orphans)
			st.quiet(integer(0), c.of("JOB1", "x")...)
		})
		for _, key := range []string{good.Row("JOB1"), c.set} {
			t.Run(verb+" on a wrong type claims nothing/"+key, func(t *testing.T) {
				st := s.bare(t)
				st.Must("SET " + key + " x")
				st.damaged(key + ": is a string")
				if key == good.Row("JOB1") {
					st.damaged(orphans)
				}
				st.refused(wrongTypeText, c.of("JOB1", "x")...)
			})
		}
		t.Run(verb+" beside foreign rows", func(t *testing.T) {
			st := s.bare(t)
			st.put(good, "JOB1", "pending", "attempts", "0")
			require.Equal(t, integer(1), st.Do(c.of("JOB2", "x")...), "a row will be created: the identity is claimed")
			st.reply(bulk(wire6), "GET {emq}:version")
		})
	}
	for verb, reply := range empties {
		args := verbsOn(good)[verb]
		t.Run(verb+" on nothing", func(t *testing.T) {
			s.bare(t).quiet(reply, args...)
		})
		t.Run(verb+" beside another queue", func(t *testing.T) {
			st := s.bare(t)
			st.put("other", "JOB1", "active", "attempts", "1")
			st.put("other", "JOB2", "scheduled", "attempts", "1")
			st.lapse("other", "JOB1", "JOB2")
			st.damaged("emq:{other}:: rows without an identity")
			st.quiet(reply, args...)
		})
		for kind := range makers {
			t.Run(verb+" where a "+kind+" is", func(t *testing.T) {
				st := s.bare(t)
				key := looksAt[verb]
				st.make(kind, key)
				switch {
				case verb == "claim" && kind == "zset":
					st.damaged(key+": JOBx has no row", key+": JOBx has the score 1")
				case key != good.Row("JOB1") && kind == "zset":
					st.damaged(key + ": JOBx has no row")
				case key != good.Row("JOB1"):
					st.damaged(key + ": is a " + kind)
				case kind == "hash":
					st.damaged(orphans, key+": state pending, in []", key+`: attempts ""`)
				default:
					st.damaged(orphans, key+": is a "+kind)
				}
				st.refused("EMQFENCE ", args...)
			})
		}
	}
}

// An expired identity counts as absent on a primary that has not removed it yet.
func TestFenceExpired(t *testing.T) {
	s := witnessed(t)
	expire := func(t *testing.T, value string) *fixture {
		st := s.bare(t)
		st.Must("DEBUG SET-ACTIVE-EXPIRE 0", "SET {emq}:version "+value)
		st.expired("{emq}:version")
		t.Cleanup(func() { st.Must("DEBUG SET-ACTIVE-EXPIRE 1") })
		return st
	}
	for _, value := range []string{wire6, "echomq:4.0.0"} {
		for verb, c := range creators {
			t.Run(verb+"/"+value, func(t *testing.T) {
				st := expire(t, value)
				require.Equal(t, integer(1), st.Do(c.of("JOB1", "x")...))
				st.reply(bulk(wire6), "GET {emq}:version")
				st.reply(integer(-1), "PTTL {emq}:version")
			})
		}
		t.Run("claim/"+value, func(t *testing.T) {
			require.Equal(t, empty, expire(t, value).Do(good.Claim(1000)...))
		})
		t.Run("complete/"+value, func(t *testing.T) {
			st := expire(t, value)
			st.put(good, "JOB1", "active", "attempts", "1")
			st.damaged("emq:{q}:: rows without an identity")
			st.refusal("EMQFENCE ", good.Complete("JOB1", "1")...)
			st.refusal("EMQFENCE ", good.Extend("JOB1", "1", 1000)...)
			st.refusal("EMQFENCE ", good.Reap(0, 10)...)
			require.Equal(t, integer(0), st.Do(good.Promote(10)...))
		})
	}
}

// The identity belongs to one logical database and is read at every command.
func TestFenceIsReadAtEveryCommand(t *testing.T) {
	s := start(t, withModule())
	t.Run("a manual SET", func(t *testing.T) {
		st := s.fresh(t)
		require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
		st.Must("SET {emq}:version echomq:4.0.0")
		st.refusal("EMQFENCE ", good.Claim(1000)...)
		st.Must("SET {emq}:version echomq:6.0.0")
		require.Equal(t, claimed("JOB1", "x", 1), st.Do(good.Claim(1000)...))
	})
	t.Run("APPEND, RENAME and COPY", func(t *testing.T) {
		st := s.fresh(t)
		require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
		st.Must("APPEND {emq}:version .1")
		st.refusal("EMQFENCE ", good.Claim(1000)...)
		st.Must("SET kept " + wire6)
		st.Must("RENAME kept {emq}:version")
		require.Equal(t, claimed("JOB1", "x", 1), st.Do(good.Claim(1000)...))
	})
	t.Run("FLUSHALL", func(t *testing.T) {
		st := s.fresh(t)
		st.Must("FLUSHALL")
		require.Equal(t, empty, st.Do(good.Claim(1000)...))
		st.reply(nothing, "GET {emq}:version")
		require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
		st.reply(bulk(wire6), "GET {emq}:version")
	})
	t.Run("SELECT", func(t *testing.T) {
		st := s.fresh(t)
		st.Must("SELECT 5", "SET {emq}:version echomq:4.0.0")
		st.refusal("EMQFENCE ", good.Enqueue("JOB1", "x")...)
		st.Must("SELECT 6")
		require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "in 6")...))
		st.Must("SELECT 0")
		require.Equal(t, empty, st.Do(good.Claim(1000)...), "the job is in another database")
		st.Must("SELECT 6")
		require.Equal(t, claimed("JOB1", "in 6", 1), st.Do(good.Claim(1000)...))
	})
	t.Run("SWAPDB", func(t *testing.T) {
		st := s.fresh(t)
		require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
		st.Must("SELECT 1", "SET {emq}:version echomq:4.0.0", "SELECT 0", "SWAPDB 0 1")
		st.refusal("EMQFENCE ", good.Claim(1000)...)
		st.Must("SELECT 1")
		require.Equal(t, claimed("JOB1", "x", 1), st.Do(good.Claim(1000)...))
		st.Must("SELECT 0")
	})
	t.Run("within one transaction", func(t *testing.T) {
		st := s.fresh(t)
		st.Must("MULTI", "SET {emq}:version echomq:4.0.0")
		for _, args := range [][]string{good.Enqueue("JOB1", "x"), {"SET", identity, wire6}, good.Enqueue("JOB1", "x")} {
			require.Equal(t, "+QUEUED\r\n", st.Do(args...))
		}
		replies := value(st.Do("EXEC")).([]any)
		assert.Contains(t, replies[1], "EMQFENCE ")
		assert.Equal(t, int64(1), replies[3])
	})
}

// claimant is a user with some rights, and the error of a claim of the identity: "" if it succeeds.
type claimant struct {
	rules []string
	want  string
}

// Claiming the identity takes the caller's own rights on that key. Without them nothing is written.
func TestFenceClaimTakesRights(t *testing.T) {
	s := witnessed(t)
	users := map[string]claimant{
		"no key rights":     {[]string{"~emq:{q}:*"}, "EMQFENCE "},
		"only read rights":  {[]string{"~emq:{q}:*", "%R~{emq}:version"}, "EMQFENCE "},
		"no SET":            {[]string{"~emq:{q}:*", "~{emq}:version"}, "EMQFENCE "},
		"SET in a selector": {[]string{"~emq:{q}:*", "(+set ~{emq}:version)"}, ""},
		"all rights":        {[]string{"~*", "+@all"}, ""},
	}
	for what, user := range users {
		for verb, c := range creators {
			t.Run(what+"/"+verb, func(t *testing.T) { user.claims(t, s, c.of("JOB1", "x")) })
		}
	}
}

// claims lets the user create a job in an unclaimed store.
func (user claimant) claims(t *testing.T, s *server, args []string) {
	st := s.bare(t)
	rules := append([]string{"ACL", "SETUSER", "worker", "reset", "on", ">secret", "+@emq"}, user.rules...)
	require.Equal(t, "+OK\r\n", st.Do(rules...))
	t.Cleanup(func() { st.Must("ACL DELUSER worker") })
	worker := s.dial(t)
	require.Equal(t, "+OK\r\n", worker.Do("AUTH", "worker", "secret"))
	if user.want == "" {
		require.Equal(t, integer(1), worker.Do(args...))
		st.reply(bulk(wire6), "GET {emq}:version")
		return
	}
	st.unchanged(func() { require.Contains(t, worker.Do(args...), "-"+user.want) }, family(args)...)

	// A script or a transaction does not give the user the right either.
	require.Equal(t, "+OK\r\n", st.Do("ACL", "SETUSER", "worker", "+eval", "+multi", "+exec"))
	st.unchanged(func() {
		require.Contains(t, worker.Do(append([]string{"EVAL", "return redis.call(unpack(ARGV))", "0"}, args...)...), "-"+user.want)
		require.Equal(t, "+OK\r\n", worker.Do("MULTI"))
		require.Equal(t, "+QUEUED\r\n", worker.Do(args...))
		require.Contains(t, worker.Do("EXEC"), "-"+user.want)
	}, family(args)...)
	st.Must("SET {emq}:version " + wire6)
	require.Equal(t, integer(1), worker.Do(args...), "the identity is there: no rights on it are needed")
}
