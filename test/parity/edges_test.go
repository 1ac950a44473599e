package parity

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

const q = wire.Queue("q")

// Commands that bring JOB1 of q to a state by the verbs themselves, on either side.
var (
	pending   = []string{wire.Line(q.Enqueue("JOB1", "x"))}
	active    = append(pending[:1:1], wire.Line(q.Claim(30_000)))
	scheduled = append(active[:2:2], wire.Line(q.Fail("JOB1", "1", 60_000, 9, "why")))
	dead      = append(active[:2:2], wire.Line(q.Fail("JOB1", "1", 0, 1, "why")))
	promoted  = append(scheduled[:3:3], moved("scheduled", "pending")...)
	relapsed  = append(active[:2:2], append(moved("active", "pending"), active[1])...) // claimed twice, never failed
)

func moved(from, to string) (lines []string) {
	for _, args := range q.Move("JOB1", from, to) {
		lines = append(lines, wire.Line(args))
	}
	return lines
}

// edge is a call on which the executors differ by design. What each leaves is given in the words of the keyspace check,
// and by the reply to one further command; replies are given by their beginning. A native refusal always leaves
// everything unchanged.
type edge struct {
	name  string
	given []string
	call  []string
	look  string // a command to look with afterwards
	script,
	native outcome
}

type outcome struct {
	reply  string
	leaves []string // the damage afterwards
	look   string
}

const luaError = "-ERR user_script:"

// TestEdges shows, for each edge, what the script leaves behind and what the native verb replies.
func TestEdges(t *testing.T) {
	server := store.Serve(t)
	for _, e := range []edge{
		// A job without a holder: the token still equals attempts, so the scripts settle it again.
		{
			"COMPLETE of a job that waits for its retry", scheduled, q.Complete("JOB1", "1"), "EXISTS emq:{q}:job:JOB1",
			outcome{":1", []string{"emq:{q}:schedule: JOB1 has no row"}, ":0"},
			outcome{wire.Stale("complete"), nil, ":1"},
		}, {
			"FAIL of a job that waits for its retry", scheduled, q.Fail("JOB1", "1", 0, 1, "again"),
			"HGET emq:{q}:job:JOB1 last_error",
			outcome{wire.Bulk("dead"), []string{"emq:{q}:job:JOB1: state dead, in [dead schedule]"}, wire.Bulk("again")},
			outcome{wire.Stale("retry"), nil, wire.Bulk("why")},
		}, {
			"COMPLETE of a dead job", dead, q.Complete("JOB1", "1"), "EXISTS emq:{q}:job:JOB1",
			outcome{":1", []string{"emq:{q}:dead: JOB1 has no row"}, ":0"},
			outcome{wire.Stale("complete"), nil, ":1"},
		}, {
			"FAIL of a dead job below a greater cap", dead, q.Fail("JOB1", "1", 0, 9, "again"), "HGET emq:{q}:job:JOB1 state",
			outcome{wire.Bulk("scheduled"), []string{"emq:{q}:job:JOB1: state scheduled, in [dead schedule]"}, wire.Bulk("scheduled")},
			outcome{wire.Stale("retry"), nil, wire.Bulk("dead")},
		}, {
			"FAIL of a dead job", dead, q.Fail("JOB1", "1", 0, 1, "again"), "HGET emq:{q}:metrics:failed count",
			outcome{wire.Bulk("dead"), nil, wire.Bulk("2")},
			outcome{wire.Stale("retry"), nil, wire.Bulk("1")},
		}, {
			"COMPLETE after the retry was promoted", promoted, q.Complete("JOB1", "1"), "EXISTS emq:{q}:job:JOB1",
			outcome{":1", nil, ":0"},
			outcome{wire.Stale("complete"), nil, ":1"},
		}, {
			"FAIL after the retry was promoted", promoted, q.Fail("JOB1", "1", 0, 1, "again"), "HGET emq:{q}:job:JOB1 state",
			outcome{wire.Bulk("dead"), nil, wire.Bulk("dead")},
			outcome{wire.Stale("retry"), nil, wire.Bulk("pending")},
		}, {
			"COMPLETE of a job that was never claimed", pending, q.Complete("JOB1", "0"), "EXISTS emq:{q}:job:JOB1",
			outcome{":1", nil, ":0"},
			outcome{wire.Stale("complete"), nil, ":1"},
		}, {
			"FAIL of a job that was never claimed", pending, q.Fail("JOB1", "0", 0, 9, "why"), "HGET emq:{q}:job:JOB1 state",
			outcome{wire.Bulk("scheduled"), nil, wire.Bulk("scheduled")},
			outcome{wire.Stale("retry"), nil, wire.Bulk("pending")},
		},

		// An invalid number: the scripts notice it after they have removed the job.
		{
			"CLAIM for a lease that is no number", pending, wire.With(q.Claim(1), 5, "soon"), "HGET emq:{q}:job:JOB1 attempts",
			outcome{luaError, []string{"emq:{q}:job:JOB1: state active, in []"}, wire.Bulk("1")},
			outcome{"-ERR lease_ms must be an integer", nil, wire.Bulk("0")},
		}, {
			"CLAIM for a lease that Lua takes for a number", pending, wire.With(q.Claim(1), 5, "-0x10"),
			"HGET emq:{q}:job:JOB1 state",
			outcome{wire.Claimed("JOB1", "x", 1), nil, wire.Bulk("active")},
			outcome{"-ERR lease_ms must be an integer", nil, wire.Bulk("pending")},
		}, {
			"FAIL with a cap that is no number", active, wire.With(q.Fail("JOB1", "1", 0, 1, "why"), 9, "many"),
			"HGET emq:{q}:job:JOB1 state",
			outcome{luaError, []string{"emq:{q}:job:JOB1: state active, in []"}, wire.Bulk("active")},
			outcome{"-ERR max must be an integer", nil, wire.Bulk("active")},
		}, {
			"FAIL with a delay that is no number", active, wire.With(q.Fail("JOB1", "1", 0, 9, "why"), 8, "later"),
			"HGET emq:{q}:job:JOB1 state",
			outcome{luaError, []string{"emq:{q}:job:JOB1: state scheduled, in []"}, wire.Bulk("scheduled")},
			outcome{"-ERR delay_ms must be an integer", nil, wire.Bulk("active")},
		},

		// A key of the wrong type, which the scripts notice half-way.
		{
			"ENQUEUE, pending is no sorted set", []string{"SET emq:{q}:pending x"}, q.Enqueue("JOB1", "x"),
			"EXISTS emq:{q}:job:JOB1",
			outcome{"-WRONGTYPE ", []string{"emq:{q}:job:JOB1: state pending, in []", "emq:{q}:pending: is a string"}, ":1"},
			outcome{wire.WrongType, []string{"emq:{q}:pending: is a string"}, ":0"},
		}, {
			"CLAIM, active is no sorted set", with(pending, "SET emq:{q}:active x"), q.Claim(30_000), "ZCARD emq:{q}:pending",
			outcome{"-WRONGTYPE ", []string{"emq:{q}:active: is a string", "emq:{q}:job:JOB1: state active, in []"}, ":0"},
			outcome{wire.WrongType, []string{"emq:{q}:active: is a string"}, ":1"},
		}, {
			"CLAIM, the row is no hash", with(pending, "SET emq:{q}:job:JOB1 x", wire.Line(q.Enqueue("JOB2", "y"))), q.Claim(30_000),
			"ZCARD emq:{q}:pending",
			outcome{"-WRONGTYPE ", []string{"emq:{q}:job:JOB1: is a string"}, ":1"},
			outcome{wire.Claimed("JOB2", "y", 1), []string{"emq:{q}:job:JOB1: is a string"}, ":0"},
		}, {
			"FAIL, schedule is no sorted set", with(active, "SET emq:{q}:schedule x"), q.Fail("JOB1", "1", 0, 9, "why"),
			"ZCARD emq:{q}:active",
			outcome{"-WRONGTYPE ", []string{"emq:{q}:job:JOB1: state scheduled, in []", "emq:{q}:schedule: is a string"}, ":0"},
			outcome{wire.WrongType, []string{"emq:{q}:schedule: is a string"}, ":1"},
		}, {
			"FAIL, dead is no sorted set", with(active, "SET emq:{q}:dead x"), q.Fail("JOB1", "1", 0, 1, "why"),
			"ZCARD emq:{q}:active",
			outcome{"-WRONGTYPE ", []string{"emq:{q}:dead: is a string", "emq:{q}:job:JOB1: state dead, in []"}, ":0"},
			outcome{wire.WrongType, []string{"emq:{q}:dead: is a string"}, ":1"},
		}, {
			"COMPLETE, the counter is no hash", with(active, "SET emq:{q}:metrics:completed x"), q.Complete("JOB1", "1"),
			"EXISTS emq:{q}:job:JOB1",
			outcome{"-WRONGTYPE ", []string{"emq:{q}:metrics:completed: is a string"}, ":0"},
			outcome{":1", []string{"emq:{q}:metrics:completed: is a string"}, ":0"},
		}, {
			"FAIL, the counter is no integer", with(active, "HSET emq:{q}:metrics:failed count x"), q.Fail("JOB1", "1", 0, 1, "why"),
			"ZCARD emq:{q}:dead",
			outcome{"-ERR hash value is not an integer", []string{"emq:{q}:metrics:failed: map[count:x]"}, ":1"},
			outcome{wire.Bulk("dead"), []string{"emq:{q}:metrics:failed: map[count:x]"}, ":1"},
		},

		// A broken entry.
		{
			"CLAIM of an entry without a row", []string{"ZADD emq:{q}:pending 0 JOB1"}, q.Claim(30_000),
			"HKEYS emq:{q}:job:JOB1",
			outcome{wire.Array(wire.Bulk("JOB1"), wire.Nil, wire.Integer(1)), nil, wire.Array(wire.Bulk("attempts"), wire.Bulk("state"))},
			outcome{wire.Empty, nil, wire.Empty},
		}, {
			"CLAIM of an entry that is of no job", []string{"ZADD emq:{q}:pending 0 GRP1"}, q.Claim(30_000),
			"EXISTS emq:{q}:job:GRP1",
			outcome{wire.Array(wire.Bulk("GRP1"), wire.Nil, wire.Integer(1)), nil, ":1"},
			outcome{wire.Empty, nil, ":0"},
		}, {
			"CLAIM of an entry whose job another holds", with(active, "ZADD emq:{q}:pending 0 JOB1"), q.Claim(30_000),
			"HGET emq:{q}:job:JOB1 attempts",
			outcome{wire.Claimed("JOB1", "x", 2), nil, wire.Bulk("2")},
			outcome{wire.Empty, nil, wire.Bulk("1")},
		}, {
			"CLAIM, attempts is no number", with(pending, "HSET emq:{q}:job:JOB1 attempts many"), q.Claim(30_000),
			"HGET emq:{q}:job:JOB1 state",
			outcome{"-ERR hash value is not an integer", []string{`emq:{q}:job:JOB1: attempts "many"`, "emq:{q}:job:JOB1: state pending, in []"}, wire.Bulk("pending")},
			outcome{wire.Empty, nil, wire.Bulk("dead")},
		}, {
			"CLAIM, no attempts", with(pending, "HDEL emq:{q}:job:JOB1 attempts"), q.Claim(30_000),
			"HGET emq:{q}:job:JOB1 state",
			outcome{wire.Claimed("JOB1", "x", 1), nil, wire.Bulk("active")},
			outcome{wire.Empty, nil, wire.Bulk("dead")},
		},

		// Fields that wire 6 added, and rows that belong to other scripts.
		{
			"FAIL after a lost lease", relapsed, q.Fail("JOB1", "2", 0, 2, "why"), "HGET emq:{q}:job:JOB1 state",
			outcome{wire.Bulk("dead"), nil, wire.Bulk("dead")},
			outcome{wire.Bulk("scheduled"), nil, wire.Bulk("scheduled")},
		}, {
			"COMPLETE of a lane's job", with(active, "HSET emq:{q}:job:JOB1 group g"), q.Complete("JOB1", "1"),
			"EXISTS emq:{q}:job:JOB1",
			outcome{":1", nil, ":0"},
			outcome{"-EMQSCRIPT ", nil, ":1"},
		}, {
			"ENQUEUE into the pending of another queue", nil, wire.With(q.Enqueue("JOB1", "x"), 3, "emq:{r}:pending"),
			"EXISTS emq:{q}:job:JOB1",
			outcome{":1", []string{"emq:{q}:job:JOB1: state pending, in []", "emq:{r}:pending: JOB1 has no row"}, ":1"},
			outcome{"-EMQKEY pending must be ", nil, ":0"},
		},
	} {
		t.Run(e.name, func(t *testing.T) { e.show(t, open(t, server)) })
	}
}

// TestAddedEdges shows the edges of the verbs that wire 6 added. Their scripts treat broken stores as the native verbs
// do, but do not check the identity, the names of keys and the syntax of numbers, which the caller must.
func TestAddedEdges(t *testing.T) {
	server := store.Serve(t)
	lapsed := with(active, "ZADD emq:{q}:active 1 JOB1")
	due := with(scheduled, "ZADD emq:{q}:schedule 1 JOB1")
	extend := q.Extend("JOB1", "1", 30_000)
	for _, e := range []edge{
		{
			"SCHEDULE neither at nor in", pending, wire.With(q.ScheduleIn("JOB2", "y", 0), 6, "AT"), "EXISTS emq:{q}:job:JOB2",
			outcome{luaError, nil, ":0"},
			outcome{"-ERR mode must be ", nil, ":0"},
		}, {
			"SCHEDULE at no number", pending, wire.With(q.ScheduleAt("JOB2", "y", 0), 7, "soon"), "EXISTS emq:{q}:job:JOB2",
			outcome{luaError, nil, ":0"},
			outcome{"-ERR ms must be an integer", nil, ":0"},
		}, {
			"SCHEDULE at what Lua takes for a number", pending, wire.With(q.ScheduleAt("JOB2", "y", 0), 7, "-0x10"),
			"ZSCORE emq:{q}:schedule JOB2",
			outcome{":1", []string{"emq:{q}:schedule: JOB2 has the score -16"}, wire.Bulk("-16")},
			outcome{"-ERR ms must be an integer", nil, wire.Nil},
		}, {
			"SCHEDULE where nobody claimed the store", []string{"DEL " + wire.Identity}, q.ScheduleAt("JOB1", "x", 5),
			"GET " + wire.Identity,
			outcome{":1", []string{"emq:{q}:: rows without an identity"}, wire.Nil},
			outcome{":1", nil, wire.Bulk(wire.Wire6)},
		}, {
			"SCHEDULE in another's store", []string{"SET " + wire.Identity + " x"}, q.ScheduleAt("JOB1", "x", 5),
			"EXISTS emq:{q}:job:JOB1",
			outcome{":1", []string{"emq:{q}:: rows under another identity"}, ":1"},
			outcome{"-EMQFENCE ", nil, ":0"},
		}, {
			"SCHEDULE into the schedule of another queue", nil, wire.With(q.ScheduleAt("JOB1", "x", 5), 3, "emq:{r}:schedule"),
			"EXISTS emq:{q}:job:JOB1",
			outcome{":1", []string{"emq:{q}:job:JOB1: state scheduled, in []", "emq:{r}:schedule: JOB1 has no row"}, ":1"},
			outcome{"-EMQKEY schedule must be ", nil, ":0"},
		},

		{
			"EXTEND for a lease that is no number", lapsed, wire.With(extend, 6, "long"), "ZSCORE emq:{q}:active JOB1",
			outcome{luaError, nil, wire.Bulk("1")},
			outcome{"-ERR lease_ms must be an integer", nil, wire.Bulk("1")},
		}, {
			"EXTEND for no time", active, wire.With(extend, 6, "0"), "HGET emq:{q}:job:JOB1 state",
			outcome{":1", nil, wire.Bulk("active")},
			outcome{"-ERR lease_ms must be an integer", nil, wire.Bulk("active")},
		}, {
			"EXTEND in another's store", with(lapsed, "SET "+wire.Identity+" x"), extend, "HGET emq:{q}:job:JOB1 state",
			outcome{":1", []string{"emq:{q}:: rows under another identity"}, wire.Bulk("active")},
			outcome{"-EMQFENCE ", []string{"emq:{q}:: rows under another identity"}, wire.Bulk("active")},
		}, {
			"EXTEND where nobody claimed the store", with(lapsed, "DEL "+wire.Identity), extend, "HGET emq:{q}:job:JOB1 state",
			outcome{":1", []string{"emq:{q}:: rows without an identity"}, wire.Bulk("active")},
			outcome{"-EMQFENCE ", []string{"emq:{q}:: rows without an identity"}, wire.Bulk("active")},
		}, {
			"EXTEND of the row of another queue", with(lapsed, "HSET emq:{r}:job:JOB1 state active attempts 1"),
			wire.With(extend, 3, "emq:{r}:job:JOB1"), "HEXISTS emq:{r}:job:JOB1 lease_epoch",
			outcome{":1", []string{"emq:{r}:job:JOB1: state active, in []"}, ":1"},
			outcome{"-EMQKEY row must be ", []string{"emq:{r}:job:JOB1: state active, in []"}, ":0"},
		},

		{
			"PROMOTE of none", due, q.Promote(0), "ZCARD emq:{q}:schedule",
			outcome{":0", nil, ":1"},
			outcome{"-ERR limit must be an integer", nil, ":1"},
		}, {
			"PROMOTE of less than none", due, q.Promote(-1), "ZCARD emq:{q}:schedule",
			outcome{":1", nil, ":0"},
			outcome{"-ERR limit must be an integer", nil, ":1"},
		}, {
			"PROMOTE in another's store", with(due, "SET "+wire.Identity+" x"), q.Promote(9), "ZCARD emq:{q}:schedule",
			outcome{":1", []string{"emq:{q}:: rows under another identity"}, ":0"},
			outcome{"-EMQFENCE ", []string{"emq:{q}:: rows under another identity"}, ":1"},
		}, {
			"PROMOTE where nobody claimed the store", with(due, "DEL "+wire.Identity), q.Promote(9), "ZCARD emq:{q}:schedule",
			outcome{":1", []string{"emq:{q}:: rows without an identity"}, ":0"},
			outcome{"-EMQFENCE ", []string{"emq:{q}:: rows without an identity"}, ":1"},
		}, {
			"PROMOTE into the pending of another queue", due, wire.With(q.Promote(9), 3, "emq:{r}:pending"),
			"HGET emq:{q}:job:JOB1 state",
			outcome{":1", []string{"emq:{q}:job:JOB1: state pending, in []", "emq:{r}:pending: JOB1 has no row"}, wire.Bulk("pending")},
			outcome{"-EMQKEY pending must be ", nil, wire.Bulk("scheduled")},
		}, {
			"PROMOTE with the base of another queue", due, wire.With(q.Promote(9), 4, "emq:{r}:"), "HGET emq:{q}:job:JOB1 state",
			outcome{":0", []string{"emq:{q}:job:JOB1: state scheduled, in []"}, wire.Bulk("scheduled")},
			outcome{"-EMQKEY base must be ", nil, wire.Bulk("scheduled")},
		},

		{
			"REAP with a cap below none", lapsed, q.Reap(-1, 9), "HGET emq:{q}:job:JOB1 state",
			outcome{wire.Reaped(nil, []string{"JOB1"}), nil, wire.Bulk("dead")},
			outcome{"-ERR max_stalled must be an integer", nil, wire.Bulk("active")},
		}, {
			"REAP with a cap that is no number", lapsed, wire.With(q.Reap(1, 9), 6, "many"), "HGET emq:{q}:job:JOB1 state",
			outcome{luaError, nil, wire.Bulk("active")},
			outcome{"-ERR max_stalled must be an integer", nil, wire.Bulk("active")},
		}, {
			"REAP of none", lapsed, q.Reap(1, 0), "HGET emq:{q}:job:JOB1 state",
			outcome{wire.Reaped(nil, nil), nil, wire.Bulk("active")},
			outcome{"-ERR limit must be an integer", nil, wire.Bulk("active")},
		}, {
			"REAP in another's store", with(lapsed, "SET "+wire.Identity+" x"), q.Reap(2, 9), "HGET emq:{q}:job:JOB1 state",
			outcome{wire.Reaped([]string{"JOB1"}, nil), []string{"emq:{q}:: rows under another identity"}, wire.Bulk("pending")},
			outcome{"-EMQFENCE ", []string{"emq:{q}:: rows under another identity"}, wire.Bulk("active")},
		}, {
			"REAP where nobody claimed the store", with(lapsed, "DEL "+wire.Identity), q.Reap(2, 9), "HGET emq:{q}:job:JOB1 state",
			outcome{wire.Reaped([]string{"JOB1"}, nil), []string{"emq:{q}:: rows without an identity"}, wire.Bulk("pending")},
			outcome{"-EMQFENCE ", []string{"emq:{q}:: rows without an identity"}, wire.Bulk("active")},
		}, {
			"REAP into the pending of another queue", lapsed, wire.With(q.Reap(2, 9), 3, "emq:{r}:pending"),
			"HGET emq:{q}:job:JOB1 state",
			outcome{
				wire.Reaped([]string{"JOB1"}, nil),
				[]string{"emq:{q}:job:JOB1: state pending, in []", "emq:{r}:pending: JOB1 has no row"}, wire.Bulk("pending"),
			},
			outcome{"-EMQKEY pending must be ", nil, wire.Bulk("active")},
		},
	} {
		t.Run(e.name, func(t *testing.T) { e.show(t, openAdded(t, server)) })
	}
}

// show makes the call on both sides and asserts the expected effects of each.
func (e edge) show(t *testing.T, p *pair) {
	t.Helper()
	p.given(e.given...)
	before := store.Read(t, p.reader)[p.native.db]
	native, scripted := p.both(e.call...)
	after := store.Read(t, p.reader)
	e.script.holds(t, "the script", p.scripted, scripted, after, e.look)
	e.native.holds(t, "the native verb", p.native, native, after, e.look)
	if wire.IsError(native) {
		require.Empty(t, before.Diff(after[p.native.db]), "the native refusal changed something")
	}
	require.NotEqual(t, e.script, e.native, "no edge")
}

func (o outcome) holds(t *testing.T, who string, s *side, reply string, after store.Contents, look string) {
	t.Helper()
	require.True(t, strings.HasPrefix(reply, o.reply), "%s: want %q, got %q", who, o.reply, reply)
	require.Equal(t, o.leaves, after[s.db].Check(s.identity), "what %s leaves", who)
	seen := s.Run(look)
	require.True(t, strings.HasPrefix(seen, o.look), "%s, then %s: want %q, got %q", who, look, o.look, seen)
}

func with(given []string, more ...string) []string {
	return append(given[:len(given):len(given)], more...)
}
