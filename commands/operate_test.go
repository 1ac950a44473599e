package commands

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

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
