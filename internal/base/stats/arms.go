package stats

import (
	"math"

	"github.com/whetstone-dev/whetstone/client/api"
)

// A Count is how many of the decided trials of a case passed. Trials that ended
// as an error are in neither number.
type Count struct{ Passed, Decided int }

// Rate is the share of passes: the score of the case. It is NaN without a decided trial.
func (c Count) Rate() float64 { return float64(c.Passed) / float64(c.Decided) }

// An Estimate is a figure with its interval of 95 %.
type Estimate = api.EvalFigure

// Score is the mean of the scores of the decided cases. Its interval is Wilson's over
// cases, however often each was tried: it does not shrink with the number of trials. nil
// without a decided case.
func Score(cases []Count) *Estimate {
	n, sum := 0, 0.0
	for _, c := range cases {
		if c.Decided > 0 {
			n, sum = n+1, sum+c.Rate()
		}
	}
	if n == 0 {
		return nil
	}
	mean := sum / float64(n)
	low, high := Wilson(mean, n)
	return &Estimate{Value: mean, Interval: [2]float64{low, high}}
}

// A Comparison says how much better b does than a on the cases that both decided.
type Comparison struct {
	Cases         int
	Difference    float64    // mean of the differences of the cases' scores, b - a
	Interval      [2]float64 // Tango's, 95 %
	P             float64    // exact two-sided sign test over the cases that differ
	Better, Worse []int      // indices of cases where b is better or worse
	Up, Down      float64    // sums of the differences of those
}

// Compare compares two arms, whose counts of a case have the same index.
func Compare(a, b []Count) Comparison {
	c := Comparison{Better: []int{}, Worse: []int{}}
	for i := range a {
		if a[i].Decided == 0 || b[i].Decided == 0 {
			continue
		}
		c.Cases++
		switch d := b[i].Rate() - a[i].Rate(); {
		case d > 0:
			c.Better, c.Up = append(c.Better, i), c.Up+d
		case d < 0:
			c.Worse, c.Down = append(c.Worse, i), c.Down-d
		}
	}
	c.Difference = (c.Up - c.Down) / float64(max(1, c.Cases))
	c.Interval[0], c.Interval[1] = PairedDifference(c.Up, c.Down, c.Cases)
	c.P = McNemar(len(c.Worse), len(c.Better))
	return c
}

// minRatios is of how many cases a mean of ratios is told.
const minRatios = 5

// Ratio is the geometric mean of the ratios b[i]/a[i], with Student's interval on their
// logarithms. Pairs in which a value is not positive do not count; nil below 5 that do.
func Ratio(a, b []float64) *Estimate {
	var logs []float64
	sum := 0.0
	for i := range a {
		if a[i] > 0 && b[i] > 0 {
			logs = append(logs, math.Log(b[i]/a[i]))
			sum += logs[len(logs)-1]
		}
	}
	n := float64(len(logs))
	if n < minRatios {
		return nil
	}
	mean, squares := sum/n, 0.0
	for _, l := range logs {
		squares += (l - mean) * (l - mean)
	}
	half := student(len(logs)-1) * math.Sqrt(squares/(n-1)/n)
	return &Estimate{Value: math.Exp(mean), Interval: [2]float64{math.Exp(mean - half), math.Exp(mean + half)}}
}

// student is the quantile of Student's distribution with so many degrees of freedom
// between whose negative and itself 95 % lie.
func student(df int) float64 {
	low, high := z, 13.0 // 12.7 for one degree of freedom
	for range 60 {
		if t := (low + high) / 2; studentWithin(t, df) < 0.95 {
			low = t
		} else {
			high = t
		}
	}
	return (low + high) / 2
}

// studentWithin is the chance of a value between -t and t, by the finite series of
// Abramowitz and Stegun, 26.7.3 for an odd number of degrees of freedom and 26.7.4 for
// an even one.
func studentWithin(t float64, df int) float64 {
	angle := math.Atan(t / math.Sqrt(float64(df)))
	cos := math.Cos(angle)
	odd := df % 2
	term, sum := 1.0, 0.0
	if odd == 1 {
		term = cos
	}
	for k := 1 + odd; k < df; k += 2 {
		sum += term
		term *= cos * cos * float64(k) / float64(k+1)
	}
	sum *= math.Sin(angle)
	if odd == 1 {
		return 2 / math.Pi * (angle + sum)
	}
	return sum
}
