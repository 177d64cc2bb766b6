package httpapi_test

import "testing"

func TestBodyIsValidated(t *testing.T) {
	f := newFrame(t, nil, mountThings)
	for _, c := range []struct {
		name, body string
		issues     []string
	}{
		{"malformed", `{"name":`, []string{"", "the body is not valid JSON: unexpected end of JSON input"}},
		{"not JSON", `name=x`, []string{"", "the body is not valid JSON: invalid character 'a' in literal null (expecting 'u')"}},
		{"two documents", `{"name":"x"}{}`, []string{"", "the body is not valid JSON: invalid character '{' after top-level value"}},
		{"NaN", `{"name":"x","size":NaN}`, []string{"", "the body is not valid JSON: invalid character 'N' looking for beginning of value"}},
		{"not an object", `[1]`, []string{"", "the body: expected object"}},
		{"null", `null`, []string{"", "the body: expected object"}},
		{"empty", ``, []string{"name", "name is required"}},
		{"missing", `{}`, []string{"name", "name is required"}},
		{"null for a required field", `{"name":null}`, []string{"name", "name: expected string"}},
		{"wrong type", `{"name":1}`, []string{"name", "name: expected string"}},
		{"too short", `{"name":""}`, []string{"name", "name: expected length >= 1"}},
		{"unknown word", `{"name":"x","kind":"green"}`, []string{`kind`, `kind: expected value to be one of "red, blue"`}},
		{"out of range", `{"name":"x","size":1.5}`, []string{"size", "size: expected number <= 1"}},
		{"fraction for an integer", `{"name":"x","count":1.5}`, []string{"count", "count: expected integer"}},
		{"integer over 64 bits", `{"name":"x","count":1e30}`, []string{"count", "count: unexpected number 1e30"}},
		{"number over 64 bits", `{"name":"x","size":1e400}`, []string{"", "the body: unexpected number 1e400"}},
		{"too many items", `{"name":"x","cases_json":[{"query":"1"},{"query":"2"},{"query":"3"},{"query":"4"},{"query":"5"},{"query":"6"}]}`, []string{"cases_json", "cases_json: expected array length <= 5"}},
		{"deep inside", `{"name":"x","cases_json":[{"query":"1"},{"query":"2"},{"query":"3"},{"query":""}]}`, []string{"cases_json.3.query", "cases_json.3.query: expected length >= 1"}},
		{"missing deep inside", `{"name":"x","cases_json":[{"query":"1"},{}]}`, []string{"cases_json.1.query", "query is required"}},
		{"bad time", `{"name":"x","when":"yesterday"}`, []string{"when", "when: expected string to be RFC 3339 date-time"}},
		{"time as a number", `{"name":"x","when":1767323045}`, []string{"when", "when: expected string"}},
		{"several problems", `{"kind":"green","size":-1,"note":7}`, []string{
			`kind`, `kind: expected value to be one of "red, blue"`, "name", "name is required", "note", "note: expected string", "size", "size: expected number >= 0",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.do(t, "POST", "/things", c.body).WantIssues(c.issues...)
		})
	}
}

func TestBodyIsTakenGenerously(t *testing.T) {
	f := newFrame(t, nil, mountThings)
	for _, c := range []struct{ name, body, want string }{
		{"null for optional fields", `{"name":"x","kind":null,"size":null,"count":null,"note":null,"when":null,"cases_json":null}`, `{"name":"x"}`},
		{"unknown fields", `{"name":"x","colour":"red","cases_json":[{"query":"q","weight":1}]}`, `{"name":"x","cases_json":[{"query":"q"}]}`},
		{"any offset of time", `{"name":"x","when":"2026-01-02T05:04:05.6784+02:00"}`, `{"name":"x","when":"2026-01-02T03:04:05.678Z"}`},
		{"escaped characters in a time", `{"name":"x","when":"2026-01-02T05:04:05\u002B02:00"}`, `{"name":"x","when":"2026-01-02T03:04:05.000Z"}`},
		{"NUL, which a database cannot keep", `{"name":"a\u0000b\\u0000"}`, `{"name":"a\ufffdb\\u0000"}`},
		{"white space around", " \r\n{\"name\":\"x\"}\n ", `{"name":"x"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.do(t, "POST", "/things", c.body).WantJSON(201, c.want)
		})
	}
}

func TestEmptyBodyIsAnEmptyObject(t *testing.T) {
	f := newFrame(t, nil, mountThings)
	for _, body := range []string{``, `{}`, `{"note":null}`} {
		f.do(t, "PATCH", "/things/7", body).WantJSON(200, `{"id":"7","note":null}`)
	}
	f.do(t, "PATCH", "/things/7", "", "Content-Type: application/json").WantJSON(200, `{"id":"7","note":null}`)
}

// TestHandCheckedBody covers routes that validate for themselves: the frame
// still refuses what cannot be decoded.
func TestHandCheckedBody(t *testing.T) {
	f := newFrame(t, nil, mountThings)
	f.do(t, "POST", "/hand-checked", `{"name":"","kind":"green"}`).WantJSON(200, `{"name":"","kind":"green"}`)
	f.do(t, "POST", "/hand-checked", ``).WantJSON(200, `{"name":""}`)
	for _, c := range []struct{ name, body, path, message string }{
		{"malformed", `{"name":`, "", "the body is not valid JSON: unexpected end of JSON input"},
		{"wrong type", `{"name":1}`, "name", "name: unexpected number"},
		{"wrong type deep inside", `{"cases_json":[{"query":true}]}`, "cases_json.0.query", "cases_json.0.query: unexpected bool"},
		{"wrong type after others", `{"name":"a","cases_json":[{"query":"a","tags":[1,{"b":2}]},{},{"query":{"x":[]}}]}`, "cases_json.2.query", "cases_json.2.query: unexpected object"},
		{"wrong element", `{"cases_json":[{},7]}`, "cases_json.1", "cases_json.1: unexpected number"},
		{"not an object", `"x"`, "", "the body: unexpected string"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.do(t, "POST", "/hand-checked", c.body).WantIssues(c.path, c.message)
		})
	}
}

func TestQueryIsValidated(t *testing.T) {
	f := newFrame(t, nil, mountThings)
	for _, c := range []struct {
		query  string
		issues []string
	}{
		{"page=0", []string{"page", "page: expected number >= 1"}},
		{"page=-1", []string{"page", "page: expected number >= 1"}},
		{"page=abc", []string{"page", "page: invalid integer"}},
		{"page=1.5", []string{"page", "page: invalid integer"}},
		{"page=99999999999999999999", []string{"page", "page: invalid integer"}},
		{"per_page=101", []string{"per_page", "per_page: expected number <= 100"}},
		{"kind=green", []string{`kind`, `kind: expected value to be one of "red, blue"`}},
		{"page=0&per_page=0", []string{"page", "page: expected number >= 1", "per_page", "per_page: expected number >= 1"}},
		{"q=a%00b", []string{"q", "q: not valid text"}},
		{"q=%ff", []string{"q", "q: not valid text"}},
		{"q=%zz", []string{"q", "q: not valid text"}},
	} {
		t.Run(c.query, func(t *testing.T) {
			f.do(t, "GET", "/things?"+c.query, "").WantIssues(c.issues...)
		})
	}
	t.Run("path", func(t *testing.T) {
		f.do(t, "PATCH", "/things/a%00b", "").WantIssues("", "the path is not valid text")
	})
}

func TestPage(t *testing.T) {
	f := newFrame(t, nil, mountThings)
	for _, c := range []struct{ query, want string }{
		{"", `{"offset":0,"q":"","pagination":{"page":1,"per_page":20,"total":42}}`},
		{"?page=3&per_page=100&unknown=1", `{"offset":200,"q":"","pagination":{"page":3,"per_page":100,"total":42}}`},
		{"?page=&q=caf%C3%A9+au+lait", `{"offset":0,"q":"café au lait","pagination":{"page":1,"per_page":20,"total":42}}`},
	} {
		t.Run(c.query, func(t *testing.T) {
			f.do(t, "GET", "/things"+c.query, "").WantJSON(200, c.want)
		})
	}
}
