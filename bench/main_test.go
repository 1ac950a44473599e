package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAllOrdersTakeTurns(t *testing.T) {
	seen := map[string]bool{}
	for pair := range 6 {
		order := []int{}
		for i := range 3 {
			order = append(order, place(i, pair, 3))
		}
		require.ElementsMatch(t, []int{0, 1, 2}, order, "everybody once")
		seen[fmt.Sprint(order)] = true
	}
	require.Len(t, seen, 6)
}

func TestSettingsOfTheExample(t *testing.T) {
	args, err := settingsOf("../" + exampleConf)
	require.NoError(t, err)
	require.Contains(t, args, "--hash-max-listpack-value")
	require.NotContains(t, args, "--loadmodule")
	require.NotContains(t, args, "--appendonly")
}
