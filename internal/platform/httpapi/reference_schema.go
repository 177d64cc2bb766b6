package httpapi

import (
	"encoding/json"
	"html/template"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// A field is a parameter or a member of an object.
type field struct {
	Name     string // with that of the objects around it, e.g. "floors.pass_rate"
	In       string // where a parameter is: path, query or header
	Type     template.HTML
	Required bool
	Doc      template.HTML
}

func (r *renderer) field(name string, s *huma.Schema, required bool) field {
	return field{Name: name, Type: r.typeOf(s), Required: required, Doc: inline(s.Description)}
}

// fields lists the members of an object, the required ones first.
func (r *renderer) fields(s *huma.Schema) (all []field) {
	if s == nil {
		return nil
	}
	if s.Ref != "" {
		s = r.schemas[path.Base(s.Ref)]
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		member := s.Properties[name]
		all = append(all, r.field(name, member, slices.Contains(s.Required, name)))
		for _, inner := range r.fields(&huma.Schema{Properties: member.Properties, Required: member.Required}) {
			inner.Name = name + "." + inner.Name
			all = append(all, inner)
		}
	}
	slices.SortStableFunc(all, func(a, b field) int {
		return strings.Compare(strconv.FormatBool(b.Required), strconv.FormatBool(a.Required))
	})
	return all
}

// typeOf says in words which values a schema allows, with links to named schemas.
func (r *renderer) typeOf(s *huma.Schema) template.HTML {
	if s == nil {
		return "any value"
	}
	text := r.plainType(s)
	if s.Nullable {
		text += " or null"
	}
	return template.HTML(text)
}

func (r *renderer) plainType(s *huma.Schema) string {
	switch {
	case s.Ref != "":
		name := template.HTMLEscapeString(path.Base(s.Ref))
		return `<a href="#schema-` + name + `">` + name + `</a>`
	case len(s.AnyOf) > 0:
		var types []string
		for _, one := range s.AnyOf {
			types = append(types, string(r.typeOf(one)))
		}
		return strings.Join(types, " or ")
	case len(s.Enum) > 0:
		return "one of " + codes(s.Enum)
	case s.Items != nil:
		return "list of " + string(r.typeOf(s.Items))
	case s.Type == huma.TypeObject:
		if values, ok := s.AdditionalProperties.(*huma.Schema); ok && len(s.Properties) == 0 {
			return "object, values: " + string(r.typeOf(values))
		}
		return "object"
	case s.Type == "":
		return "any value"
	}
	text := s.Type
	if s.Format != "" && s.Format != "int64" && s.Format != "double" {
		text += " (" + template.HTMLEscapeString(s.Format) + ")"
	}
	return text + limits(s)
}

func codes(values []any) string {
	var all []string
	for _, v := range values {
		if v == nil {
			all = append(all, "null")
			continue
		}
		text, ok := v.(string)
		if !ok {
			raw, _ := json.Marshal(v) // it came from a tag
			text = string(raw)
		}
		all = append(all, "<code>"+template.HTMLEscapeString(text)+"</code>")
	}
	return strings.Join(all, ", ")
}

// limits returns the bounds of a number or a text, e.g. ", 1 to 10".
func limits(s *huma.Schema) string {
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		return ", " + number(*s.Minimum) + " to " + number(*s.Maximum)
	case s.Minimum != nil:
		return ", at least " + number(*s.Minimum)
	case s.ExclusiveMinimum != nil && s.Maximum != nil:
		return ", above " + number(*s.ExclusiveMinimum) + ", at most " + number(*s.Maximum)
	case s.Maximum != nil:
		return ", at most " + number(*s.Maximum)
	case s.MinLength != nil && s.MaxLength != nil:
		return ", " + strconv.Itoa(*s.MinLength) + " to " + strconv.Itoa(*s.MaxLength) + " characters"
	case s.MaxLength != nil:
		return ", at most " + strconv.Itoa(*s.MaxLength) + " characters"
	}
	return ""
}
