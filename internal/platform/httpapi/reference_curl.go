package httpapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

const eventsType = "text/event-stream"

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
			query.Set(p.Name, exampleText(r.requests.value(op.Tags[0], p.Name, p.Schema, nil)))
		case p.Required && p.In == "header":
			options = append(options, "-H "+quote(p.Name+": "+exampleText(r.requests.value(op.Tags[0], p.Name, p.Schema, nil))))
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
				value = exampleText(r.requests.value("", name, s, nil))
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
		example, _ = json.Marshal(r.requests.body(content[jsonType].Schema)) // it is made of plain values
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, example, "", "  "); err == nil {
		example = indented.Bytes()
	}
	return []string{"-H " + quote("Content-Type: "+media), "-d " + quote(string(example))}
}

// quote makes one word of a text for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
