package verify

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// maxDigits and maxExponent bound the numbers of schemas and outputs. The
	// library uses exact arithmetic, in which 1e9999999 takes three megabytes.
	maxDigits   = 1000
	maxExponent = 400
	// maxDepth bounds the nesting of their arrays and objects.
	maxDepth = 100
)

// parseValue parses JSON for the validation against a schema, and returns the
// depth of its nesting.
func parseValue(text string) (value any, depth int, err error) {
	if value, err = jsonschema.UnmarshalJSON(strings.NewReader(text)); err != nil {
		return nil, 0, err
	}
	depth, err = checkValue(value, 0)
	return value, depth, err
}

func checkValue(value any, above int) (depth int, err error) {
	if above > maxDepth {
		return 0, fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}
	depth = above
	check := func(member any) {
		if err == nil {
			var d int
			d, err = checkValue(member, above+1)
			depth = max(depth, d)
		}
	}
	switch v := value.(type) {
	case json.Number:
		err = checkNumber(string(v))
	case []any:
		for _, member := range v {
			check(member)
		}
	case map[string]any:
		for _, member := range v {
			check(member)
		}
	}
	return depth, err
}

func checkNumber(number string) error {
	digits, exponent := splitNumber(number)
	if len(digits) > maxDigits {
		return fmt.Errorf("a number has more than %d digits", maxDigits)
	}
	if e, err := strconv.Atoi(exponent); err != nil || e > maxExponent || e < -maxExponent {
		return fmt.Errorf("the number %s has an exponent over %d", truncate(number, maxQuote), maxExponent)
	}
	return nil
}

// splitNumber splits a JSON number into its digits, with the decimal point, and
// its exponent, "0" if there is none.
func splitNumber(number string) (digits, exponent string) {
	if at := strings.IndexAny(number, "eE"); at >= 0 {
		return number[:at], number[at+1:]
	}
	return number, "0"
}

// costOf returns the cost of comparing a value and all its members once. Fractions are
// reduced, so the cost of a number grows faster than its length.
func costOf(value any) int64 {
	cost := int64(8)
	switch v := value.(type) {
	case string:
		cost += int64(len(v)) / 8
	case json.Number:
		digits, exponent := splitNumber(string(v))
		e, _ := strconv.ParseInt(exponent, 10, 64) // checkNumber has checked it
		size := int64(len(digits)) + max(e, -e)
		cost += size + size*size/100
	case []any:
		for _, member := range v {
			cost += costOf(member)
		}
	case map[string]any:
		for name, member := range v {
			cost += int64(len(name))/8 + 8 + costOf(member)
		}
	}
	return cost
}
