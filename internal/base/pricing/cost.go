package pricing

import (
	"math"
	"strconv"

	"github.com/whetstone-dev/whetstone/client/api"
)

// A Cost is what the requests of a subject cost in a window.
type Cost = api.Cost

// CostTokens are the tokens of a Cost.
type CostTokens = api.CostTokens

// Dollars converts millionths of a dollar.
func Dollars(micros int64) float64 { return float64(micros) / 1_000_000 }

// Format formats an amount for people: to the cent from a dollar on, and with up to
// three significant digits below, of the six places that amounts have. It is e.g.
// "$12.43", "$0.50" or "$0.000123".
func Format(dollars float64) string {
	if dollars == 0 || dollars >= 1 {
		return "$" + strconv.FormatFloat(dollars, 'f', 2, 64)
	}
	digits := min(2-int(math.Floor(math.Log10(dollars))), 6)
	text := strconv.FormatFloat(dollars, 'f', digits, 64)
	for len(text) > len("0.00") && text[len(text)-1] == '0' {
		text = text[:len(text)-1]
	}
	return "$" + text
}

// Standing returns what it costs a session of so many requests to have tokens in
// its cached context from the first one on, in dollars.
func (p Price) Standing(tokens int64, requests float64) float64 {
	perToken := float64(p.CacheWrite) + max(0, requests-1)*float64(p.CacheRead)
	return math.Round(float64(tokens)*perToken/picos) / 1_000_000
}
