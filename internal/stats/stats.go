// Package stats has the statistics of pass rates on small samples.
package stats

import "math"

// z is the quantile of the normal distribution for 95 %.
const z = 1.96

// Wilson returns the Wilson score interval (95 % confidence) of a rate p in n trials;
// [0, 1] without trials.
func Wilson(p float64, n int) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	m := float64(n)
	scale := 1 + z*z/m
	centre := (p + z*z/(2*m)) / scale
	half := z * math.Sqrt(p*(1-p)/m+z*z/(4*m*m)) / scale
	return max(0, centre-half), min(1, centre+half)
}

// Gain is the normalised gain of a pass rate over its baseline: the share of
// the possible improvement that was reached.
func Gain(with, without float64) float64 {
	if without == 1 {
		if with == 1 {
			return 0
		}
		return -1
	}
	return (with - without) / (1 - without)
}

// McNemar is the exact two-sided p-value of McNemar's test on paired results: b cases
// passed only before, c only after.
func McNemar(b, c int) float64 {
	n := b + c
	tail, term := 0.0, math.Pow(0.5, float64(n))
	for i := range min(b, c) + 1 {
		tail += term
		term *= float64(n-i) / float64(i+1)
	}
	return min(1, 2*tail)
}
