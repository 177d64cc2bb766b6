package fastjson_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/fastjson"
)

type nested struct {
	Name   string            `json:"name"`
	Rate   *float64          `json:"rate,omitempty"`
	Count  int64             `json:"count"`
	Flag   *bool             `json:"flag"`
	Raw    json.RawMessage   `json:"raw"`
	Labels map[string]string `json:"labels"`
}

type document struct {
	nested
	Items []nested                   `json:"items"`
	Rest  map[string]json.RawMessage `json:"rest"`
	Any   any                        `json:"any"`
}

// FuzzUnmarshal shows that nobody can tell the decoder from the standard
// library's: not by what comes out, and not by the error.
func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []string{
		`{"name": "a", "rate": 0.5, "count": 3, "flag": true, "raw": {"x": [1, 2]}, "labels": {"a": "b"}}`,
		`{"items": [{"name": "a"}, {"name": "b", "name": "c"}, null], "rest": {"a": 1, "b": null}}`,
		`{"NAME": "case", "Count": 1}`, `{"name": "\u0000\ud800 \xff"}`, `{"name": 1, "count": 2}`,
		`{"count": 1.5}`, `{"count": 9223372036854775808}`, `{"rate": 1e400}`, `{"any": [1, "2", {"3": null}]}`,
		`{"unknown": {"deep": [[[[]]]]}}`, `{"name": "a"} x`, `{"name": "a"`, ``, `null`, `[]`, `"text"`, `{"raw": }`,
		`{"items": {"name": "a"}}`, `{"flag": "true"}`, `{"labels": {"a": 1}}`, "\ufeff{}", `{"a":1,}`, `01`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		same[document](t, data)
		same[any](t, data)
		same[[]nested](t, data)
	})
}

func same[T any](t *testing.T, data []byte) {
	t.Helper()
	var want, got T
	wantErr, gotErr := json.Unmarshal(data, &want), fastjson.Unmarshal(data, &got)
	if (wantErr == nil) != (gotErr == nil) || wantErr != nil && wantErr.Error() != gotErr.Error() {
		t.Fatalf("%q: error %v, want %v", data, gotErr, wantErr)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(document{})); diff != "" {
		t.Fatalf("%q (-want +got):\n%s", data, diff)
	}
}

func TestErrorsAreTheStandardOnes(t *testing.T) {
	var d document
	err := fastjson.Unmarshal([]byte(`{"count": 1, "items": [{"name": 1}]}`), &d)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok || wrong.Field != "items.name" {
		t.Errorf("error %#v, want the standard library's with its field", err)
	}
}
