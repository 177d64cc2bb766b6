package pricing

import (
	"math"
	"strconv"
)

// A Cost is what the requests of a subject cost in a window, in dollars rounded to
// millionths. A figure is null where it is unknown, which is not the same as 0.
type Cost struct {
	Currency   string     `json:"currency" enum:"USD"`
	PerUseP50  *float64   `json:"per_use_p50" doc:"Median over the uses whose cost is known"`
	PerUseP95  *float64   `json:"per_use_p95"`
	PerSuccess *float64   `json:"per_success" doc:"Cost of graded sessions by the sum of their pass rates; null without a pass"`
	Total      *float64   `json:"total" doc:"Of the requests whose price is known; null if none is"`
	Tokens     CostTokens `json:"tokens"`
	Requests   int64      `json:"requests"`
	Basis      *string    `json:"basis" enum:"reported,priced,mixed" doc:"Whether agents reported the money, or it is tokens at our prices; null if no price is known"`
	Unpriced   int64      `json:"unpriced_requests" doc:"Requests whose price is unknown: no part of any sum of money"`
	Standing   *float64   `json:"standing_per_session" doc:"Estimate of what listing the skill costs each session"`
	Load       *float64   `json:"load_per_use" doc:"Estimate of what loading SKILL.md costs each use"`
	// Uses are those whose cost is known, and PerUseLow the lower end of the 95 % interval
	// of their median; nil below 6 uses.
	Uses      int64    `json:"-"`
	PerUseLow *float64 `json:"-"`
}

// CostTokens are the tokens of a Cost.
type CostTokens struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
}

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
