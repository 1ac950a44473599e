package main

import (
	"math/rand/v2"
	"slices"
)

// bound is an estimate with its 95 % bound.
type bound struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

const resamples = 10_000

// bootstrap is the median of the values and the bound that resampling them gives.
func bootstrap(values []float64) bound {
	r := rand.New(rand.NewPCG(1, uint64(len(values)))) // the same figures give the same bound
	medians, sample := make([]float64, resamples), make([]float64, len(values))
	for i := range medians {
		for j := range sample {
			sample[j] = values[r.IntN(len(values))]
		}
		medians[i] = median(sample)
	}
	slices.Sort(medians)
	return bound{median(slices.Clone(values)), medians[resamples*25/1000], medians[resamples*975/1000]}
}

// median sorts its argument.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
