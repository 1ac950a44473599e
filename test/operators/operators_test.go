// Package operators answers one question: what happens when people change the keys directly? It does with Valkey's own
// commands what operators do (expire, rename, move, copy, restore, swap, flush, delete), and checks the verbs' next
// replies and what is left.
package operators

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

const q = wire.Queue("q")

// step is a command and its exact reply; "" is any but an error.
type step struct {
	command []string
	reply   string
}

func do(line string) step                { return step{wire.Words(line), ""} }
func answers(reply, line string) step    { return step{wire.Words(line), reply} }
func claims(reply string) step           { return step{q.Claim(1 << 40), reply} }
func enqueues(id string, n int64) step   { return step{q.Enqueue(id, "new"), wire.Integer(n)} }
func completes(id, token, r string) step { return step{q.Complete(id, token), r} }
func fails(id, token, reply string) step { return step{q.Fail(id, token, 1<<40, 3, "why"), reply} }
func extends(id, token, r string) step   { return step{q.Extend(id, token, 1<<40), r} }
func promotes(n int64) step              { return step{q.Promote(100), wire.Integer(n)} }
func reaps(ids ...string) step           { return step{q.Reap(0, 100), wire.Reaped(ids, nil)} }

// lapses sets the times of a set to the past.
func lapses(set string) step {
	return do("EVAL \"for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZADD', KEYS[1], 1, id) end return 1\" 1 " + set)
}
func expires(key string) step { return do("PEXPIRE " + key + " 1") }

// fenced is the beginning of a refusal because of a foreign or missing identity.
const fenced = "-EMQFENCE "

// Each deed is done to the same store: JOB1 is held with token 1, JOB2 waits, JOB3 is scheduled, JOB4 is dead. What is
// left over is what the keyspace check finds in databases 0 and 1 at the end.
func TestDeeds(t *testing.T) {
	one, zero := wire.Integer(1), wire.Integer(0)
	for _, tt := range []struct {
		name  string
		steps []step
		left  []string
	}{
		{"the row of a held job is deleted", []step{
			do("DEL emq:{q}:job:JOB1"), completes("JOB1", "1", zero), fails("JOB1", "1", wire.Gone), extends("JOB1", "1", wire.Integer(-1)), reaps(),
		}, []string{"emq:{q}:active: JOB1 has no row"}},
		{"and its lease runs out", []step{
			do("DEL emq:{q}:job:JOB1"), lapses("emq:{q}:active"), reaps(), answers(zero, "EXISTS emq:{q}:active"),
		}, nil},
		{"a lease runs out", []step{
			lapses("emq:{q}:active"), extends("JOB1", "1", one), reaps(), lapses("emq:{q}:active"), reaps("JOB1"), extends("JOB1", "1", wire.Stale("extend")),
			claims(wire.Claimed("JOB1", "x", 2)), extends("JOB1", "1", wire.Stale("extend")), extends("JOB1", "2", one), completes("JOB1", "2", one),
		}, nil},
		{"a retry is due", []step{
			promotes(0), lapses("emq:{q}:schedule"), promotes(1), claims(wire.Claimed("JOB2", "x", 1)), claims(wire.Claimed("JOB3", "x", 2)),
		}, nil},
		{"the row of a retry is deleted, and it is due", []step{
			do("DEL emq:{q}:job:JOB3"), lapses("emq:{q}:schedule"), promotes(0), answers(zero, "EXISTS emq:{q}:schedule"), enqueues("JOB3", 1),
		}, nil},
		{"the row of a retry expires, and it is due", []step{
			expires("emq:{q}:job:JOB3"), lapses("emq:{q}:schedule"), promotes(0), answers(zero, "EXISTS emq:{q}:schedule"),
		}, nil},
		{"schedule is renamed over pending", []step{
			// Its entry has a score other than 0, which does not matter to claims.
			do("RENAME emq:{q}:schedule emq:{q}:pending"), promotes(0), claims(wire.Claimed("JOB3", "x", 2)), completes("JOB3", "2", one),
		}, []string{"emq:{q}:job:JOB2: state pending, in []"}},
		{"pending is renamed over schedule", []step{
			do("RENAME emq:{q}:pending emq:{q}:schedule"), promotes(1), claims(wire.Claimed("JOB2", "x", 1)),
		}, []string{"emq:{q}:job:JOB3: state scheduled, in []"}},
		{"pending is copied to schedule", []step{
			do("COPY emq:{q}:pending emq:{q}:schedule REPLACE"), promotes(0), answers(zero, "EXISTS emq:{q}:schedule"), claims(wire.Claimed("JOB2", "x", 1)),
		}, []string{"emq:{q}:job:JOB3: state scheduled, in []"}},
		{"dead is copied to active", []step{
			do("COPY emq:{q}:dead emq:{q}:active REPLACE"), reaps(), answers(zero, "EXISTS emq:{q}:active"),
		}, []string{"emq:{q}:job:JOB1: state active, in []"}},
		{"dead is renamed over active", []step{
			do("RENAME emq:{q}:dead emq:{q}:active"), reaps("JOB4"), claims(wire.Claimed("JOB2", "x", 1)), claims(wire.Claimed("JOB4", "x", 2)),
		}, []string{"emq:{q}:job:JOB1: state active, in []"}},
		{"schedule is moved to another database", []step{
			lapses("emq:{q}:schedule"), do("MOVE emq:{q}:schedule 1"), promotes(0),
			do("SELECT 1"), {q.Promote(1), fenced}, {q.ScheduleAt("JOB5", "new", 1), one}, promotes(1), claims(wire.Claimed("JOB5", "new", 1)), do("SELECT 0"),
		}, []string{"emq:{q}:job:JOB3: state scheduled, in []"}},
		{"the identity is deleted, and jobs are due and lost", []step{
			lapses("emq:{q}:active"), lapses("emq:{q}:schedule"), do("DEL {emq}:version"), {q.Promote(1), fenced}, {q.Reap(1, 1), fenced}, extends("JOB1", "1", fenced),
			{q.ScheduleAt("JOB2", "x", 1), zero}, {q.ScheduleAt("JOB5", "new", 1), one}, promotes(2), reaps("JOB1"),
		}, nil},
		{"schedule is overwritten", []step{
			do("SET emq:{q}:schedule x"), {q.Promote(1), wire.WrongType}, {q.ScheduleIn("JOB5", "new", 1), wire.WrongType}, lapses("emq:{q}:active"), reaps("JOB1"),
			do("DEL emq:{q}:schedule"), promotes(0),
		}, []string{"emq:{q}:job:JOB3: state scheduled, in []"}},
		{"dead is overwritten", []step{
			do("SET emq:{q}:dead x"), lapses("emq:{q}:active"), {q.Reap(1, 10), wire.Reaped([]string{"JOB1"}, nil)}, claims(wire.Claimed("JOB1", "x", 2)),
			do("DEL emq:{q}:dead"), lapses("emq:{q}:active"), {q.Reap(1, 10), wire.Reaped(nil, []string{"JOB1"})},
		}, []string{"emq:{q}:job:JOB4: state dead, in []"}},
		{"a dead job is scheduled by hand", []step{
			do("ZREM emq:{q}:dead JOB4"), do("HSET emq:{q}:job:JOB4 state scheduled"), do("ZADD emq:{q}:schedule 1 JOB4"), promotes(1),
			claims(wire.Claimed("JOB2", "x", 1)), claims(wire.Claimed("JOB4", "x", 2)),
		}, nil},
		{"and the job is enqueued anew", []step{
			do("DEL emq:{q}:job:JOB1"), enqueues("JOB1", 1), completes("JOB1", "1", wire.Stale("complete")),
			claims(wire.Claimed("JOB1", "new", 1)), completes("JOB1", "1", one),
		}, nil},
		{"the row of a waiting job is deleted", []step{
			do("DEL emq:{q}:job:JOB2"), claims(wire.Empty), enqueues("JOB2", 1), claims(wire.Claimed("JOB2", "new", 1)),
		}, nil},
		{"a waiting row expires", []step{
			expires("emq:{q}:job:JOB2"), claims(wire.Empty), answers(zero, "ZCARD emq:{q}:pending"),
		}, nil},
		{"a held row expires", []step{
			expires("emq:{q}:job:JOB1"), completes("JOB1", "1", zero), fails("JOB1", "1", wire.Gone),
		}, []string{"emq:{q}:active: JOB1 has no row"}},
		{"a row that is to expire later is settled before", []step{
			do("EXPIRE emq:{q}:job:JOB1 100000"), completes("JOB1", "1", one), enqueues("JOB1", 1),
			answers(wire.Integer(-1), "TTL emq:{q}:job:JOB1"),
		}, nil},
		{"active is deleted", []step{
			do("DEL emq:{q}:active"), completes("JOB1", "1", one), completes("JOB1", "1", zero),
		}, nil},
		{"active is deleted, and the job fails", []step{
			do("DEL emq:{q}:active"), fails("JOB1", "1", wire.Bulk("scheduled")), fails("JOB1", "1", wire.Stale("retry")),
		}, nil},
		{"pending is deleted", []step{
			do("DEL emq:{q}:pending"), claims(wire.Empty), enqueues("JOB2", 0),
		}, []string{"emq:{q}:job:JOB2: state pending, in []"}},
		{"pending expires", []step{
			expires("emq:{q}:pending"), claims(wire.Empty), enqueues("JOB5", 1), claims(wire.Claimed("JOB5", "new", 1)),
			answers(wire.Integer(-1), "TTL emq:{q}:active"),
		}, []string{"emq:{q}:job:JOB2: state pending, in []"}},
		{"schedule and dead are deleted", []step{
			do("DEL emq:{q}:schedule emq:{q}:dead"), fails("JOB1", "1", wire.Bulk("scheduled")),
		}, []string{"emq:{q}:job:JOB3: state scheduled, in []", "emq:{q}:job:JOB4: state dead, in []"}},
		{"pending is renamed over active", []step{
			do("RENAME emq:{q}:pending emq:{q}:active"), claims(wire.Empty), completes("JOB1", "1", one),
		}, []string{"emq:{q}:active: JOB2 has the score 0", "emq:{q}:job:JOB2: state pending, in [active]"}},
		{"active is renamed over pending", []step{
			// Its entry is of a held job that is in no other set: it is claimed like any other, with the next token.
			do("RENAME emq:{q}:active emq:{q}:pending"), claims(wire.Claimed("JOB1", "x", 2)), completes("JOB1", "1", wire.Stale("complete")), completes("JOB1", "2", one),
		}, []string{"emq:{q}:job:JOB2: state pending, in []"}},
		{"a row is renamed", []step{
			do("RENAME emq:{q}:job:JOB1 emq:{q}:job:JOB9"), completes("JOB1", "1", zero), completes("JOB9", "1", one),
		}, []string{"emq:{q}:active: JOB1 has no row"}},
		{"a row is renamed over another", []step{
			do("RENAME emq:{q}:job:JOB1 emq:{q}:job:JOB2"), claims(wire.Claimed("JOB2", "x", 2)), completes("JOB2", "1", wire.Stale("complete")), completes("JOB2", "2", one),
		}, []string{"emq:{q}:active: JOB1 has no row"}},
		{"a held row is copied", []step{
			do("COPY emq:{q}:job:JOB1 emq:{q}:job:JOB9"), completes("JOB1", "1", one), completes("JOB9", "1", one),
			answers(wire.Bulk("2"), "HGET emq:{q}:metrics:completed count"),
		}, nil},
		{"pending is copied to another queue", []step{
			do("COPY emq:{q}:pending emq:{r}:pending"), {wire.Queue("r").Claim(1), wire.Empty}, claims(wire.Claimed("JOB2", "x", 1)),
			answers(zero, "EXISTS emq:{r}:pending"),
		}, nil},
		{"a row is moved to another database", []step{
			do("MOVE emq:{q}:job:JOB1 1"), completes("JOB1", "1", zero),
			do("SELECT 1"), completes("JOB1", "1", fenced), enqueues("JOB5", 1), completes("JOB1", "1", one), do("SELECT 0"),
		}, []string{"emq:{q}:active: JOB1 has no row"}},
		{"pending is moved to another database", []step{
			do("MOVE emq:{q}:pending 1"), claims(wire.Empty),
			do("SELECT 1"), claims(fenced), enqueues("JOB5", 1), claims(wire.Claimed("JOB5", "new", 1)), do("SELECT 0"),
		}, []string{"emq:{q}:job:JOB2: state pending, in []"}},
		{"a row is restored as it was before the claim", []step{
			do("RENAME emq:{q}:job:JOB2 kept"), do("COPY kept emq:{q}:job:JOB1 REPLACE"), do("DEL kept"), completes("JOB1", "1", wire.Stale("complete")),
		}, []string{"emq:{q}:job:JOB1: state pending, in [active]", "emq:{q}:pending: JOB2 has no row"}},
		{"a completed job is restored", []step{
			do("COPY emq:{q}:job:JOB1 kept"), completes("JOB1", "1", one), do("RENAME kept emq:{q}:job:JOB1"), completes("JOB1", "1", one),
		}, nil},
		{"the databases are swapped", []step{
			do("SWAPDB 0 1"), claims(wire.Empty), completes("JOB1", "1", zero), enqueues("JOB5", 1), claims(wire.Claimed("JOB5", "new", 1)),
			do("SWAPDB 1 0"), completes("JOB5", "1", zero), claims(wire.Claimed("JOB2", "x", 1)), completes("JOB1", "1", one),
		}, nil},
		{"the database is flushed", []step{
			do("FLUSHDB"), completes("JOB1", "1", zero), fails("JOB1", "1", wire.Gone), claims(wire.Empty), enqueues("JOB1", 1),
			completes("JOB1", "1", wire.Stale("complete")), answers(wire.Bulk(wire.Wire6), "GET {emq}:version"),
		}, nil},
		{"the identity is deleted", []step{
			do("DEL {emq}:version"), claims(fenced), completes("JOB1", "1", fenced), fails("JOB1", "1", fenced),
			enqueues("JOB2", 0), claims(fenced), // a duplicate claims nothing
			enqueues("JOB5", 1), claims(wire.Claimed("JOB2", "x", 1)), completes("JOB1", "1", one),
		}, nil},
		{"the identity is renamed, and put back", []step{
			do("RENAME {emq}:version kept"), claims(fenced), do("RENAME kept {emq}:version"), claims(wire.Claimed("JOB2", "x", 1)),
		}, nil},
		{"the identity expires", []step{
			expires("{emq}:version"), claims(fenced), enqueues("JOB5", 1), answers(wire.Integer(-1), "TTL {emq}:version"), completes("JOB1", "1", one),
		}, nil},
		{"a row is overwritten", []step{
			do("SET emq:{q}:job:JOB1 x"), do("SET emq:{q}:job:JOB2 x"), completes("JOB1", "1", wire.WrongType), fails("JOB1", "1", wire.WrongType), claims(wire.Empty), {q.Enqueue("JOB1", "new"), wire.WrongType},
		}, []string{"emq:{q}:active: JOB1 has no row", "emq:{q}:job:JOB1: is a string", "emq:{q}:job:JOB2: is a string"}},
		{"the identity is overwritten", []step{
			do("SET {emq}:version " + wire.Wire4), claims(fenced), completes("JOB1", "1", fenced), fails("JOB1", "1", fenced),
			{q.Enqueue("JOB5", "new"), fenced}, do("SET {emq}:version " + wire.Wire6), completes("JOB1", "1", one), enqueues("JOB5", 1),
		}, nil},
		{"pending is overwritten", []step{
			do("SET emq:{q}:pending x"), {q.Enqueue("JOB5", "new"), wire.WrongType}, claims(wire.WrongType), completes("JOB1", "1", wire.WrongType),
			answers(zero, "EXISTS emq:{q}:job:JOB5"), do("DEL emq:{q}:pending"), completes("JOB1", "1", one), enqueues("JOB5", 1),
		}, []string{"emq:{q}:job:JOB2: state pending, in []"}},
		{"a dead job is put into pending alone", []step{
			do("ZADD emq:{q}:pending 0 JOB4"), claims(wire.Claimed("JOB2", "x", 1)), claims(wire.Empty), answers(one, "ZCARD emq:{q}:dead"),
		}, nil},
		{"a dead job is taken back by hand", []step{
			do("ZREM emq:{q}:dead JOB4"), do("HSET emq:{q}:job:JOB4 state pending"), do("HDEL emq:{q}:job:JOB4 failures last_error"), do("ZADD emq:{q}:pending 0 JOB4"),
			claims(wire.Claimed("JOB2", "x", 1)), claims(wire.Claimed("JOB4", "x", 2)), completes("JOB4", "2", one),
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := wire.Dial(t, store.Serve(t).Socket)
			prepare(t, c)
			c.Must("DEBUG SET-ACTIVE-EXPIRE 0")
			for _, s := range tt.steps {
				reply := c.Do(s.command...)
				switch {
				case s.reply == "":
					require.False(t, wire.IsError(reply), "%s: %q", wire.Line(s.command), reply)
					if s.command[0] == "PEXPIRE" {
						end := c.Now() + 1
						store.WaitFor(t, "the key to expire", func() bool { return c.Now() > end })
					}
				case s.reply == fenced:
					require.True(t, strings.HasPrefix(reply, s.reply), "%s: %q", wire.Line(s.command), reply)
				default:
					require.Equal(t, s.reply, reply, wire.Line(s.command))
				}
			}
			for db, want := range [][]string{tt.left, nil} {
				require.ElementsMatch(t, want, store.Read(t, c)[db].Check(wire.Wire6), "left over in database %d", db)
			}
		})
	}
}

// Random deeds on random keys, among verbs: the server survives, every refusal has a documented class, and the
// append-only file restores the same data.
func TestStorm(t *testing.T) {
	classes := []string{"-EMQKIND ", "-EMQKEY ", "-EMQFENCE ", "-EMQSTALE ", "-EMQSCRIPT ", "-WRONGTYPE ", "-ERR "}
	c := wire.Dial(t, store.Serve(t, "--appendonly", "yes").Socket)
	dice := rand.New(rand.NewPCG(store.Seed(t), 0))
	seen := map[string]int{}
	for range store.Rounds(t, 30, 150) {
		batch := make([][]string, 500)
		for i := range batch {
			if batch[i] = verb(dice); dice.IntN(5) == 0 {
				batch[i] = deed(dice)
			}
		}
		for i, reply := range c.Pipeline(batch) {
			known := !wire.IsError(reply)
			for _, class := range classes {
				known = known || strings.HasPrefix(reply, class)
			}
			require.True(t, known || !strings.HasPrefix(batch[i][0], "EMQ."), "%s: %q", wire.Line(batch[i]), reply)
			require.False(t, strings.HasPrefix(batch[i][0], "EMQ.") && strings.HasPrefix(reply, "-ERR "), "%s: %q", wire.Line(batch[i]), reply)
			seen[batch[i][0]+" "+reply[:1]]++
		}
		digest := c.Do("DEBUG", "DIGEST")
		c.Must("DEBUG LOADAOF")
		require.Equal(t, digest, c.Do("DEBUG", "DIGEST"))
	}
	for _, want := range []string{"EMQ.ENQUEUE :", "EMQ.ENQUEUE -", "EMQ.CLAIM *", "EMQ.CLAIM -", "EMQ.COMPLETE :", "EMQ.COMPLETE -", "EMQ.FAIL $", "EMQ.FAIL -",
		"EMQ.SCHEDULE :", "EMQ.SCHEDULE -", "EMQ.EXTEND :", "EMQ.EXTEND -", "EMQ.PROMOTE :", "EMQ.PROMOTE -", "EMQ.REAP *", "EMQ.REAP -", "RENAME +", "COPY :", "MOVE :"} {
		require.NotZero(t, seen[want], "%s of %v", want, seen)
	}
}

func anID(dice *rand.Rand) string { return fmt.Sprintf("JOB%d", dice.IntN(12)) }

func verb(dice *rand.Rand) []string {
	id, token := anID(dice), fmt.Sprint(1+dice.IntN(4)/3)
	while := []int64{1, 1 << 40}[dice.IntN(2)]
	switch dice.IntN(8) {
	case 0:
		return q.Enqueue(id, "x")
	case 1:
		return q.Claim(while)
	case 2:
		return q.Complete(id, token)
	case 3:
		return q.ScheduleAt(id, "x", while)
	case 4:
		return q.Extend(id, token, while)
	case 5:
		return q.Promote(int64(1 + dice.IntN(9)))
	case 6:
		return q.Reap(int64(dice.IntN(4)), int64(1+dice.IntN(9)))
	default:
		return q.Fail(id, token, while, int64(1+dice.IntN(2)), "why")
	}
}

func deed(dice *rand.Rand) []string {
	key := func() string {
		keys := []string{q.Row(anID(dice)), q.Row(anID(dice)), q.Pending(), q.Active(), q.Schedule(), q.Dead(), q.Completed(), q.Failed(), wire.Identity}
		return keys[dice.IntN(len(keys))]
	}
	switch dice.IntN(16) {
	case 0, 1:
		return []string{"DEL", key()}
	case 2, 3:
		return []string{"RENAME", key(), key()}
	case 4, 5:
		return []string{"COPY", key(), key(), "REPLACE"}
	case 6:
		return []string{"MOVE", key(), "1"}
	case 7:
		return []string{"EXPIRE", key(), "1000000"}
	case 8:
		return []string{"SWAPDB", "0", "1"}
	case 9:
		return []string{"FLUSHDB"}
	case 10:
		return []string{"UNLINK", key()}
	case 11:
		return []string{"SET", wire.Identity, []string{wire.Wire6, wire.Wire6, wire.Wire4}[dice.IntN(3)]}
	default: // so that there is something to break
		return []string{"SET", wire.Identity, wire.Wire6}
	}
}

func prepare(t *testing.T, c *wire.Conn) {
	t.Helper()
	put := func(id, state, score string, fields ...string) {
		c.Do(append([]string{"HSET", q.Row(id), "state", state, "attempts", "0", "payload", "x"}, fields...)...)
		c.Do("ZADD", q.Set(state), score, id)
	}
	c.Must("SET {emq}:version " + wire.Wire6)
	require.Equal(t, wire.Integer(1), c.Do(q.Enqueue("JOB1", "x")...))
	require.Equal(t, wire.Claimed("JOB1", "x", 1), c.Do(q.Claim(1<<40)...))
	put("JOB2", "pending", "0")
	put("JOB3", "scheduled", "9000000000000", "attempts", "1", "failures", "1")
	put("JOB4", "dead", "0", "attempts", "1", "failures", "3", "last_error", "why")
}
