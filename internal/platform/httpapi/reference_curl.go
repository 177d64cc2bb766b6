package httpapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

const (
	eventsType = "text/event-stream"
	// Values of examples.
	exampleID   = "0198c2f4-7a51-7e3c-9b1d-2f60a8d4c5e7"
	exampleTime = "2027-01-31T09:00:00.000Z"
)

// curl returns a command that calls an operation, as it follows the address of the
// server, and the placeholders that a reader has to replace.
func (r *renderer) curl(op *huma.Operation, route string) (command string, replace []string) {
	query := url.Values{}
	var options []string
	for _, p := range op.Parameters {
		switch {
		case p.In == "path":
			// snapshotId becomes snapshot_id.
			var b strings.Builder
			for _, c := range p.Name {
				if c >= 'A' && c <= 'Z' {
					b.WriteByte('_')
					c += 'a' - 'A'
				}
				b.WriteRune(c)
			}
			placeholder := strings.ToUpper(b.String())
			switch {
			case p.Name == "path":
				placeholder = "SKILL.md"
			case p.Schema.Type == huma.TypeInteger:
				placeholder = "1"
			default:
				replace = append(replace, placeholder)
			}
			route = strings.Replace(route, "{"+p.Name+"}", placeholder, 1)
		case p.Required && p.In == "query":
			query.Set(p.Name, exampleText(r.value(p.Name, p.Schema)))
		case p.Required && p.In == "header":
			options = append(options, "-H "+quote(p.Name+": "+exampleText(r.value(p.Name, p.Schema))))
		}
	}
	if len(query) > 0 {
		route += "?" + query.Encode()
	}
	if len(op.Security) > 0 && len(op.Security[0]) > 0 {
		options = append(options, `-H "Authorization: Bearer $WHETSTONE_API_KEY"`)
	}
	options = append(options, r.data(op)...)
	for _, response := range op.Responses {
		for media := range response.Content {
			if media == eventsType {
				options = append(options, "--no-buffer")
			}
		}
	}
	return strings.Join(append([]string{route + "'"}, options...), " \\\n  "), replace
}

// data returns the options for the body of a request.
func (r *renderer) data(op *huma.Operation) (options []string) {
	if op.RequestBody == nil {
		return nil
	}
	content := op.RequestBody.Content
	example := r.Examples[op.OperationID]
	if form := content[formType]; form != nil {
		parts := map[string]string{}
		_ = json.Unmarshal(example, &parts) // without an example there are none
		for _, name := range slices.Sorted(maps.Keys(form.Schema.Properties)) {
			s := form.Schema.Properties[name]
			value, ok := parts[name]
			switch {
			case s.Format == "binary" && !ok:
				value = "@skill.tar.gz"
			case !ok && !slices.Contains(form.Schema.Required, name):
				continue
			case !ok:
				value = exampleText(r.value(name, s))
			}
			options = append(options, "-F "+quote(name+"="+value))
		}
		return options
	}
	media := jsonType
	if content[jsonType] == nil {
		media = slices.Sorted(maps.Keys(content))[0]
		return []string{"-H " + quote("Content-Type: "+media), "--data-binary @body"}
	}
	if example == nil {
		example, _ = json.Marshal(r.value("", content[jsonType].Schema)) // it is made of plain values
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, example, "", "  "); err == nil {
		example = indented.Bytes()
	}
	return []string{"-H " + quote("Content-Type: "+media), "-d " + quote(string(example))}
}

// value returns an example of a schema: its required members, and those that have an
// example of their own.
func (r *renderer) value(name string, s *huma.Schema) any { return r.valueWithin(name, s, nil) }

func (r *renderer) valueWithin(name string, s *huma.Schema, within []string) any {
	switch {
	case s == nil:
		return object{}
	case s.Ref != "":
		ref := path.Base(s.Ref)
		if slices.Contains(within, ref) {
			return nil
		}
		return r.valueWithin(name, r.schemas[ref], append(within, ref))
	case len(s.Examples) > 0:
		return s.Examples[0]
	case len(s.AnyOf) > 0:
		return r.valueWithin(name, s.AnyOf[0], within)
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Items != nil:
		return []any{r.valueWithin(name, s.Items, within)}
	case s.Type == huma.TypeObject || s.Type == "" && s.Properties != nil:
		o := object{}
		for member, m := range s.Properties {
			if slices.Contains(s.Required, member) || len(m.Examples) > 0 {
				o[member] = r.valueWithin(member, m, within)
			}
		}
		return o
	}
	return scalar(name, s)
}

type object = map[string]any

func scalar(name string, s *huma.Schema) any {
	switch s.Type {
	case huma.TypeBoolean:
		return true
	case huma.TypeInteger, huma.TypeNumber:
		if s.Minimum != nil {
			return *s.Minimum
		}
		return 1
	case huma.TypeString:
		switch {
		case s.Format == "date-time":
			return exampleTime
		case s.Format == "date":
			return exampleTime[:len("2006-01-02")]
		case s.Format == "uuid", name == "id", strings.HasSuffix(name, "_id"):
			return exampleID
		case strings.HasPrefix(name, "skill"):
			return "pdf-forms"
		}
		return strings.ReplaceAll(name, "_", "-")
	}
	return object{}
}

func exampleText(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	raw, _ := json.Marshal(value) // a plain value
	return string(raw)
}

// quote makes one word of a text for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
