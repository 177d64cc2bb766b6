// Package verify decides deterministic eval cases: whether an output is the expected
// one, conforms to a JSON Schema, makes an assertion true or satisfies graders. A check
// is compiled once per case and evaluated for every trial. It is a pure function,
// bounded in time and memory, since both the case and the output come from users. It
// owns no tables.
package verify

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// A Check decides one case. It is safe for concurrent use. An error means that
// there is no verdict: the case itself is broken, or too expensive to check.
type Check func(ctx context.Context, s Sample) (Result, error)

// A Sample is what one trial produced.
type Sample struct {
	Output   string
	Duration time.Duration
	// ExitCode is nil when no process was run.
	ExitCode *int
	// Files are the texts of the files that a command left, by path; nil when no
	// process was run.
	Files map[string]string
	// Agent is what an agent did; nil when none took part.
	Agent *Agent
}

// An Agent is what an agent did in a trial.
type Agent struct {
	Activated *bool    // whether it activated the skill; nil if that is not known
	Tools     []string // that it called, each once
	Calls     []ToolCall
	Turns     int
	Tokens    int64    // of all kinds
	CostUSD   *float64 // nil if the price is not known
}

// A ToolCall is a call of a tool that the model asked for.
type ToolCall struct {
	Tool  string
	Input string // JSON, or a text for some tools
}

// A Result is a verdict and the reason for it.
type Result struct {
	Pass     bool
	Evidence string
}

func pass(format string, args ...any) (Result, error) {
	return Result{Pass: true, Evidence: fmt.Sprintf(format, args...)}, nil
}

func fail(format string, args ...any) (Result, error) {
	return Result{Evidence: fmt.Sprintf(format, args...)}, nil
}

// maxQuote is how many bytes of a user's text the evidence quotes.
const maxQuote = 80

// quote returns a text as a Go string literal, truncated.
func quote(s string) string {
	if len(s) <= maxQuote {
		return strconv.Quote(s)
	}
	return strconv.Quote(truncate(s, maxQuote)) + "..."
}

// truncate returns at most limit bytes of a text, as valid UTF-8.
func truncate(s string, limit int) string {
	return strings.ToValidUTF8(text.Truncate(s, limit), "\uFFFD")
}
