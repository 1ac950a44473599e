package test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A transition is one command on one store: its reply, and the plain commands that a replica and an append-only file
// receive for it. RUN stands for the server's run_id. The table has one transition for each way of writing; the model
// (emq/test/model) covers when a verb writes which, and what the store holds afterwards.
type transition struct {
	name   string
	given  []string
	args   []string
	want   string
	stream []string
	after  []string // the rows and sets afterwards, as "command => reply"
	broken []string // the damage that stays in the store
}

const (
	zremActive   = "ZREM emq:{q}:active JOB1"
	zremPending  = "ZREM emq:{q}:pending JOB1"
	zremSchedule = "ZREM emq:{q}:schedule JOB1"
	setPending   = "HSET emq:{q}:job:JOB1 state pending"
	delRow       = "DEL emq:{q}:job:JOB1"
	countDone    = "HINCRBY emq:{q}:metrics:completed count 1"
	countDead    = "HINCRBY emq:{q}:metrics:failed count 1"
	rowPending   = "HSET emq:{q}:job:JOB1 state pending attempts 0 payload x"
	rowHeld      = "HSET emq:{q}:job:JOB1 state active attempts 1 payload x lease_epoch e1"
	addPending   = "ZADD emq:{q}:pending 0 JOB1"
	addActive    = "ZADD emq:{q}:active 9000000000000 JOB1"
	addLapsed    = "ZADD emq:{q}:active 7 JOB1"
	addDue       = "ZADD emq:{q}:schedule 7 JOB1"
	rowWaiting   = "HSET emq:{q}:job:JOB1 state scheduled attempts 1 payload x failures 1 last_error why"
	rowLeased    = "HSET emq:{q}:job:JOB1 state active attempts 1 payload x" // by a script: its loss is counted
	noIdentity   = "DEL {emq}:version"
	grantAndKeep = "ZADD emq:{q}:active {now+30000} JOB1"
)

func atomically(lines ...string) []string {
	return slices.Concat([]string{"MULTI"}, lines, []string{"EXEC"})
}

var (
	claim30 = good.Claim(30000)
	fail3   = good.Fail("JOB1", "1", 1000, 3, "it broke")
	done1   = good.Complete("JOB1", "1")
	extend1 = good.Extend("JOB1", "1", 30000)
	promote = good.Promote(10)
	reap3   = good.Reap(3, 10)
	reap1   = good.Reap(1, 10)
)

var transitions = []transition{
	{
		name: "enqueue", args: good.Enqueue("JOB1", "x"), want: integer(1),
		stream: atomically(rowPending, addPending),
	},
	{
		name: "enqueue claims the identity", given: []string{noIdentity}, args: good.Enqueue("JOB1", "x"), want: integer(1),
		stream: atomically("SET {emq}:version echomq:6.0.0 NX", rowPending, addPending),
	},
	{
		name: "enqueue again", given: []string{rowPending, addPending}, args: good.Enqueue("JOB1", "y"), want: integer(0),
	},
	{
		name: "enqueue again without an identity", given: []string{noIdentity, rowPending, addPending},
		args: good.Enqueue("JOB1", "y"), want: integer(0),
		broken: []string{"emq:{q}:: rows without an identity"},
	},
	{
		name: "enqueue of a row that is in no set", given: []string{"HSET emq:{q}:job:JOB1 state odd"},
		args: good.Enqueue("JOB1", "y"), want: integer(0),
		broken: []string{`emq:{q}:job:JOB1: state "odd"`, `emq:{q}:job:JOB1: attempts ""`},
	},
	{
		name: "enqueue of an id that is pending without a row", given: []string{addPending}, args: good.Enqueue("JOB1", "x"), want: integer(1),
		stream: []string{rowPending},
	},
	{
		name: "claim", given: []string{rowPending, addPending}, args: claim30, want: claimed("JOB1", "x", 1),
		stream: atomically(zremPending, "HSET emq:{q}:job:JOB1 state active attempts 1 lease_epoch RUN", grantAndKeep),
	},
	{
		name: "claim again, after a lapse", given: []string{"HSET emq:{q}:job:JOB1 state pending attempts 7 payload x lease_epoch e1 stalled 1", addPending},
		args: claim30, want: claimed("JOB1", "x", 8),
		stream: atomically(zremPending, "HSET emq:{q}:job:JOB1 state active attempts 8 lease_epoch RUN", grantAndKeep),
	},
	{
		name: "claim keeps what it does not know", given: []string{"HSET emq:{q}:job:JOB1 state pending attempts 0 payload x group g parent p progress 7", addPending},
		args: claim30, want: claimed("JOB1", "x", 1),
		stream: atomically(zremPending, "HSET emq:{q}:job:JOB1 state active attempts 1 lease_epoch RUN", grantAndKeep),
		after:  []string{"HMGET emq:{q}:job:JOB1 group parent progress payload => " + array(bulk("g"), bulk("p"), bulk("7"), bulk("x"))},
	},
	{
		name: "claim on an empty queue", args: claim30, want: empty,
	},
	{
		name: "claim without an identity and without a queue", given: []string{noIdentity}, args: claim30, want: empty,
	},
	{
		name: "claim drops an entry without a row", given: []string{addPending}, args: claim30, want: empty,
		stream: []string{zremPending},
	},
	{
		name: "claim drops an entry and takes the next", given: []string{"ZADD emq:{q}:pending 0 JOB0", rowPending, addPending},
		args: claim30, want: claimed("JOB1", "x", 1),
		stream: atomically("ZREM emq:{q}:pending JOB0", zremPending, "HSET emq:{q}:job:JOB1 state active attempts 1 lease_epoch RUN", grantAndKeep),
	},
	{
		name: "claim drops an entry that is no job", given: []string{"ZADD emq:{q}:pending 0 XYZ", "HSET emq:{q}:job:XYZ state pending attempts 0 payload x"},
		args: claim30, want: empty,
		stream: []string{"ZREM emq:{q}:pending XYZ"},
		broken: []string{"emq:{q}:job:XYZ: state pending, in []"},
	},
	{
		name: "claim sends a bad row to dead", given: []string{"HSET emq:{q}:job:JOB1 state pending attempts abc payload x", addPending},
		args: claim30, want: empty,
		stream: atomically(zremPending, "HSET emq:{q}:job:JOB1 state dead last_error BAD", "ZADD emq:{q}:dead 0 JOB1"),
	},
	{
		name: "claim sends a bad row out, with dead of another type", given: []string{"HSET emq:{q}:job:JOB1 state pending attempts abc payload x", addPending, "SET emq:{q}:dead x"},
		args: claim30, want: empty,
		stream: atomically(zremPending, "HSET emq:{q}:job:JOB1 state dead last_error BAD"),
		broken: []string{"emq:{q}:dead: is a string", "emq:{q}:job:JOB1: state dead, in []"},
	},
	{
		name: "claim leaves a row that is active", given: []string{rowHeld, addPending, addActive}, args: claim30, want: empty,
		stream: []string{zremPending},
	},
	{
		name: "complete", given: []string{rowHeld, addActive}, args: done1, want: integer(1),
		stream: atomically(zremActive, delRow, countDone),
	},
	{
		name: "complete of a job that lapsed", given: []string{"HSET emq:{q}:job:JOB1 state pending attempts 1 payload x lease_epoch e1", addPending},
		args: done1, want: integer(1),
		stream: atomically(zremPending, delRow, countDone),
	},
	{
		name: "complete of a job in no set", given: []string{rowHeld}, args: done1, want: integer(1),
		stream: atomically(delRow, countDone),
	},
	{
		name: "complete of a job in two sets", given: []string{rowHeld, addActive, addPending}, args: done1, want: integer(1),
		stream: atomically(zremActive, delRow, countDone),
		broken: []string{"emq:{q}:pending: JOB1 has no row"},
	},
	{
		name: "complete with a counter of another type", given: []string{rowHeld, addActive, "SET emq:{q}:metrics:completed x"}, args: done1, want: integer(1),
		stream: atomically(zremActive, delRow),
		broken: []string{"emq:{q}:metrics:completed: is a string"},
	},
	{
		name: "complete with a full counter", given: []string{rowHeld, addActive, "HSET emq:{q}:metrics:completed count 9223372036854775807"}, args: done1, want: integer(1),
		stream: atomically(zremActive, delRow),
	},
	{
		name: "complete adds to the counter", given: []string{rowHeld, addActive, "HSET emq:{q}:metrics:completed count 41"}, args: done1, want: integer(1),
		stream: atomically(zremActive, delRow, countDone),
		after:  []string{"HGET emq:{q}:metrics:completed count => " + bulk("42")},
	},
	{
		name: "complete of nothing", args: done1, want: integer(0),
	},
	{
		name: "complete of nothing without an identity", given: []string{noIdentity}, args: done1, want: integer(0),
	},
	{
		name: "fail", given: []string{rowHeld, addActive}, args: fail3, want: bulk("scheduled"),
		stream: atomically(zremActive, `HSET emq:{q}:job:JOB1 state scheduled failures 1 last_error "it broke"`, "HDEL emq:{q}:job:JOB1 lease_epoch", "ZADD emq:{q}:schedule {now+1000} JOB1"),
	},
	{
		name: "fail of a job that a script leased", given: []string{"HSET emq:{q}:job:JOB1 state active attempts 1 payload x", addActive}, args: fail3, want: bulk("scheduled"),
		stream: atomically(zremActive, `HSET emq:{q}:job:JOB1 state scheduled failures 1 last_error "it broke"`, "ZADD emq:{q}:schedule {now+1000} JOB1"),
	},
	{
		name: "fail of a job that stalled before", given: []string{rowHeld + " stalled 2 failures 1 last_error old", addActive}, args: fail3, want: bulk("scheduled"),
		stream: atomically(zremActive, `HSET emq:{q}:job:JOB1 state scheduled failures 2 last_error "it broke"`, "HDEL emq:{q}:job:JOB1 lease_epoch stalled", "ZADD emq:{q}:schedule {now+1000} JOB1"),
	},
	{
		name: "fail of a job that lapsed", given: []string{"HSET emq:{q}:job:JOB1 state pending attempts 1 payload x lease_epoch e1", addPending}, args: fail3, want: bulk("scheduled"),
		stream: atomically(zremPending, `HSET emq:{q}:job:JOB1 state scheduled failures 1 last_error "it broke"`, "HDEL emq:{q}:job:JOB1 lease_epoch", "ZADD emq:{q}:schedule {now+1000} JOB1"),
	},
	{
		name: "fail of a job in no set", given: []string{rowHeld}, args: fail3, want: bulk("scheduled"),
		stream: atomically(`HSET emq:{q}:job:JOB1 state scheduled failures 1 last_error "it broke"`, "HDEL emq:{q}:job:JOB1 lease_epoch", "ZADD emq:{q}:schedule {now+1000} JOB1"),
	},
	{
		name: "fail for the last time", given: []string{rowHeld + " failures 2", addActive}, args: fail3, want: bulk("dead"),
		stream: atomically(zremActive, `HSET emq:{q}:job:JOB1 state dead failures 3 last_error "it broke"`, "HDEL emq:{q}:job:JOB1 lease_epoch", "ZADD emq:{q}:dead 0 JOB1", countDead),
		after:  []string{"HGET emq:{q}:metrics:failed count => " + bulk("1")},
	},
	{
		name: "fail keeps what it does not know", given: []string{rowHeld + " progress 50 parent_queue r", addActive}, args: fail3, want: bulk("scheduled"),
		stream: atomically(zremActive, `HSET emq:{q}:job:JOB1 state scheduled failures 1 last_error "it broke"`, "HDEL emq:{q}:job:JOB1 lease_epoch", "ZADD emq:{q}:schedule {now+1000} JOB1"),
		after:  []string{"HMGET emq:{q}:job:JOB1 progress parent_queue payload attempts => " + array(bulk("50"), bulk("r"), bulk("x"), bulk("1"))},
	},
	{
		name: "fail of nothing", args: fail3, want: gone,
	},
	{
		name: "fail of nothing without an identity", given: []string{noIdentity}, args: fail3, want: gone,
	},

	{
		name: "schedule in", args: good.ScheduleIn("JOB1", "x", 1000), want: integer(1),
		stream: atomically("HSET emq:{q}:job:JOB1 state scheduled attempts 0 payload x", "ZADD emq:{q}:schedule {now+1000} JOB1"),
	},
	{
		name: "schedule at", args: good.ScheduleAt("JOB1", "x", 7), want: integer(1),
		stream: atomically("HSET emq:{q}:job:JOB1 state scheduled attempts 0 payload x", addDue),
	},
	{
		name: "schedule at the beginning of time", args: good.ScheduleAt("JOB1", "x", 0), want: integer(1),
		stream: atomically("HSET emq:{q}:job:JOB1 state scheduled attempts 0 payload x", "ZADD emq:{q}:schedule 0 JOB1"),
	},
	{
		name: "schedule claims the identity", given: []string{noIdentity}, args: good.ScheduleAt("JOB1", "x", 7), want: integer(1),
		stream: atomically("SET {emq}:version echomq:6.0.0 NX", "HSET emq:{q}:job:JOB1 state scheduled attempts 0 payload x", addDue),
	},
	{
		name: "schedule again", given: []string{rowPending, addPending}, args: good.ScheduleAt("JOB1", "y", 7), want: integer(0),
	},
	{
		name: "schedule again without an identity", given: []string{noIdentity, rowPending, addPending},
		args: good.ScheduleAt("JOB1", "y", 7), want: integer(0),
		broken: []string{"emq:{q}:: rows without an identity"},
	},
	{
		name: "schedule of an id that is scheduled without a row", given: []string{addDue}, args: good.ScheduleIn("JOB1", "x", 1000), want: integer(1),
		stream: atomically("HSET emq:{q}:job:JOB1 state scheduled attempts 0 payload x", "ZADD emq:{q}:schedule {now+1000} JOB1"),
	},
	{
		name: "schedule of an id that is scheduled for that time without a row", given: []string{addDue}, args: good.ScheduleAt("JOB1", "x", 7), want: integer(1),
		stream: []string{"HSET emq:{q}:job:JOB1 state scheduled attempts 0 payload x"},
	},

	{
		name: "extend", given: []string{rowHeld, addActive}, args: extend1, want: integer(1),
		stream: atomically("HSET emq:{q}:job:JOB1 lease_epoch RUN", grantAndKeep),
	},
	{
		name: "extend of a lease that is over", given: []string{rowHeld, addLapsed}, args: extend1, want: integer(1),
		stream: atomically("HSET emq:{q}:job:JOB1 lease_epoch RUN", grantAndKeep),
	},
	{
		name: "extend of a job that a script leased", given: []string{rowLeased, addActive}, args: extend1, want: integer(1),
		stream: atomically("HSET emq:{q}:job:JOB1 lease_epoch RUN", grantAndKeep),
	},
	{
		name: "extend keeps what it does not know", given: []string{rowHeld + " stalled 2 failures 1 progress 50", addActive}, args: extend1, want: integer(1),
		stream: atomically("HSET emq:{q}:job:JOB1 lease_epoch RUN", grantAndKeep),
		after: []string{"HMGET emq:{q}:job:JOB1 state attempts payload stalled failures progress => " +
			array(bulk("active"), bulk("1"), bulk("x"), bulk("2"), bulk("1"), bulk("50"))},
	},
	{
		name: "extend of nothing", args: extend1, want: integer(-1),
	},
	{
		name: "extend of nothing that is active", given: []string{addActive}, args: extend1, want: integer(-1),
		broken: []string{"emq:{q}:active: JOB1 has no row"},
	},
	{
		name: "extend of nothing without an identity", given: []string{noIdentity}, args: extend1, want: integer(-1),
	},
	{
		name: "extend of a job that lapsed", given: []string{"HSET emq:{q}:job:JOB1 state pending attempts 1 payload x lease_epoch e1", addPending},
		args: extend1, want: stale("extend"),
	},

	{
		name: "promote", given: []string{rowWaiting, addDue}, args: promote, want: integer(1),
		stream: atomically(zremSchedule, setPending, addPending),
		after:  []string{"HMGET emq:{q}:job:JOB1 attempts failures last_error payload => " + array(bulk("1"), bulk("1"), bulk("why"), bulk("x"))},
	},
	{
		name: "promote of several is one unit, and sets come last",
		given: []string{rowWaiting, addDue, "HSET emq:{q}:job:JOB2 state scheduled attempts 0", "HSET emq:{q}:job:JOB3 state scheduled attempts 0",
			"ZADD emq:{q}:schedule 8 JOB3 6 JOB2 5 JOB0 9000000000000 JOB4", "HSET emq:{q}:job:JOB4 state scheduled attempts 0"},
		args: promote, want: integer(3),
		stream: atomically("ZREM emq:{q}:schedule JOB0", "ZREM emq:{q}:schedule JOB2", "HSET emq:{q}:job:JOB2 state pending", zremSchedule, setPending,
			"ZREM emq:{q}:schedule JOB3", "HSET emq:{q}:job:JOB3 state pending",
			"ZADD emq:{q}:pending 0 JOB2", addPending, "ZADD emq:{q}:pending 0 JOB3"),
	},
	{
		name: "promote beside what is pending", given: []string{rowWaiting, addDue, "HSET emq:{q}:job:JOB0 state pending attempts 0", "ZADD emq:{q}:pending 0 JOB0"},
		args: promote, want: integer(1),
		stream: atomically(zremSchedule, setPending, addPending),
	},
	{
		name: "promote of a job that is in pending already", given: []string{rowWaiting, addDue, addPending}, args: promote, want: integer(1),
		stream: atomically(zremSchedule, setPending),
	},
	{
		name: "promote drops an entry without a row", given: []string{addDue}, args: promote, want: integer(0),
		stream: []string{zremSchedule},
	},
	{
		name: "promote leaves a lane's row", given: []string{rowWaiting + " group g", addDue}, args: promote, want: integer(0),
	},
	{
		name: "promote leaves what is not due", given: []string{rowWaiting, "ZADD emq:{q}:schedule 9000000000000 JOB1"}, args: promote, want: integer(0),
	},
	{
		name: "promote of nothing", args: promote, want: integer(0),
	},
	{
		name: "promote of nothing without an identity", given: []string{noIdentity}, args: promote, want: integer(0),
	},

	{
		name: "reap of another server's lease", given: []string{rowHeld + " stalled 2", addLapsed}, args: reap3, want: reaped([]string{"JOB1"}, nil),
		stream: atomically(zremActive, setPending, addPending),
		after:  []string{"HMGET emq:{q}:job:JOB1 attempts lease_epoch stalled => " + array(bulk("1"), bulk("e1"), bulk("2"))},
	},
	{
		name: "reap", given: []string{rowLeased, addLapsed}, args: reap3, want: reaped([]string{"JOB1"}, nil),
		stream: atomically(zremActive, "HSET emq:{q}:job:JOB1 state pending stalled 1", addPending),
	},
	{
		name: "reap at the cap", given: []string{rowLeased + " stalled 2 failures 1 last_error why", addLapsed}, args: reap3, want: reaped(nil, []string{"JOB1"}),
		stream: atomically(zremActive, "HSET emq:{q}:job:JOB1 state dead stalled 3 last_error stalled", "ZADD emq:{q}:dead 0 JOB1", countDead),
		after:  []string{"HMGET emq:{q}:job:JOB1 attempts failures => " + array(bulk("1"), bulk("1")), "HGET emq:{q}:metrics:failed count => " + bulk("1")},
	},
	{
		name: "reap at the cap with a counter of another type", given: []string{rowLeased, addLapsed, "SET emq:{q}:metrics:failed x"},
		args: reap1, want: reaped(nil, []string{"JOB1"}),
		stream: atomically(zremActive, "HSET emq:{q}:job:JOB1 state dead stalled 1 last_error stalled", "ZADD emq:{q}:dead 0 JOB1"),
		broken: []string{"emq:{q}:metrics:failed: is a string"},
	},
	{
		name: "reap at the cap with dead of another type", given: []string{rowLeased, addLapsed, "SET emq:{q}:dead x"},
		args: reap1, want: reaped([]string{"JOB1"}, nil),
		stream: atomically(zremActive, "HSET emq:{q}:job:JOB1 state pending stalled 1", addPending),
		broken: []string{"emq:{q}:dead: is a string"},
	},
	{
		name: "reap leaves a lane's row", given: []string{rowLeased + " group g", addLapsed}, args: reap1, want: reaped(nil, nil),
	},
	{
		name: "reap drops an entry without a row", given: []string{addLapsed}, args: reap1, want: reaped(nil, nil),
		stream: []string{zremActive},
	},
	{
		name: "reap drops the entry of a row that is scheduled", given: []string{rowWaiting, addDue, addLapsed}, args: reap1, want: reaped(nil, nil),
		stream: []string{zremActive},
	},
	{
		name: "reap of several is one unit, and sets and counters come last",
		given: []string{rowLeased + " stalled 2", addLapsed, "HSET emq:{q}:job:JOB2 state active attempts 1 lease_epoch e", "HSET emq:{q}:job:JOB3 state active attempts 1 stalled 5",
			"HSET emq:{q}:job:JOB4 state active attempts 1", "HSET emq:{q}:job:JOB6 state active attempts 1 group g",
			"ZADD emq:{q}:active 9 JOB2 8 JOB3 6 JOB4 5 JOB5 7 JOB6"},
		args: reap3, want: reaped([]string{"JOB4", "JOB2"}, []string{"JOB1", "JOB3"}),
		stream: atomically("ZREM emq:{q}:active JOB5", "ZREM emq:{q}:active JOB4", "HSET emq:{q}:job:JOB4 state pending stalled 1",
			zremActive, "HSET emq:{q}:job:JOB1 state dead stalled 3 last_error stalled",
			"ZREM emq:{q}:active JOB3", "HSET emq:{q}:job:JOB3 state dead stalled 6 last_error stalled",
			"ZREM emq:{q}:active JOB2", "HSET emq:{q}:job:JOB2 state pending",
			"ZADD emq:{q}:pending 0 JOB4", "ZADD emq:{q}:dead 0 JOB1", countDead, "ZADD emq:{q}:dead 0 JOB3", countDead, "ZADD emq:{q}:pending 0 JOB2"),
		after: []string{"HGET emq:{q}:metrics:failed count => " + bulk("2")},
	},
	{
		name: "reap leaves what has time", given: []string{rowHeld, addActive}, args: reap1, want: reaped(nil, nil),
	},
	{
		name: "reap of nothing", args: reap1, want: reaped(nil, nil),
	},
	{
		name: "reap of nothing without an identity", given: []string{noIdentity}, args: reap1, want: reaped(nil, nil),
	},
}

// finding is one finding in the reply of AUDIT.
func finding(what, id, where, remedy string, applied int64) string {
	return array(bulk(what), bulk(id), bulk(where), bulk(remedy), integer(applied))
}

func init() {
	const row = "HSET emq:{q}:job:JOB1 "
	found := func(next string, findings ...string) string { return array(bulk(next), array(findings...)) }
	fixed := func(what, where, remedy string) string { return finding(what, "JOB1", where, remedy, 1) }
	pending, active, schedule, dead, rows := good.Fix("0", 100), good.Fix("active:0", 100), good.Fix("schedule:0", 100), good.Fix("dead:0", 100), good.Fix("rows:0", 1000)
	transitions = append(transitions,
		transition{name: "stats", given: []string{rowHeld, addActive}, args: good.Stats(), want: figures(0, 1, 0, 0, 0, 0, "", "", "9000000000000")},
		transition{
			name: "audit without FIX", given: []string{addPending}, args: good.Audit("0", 100),
			want: found("active:0", finding("no-row", "JOB1", "pending", "drop", 0)), broken: []string{"emq:{q}:pending: JOB1 has no row"},
		},
		transition{name: "audit of what is right", given: []string{rowHeld, addActive}, args: active, want: found("schedule:0")},
		transition{
			name: "audit drops an entry without a row", given: []string{addPending}, args: pending,
			want: found("active:0", fixed("no-row", "pending", "drop")), stream: []string{zremPending},
		},
		transition{
			name: "audit drops all of them", given: []string{"ZADD emq:{q}:dead 0 JOB1 0 JOB2 0 XYZ"}, args: dead,
			want:   found("rows:0", fixed("no-row", "dead", "drop"), finding("no-row", "JOB2", "dead", "drop", 1), finding("no-job", "XYZ", "dead", "drop", 1)),
			stream: atomically("ZREM emq:{q}:dead JOB1", "ZREM emq:{q}:dead JOB2", "ZREM emq:{q}:dead XYZ"),
		},
		transition{
			name: "audit leaves a lane's row", given: []string{rowHeld + " group g", addPending}, args: pending, want: found("active:0"),
			broken: []string{"emq:{q}:job:JOB1: state active, in [pending]"},
		},
		transition{
			name: "audit takes a leftover out", given: []string{rowHeld, addActive, addPending}, args: pending,
			want: found("active:0", fixed("two-sets", "pending", "active")), stream: []string{zremPending},
		},
		transition{
			name: "audit takes all leftovers out", given: []string{rowHeld, addActive, addPending, "ZADD emq:{q}:dead 0 JOB1", "ZADD emq:{q}:schedule 5 JOB1"}, args: schedule,
			want:   found("dead:0", fixed("two-sets", "schedule", "active")),
			stream: atomically(zremPending, "ZREM emq:{q}:schedule JOB1", "ZREM emq:{q}:dead JOB1"),
		},
		transition{
			name: "audit has the state say where the job is", given: []string{row + "state dead attempts 1", addPending}, args: pending,
			want: found("active:0", fixed("state", "pending", "pending")), stream: []string{row + "state pending"},
		},
		transition{
			name: "audit gives a holder its job back", given: []string{rowHeld, "ZADD emq:{q}:dead 0 JOB1"}, args: dead,
			want: found("rows:0", fixed("state", "dead", "active")), stream: atomically("ZREM emq:{q}:dead JOB1", row+"lease_epoch audit", "ZADD emq:{q}:active {now+0} JOB1"),
		},
		transition{
			name: "audit returns what was given back", given: []string{row + "state scheduled attempts 1", addActive}, args: active,
			want: found("schedule:0", fixed("state", "active", "pending")), stream: atomically(zremActive, row+"state pending", addPending),
		},
		transition{
			name: "audit sends a bad row to dead", given: []string{row + "state active attempts x", addActive}, args: active,
			want: found("schedule:0", fixed("attempts", "active", "dead")), stream: atomically(zremActive, row+"state dead last_error BAD", "ZADD emq:{q}:dead 0 JOB1"),
		},
		transition{
			name: "audit finds a row in no set", given: []string{rowPending}, args: rows,
			want: found("0", fixed("no-set", "rows", "pending")), stream: []string{addPending},
		},
		transition{
			name: "audit finds an active row in no set", given: []string{rowHeld}, args: rows,
			want: found("0", fixed("no-set", "rows", "active")), stream: atomically(row+"lease_epoch audit", "ZADD emq:{q}:active {now+0} JOB1"),
		},
		transition{
			name: "audit leaves a state that it does not know", given: []string{row + "state waiting attempts 0"}, args: rows,
			want: found("0", finding("no-set", "JOB1", "rows", "leave", 0)), broken: []string{`emq:{q}:job:JOB1: state "waiting"`},
		},
	)
}

// TestEffects runs every branch of every verb and compares the transaction that a replica received, word by word.
// Exactly the keys that changed must fail a WATCH and be invalidated in client caches. Then it sets the store up again
// and runs what the replica received as plain commands, which must lead to the same store and the same keyspace events.
func TestEffects(t *testing.T) {
	s := witnessed(t)
	for _, tr := range transitions {
		t.Run(tr.name, func(t *testing.T) {
			st := s.fresh(t)
			o, plain := tr.run(st)
			st.streamed(o, st.countedLast(tr.stream))
			require.Equal(t, plain.changed, o.changed)
			require.Equal(t, without("new", plain.events), without("new", o.events), "the keyspace events of the plain commands")
			require.Equal(t, byKey(plain.events), byKey(o.events), "each key's events, its creation among them")
		})
	}
}

// run makes the transition and then, on a store that is set up again, runs the plain commands that a replica received
// for it. Both must lead to the same store.
func (tr transition) run(st *fixture) (o, plain observed) {
	st.t.Helper()
	st.damaged(tr.broken...)
	st.Must(tr.given...)
	o = st.effects(tr.want, tr.args...)
	for _, line := range tr.after {
		command, reply, _ := strings.Cut(line, " => ")
		st.reply(reply, command)
	}
	st.Must("FLUSHALL", "SET {emq}:version "+wire6)
	st.Must(tr.given...)
	plain = st.observe(func() {
		for _, line := range o.stream {
			st.Must(line)
		}
	}, family(tr.args)...)
	require.Equal(st.t, plain.digest[1], o.digest[1], "the store that the plain commands lead to")
	return o, plain
}

// A subscriber may ask for one class of events only; each event must be of its plain command's class.
func TestEventClasses(t *testing.T) {
	s := witnessed(t)
	seen := 0
	for _, class := range []string{"g", "$", "h", "z", "n"} {
		for _, tr := range transitions {
			t.Run(class+"/"+tr.name, func(t *testing.T) {
				st := s.fresh(t)
				st.Must("CONFIG SET notify-keyspace-events E" + class)
				o, plain := tr.run(st)
				require.Equal(t, plain.events, o.events)
				seen += len(o.events)
			})
		}
	}
	require.Greater(t, seen, 100, "events were seen at all")
}

// without returns the events of other kinds. The server itself announces a new key at once; the other events are sent when a
// command is done.
func without(kind string, events []string) []string {
	return slices.DeleteFunc(slices.Clone(events), func(e string) bool { return strings.HasPrefix(e, kind+" ") })
}

func byKey(events []string) map[string][]string {
	keys := map[string][]string{}
	for _, e := range events {
		event, key, _ := strings.Cut(e, " ")
		keys[key] = append(keys[key], event)
	}
	return keys
}

// countedLast is the stream of one verb from a server on which fields can expire: there HINCRBY comes last.
func (st *fixture) countedLast(stream []string) []string {
	st.t.Helper()
	if main, _, _ := strings.Cut(st.Info("valkey_version"), "."); main == "8" {
		return stream
	}
	place := func(line string) int {
		switch {
		case line == "EXEC":
			return 2
		case strings.HasPrefix(line, "HINCRBY "):
			return 1
		}
		return 0
	}
	return slices.SortedStableFunc(slices.Values(stream), func(a, b string) int { return place(a) - place(b) })
}

// streamed asserts what a replica received. Words that only the server knows are filled in first: its run_id, and the
// text for a bad row.
func (st *fixture) streamed(o observed, want []string) {
	st.t.Helper()
	run := st.Info("run_id")
	lines := make([]string, len(want))
	for i, line := range want {
		line = strings.ReplaceAll(line, "RUN", run)
		if strings.HasSuffix(line, " BAD") {
			// The wire does not fix this text; it is taken from the row.
			reason := st.row(good, "JOB1")["last_error"]
			require.Contains(st.t, reason, "attempts", "the reason for a bad row")
			line = strings.TrimSuffix(line, "BAD") + show([]string{reason})
		}
		lines[i] = line
	}
	o.streamed(st.t, lines...)
}

// The replication stream of a whole life. TestCheckOrder asserts that a refusal leaves no trace.
func TestStreamOfALife(t *testing.T) {
	s := witnessed(t)
	st := s.bare(t)
	o := st.observe(func() {
		st.reply(integer(1), "EMQ.ENQUEUE 2 emq:{q}:job:JOB1 emq:{q}:pending JOB1 x")
		st.reply(claimed("JOB1", "x", 1), "EMQ.CLAIM 2 emq:{q}:pending emq:{q}:active emq:{q}:job: 30000")
		st.reply(integer(1), "EMQ.COMPLETE 2 emq:{q}:active emq:{q}:job:JOB1 JOB1 1 emq:{q}:")
	})
	st.streamed(o, slices.Concat(
		atomically("SET {emq}:version echomq:6.0.0 NX", rowPending, addPending),
		atomically(zremPending, "HSET emq:{q}:job:JOB1 state active attempts 1 lease_epoch RUN", grantAndKeep),
		atomically(zremActive, delRow, countDone),
	))
	for _, line := range o.stream {
		require.NotContains(t, strings.ToUpper(line), "EMQ.", "a verb in the stream")
	}
	require.Equal(t, union([]string{identity, good.Completed()}, nil), union(st.keys(), nil))
}
