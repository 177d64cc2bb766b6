package usage_test

import (
	"encoding/json"
	"errors"
	"testing"

	common "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/otlp"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/usage"
)

// attributes makes attributes of pairs: a name, then a value.
func attributes(pairs ...any) otlp.Attributes {
	var all []*common.KeyValue
	for i := 0; i < len(pairs); i += 2 {
		v := &common.AnyValue{}
		switch value := pairs[i+1].(type) {
		case string:
			v.Value = &common.AnyValue_StringValue{StringValue: value}
		case int:
			v.Value = &common.AnyValue_IntValue{IntValue: int64(value)}
		case float64:
			v.Value = &common.AnyValue_DoubleValue{DoubleValue: value}
		}
		all = append(all, &common.KeyValue{Key: pairs[i].(string), Value: v})
	}
	return otlp.Attributes{all}
}

// TestTokens: whatever a producer includes in its numbers, ours are disjoint.
func TestTokens(t *testing.T) {
	claude := func(a otlp.Attributes) (costs.Tokens, error) {
		tokens, _, err := usage.ClaudeCode(a)
		return tokens, err
	}
	for name, test := range map[string]struct {
		read func(otlp.Attributes) (costs.Tokens, error)
		in   otlp.Attributes
		want costs.Tokens
	}{
		"Claude Code": {
			claude,
			attributes("input_tokens", 1000, "output_tokens", 50, "cache_read_tokens", 3000,
				"cache_creation_tokens", 200, "cache_creation_5m_tokens", 120, "cache_creation_1h_tokens", 80),
			costs.Tokens{Input: 1000, Output: 50, CacheRead: 3000, CacheWrite: 200, CacheWriteHour: 80},
		},
		"Codex: 1,200 of which 300 were cached are 900": {
			usage.Codex,
			attributes("input_token_count", "1200", "cached_token_count", "300", "output_token_count", "40",
				"reasoning_token_count", "10", "tool_token_count", "1240"),
			costs.Tokens{Input: 900, Output: 40, CacheRead: 300},
		},
		"Codex with written tokens": {
			usage.Codex,
			attributes("input_token_count", "1200", "cached_token_count", "300", "cache_write_token_count", "200", "output_token_count", "40"),
			costs.Tokens{Input: 700, Output: 40, CacheRead: 300, CacheWrite: 200},
		},
		"Gemini": {
			usage.Gemini,
			attributes("input_token_count", 1200, "cached_content_token_count", 300, "output_token_count", 40,
				"thoughts_token_count", 60, "tool_token_count", 5, "total_token_count", 1305),
			costs.Tokens{Input: 905, Output: 100, CacheRead: 300},
		},
		"GenAI": {
			usage.GenAI,
			attributes("gen_ai.usage.input_tokens", 1200, "gen_ai.usage.cache_read.input_tokens", 300,
				"gen_ai.usage.cache_creation.input_tokens", 200, "gen_ai.usage.output_tokens", 40, "gen_ai.usage.reasoning.output_tokens", 10),
			costs.Tokens{Input: 700, Output: 40, CacheRead: 300, CacheWrite: 200},
		},
		"Copilot: 1,210 of which 200 were written are 1,010": {
			usage.GenAI,
			attributes("gen_ai.usage.input_tokens", 1210, "gen_ai.usage.cache_write.input_tokens", 200, "gen_ai.usage.output_tokens", 40),
			costs.Tokens{Input: 1010, Output: 40, CacheWrite: 200},
		},
		"GenAI, input without the cached": {
			usage.GenAI,
			attributes("gen_ai.usage.input_tokens", 12, "gen_ai.usage.cache_read.input_tokens", 3000, "gen_ai.usage.output_tokens", 40),
			costs.Tokens{Input: 12, Output: 40, CacheRead: 3000},
		},
		"GenAI, old names": {
			usage.GenAI, attributes("gen_ai.usage.prompt_tokens", 12.0, "gen_ai.usage.completion_tokens", "40"),
			costs.Tokens{Input: 12, Output: 40},
		},
		"Vercel AI SDK": {
			usage.GenAI,
			attributes("ai.usage.inputTokens", 650361, "ai.usage.outputTokens", 369, "ai.usage.cachedInputTokens", 649452,
				"ai.usage.inputTokenDetails.cacheReadTokens", 649452, "ai.usage.inputTokenDetails.cacheWriteTokens", 907,
				"gen_ai.usage.input_tokens", 650361, "gen_ai.usage.output_tokens", 369),
			costs.Tokens{Input: 2, Output: 369, CacheRead: 649452, CacheWrite: 907},
		},
	} {
		if got, err := test.read(test.in); err != nil || got != test.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, test.want)
		}
	}
}

// TestPrice: the exact price wins over the one that is rounded.
func TestPrice(t *testing.T) {
	for name, test := range map[string]struct {
		in   otlp.Attributes
		want int64
	}{
		"micros":  {attributes("cost_usd_micros", 5400, "cost_usd", 0.005399999999999999), 5400},
		"dollars": {attributes("cost_usd", 0.005399999999999999), 5400},
		"text":    {attributes("cost_usd", "1e-6"), 1},
		"free":    {attributes("cost_usd", 0.0), 0},
	} {
		if _, got, err := usage.ClaudeCode(test.in); err != nil || got == nil || *got != test.want {
			t.Errorf("%s: %v, %v; want %d", name, got, err, test.want)
		}
	}
	if _, got, err := usage.ClaudeCode(attributes("input_tokens", 1)); err != nil || got != nil {
		t.Errorf("without a price: %v, %v", got, err)
	}
}

// TestInvalid: what is no number is an error, and what reports none is no request.
func TestInvalid(t *testing.T) {
	for _, in := range []otlp.Attributes{
		attributes("input_tokens", "many"), attributes("input_tokens", 1.5), attributes("output_tokens", "NaN"),
		attributes("output_tokens", "Inf"), attributes("cache_read_tokens", "1e300"),
		attributes("input_tokens", "99999999999999999999"), attributes("cost_usd", "NaN"), attributes("cost_usd", "-Inf"),
		attributes("cost_usd", "1e300"), attributes("cost_usd_micros", 0.5),
	} {
		if _, _, err := usage.ClaudeCode(in); err == nil || errors.Is(err, usage.ErrNone) {
			t.Errorf("%v: %v, want an error", in, err)
		}
	}
	if _, err := usage.Codex(attributes("event.kind", "response.completed")); !errors.Is(err, usage.ErrNone) {
		t.Errorf("without tokens: %v", err)
	}
}

// TestFact: clients send numbers, numbers as text, null or nothing.
func TestFact(t *testing.T) {
	for in, want := range map[string]costs.Tokens{
		`{"input_tokens":1200,"cached_input_tokens":300,"output_tokens":40}`:    {Input: 900, CacheRead: 300, Output: 40},
		`{"input_tokens":"12","cached_input_tokens":null,"output_tokens":40.0}`: {Input: 12, Output: 40},
		`{"output_tokens":1e3}`: {Output: 1000},
	} {
		var f usage.Fact
		if err := json.Unmarshal([]byte(in), &f); err != nil {
			t.Fatal(err)
		}
		if got, _, err := f.Read(); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{`{"input_tokens":true}`, `{"input_tokens":[1]}`, `{"cost_usd":"free"}`, `{"output_tokens":0.5}`} {
		var f usage.Fact
		if err := json.Unmarshal([]byte(in), &f); err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Read(); err == nil {
			t.Errorf("%s: no error", in)
		}
	}
	if _, _, err := (usage.Fact{}).Read(); !errors.Is(err, usage.ErrNone) {
		t.Errorf("without tokens: %v", err)
	}
}
