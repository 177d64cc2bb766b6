package verify_test

import (
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/prove/suites/verify"
)

// maxEvidence is more than a person reads of a verdict.
const maxEvidence = 8 << 10

// slow is how long any check may take, however it was meant.
const slow = 20 * time.Second

// judge runs a check twice and compares its verdicts.
func judge(t *testing.T, check verify.Check, s verify.Sample) {
	t.Helper()
	began := time.Now()
	got, err := check(t.Context(), s)
	again, err2 := check(t.Context(), s)
	if took := time.Since(began); took > slow {
		t.Errorf("took %s", took)
	}
	if (err == nil) != (err2 == nil) || err == nil && got.Pass != again.Pass {
		t.Errorf("%+v %v, and then %+v %v", got, err, again, err2)
	}
	if err == nil && (got.Evidence == "" || len(got.Evidence) > maxEvidence) {
		t.Errorf("evidence of %d bytes: %.300s", len(got.Evidence), got.Evidence)
	}
	if err == nil && utf8.ValidString(s.Output) && !utf8.ValidString(got.Evidence) {
		t.Errorf("evidence that is no text: %q", got.Evidence)
	}
}

// FuzzAssertion: an expression is refused, or decides any output in bounded
// time, the same way every time.
func FuzzAssertion(f *testing.F) {
	for _, seed := range [][2]string{
		{"output == 'a'", "a"},
		{"json.a[0] > 1 && exit_code == 0", `{"a":[2]}`},
		{"files.exists(p, p.endsWith('.txt')) || output.matches('^(a+)+$')", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"},
		{"[1,2,3].all(x, [1,2,3].all(y, [1,2,3].all(z, x+y+z > 0)))", ""},
		{"json.map(x, json.map(y, json.map(z, x))).size() > 0", `[1,2,3,4,5,6,7,8,9]`},
		{"duration_ms < 10 ? size(output) > 0 : false", "x"},
		{"json", "true"},
		{"output + output + output == ''", "\xff"},
		{"1/0 == 1", ""},
		{"timestamp(output) > timestamp('2026-01-02T03:04:05Z')", "x"},
		{"{'a': {'b': json}}['a']['b'] == null", "null"},
		{"((((((((((1))))))))))", ""},
		{"", ""},
	} {
		f.Add(seed[0], seed[1])
	}
	exit := 0
	f.Fuzz(func(t *testing.T, expression, output string) {
		if len(output) > 64<<10 {
			return
		}
		check, err := verify.Assertion(expression)
		if err != nil {
			if message := err.Error(); len(message) > maxEvidence {
				t.Errorf("a message of %d bytes", len(message))
			}
			return
		}
		judge(t, check, verify.Sample{
			Output: output, ExitCode: &exit, Duration: time.Millisecond,
			Files: map[string]string{"a.txt": output},
		})
		judge(t, check, verify.Sample{Output: output})
	})
}

// FuzzSchema: a schema is refused, or decides any output in bounded time.
// Nothing is fetched for it.
func FuzzSchema(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"integer","minimum":1}}}`, `{"a":0}`},
		{`{"$ref":"file:///etc/passwd"}`, `{}`},
		{`{"$ref":"http://127.0.0.1:1/x"}`, `{}`},
		{`{"$ref":"#"}`, `1`},
		{`{"pattern":"^(a|a)*$"}`, `"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"`},
		{`{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"type":"null"}]}},"$ref":"#/$defs/a"}`, `[]`},
		{`{"uniqueItems":true}`, `[1,1.0,"1"]`},
		{`true`, `nonsense`},
		{`{"type":"nonsense"}`, ``},
	} {
		f.Add([]byte(seed[0]), seed[1])
	}
	f.Fuzz(func(t *testing.T, schema []byte, output string) {
		if !json.Valid(schema) || len(schema) > 64<<10 || len(output) > 64<<10 {
			return
		}
		check, err := verify.Schema(schema)
		if err != nil {
			return
		}
		judge(t, check, verify.Sample{Output: output})
	})
}

// FuzzExact: what is expected passes, whatever it is; and the verdict does not
// depend on which of the two is called the output.
func FuzzExact(f *testing.F) {
	for _, seed := range [][2]string{{"a", "A "}, {"a\r\nb", "a\nb"}, {"", " "}, {"\xff", "\ufffd"}, {"ſ", "S"}, {"İ", "i"}} {
		f.Add(seed[0], seed[1])
	}
	by := []verify.Normalization{"trim", "case", "whitespace", "newline"}
	f.Fuzz(func(t *testing.T, expected, output string) {
		for n := range len(by) + 1 {
			check, err := verify.Exact(expected, by[:n])
			if err != nil {
				t.Fatal(err)
			}
			judge(t, check, verify.Sample{Output: output})
			if same, err := check(t.Context(), verify.Sample{Output: expected}); err != nil || !same.Pass {
				t.Errorf("%q is not itself by %v: %+v %v", expected, by[:n], same, err)
			}
			turned, err := verify.Exact(output, by[:n])
			if err != nil {
				t.Fatal(err)
			}
			one, _ := check(t.Context(), verify.Sample{Output: output})
			two, _ := turned(t.Context(), verify.Sample{Output: expected})
			if one.Pass != two.Pass {
				t.Errorf("%q and %q by %v: %t, and the other way round %t", expected, output, by[:n], one.Pass, two.Pass)
			}
		}
	})
}
