package httpapi_test

import (
	"bytes"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

func mountDocumented(a *httpapi.API) {
	mountThings(a)
	mountForms(a)
	mountDownload(a)
	httpapi.Add(a, find, httpapi.Route{Method: "GET", Path: "/api/v1/open/{id}", Public: true, Summary: "Open to all <people>"})
	httpapi.Add(a, find, httpapi.Route{Method: "GET", Path: "/tree/{id...}"})
	httpapi.Add(a, measure, httpapi.Route{Method: "POST", Path: "/v1/logs", Plan: access.Team, Limit: &httpapi.Limit{Requests: 300, Per: period}})
}

// at walks into a document.
func at(t *testing.T, document any, path ...string) any {
	t.Helper()
	for _, name := range path {
		object, ok := document.(map[string]any)
		if !ok || object[name] == nil {
			t.Fatalf("the document has no %s", strings.Join(path, " > "))
		}
		document = object[name]
	}
	return document
}

func TestOpenAPI(t *testing.T) {
	f := newFrame(t, nil, mountDocumented)
	a := f.do(t, "GET", "/openapi.json", "", "Authorization: ")
	a.WantHeader("Content-Type", "application/json")
	document := parse(t, a.Body)
	if got := at(t, document, "openapi").(string); !strings.HasPrefix(got, "3.1.") {
		t.Errorf("openapi is %q, want 3.1.x", got)
	}
	if got := at(t, document, "info", "version"); got != "1.2.3" {
		t.Errorf("version is %v", got)
	}
	for _, r := range f.API.Routes() {
		op := at(t, document, "paths", strings.Replace(r.Path, "...", "", 1), strings.ToLower(r.Method))
		for status, schema := range map[string]string{"400": "ValidationError", "404": "StructuredError", "500": "StructuredError"} {
			response := strings.TrimPrefix(at(t, op, "responses", status, "$ref").(string), "#/components/responses/")
			ref := at(t, document, "components", "responses", response, "content", "application/json", "schema", "$ref")
			if ref != "#/components/schemas/"+schema {
				t.Errorf("%s %s: %s is %v", r.Method, r.Path, status, ref)
			}
		}
		want := []any{map[string]any{"key": []any{}}}
		if r.Public {
			want = []any{map[string]any{}}
		}
		if diff := cmp.Diff(want, at(t, op, "security")); diff != "" {
			t.Errorf("%s %s: security: %s", r.Method, r.Path, diff)
		}
	}
	if got := at(t, document, "components", "securitySchemes", "key", "scheme"); got != "bearer" {
		t.Errorf("the scheme is %v", got)
	}
}

func TestOpenAPIOfOneRoute(t *testing.T) {
	f := newFrame(t, nil, mountDocumented)
	raw, err := f.API.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	document := parse(t, raw)
	op := at(t, document, "paths", "/things/{id}", "get")
	for name, want := range map[string]any{
		"operationId": "get-things-id",
		"summary":     "Find a thing",
		"description": "Needs the pro plan and the permission `write`.",
		"tags":        []any{"things"},
	} {
		if diff := cmp.Diff(want, at(t, op, name)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	at(t, op, "responses", "403")
	at(t, document, "paths", "/things", "post", "responses", "413")
	at(t, document, "paths", "/v1/logs", "post", "responses", "429")
	form := at(t, document, "paths", "/files", "post", "requestBody", "content", "multipart/form-data", "schema")
	if diff := cmp.Diff([]any{"file"}, at(t, form, "required")); diff != "" {
		t.Error(diff)
	}
	at(t, form, "properties", "label")
	got := at(t, document, "paths", "/v1/logs", "post", "description")
	if want := "Needs the team plan. At most 300 requests per 876000h0m0s."; got != want {
		t.Errorf("description %q, want %q", got, want)
	}
}

// TestOpenAPISchemas lists them all: nothing of the library's shows.
func TestOpenAPISchemas(t *testing.T) {
	f := newFrame(t, nil, mountThings)
	raw, err := f.API.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	schemas := at(t, parse(t, raw), "components", "schemas").(map[string]any)
	want := []string{
		"Httpapi_testFindOutput", "Httpapi_testListOutput", "Httpapi_testPatchInputBody", "Httpapi_testPatchOutput",
		"Httpapi_testThing", "Httpapi_testThingCase", "Issue", "Pagination", "StructuredError", "StructuredErrorErrorStruct", "ValidationError",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(schemas))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]any{"error", "details", "issues"}, at(t, schemas, "ValidationError", "required")); diff != "" {
		t.Error(diff)
	}
	wantTime := map[string]any{"type": "string", "format": "date-time", "examples": []any{"2026-01-02T03:04:05.678Z"}}
	if diff := cmp.Diff(wantTime, at(t, schemas, "Httpapi_testThing", "properties", "when")); diff != "" {
		t.Error(diff)
	}
}

// createKeyInput is the name of a type in package auth too.
type createKeyInput struct {
	Body struct {
		Colour string `json:"colour"`
	}
}

func TestOneNameInTwoPackages(t *testing.T) {
	f := newFrame(t, nil, func(a *httpapi.API) {
		auth.API{Service: &auth.Service{}}.Mount(a)
		httpapi.Add(a, func(context.Context, createKeyInput) (httpapi.None, error) { return httpapi.None{}, nil },
			httpapi.Route{Method: "POST", Path: "/colours"})
	})
	raw, err := f.API.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	schemas := at(t, parse(t, raw), "components", "schemas")
	at(t, schemas, "AuthCreateKeyInputBody", "properties", "name")
	at(t, schemas, "Httpapi_testCreateKeyInputBody", "properties", "colour")
}

func TestDocs(t *testing.T) {
	f := newFrame(t, nil, mountDocumented)
	a := f.do(t, "GET", "/docs", "", "Authorization: ")
	if a.Status != 200 {
		t.Fatalf("status %d: %s", a.Status, a.Body)
	}
	a.WantHeader("Content-Type", "text/html; charset=utf-8")
	a.WantHeader("Content-Security-Policy", httpapi.ContentSecurityPolicy)
	for _, r := range f.API.Routes() {
		if !strings.Contains(string(a.Body), r.Method+"</span> <code>"+strings.Replace(r.Path, "...", "", 1)+"</code>") {
			t.Errorf("the page lacks %s %s", r.Method, r.Path)
		}
	}
	for _, want := range []string{"Open to all &lt;people&gt;", "StructuredError", "Needs the team plan.", `<html lang="en">`} {
		if !strings.Contains(string(a.Body), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(string(a.Body), "#/components/") || bytes.Contains(regexp.MustCompile(`(?s)<(style|script)>.*?</`).ReplaceAll(a.Body, nil), []byte("`")) {
		t.Error("the page has a raw reference or a raw backtick")
	}
	if found := regexp.MustCompile(`(?i)<(link|img|iframe)|src=|fetch\(|url\(|@import`).Find(a.Body); found != nil {
		t.Errorf("the page loads something: %s", found)
	}
}
