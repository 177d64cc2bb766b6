package httpapi_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

type nested struct {
	Name   string            `json:"name"`
	Rate   *float64          `json:"rate,omitempty"`
	Count  int64             `json:"count"`
	Flag   *bool             `json:"flag"`
	Raw    json.RawMessage   `json:"raw"`
	Labels map[string]string `json:"labels"`
}

type decoded struct {
	nested
	Items []nested                   `json:"items"`
	Rest  map[string]json.RawMessage `json:"rest"`
	Any   any                        `json:"any"`
}

// FuzzDecodeJSON compares the decoder with the standard library's: the values and
// the errors are the same.
func FuzzDecodeJSON(f *testing.F) {
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
		compareDecoders[decoded](t, data)
		compareDecoders[any](t, data)
		compareDecoders[[]nested](t, data)
	})
}

func compareDecoders[T any](t *testing.T, data []byte) {
	t.Helper()
	var want, got T
	wantErr, gotErr := json.Unmarshal(data, &want), httpapi.DecodeJSON(data, &got)
	if (wantErr == nil) != (gotErr == nil) || wantErr != nil && wantErr.Error() != gotErr.Error() {
		t.Fatalf("%q: error %v, want %v", data, gotErr, wantErr)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(decoded{})); diff != "" {
		t.Fatalf("%q (-want +got):\n%s", data, diff)
	}
}

func TestDecodeJSONError(t *testing.T) {
	var d decoded
	err := httpapi.DecodeJSON([]byte(`{"count": 1, "items": [{"name": 1}]}`), &d)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok || wrong.Field != "items.name" {
		t.Errorf("error %#v, want the standard library's with its field", err)
	}
}
