package telemetry_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/otlp"
)

// otlpAttributes makes attributes of pairs: a name, then a value.
func otlpAttributes(pairs ...any) otlp.Attributes { return otlp.Attributes{attributes(pairs...)} }

// TestTokens: whatever a producer includes in its numbers, ours are disjoint.
func TestTokens(t *testing.T) {
	claude := func(a otlp.Attributes) (costs.Tokens, error) {
		tokens, _, err := telemetry.ClaudeUsage(a)
		return tokens, err
	}
	for name, test := range map[string]struct {
		read func(otlp.Attributes) (costs.Tokens, error)
		in   otlp.Attributes
		want costs.Tokens
	}{
		"Claude Code": {
			claude,
			otlpAttributes("input_tokens", 1000, "output_tokens", 50, "cache_read_tokens", 3000,
				"cache_creation_tokens", 200, "cache_creation_5m_tokens", 120, "cache_creation_1h_tokens", 80),
			costs.Tokens{Input: 1000, Output: 50, CacheRead: 3000, CacheWrite: 200, CacheWriteHour: 80},
		},
		"Codex: 1,200 of which 300 were cached are 900": {
			telemetry.CodexUsage,
			otlpAttributes("input_token_count", "1200", "cached_token_count", "300", "output_token_count", "40",
				"reasoning_token_count", "10", "tool_token_count", "1240"),
			costs.Tokens{Input: 900, Output: 40, CacheRead: 300},
		},
		"Codex with written tokens": {
			telemetry.CodexUsage,
			otlpAttributes("input_token_count", "1200", "cached_token_count", "300", "cache_write_token_count", "200", "output_token_count", "40"),
			costs.Tokens{Input: 700, Output: 40, CacheRead: 300, CacheWrite: 200},
		},
		"Gemini": {
			telemetry.GeminiUsage,
			otlpAttributes("input_token_count", 1200, "cached_content_token_count", 300, "output_token_count", 40,
				"thoughts_token_count", 60, "tool_token_count", 5, "total_token_count", 1305),
			costs.Tokens{Input: 905, Output: 100, CacheRead: 300},
		},
		"GenAI": {
			telemetry.GenAIUsage,
			otlpAttributes("gen_ai.usage.input_tokens", 1200, "gen_ai.usage.cache_read.input_tokens", 300,
				"gen_ai.usage.cache_creation.input_tokens", 200, "gen_ai.usage.output_tokens", 40, "gen_ai.usage.reasoning.output_tokens", 10),
			costs.Tokens{Input: 700, Output: 40, CacheRead: 300, CacheWrite: 200},
		},
		"Copilot: 1,210 of which 200 were written are 1,010": {
			telemetry.GenAIUsage,
			otlpAttributes("gen_ai.usage.input_tokens", 1210, "gen_ai.usage.cache_write.input_tokens", 200, "gen_ai.usage.output_tokens", 40),
			costs.Tokens{Input: 1010, Output: 40, CacheWrite: 200},
		},
		"GenAI, input without the cached": {
			telemetry.GenAIUsage,
			otlpAttributes("gen_ai.usage.input_tokens", 12, "gen_ai.usage.cache_read.input_tokens", 3000, "gen_ai.usage.output_tokens", 40),
			costs.Tokens{Input: 12, Output: 40, CacheRead: 3000},
		},
		"GenAI, old names": {
			telemetry.GenAIUsage, otlpAttributes("gen_ai.usage.prompt_tokens", 12.0, "gen_ai.usage.completion_tokens", "40"),
			costs.Tokens{Input: 12, Output: 40},
		},
		"Vercel AI SDK": {
			telemetry.GenAIUsage,
			otlpAttributes("ai.usage.inputTokens", 650361, "ai.usage.outputTokens", 369, "ai.usage.cachedInputTokens", 649452,
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
		"micros":  {otlpAttributes("cost_usd_micros", 5400, "cost_usd", 0.005399999999999999), 5400},
		"dollars": {otlpAttributes("cost_usd", 0.005399999999999999), 5400},
		"text":    {otlpAttributes("cost_usd", "1e-6"), 1},
		"free":    {otlpAttributes("cost_usd", 0.0), 0},
	} {
		if _, got, err := telemetry.ClaudeUsage(test.in); err != nil || got == nil || *got != test.want {
			t.Errorf("%s: %v, %v; want %d", name, got, err, test.want)
		}
	}
	if _, got, err := telemetry.ClaudeUsage(otlpAttributes("input_tokens", 1)); err != nil || got != nil {
		t.Errorf("without a price: %v, %v", got, err)
	}
}

// TestInvalid: what is no number is an error, and what reports none is no request.
func TestInvalid(t *testing.T) {
	for _, in := range []otlp.Attributes{
		otlpAttributes("input_tokens", "many"), otlpAttributes("input_tokens", 1.5), otlpAttributes("output_tokens", "NaN"),
		otlpAttributes("output_tokens", "Inf"), otlpAttributes("cache_read_tokens", "1e300"),
		otlpAttributes("input_tokens", "99999999999999999999"), otlpAttributes("cost_usd", "NaN"), otlpAttributes("cost_usd", "-Inf"),
		otlpAttributes("cost_usd", "1e300"), otlpAttributes("cost_usd_micros", 0.5),
	} {
		if _, _, err := telemetry.ClaudeUsage(in); err == nil || errors.Is(err, telemetry.ErrNoTokens) {
			t.Errorf("%v: %v, want an error", in, err)
		}
	}
	if _, err := telemetry.CodexUsage(otlpAttributes("event.kind", "response.completed")); !errors.Is(err, telemetry.ErrNoTokens) {
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
		var f telemetry.FactUsage
		if err := json.Unmarshal([]byte(in), &f); err != nil {
			t.Fatal(err)
		}
		if got, _, err := f.Read(); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{`{"input_tokens":true}`, `{"input_tokens":[1]}`, `{"cost_usd":"free"}`, `{"output_tokens":0.5}`} {
		var f telemetry.FactUsage
		if err := json.Unmarshal([]byte(in), &f); err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Read(); err == nil {
			t.Errorf("%s: no error", in)
		}
	}
	if _, _, err := (telemetry.FactUsage{}).Read(); !errors.Is(err, telemetry.ErrNoTokens) {
		t.Errorf("without tokens: %v", err)
	}
}
