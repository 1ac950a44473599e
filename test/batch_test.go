package test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/wire"
)

// The verbs for many jobs. What holds for every verb is tested with the others (orders, numbers, wrong types, the fence, the
// catalogue); the tests here are about merged effects and statuses.

// many repeats a job's words for n jobs; %d stands for the job's number.
func many(n int, of ...string) (words []string) {
	for i := range n {
		for _, word := range of {
			words = append(words, strings.ReplaceAll(word, "%d", fmt.Sprintf("%03d", i)))
		}
	}
	return words
}

func lines(n int, of ...string) string { return strings.Join(many(n, of...), " ") }

func init() {
	const (
		row2     = "HSET emq:{q}:job:JOB2 "
		row3     = "HSET emq:{q}:job:JOB3 "
		held2    = row2 + "state active attempts 2 payload y lease_epoch e1"
		held3    = row3 + "state active attempts 3 payload z lease_epoch e1 failures 1 stalled 2"
		add3     = "ZADD emq:{q}:active 9000000000000 JOB1 9000000000001 JOB2 9000000000002 JOB3"
		lapsed4  = "HSET emq:{q}:job:JOB4 state pending attempts 4 payload x lease_epoch e1"
		add4     = "ZADD emq:{q}:pending 0 JOB4"
		lane     = "HSET emq:{q}:job:JOB5 state active attempts 5 group g"
		addLane  = "ZADD emq:{q}:active 9000000000000 JOB5"
		rowKey   = "emq:{q}:job:JOB%d"
		rowOf    = "HSET " + rowKey + " state pending attempts 0 payload x%d"
		heldOf   = "HSET " + rowKey + " state active attempts 1 payload x lease_epoch e1"
		n        = 70 // of three windows
		released = "HDEL " + rowKey + " lease_epoch"
	)
	three := []string{rowHeld, held2, held3, add3}
	all := append([]string{lapsed4, add4, lane, addLane}, three...)
	grown := []string{"ZADD emq:{q}:active " + lines(n, "9000000000000", "JOB%d")}
	grown = append(many(n, heldOf), grown...)
	statuses := func(n int, of int64) string { return status(slices.Repeat([]int64{of}, n)...) }
	transitions = append(transitions,
		transition{name: "menqueue of one", args: good.Menqueue("JOB1", "x"), want: status(1), stream: atomically(rowPending, addPending)},
		transition{
			name: "menqueue", args: good.Menqueue("JOB2", "y", "JOB1", "x"), want: status(1, 1),
			stream: atomically(row2+"state pending attempts 0 payload y", rowPending, "ZADD emq:{q}:pending 0 JOB2 0 JOB1"),
		},
		transition{
			name: "menqueue claims the identity, once", given: []string{noIdentity}, args: good.Menqueue("JOB1", "x", "JOB2", "y"), want: status(1, 1),
			stream: atomically("SET {emq}:version echomq:6.0.0 NX", rowPending, row2+"state pending attempts 0 payload y", "ZADD emq:{q}:pending 0 JOB1 0 JOB2"),
		},
		transition{
			name: "menqueue of what is there", given: []string{rowPending, addPending, "SET emq:{q}:job:JOB2 x"},
			args: good.Menqueue("JOB1", "y", "JOB2", "y", "JOB1", "y"), want: status(0, 0, 0), broken: []string{"emq:{q}:job:JOB2: is a string"},
		},
		transition{
			name: "menqueue of what is there without an identity", given: []string{noIdentity, rowPending, addPending},
			args: good.Menqueue("JOB1", "y"), want: status(0), broken: []string{"emq:{q}:: rows without an identity"},
		},
		transition{
			name: "menqueue of twins", given: []string{row2 + "state pending attempts 0", "ZADD emq:{q}:pending 0 JOB2"},
			args: good.Menqueue("JOB1", "x", "JOB2", "y", "JOB1", "other", "JOB1", "other"), want: status(1, 0, 0, 0),
			stream: atomically(rowPending, addPending),
		},
		transition{
			name: "menqueue of ids that are pending without rows", given: []string{addPending}, args: good.Menqueue("JOB1", "x", "JOB2", "y"), want: status(1, 1),
			stream: atomically(rowPending, row2+"state pending attempts 0 payload y", "ZADD emq:{q}:pending 0 JOB2"),
		},
		transition{
			name: "menqueue of many", args: good.Menqueue(many(n, "JOB%d", "x%d")...), want: statuses(n, 1),
			stream: atomically(append(many(n, rowOf), "ZADD emq:{q}:pending "+lines(n, "0", "JOB%d"))...),
		},

		transition{
			name: "mschedule in", args: good.Mschedule("in", "JOB1", "1000", "x", "JOB2", "2000", "y", "JOB1", "5", "z"), want: status(1, 1, 0),
			stream: atomically("HSET emq:{q}:job:JOB1 state scheduled attempts 0 payload x", row2+"state scheduled attempts 0 payload y",
				"ZADD emq:{q}:schedule {now+1000} JOB1 {now+2000} JOB2"),
		},
		transition{
			name: "mschedule at claims the identity", given: []string{noIdentity}, args: good.Mschedule("at", "JOB2", "0", "y", "JOB1", "7", "x"), want: status(1, 1),
			stream: atomically("SET {emq}:version echomq:6.0.0 NX", row2+"state scheduled attempts 0 payload y", "HSET emq:{q}:job:JOB1 state scheduled attempts 0 payload x",
				"ZADD emq:{q}:schedule 0 JOB2 7 JOB1"),
		},
		transition{
			name: "mschedule of an id that is scheduled for that time without a row", given: []string{addDue}, args: good.Mschedule("at", "JOB1", "7", "x"), want: status(1),
			stream: []string{"HSET emq:{q}:job:JOB1 state scheduled attempts 0 payload x"},
		},
		transition{name: "mschedule of what is there", given: []string{rowPending, addPending}, args: good.Mschedule("at", "JOB1", "7", "x"), want: status(0)},

		transition{name: "mclaim on an empty queue", args: good.Mclaim(30000, 10), want: empty},
		transition{name: "mclaim without an identity and without a queue", given: []string{noIdentity}, args: good.Mclaim(30000, 10), want: empty},
		transition{
			name: "mclaim of fewer than there are", given: []string{rowPending, row2 + "state pending attempts 7 payload y", "ZADD emq:{q}:pending 0 JOB1 0 JOB2 0 JOB3", row3 + "state pending attempts 0"},
			args: good.Mclaim(30000, 2), want: array(claimed("JOB1", "x", 1), claimed("JOB2", "y", 8)),
			stream: atomically("ZREM emq:{q}:pending JOB1 JOB2", "HSET emq:{q}:job:JOB1 state active attempts 1 lease_epoch RUN", row2+"state active attempts 8 lease_epoch RUN",
				"ZADD emq:{q}:active {now+30000} JOB1 {now+30000} JOB2"),
		},
		transition{
			name: "mclaim drops, buries and takes, as met",
			given: []string{rowPending, row2 + "state pending attempts x", row3 + "state active attempts 3", "ZADD emq:{q}:active 9000000000000 JOB3",
				"ZADD emq:{q}:pending 0 JOB0 0 JOB1 0 JOB2 0 JOB3 0 XYZ", "HSET emq:{q}:job:JOB4 state pending attempts 0 payload z", "ZADD emq:{q}:pending 0 JOB4"},
			args: good.Mclaim(30000, 1000), want: array(claimed("JOB1", "x", 1), claimed("JOB4", "z", 1)),
			stream: atomically("ZREM emq:{q}:pending JOB0 JOB1 JOB2 JOB3 JOB4 XYZ", "HSET emq:{q}:job:JOB1 state active attempts 1 lease_epoch RUN",
				`HSET emq:{q}:job:JOB2 state dead last_error "bad row: attempts is missing or is no integer that can be counted up"`,
				"HSET emq:{q}:job:JOB4 state active attempts 1 lease_epoch RUN",
				"ZADD emq:{q}:active {now+30000} JOB1 {now+30000} JOB4", "ZADD emq:{q}:dead 0 JOB2"),
		},
		transition{
			name: "mclaim of many", given: append(many(n, rowOf), "ZADD emq:{q}:pending "+lines(n, "0", "JOB%d")), args: good.Mclaim(30000, 1000),
			want: func() string {
				var jobs []string
				for i := range n {
					jobs = append(jobs, claimed(fmt.Sprintf("JOB%03d", i), fmt.Sprintf("x%03d", i), 1))
				}
				return array(jobs...)
			}(),
			stream: atomically(append(append([]string{"ZREM emq:{q}:pending " + lines(n, "JOB%d")},
				many(n, "HSET "+rowKey+" state active attempts 1 lease_epoch RUN")...),
				"ZADD emq:{q}:active "+lines(n, "{now+30000}", "JOB%d"))...),
		},

		transition{name: "mcomplete of nothing", args: good.Mcomplete("JOB1", "1", "JOB2", "1"), want: status(0, 0)},
		transition{name: "mcomplete of nothing without an identity", given: []string{noIdentity}, args: good.Mcomplete("JOB1", "1", "JOB2", "1"), want: status(0, 0)},
		transition{
			name: "mcomplete of nothing without an identity, with sets of another type", given: []string{noIdentity, "SET emq:{q}:active x"},
			args: good.Mcomplete("JOB1", "1", "JOB2", "1"), want: status(0, 0), broken: []string{"emq:{q}:active: is a string"},
		},
		transition{name: "mcomplete of one", given: []string{rowHeld, addActive}, args: good.Mcomplete("JOB1", "1"), want: status(1), stream: atomically(zremActive, delRow, countDone)},
		transition{
			name: "mcomplete", given: all, want: status(1, 0, -1, 1, 1, -2, 0),
			args: good.Mcomplete("JOB2", "2", "JOB2", "2", "JOB1", "7", "JOB4", "4", "JOB1", "1", "JOB5", "5", "JOB9", "1"),
			stream: atomically("ZREM emq:{q}:active JOB2 JOB1", "ZREM emq:{q}:pending JOB4", "DEL emq:{q}:job:JOB2 emq:{q}:job:JOB4 emq:{q}:job:JOB1",
				"HINCRBY emq:{q}:metrics:completed count 3"),
			after: []string{"HGET emq:{q}:metrics:completed count => " + bulk("3")},
		},
		transition{
			name: "mcomplete of jobs that are not held", given: all, want: status(-1, -2, 0, -1),
			args: good.Mcomplete("JOB1", "7", "JOB5", "5", "JOB9", "1", "JOB1", "2"),
		},
		transition{
			name: "mcomplete of jobs in no set", given: []string{rowHeld, held2}, args: good.Mcomplete("JOB1", "1", "JOB2", "2"), want: status(1, 1),
			stream: atomically("DEL emq:{q}:job:JOB1 emq:{q}:job:JOB2", "HINCRBY emq:{q}:metrics:completed count 2"),
		},
		transition{
			name: "mcomplete of a job in two sets", given: []string{rowHeld, addActive, addPending}, args: good.Mcomplete("JOB1", "1"), want: status(1),
			stream: atomically(zremActive, delRow, countDone), broken: []string{"emq:{q}:pending: JOB1 has no row"},
		},
		transition{
			name: "mcomplete of more than the counter has room for", given: append(slices.Clone(three), "HSET emq:{q}:metrics:completed count 9223372036854775806"),
			args: good.Mcomplete("JOB1", "1", "JOB2", "2"), want: status(1, 1),
			stream: atomically("ZREM emq:{q}:active JOB1 JOB2", "DEL emq:{q}:job:JOB1 emq:{q}:job:JOB2"),
		},
		transition{
			name: "mcomplete of as many as the counter has room for", given: append(slices.Clone(three), "HSET emq:{q}:metrics:completed count 9223372036854775805"),
			args: good.Mcomplete("JOB1", "1", "JOB2", "2"), want: status(1, 1),
			stream: atomically("ZREM emq:{q}:active JOB1 JOB2", "DEL emq:{q}:job:JOB1 emq:{q}:job:JOB2", "HINCRBY emq:{q}:metrics:completed count 2"),
		},
		transition{
			name: "mcomplete of many", given: grown, args: good.Mcomplete(many(n, "JOB%d", "1")...), want: statuses(n, 1),
			stream: atomically("ZREM emq:{q}:active "+lines(n, "JOB%d"), "DEL "+lines(n, rowKey), fmt.Sprintf("HINCRBY emq:{q}:metrics:completed count %d", n)),
		},

		transition{name: "mextend of nothing", args: good.Mextend(30000, "JOB1", "1"), want: status(0)},
		transition{name: "mextend of nothing without an identity", given: []string{noIdentity}, args: good.Mextend(30000, "JOB1", "1", "JOB2", "1"), want: status(0, 0)},
		transition{
			name: "mextend", given: all, want: status(1, -1, 1, -1, 1, -2, 0),
			args: good.Mextend(30000, "JOB2", "2", "JOB2", "1", "JOB2", "2", "JOB4", "4", "JOB1", "1", "JOB5", "5", "JOB9", "1"),
			stream: atomically(row2+"lease_epoch RUN", "HSET emq:{q}:job:JOB1 lease_epoch RUN",
				"ZADD emq:{q}:active {now+30000} JOB2 {now+30000} JOB1"),
		},
		transition{
			name: "mextend of many, each twice", given: grown, args: good.Mextend(30000, append(many(n, "JOB%d", "1"), many(n, "JOB%d", "1")...)...), want: statuses(2*n, 1),
			stream: atomically(append(many(n, "HSET "+rowKey+" lease_epoch RUN"), "ZADD emq:{q}:active "+lines(n, "{now+30000}", "JOB%d"))...),
		},

		transition{name: "mfail of nothing", args: good.Mfail(2, "JOB1", "1", "0", "why"), want: status(0)},
		transition{name: "mfail of nothing without an identity", given: []string{noIdentity}, args: good.Mfail(2, "JOB1", "1", "0", "why"), want: status(0)},
		transition{
			name: "mfail", given: all, want: status(1, -1, 2, 1, -1, 1, -2, 0),
			args: good.Mfail(2, "JOB2", "2", "1000", "no luck", "JOB2", "2", "5", "again", "JOB3", "3", "0", "the last", "JOB4", "4", "2000", "late",
				"JOB1", "7", "0", "x", "JOB1", "1", "0", "x", "JOB5", "5", "0", "x", "JOB9", "1", "0", "x"),
			stream: atomically("ZREM emq:{q}:active JOB2 JOB3 JOB1", "ZREM emq:{q}:pending JOB4",
				row2+`state scheduled failures 1 last_error "no luck"`, "HDEL emq:{q}:job:JOB2 lease_epoch",
				row3+`state dead failures 2 last_error "the last"`, "HDEL emq:{q}:job:JOB3 lease_epoch stalled",
				"HSET emq:{q}:job:JOB4 state scheduled failures 1 last_error late", "HDEL emq:{q}:job:JOB4 lease_epoch",
				"HSET emq:{q}:job:JOB1 state scheduled failures 1 last_error x", "HDEL emq:{q}:job:JOB1 lease_epoch",
				"ZADD emq:{q}:schedule {now+1000} JOB2 {now+2000} JOB4 {now+0} JOB1", "ZADD emq:{q}:dead 0 JOB3", countDead),
		},
		transition{
			name: "mfail of many, to the dead letters", given: grown, args: good.Mfail(1, many(n, "JOB%d", "1", "0", "why%d")...), want: statuses(n, 2),
			stream: atomically(slices.Concat([]string{"ZREM emq:{q}:active " + lines(n, "JOB%d")},
				many(n, "HSET "+rowKey+" state dead failures 1 last_error why%d", released),
				[]string{"ZADD emq:{q}:dead " + lines(n, "0", "JOB%d"), fmt.Sprintf("HINCRBY emq:{q}:metrics:failed count %d", n)})...),
		},
		transition{
			name: "mfail with a counter of another type", given: []string{rowHeld, addActive, "SET emq:{q}:metrics:failed x"}, args: good.Mfail(1, "JOB1", "1", "0", "why"), want: status(2),
			stream: atomically(zremActive, "HSET emq:{q}:job:JOB1 state dead failures 1 last_error why", "HDEL emq:{q}:job:JOB1 lease_epoch", "ZADD emq:{q}:dead 0 JOB1"),
			broken: []string{"emq:{q}:metrics:failed: is a string"},
		},
	)
}

// On an unclaimed store, a row anywhere in the list refuses the call, and nothing is done for the jobs before it.
func TestBatchesAndAnAbsentIdentity(t *testing.T) {
	s := witnessed(t)
	for verb, args := range map[string]func(words ...string) []string{
		"mcomplete": func(ids ...string) []string { return good.Mcomplete(of(ids, "1")...) },
		"mextend":   func(ids ...string) []string { return good.Mextend(1000, of(ids, "1")...) },
		"mfail":     func(ids ...string) []string { return good.Mfail(1, of(ids, "1", "0", "why")...) },
	} {
		for at := range 3 {
			for kind := range makers {
				t.Run(fmt.Sprintf("%s/%s/%d", verb, kind, at), func(t *testing.T) {
					st := s.bare(t)
					st.make(kind, good.Row("JOB1"))
					if kind == "hash" {
						st.damaged(good.Row("JOB1")+": state pending, in []", good.Row("JOB1")+`: attempts ""`)
					} else {
						st.damaged(good.Row("JOB1") + ": is a " + kind)
					}
					st.damaged("emq:{q}:: rows without an identity")
					ids := many(100, "JOBx%d")
					ids[at*49] = "JOB1"
					st.refused("EMQFENCE ", args(ids...)...)
				})
			}
		}
	}
	t.Run("mclaim", func(t *testing.T) {
		st := s.bare(t)
		st.put(good, "JOB1", "pending", "attempts", "0")
		st.damaged("emq:{q}:: rows without an identity")
		st.refused("EMQFENCE ", good.Mclaim(1000, 10)...)
	})
	for _, args := range [][]string{good.Menqueue("JOB1", "x", "JOB2", "y"), good.Mschedule("at", "JOB1", "1", "x")} {
		t.Run(args[0]+"/wrong type", func(t *testing.T) {
			st := s.bare(t)
			st.Must("SET "+good.Pending()+" x", "SET "+good.Schedule()+" x")
			st.damaged(good.Pending()+": is a string", good.Schedule()+": is a string")
			st.refused(wrongTypeText, args...)
		})
		t.Run(args[0]+"/rights", func(t *testing.T) {
			st := s.bare(t)
			st.Must("ACL SETUSER worker reset on >secret +@emq ~emq:{q}:*")
			t.Cleanup(func() { st.Must("ACL DELUSER worker") })
			worker := s.dial(t)
			worker.Must("AUTH worker secret")
			st.unchanged(func() { require.Contains(t, worker.Do(args...), "-EMQFENCE ") }, family(args)...)
			st.Must("SET {emq}:version " + wire6)
			require.NotContains(t, worker.Do(args...), "-", "the identity is there: no rights on it are needed")
		})
	}
}

// of follows each id by the other words of a job.
func of(ids []string, words ...string) (list []string) {
	for _, id := range ids {
		list = append(append(list, id), words...)
	}
	return list
}

// The limits of a list's length, and of the number of words of a job.
func TestListLengths(t *testing.T) {
	s := witnessed(t)
	for verb, c := range map[string]struct {
		head []string
		job  []string
	}{
		"menqueue":  {good.Menqueue(), []string{"payload"}},
		"mschedule": {good.Mschedule("in"), []string{"1000", "payload"}},
		"mcomplete": {good.Mcomplete(), []string{"1"}},
		"mextend":   {good.Mextend(1000), []string{"1"}},
		"mfail":     {good.Mfail(1), []string{"1", "0", "why"}},
	} {
		call := func(n int) []string { return append(slices.Clone(c.head), of(many(n, "JOB%d"), c.job...)...) }
		t.Run(verb, func(t *testing.T) {
			st := s.fresh(t)
			st.refused("ERR wrong number of arguments", c.head...)
			for less := 1; less <= len(c.job); less++ {
				st.refused("ERR wrong number of arguments", call(3)[:len(call(3))-less]...)
			}
			st.refused("ERR id must be given 1 to 1000 times, got 1001\r\n", call(1001)...)
			st.refused("ERR id must be given 1 to 1000 times, got 5000\r\n", call(5000)...)
			st.refused("ERR wrong number of arguments", call(1001)[:len(call(1001))-1]...)
			for _, n := range []int{1, 31, 32, 33, 64, 65, 1000} {
				reply, ok := value(st.Do(call(n)...)).([]any)
				require.True(t, ok, n)
				require.Len(t, reply, n)
			}
		})
	}
}

// A thousand jobs in each call, through their whole life; INFO counts each by its result.
func TestAThousandJobs(t *testing.T) {
	s := start(t, withModule())
	st := s.fresh(t)
	st.Heard = nil
	const n = 1000
	of := func(n int, status int64) []any { return slices.Repeat([]any{status}, n) }
	counts := st.counted("emq_commands", func() {
		require.Equal(t, of(n, 1), value(st.Do(good.Menqueue(many(n, "JOB%d", "payload %d")...)...)))
		require.Equal(t, of(n, 0), value(st.Do(good.Menqueue(many(n, "JOB%d", "payload %d")...)...)))
		jobs := value(st.Do(good.Mclaim(30000, n)...)).([]any)
		require.Len(t, jobs, n)
		for i, job := range jobs {
			require.Equal(t, []any{fmt.Sprintf("JOB%03d", i), fmt.Sprintf("payload %03d", i), int64(1)}, job)
		}
		require.Equal(t, empty, st.Do(good.Mclaim(30000, n)...))
		require.Equal(t, of(n, 1), value(st.Do(good.Mextend(60000, many(n, "JOB%d", "1")...)...)))
		require.Equal(t, of(500, 1), value(st.Do(good.Mcomplete(many(500, "JOB%d", "1")...)...)))
		require.Equal(t, append(of(500, 0), of(500, 2)...), value(st.Do(good.Mfail(1, many(n, "JOB%d", "1", "0", "why")...)...)))
		require.Equal(t, append(of(500, 1), of(500, 0)...), value(st.Do(good.Mschedule("in", many(n, "JOB%d", "1000", "x")...)...)))
	})
	require.Equal(t, map[string]int{
		"emq_menqueue_calls": 2, "emq_menqueue_enqueued": n, "emq_menqueue_duplicate": n,
		"emq_mclaim_calls": 2, "emq_mclaim_claimed": n, "emq_mclaim_empty": 1,
		"emq_mextend_calls": 1, "emq_mextend_extended": n, "emq_mcomplete_calls": 1, "emq_mcomplete_completed": 500,
		"emq_mfail_calls": 1, "emq_mfail_gone": 500, "emq_mfail_dead": 500,
		"emq_mschedule_calls": 1, "emq_mschedule_scheduled": 500, "emq_mschedule_duplicate": 500,
	}, counts)
	st.reply(bulk("500"), "HGET emq:{q}:metrics:completed count")
	st.reply(bulk("500"), "HGET emq:{q}:metrics:failed count")
	require.Len(t, st.Members(good.Dead()), 500)
	require.Len(t, st.Members(good.Schedule()), 500)
}

// The memory for a thousand jobs is freed, whatever the calls contain and however the jobs end.
func TestMemoryOfBatchesIsGivenBack(t *testing.T) {
	s := start(t, withModule())
	st := s.fresh(t)
	st.Heard = nil
	q := queue("q" + strings.Repeat("x", 300)) // names that fit into no small buffer
	const n = 1000
	rounds := func(rounds int) {
		c := s.Conn()
		defer c.Close()
		for range rounds {
			twins := append(many(n/2, "JOB%d", "payload"), many(n/2, "JOB%d", "payload")...)
			replies := c.Pipeline([][]string{
				{"DEL", identity}, q.Menqueue(many(n, "JOB%d", "payload")...), q.Menqueue(many(n, "JOBb%d", "payload")...), q.Menqueue(twins...),
				q.Menqueue(append(many(n-1, "JOB%d", "payload"), "XYZ", "x")...), q.Menqueue(many(n+1, "JOBc%d", "payload")...),
				q.Mclaim(30000, n), q.Mextend(30000, append(many(n/2, "JOB%d", "1"), many(n/2, "JOB%d", "1")...)...),
				q.Mcomplete(append(many(n/2, "JOB%d", "1"), many(n/2, "JOB%d", "1")...)...), q.Mfail(1, many(n, "JOB%d", "1", "0", "why")...),
				q.Mschedule("at", append(many(n-1, "JOBs%d", "5", "x"), "JOBs1", "x", "y")...), q.Mschedule("at", many(n, "JOBs%d", "5", "x")...),
				{"DEL", identity}, q.Mcomplete(append(many(n-1, "JOBn%d", "1"), "JOBs001", "1")...), {"FLUSHALL", "SYNC"},
			})
			require.Len(t, value(replies[6]), n)
			require.Contains(t, replies[4], "-EMQKIND ")
			require.Contains(t, replies[10], "-ERR ms ")
			require.Contains(t, replies[13], "-EMQFENCE ")
		}
	}
	rounds(3)
	before := st.usedEmpty()
	rounds(40)
	// The smallest allocation, the places of ids that are listed twice, would leak 520 KB.
	require.Less(t, st.usedEmpty()-before, int64(256<<10), "bytes kept after 40 rounds")
}

// INFO counts each job by its result, and the call once; a refusal is a result of the call.
func TestInfoCountsEachJob(t *testing.T) {
	s := start(t, withModule())
	for _, tt := range []struct {
		name  string
		given []string
		args  []string
		want  map[string]int
	}{
		{"menqueue", nil, good.Menqueue("JOB1", "x", "JOB1", "x", "JOB2", "x"), map[string]int{"enqueued": 2, "duplicate": 1}},
		{"mschedule", nil, good.Mschedule("at", "JOB1", "1", "x", "JOB1", "1", "x"), map[string]int{"scheduled": 1, "duplicate": 1}},
		{"mclaim", []string{rowPending, "ZADD emq:{q}:pending 0 JOB0 0 JOB1"}, good.Mclaim(1000, 10), map[string]int{"claimed": 1, "entries_dropped": 1}},
		{"mclaim of nothing", nil, good.Mclaim(1000, 10), map[string]int{"empty": 1}},
		{"mclaim of what is broken", []string{"ZADD emq:{q}:pending 0 JOB0 0 JOB1"}, good.Mclaim(1000, 10), map[string]int{"empty": 1, "entries_dropped": 2}},
		{"mclaim buries", []string{"HSET emq:{q}:job:JOB1 state pending attempts x", addPending}, good.Mclaim(1000, 10), map[string]int{"empty": 1, "jobs_buried": 1}},
		{"mcomplete", []string{rowHeld, addActive, "HSET emq:{q}:job:JOB2 state active attempts 1 group g", "ZADD emq:{q}:active 9 JOB2"},
			good.Mcomplete("JOB1", "2", "JOB1", "1", "JOB1", "1", "JOB2", "1"), map[string]int{"stale": 1, "completed": 1, "gone": 1, "script": 1}},
		{"mextend", []string{rowHeld, addActive}, good.Mextend(1000, "JOB1", "1", "JOB1", "1", "JOB2", "1"), map[string]int{"extended": 2, "gone": 1}},
		{"mfail", []string{rowHeld, addActive, "HSET emq:{q}:job:JOB2 state active attempts 1 failures 1", "ZADD emq:{q}:active 9 JOB2"},
			good.Mfail(2, "JOB1", "1", "0", "x", "JOB2", "1", "0", "x", "JOB1", "1", "0", "x"), map[string]int{"scheduled": 1, "dead": 1, "stale": 1}},
		{"length", nil, good.Mcomplete(many(1001, "JOB%d", "1")...), map[string]int{"argument": 1}},
		{"kind", nil, good.Mcomplete("JOB1", "1", "XYZ", "1"), map[string]int{"kind": 1}},
		{"fence", []string{rowHeld, addActive, noIdentity}, good.Mcomplete("JOB2", "1", "JOB1", "1", "JOB3", "1"), map[string]int{"fence": 1}},
		{"type", []string{"SET emq:{q}:active x"}, good.Mextend(1, "JOB1", "1"), map[string]int{"type": 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := s.fresh(t)
			st.Must(tt.given...)
			name := "emq_" + strings.ToLower(strings.TrimPrefix(tt.args[0], "EMQ.")) + "_"
			want := map[string]int{name + "calls": 1}
			for result, n := range tt.want {
				want[name+result] = n
			}
			require.Equal(t, want, st.counted("emq_commands", func() { st.Do(tt.args...) }))
			st.Must("FLUSHALL")
		})
	}
}

// lives carries jobs through all their states, in batches, and leaves the queue as it was.
func (st *fixture) lives(q queue, payload string, ids ...string) {
	st.t.Helper()
	ones := slices.Repeat([]int64{1}, len(ids))
	grants := func(token int64) string {
		var jobs []string
		for _, id := range slices.Sorted(slices.Values(ids)) {
			jobs = append(jobs, claimed(id, payload, token))
		}
		return array(jobs...)
	}
	require.Equal(st.t, status(ones...), st.Do(q.Menqueue(of(ids, payload)...)...))
	require.Equal(st.t, grants(1), st.Do(q.Mclaim(30000, 1000)...))
	require.Equal(st.t, status(ones...), st.Do(q.Mextend(60000, of(ids, "1")...)...))
	require.Equal(st.t, status(ones...), st.Do(q.Mfail(2, of(ids, "1", "0", payload)...)...))
	require.Equal(st.t, payload, st.row(q, ids[0])["last_error"])
	require.Equal(st.t, integer(int64(len(ids))), st.Do(q.Promote(1000)...))
	require.Equal(st.t, grants(2), st.Do(q.Mclaim(30000, 1000)...))
	require.Equal(st.t, status(ones...), st.Do(q.Mcomplete(of(ids, "2")...)...))
	require.Equal(st.t, status(ones...), st.Do(q.Mschedule("at", of(ids, "1", payload)...)...))
	require.Equal(st.t, integer(int64(len(ids))), st.Do(q.Promote(1000)...))
	require.Equal(st.t, grants(1), st.Do(q.Mclaim(30000, 1000)...))
	require.Equal(st.t, status(ones...), st.Do(q.Mcomplete(of(ids, "1")...)...))
	require.Equal(st.t, empty, st.Do(q.Mclaim(30000, 1000)...))
}

func TestNamesInBatches(t *testing.T) {
	s := start(t, withModule())
	for what, name := range names {
		t.Run(what, func(t *testing.T) {
			st := s.fresh(t)
			st.lives(queue(name), "payload", "JOB1", "JOB2")
			st.lives("q", name, "JOB"+name, "JOB", "JOB"+name+"x", "JOB\x00{}:{q}:pending", "JOB"+allBytes)
		})
	}
	t.Run("fifty of 300000 bytes", func(t *testing.T) {
		var ids []string
		for i := range 50 {
			ids = append(ids, fmt.Sprintf("JOB%02d%s", i, strings.Repeat("n", 300_000)))
		}
		s.fresh(t).lives("q", "payload", ids...)
	})
	t.Run("a payload that is not there", func(t *testing.T) {
		st := s.fresh(t)
		st.Must("HSET emq:{q}:job:JOB1 state pending attempts 0", addPending)
		require.Equal(t, "*1\r\n*3\r\n$4\r\nJOB1\r\n$-1\r\n:1\r\n", st.Do(good.Mclaim(1000, 10)...))
		st.Must("HSET emq:{q}:job:JOB2 state pending attempts 0", "ZADD emq:{q}:pending 0 JOB2")
		require.Equal(t, "*1\r\n*3\r\n$4\r\nJOB2\r\n_\r\n:1\r\n", s.dial3(t).Do(good.Mclaim(1000, 10)...))
	})
}

// Batches in a transaction, from scripts and functions, and from another module.
func TestBatchesInContexts(t *testing.T) {
	s := witnessed(t)
	t.Run("a transaction is one unit", func(t *testing.T) {
		st := s.bare(t)
		o := st.observe(func() {
			st.Must("MULTI")
			for _, args := range [][]string{
				good.Menqueue("JOB1", "x", "JOB2", "y"), good.Menqueue("JOB3", "x", "XYZ", "x"), good.Mclaim(30000, 10),
				good.Mcomplete("JOB1", "1", "JOB2", "2"), good.Mfail(1, "JOB2", "1", "0", "why"),
			} {
				require.Equal(t, "+QUEUED\r\n", st.Do(args...))
			}
			require.Equal(t, array(status(1, 1), wire.Kind, array(claimed("JOB1", "x", 1), claimed("JOB2", "y", 1)), status(1, -1), status(2)), st.Do("EXEC"))
		})
		st.streamed(o, atomically(
			"SET {emq}:version echomq:6.0.0 NX", rowPending, "HSET emq:{q}:job:JOB2 state pending attempts 0 payload y", "ZADD emq:{q}:pending 0 JOB1 0 JOB2",
			"ZREM emq:{q}:pending JOB1 JOB2", "HSET emq:{q}:job:JOB1 state active attempts 1 lease_epoch RUN", "HSET emq:{q}:job:JOB2 state active attempts 1 lease_epoch RUN",
			"ZADD emq:{q}:active {now+30000} JOB1 {now+30000} JOB2",
			zremActive, delRow, countDone,
			"ZREM emq:{q}:active JOB2", "HSET emq:{q}:job:JOB2 state dead failures 1 last_error why", "HDEL emq:{q}:job:JOB2 lease_epoch",
			"ZADD emq:{q}:dead 0 JOB2", countDead,
		))
	})
	const library = "#!lua name=jobs\nserver.register_function('run', function(keys, args) return server.call(unpack(args)) end)"
	for way, begin := range map[string][]string{
		"call": {"EVAL", "return redis.call(unpack(ARGV))", "0"}, "pcall": {"EVAL", "return redis.pcall(unpack(ARGV))", "0"}, "function": {"FCALL", "run", "0"},
	} {
		t.Run(way, func(t *testing.T) {
			st := s.bare(t)
			require.Equal(t, bulk("jobs"), st.Do("FUNCTION", "LOAD", "REPLACE", library))
			t.Cleanup(func() { st.Must("FUNCTION FLUSH") })
			call := func(args []string) string { return st.Do(append(slices.Clone(begin), args...)...) }
			require.Equal(t, status(1, 1, 0), call(good.Menqueue("JOB1", "x", "JOB2", "y", "JOB1", "z")))
			require.Equal(t, array(claimed("JOB1", "x", 1), claimed("JOB2", "y", 1)), call(good.Mclaim(30000, 10)))
			require.Equal(t, status(1, -1), call(good.Mextend(60000, "JOB1", "1", "JOB2", "2")))
			require.Equal(t, status(1, 0), call(good.Mcomplete("JOB1", "1", "JOB3", "1")))
			require.Equal(t, status(2, 0), call(good.Mfail(1, "JOB2", "1", "0", "why", "JOB1", "1", "0", "why")))
			require.Equal(t, status(1), call(good.Mschedule("at", "JOB1", "1", "x")))
			require.Equal(t, empty, call(good.Mclaim(30000, 10)))
			for want, args := range map[string][]string{
				"EMQKIND ": good.Menqueue("JOB3", "x", "XYZ", "x"), "EMQKEY ": with(good.Mcomplete("JOB1", "1"), 1, "x"), "ERR count ": good.Mclaim(1, 0),
				"ERR id must be given": good.Menqueue(many(1001, "JOBm%d", "x")...), "ERR delay_ms ": good.Mfail(1, "JOB1", "1", "-1", "why"),
			} {
				st.unchanged(func() {
					reply := call(args)
					require.True(t, strings.HasPrefix(reply, "-"+want), "%s: %q", want, reply)
				})
			}
		})
	}
	t.Run("a script that is not to write", func(t *testing.T) { s.fresh(t).refusesToWrite(batchesOn(good)) })
	t.Run("a watched key", func(t *testing.T) {
		st, other := s.fresh(t), s.dial(t)
		st.put(good, "JOB1", "active", "attempts", "1")
		st.put(good, "JOB2", "active", "attempts", "1")
		st.Must("WATCH " + good.Row("JOB2") + " " + good.Active())
		require.Equal(t, status(-1, 0, -1), other.Do(good.Mcomplete("JOB1", "2", "JOB3", "1", "JOB2", "2")...))
		st.Must("MULTI")
		require.Equal(t, "+QUEUED\r\n", st.Do(good.Mextend(1000, "JOB1", "1")...))
		require.Equal(t, array(status(1)), st.Do("EXEC"), "nothing changed")
		st.Must("WATCH " + good.Row("JOB2"))
		require.Equal(t, status(1), other.Do(good.Mcomplete("JOB1", "1")...))
		st.Must("MULTI", "PING")
		require.NotEqual(t, "*-1\r\n", st.Do("EXEC"), "another row changed")
		st.Must("WATCH " + good.Row("JOB2"))
		require.Equal(t, status(1), other.Do(good.Mfail(2, "JOB2", "1", "0", "why")...))
		st.Must("MULTI", "PING")
		require.Equal(t, "*-1\r\n", st.Do("EXEC"), "it is one of the rows that changed")
	})
}

// When memory is full, no new job is accepted, but the existing ones can be processed.
func TestBatchesOutOfMemory(t *testing.T) {
	s := witnessed(t)
	st := full(t, s)
	st.refused(oom, good.Menqueue("JOB3", "x", "JOB4", "x")...)
	st.refused(oom, good.Menqueue("JOB1", "x")...) // also where it would do nothing
	st.refused(oom, good.Mschedule("in", "JOB3", "1", "x")...)
	require.Equal(t, status(1, 0), st.Do(good.Mextend(1000, "JOB1", "1", "JOB3", "1")...))
	require.Equal(t, array(claimed("JOB2", "x", 1)), st.Do(good.Mclaim(1000, 10)...))
	require.Equal(t, status(1), st.Do(good.Mcomplete("JOB1", "1")...))
	require.Equal(t, status(1), st.Do(good.Mfail(2, "JOB2", "1", "0", "why")...))
}

// A replica, writable or not, refuses each; it receives the primary's effects as plain commands.
func TestBatchesAndReplicas(t *testing.T) {
	st, r, plain := followed(t)
	st.lives("q", "payload", many(100, "JOB%d")...)
	require.Equal(t, status(1, 1), st.Do(good.Menqueue("JOB1", "x", "JOB2", "y")...))
	require.Equal(t, array(claimed("JOB1", "x", 1)), st.Do(good.Mclaim(60000, 1)...))
	st.inStep("2")
	require.Equal(t, st.digest(), r.digest())
	require.Equal(t, st.digest(), plain.digest())
	for _, readOnly := range []string{"yes", "no"} {
		r.Must("CONFIG SET replica-read-only " + readOnly)
		for verb, args := range batchesOn(good) {
			require.Contains(t, r.Do(args...), "-READONLY ", verb)
		}
	}
	require.Equal(t, st.digest(), r.digest())
}

// A server without the module restores the same data from the append-only file.
func TestBatchesInTheAppendOnlyFile(t *testing.T) {
	s := start(t, withModule("--appendonly", "yes", "--appendfsync", "always"))
	st := s.fresh(t)
	st.lives("q", "payload", many(100, "JOB%d")...)
	require.Equal(t, status(1, 1, 1), st.Do(good.Menqueue("JOB1", "x", "JOB2", "y", "JOB3", "z")...))
	require.Equal(t, array(claimed("JOB1", "x", 1), claimed("JOB2", "y", 1)), st.Do(good.Mclaim(60000, 2)...))
	require.Equal(t, status(2), st.Do(good.Mfail(1, "JOB1", "1", "0", "why")...))
	before := st.digest()
	st.Must("DEBUG LOADAOF")
	require.Equal(t, before, st.digest())
}

// Expired sets, rows and counters that the server has not removed yet count as absent.
func TestBatchesMeetExpiredKeys(t *testing.T) {
	s := start(t, withModule())
	replica := follow(t, s)
	for name, c := range map[string]struct {
		expires []string
		do      []string
		want    string
		holds   map[string][]string
	}{
		"menqueue":  {[]string{good.Pending(), good.Row("JOB1"), good.Row("JOB2")}, good.Menqueue("JOB1", "x", "JOB2", "y"), status(1, 1), map[string][]string{good.Pending(): {"JOB1", "JOB2"}}},
		"mschedule": {[]string{good.Schedule(), good.Row("JOB2")}, good.Mschedule("at", "JOB1", "1", "x", "JOB2", "2", "y"), status(0, 1), map[string][]string{good.Schedule(): {"JOB2"}, good.Active(): {"JOB1", "JOB2"}}},
		"mcomplete": {[]string{good.Completed(), good.Row("JOB2")}, good.Mcomplete("JOB1", "1", "JOB2", "1"), status(1, 0), map[string][]string{good.Active(): {"JOB2"}}},
		"mextend":   {[]string{good.Active()}, good.Mextend(1000, "JOB1", "1", "JOB2", "1"), status(-1, -1), nil},
		"mfail": {[]string{good.Dead(), good.Failed(), good.Schedule()}, good.Mfail(1, "JOB1", "1", "0", "why", "JOB2", "1", "0", "why"), status(2, 2),
			map[string][]string{good.Dead(): {"JOB1", "JOB2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			st := s.fresh(t)
			st.Must("DEBUG SET-ACTIVE-EXPIRE 0")
			t.Cleanup(func() { st.Must("FLUSHALL", "DEBUG SET-ACTIVE-EXPIRE 1") }) // the test left damage
			if name != "menqueue" {
				st.put(good, "JOB1", "active", "attempts", "1")
				st.put(good, "JOB2", "active", "attempts", "1")
			}
			for _, key := range c.expires {
				switch {
				case key == good.Completed() || key == good.Failed():
					st.Must("HSET " + key + " count 7")
				case strings.Contains(key, ":job:"):
					st.Must("HSET " + key + " old 1")
				default:
					st.Must("ZADD " + key + " 1 JOBold")
				}
				st.Must("PEXPIRE " + key + " 1")
			}
			st.Must("DEBUG SLEEP 0.01")
			require.Equal(t, c.want, st.Do(c.do...))
			for _, key := range []string{good.Pending(), good.Active(), good.Schedule(), good.Dead()} {
				require.ElementsMatch(t, c.holds[key], st.Members(key), key)
			}
			for _, key := range []string{good.Completed(), good.Failed()} {
				require.NotContains(t, st.Do("HVALS", key), "8", "the old count is gone with its key")
			}
			if name == "menqueue" {
				require.Equal(t, map[string]string{"state": "pending", "attempts": "0", "payload": "x"}, st.row(good, "JOB1"))
			}
			st.inStep("1")
			require.Equal(t, st.digest(), replica.attachPlain(t).digest())
		})
	}
}

// Where fields can expire, a counter keeps its time to live, whatever the increment.
func TestBatchesKeepACountersTimeToLive(t *testing.T) {
	s := start(t, withModule())
	st := s.fresh(t)
	if strings.Contains(st.Do("HPTTL", "none", "FIELDS", "1", "f"), "unknown command") {
		t.Skip("this server's fields have no time to live; Valkey 9.0 is the first whose have")
	}
	for key, args := range map[string][]string{
		good.Completed(): good.Mcomplete("JOB1", "1", "JOB2", "1", "JOB1", "1"),
		good.Failed():    good.Mfail(1, "JOB1", "1", "0", "x", "JOB2", "1", "0", "x"),
	} {
		st.Must("FLUSHALL", "SET {emq}:version "+wire6)
		st.put(good, "JOB1", "active", "attempts", "1")
		st.put(good, "JOB2", "active", "attempts", "1")
		st.Must("HSET " + key + " count 40")
		require.Equal(t, "*1\r\n:1\r\n", st.Do("HPEXPIRE", key, "60000", "FIELDS", "1", "count"))
		require.NotContains(t, st.Do(args...), "-")
		st.reply(bulk("42"), "HGET "+key+" count")
		require.NotEqual(t, "*1\r\n:-1\r\n", st.Do("HPTTL", key, "FIELDS", "1", "count"))
	}
}

// A panic in the middle of a list drops what was decided before it.
func TestBatchesPanic(t *testing.T) {
	s := faulty(t)
	s.observers = newObservers(t, s)
	ids := many(100, "JOB%d")
	ids[77] = panicID
	for verb, args := range map[string][]string{
		"menqueue": good.Menqueue(of(ids, "x")...), "mschedule": good.Mschedule("in", of(ids, "1", "x")...), "mcomplete": good.Mcomplete(of(ids, "1")...),
		"mextend": good.Mextend(1, of(ids, "1")...), "mfail": good.Mfail(1, of(ids, "1", "0", "why")...), "mclaim": good.Mclaim(1, 1000),
	} {
		t.Run(verb, func(t *testing.T) {
			st := s.fresh(t)
			if verb == "mclaim" {
				for _, id := range ids {
					st.put(good, id, "pending", "attempts", "0")
				}
			} else if !strings.HasPrefix(verb, "me") && verb != "mschedule" {
				st.put(good, "JOB001", "active", "attempts", "1")
			}
			st.refused("ERR internal error", args...)
			st.reply("+PONG\r\n", "PING")
		})
	}
}

// A batch allocates nothing in Go, however many jobs it has.
func TestBatchesAndTheRuntime(t *testing.T) {
	st := faulty(t).fresh(t)
	st.Heard = nil
	at := runtimeOf(st)
	idle := runtimeOf(st)["mallocs"] - at["mallocs"]
	before := runtimeOf(st)
	for range 100 {
		st.lives("q", "payload", many(100, "JOB%d")...)
	}
	after := runtimeOf(st)
	require.Less(t, after["mallocs"]-before["mallocs"]-idle, int64(1000), "allocations in 120,000 decisions")
	require.Equal(t, int64(0), after["numgc"])
	require.Equal(t, int64(1), after["goroutines"])
}

// refusesToWrite calls each verb from a script that is flagged no-writes.
func (st *fixture) refusesToWrite(verbs map[string][]string) {
	st.t.Helper()
	for verb, args := range verbs {
		st.unchanged(func() {
			reply := st.Do(append([]string{"EVAL", "#!lua flags=no-writes\nreturn redis.call(unpack(ARGV))", "0"}, args...)...)
			require.True(st.t, strings.HasPrefix(reply, "-ERR Write commands are not allowed"), "%s: %q", verb, reply)
		})
	}
}
