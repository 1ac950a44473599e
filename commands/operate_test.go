package commands

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOperators checks the statuses and effects of REQUEUE and REMOVE, from WIRE6 §7.4.
func TestOperators(t *testing.T) {
	jobs := func() *store {
		s := newStore()
		s.put("JOBp", row{FieldState: "pending", FieldAttempts: "0"}, KeyPending)
		s.put("JOBa", held(nil), KeyActive)
		s.put("JOBs", row{FieldState: "scheduled", FieldAttempts: "1", FieldFailures: "1", FieldLastError: "why", FieldLeaseEpoch: "e"}, KeySchedule)
		s.put("JOBd", row{FieldState: "dead", FieldAttempts: "5", FieldFailures: "5", FieldStalled: "1", FieldLastError: "why", FieldLeaseEpoch: "e"}, KeyDead)
		s.put("JOBlane", row{FieldState: "dead", FieldGroup: "g"}, KeyDead)
		s.put("JOBflow", row{FieldState: "pending", FieldParent: "p"}, KeyPending)
		s.put("JOBnowhere", row{FieldState: "dead", FieldAttempts: "5"})
		s.put("JOBtwo", row{FieldState: "dead", FieldAttempts: "5"}, KeyDead, KeyPending)
		s.put("JOBodd", row{FieldState: "odd"}, KeyPending)
		s.put("JOBstring", nil)
		s.add(KeyDead, "JOBnorow", 0)
		return s
	}
	const (
		pending = "HSET job state =pending"
		afresh  = "HDEL job failures stalled last_error lease_epoch"
		every   = "JOBp JOBa JOBs JOBd JOBlane JOBflow JOBnowhere JOBtwo JOBodd JOBstring JOBnorow JOBnone"
	)
	gone := func(id string) (effects []string) {
		for _, set := range []string{"pending", "active", "schedule", "dead"} {
			effects = append(effects, id+": ZREM "+set)
		}
		return append(effects, id+": DEL job")
	}
	for _, c := range []struct {
		verb       Verb
		state, ids string
		want       []int8
		effects    []string
	}{
		{Requeue, "dead", every, []int8{0, 0, 0, 1, -2, -2, 1, 1, 0, 0, 0, 0}, slices.Concat(
			[]string{"JOBd: ZREM dead", "JOBd: " + pending, "JOBd: " + afresh, "JOBd: ZADD pending 0"},
			[]string{"JOBnowhere: ZREM dead", "JOBnowhere: " + pending, "JOBnowhere: " + afresh, "JOBnowhere: ZADD pending 0"},
			[]string{"JOBtwo: ZREM dead", "JOBtwo: " + pending, "JOBtwo: " + afresh, "JOBtwo: ZADD pending 0"})},
		{Requeue, "scheduled", every, []int8{0, 0, 1, 0, -2, -2, 0, 0, 0, 0, 0, 0}, slices.Concat(
			[]string{"JOBs: ZREM schedule", "JOBs: " + pending, "JOBs: ZADD pending 0"})},
		{Requeue, "dead", "JOBd JOBlane JOBd JOBlane JOBd", []int8{1, -2, 0, -2, 0}, slices.Concat(
			[]string{"JOBd: ZREM dead", "JOBd: " + pending, "JOBd: " + afresh, "JOBd: ZADD pending 0"})},
		{Remove, "pending", every, []int8{1, 0, 0, 0, -2, -2, 0, 0, 0, 0, 0, 0}, gone("JOBp")},
		{Remove, "active", every, []int8{0, 1, 0, 0, -2, -2, 0, 0, 0, 0, 0, 0}, gone("JOBa")},
		{Remove, "scheduled", every, []int8{0, 0, 1, 0, -2, -2, 0, 0, 0, 0, 0, 0}, gone("JOBs")},
		{Remove, "dead", every, []int8{0, 0, 0, 1, -2, -2, 1, 1, 0, 0, 0, 0}, slices.Concat(gone("JOBd"), gone("JOBnowhere"), gone("JOBtwo"))},
		{Remove, "any", every, []int8{1, 1, 1, 1, -2, -2, 1, 1, 1, 0, 0, 0},
			slices.Concat(gone("JOBp"), gone("JOBa"), gone("JOBs"), gone("JOBd"), gone("JOBnowhere"), gone("JOBtwo"), gone("JOBodd"))},
		{Remove, "any", "JOBa JOBa JOBnone JOBa", []int8{1, 0, 0, 0}, gone("JOBa")},
	} {
		for _, window := range []int{Window, 1} {
			t.Run(fmt.Sprintf("%s %s of %s, %d at a time", Table[c.verb].Name, c.state, c.ids, window), func(t *testing.T) {
				s, ids := jobs(), strings.Fields(c.ids)
				o := s.run(t, c.verb, append([]string{"emq:{q}:", c.state}, ids...), window)
				require.Empty(t, text(o))
				assert.Equal(t, c.want, statuses(o))
				assert.Equal(t, c.effects, shown(o, ids...))
			})
		}
	}
	s := jobs()
	s.run(t, Requeue, []string{"emq:{q}:", "dead", "JOBd"}, 1)
	assert.Equal(t, row{FieldState: "pending", FieldAttempts: "5"}, s.rows["JOBd"], "it starts afresh")
	s.run(t, Requeue, []string{"emq:{q}:", "scheduled", "JOBs"}, 1)
	assert.Equal(t, row{FieldState: "pending", FieldAttempts: "1", FieldFailures: "1", FieldLastError: "why", FieldLeaseEpoch: "e"}, s.rows["JOBs"], "it does not")
}

// TestOperatorsFenceAndTypes checks what both verbs require of the store: each of the four sets matters, and a row
// alone does not.
func TestOperatorsFenceAndTypes(t *testing.T) {
	for _, verb := range []Verb{Requeue, Remove} {
		args := valid(verb)
		s := newStore()
		s.fence = None
		s.put(id, row{FieldState: "dead"})
		s.types[KeyMeta], s.types[KeyFailed], s.types[KeyCompleted] = String, Hash, Hash
		o := s.run(t, verb, args, 1)
		assert.Empty(t, text(o))
		assert.Equal(t, []int8{0}, statuses(o), "a row alone does not count")
		assert.Equal(t, ResultGone, o.Marks[0].Result)
		for k := KeyPending; k <= KeyDead; k++ {
			for _, kind := range []Type{SortedSet, String} {
				s := newStore()
				s.fence, s.types[k] = None, kind
				assert.Equal(t, `EMQFENCE {emq}:version is absent, yet the queue's `+k.Suffix()+` is there; this executor speaks "echomq:6.0.0"`, text(s.run(t, verb, args, 1)))
			}
			s := newStore()
			s.types[k] = Hash
			assert.Equal(t, "WRONGTYPE Operation against a key holding the wrong kind of value", text(s.run(t, verb, args, 1)), k.Suffix())
		}
		s = newStore()
		s.identity = "echomq:4.0.0"
		assert.Contains(t, text(s.run(t, verb, args, 1)), "EMQFENCE ")
		for _, word := range []string{"", "DEAD", "Dead", "dead ", "schedule", "anything", "any\x00"} {
			args := slices.Clone(args)
			args[1] = word
			want := map[Verb]string{Requeue: `ERR state must be "dead" or "scheduled", got `, Remove: `ERR state must be "pending", "active", "scheduled", "dead" or "any", got `}[verb]
			assert.True(t, strings.HasPrefix(text(newStore().run(t, verb, args, 1)), want), "%q: %s", word, text(newStore().run(t, verb, args, 1)))
		}
	}
	args := []string{"emq:{q}:", "any", id}
	args[1] = "active"
	assert.Contains(t, text(newStore().run(t, Requeue, args, 1)), "ERR state ", "REQUEUE does not take active jobs")
}
