// Package stats answers one question: how sure is a figure that was measured several times?
package stats

import (
	"math/rand/v2"
	"slices"
)

// Bound is an estimate with its 95 % bound.
type Bound struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

const resamples = 10_000

// Bootstrap is the median of the values and the bound that resampling them gives.
func Bootstrap(values []float64) Bound {
	r := rand.New(rand.NewPCG(1, uint64(len(values)))) // the same figures give the same bound
	medians, sample := make([]float64, resamples), make([]float64, len(values))
	for i := range medians {
		for j := range sample {
			sample[j] = values[r.IntN(len(values))]
		}
		medians[i] = Median(sample)
	}
	slices.Sort(medians)
	return Bound{Median(values), medians[resamples*25/1000], medians[resamples*975/1000]}
}

// Ratio sets two figures against each other that were measured in turn, part by part, in pairs of so many parts. A
// pair's ratio is the median of its parts' ratios and not the ratio of their medians: on a machine that is now fast, now
// slow, the two medians may be of different speeds. The bound is over the pairs, since parts that follow each other are
// not independent.
func Ratio(over, under [][]float64) Bound {
	return inPairs(over, under, func(a, b float64) float64 { return a / b })
}

// Difference sets them against each other as Ratio does, by what the first is above the second.
func Difference(over, under [][]float64) Bound {
	return inPairs(over, under, func(a, b float64) float64 { return a - b })
}

func inPairs(over, under [][]float64, compare func(a, b float64) float64) Bound {
	pairs := make([]float64, min(len(over), len(under)))
	for i := range pairs {
		parts := make([]float64, min(len(over[i]), len(under[i])))
		for j := range parts {
			parts[j] = compare(over[i][j], under[i][j])
		}
		pairs[i] = Median(parts)
	}
	return Bootstrap(pairs)
}

// Median is the middle value, or the mean of the middle two.
func Median(values []float64) float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
