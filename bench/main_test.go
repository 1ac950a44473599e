package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/bench/stats"
	"emq/commands"
)

func TestAllOrdersTakeTurns(t *testing.T) {
	seen := map[string]bool{}
	for turn := range 6 {
		order := []int{}
		for i := range 3 {
			order = append(order, place(i, turn, 3))
		}
		require.ElementsMatch(t, []int{0, 1, 2}, order, "everybody once")
		seen[fmt.Sprint(order)] = true
	}
	require.Len(t, seen, 6)
}

// floor/steps.h reads what the plans name, in C: a plan that changes is changed there as well, and then here.
func TestTheStepsReadWhatThePlansName(t *testing.T) {
	type reads struct {
		keys   []commands.Key
		values []commands.Field
		probes []commands.Probe
	}
	const pending, active = commands.KeyPending, commands.KeyActive
	const state, attempts, group, parent = commands.FieldState, commands.FieldAttempts, commands.FieldGroup, commands.FieldParent
	var gates []commands.Probe
	of := []commands.Field{
		commands.FieldPaused, commands.FieldPausedUntil, commands.FieldConcurrency, commands.FieldMax, commands.FieldDuration,
		commands.FieldWindow, commands.FieldUsed,
	}
	for i, f := range of {
		gates = append(gates, commands.Probe{Key: commands.KeyMeta, Field: f, More: uint8(len(of) - 1 - i)})
	}
	for verb, want := range map[commands.Verb]reads{
		commands.Enqueue: {keys: []commands.Key{pending}},
		// A queue without meta has no gates to read.
		commands.Claim: {[]commands.Key{pending, active, commands.KeyMeta}, []commands.Field{state, attempts, commands.FieldPayload}, gates},
		commands.Complete: {[]commands.Key{active, pending, commands.KeyCompleted}, []commands.Field{state, attempts, group, parent},
			[]commands.Probe{{Key: commands.KeyCompleted, Field: commands.FieldCount}}},
		commands.Fail: {[]commands.Key{active, pending, commands.KeySchedule, commands.KeyDead},
			[]commands.Field{state, attempts, commands.FieldFailures, group, parent},
			[]commands.Probe{{Key: commands.KeyFailed, Field: commands.FieldCount}}},
	} {
		c := &commands.Table[verb]
		require.Equal(t, want, reads{c.Plan.Keys, c.Plan.Values, c.Plan.Probes}, c.Name)
	}
}

func TestExecutorsAreComparedPartByPart(t *testing.T) {
	r := &result{Legs: []*leg{
		{Executor: "a", Job: []float64{2, 6, 6}, P95: 30}, {Executor: "b", Job: []float64{1, 3, 1}, P95: 10},
		{Executor: "b", Job: []float64{3, 3, 3}, P95: 10}, {Executor: "a", Job: []float64{6, 6, 6}, P95: 30},
	}}
	b, ok := r.compare("a", "b", metrics[0])
	require.True(t, ok)
	require.Equal(t, stats.Bound{Median: 2, Low: 2, High: 2}, b)
	b, _ = r.compare("a", "b", metric{of: func(l *leg) []float64 { return []float64{l.P95} }})
	require.Equal(t, stats.Bound{Median: 3, Low: 3, High: 3}, b, "of all parts there is one tail")
	require.Equal(t, 6.0, r.median("a", metrics[0]))
	_, ok = r.compare("a", "nobody", metrics[0])
	require.False(t, ok)
}

func TestSettingsOfTheExample(t *testing.T) {
	args, err := settingsOf(exampleConf)
	require.NoError(t, err)
	require.Contains(t, args, "--hash-max-listpack-value")
	require.NotContains(t, args, "--loadmodule")
	require.NotContains(t, args, "--appendonly")
}

func TestWaysToWaitAreComparedAmongThoseWhoWaitBeside(t *testing.T) {
	legs := func(us map[string]float64) (legs []*leg) {
		for way, p50 := range us {
			legs = append(legs, &leg{Executor: way, P50: []float64{p50, 2 * p50}, P99: 10 * p50, Samples: 7})
		}
		return legs
	}
	w := &wait{Scene: scenes[3], Beside: &result{Legs: legs(map[string]float64{ours: 20, bare: 10, plain: 40})}}
	w.Legs = append(legs(map[string]float64{ours: 30, bare: 20, plain: 60}), legs(map[string]float64{ours: 30, bare: 20, plain: 60})...)
	(&report{Wait: []*wait{w}}).summarizeWait()
	require.Equal(t, stats.Bound{Median: 15, Low: 15, High: 15}, w.Over["p50"])
	require.Equal(t, stats.Bound{Median: 100, Low: 100, High: 100}, w.Over["p99"])
	require.Equal(t, stats.Bound{Median: 0.5, Low: 0.5, High: 0.5}, w.Ratios[plain]["p50"])
	require.Equal(t, stats.Bound{Median: 2, Low: 2, High: 2}, w.Growth[bare])
	require.Equal(t, stats.Bound{Median: 1.5, Low: 1.5, High: 1.5}, w.Growth[ours])
	require.EqualValues(t, 14, w.jobs(ours))
}

func TestBatchesFillTheirPipelines(t *testing.T) {
	for batch, want := range map[int]int{0: 64, 1: 64, 10: 60, 100: 100, 1000: 1000} {
		e := batchesOf(batch, 3)
		require.Equal(t, want, e.pipeline(base), batch)
		require.Zero(t, e.whole(1024, base)%want, batch)
		require.Equal(t, want, e.whole(1, base), batch)
	}
	require.Equal(t, "EMQ.MCLAIM", batched[0].stat("CLAIM"))
}
