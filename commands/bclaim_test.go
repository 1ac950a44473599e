package commands

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"emq/fence"
)

// types are the types of a queue's pending and active.
type types struct{ pending, active Type }

// wait decides a call as the host does, with some of the queues at a time, or all at once.
func wait(identity string, window int, bases []string, queues ...types) *Outcome {
	c := &Call{Args: append([]string{"EMQ.BCLAIM", "1000", "0"}, bases...), IdentityType: String, Identity: identity, Now: now, Epoch: "run"}
	if identity == "" {
		c.IdentityType = None
	}
	o := &Outcome{Effects: make([]Effect, 0, MaxEffects), Marks: make([]Mark, len(bases))}
	for {
		n := min(window, len(queues))
		c.Jobs = nil
		for i, q := range queues[:n] {
			c.Jobs = append(c.Jobs, Job{ID: bases[int(c.First)+i], Type: q.pending, Active: q.active})
		}
		queues = queues[n:]
		c.Ended = len(queues) == 0
		Decide(Bclaim, c, o)
		if o.Next != NextMore {
			return o
		}
		c.Step += o.Done
		c.First += o.Done
	}
}

// A wrong argument is refused first, then an unclaimed store, then a key of another type; a valid call goes on to claim, and
// writes nothing by itself.
func TestBclaimDecides(t *testing.T) {
	const ours, others = fence.Identity, "echomq:4.0.0"
	none, set, list := types{None, None}, types{SortedSet, SortedSet}, types{Set, None}
	base := func(n int) (bases []string) {
		for i := range n {
			bases = append(bases, fmt.Sprintf("emq:{q%d}:", i))
		}
		return bases
	}
	for _, tt := range []struct {
		name     string
		identity string
		queues   []types
		want     string // how the refusal begins, "" if the call is valid
	}{
		{"nothing there", ours, []types{none, none}, ""},
		{"jobs", ours, []types{set, none, set}, ""},
		{"pending of another type", ours, []types{set, list}, "WRONGTYPE "},
		{"active of another type", ours, []types{set, {None, Hash}}, "WRONGTYPE "},
		{"another's store", others, []types{none}, "EMQFENCE {emq}:version is "},
		{"another's store, and another type", others, []types{list}, "EMQFENCE {emq}:version is "},
		{"unclaimed, nothing there", "", []types{none, none}, ""},
		{"unclaimed, an active alone", "", []types{none, {None, SortedSet}}, ""},
		{"unclaimed, an active of another type", "", []types{none, {None, Hash}}, "WRONGTYPE "},
		{"unclaimed, a pending", "", []types{none, set}, "EMQFENCE {emq}:version is absent"},
		{"unclaimed, a pending of another type", "", []types{none, list}, "EMQFENCE {emq}:version is absent"},
		{"unclaimed comes before a type", "", []types{{None, Hash}, set}, "EMQFENCE {emq}:version is absent"},
	} {
		for _, window := range []int{1, 2, 32} {
			t.Run(fmt.Sprintf("%s, %d at a time", tt.name, window), func(t *testing.T) {
				o := wait(tt.identity, window, base(len(tt.queues)), tt.queues...)
				text := string(o.Text[:o.TextLen])
				if tt.want == "" {
					assert.Empty(t, text)
					assert.Equal(t, NextClaim, o.Next)
				} else {
					assert.True(t, strings.HasPrefix(text, tt.want), text)
					assert.NotEqual(t, NextClaim, o.Next)
				}
				assert.Empty(t, o.Effects)
				assert.False(t, o.ClaimIdentity)
			})
		}
	}
}

// The arguments of a call, each of which may be wrong.
func TestBclaimArguments(t *testing.T) {
	many := func(n int) []string { return strings.Split(strings.TrimSpace(strings.Repeat("emq:{q}: ", n)), " ") }
	for _, tt := range []struct {
		args []string
		want string
	}{
		{append([]string{"1", "0"}, many(100)...), ""},
		{append([]string{"1", "0"}, many(101)...), "ERR "},
		{append([]string{"4503599627370495", "4503599627370495"}, many(1)...), ""},
		{append([]string{"0", "0"}, many(1)...), "ERR lease"},
		{append([]string{"4503599627370496", "0"}, many(1)...), "ERR lease"},
		{append([]string{"1", "4503599627370496"}, many(1)...), "ERR timeout"},
		{append([]string{"1", "-1"}, many(1)...), "ERR timeout"},
		{append([]string{"1", "0.5"}, many(1)...), "ERR timeout"},
		{append([]string{"1", "00"}, many(1)...), "ERR timeout"},
		{[]string{"1", "0", "emq:{q}:", "emq:{}:"}, "EMQKEY "},
		{[]string{"1", "0", "emq:{q}:pending"}, "EMQKEY "},
		{[]string{"x", "x", "emq:{q}"}, "EMQKEY "}, // the layout comes before the numbers
	} {
		c := &Call{Args: append([]string{"EMQ.BCLAIM"}, tt.args...), IdentityType: String, Identity: fence.Identity, Now: now, Ended: true}
		for _, base := range tt.args[2:] {
			c.Jobs = append(c.Jobs, Job{ID: base, Type: None, Active: None})
		}
		o := &Outcome{Marks: make([]Mark, len(c.Jobs))}
		Decide(Bclaim, c, o)
		text := string(o.Text[:o.TextLen])
		if tt.want == "" {
			require.Empty(t, text, tt.args[:2])
		} else {
			require.True(t, strings.HasPrefix(text, tt.want), "%s: %s", tt.args[:2], text)
		}
	}
}
