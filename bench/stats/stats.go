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
	return Bound{Median(slices.Clone(values)), medians[resamples*25/1000], medians[resamples*975/1000]}
}

// Ratio sets two figures against each other that were measured in turn, pair by pair.
func Ratio(over, under []float64) Bound {
	ratios := make([]float64, min(len(over), len(under)))
	for i := range ratios {
		ratios[i] = over[i] / under[i]
	}
	return Bootstrap(ratios)
}

// Median sorts its argument.
func Median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
