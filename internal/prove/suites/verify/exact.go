package verify

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Normalization removes a difference between the output and the expected text
// that does not matter.
type Normalization string

// The normalizations.
const (
	Trim       Normalization = "trim"       // white space at both ends
	Case       Normalization = "case"       // upper and lower case
	Whitespace Normalization = "whitespace" // the amount and kind of white space
	Newline    Normalization = "newline"    // CRLF, CR and LF, and one at the end
)

// newlines unifies the ends of lines.
var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n")

func (n Normalization) apply(text string) (string, error) {
	switch n {
	case Trim:
		return strings.TrimSpace(text), nil
	case Case:
		return strings.ToLower(text), nil
	case Whitespace:
		return strings.Join(strings.Fields(text), " "), nil
	case Newline:
		return strings.TrimSuffix(newlines.Replace(text), "\n"), nil
	}
	return "", fmt.Errorf("unknown normalization %s", quote(string(n)))
}

// normalized applies normalizations one after the other.
func normalized(text string, by []Normalization) (_ string, err error) {
	for _, n := range by {
		if text, err = n.apply(text); err != nil {
			return "", err
		}
	}
	return text, nil
}

// MaxNormalizations bounds the list, repetitions included: each is one more pass
// over the output.
const MaxNormalizations = 10

// Exact returns a check that passes outputs equal to the expected text, after both were
// normalized.
func Exact(expected string, by []Normalization) (Check, error) {
	if len(by) > MaxNormalizations {
		return nil, fmt.Errorf("there are more than %d normalizations", MaxNormalizations)
	}
	expected, err := normalized(expected, by)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, s Sample) (Result, error) {
		got, err := normalized(s.Output, by)
		if err != nil {
			return Result{}, err
		}
		if got == expected {
			return pass("the output is as expected")
		}
		return fail("%s", firstDifference(expected, got))
	}, nil
}

// contextBytes is how many bytes before a difference are shown.
const contextBytes = 20

// firstDifference says where two texts differ, and how each continues there.
func firstDifference(expected, got string) string {
	at := 0
	for at < len(expected) && at < len(got) && expected[at] == got[at] {
		at++
	}
	for at > 0 && !startsRune(expected, at) {
		at--
	}
	line := 1 + strings.Count(expected[:at], "\n")
	lineStart := strings.LastIndexByte(expected[:at], '\n') + 1
	column := 1 + utf8.RuneCountInString(expected[lineStart:at])
	from := max(lineStart, at-contextBytes)
	for from > lineStart && !startsRune(expected, from) {
		from--
	}
	return fmt.Sprintf("first difference at line %d, column %d: expected %s, got %s",
		line, column, quote(expected[from:]), quote(got[from:]))
}

func startsRune(text string, at int) bool { return at >= len(text) || utf8.RuneStart(text[at]) }
