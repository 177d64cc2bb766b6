package httpapi_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

type part struct {
	Size int `json:"size"`
}

type Embedded struct {
	Inner *string `json:"inner"`
	Both  *string `json:"both"`
}

// A whole has a field of every sort that may be nil.
type whole struct {
	Embedded
	Text      *string            `json:"text"`
	Time      *httpapi.Time      `json:"time"`
	Enum      *string            `json:"enum" enum:"red,blue"`
	Part      *part              `json:"part" doc:"A part"`
	List      []part             `json:"list"`
	Sparse    []*part            `json:"sparse"`
	Map       map[string]*int    `json:"map"`
	Pair      *[2]int            `json:"pair"`
	Both      string             `json:"both"`
	Never     []part             `json:"never" nullable:"false"`
	Omitted   *part              `json:"omitted,omitempty"`
	Skipped   []part             `json:"skipped,omitempty"`
	Zero      *string            `json:"zero,omitzero"`
	Plain     httpapi.Time       `json:"plain"`
	Defaulted string             `json:"defaulted,omitempty" default:"x" doc:"A text"`
	Deep      map[string][]*part `json:"deep,omitempty"`
}

type wholeInput struct{ Body whole }

// TestNullable: null is declared exactly where the Go type encodes as null.
func TestNullable(t *testing.T) {
	f := newFrame(t, nil, func(a *httpapi.API) {
		httpapi.Add(a, func(_ context.Context, in wholeInput) (whole, error) { return in.Body, nil },
			httpapi.Route{Method: "POST", Path: "/wholes"})
	})
	const body = `{"text":null,"time":null,"part":null,"list":null}`
	before := f.do(t, "POST", "/wholes", body).Want(400)
	raw, err := f.API.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	ref := object{"$ref": "#/components/schemas/Httpapi_testPart"}
	integer := object{"type": "integer", "format": "int64"}
	times := []any{"2026-01-02T03:04:05.678Z"}
	want := object{
		"inner":     object{"type": []any{"string", "null"}},
		"text":      object{"type": []any{"string", "null"}},
		"time":      object{"type": []any{"string", "null"}, "format": "date-time", "examples": times},
		"enum":      object{"type": []any{"string", "null"}, "enum": []any{"red", "blue", nil}},
		"part":      object{"anyOf": []any{ref, object{"type": "null"}}, "description": "A part"},
		"list":      object{"type": []any{"array", "null"}, "items": ref},
		"sparse":    object{"type": []any{"array", "null"}, "items": object{"anyOf": []any{ref, object{"type": "null"}}}},
		"map":       object{"type": []any{"object", "null"}, "additionalProperties": object{"type": []any{"integer", "null"}, "format": "int64"}},
		"pair":      object{"type": []any{"array", "null"}, "items": integer, "minItems": 2.0, "maxItems": 2.0},
		"both":      object{"type": "string"},
		"never":     object{"type": "array", "items": ref},
		"omitted":   ref,
		"skipped":   object{"type": "array", "items": ref},
		"zero":      object{"type": "string"},
		"plain":     object{"type": "string", "format": "date-time", "examples": times},
		"defaulted": object{"type": "string", "description": `A text (default: "x")`},
		"deep": object{"type": "object", "additionalProperties": object{
			"type": "array", "items": object{"anyOf": []any{ref, object{"type": "null"}}},
		}},
	}
	got := at(t, parse(t, raw), "components", "schemas", "Httpapi_testWhole", "properties")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if after := f.do(t, "POST", "/wholes", body); string(after.Body) != string(before.Body) {
		t.Errorf("the document changes what is accepted:\n%s\n%s", before.Body, after.Body)
	}
}
