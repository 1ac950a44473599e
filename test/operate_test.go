package test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// RELEASE, the verbs for operators, and the gates. What holds for every verb is tested with the others (orders,
// numbers, wrong types, the fence, the catalogue); emq/test/gates tests gates under load.

func init() {
	base, kind := layout(1, "emq:{q}"), "EMQKIND job id must be JOB-namespaced\r\n"
	release, requeue, remove := good.Release("JOB1", "7", 0), good.Requeue("dead", "JOB0", "JOB1", "JOB2"), good.Remove("any", "JOB0", "JOB1", "JOB2")
	meta := wrongType(good.Meta())
	state := func(at int) violation {
		return violation{check: "keyword", want: "ERR state ", request: word(at, "Dead")}
	}
	orders = append(orders,
		verbOrder{"release", release, []violation{
			arity, {check: "kind", want: kind, request: word(2, "XYZ")}, base, number(4), onReplica, foreign, wrongType("emq:{q}:schedule"),
			{check: "script", want: "EMQSCRIPT ", given: []string{"HSET emq:{q}:job:JOB1 parent JOB0"}},
			{check: "holder", want: "EMQSTALE release token mismatch\r\n"},
		}},
		verbOrder{"requeue", requeue, []violation{
			inList("kind", kind, 4, "XYZ"), base, tooMany(3, 1), state(2), onReplica, foreign, wrongType("emq:{q}:schedule"),
		}},
		verbOrder{"remove", remove, []violation{
			inList("kind", kind, 5, "XYZ"), base, tooMany(3, 1), state(2), onReplica, foreign, wrongType("emq:{q}:dead"),
		}},
		verbOrder{"pause", good.Pause(5), []violation{arity, base, number(2), onReplica, foreign, meta}},
		verbOrder{"resume", good.Resume(), []violation{arity, base, onReplica, foreign, meta}},
		verbOrder{"limit", good.Limit(1, 1, 1), []violation{
			arity, base, number(2), {check: "max", want: "ERR max ", request: word(3, "-1")}, {check: "duration", want: "ERR duration_ms ", request: word(4, "01")},
			{check: "rate", want: "ERR max and duration_ms ", request: word(3, "0")}, onReplica, foreign, meta,
		}},
	)

	for verb, d := range map[string]described{
		"emq.release": {request: good.Release("JOB1", "1", 0), arity: 5, argNames: []string{"base", "id", "token", "delay_ms"}},
		"emq.requeue": {request: good.Requeue("dead", "JOB1", "JOB2"), arity: -4, argNames: []string{"base", "state", "id"}},
		"emq.remove":  {request: good.Remove("any", "JOB1", "JOB2"), arity: -4, argNames: []string{"base", "state", "id"}},
		"emq.pause":   {request: good.Pause(0), arity: 3, argNames: []string{"base", "ms"}},
		"emq.resume":  {request: good.Resume(), arity: 2, argNames: []string{"base"}},
		"emq.limit":   {request: good.Limit(1, 1, 1), arity: 5, argNames: []string{"base", "concurrency", "max", "duration_ms"}},
	} {
		d.keys = []string{good.Base()}
		catalogue[verb] = d
	}

	const (
		row1      = "HSET emq:{q}:job:JOB1 "
		lapsed    = row1 + "state pending attempts 1 payload x lease_epoch e1 stalled 1"
		unlease   = "HDEL emq:{q}:job:JOB1 lease_epoch"
		scheduled = row1 + "state scheduled"
		later     = "ZADD emq:{q}:schedule {now+5000} JOB1"
		deadRow   = row1 + "state dead attempts 5 payload x failures 5 stalled 1 last_error why lease_epoch e1"
		dead2     = "HSET emq:{q}:job:JOB2 state dead attempts 2 payload y failures 2 last_error why"
		addDead   = "ZADD emq:{q}:dead 0 JOB1 0 JOB2"
		setMeta   = "HSET emq:{q}:meta "
		delMeta   = "HDEL emq:{q}:meta "
		claimIt   = "SET {emq}:version echomq:6.0.0 NX"
		grant     = row1 + "state active attempts 1 lease_epoch RUN"
	)
	pending, ok := bulk("pending"), "+OK\r\n"
	gone := func(id string) string { return "emq:{q}:job:" + id }
	transitions = append(transitions,
		transition{name: "release", given: []string{rowHeld, addActive}, args: good.Release("JOB1", "1", 0), want: pending,
			stream: atomically(zremActive, setPending, unlease, addPending),
			after:  []string{"HGETALL emq:{q}:job:JOB1 => " + array(bulk("state"), pending, bulk("attempts"), bulk("1"), bulk("payload"), bulk("x"))}},
		transition{name: "release for later", given: []string{rowHeld + " stalled 2 failures 1 last_error why", addActive}, args: good.Release("JOB1", "1", 5000), want: bulk("scheduled"),
			stream: atomically(zremActive, scheduled, unlease+" stalled", later),
			after:  []string{"HMGET emq:{q}:job:JOB1 attempts failures last_error => " + array(bulk("1"), bulk("1"), bulk("why"))}},
		transition{name: "release of a job that lapsed", given: []string{lapsed, addPending}, args: good.Release("JOB1", "1", 0), want: pending,
			stream: []string{unlease + " stalled"}},
		transition{name: "release of a job that lapsed, for later", given: []string{lapsed, addPending}, args: good.Release("JOB1", "1", 5000), want: bulk("scheduled"),
			stream: atomically(zremPending, scheduled, unlease+" stalled", later)},
		transition{name: "release of a job that a script leased", given: []string{rowLeased, addActive}, args: good.Release("JOB1", "1", 0), want: pending,
			stream: atomically(zremActive, setPending, addPending)},
		transition{name: "release of a job in no set", given: []string{rowHeld}, args: good.Release("JOB1", "1", 0), want: pending,
			stream: atomically(setPending, unlease, addPending)},
		transition{name: "release of a job in two sets", given: []string{rowHeld, addActive, addPending}, args: good.Release("JOB1", "1", 0), want: pending,
			stream: atomically(zremActive, setPending, unlease)},
		transition{name: "release keeps what it does not know", given: []string{rowHeld + " progress 50 parent_queue r", addActive}, args: good.Release("JOB1", "1", 0), want: pending,
			stream: atomically(zremActive, setPending, unlease, addPending),
			after:  []string{"HMGET emq:{q}:job:JOB1 progress parent_queue => " + array(bulk("50"), bulk("r"))}},
		transition{name: "release of nothing", args: good.Release("JOB1", "1", 0), want: "-EMQSTALE job gone\r\n"},
		transition{name: "release of nothing without an identity", given: []string{noIdentity}, args: good.Release("JOB1", "1", 0), want: "-EMQSTALE job gone\r\n"},
		transition{name: "release of nothing that is active, without an identity", given: []string{noIdentity, addActive}, args: good.Release("JOB1", "1", 0),
			want: "-EMQSTALE job gone\r\n", broken: []string{"emq:{q}:active: JOB1 has no row"}},
		transition{name: "release, a second time", given: []string{row1 + "state pending attempts 1 payload x", addPending}, args: good.Release("JOB1", "1", 0), want: stale("release")},
		transition{name: "release of what failed", given: []string{rowWaiting, addDue}, args: good.Release("JOB1", "1", 0), want: stale("release")},

		transition{name: "requeue", given: []string{deadRow, dead2, addDead, "HSET emq:{q}:metrics:failed count 2"}, args: good.Requeue("dead", "JOB2", "JOB1"), want: status(1, 1),
			stream: atomically("ZREM emq:{q}:dead JOB2 JOB1", "HSET emq:{q}:job:JOB2 state pending", "HDEL emq:{q}:job:JOB2 failures last_error",
				setPending, "HDEL emq:{q}:job:JOB1 failures stalled last_error lease_epoch", "ZADD emq:{q}:pending 0 JOB2 0 JOB1"),
			after: []string{"HGETALL emq:{q}:job:JOB1 => " + array(bulk("state"), pending, bulk("attempts"), bulk("5"), bulk("payload"), bulk("x")),
				"HGET emq:{q}:metrics:failed count => " + bulk("2")}},
		transition{name: "requeue of what is scheduled", given: []string{rowWaiting + " lease_epoch e1 stalled 1", addDue}, args: good.Requeue("scheduled", "JOB1"), want: status(1),
			stream: atomically(zremSchedule, setPending, addPending),
			after:  []string{"HMGET emq:{q}:job:JOB1 failures stalled last_error lease_epoch => " + array(bulk("1"), bulk("1"), bulk("why"), bulk("e1"))}},
		transition{name: "requeue of dead jobs in no set", given: []string{row1 + "state dead attempts 1"}, args: good.Requeue("dead", "JOB1"), want: status(1),
			stream: atomically(setPending, addPending)},
		transition{name: "requeue of a dead job that is pending too", given: []string{row1 + "state dead attempts 1", "ZADD emq:{q}:dead 0 JOB1", addPending}, args: good.Requeue("dead", "JOB1"), want: status(1),
			stream: atomically("ZREM emq:{q}:dead JOB1", setPending)},
		transition{name: "requeue of others", given: []string{deadRow, dead2 + " group g", addDead, "SET emq:{q}:job:JOB3 x"},
			args: good.Requeue("scheduled", "JOB1", "JOB2", "JOB3", "JOB4"), want: status(0, -2, 0, 0), broken: []string{"emq:{q}:job:JOB3: is a string"}},
		transition{name: "requeue of one twice", given: []string{deadRow, "ZADD emq:{q}:dead 0 JOB1"}, args: good.Requeue("dead", "JOB1", "JOB1"), want: status(1, 0),
			stream: atomically("ZREM emq:{q}:dead JOB1", setPending, "HDEL emq:{q}:job:JOB1 failures stalled last_error lease_epoch", addPending)},
		transition{name: "requeue of nothing", args: good.Requeue("dead", "JOB1"), want: status(0)},
		transition{name: "requeue on nothing without an identity", given: []string{noIdentity, deadRow}, args: good.Requeue("dead", "JOB1", "JOB1"), want: status(0, 0),
			broken: []string{"emq:{q}:: rows without an identity", "emq:{q}:job:JOB1: state dead, in []"}},

		transition{name: "remove of what runs", given: []string{rowHeld, addActive, "HSET emq:{q}:metrics:completed count 1"}, args: good.Remove("active", "JOB1"), want: status(1),
			stream: atomically(zremActive, delRow), after: []string{"HGET emq:{q}:metrics:completed count => " + bulk("1")}},
		transition{name: "remove of any", given: []string{rowPending, addPending, "HSET emq:{q}:job:JOB2 state active attempts 1", "ZADD emq:{q}:active 9000000000000 JOB2",
			"HSET emq:{q}:job:JOB3 state scheduled attempts 1", "ZADD emq:{q}:schedule 7 JOB3", "HSET emq:{q}:job:JOB4 state dead attempts 1", "ZADD emq:{q}:dead 0 JOB4"},
			args: good.Remove("any", "JOB4", "JOB3", "JOB9", "JOB2", "JOB1", "JOB4"), want: status(1, 1, 0, 1, 1, 0),
			stream: atomically(zremPending, "ZREM emq:{q}:active JOB2", "ZREM emq:{q}:schedule JOB3", "ZREM emq:{q}:dead JOB4",
				"DEL "+gone("JOB4")+" "+gone("JOB3")+" "+gone("JOB2")+" "+gone("JOB1"))},
		transition{name: "remove of one that is in all sets", given: []string{row1 + "state odd attempts 1", addPending, addActive, addDue, "ZADD emq:{q}:dead 0 JOB1"},
			args: good.Remove("any", "JOB1"), want: status(1), stream: atomically(zremPending, zremActive, zremSchedule, "ZREM emq:{q}:dead JOB1", delRow)},
		transition{name: "remove of one that is in no set", given: []string{rowHeld}, args: good.Remove("active", "JOB1"), want: status(1), stream: []string{delRow}},
		transition{name: "remove of others", given: []string{rowHeld, addActive, "HSET emq:{q}:job:JOB2 state active attempts 1 parent p", "ZADD emq:{q}:active 9000000000000 JOB2"},
			args: good.Remove("pending", "JOB1", "JOB2", "JOB3"), want: status(0, -2, 0)},
		transition{name: "remove of an entry without a row", given: []string{addPending}, args: good.Remove("any", "JOB1"), want: status(0), broken: []string{"emq:{q}:pending: JOB1 has no row"}},
		transition{name: "remove on nothing without an identity", given: []string{noIdentity, rowHeld}, args: good.Remove("any", "JOB1"), want: status(0),
			broken: []string{"emq:{q}:: rows without an identity", "emq:{q}:job:JOB1: state active, in []"}},

		transition{name: "pause", args: good.Pause(0), want: ok, stream: []string{setMeta + "paused 1"}},
		transition{name: "pause claims the identity", given: []string{noIdentity}, args: good.Pause(0), want: ok, stream: atomically(claimIt, setMeta+"paused 1")},
		transition{name: "pause for a time", args: good.Pause(5000), want: ok, stream: []string{setMeta + "paused 1 paused_until {now+5000}"}},
		transition{name: "pause again, for a time", given: []string{setMeta + "paused 1 paused_until 9000000000000 concurrency 3"}, args: good.Pause(5000), want: ok,
			stream: []string{setMeta + "paused_until {now+5000}"}},
		transition{name: "pause again", given: []string{setMeta + "paused 1"}, args: good.Pause(0), want: ok},
		transition{name: "pause without an end", given: []string{setMeta + "paused 1 paused_until 9000000000000"}, args: good.Pause(0), want: ok, stream: []string{delMeta + "paused_until"}},
		transition{name: "pause over what is broken", given: []string{setMeta + "paused yes paused_until soon"}, args: good.Pause(0), want: ok,
			stream: atomically(setMeta+"paused 1", delMeta+"paused_until")},
		transition{name: "pause again, without an identity", given: []string{noIdentity, setMeta + "paused 1"}, args: good.Pause(0), want: ok},

		transition{name: "resume", given: []string{setMeta + "paused 1 paused_until 9000000000000 concurrency 3"}, args: good.Resume(), want: integer(1),
			stream: []string{delMeta + "paused paused_until"}, after: []string{"HGETALL emq:{q}:meta => " + array(bulk("concurrency"), bulk("3"))}},
		transition{name: "resume of the last gate", given: []string{setMeta + "paused 1"}, args: good.Resume(), want: integer(1),
			stream: []string{delMeta + "paused"}, after: []string{"EXISTS emq:{q}:meta => " + integer(0)}},
		transition{name: "resume of a pause that is over", given: []string{setMeta + "paused 1 paused_until 7"}, args: good.Resume(), want: integer(0), stream: []string{delMeta + "paused paused_until"}},
		transition{name: "resume of nothing", args: good.Resume(), want: integer(0)},
		transition{name: "resume of nothing without an identity", given: []string{noIdentity}, args: good.Resume(), want: integer(0)},
		transition{name: "resume claims the identity", given: []string{noIdentity, setMeta + "paused 1"}, args: good.Resume(), want: integer(1), stream: atomically(claimIt, delMeta+"paused")},

		transition{name: "limit", args: good.Limit(3, 100, 1000), want: ok, stream: []string{setMeta + "concurrency 3 max 100 duration 1000"}},
		transition{name: "limit claims the identity", given: []string{noIdentity}, args: good.Limit(3, 0, 0), want: ok, stream: atomically(claimIt, setMeta+"concurrency 3")},
		transition{name: "limit anew", given: []string{setMeta + "paused 1 concurrency 3 max 100 duration 1000 window 5 used 9"}, args: good.Limit(5, 0, 0), want: ok,
			stream: atomically(setMeta+"concurrency 5", delMeta+"max duration window used"), after: []string{"HGETALL emq:{q}:meta => " + array(bulk("paused"), bulk("1"), bulk("concurrency"), bulk("5"))}},
		transition{name: "limit as before", given: []string{setMeta + "concurrency 3 max 100 duration 1000"}, args: good.Limit(3, 100, 1000), want: ok},
		transition{name: "limit as before, in a window", given: []string{setMeta + "concurrency 3 max 100 duration 1000 window 5 used 9"}, args: good.Limit(3, 100, 1000), want: ok,
			stream: []string{delMeta + "window used"}},
		transition{name: "limit no more", given: []string{setMeta + "concurrency 3 max 100 duration 1000 window 5 used 9"}, args: good.Limit(0, 0, 0), want: ok,
			stream: []string{delMeta + "concurrency max duration window used"}, after: []string{"EXISTS emq:{q}:meta => " + integer(0)}},
		transition{name: "limit of nothing by nothing, without an identity", given: []string{noIdentity}, args: good.Limit(0, 0, 0), want: ok},

		transition{name: "claim of what is paused", given: []string{rowPending, addPending, setMeta + "paused 1"}, args: claim30, want: empty},
		transition{name: "mclaim of what is paused", given: []string{rowPending, addPending, setMeta + "paused 1 paused_until 9000000000000"}, args: good.Mclaim(30000, 5), want: empty},
		transition{name: "claim after a pause", given: []string{rowPending, addPending, setMeta + "paused 1 paused_until 7"}, args: claim30, want: claimed("JOB1", "x", 1),
			stream: atomically(zremPending, grant, grantAndKeep)},
		transition{name: "claim in the last place", given: []string{rowPending, addPending, setMeta + "concurrency 2", "HSET emq:{q}:job:JOB2 state active attempts 1", "ZADD emq:{q}:active 9000000000000 JOB2"},
			args: claim30, want: claimed("JOB1", "x", 1), stream: atomically(zremPending, grant, grantAndKeep)},
		transition{name: "claim without a place", given: []string{rowPending, addPending, setMeta + "concurrency 1", "HSET emq:{q}:job:JOB2 state active attempts 1", "ZADD emq:{q}:active 7 JOB2"},
			args: claim30, want: empty},
		transition{name: "claim opens a window", given: []string{rowPending, addPending, setMeta + "max 5 duration 1000"}, args: claim30, want: claimed("JOB1", "x", 1),
			stream: atomically(zremPending, grant, grantAndKeep, setMeta+"window {now+0} used 1")},
		transition{name: "claim opens another window", given: []string{rowPending, addPending, setMeta + "max 1 duration 1000 window 7 used 1"}, args: claim30, want: claimed("JOB1", "x", 1),
			stream: atomically(zremPending, grant, grantAndKeep, setMeta+"window {now+0} used 1")},
		transition{name: "claim in a window", given: []string{rowPending, addPending, setMeta + "max 5 duration 4503599627370495 window 7 used 3"}, args: claim30, want: claimed("JOB1", "x", 1),
			stream: atomically(zremPending, grant, grantAndKeep, setMeta+"used 4")},
		transition{name: "claim after all of a window", given: []string{rowPending, addPending, setMeta + "max 5 duration 4503599627370495 window 7 used 5"}, args: claim30, want: empty},
		transition{name: "claim that drops and spends nothing", given: []string{addPending, setMeta + "max 5 duration 1000"}, args: claim30, want: empty, stream: []string{zremPending}},
		transition{name: "mclaim takes no more than the room",
			given: []string{rowPending, "HSET emq:{q}:job:JOB2 state pending attempts 0 payload y", "HSET emq:{q}:job:JOB3 state pending attempts 0", "ZADD emq:{q}:pending 0 JOB0 0 JOB1 0 JOB2 0 JOB3",
				setMeta + "concurrency 9 max 2 duration 1000"},
			args: good.Mclaim(30000, 1000), want: array(claimed("JOB1", "x", 1), claimed("JOB2", "y", 1)),
			stream: atomically("ZREM emq:{q}:pending JOB0 JOB1 JOB2", grant, "HSET emq:{q}:job:JOB2 state active attempts 1 lease_epoch RUN",
				"ZADD emq:{q}:active {now+30000} JOB1 {now+30000} JOB2", setMeta+"window {now+0} used 2")},
		transition{name: "claim through a broken gate", given: []string{rowPending, addPending, setMeta + "paused yes concurrency 0 max 0 duration x window -1 used 5"}, args: claim30, want: claimed("JOB1", "x", 1),
			stream: atomically(zremPending, grant, grantAndKeep), broken: []string{`emq:{q}:meta: duration "x"`, `emq:{q}:meta: paused "yes"`, `emq:{q}:meta: window "-1"`}},
		transition{name: "a broken use counts as none", given: []string{rowPending, addPending, setMeta + "max 5 duration 4503599627370495 window 7 used 9007199254740991"}, args: claim30,
			want: claimed("JOB1", "x", 1), stream: atomically(zremPending, grant, grantAndKeep, setMeta+"used 1")},

		transition{name: "stats of gates", given: []string{setMeta + "paused 1 paused_until 9000000000000 concurrency 3 max 4 duration 1000"}, args: good.Stats(),
			want: strings.Replace(figures(0, 0, 0, 0, 0, 0, "", "", ""), strings.Join(gates(0, 0, "", "", "", ""), ""), strings.Join(gates(0, 1, "9000000000000", "3", "4", "1000"), ""), 1)},
		transition{name: "audit finds broken gates", given: []string{setMeta + "paused yes concurrency 3 max 4"}, args: good.Audit("0", 10),
			want:   array(bulk("active:0"), array(finding("gate", "paused", "meta", "drop", 0), finding("gate", "max", "meta", "drop", 0))),
			broken: []string{"emq:{q}:meta: half a rate", `emq:{q}:meta: paused "yes"`}},
		transition{name: "audit takes broken gates away", given: []string{setMeta + "paused 1 paused_until x concurrency 0 max x duration 5 window x used x other kept", addPending}, args: good.Fix("0", 10),
			want: array(bulk("active:0"), array(finding("gate", "paused", "meta", "drop", 1), finding("gate", "paused_until", "meta", "drop", 1), finding("gate", "concurrency", "meta", "drop", 1),
				finding("gate", "max", "meta", "drop", 1), finding("gate", "duration", "meta", "drop", 1), finding("gate", "window", "meta", "drop", 1), finding("gate", "used", "meta", "drop", 1),
				finding("no-row", "JOB1", "pending", "drop", 1))),
			stream: atomically(zremPending, delMeta+"paused paused_until concurrency max duration", delMeta+"window used")},
		transition{name: "audit takes the last gate away", given: []string{setMeta + "paused yes"}, args: good.Fix("0", 10),
			want: array(bulk("active:0"), array(finding("gate", "paused", "meta", "drop", 1))), stream: []string{delMeta + "paused"}},
		transition{name: "audit leaves a meta that is no hash", given: []string{"SET emq:{q}:meta x"}, args: good.Fix("0", 10),
			want: array(bulk("active:0"), array(finding("no-hash", "", "meta", "leave", 0))), broken: []string{"emq:{q}:meta: is a string"}},
		transition{name: "audit looks at gates where it begins", given: []string{setMeta + "paused yes"}, args: good.Fix("rows:0", 10), want: array(bulk("0"), empty), broken: []string{`emq:{q}:meta: paused "yes"`}},
	)
}

// Setting a gate claims the identity with the caller's own rights, as creating a job does.
func TestGatesAndTheIdentity(t *testing.T) {
	s := witnessed(t)
	for verb, args := range map[string][]string{"pause": good.Pause(0), "limit": good.Limit(1, 0, 0)} {
		t.Run(verb+"/rights", func(t *testing.T) {
			st := s.bare(t)
			st.Must("ACL SETUSER worker reset on >secret +@emq ~emq:{q}:*")
			t.Cleanup(func() { st.Must("ACL DELUSER worker") })
			worker := s.dial(t)
			worker.Must("AUTH worker secret")
			st.unchanged(func() { require.Contains(t, worker.Do(args...), "-EMQFENCE ") }, family(args)...)
			require.Equal(t, integer(0), worker.Do(good.Resume()...), "there is nothing to write, and nothing to claim")
			st.Must("SET {emq}:version " + wire6)
			require.Equal(t, "+OK\r\n", worker.Do(args...))
		})
	}
	for set, key := range map[string]string{"pending": good.Pending(), "active": good.Active(), "schedule": good.Schedule(), "dead": good.Dead()} {
		for _, args := range [][]string{good.Requeue("dead", "JOB1"), good.Remove("any", "JOB1")} {
			for kind := range makers {
				t.Run(args[0]+"/"+set+"/"+kind, func(t *testing.T) {
					st := s.bare(t)
					st.make(kind, key)
					if kind == "zset" {
						st.damaged(key + ": JOBx has no row")
						if set == "pending" || set == "dead" {
							st.damaged(key + ": JOBx has the score 1")
						}
					} else {
						st.damaged(key + ": is a " + kind)
					}
					st.refused("EMQFENCE ", args...)
				})
			}
		}
	}
	t.Run("stats and audit of gates alone", func(t *testing.T) {
		st := s.bare(t)
		st.Must("HSET emq:{q}:meta paused 1")
		st.refused("EMQFENCE ", good.Stats()...)
		st.refused("EMQFENCE ", good.Audit("0", 10)...)
		st.quiet(empty, good.Claim(1000)...)
	})
}

// The bound on payloads is the last check of the arguments. It applies to each new job, and to no other bytes.
func TestPayloadBound(t *testing.T) {
	s := witnessed(t)
	st := s.fresh(t)
	long := strings.Repeat("x", 11)
	makers := map[string][]string{
		"enqueue": good.Enqueue("JOB1", long), "schedule": good.ScheduleIn("JOB1", long, 1),
		"menqueue": good.Menqueue("JOB0", "x", "JOB1", long, "JOB2", long+"x"), "mschedule": good.Mschedule("in", "JOB0", "1", "x", "JOB1", "1", long, "JOB2", "1", long+"x"),
	}
	set := func(n string) { st.Must("CONFIG SET emq.max-payload-bytes " + n) }
	t.Cleanup(func() { set("0") })
	set("10")
	const refusal = "ERR payload has 11 bytes, more than emq.max-payload-bytes (10)\r\n"
	for verb, args := range makers {
		st.refused(refusal, args...)
		st.refused("EMQKEY ", with(args, slices.IndexFunc(args, func(w string) bool { return strings.HasPrefix(w, "emq:") }), "x")...)
		st.put(good, "JOB1", "pending", "attempts", "0")
		st.refused(refusal, args...)
		st.Must("SET {emq}:version echomq:4.0.0")
		st.refused(refusal, args...)
		st.Must("SET {emq}:version "+wire6, "DEL emq:{q}:pending emq:{q}:job:JOB1", "SET emq:{q}:pending x", "SET emq:{q}:schedule x")
		st.refused(refusal, args...)
		st.Must("DEL emq:{q}:pending emq:{q}:schedule")
		set("12")
		require.NotContains(t, st.Do(args...), "-", verb)
		st.Must("FLUSHALL", "SET {emq}:version "+wire6)
		set("0")
		require.NotContains(t, st.Do(args...), "-", verb)
		st.Must("FLUSHALL", "SET {emq}:version "+wire6)
		set("10")
	}
	st.put(good, "JOB1", "active", "attempts", "1")
	require.Equal(t, bulk("scheduled"), st.Do(good.Fail("JOB1", "1", 0, 3, strings.Repeat("e", 1000))...), "an error is no payload")
	st.Must("HSET emq:{q}:job:JOB2 state pending attempts 0 payload "+strings.Repeat("p", 1000), "ZADD emq:{q}:pending 0 JOB2")
	require.Equal(t, claimed("JOB2", strings.Repeat("p", 1000), 1), st.Do(good.Claim(1000)...), "what is there is handed out")
	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB3", strings.Repeat("x", 10))...))
	for _, bad := range []string{"-1", "2147483648", "x", "1gb2"} {
		require.Contains(t, st.Do("CONFIG", "SET", "emq.max-payload-bytes", bad), "-ERR ", bad)
	}
	set("2147483647")
	require.Equal(t, array(bulk("emq.max-payload-bytes"), bulk("2147483647")), st.Do("CONFIG", "GET", "emq.max-payload-bytes"))
	o := "CONFIG SET replica-read-only no"
	st.Must(o)
}

// On a replica, a payload over the bound is refused before READONLY, as other wrong arguments are.
func TestPayloadBoundOnAReplica(t *testing.T) {
	s := start(t, withModule("--emq.max-payload-bytes", "10"))
	st := s.attachPlain(t)
	primary := start(t, withModule()).fresh(t)
	st.Must("REPLICAOF 127.0.0.1 "+fmt.Sprint(primary.s.Port()), "CONFIG SET replica-read-only no")
	s.Linked()
	require.Contains(t, st.Do(good.Enqueue("JOB1", strings.Repeat("x", 11))...), "-ERR payload has 11 bytes")
	require.Contains(t, st.Do(good.Enqueue("JOB1", strings.Repeat("x", 10))...), "-READONLY ")
	require.Equal(t, integer(1), primary.Do(good.Enqueue("JOB1", strings.Repeat("x", 11))...))
	primary.inStep("1")
	require.Equal(t, bulk(strings.Repeat("x", 11)), st.Do("HGET", good.Row("JOB1"), "payload"), "what the primary sends is not asked")
	st.Must("REPLICAOF NO ONE")
}

// INFO has a name for each of their results.
func TestInfoCountsOperators(t *testing.T) {
	s := start(t, withModule())
	held := []string{"HSET emq:{q}:job:JOB1 state active attempts 1 payload x", "ZADD emq:{q}:active 9000000000000 JOB1"}
	dead := []string{"HSET emq:{q}:job:JOB1 state dead attempts 1 payload x", "ZADD emq:{q}:dead 0 JOB1"}
	lane := []string{"HSET emq:{q}:job:JOB1 state active attempts 1 group g", "ZADD emq:{q}:active 9000000000000 JOB1"}
	paused := []string{"HSET emq:{q}:meta paused 1"}
	for _, tt := range []struct {
		name  string
		given []string
		args  []string
		want  map[string]int
	}{
		{"released", held, good.Release("JOB1", "1", 0), map[string]int{"release_released": 1}},
		{"released for later", held, good.Release("JOB1", "1", 7), map[string]int{"release_released": 1}},
		{"stale", held, good.Release("JOB1", "2", 0), map[string]int{"release_stale": 1}},
		{"gone", nil, good.Release("JOB1", "2", 0), map[string]int{"release_gone": 1}},
		{"script", lane, good.Release("JOB1", "1", 0), map[string]int{"release_script": 1}},
		{"requeued", dead, good.Requeue("dead", "JOB1", "JOB1", "JOB2"), map[string]int{"requeue_requeued": 1, "requeue_gone": 2}},
		{"requeue of a lane's", lane, good.Requeue("dead", "JOB1"), map[string]int{"requeue_script": 1}},
		{"removed", held, good.Remove("any", "JOB1", "JOB1", "JOB2"), map[string]int{"remove_removed": 1, "remove_gone": 2}},
		{"remove of a lane's", lane, good.Remove("any", "JOB1"), map[string]int{"remove_script": 1}},
		{"word", nil, good.Remove("all", "JOB1"), map[string]int{"remove_argument": 1}},
		{"paused", nil, good.Pause(0), map[string]int{"pause_paused": 1}},
		{"paused again", paused, good.Pause(0), map[string]int{"pause_paused": 1}},
		{"resumed", paused, good.Resume(), map[string]int{"resume_resumed": 1}},
		{"not paused", nil, good.Resume(), map[string]int{"resume_not_paused": 1}},
		{"limited", nil, good.Limit(1, 1, 1), map[string]int{"limit_limited": 1}},
		{"half a rate", nil, good.Limit(1, 1, 0), map[string]int{"limit_argument": 1}},
		{"gated", append(slices.Clone(paused), rowPending, addPending), good.Claim(1), map[string]int{"claim_empty": 1}},
		{"many gated", append(slices.Clone(paused), rowPending, addPending), good.Mclaim(1, 9), map[string]int{"mclaim_empty": 1}},
		{"broken gates", []string{"HSET emq:{q}:meta paused x max 5"}, good.Audit("0", 9), map[string]int{"audit_found": 1, "audit_findings_left": 2}},
		{"broken gates, mended", []string{"HSET emq:{q}:meta paused x max 5"}, good.Fix("0", 9), map[string]int{"audit_found": 1, "audit_findings_fixed": 2}},
		{"a meta that is no hash", []string{"SET emq:{q}:meta x"}, good.Fix("0", 9), map[string]int{"audit_found": 1, "audit_findings_left": 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := s.fresh(t)
			st.Must(tt.given...)
			want := map[string]int{}
			for name, n := range tt.want {
				want["emq_"+name] = n
			}
			want["emq_"+strings.ToLower(strings.TrimPrefix(tt.args[0], "EMQ."))+"_calls"] = 1
			require.Equal(t, want, st.counted("emq_commands", func() { st.Do(tt.args...) }))
			st.Must("FLUSHALL")
		})
	}
}

// In transactions and scripts they have the same effects, which are part of the transaction's or script's.
func TestOperatorsInContexts(t *testing.T) {
	s := witnessed(t)
	give := func(st *fixture) {
		st.put(good, "JOB1", "active", "attempts", "1", "lease_epoch", "e")
		st.put(good, "JOB2", "dead", "attempts", "3", "failures", "3")
		st.put(good, "JOB3", "scheduled", "attempts", "1")
	}
	calls := [][]string{
		good.Pause(0), good.Claim(1000), good.Resume(), good.Limit(1, 5, 60000), good.Claim(1000), good.Release("JOB1", "1", 0),
		good.Requeue("dead", "JOB2", "JOB9"), good.Mclaim(1000, 10), good.Remove("any", "JOB2", "JOB3"), good.Limit(0, 0, 0),
	}
	want := []string{
		"+OK\r\n", empty, integer(1), "+OK\r\n", empty, bulk("pending"), status(1, 0), array(claimed("JOB1", "x", 2)), status(1, 1), "+OK\r\n",
	}
	t.Run("one by one", func(t *testing.T) {
		st := s.fresh(t)
		give(st)
		for i, args := range calls {
			require.Equal(t, want[i], st.Do(args...), show(args))
		}
	})
	t.Run("a transaction", func(t *testing.T) {
		st := s.fresh(t)
		give(st)
		o := st.observe(func() {
			st.Must("MULTI")
			for _, args := range calls {
				require.Equal(t, "+QUEUED\r\n", st.Do(args...))
			}
			require.Equal(t, array(want...), st.Do("EXEC"))
		})
		require.Equal(t, "MULTI", o.stream[0])
		require.Equal(t, "EXEC", o.stream[len(o.stream)-1])
		require.Equal(t, 1, strings.Count(strings.Join(o.stream, "\n"), "MULTI"))
		require.NotContains(t, strings.ToUpper(strings.Join(o.stream, "\n")), "EMQ.")
	})
	for way, begin := range map[string][]string{"call": {"EVAL", "return redis.call(unpack(ARGV))", "0"}, "pcall": {"EVAL", "return redis.pcall(unpack(ARGV))", "0"}} {
		t.Run(way, func(t *testing.T) {
			st := s.fresh(t)
			give(st)
			for i, args := range calls {
				require.Equal(t, want[i], st.Do(append(slices.Clone(begin), args...)...), show(args))
			}
		})
	}
	t.Run("a script that is not to write", func(t *testing.T) { s.fresh(t).refusesToWrite(operatorsOn(good)) })
	t.Run("a watched key", func(t *testing.T) {
		st, other := s.fresh(t), s.dial(t)
		st.Must("WATCH " + good.Meta())
		require.Equal(t, integer(0), other.Do(good.Resume()...))
		st.Must("MULTI", "PING")
		require.NotEqual(t, "*-1\r\n", st.Do("EXEC"), "nothing changed")
		st.Must("WATCH " + good.Meta())
		require.Equal(t, "+OK\r\n", other.Do(good.Pause(0)...))
		st.Must("MULTI", "PING")
		require.Equal(t, "*-1\r\n", st.Do("EXEC"))
	})
}

// When memory is full they all still work: none is flagged deny-oom.
func TestOperatorsOutOfMemory(t *testing.T) {
	s := witnessed(t)
	st := full(t, s)
	require.Equal(t, "+OK\r\n", st.Do(good.Pause(0)...))
	require.Equal(t, integer(1), st.Do(good.Resume()...))
	require.Equal(t, "+OK\r\n", st.Do(good.Limit(9, 9, 1000)...))
	require.Equal(t, bulk("scheduled"), st.Do(good.Release("JOB1", "1", 1)...))
	require.Equal(t, status(1), st.Do(good.Requeue("scheduled", "JOB1")...))
	require.Equal(t, status(1, 1), st.Do(good.Remove("any", "JOB1", "JOB2")...))
}

// A replica, writable or not, refuses each; it receives the primary's effects as plain commands, and the gates apply
// after it is promoted.
func TestOperatorsAndReplicas(t *testing.T) {
	st, r, plain := followed(t)
	require.Equal(t, status(1, 1, 1, 1, 1), st.Do(good.Menqueue(of([]string{"JOB1", "JOB2", "JOB3", "JOB4", "JOB5"}, "x")...)...))
	require.Equal(t, "+OK\r\n", st.Do(good.Limit(3, 3, 3_600_000)...))
	require.Equal(t, array(claimed("JOB1", "x", 1), claimed("JOB2", "x", 1)), st.Do(good.Mclaim(60000, 2)...))
	require.Equal(t, claimed("JOB3", "x", 1), st.Do(good.Claim(60000)...))
	require.Equal(t, bulk("pending"), st.Do(good.Release("JOB1", "1", 0)...))
	require.Equal(t, status(1), st.Do(good.Remove("any", "JOB2")...))
	require.Equal(t, empty, st.Do(good.Claim(60000)...), "the window is used up")
	st.inStep("2")
	require.Equal(t, st.digest(), r.digest())
	require.Equal(t, st.digest(), plain.digest())
	require.Equal(t, st.Do(good.Stats()...), r.Do(good.Stats()...))
	for _, readOnly := range []string{"yes", "no"} {
		r.Must("CONFIG SET replica-read-only " + readOnly)
		for verb, args := range operatorsOn(good) {
			require.Contains(t, r.Do(args...), "-READONLY ", verb)
		}
	}
	require.Equal(t, st.digest(), r.digest())
	r.Must("REPLICAOF NO ONE")
	require.Equal(t, empty, r.Do(good.Claim(60000)...), "the window goes on where the primary was")
	require.Equal(t, "+OK\r\n", r.Do(good.Limit(2, 0, 0)...))
	require.Equal(t, claimed("JOB1", "x", 2), r.Do(good.Claim(60000)...))
	require.Equal(t, empty, r.Do(good.Claim(60000)...), "both places are taken")
}

// A server restores the same data from the append-only file.
func TestOperatorsInTheAppendOnlyFile(t *testing.T) {
	s := start(t, withModule("--appendonly", "yes", "--appendfsync", "always"))
	st := s.fresh(t)
	require.Equal(t, status(1, 1, 1), st.Do(good.Menqueue("JOB1", "x", "JOB2", "y", "JOB3", "z")...))
	require.Equal(t, "+OK\r\n", st.Do(good.Limit(2, 9, 1000)...))
	require.Equal(t, array(claimed("JOB1", "x", 1), claimed("JOB2", "y", 1)), st.Do(good.Mclaim(60000, 9)...))
	require.Equal(t, status(2), st.Do(good.Mfail(1, "JOB1", "1", "0", "why")...))
	require.Equal(t, status(1), st.Do(good.Requeue("dead", "JOB1")...))
	require.Equal(t, bulk("scheduled"), st.Do(good.Release("JOB2", "1", 60000)...))
	require.Equal(t, status(1), st.Do(good.Remove("pending", "JOB3")...))
	require.Equal(t, "+OK\r\n", st.Do(good.Pause(60000)...))
	before := st.digest()
	st.Must("DEBUG LOADAOF")
	require.Equal(t, before, st.digest())
	for _, args := range s.Appended("incr") {
		require.NotContains(t, strings.ToUpper(args[0]), "EMQ.")
	}
}

// Expired keys that the server has not removed yet count as absent.
func TestOperatorsMeetExpiredKeys(t *testing.T) {
	s := start(t, withModule())
	replica := follow(t, s)
	for name, c := range map[string]struct {
		state   string
		expires []string
		do      []string
		want    string
	}{
		"release":         {"active", []string{good.Active()}, good.Release("JOB1", "1", 0), bulk("pending")},
		"requeue":         {"dead", []string{good.Dead(), good.Pending()}, good.Requeue("dead", "JOB1"), status(1)},
		"remove":          {"active", []string{good.Active()}, good.Remove("any", "JOB1"), status(1)},
		"remove of a row": {"active", []string{good.Row("JOB1")}, good.Remove("any", "JOB1"), status(0)},
		"pause":           {"pending", []string{good.Meta()}, good.Pause(0), "+OK\r\n"},
		"resume":          {"pending", []string{good.Meta()}, good.Resume(), integer(0)},
		"limit":           {"pending", []string{good.Meta()}, good.Limit(1, 0, 0), "+OK\r\n"},
		"a gate":          {"pending", []string{good.Meta()}, good.Claim(1000), claimed("JOB1", "x", 2)},
		"a place":         {"pending", []string{good.Meta(), good.Active()}, good.Mclaim(1000, 5), array(claimed("JOB1", "x", 2))},
		"an audit":        {"pending", []string{good.Meta()}, good.Fix("0", 5), array(bulk("active:0"), empty)},
	} {
		t.Run(name, func(t *testing.T) {
			st := s.fresh(t)
			st.Must("DEBUG SET-ACTIVE-EXPIRE 0")
			t.Cleanup(func() { st.Must("FLUSHALL", "DEBUG SET-ACTIVE-EXPIRE 1") })
			st.put(good, "JOB1", c.state, "attempts", "1")
			for _, key := range c.expires {
				if key == good.Meta() {
					st.Must("HSET " + key + " paused 1 concurrency x")
				} else if !strings.Contains(key, ":job:") {
					st.Must("ZADD " + key + " 1 JOBold")
				}
			}
			st.expired(c.expires...)
			require.Equal(t, c.want, st.Do(c.do...))
			st.inStep("1")
			require.Equal(t, st.digest(), replica.attachPlain(t).digest())
		})
	}
}

// A thousand jobs in a call allocate nothing in Go.
func TestAThousandToOperate(t *testing.T) {
	st := faulty(t).fresh(t)
	st.Heard = nil
	const n = 1000
	ids := many(n, "JOB%d")
	pass := func() {
		require.Len(t, value(st.Do(good.Menqueue(of(ids, "x")...)...)), n)
		require.Len(t, value(st.Do(good.Mclaim(60000, n)...)), n)
		require.Equal(t, strings.Repeat(integer(2), n), strings.TrimPrefix(st.Do(good.Mfail(1, of(ids, "1", "0", "why")...)...), "*1000\r\n"))
		require.Equal(t, strings.Repeat(integer(1), n), strings.TrimPrefix(st.Do(good.Requeue("dead", ids...)...), "*1000\r\n"))
		require.Equal(t, strings.Repeat(integer(0), n), strings.TrimPrefix(st.Do(good.Requeue("dead", ids...)...), "*1000\r\n"))
		require.Equal(t, strings.Repeat(integer(1), n), strings.TrimPrefix(st.Do(good.Remove("pending", ids...)...), "*1000\r\n"))
		require.Equal(t, integer(2), st.Do("DBSIZE"), "the identity and a counter")
		for range 100 {
			require.Equal(t, "+OK\r\n", st.Do(good.Limit(3, 100, 1000)...))
			require.Equal(t, "+OK\r\n", st.Do(good.Pause(1000)...))
			require.Equal(t, integer(1), st.Do(good.Resume()...))
			require.Equal(t, "+OK\r\n", st.Do(good.Limit(0, 0, 0)...))
		}
	}
	pass()
	at := runtimeOf(st)
	idle := runtimeOf(st)["mallocs"] - at["mallocs"]
	before := runtimeOf(st)
	for range 20 {
		pass()
	}
	after := runtimeOf(st)
	require.Less(t, after["mallocs"]-before["mallocs"]-idle, int64(1000), "allocations in 120,000 decisions")
}
