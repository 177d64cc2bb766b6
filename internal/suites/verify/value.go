package verify

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// maxDigits and maxExponent bound the numbers of schemas and outputs, which
	// are computed with exactly: 1e9999999 is a number of three megabytes.
	maxDigits   = 1000
	maxExponent = 400
	// maxDepth bounds how deep their arrays and objects are nested.
	maxDepth = 100
)

// readValue reads JSON that a schema can be held against, and says how deep it
// is nested.
func readValue(text string) (value any, depth int, err error) {
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
		return fmt.Errorf("the number %s has an exponent over %d", cut(number, maxQuote), maxExponent)
	}
	return nil
}

// splitNumber parts the digits of a JSON number, with its point, from its
// exponent, which is "0" if there is none.
func splitNumber(number string) (digits, exponent string) {
	if at := strings.IndexAny(number, "eE"); at >= 0 {
		return number[:at], number[at+1:]
	}
	return number, "0"
}

// costOf is what it costs to look at a value and at all in it once. Fractions
// are reduced, so long numbers cost more than their length.
func costOf(value any) int64 {
	cost := int64(8)
	switch v := value.(type) {
	case string:
		cost += int64(len(v)) / 8
	case json.Number:
		digits, exponent := splitNumber(string(v))
		e, _ := strconv.ParseInt(exponent, 10, 64) // it was checked
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
