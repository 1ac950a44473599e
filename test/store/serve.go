package store

import (
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Needs exits unless the environment has all the variables that the tests need.
func Needs(names ...string) {
	for _, name := range names {
		if os.Getenv(name) == "" {
			fmt.Fprintf(os.Stderr, "%s is not set, and `make test` sets it\n", name)
			os.Exit(1)
		}
	}
}

// Seed is the seed of a test's random histories: EMQ_SEED, or the clock. It is printed if the test fails.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("EMQ_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "EMQ_SEED")
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to see it again: EMQ_SEED=%d", seed)
		}
	})
	t.Logf("EMQ_SEED=%d", seed)
	return seed
}

// Rounds is the number of random histories of a test: EMQ_ROUNDS, or else long if EMQ_PROOF is set, or else short.
func Rounds(t testing.TB, short, long int) int {
	t.Helper()
	if text := os.Getenv("EMQ_ROUNDS"); text != "" {
		rounds, err := strconv.Atoi(text)
		require.NoError(t, err, "EMQ_ROUNDS")
		return rounds
	}
	if os.Getenv("EMQ_PROOF") != "" {
		return long
	}
	return short
}

// Histories numbers the random histories of a test: at least Rounds, and then more until each of the kinds is among the
// replies that the test counts. So even a short run has seen all of them.
func Histories(t testing.TB, short, long int, answers map[string]int, kinds ...string) iter.Seq[int] {
	rounds := Rounds(t, short, long)
	return func(yield func(int) bool) {
		for round := 0; ; round++ {
			if round >= rounds {
				kinds = slices.DeleteFunc(kinds, func(kind string) bool { return answers[kind] > 0 })
				if len(kinds) == 0 || t.Failed() {
					return
				}
				require.Less(t, round, rounds+most, "no history had the answers %q", kinds)
			}
			if !yield(round) {
				return
			}
		}
	}
}

// most is the largest number of additional histories.
const most = 2000
