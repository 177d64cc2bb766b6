package app_test

import (
	"encoding/json"
	"flag"
	"maps"
	"net/http"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestOpenAPIGolden keeps the document of the whole API under review: what
// changes it shows up in the diff of a change.
func TestOpenAPIGolden(t *testing.T) {
	const golden = "testdata/openapi.json"
	s := start(t, settings(t, "--roles", "web"))
	status, got := s.get(t, "/openapi.json", "")
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, got)
	}
	got += "\n"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v; run `make generate`", err)
	}
	if got != string(want) {
		t.Errorf("the API has changed; if that is meant, run `make generate` (-golden +now):\n%s", cmp.Diff(parse(t, string(want)), parse(t, got)))
	}
}

// TestOpenAPIKnowsEveryRoute: what is answered is documented.
func TestOpenAPIKnowsEveryRoute(t *testing.T) {
	s := start(t, settings(t, "--roles", "web"))
	_, body := s.get(t, "/openapi.json", "")
	var document struct {
		OpenAPI string
		Paths   map[string]map[string]any
	}
	if err := json.Unmarshal([]byte(body), &document); err != nil {
		t.Fatal(err)
	}
	if document.OpenAPI != "3.1.0" {
		t.Errorf("OpenAPI %q, want 3.1.0", document.OpenAPI)
	}
	documented := map[string]bool{}
	for path, methods := range document.Paths {
		for method := range methods {
			documented[routeName(method, path)] = true
		}
	}
	for _, r := range s.Routes() {
		if name := routeName(r.Method, r.Path); !documented[name] {
			t.Errorf("%s is not in the document", name)
		}
	}
}

// TestOpenAPIOperations: every operation has a summary, an id of its own and a tag
// that is described, and no tag is left over.
func TestOpenAPIOperations(t *testing.T) {
	s := start(t, settings(t, "--roles", "web", "--public-url", "https://whetstone.example.org"))
	_, body := s.get(t, "/openapi.json", "")
	var document struct {
		Servers []struct{ URL string }
		Tags    []struct{ Name, Description string }
		Paths   map[string]map[string]struct {
			OperationID, Summary string
			Tags                 []string
		}
	}
	if err := json.Unmarshal([]byte(body), &document); err != nil {
		t.Fatal(err)
	}
	if len(document.Servers) != 1 || document.Servers[0].URL != "https://whetstone.example.org" {
		t.Errorf("servers %v, want the public URL", document.Servers)
	}
	uses, ids := map[string]int{}, map[string]bool{}
	for path, methods := range document.Paths {
		for method, op := range methods {
			if op.Summary == "" || op.OperationID == "" || ids[op.OperationID] || len(op.Tags) != 1 {
				t.Errorf("%s %s: %+v", method, path, op)
			}
			ids[op.OperationID] = true
			uses[op.Tags[0]]++
		}
	}
	for _, tag := range document.Tags {
		if tag.Description == "" || uses[tag.Name] == 0 {
			t.Errorf("the tag %q has the description %q and %d operations", tag.Name, tag.Description, uses[tag.Name])
		}
		delete(uses, tag.Name)
	}
	if len(uses) > 0 {
		t.Errorf("tags without a description in tags.go: %v", uses)
	}
}

// TestOpenAPIDescribesEverything: every field and parameter has a description, and every
// request and answer an example that its schema allows.
func TestOpenAPIDescribesEverything(t *testing.T) {
	s := start(t, settings(t, "--roles", "web"))
	raw, err := s.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Security   []map[string][]string
		Components struct{ Schemas map[string]any }
		Paths      map[string]map[string]struct {
			Tags       []string
			Parameters []struct{ Name, Description string }
		}
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]map[string][]string{{"key": {}}}, document.Security); diff != "" {
		t.Errorf("security: %s", diff)
	}
	words := app.APIWords()
	unused := maps.Clone(words)
	for name, schema := range document.Components.Schemas {
		walkProperties(schema, func(field string, property map[string]any) {
			if property["description"] == nil {
				t.Errorf("%s.%s has no description: give it a tag doc, or a line in fields.txt", name, field)
			}
			key, _ := words.Find(name, field)
			delete(unused, key)
		})
	}
	for path, methods := range document.Paths {
		for method, op := range methods {
			for _, p := range op.Parameters {
				if p.Description == "" {
					t.Errorf("%s %s: %s has no description: give it a tag doc, or a line in fields.txt", method, path, p.Name)
				}
				key, _ := words.Find(op.Tags[0], p.Name)
				delete(unused, key)
			}
		}
	}
	for key := range unused {
		t.Errorf("fields.txt: no field or parameter is %s", key)
	}
	checked, err := apptest.NewDocument(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range checked.CheckExamples(raw) {
		t.Error(wrong)
	}
}

// walkProperties calls a function for the properties of a schema and of those within it.
func walkProperties(schema any, visit func(field string, property map[string]any)) {
	s, ok := schema.(map[string]any)
	if !ok {
		return
	}
	properties, _ := s["properties"].(map[string]any)
	for field, property := range properties {
		visit(field, property.(map[string]any))
		walkProperties(property, visit)
	}
	walkProperties(s["items"], visit)
	walkProperties(s["additionalProperties"], visit)
}

// documentedAnswers returns a check that answers are as the service's own
// document says: status, media type and body.
func (s *service) documentedAnswers(t *testing.T) func(apptest.Request, apptest.Answer) {
	t.Helper()
	raw, err := s.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	document, err := apptest.NewDocument(raw)
	if err != nil {
		t.Fatal(err)
	}
	return func(r apptest.Request, a apptest.Answer) {
		if err := document.Check(r, a); err != nil {
			t.Errorf("%s %s: %v; %s", r.Method, r.Path, err, short(a.Body))
		}
	}
}

// wantDocumentedReads wants documented answers of paths, with and without a key.
func (s *service) wantDocumentedReads(t *testing.T, paths []string) {
	t.Helper()
	client := apptest.NewClient(t, s.url)
	client.Check = s.documentedAnswers(t)
	for _, path := range paths {
		for _, header := range []http.Header{apptest.Bearer(s.FirstKey), nil} {
			for _, query := range []string{"", "?per_page=100", "?per_page=none"} {
				if _, err := client.Do(t.Context(), apptest.Request{Method: "GET", Path: path + query}, header); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	t.Logf("%d paths were read", len(paths))
}

// TestDocumentedEmptyLists asks an organisation that has nothing: an empty list
// is a list, not null.
func TestDocumentedEmptyLists(t *testing.T) {
	s := start(t, settings(t, "--roles", "web"))
	var paths []string
	for _, r := range s.Routes() {
		if r.Method == http.MethodGet {
			paths = append(paths, placeholder.ReplaceAllString(r.Path, uuid.NewString()))
		}
	}
	s.wantDocumentedReads(t, paths)
}

func parse(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return value
}
