package verify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/prove/suites/verify"
)

// ask compiles a check and asks it once.
func ask(t *testing.T, s verify.Sample) func(verify.Check, error) verify.Result {
	return func(check verify.Check, err error) verify.Result {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		r, err := check(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

func want(t *testing.T, got verify.Result, pass bool, evidence string) {
	t.Helper()
	if got.Pass != pass || !strings.Contains(got.Evidence, evidence) {
		t.Errorf("got pass %v, evidence %q; want %v, %q", got.Pass, got.Evidence, pass, evidence)
	}
}

func TestExact(t *testing.T) {
	type norms = []verify.Normalization
	for _, c := range []struct {
		name, expected, output string
		by                     norms
		pass                   bool
		evidence               string
	}{
		{"equal", "a\n", "a\n", nil, true, "as expected"},
		{"both empty", "", "", nil, true, "as expected"},
		{"trailing newline counts", "a", "a\n", nil, false, `line 1, column 2: expected "a", got "a\n"`},
		{"trim", " a b ", "\ta b\n", norms{verify.Trim}, true, ""},
		{"trim keeps the inside", "a b", "a  b", norms{verify.Trim}, false, "column 3"},
		{"case", "Straße A", "STRAßE a", norms{verify.Case}, true, ""},
		{"whitespace", "a b\nc", "  a\t b c ", norms{verify.Whitespace}, true, ""},
		{"newline", "a\nb\n", "a\r\nb", norms{verify.Newline}, true, ""},
		{"newline keeps blanks", "a\nb", "a \nb", norms{verify.Newline}, false, "line 1, column 2"},
		{"all", "A b", " a\r\nB\r\n", norms{verify.Trim, verify.Case, verify.Whitespace, verify.Newline}, true, ""},
		{"second line", "one\ntwo\nthree", "one\ntvo\nthree", nil, false, `line 2, column 2: expected "two\nthree", got "tvo\nthree"`},
		{"within a character", "größe", "grüße", nil, false, `line 1, column 3: expected "größe", got "grüße"`},
		{"output ends early", "abc", "ab", nil, false, `column 3: expected "abc", got "ab"`},
		{"no output", "abc", "", nil, false, `column 1: expected "abc", got ""`},
		{"long", strings.Repeat("x", 5000), strings.Repeat("x", 4999) + "y", nil, false, "column 5000"},
		{"not UTF-8", "a\xff", "a\xfe", nil, false, "column 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ask(t, verify.Sample{Output: c.output})(verify.Exact(c.expected, c.by))
			want(t, got, c.pass, c.evidence)
			if len(got.Evidence) > 600 {
				t.Errorf("evidence of %d bytes", len(got.Evidence))
			}
		})
	}
	if _, err := verify.Exact("a", norms{"lower"}); err == nil {
		t.Error("an unknown normalization is taken")
	}
	if _, err := verify.Exact("a", make(norms, 11)); err == nil || !strings.Contains(err.Error(), "more than 10") {
		t.Errorf("got %v", err)
	}
}

func TestSchema(t *testing.T) {
	const person = `{"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "tags": {"items": {"$ref": "#/$defs/tag"}}},
		"$defs": {"tag": {"enum": ["a", "b"]}}}`
	for _, c := range []struct {
		name, schema, output string
		pass                 bool
		evidence             string
	}{
		{"fits", person, `{"name": "x", "tags": ["a"]}`, true, "fits"},
		{"white space around", person, "\n {\"name\": \"x\"} \n", true, "fits"},
		{"missing", person, `{}`, false, "at / (schema #/required): missing property 'name'"},
		{"wrong type", person, `{"name": 3}`, false, "at /name (schema #/properties/name/type): got number, want string"},
		{"through a reference", person, `{"name": "x", "tags": ["a", "c"]}`, false, "at /tags/1 (schema #/$defs/tag/enum)"},
		{"not JSON", person, `name: x`, false, "the output is not JSON"},
		{"empty", person, ``, false, "the output is not JSON: it is empty"},
		{"two values", `{}`, `1 2`, false, "the output is not JSON"},
		{"2020-12 by default", `{"prefixItems": [{"type": "string"}]}`, `[1]`, false, "at /0 (schema #/prefixItems/0/type)"},
		{"another draft by name", `{"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]}`, `[1]`, false, "at /0"},
		{"large numbers", `{"const": 12345678901234567890}`, `12345678901234567891`, false, "value must be"},
		{"false", `false`, `1`, false, "at /"},
		{"escaped path", `{"properties": {"a/b": {"type": "string"}}}`, `{"a/b": 1}`, false, "at /a~1b"},
		{"many problems", `{"items": {"type": "string"}}`, `[1,2,3,4,5,6,7]`, false, "and 2 more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want(t, ask(t, verify.Sample{Output: c.output})(verify.Schema(json.RawMessage(c.schema))), c.pass, c.evidence)
		})
	}
}

func TestBrokenSchema(t *testing.T) {
	for _, schema := range []string{
		``, `{`, `{"type": "strin"}`, `{"$ref": "#/nowhere"}`, `{"pattern": "("}`, `3`,
		`{"$ref": "file:///etc/passwd"}`, `{"$ref": "http://127.0.0.1:1/x"}`, `{"$schema": "http://127.0.0.1:1/x"}`,
	} {
		if _, err := verify.Schema(json.RawMessage(schema)); err == nil {
			t.Errorf("%s is taken", schema)
		}
	}
}

// doubling is a schema whose check takes two to the power of n steps.
func doubling(n int) string {
	defs := []string{`"d0": {"type": "object"}`}
	for i := range n {
		defs = append(defs, fmt.Sprintf(`"d%d": {"allOf": [{"$ref": "#/$defs/d%d"}, {"$ref": "#/$defs/d%d"}]}`, i+1, i, i))
	}
	return fmt.Sprintf(`{"$ref": "#/$defs/d%d", "$defs": {%s}}`, n, strings.Join(defs, ","))
}

func TestSchemaIsBounded(t *testing.T) {
	for _, output := range []string{`{}`, `1`} {
		check, err := verify.Schema(json.RawMessage(doubling(40)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := check(t.Context(), verify.Sample{Output: output}); err == nil || !strings.Contains(err.Error(), "too many steps") {
			t.Errorf("%s: got %v", output, err)
		}
	}
	check, err := verify.Schema(json.RawMessage(doubling(15)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := check(ctx, verify.Sample{Output: `{}`}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it to heed its context", err)
	}
	if r, err := check(t.Context(), verify.Sample{Output: `{}`}); err != nil || !r.Pass {
		t.Errorf("the next check gave %v, %v", r, err)
	}
}

func TestAssertion(t *testing.T) {
	zero, one := 0, 1
	run := verify.Sample{
		Output: `{"items": [1, 2, 3], "ok": true, "name": "x"}`, Duration: 1500 * time.Millisecond, ExitCode: &zero,
		Files: map[string]string{"report.md": "# Report\n", "out/data.csv": "a,b\n"},
	}
	failed := run
	failed.ExitCode = &one
	given := verify.Sample{Output: "hello"}
	for _, c := range []struct {
		name, expression string
		sample           verify.Sample
		pass             bool
		evidence         string
	}{
		{"output", `output.contains("items")`, run, true, "true"},
		{"json", `json.items.size() == 3 && json.ok`, run, true, "true"},
		{"json numbers", `json.items[0] == 1 && json.items[1] < 3 && json.items.all(i, i > 0)`, run, true, "true"},
		{"exit code", `exit_code == 0`, run, true, "true"},
		{"exit code is another", `exit_code == 0`, failed, false, "exit_code == 0 is false, where exit_code is 1"},
		{"duration", `duration_ms <= 1500 && duration_ms >= 1500`, run, true, "true"},
		{"files", `"report.md" in files && files["out/data.csv"].startsWith("a,")`, run, true, "true"},
		{"missing file", `"x" in files`, run, false, `"x" in files is false, where files is {`},
		{"the false part", `json.ok && size(json.items) == 4`, run, false, "size(json.items) == 4 is false, where size(json.items) is 3"},
		{"both parts", `output == "a" || output.startsWith("b")`, given, false, `output == "a" is false, where output is "hello"; output.startsWith("b") is false, where output is "hello"`},
		{"negation", `!output.contains("ell")`, given, false, `!output.contains("ell") is false, where output.contains("ell") is true`},
		{"macro", `json.items.exists(i, i > 5)`, run, false, `json.items.exists(i, i > 5) is false`},
		{"regular expression", `output.matches("^h.*o$")`, given, true, "true"},
		{"ternary", `output == "hello" ? true : false`, given, true, "true"},
		{"not JSON", `json.ok`, given, false, "the output is not JSON"},
		{"not JSON, and it does not matter", `output == "hello" || json.ok`, given, true, "true"},
		{"missing key", `json.nothing == 1`, run, false, "does not apply to the output: no such key: nothing"},
		{"wrong type", `json.name < 3`, run, false, "does not apply to the output: no such overload"},
		{"index", `json.items[9] == 1`, run, false, "does not apply"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want(t, ask(t, c.sample)(verify.Assertion(c.expression)), c.pass, c.evidence)
		})
	}
}

func TestBrokenAssertion(t *testing.T) {
	for _, expression := range []string{
		``, `output ==`, `outputs == "a"`, `output`, `size(output)`, `output + 1 == "a"`, `env("HOME") == ""`,
		`output.matches("(")`, strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300), `output == "` + strings.Repeat("a", 20_000) + `"`,
	} {
		check, err := verify.Assertion(expression)
		if err == nil {
			if _, err = check(t.Context(), verify.Sample{Output: "a"}); err == nil {
				t.Errorf("%.40s gives a verdict", expression)
			}
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("%.40s gives an error of %d bytes", expression, len(err.Error()))
		}
	}
}

func TestAssertionWithoutVerdict(t *testing.T) {
	for _, c := range []struct{ expression, problem string }{
		{`json`, "not true or false"},
		{`exit_code == 0`, "known only of a command"},
		{`"a" in files`, "known only of a command"},
		{`[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d,
			[0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, [0,1,2,3,4,5,6,7,8,9].all(g, a + b + c + d + e + f + g >= 0)))))))`, "too "},
		{`!output.contains("` + strings.Repeat("a", 9000) + `") && !output.matches("` + strings.Repeat("a", 500) + `")`, "too many steps"},
	} {
		check, err := verify.Assertion(c.expression)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := check(t.Context(), verify.Sample{Output: "3" + strings.Repeat(" ", 100_000)}); err == nil ||
			!strings.Contains(err.Error(), c.problem) {
			t.Errorf("%.40s: got %v, %v; want an error with %q", c.expression, r, err, c.problem)
		}
	}
	check, err := verify.Assertion(`[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, a + b + c > 0)))`)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := check(ctx, verify.Sample{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it to heed its context", err)
	}
}

func TestChecksAreShared(t *testing.T) {
	schema, err := verify.Schema(json.RawMessage(`{"type": "object", "required": ["n"]}`))
	if err != nil {
		t.Fatal(err)
	}
	assertion, err := verify.Assertion(`json.n % 2 == 0`)
	if err != nil {
		t.Fatal(err)
	}
	exact, err := verify.Exact(`{"n": 4}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for n := range 50 {
		wg.Go(func() {
			s := verify.Sample{Output: fmt.Sprintf(`{"n": %d}`, n)}
			for _, c := range []struct {
				check verify.Check
				pass  bool
			}{{schema, true}, {exact, n == 4}} {
				if r, err := c.check(t.Context(), s); err != nil || r.Pass != c.pass {
					t.Errorf("%d: got %v, %v; want %v", n, r, err, c.pass)
				}
			}
			if _, err := assertion(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
