package httpapi

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// documentedSchemas are the schemas of the OpenAPI document. They differ from
// those by which huma validates requests: null is declared wherever the Go type
// encodes as null, and a default is text.
//
// huma itself declares no null for pointers to structs and to types with a schema
// of their own, e.g. *Time, and none in enums.
type documentedSchemas struct {
	huma.Registry
	words Words
}

// Map returns copies: requests are being validated by the originals.
func (d documentedSchemas) Map() map[string]*huma.Schema {
	all := map[string]*huma.Schema{}
	for name, s := range d.Registry.Map() {
		all[name] = documentedSchema(d.TypeFromRef(schemaPrefix+name), s)
	}
	d.words.describe(all)
	return all
}

// MarshalJSON writes the schemas by name.
func (d documentedSchemas) MarshalJSON() ([]byte, error) { return json.Marshal(d.Map()) }

// documentedSchema copies the schema of a type.
func documentedSchema(t reflect.Type, s *huma.Schema) *huma.Schema {
	if t.Kind() == reflect.Pointer {
		return orNull(documentedSchema(t.Elem(), s))
	}
	c := *s
	c.Nullable = false
	switch {
	case s.Ref != "":
	case s.Items != nil:
		c.Items = documentedSchema(t.Elem(), s.Items)
	case t.Kind() == reflect.Map:
		if values, ok := s.AdditionalProperties.(*huma.Schema); ok {
			c.AdditionalProperties = documentedSchema(t.Elem(), values)
		}
	case s.Properties != nil:
		c.Properties = map[string]*huma.Schema{}
		documentFields(t, s.Properties, c.Properties)
	}
	return &c
}

// documentFields copies the schemas of a struct's fields, those of embedded
// structs last: an outer field hides theirs, as in JSON.
func documentFields(t reflect.Type, from, to map[string]*huma.Schema) {
	var embedded []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			embedded = append(embedded, f.Type)
			continue
		}
		if name == "" {
			name = f.Name
		}
		if from[name] != nil && to[name] == nil {
			to[name] = documentedField(f, options, from[name])
		}
	}
	for _, e := range embedded {
		if e.Kind() == reflect.Pointer {
			e = e.Elem()
		}
		documentFields(e, from, to)
	}
}

func documentedField(f reflect.StructField, options string, s *huma.Schema) *huma.Schema {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	c := documentedSchema(t, s)
	if isNullable(f, options) {
		c = orNull(c)
	}
	// Some code generators make a field with a default mandatory, also in the body
	// of a request, e.g. openapi-typescript.
	if c.Default != nil {
		value, _ := json.Marshal(c.Default) // it was parsed from a tag
		c.Description, c.Default = strings.TrimSpace(c.Description+" (default: "+string(value)+")"), nil
	}
	return c
}

// isNullable reports whether a field is null in JSON if it is nil. The tag
// nullable:"false" asserts that it never is.
func isNullable(f reflect.StructField, options string) bool {
	omitted := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
	if omitted || f.Tag.Get("nullable") == "false" {
		return false
	}
	return slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, f.Type.Kind())
}

// orNull lets a schema be null as well. One without a type allows any value
// already.
func orNull(s *huma.Schema) *huma.Schema {
	if s.Ref != "" {
		return &huma.Schema{Description: s.Description, AnyOf: []*huma.Schema{{Ref: s.Ref}, {Type: "null"}}}
	}
	c := *s
	c.Nullable = s.Type != ""
	if len(s.Enum) > 0 {
		c.Enum = append(slices.Clone(s.Enum), nil)
	}
	return &c
}
