package judge

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// An answeredItem is the answer on one criterion or quotation. Pointers tell a missing field from a
// false one.
type answeredItem struct {
	ID       *looseInt  `json:"id"`
	Evidence *string    `json:"evidence"`
	Passed   *looseBool `json:"passed"`
	Fits     *looseBool `json:"fits"`
}

// readItems parses the results of an answer. Models that are not held to the
// schema leave out the object around them, or write an object by id.
func readItems(answer string) (items []answeredItem, notes string, err error) {
	results := json.RawMessage(answer)
	if !strings.HasPrefix(answer, "[") {
		var whole struct {
			Results json.RawMessage `json:"results"`
			Notes   any             `json:"notes"`
		}
		if json.Unmarshal([]byte(answer), &whole) != nil {
			return nil, "", errForm
		}
		results = whole.Results
		notes, _ = whole.Notes.(string)
	}
	if bytes.HasPrefix(results, []byte("{")) {
		items, err = readItemsByID(results)
	} else {
		err = json.Unmarshal(results, &items)
	}
	if err != nil || len(items) == 0 {
		return nil, "", errForm
	}
	// The other fields are checked by the caller: the two questions ask for different ones.
	for _, item := range items {
		if item.ID == nil {
			return nil, "", formProblem("a result lacks its id")
		}
	}
	return items, notes, nil
}

// readItemsByID parses {"12345": {"evidence": "...", "passed": true}}. It does not
// decode into a map, which would hide an id that occurs twice.
func readItemsByID(object json.RawMessage) (items []answeredItem, err error) {
	fields := json.NewDecoder(bytes.NewReader(object))
	if _, err := fields.Token(); err != nil {
		return nil, err
	}
	for fields.More() {
		var item answeredItem
		name, err := fields.Token()
		if err != nil {
			return nil, err
		}
		if err := fields.Decode(&item); err != nil {
			return nil, err
		}
		id, _ := name.(string)
		item.ID = new(looseInt)
		if err := item.ID.UnmarshalJSON([]byte(id)); err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// A looseInt is a number that may be written as a string.
type looseInt int

// UnmarshalJSON parses 12345 and "12345".
func (n *looseInt) UnmarshalJSON(raw []byte) error {
	value, err := strconv.Atoi(strings.TrimSpace(unquoted(raw)))
	*n = looseInt(value)
	return err
}

// A looseBool is a truth value that may be written as a string or a number.
type looseBool bool

// UnmarshalJSON parses true, "true", 1, and their opposites.
func (b *looseBool) UnmarshalJSON(raw []byte) error {
	switch strings.ToLower(strings.TrimSpace(unquoted(raw))) {
	case "true", "1":
		*b = true
	case "false", "0":
		*b = false
	default:
		return errForm
	}
	return nil
}
