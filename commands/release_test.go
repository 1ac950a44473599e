package commands

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shown are a call's effects as plain commands, with the id if there are several jobs.
func shown(o *Outcome, ids ...string) (effects []string) {
	if o.ClaimIdentity {
		effects = append(effects, "SET identity")
	}
	for _, e := range o.Effects {
		text := e.describe(&request{})
		if len(ids) > 1 {
			text = ids[e.Job] + ": " + text
		}
		effects = append(effects, text)
	}
	return effects
}

func TestRelease(t *testing.T) {
	const (
		given = "HDEL job lease_epoch stalled"
		now5s = "ZADD schedule 1732872605000"
	)
	for _, c := range []struct {
		name  string
		row   row
		sets  []Key
		token string // "" is the row's
		delay string // "" is 0
		reply Const
		want  []string
		err   string
	}{
		{name: "to be claimed at once", row: held(nil), sets: []Key{KeyActive}, reply: ConstPending,
			want: []string{"ZREM active", "HSET job state =pending", given, "ZADD pending 0"}},
		{name: "later", row: held(nil), sets: []Key{KeyActive}, delay: "5000", reply: ConstScheduled,
			want: []string{"ZREM active", "HSET job state =scheduled", given, now5s}},
		{name: "lapsed, to be claimed at once", row: held(row{FieldState: "pending"}), sets: []Key{KeyPending}, reply: ConstPending,
			want: []string{given, "ZADD pending 0"}},
		{name: "lapsed, later", row: held(row{FieldState: "pending"}), sets: []Key{KeyPending}, delay: "5000", reply: ConstScheduled,
			want: []string{"ZREM pending", "HSET job state =scheduled", given, now5s}},
		{name: "in no set", row: held(nil), reply: ConstPending, want: []string{"HSET job state =pending", given, "ZADD pending 0"}},
		{name: "in no set, later", row: held(nil), delay: "5000", reply: ConstScheduled,
			want: []string{"ZREM pending", "HSET job state =scheduled", given, now5s}},
		{name: "active in pending", row: held(nil), sets: []Key{KeyPending}, reply: ConstPending,
			want: []string{"HSET job state =pending", given, "ZADD pending 0"}},
		{name: "in two sets", row: held(nil), sets: []Key{KeyActive, KeyPending}, delay: "5000", reply: ConstScheduled,
			want: []string{"ZREM active", "HSET job state =scheduled", given, now5s}},
		{name: "that failed and stalled before", row: held(row{FieldFailures: "2", FieldStalled: "1", FieldLastError: "why"}), sets: []Key{KeyActive},
			reply: ConstPending, want: []string{"ZREM active", "HSET job state =pending", given, "ZADD pending 0"}},
		{name: "the longest delay", row: held(nil), sets: []Key{KeyActive}, delay: "4503599627370495", reply: ConstScheduled,
			want: []string{"ZREM active", "HSET job state =scheduled", given, "ZADD schedule 4505332499970495"}},

		{name: "no row", err: "EMQSTALE job gone", token: "3"},
		{name: "another's token", row: held(nil), sets: []Key{KeyActive}, token: "2", err: "EMQSTALE release token mismatch"},
		{name: "a token of another form", row: held(nil), sets: []Key{KeyActive}, token: "03", err: "EMQSTALE release token mismatch"},
		{name: "never claimed", row: row{FieldState: "pending", FieldAttempts: "0"}, sets: []Key{KeyPending}, err: "EMQSTALE release token mismatch"},
		{name: "given back", row: row{FieldState: "pending", FieldAttempts: "3"}, sets: []Key{KeyPending}, err: "EMQSTALE release token mismatch"},
		{name: "scheduled", row: row{FieldState: "scheduled", FieldAttempts: "3"}, sets: []Key{KeySchedule}, err: "EMQSTALE release token mismatch"},
		{name: "dead", row: held(row{FieldState: "dead"}), sets: []Key{KeyDead}, err: "EMQSTALE release token mismatch"},
		{name: "no attempts", row: row{FieldState: "active"}, sets: []Key{KeyActive}, token: "3", err: "EMQSTALE release token mismatch"},
		{name: "a lane's", row: held(row{FieldGroup: "g"}), sets: []Key{KeyActive}, token: "9",
			err: "EMQSCRIPT the row has a group: settle it with the scripts that own it"},
		{name: "a flow's", row: held(row{FieldParent: "p"}), sets: []Key{KeyActive}, token: "9",
			err: "EMQSCRIPT the row has a parent: settle it with the scripts that own it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore()
			if c.row != nil {
				s.put(id, c.row, c.sets...)
			}
			token, delay := c.token, c.delay
			if token == "" {
				token = c.row[FieldAttempts]
			}
			if delay == "" {
				delay = "0"
			}
			before, kept := s.clone(), map[Field]string{}
			for _, f := range []Field{FieldAttempts, FieldFailures, FieldLastError} {
				kept[f] = c.row[f]
			}
			args := []string{"emq:{q}:", id, token, delay}
			o := s.run(t, Release, args, 1)
			require.Equal(t, c.err, text(o))
			assert.Equal(t, c.want, shown(o))
			if c.err != "" {
				require.Equal(t, before, s)
				return
			}
			assert.Equal(t, constReply(c.reply), o.Reply)
			assert.Equal(t, ResultReleased, o.Result)
			for f, value := range kept {
				assert.Equal(t, value, s.rows[id][f], FieldName[f])
			}
			assert.Equal(t, "EMQSTALE release token mismatch", text(s.run(t, Release, args, 1)), "a second time")
		})
	}
}

// TestReleaseFenceAndTypes checks what RELEASE requires of the store: its own four keys matter, dead and meta do not.
func TestReleaseFenceAndTypes(t *testing.T) {
	args := valid(Release)
	jobs := func() *store {
		s := newStore()
		s.put(id, held(nil), KeyActive)
		return s
	}
	for k := KeyPending; k <= KeyMeta; k++ {
		s := jobs()
		s.types[k] = String
		want := ""
		if k == KeyPending || k == KeyActive || k == KeySchedule {
			want = "WRONGTYPE Operation against a key holding the wrong kind of value"
		}
		assert.Equal(t, want, text(s.run(t, Release, args, 1)), k.Suffix())
	}
	s := jobs()
	s.rows[id] = nil
	assert.Contains(t, text(s.run(t, Release, args, 1)), "WRONGTYPE ", "the row")
	s.fence = None
	assert.Equal(t, `EMQFENCE {emq}:version is absent, yet the job's row is there; this executor speaks "echomq:6.0.0"`, text(s.run(t, Release, args, 1)))
	delete(s.rows, id)
	assert.Equal(t, "EMQSTALE job gone", text(s.run(t, Release, args, 1)), "sets alone are not asked")
	s.fence, s.identity = String, "echomq:4.0.0"
	assert.Contains(t, text(s.run(t, Release, args, 1)), "EMQFENCE ")
}

// onDice runs a test many times with dice of a fixed seed.
func onDice(t *testing.T, seed uint64, times int, do func(testing.TB, *dice)) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range times {
		d := make(dice, 700)
		for i := range d {
			d[i] = byte(rng.Uint32())
		}
		do(t, &d)
	}
}
