package httpapi

import (
	"encoding/json"
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

// render renders the page of a small API, and returns it with the text of each command.
func render(t *testing.T, examples map[string]json.RawMessage) (page string, commands map[string]string) {
	t.Helper()
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	one, most := 1.0, 10.0
	registry.Map()["Thing"] = &huma.Schema{Type: "object", Required: []string{"name", "owner_id"}, Properties: map[string]*huma.Schema{
		"name":     {Type: "string", Examples: []any{"it's <new>"}, Description: "Its `name`, as people say it"},
		"owner_id": {Type: "string"},
		"size":     {Type: "integer", Minimum: &one, Maximum: &most},
		"inside":   {Ref: "#/components/schemas/Thing"},
		"colour":   {Type: "string", Enum: []any{"red", "blue"}, Nullable: true},
	}}
	thing := &huma.Schema{Ref: "#/components/schemas/Thing"}
	key := []map[string][]string{{"key": {}}}
	answer := map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{"application/json": {Schema: thing}}}}
	body, err := renderReference(referenceDocument{Examples: examples, API: &huma.OpenAPI{
		Info:       &huma.Info{Title: "Whetstone", Version: "1.2.3", Description: "Uses `keys`.\n\nSecond paragraph."},
		Components: &huma.Components{Schemas: registry},
		Paths: map[string]*huma.PathItem{"/things/{thingId}": {
			Get: &huma.Operation{
				OperationID: "get-thing", Method: "GET", Path: "/things/{thingId}", Tags: []string{"things"}, Security: []map[string][]string{{}}, Responses: answer,
				Parameters: []*huma.Param{
					{Name: "thingId", In: "path", Required: true, Schema: &huma.Schema{Type: "string"}},
					{Name: "day", In: "query", Required: true, Schema: &huma.Schema{Type: "string", Format: "date"}},
					{Name: "page", In: "query", Schema: &huma.Schema{Type: "integer"}},
				},
			},
			Put: &huma.Operation{
				OperationID: "put-thing", Method: "PUT", Path: "/things/{thingId}", Tags: []string{"things"}, Security: key, Responses: answer,
				RequestBody: &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": {Schema: thing}}},
			},
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	commands = map[string]string{}
	for _, m := range regexp.MustCompile(`(?s)<details class="op" id="([^"]+)">.*?<pre[^>]*><code>(.*?)</code></pre>`).FindAllStringSubmatch(string(body), -1) {
		commands[m[1]] = html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(m[2], ""))
	}
	return string(body), commands
}

func TestRender(t *testing.T) {
	t.Parallel()
	page, commands := render(t, nil)
	for _, want := range []string{
		`<p>Uses <code>keys</code>.</p><p>Second paragraph.</p>`,
		`<section class="schema" id="schema-Thing">`, `<a href="#schema-Thing">Thing</a>`,
		`Its <code>name</code>, as people say it`, `integer, 1 to 10`, `one of <code>red</code>, <code>blue</code> or null`,
		`<a href="/openapi.json">`, `<a href="/">`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for id, want := range map[string]string{
		"get-thing": `curl 'http://127.0.0.1:8080/things/THING_ID?day=2027-01-31'`,
		"put-thing": `curl -X PUT 'http://127.0.0.1:8080/things/{thingId}' \
  -H "Authorization: Bearer $WHETSTONE_API_KEY" \
  -H 'Content-Type: application/json' \
  -d '{
  "name": "it'\''s \u003cnew\u003e",
  "owner_id": "0198c2f4-7a51-7e3c-9b1d-f60587dcfe3e"
}'`,
	} {
		if commands[id] != want {
			t.Errorf("%s is\n%s\nwant\n%s", id, commands[id], want)
		}
	}
}

func TestRenderExample(t *testing.T) {
	t.Parallel()
	_, commands := render(t, map[string]json.RawMessage{"put-thing": json.RawMessage(`{"name": "stone"}`)})
	if !strings.HasSuffix(commands["put-thing"], "-d '{\n  \"name\": \"stone\"\n}'") {
		t.Errorf("the command is\n%s", commands["put-thing"])
	}
}
