package apptest

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
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
			RequestBody struct {
				Content map[string]struct{ Schema any }
			}
			Responses map[string]struct {
				Content map[string]any
			}
		}
	}
	if err := json.Unmarshal(raw, &parsed); err != nil {
		return nil, err
	}
	compiler, err := newCompiler(raw)
	if err != nil {
		return nil, err
	}
	d := &Document{operations: map[string]documented{}, requests: map[string]documentedBodies{}, mux: http.NewServeMux()}
	for path, methods := range parsed.Paths {
		for method, operation := range methods {
			bodies := documented{}
			for status, response := range operation.Responses {
				n, err := strconv.Atoi(status)
				if err != nil {
					return nil, err
				}
				bodies[n] = map[string]*jsonschema.Schema{}
				for media := range response.Content {
					at := pointer("paths", path, method, "responses", status, "content", media, "schema")
					if bodies[n][media], err = compiler.Compile(documentURL + at); err != nil {
						return nil, err
					}
				}
			}
			// Only the last parameter of a path may hold slashes.
			pattern := strings.ToUpper(method) + " " + strings.Replace(path, "{path}", "{path...}", 1)
			d.operations[pattern] = bodies
			d.requests[pattern] = documentedBodies{}
			for media, content := range operation.RequestBody.Content {
				if content.Schema == nil {
					continue // any body
				}
				at := pointer("paths", path, method, "requestBody", "content", media, "schema")
				if d.requests[pattern][media], err = compiler.Compile(documentURL + at); err != nil {
					return nil, err
				}
			}
			d.mux.Handle(pattern, http.NotFoundHandler())
		}
	}
	return d, nil
}

const documentURL = "openapi.json"

func newCompiler(raw []byte) (*jsonschema.Compiler, error) {
	var document map[string]any
	if err := json.Unmarshal(raw, &document); err != nil {
		return nil, err
	}
	closeObjects(document["components"])
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	return compiler, compiler.AddResource(documentURL, document)
}

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

// pointer is a JSON pointer, as the fragment of a URL.
func pointer(steps ...string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1", "%", "%25", "{", "%7B", "}", "%7D")
	all := "#"
	for _, step := range steps {
		all += "/" + escape.Replace(step)
	}
	return all
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
