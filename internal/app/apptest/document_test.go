package apptest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// thingDocument has one operation.
const thingDocument = `{
	"openapi": "3.1.0",
	"paths": {"/things/{id}": {"get": {"responses": {
		"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
		"204": {"description": "No Content"}
	}}}},
	"components": {"schemas": {"Thing": {
		"type": "object", "required": ["name"], "additionalProperties": true,
		"properties": {
			"name": {"type": "string"},
			"note": {"type": ["string", "null"]},
			"made_at": {"type": "string", "format": "date-time"}
		}
	}}}
}`

func TestDocumentCheck(t *testing.T) {
	document, err := apptest.NewDocument([]byte(thingDocument))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path string
		status     int
		media      string
		body       string
		want       string // in the error; none if empty
	}{
		{"as documented", "/things/1?x=y", 200, "application/json; charset=utf-8", `{"name": "a", "note": null}`, ""},
		{"no body", "/things/1", 204, "", "", ""},
		{"not in the document", "/login", 200, "text/html", "<html>", ""},
		{"undeclared status", "/things/1", 404, "application/json", `{}`, "answers 404, which is not documented"},
		{"undeclared media type", "/things/1", 200, "text/plain", "a", `as "text/plain", documented is ["application/json"]`},
		{"no media type", "/things/1", 200, "", `{"name": "a"}`, `as "", documented`},
		{"undeclared body", "/things/1", 204, "text/plain", "a", "with a body, which is not documented"},
		{"bad JSON", "/things/1", 200, "application/json", `{"name": `, "bad JSON"},
		{"undeclared null", "/things/1", 200, "application/json", `{"name": null}`, "got null, want string"},
		{"missing field", "/things/1", 200, "application/json", `{}`, "missing property 'name'"},
		{"undeclared field", "/things/1", 200, "application/json", `{"name": "a", "colour": "red"}`, "'colour' not allowed"},
		{"wrong format", "/things/1", 200, "application/json", `{"name": "a", "made_at": "today"}`, "not valid date-time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := document.Check(apptest.Request{Method: "GET", Path: c.path},
				apptest.Answer{Status: c.status, Header: http.Header{"Content-Type": {c.media}}, Body: c.body})
			if c.want == "" && err != nil {
				t.Errorf("%v, want no error", err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
