package stats

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	require.Equal(t, 2.0, Median([]float64{3, 1, 2}))
	require.Equal(t, 2.5, Median([]float64{4, 1, 3, 2}))
}

func TestTheBoundHoldsTheMedianAndNarrows(t *testing.T) {
	var few, many []float64
	for i := range 400 {
		v := float64(i * 7919 % 101)
		if many = append(many, v); i < 10 {
			few = append(few, v)
		}
	}
	a, b := Bootstrap(few), Bootstrap(many)
	for _, x := range []Bound{a, b} {
		require.LessOrEqual(t, x.Low, x.Median)
		require.GreaterOrEqual(t, x.High, x.Median)
	}
	require.Less(t, b.High-b.Low, a.High-a.Low)
	require.Equal(t, a, Bootstrap(few), "the same figures give the same bound")
}

func TestRatioIsPartByPart(t *testing.T) {
	// Both double from the middle of the second pair on, as on a machine that is busy for a while: the ratio does not move.
	require.Equal(t, Bound{2, 2, 2}, Ratio([][]float64{{2, 2}, {2, 4}, {4, 4}}, [][]float64{{1, 1}, {1, 2}, {2, 2}}))
	// A part of one side that was disturbed does not count.
	require.Equal(t, Bound{2, 2, 2}, Ratio([][]float64{{2, 20, 2}}, [][]float64{{1, 1, 1}}))
}

func TestDifferenceIsPartByPart(t *testing.T) {
	require.Equal(t, Bound{5, 5, 5}, Difference([][]float64{{15, 25}, {105, 7}}, [][]float64{{10, 20}, {100, 2}}))
}
