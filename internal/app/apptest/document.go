package apptest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A Document is the OpenAPI document of a service. It checks what the service
// answers.
type Document struct {
	operations map[string]documented // by pattern
	requests   map[string]documentedBodies
	mux        *http.ServeMux // which finds the pattern of a path
}

// documented are the schemas of an operation's bodies, by status and media type.
type documented map[int]map[string]*jsonschema.Schema

// documentedBodies are the schemas of requests, by media type.
type documentedBodies map[string]*jsonschema.Schema

// NewDocument reads a document and compiles its schemas, as JSON Schema 2020-12.
func NewDocument(raw []byte) (*Document, error) {
	var parsed struct {
		Paths map[string]map[string]struct {
			RequestBody struct{ Content contents }
			Responses   map[string]response
		}
		Components struct {
			Schemas   map[string]any
			Responses map[string]response
		}
	}
	if err := json.Unmarshal(bytes.ReplaceAll(raw, []byte("#/components/schemas/"), []byte(definitions)), &parsed); err != nil {
		return nil, err
	}
	closeObjects(parsed.Components.Schemas)
	d := &Document{operations: map[string]documented{}, requests: map[string]documentedBodies{}, mux: http.NewServeMux()}
	all := schemas{definitions: parsed.Components.Schemas}
	for route, methods := range parsed.Paths {
		for method, operation := range methods {
			bodies := documented{}
			for status, response := range operation.Responses {
				n, err := strconv.Atoi(status)
				if err != nil {
					return nil, err
				}
				if response.Ref != "" {
					response = parsed.Components.Responses[path.Base(response.Ref)]
				}
				bodies[n] = map[string]*jsonschema.Schema{}
				all.add(bodies[n], response.Content, method, route, status)
			}
			// Only the last parameter of a path may hold slashes.
			pattern := strings.ToUpper(method) + " " + strings.Replace(route, "{path}", "{path...}", 1)
			d.operations[pattern] = bodies
			maps.DeleteFunc(operation.RequestBody.Content, func(_ string, c content) bool { return c.Schema == nil }) // any body
			d.requests[pattern] = documentedBodies{}
			all.add(d.requests[pattern], operation.RequestBody.Content, method, route)
			d.mux.Handle(pattern, http.NotFoundHandler())
		}
	}
	return d, all.compile()
}

// CheckExamples returns what is wrong with the examples of requests and answers: one is
// missing, or is not as its schema says.
func (d *Document) CheckExamples(raw []byte) (wrong []error) {
	var parsed struct {
		Paths map[string]map[string]struct {
			RequestBody struct{ Content contents }
			Responses   map[string]response
		}
		Components struct{ Responses map[string]response }
	}
	if err := json.Unmarshal(raw, &parsed); err != nil {
		return []error{err}
	}
	check := func(where string, bodies contents, schemas map[string]*jsonschema.Schema) {
		for media, body := range bodies {
			if body.Example == nil {
				wrong = append(wrong, fmt.Errorf("%s, %s: no example", where, media))
			} else if schema := schemas[media]; schema != nil {
				if err := schema.Validate(body.Example); err != nil {
					wrong = append(wrong, fmt.Errorf("%s, %s: %w", where, media, err))
				}
			}
		}
	}
	for route, methods := range parsed.Paths {
		for method, operation := range methods {
			pattern := strings.ToUpper(method) + " " + strings.Replace(route, "{path}", "{path...}", 1)
			check(pattern, operation.RequestBody.Content, d.requests[pattern])
			for status, response := range operation.Responses {
				if response.Ref != "" {
					response = parsed.Components.Responses[path.Base(response.Ref)]
				}
				n, _ := strconv.Atoi(status) // NewDocument has read it
				check(pattern+" "+status, response.Content, d.operations[pattern][n])
			}
		}
	}
	return wrong
}

type response struct {
	Ref     string `json:"$ref"`
	Content contents
}

// contents are the bodies of a request or a response, by media type.
type contents map[string]content

type content struct{ Schema, Example any }

const (
	documentURL = "openapi.json"
	definitions = "#/$defs/"
)

// schemas are those of a document. They are all below $defs, where the compiler finds
// them at once: for each that is elsewhere it copies what it has found before.
type schemas struct {
	definitions map[string]any
	wanted      []wantedSchema
}

type wantedSchema struct {
	into        map[string]*jsonschema.Schema
	media, name string
}

// add adds the schemas of bodies, to be compiled into a map.
func (s *schemas) add(into map[string]*jsonschema.Schema, bodies contents, place ...string) {
	for media, body := range bodies {
		name := strings.Join(append(place, media), " ")
		s.definitions[name] = body.Schema
		s.wanted = append(s.wanted, wantedSchema{into, media, name})
	}
}

func (s *schemas) compile() error {
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource(documentURL, map[string]any{"$defs": s.definitions}); err != nil {
		return err
	}
	for _, w := range s.wanted {
		schema, err := compiler.Compile(documentURL + definitions + escape.Replace(w.name))
		if err != nil {
			return err
		}
		w.into[w.media] = schema
	}
	return nil
}

// escape escapes a step of a JSON pointer in the fragment of a URL.
var escape = strings.NewReplacer("~", "~0", "/", "~1", "%", "%25", "{", "%7B", "}", "%7D", " ", "%20")

// closeObjects refuses fields that the document does not know. Clients must
// ignore them, and therefore it allows them, but the service has none to send.
func closeObjects(value any) {
	switch v := value.(type) {
	case map[string]any:
		if v["properties"] != nil && v["additionalProperties"] == true {
			v["additionalProperties"] = false
		}
		for _, member := range v {
			closeObjects(member)
		}
	case []any:
		for _, member := range v {
			closeObjects(member)
		}
	}
}

// CheckBody says in what a JSON body is not as the document describes the request.
func (d *Document) CheckBody(r *http.Request, body string) error {
	_, pattern := d.mux.Handler(r)
	schema, ok := d.requests[pattern]["application/json"]
	if !ok {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// Check says in what the answer to a request is not as documented: its status,
// its media type or its body. Paths that the document does not have are not
// checked: they are pages.
func (d *Document) Check(r Request, a Answer) error {
	req, err := http.NewRequest(r.Method, r.Path, nil)
	if err != nil {
		return err
	}
	_, pattern := d.mux.Handler(req)
	bodies, ok := d.operations[pattern]
	if !ok {
		return nil
	}
	contents, ok := bodies[a.Status]
	if !ok {
		return fmt.Errorf("%s answers %d, which is not documented", pattern, a.Status)
	}
	if len(contents) == 0 {
		if a.Body != "" {
			return fmt.Errorf("%s answers %d with a body, which is not documented", pattern, a.Status)
		}
		return nil
	}
	media, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	schema, ok := contents[media]
	if err != nil || !ok {
		return fmt.Errorf("%s answers %d as %q, documented is %q",
			pattern, a.Status, a.Header.Get("Content-Type"), slices.Sorted(maps.Keys(contents)))
	}
	var body any = a.Body
	if strings.HasSuffix(media, "/json") || strings.HasSuffix(media, "+json") {
		if body, err = jsonschema.UnmarshalJSON(strings.NewReader(a.Body)); err != nil {
			return fmt.Errorf("%s answers %d with bad JSON: %w", pattern, a.Status, err)
		}
	}
	if err := schema.Validate(body); err != nil {
		return fmt.Errorf("%s answers %d with a body that is not as documented: %w", pattern, a.Status, err)
	}
	return nil
}
