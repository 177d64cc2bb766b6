package httpapi

import (
	"encoding/json"
	"hash/fnv"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

const (
	exampleID   = "0198c2f4-7a51-7e3c-9b1d-2f60a8d4c5e7"
	exampleTime = "2027-01-31T09:00:00.000Z"
	// exampleBytes stands for a body that JSON cannot show.
	exampleBytes = "(bytes)"
)

// An exampler makes values of schemas.
type exampler struct {
	schemas map[string]*huma.Schema
	words   Words
	// all makes optional members, too, as answers have them. Else there are only the
	// required ones, and those with an example of their own.
	all bool
}

type object = map[string]any

// body makes a value for a request or an answer.
func (e exampler) body(s *huma.Schema) any { return e.value("", "", s, nil) }

// value makes a value for a field of a schema. The schemas that it is within are not
// repeated in themselves.
func (e exampler) value(schema, name string, s *huma.Schema, within []string) any {
	if s == nil {
		return object{}
	}
	if value, ok := e.words.example(schema, name, s); ok {
		return value
	}
	switch {
	case s.Ref != "":
		ref := path.Base(s.Ref)
		if slices.Contains(within, ref) {
			return nil
		}
		return e.members(ref, name, e.schemas[ref], append(slices.Clone(within), ref))
	case len(s.Examples) > 0:
		return s.Examples[0]
	case len(s.AnyOf) > 0:
		return e.value(schema, name, s.AnyOf[0], within)
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Items != nil:
		if item := e.value("", "", s.Items, within); item != nil {
			if s.Items.Type == huma.TypeString && item == "" {
				item = scalar(strings.TrimSuffix(name, "s"), s.Items)
			}
			items := []any{item}
			for s.MinItems != nil && len(items) < *s.MinItems {
				items = append(items, item)
			}
			return items
		}
		return []any{}
	}
	return e.members(schema, name, s, within)
}

// members makes an object, or a scalar.
func (e exampler) members(schema, name string, s *huma.Schema, within []string) any {
	if values, ok := s.AdditionalProperties.(*huma.Schema); ok && len(s.Properties) == 0 {
		return object{"pdf-forms": e.value("", "", values, within)}
	}
	if s.Type != huma.TypeObject && s.Properties == nil {
		if s.Items != nil || len(s.Enum) > 0 || len(s.AnyOf) > 0 || len(s.Examples) > 0 {
			return e.value("", name, s, within)
		}
		return scalar(name, s)
	}
	o := object{}
	for member, m := range s.Properties {
		required := slices.Contains(s.Required, member)
		if !required && !e.all && len(m.Examples) == 0 {
			continue
		}
		value := e.value(schema, member, m, within)
		if value != nil || m.Nullable || required && m.Ref == "" {
			o[member] = value
		}
	}
	return o
}

func scalar(name string, s *huma.Schema) any {
	switch s.Type {
	case huma.TypeBoolean:
		return true
	case huma.TypeInteger, huma.TypeNumber:
		if s.Minimum != nil && *s.Minimum > 0 {
			return *s.Minimum
		}
		return 1
	case huma.TypeString:
		switch {
		case isBinary(s):
			return exampleBytes
		case s.Format == "date-time":
			return exampleTime
		case s.Format == "date":
			return exampleTime[:len("2006-01-02")]
		case s.Format == "uuid", name == "id", strings.HasSuffix(name, "_id"), strings.HasSuffix(name, "Id"):
			if name == "id" {
				return exampleID
			}
			// An id that differs between e.g. entry_id and suite_id.
			h := fnv.New64a()
			_, _ = h.Write([]byte(name)) // a hash takes everything
			return exampleID[:len(exampleID)-12] + strconv.FormatUint(h.Sum64()|1<<63, 16)[:12]
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

// withExamples returns the paths with an example of every request and answer. Errors of
// the usual form are references to those of the components: written out at each route
// they would take half of the document.
func (a *API) withExamples(document *huma.OpenAPI, schemas map[string]*huma.Schema) map[string]*huma.PathItem {
	requests, answers := exampler{schemas, a.words, false}, exampler{schemas, a.words, true}
	paths := map[string]*huma.PathItem{}
	document.Components.Responses = map[string]*huma.Response{}
	for route, item := range document.Paths {
		c := *item
		for _, op := range []**huma.Operation{&c.Get, &c.Post, &c.Put, &c.Patch, &c.Delete} {
			if *op == nil {
				continue
			}
			o := **op
			o.Parameters = nil
			for _, p := range (*op).Parameters {
				described := *p
				if p.Description == "" {
					_, word := a.words.Find(o.Tags[0], p.Name)
					described.Description = word.Text
				}
				o.Parameters = append(o.Parameters, &described)
			}
			if o.RequestBody != nil {
				body := *o.RequestBody
				body.Content = a.exampled(body.Content, o.OperationID, requests)
				o.RequestBody = &body
			}
			o.Responses = map[string]*huma.Response{}
			for status, response := range (*op).Responses {
				if name := usualError(response); name != "" {
					if document.Components.Responses[name] == nil {
						body := *response.Content[jsonType]
						body.Example = answers.body(body.Schema)
						if response.Content[jsonType] == structuredContent[jsonType] {
							n, _ := strconv.Atoi(status) // errorResponses wrote it
							body.Example = object{"error": object{"message": errorMessages[n], "status": n}}
						}
						document.Components.Responses[name] = &huma.Response{
							Description: response.Description, Content: map[string]*huma.MediaType{jsonType: &body},
						}
					}
					o.Responses[status] = &huma.Response{Ref: responsePrefix + name}
					continue
				}
				r := *response
				r.Content = a.exampled(r.Content, o.OperationID+" "+status, answers)
				o.Responses[status] = &r
			}
			*op = &o
		}
		paths[route] = &c
	}
	return paths
}

// exampled copies bodies with an example of each.
func (a *API) exampled(bodies map[string]*huma.MediaType, id string, e exampler) map[string]*huma.MediaType {
	all := map[string]*huma.MediaType{}
	for media, body := range bodies {
		c := *body
		recorded, ok := a.examples[id]
		switch {
		case isBinary(body.Schema):
			c.Example = exampleBytes
			if ok && recorded[0] == '"' {
				c.Example = recorded
			}
		case ok && media == formType:
			form := object{}
			_ = json.Unmarshal(recorded, &form) // the file of examples is part of the program
			for name, value := range form {
				// A file is named as in a curl command.
				if text, ok := value.(string); ok && strings.HasPrefix(text, "@") {
					form[name] = exampleBytes
				}
			}
			c.Example = form
		case ok:
			c.Example = recorded
		default:
			c.Example = e.body(body.Schema)
		}
		all[media] = &c
	}
	return all
}

// isBinary reports whether a body is bytes; schemaOf declares them as an extension.
func isBinary(s *huma.Schema) bool {
	return s != nil && (s.Format == "binary" || s.Extensions["format"] == "binary")
}

// responsePrefix begins a reference to a response of the components.
const responsePrefix = "#/components/responses/"

// usualError names the response of an error that has the same body at most routes, e.g.
// "NotFound"; empty for others.
func usualError(r *huma.Response) string {
	body := r.Content[jsonType]
	if len(r.Content) != 1 || body == nil || body != structuredContent[jsonType] && body != validationContent[jsonType] {
		return ""
	}
	return strings.ReplaceAll(r.Description, " ", "")
}

// errorMessages are examples of what errors say.
var errorMessages = map[int]string{
	http.StatusUnauthorized:          "The API key is missing, unknown, expired or revoked",
	http.StatusPaymentRequired:       "This needs the team plan",
	http.StatusForbidden:             "This needs the permission registry:push",
	http.StatusNotFound:              "Entry not found",
	http.StatusNotAcceptable:         "The answer is application/json",
	http.StatusConflict:              "Version 1.4.0 exists already",
	http.StatusGone:                  "Version 1.4.0 was withdrawn",
	http.StatusRequestEntityTooLarge: "The body must not be larger than 1 MiB",
	http.StatusUnsupportedMediaType:  "The body must be application/json",
	http.StatusTooManyRequests:       "Too many requests: try again in 30 seconds",
	http.StatusInternalServerError:   "Internal error",
	http.StatusBadGateway:            "The code host did not answer",
	http.StatusServiceUnavailable:    "The server is busy: try again in a second",
	http.StatusGatewayTimeout:        "The request took too long",
}
