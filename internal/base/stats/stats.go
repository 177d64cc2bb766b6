// Package stats has the statistics of pass rates on small samples.
package stats

import (
	"cmp"
	"math"
	"slices"
)

// z is the quantile of the normal distribution for 95 %.
const z = 1.959963985

// Wilson returns the confidence interval of a rate, e.g. a pass rate: the Wilson score
// interval (95 %) of a rate p in n trials;
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

// StandardError is that of a rate p in n trials. One more pass and one more failure
// keep it above 0 where all trials agree (Agresti and Coull).
func StandardError(p float64, n int) float64 {
	m := float64(n) + 2
	p = (p*float64(n) + 1) / m
	return math.Sqrt(p * (1 - p) / m)
}

// MedianRank is the rank, from 1, of the ordered value that is the lower end of the 95 %
// interval of the median of n values, whatever their distribution; 0 below 6 values.
func MedianRank(n int) int {
	if n < 6 {
		return 0
	}
	tail, rank := 0.0, 0
	for {
		tail += math.Exp(choose(n, rank) - float64(n)*math.Ln2)
		if tail > 0.025 {
			return rank
		}
		rank++
	}
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

// SignTest is the exact one-sided p-value of the hypothesis that a change does
// no harm, when it made worse cases worse and better ones better; the cases
// without a difference do not count.
func SignTest(worse, better int) float64 {
	n := worse + better
	tail, term := 0.0, math.Pow(0.5, float64(n))
	for i := range better + 1 {
		tail += term
		term *= float64(n-i) / float64(i+1)
	}
	return min(1, tail)
}

// MidP is the one-sided mid-p-value of the hypothesis that a change is no
// improvement, when it made better cases better and worse ones worse: the exact
// sign test is conservative on few cases, and counts the observed outcome by half
// here (Fagerland, Lydersen and Laake 2013).
func MidP(better, worse int) float64 {
	n := better + worse
	observed := math.Exp(choose(n, better) - float64(n)*math.Ln2)
	return SignTest(better, worse) - observed/2
}

// Fisher is the exact one-sided p-value of the hypothesis that a case passes as
// often now (passed of n) as it did before.
func Fisher(passed, n, passedBefore, nBefore int) float64 {
	if n == 0 || nBefore == 0 {
		return 1
	}
	total := passed + passedBefore
	all := choose(n+nBefore, total)
	p := 0.0
	for k := max(0, total-nBefore); k <= passed; k++ {
		p += math.Exp(choose(n, k) + choose(nBefore, total-k) - all)
	}
	return min(1, p)
}

// choose is the logarithm of the binomial coefficient.
func choose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// HarmEvidence is the e-value of the hypothesis that a change does no harm. It
// may be looked at after every case: whatever the rule to stop, the chance that
// it ever reaches 1/α without harm is at most α.
func HarmEvidence(worse, better int) float64 {
	// 2^(n+1) B(w+1, b+1) P(Beta(w+1, b+1) > 1/2), the last factor as a binomial
	// tail: the chance of at most w heads in n+1 tosses.
	n := worse + better
	tail := 0.0
	for i := range worse + 1 {
		tail += math.Exp(choose(n+1, i))
	}
	return tail / (float64(n+1) * math.Exp(choose(n, worse)))
}

// PairedDifference is Tango's score interval (95 % confidence) of the difference
// of two rates over the same n cases, of which better are better and worse are
// worse than before. Where cases are better or worse by a part, they are the sums of
// the parts.
func PairedDifference(better, worse float64, n int) (low, high float64) {
	if n == 0 {
		return -1, 1
	}
	// The score falls as d grows.
	root := func(target float64) float64 {
		below, above := -1.0, 1.0
		for range 60 {
			if d := (below + above) / 2; tango(better, worse, n, d) > target {
				below = d
			} else {
				above = d
			}
		}
		return (below + above) / 2
	}
	return root(z), root(-z)
}

// tango is the score of the hypothesis that the rates differ by d.
func tango(b, c float64, n int, d float64) float64 {
	m := float64(n)
	p := -b - c + (2*m-b+c)*d
	q := (math.Sqrt(p*p+8*m*c*d*(1-d)) - p) / (4 * m)
	excess := b - c - m*d
	if excess == 0 {
		return 0 // also where the variance is 0
	}
	return excess / math.Sqrt(max(0, m*(2*q+d*(1-d))))
}

// NotWorse is the one-sided p-value of the hypothesis that a change makes a rate worse by
// margin or more, by the test of which PairedDifference is the interval: it is at most 0.025
// where the lower end of that is at least -margin.
func NotWorse(better, worse float64, n int, margin float64) float64 {
	if n == 0 {
		return 1
	}
	return math.Erfc(tango(better, worse, n, -margin)/math.Sqrt2) / 2
}

// Holm adjusts the p-values of several tests so that comparing each with α keeps
// the chance of any false rejection at most α.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	adjusted := make([]float64, len(p))
	highest := 0.0
	for rank, i := range order {
		highest = max(highest, min(1, float64(len(p)-rank)*p[i]))
		adjusted[i] = highest
	}
	return adjusted
}
