// Package verify decides deterministic eval cases: whether an output is the
// expected one, fits a schema or makes an assertion true. A check is compiled
// once for a case and asked about every trial; it reads what it is given,
// changes nothing, and is bounded in time and memory. It owns no tables.
package verify

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A Check decides one case. It may be asked by several goroutines. An error
// means that there is no verdict: the case itself is broken, or asks for too
// much.
type Check func(ctx context.Context, s Sample) (Result, error)

// A Sample is what one trial brought about.
type Sample struct {
	Output   string
	Duration time.Duration
	// ExitCode is nil when no process was run.
	ExitCode *int
	// Files are the texts of the files that a command left, by path; nil when no
	// process was run.
	Files map[string]string
}

// A Result is a verdict and why.
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

// maxQuote is how many bytes of foreign text a piece of evidence shows.
const maxQuote = 80

// quote shows a text on one line, shortened.
func quote(text string) string {
	if len(text) <= maxQuote {
		return strconv.Quote(text)
	}
	return strconv.Quote(cut(text, maxQuote)) + "..."
}

// cut is the beginning of a text, at most so many bytes, without half a
// character at its end.
func cut(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return strings.ToValidUTF8(text[:size], "\uFFFD")
}
