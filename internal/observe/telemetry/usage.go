package telemetry

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/otlp"
)

// errNoTokens means that a record reports no tokens: it is no request, or one that
// failed.
var errNoTokens = errors.New("no tokens")

// claudeUsage reads an api_request event. Its tokens are disjoint.
func claudeUsage(a otlp.Attributes) (costs.Tokens, *int64, error) {
	var p usageParser
	t := costs.Tokens{
		Input: p.count(a, "input_tokens"), Output: p.count(a, "output_tokens"), CacheRead: p.count(a, "cache_read_tokens"),
		CacheWrite: p.count(a, "cache_creation_tokens"), CacheWriteHour: p.count(a, "cache_creation_1h_tokens"),
	}
	price := p.micros(a.Text("cost_usd_micros"), a.Text("cost_usd"))
	return t, price, p.result(price != nil)
}

// codexUsage reads a codex.sse_event that says that a response is complete. Only one of
// the two that Codex logs for each has the tokens.
func codexUsage(a otlp.Attributes) (costs.Tokens, error) {
	var p usageParser
	t := disjointTokens(p.count(a, "input_token_count"), p.count(a, "cached_token_count"), p.count(a, "cache_write_token_count"))
	t.Output = p.count(a, "output_token_count")
	return t, p.result(false)
}

// geminiUsage reads a gemini_cli.api_response event. The tokens of thoughts are not part
// of its output, and those of tools not of its input.
func geminiUsage(a otlp.Attributes) (costs.Tokens, error) {
	var p usageParser
	t := disjointTokens(p.count(a, "input_token_count"), p.count(a, "cached_content_token_count"), 0)
	t.Input += p.count(a, "tool_token_count")
	t.Output = p.count(a, "output_token_count") + p.count(a, "thoughts_token_count")
	return t, p.result(false)
}

// genAIUsage reads the span of a model call by OpenTelemetry's conventions for generative
// AI, or of the Vercel AI SDK.
func genAIUsage(a otlp.Attributes) (costs.Tokens, error) {
	var p usageParser
	t := disjointTokens(
		p.count(a, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "ai.usage.inputTokens", "ai.usage.promptTokens"),
		p.count(a, "gen_ai.usage.cache_read.input_tokens", "ai.usage.inputTokenDetails.cacheReadTokens",
			"ai.usage.cachedInputTokens"),
		p.count(a, "gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_write.input_tokens",
			"ai.usage.inputTokenDetails.cacheWriteTokens"),
	)
	t.Output = p.count(a, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "ai.usage.outputTokens",
		"ai.usage.completionTokens")
	return t, p.result(false)
}

// A number is a number in JSON, or one in a string; "" when it is missing.
type number string

// UnmarshalJSON implements json.Unmarshaler. What is no number is refused when it
// is read.
func (n *number) UnmarshalJSON(raw []byte) error {
	if text := strings.Trim(string(raw), `"`); text != "null" {
		*n = number(text)
	}
	return nil
}

// Count returns a number of things; nil if it is missing or none.
func (n number) Count() *int64 {
	count, err := strconv.ParseInt(string(n), 10, 64)
	if err != nil || count < 0 {
		return nil
	}
	return &count
}

// A factUsage has the fields of an execution_fact of a push about its tokens: the sum
// of the requests of a turn or a session.
type factUsage struct {
	Input  number `json:"input_tokens"`
	Output number `json:"output_tokens"`
	Cached number `json:"cached_input_tokens"`
	Cost   number `json:"cost_usd"`
}

// Read reads the tokens and the price.
func (f factUsage) Read() (costs.Tokens, *int64, error) {
	var p usageParser
	t := disjointTokens(p.number("input_tokens", f.Input), p.number("cached_input_tokens", f.Cached), 0)
	t.Output = p.number("output_tokens", f.Output)
	price := p.micros("", string(f.Cost))
	return t, price, p.result(price != nil)
}

// A messageUsage has the fields of a model_request of a push about its tokens. They are
// disjoint, as in the API of Claude.
type messageUsage struct {
	Input          number `json:"input_tokens"`
	Output         number `json:"output_tokens"`
	CacheRead      number `json:"cache_read_tokens"`
	CacheWrite     number `json:"cache_creation_tokens"`
	CacheWriteHour number `json:"cache_creation_1h_tokens"`
}

// Read reads the tokens.
func (m messageUsage) Read() (costs.Tokens, error) {
	var p usageParser
	t := costs.Tokens{
		Input: p.number("input_tokens", m.Input), Output: p.number("output_tokens", m.Output),
		CacheRead: p.number("cache_read_tokens", m.CacheRead), CacheWrite: p.number("cache_creation_tokens", m.CacheWrite),
		CacheWriteHour: p.number("cache_creation_1h_tokens", m.CacheWriteHour),
	}
	return t, p.result(false)
}

// A usageParser parses numbers and keeps the first error.
type usageParser struct {
	found bool // there was a number
	err   error
}

// count parses the first of some attributes that is there.
func (p *usageParser) count(a otlp.Attributes, keys ...string) int64 {
	for _, key := range keys {
		if text := a.Text(key); text != "" {
			return p.number(key, number(text))
		}
	}
	return 0
}

func (p *usageParser) number(name string, n number) int64 {
	if n == "" {
		return 0
	}
	p.found = true
	count, err := strconv.ParseInt(string(n), 10, 64)
	if err == nil {
		return count
	}
	// Some write whole numbers as 12.0 or 1e3.
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		p.fail(fmt.Errorf("%s must be a whole number", name))
		return 0
	}
	return int64(f)
}

// micros parses a price in millionths of a dollar, or in dollars.
func (p *usageParser) micros(micros, dollars string) *int64 {
	if micros != "" {
		price := p.number("cost_usd_micros", number(micros))
		return &price
	}
	if dollars == "" {
		return nil
	}
	f, err := strconv.ParseFloat(dollars, 64)
	if f = math.Round(f * 1e6); err != nil || math.IsNaN(f) || math.Abs(f) > 1<<53 {
		p.fail(errors.New("cost_usd must be a number of dollars"))
		return nil
	}
	price := int64(f)
	return &price
}

// disjointTokens returns the tokens of an input that includes those of the cache. Where
// these are more than the input, the producer has left them out of it.
func disjointTokens(input, read, write int64) costs.Tokens {
	if cached := read + write; cached <= input {
		input -= cached
	}
	return costs.Tokens{Input: input, CacheRead: read, CacheWrite: write}
}

func (p *usageParser) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// result is the first error, or ErrNone if there is no number and no price either.
func (p *usageParser) result(priced bool) error {
	if p.err == nil && !p.found && !priced {
		return errNoTokens
	}
	return p.err
}
