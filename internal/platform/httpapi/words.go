package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Words describe the fields and parameters of the OpenAPI document that have no tag doc
// of their own: most mean the same wherever they occur, e.g. created_at.
type Words map[string]Word

// A Word is what a field is, and a value of it for the examples; empty: one is made.
type Word struct{ Text, Example string }

// ParseWords reads lines "field: text | value", "Schema.field: ..." or "Prefix*.field: ...".
// Empty lines, and those that begin with #, are ignored.
func ParseWords(lines string) (Words, error) {
	words := Words{}
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, rest, ok := strings.Cut(line, ": ")
		if _, twice := words[key]; !ok || twice {
			return nil, fmt.Errorf("a line without text, or of a field that has one: %s", line)
		}
		text, example, _ := strings.Cut(rest, " | ")
		words[key] = Word{strings.TrimSpace(text), strings.TrimSpace(example)}
	}
	return words, nil
}

// Find returns the most specific line for a field of a schema, or for a parameter of a
// group of routes, and the key of that line.
func (w Words) Find(schema, field string) (key string, word Word) {
	if word, ok := w[schema+"."+field]; ok {
		return schema + "." + field, word
	}
	for n := len(schema); n > 0; n-- {
		key := schema[:n] + "*." + field
		if word, ok := w[key]; ok {
			return key, word
		}
	}
	return field, w[field]
}

// describe gives the fields of schemas the texts that they lack.
func (w Words) describe(schemas map[string]*huma.Schema) {
	for name, s := range schemas {
		for field, member := range s.Properties {
			if member.Description == "" {
				_, word := w.Find(name, field)
				member.Description = word.Text
			}
		}
	}
}

// example returns the value of a field's line, if it has one that the schema allows.
func (w Words) example(schema, field string, s *huma.Schema) (value any, ok bool) {
	_, word := w.Find(schema, field)
	if word.Example == "" {
		return nil, false
	}
	if len(s.Enum) > 0 {
		for _, one := range s.Enum {
			if one == word.Example {
				return one, true
			}
		}
		return nil, false
	}
	if s.Type == huma.TypeString && word.Example != "null" {
		return word.Example, true
	}
	if err := json.Unmarshal([]byte(word.Example), &value); err != nil {
		return nil, false
	}
	switch v := value.(type) {
	case nil:
		return nil, s.Nullable
	case bool:
		return v, s.Type == huma.TypeBoolean
	case float64:
		return v, s.Type == huma.TypeNumber || s.Type == huma.TypeInteger && v == float64(int64(v))
	case []any:
		return v, s.Type == huma.TypeArray
	}
	return value, s.Type == huma.TypeObject || s.Type == ""
}
