package pricing

import (
	"math"
	"regexp"
	"strconv"
	"strings"

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

var (
	// provider is what clouds and gateways put before a model's name, e.g.
	// "us.anthropic." or "openrouter/anthropic/".
	provider = regexp.MustCompile(`^(?:.*/)?(?:(?:us|eu|apac|au|jp|ca|global|us-gov)\.)?(?:(?:anthropic|openai|google)\.)?`)
	// variant is what they put behind it: the length of the context, a date, the
	// version of a deployment.
	variant = regexp.MustCompile(`(?:\[[^\]]*\]|[-@]20\d{6}|-20\d\d-\d\d-\d\d|-v\d+(?::\d+)*|:[a-z0-9]+|@default|-latest)$`)
)

// candidates are the names by which a model is looked up, in lower case: as
// reported, without its provider, and without the suffixes of that, which are
// removed one by one. Of "us.anthropic.claude-sonnet-4-5-20250929-v1:0" the last
// one is "claude-sonnet-4-5".
func candidates(model string) []string {
	model = strings.ToLower(strings.TrimSpace(model))
	names := []string{model}
	if plain := model[len(provider.FindString(model)):]; plain != model {
		names = append(names, plain)
	}
	for {
		last := names[len(names)-1]
		at := variant.FindStringIndex(last)
		if at == nil || at[0] == 0 {
			return names
		}
		names = append(names, last[:at[0]])
	}
}
