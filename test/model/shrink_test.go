package model_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// shrink returns a history that fails too, and of which no simpler variant fails.
func shrink(h history, fails func(history) bool) history {
	for {
		smaller, ok := first(variants(h), fails)
		if !ok {
			return h
		}
		h = smaller
	}
}

func first(seq iter.Seq[history], fails func(history) bool) (history, bool) {
	for h := range seq {
		if fails(h) {
			return h, true
		}
	}
	return nil, false
}

// variants are simpler variants of a history, the shortest first: fewer steps, fewer calls in a step, calls one after
// the other, all calls by one client.
func variants(h history) iter.Seq[history] {
	return func(yield func(history) bool) {
		for size := max(1, len(h)/2); size >= 1; size /= 2 {
			for at := 0; at < len(h); at += size {
				if !yield(slices.Concat(h[:at], h[min(at+size, len(h)):])) {
					return
				}
			}
		}
		for i, s := range h {
			if len(s) > 1 {
				var apart history
				for j, c := range s {
					apart = append(apart, step{c})
					if !yield(replaced(h, i, slices.Concat(s[:j], s[j+1:]))) {
						return
					}
				}
				if !yield(replaced(h, i, apart...)) {
					return
				}
			}
			for j, c := range s {
				if c.client == 0 {
					continue
				}
				alone := slices.Clone(s)
				alone[j].client = 0
				if !yield(replaced(h, i, alone)) {
					return
				}
			}
		}
	}
}

func replaced(h history, at int, by ...step) history { return slices.Concat(h[:at], by, h[at+1:]) }

// TestShrink plants failures in long histories, which must shrink to the steps that the failures need.
func TestShrink(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	noise := func() (h history) {
		for i := range 60 {
			var s step
			for j := range 1 + rng.IntN(4) {
				s = append(s, call{rng.IntN(3), []string{fmt.Sprintf("NOISE%d.%d", i, j)}})
			}
			h = append(h, s)
		}
		return h
	}
	plant := func(h history, at, client int, name string) {
		h[at] = slices.Insert(h[at], rng.IntN(len(h[at])+1), call{client, []string{name}})
	}
	where := func(h history, name string) (at, client int) {
		for i, s := range h {
			for _, c := range s {
				if c.args[0] == name {
					return i, c.client
				}
			}
		}
		return -1, -1
	}

	t.Run("one after the other", func(t *testing.T) {
		h := noise()
		plant(h, 7, 2, "A")
		plant(h, 41, 1, "B")
		small := shrink(h, func(h history) bool {
			a, _ := where(h, "A")
			b, _ := where(h, "B")
			return a >= 0 && a < b
		})
		require.Equal(t, "0: A\n\n0: B\n\n", small.String())
	})
	t.Run("at one time", func(t *testing.T) {
		h := noise()
		plant(h, 33, 2, "A")
		plant(h, 33, 1, "B")
		small := shrink(h, func(h history) bool {
			a, one := where(h, "A")
			b, other := where(h, "B")
			return a >= 0 && a == b && one != other
		})
		require.Len(t, small, 1)
		require.Len(t, small[0], 2)
		require.Contains(t, small.String(), "0: ")
	})
}

func TestHistoryText(t *testing.T) {
	h := history{{{0, []string{"A", "", "\x00\xff \"\\é"}}, {2, []string{"B"}}}, {{1, []string{"C", "x:y"}}}}
	require.Equal(t, h, parse("# a comment\n"+h.String()))
	require.Equal(t, h, parse(h.String()+"\n\n"))
}
