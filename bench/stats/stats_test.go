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

func TestRatioIsPairByPair(t *testing.T) {
	// Both double in the second pair, as on a machine that is busy for a while: the ratio does not move.
	require.Equal(t, Bound{2, 2, 2}, Ratio([]float64{2, 4, 2}, []float64{1, 2, 1}))
}
