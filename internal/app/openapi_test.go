package app_test

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func parse(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return value
}
