package costs_test

import (
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/observe/costs"
)

func TestCheck(t *testing.T) {
	price := func(micros int64) *int64 { return &micros }
	const most = costs.MaxTokens
	for name, test := range map[string]struct {
		request costs.Request
		ok      bool
	}{
		"nothing":             {costs.Request{}, true},
		"the most tokens":     {costs.Request{Tokens: costs.Tokens{Input: most, Output: most, CacheRead: most, CacheWrite: most, CacheWriteHour: most}}, true},
		"the highest cost":    {costs.Request{Micros: price(costs.MaxMicros)}, true},
		"free":                {costs.Request{Micros: price(0)}, true},
		"negative input":      {costs.Request{Tokens: costs.Tokens{Input: -1}}, false},
		"too much input":      {costs.Request{Tokens: costs.Tokens{Input: most + 1}}, false},
		"too much output":     {costs.Request{Tokens: costs.Tokens{Output: most + 1}}, false},
		"too much read":       {costs.Request{Tokens: costs.Tokens{CacheRead: most + 1}}, false},
		"too much written":    {costs.Request{Tokens: costs.Tokens{CacheWrite: most + 1}}, false},
		"part over whole":     {costs.Request{Tokens: costs.Tokens{CacheWrite: 1, CacheWriteHour: 2}}, false},
		"negative cost":       {costs.Request{Micros: price(-1)}, false},
		"over 10,000 dollars": {costs.Request{Micros: price(10_000_000_001)}, false},
		"long model":          {costs.Request{Model: strings.Repeat("m", 201)}, false},
	} {
		if err := test.request.Check(); (err == nil) != test.ok {
			t.Errorf("%s: %v, want ok %v", name, err, test.ok)
		}
	}
}
