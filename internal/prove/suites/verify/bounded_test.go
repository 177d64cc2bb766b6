package verify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/prove/suites/verify"
)

// maxOutput is the most that a command may write.
const maxOutput = 1 << 20

// list is a JSON array of items that takes about so many bytes.
func list(item string, size int) string {
	return "[" + strings.Repeat(item+",", size/(len(item)+1)) + item + "]"
}

// costly are schemas with outputs of the largest size whose validation takes much
// more time than their size, or cannot be cancelled in the library.
func costly() map[string][2]string {
	deep := func(inner string) string { return strings.Repeat("[", 90) + inner + strings.Repeat("]", 90) }
	object := func(members int) string {
		all := make([]string, members)
		for i := range all {
			all[i] = fmt.Sprintf(`"p%d":1`, i)
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	chain := make([]string, 2000)
	for i := range chain {
		chain[i] = fmt.Sprintf(`"d%d":{"$ref":"#/$defs/d%d"}`, i, i+1)
	}
	dependent := []string{`"d0":{"type":"string"}`}
	for i := range 40 {
		dependent = append(dependent, fmt.Sprintf(`"d%d":{"dependentSchemas":{"p0":{"$ref":"#/$defs/d%d"},"p1":{"$ref":"#/$defs/d%d"}}}`, i+1, i, i))
	}
	splits := make([]string, 20_000) // of one text, all with the hash of the others
	for i := range splits {
		var b strings.Builder
		for bit := range 15 {
			b.WriteString("a")
			if i>>bit&1 == 1 {
				b.WriteString(`","`)
			} else {
				b.WriteString(`\u0004`)
			}
		}
		splits[i] = `["` + b.String() + `"]`
	}
	nested := "1"
	for range 40 {
		nested = `{"a":` + nested + `}`
	}
	return map[string][2]string{
		"small fractions":    {`{"items":{"multipleOf":1e-400}}`, list("1e-399", maxOutput)},
		"large numbers":      {`{"items":{"type":"integer","multipleOf":7,"enum":[1e400]}}`, list("1e400", maxOutput)},
		"many digits":        {`{"items":{"type":"integer","minimum":3,"multipleOf":0.` + strings.Repeat("3", 900) + `}}`, list(strings.Repeat("7", 999), maxOutput)},
		"patterns":           {`{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"pattern":"(a?){200}(b|c)$"},`, 8), ",") + `]}`, `"` + strings.Repeat("a", 200_000) + `"`},
		"one large pattern":  {`{"pattern":"` + strings.Repeat("(a|b|ab)*", 1000) + `$"}`, `"` + strings.Repeat("ab", maxOutput/2) + `c"`},
		"doubling":           {doubling(40), `{}`},
		"doubling in a not":  {`{"not":{"$ref":"#/$defs/d40"},"$defs":{` + strings.Join(dependent, ",") + `}}`, `{"p0":1,"p1":1}`},
		"tripling by name":   {`{"not":{"$ref":"#/$defs/d"},"$defs":{"d":{"type":"object","patternProperties":{"a":{"$ref":"#/$defs/d"},"^a":{"$ref":"#/$defs/d"},".":{"$ref":"#/$defs/d"}}}}}`, nested},
		"equal hashes":       {`{"uniqueItems":true}`, "[" + strings.Join(splits, ",") + "]"},
		"unique in unique":   {`{"uniqueItems":true,"items":{"uniqueItems":true,"items":{"uniqueItems":true}}}`, list(list(list("1e-400", 100), 2000), maxOutput)},
		"a long enum":        {`{"items":{"enum":[` + strings.Repeat(`"a",`, 20_000) + `"b"]}}`, list(`"c"`, maxOutput)},
		"large constants":    {`{"items":{"enum":[` + strings.TrimSuffix(strings.Repeat(`[1e400,2],`, 10_000), ",") + `]}}`, list(`[1e400,1]`, maxOutput)},
		"problems far down":  {`{"$ref":"#/$defs/d","$defs":{"d":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/$defs/d"}}]}}}`, deep(list("1", maxOutput))},
		"many alternatives":  {`{"items":{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{"type":"string"},`, 4000), ",") + `]}}`, list("1", maxOutput)},
		"unevaluated":        {`{"unevaluatedProperties":{"type":"string"},"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"minProperties":1},`, 4000), ",") + `]}`, object(80_000)},
		"a chain of refs":    {`{"items":{"$ref":"#/$defs/d0"},"$defs":{` + strings.Join(chain, ",") + `,"d2000":{"type":"string"}}}`, list("1", maxOutput)},
		"required":           {`{"items":{"required":["a"` + requiredNames(10_000) + `]}}`, list("{}", maxOutput)},
		"contains":           {`{"contains":{"contains":{"contains":{"const":3}}}}`, list(list(list("1", 100), 2000), maxOutput)},
		"names":              {`{"propertyNames":{"pattern":"^(x?){900}$"}}`, object(80_000)},
		"formats":            {`{"$schema":"http://json-schema.org/draft-07/schema#","items":{"format":"regex"}}`, list(`"(a{30}){30}"`, maxOutput)},
		"dynamic references": {`{"$dynamicAnchor":"n","type":"array","items":{"anyOf":[{"$dynamicRef":"#n"},{"$dynamicRef":"#n"}]}}`, deep("1")},
		"unused anchors":     {`{"$dynamicRef":"#n","$defs":{"x":{"$dynamicAnchor":"n","not":{"$ref":"#/$defs/d40"}},` + strings.Join(dependent, ",") + `}}`, `{"p0":1,"p1":1}`},
	}
}

func requiredNames(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"n%d"`, i)
	}
	return b.String()
}

// little is a part of the budget that is used up in a tenth of a second;
// BenchmarkWorst uses up all of it.
const little = verify.MaxCost / 10

// TestSchemasHaveABudget: the worst outputs are finished or aborted within the
// budget.
func TestSchemasHaveABudget(t *testing.T) {
	for name, c := range costly() {
		t.Run(name, func(t *testing.T) {
			cost, r, err := verify.SchemaCost(t.Context(), little, c[0], c[1])
			if err != nil && !strings.Contains(err.Error(), "on this output") {
				t.Errorf("got %+v, %v", r, err)
			}
			if cost == 0 || err == nil && cost > little {
				t.Errorf("cost %d: %+v, %v", cost, r, err)
			}
		})
	}
}

// BenchmarkWorst prints how long the worst checks take.
func BenchmarkWorst(b *testing.B) {
	for name, c := range costly() {
		b.Run("schema/"+name, func(b *testing.B) {
			var cost int64
			began := time.Now()
			for b.Loop() {
				cost, _, _ = verify.SchemaCost(b.Context(), verify.MaxCost, c[0], c[1]) // aborted, or not
			}
			b.ReportMetric(float64(time.Since(began).Milliseconds())/float64(b.N), "ms/op")
			b.ReportMetric(float64(cost)/1e6, "Mcost")
		})
	}
	for name, c := range costlyAssertions() {
		b.Run("assertion/"+name, func(b *testing.B) {
			var cost int64
			began := time.Now()
			for b.Loop() {
				cost, _, _ = verify.AssertionCost(b.Context(), verify.MaxCost, c.expression, verify.Sample{Output: c.output})
			}
			b.ReportMetric(float64(time.Since(began).Milliseconds())/float64(b.N), "ms/op")
			b.ReportMetric(float64(cost)/1e6, "Mcost")
		})
	}
}

type costlyAssertion struct{ expression, output string }

func costlyAssertions() map[string]costlyAssertion {
	numbers := list("1", 10_000)
	return map[string]costlyAssertion{
		"matches":              {`output.matches("(a?){900}b$")`, strings.Repeat("a", 400_000)},
		"matches in an or":     {`output.matches("(a?){900}b$") || output.matches("(a?){900}c$") || true`, strings.Repeat("a", 400_000)},
		"matches its own":      {`output.matches(output)`, strings.Repeat("(a|b)*", 1500)},
		"many patterns":        {`json.all(p, output.matches(p))`, list(`"(1?){900}b"`, maxOutput)},
		"concatenation":        {`json.map(x, output + output).size() > 0`, list("1", maxOutput)},
		"a long concatenation": {`(` + strings.Repeat("output + ", 90) + `output).size() == 0`, strings.Repeat("a", maxOutput)},
		"nested loops":         {`json.all(a, json.all(b, json.all(c, a + b + c > 0)))`, numbers},
		"nested lists":         {`json.map(a, json.map(b, json.map(c, [a, b, c]))).size() == 0`, numbers},
		"deep comparisons":     {`json.all(x, json == json)`, list(list("1", 1000), maxOutput)},
		"contains":             {`json.all(x, !output.contains("` + strings.Repeat("1,", 4000) + `2"))`, list("1", maxOutput)},
		"lists in lists":       {`json.all(x, !(x in json.map(y, y + 1.0)))`, list("1", maxOutput)},
	}
}

// TestAssertionsHaveABudget is the same for assertions.
func TestAssertionsHaveABudget(t *testing.T) {
	for name, c := range costlyAssertions() {
		t.Run(name, func(t *testing.T) {
			cost, r, err := verify.AssertionCost(t.Context(), little, c.expression, verify.Sample{Output: c.output})
			if err != nil && !strings.Contains(err.Error(), "on this output") {
				t.Errorf("got %+v, %v", r, err)
			}
			if cost == 0 || err == nil && cost > little {
				t.Errorf("cost %d: %+v, %v", cost, r, err)
			}
		})
	}
}

// TestChecksHeedTheirContext cancels long checks.
func TestChecksHeedTheirContext(t *testing.T) {
	stop := errors.New("the run was cancelled")
	for name, check := range map[string]func(context.Context) (int64, verify.Result, error){
		"pattern of a schema": func(ctx context.Context) (int64, verify.Result, error) {
			return verify.SchemaCost(ctx, verify.MaxCost, `{"pattern":"(a?){90}b$"}`, `"`+strings.Repeat("a", 400_000)+`"`)
		},
		"steps of a schema": func(ctx context.Context) (int64, verify.Result, error) {
			return verify.SchemaCost(ctx, verify.MaxCost, doubling(40), `{}`)
		},
		"assertion": func(ctx context.Context) (int64, verify.Result, error) {
			return verify.AssertionCost(ctx, verify.MaxCost, `output.matches("(a?){90}b$")`, verify.Sample{Output: strings.Repeat("a", 400_000)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(stop)
			if cost, _, err := check(ctx); !errors.Is(err, stop) || cost > 0 {
				t.Errorf("cancelled before: got %v at a cost of %d", err, cost)
			}
			ctx, cancel = context.WithCancelCause(t.Context())
			time.AfterFunc(10*time.Millisecond, func() { cancel(stop) })
			if cost, _, err := check(ctx); !errors.Is(err, stop) {
				t.Errorf("cancelled meanwhile: got %v at a cost of %d", err, cost)
			}
		})
	}
}

// TestHugeNumbers: numbers out of range fail an output and break a schema,
// without being computed with.
func TestHugeNumbers(t *testing.T) {
	for _, number := range []string{
		"1e9999999", "-1e-9999999", "1e401", "1E+99999999999999999999",
		strings.Repeat("1", 1001), "0." + strings.Repeat("0", 1001),
	} {
		for _, schema := range []string{
			`{}`, `{"type":"integer"}`, `{"minimum":1}`, `{"multipleOf":2}`, `{"enum":[1]}`,
			`{"items":{"minimum":1}}`, `{"uniqueItems":true}`,
		} {
			for _, output := range []string{number, "[1," + number + "]", `{"a":{"b":` + number + `}}`} {
				got := ask(t, verify.Sample{Output: output})(verify.Schema(json.RawMessage(schema)))
				want(t, got, false, "the output is not JSON: ")
			}
		}
		for _, schema := range []string{
			`{"minimum":` + number + `}`, `{"enum":[` + number + `]}`,
			`{"items":{"multipleOf":` + number + `}}`,
		} {
			if _, err := verify.Schema(json.RawMessage(schema)); err == nil || verify.CheckSchema(json.RawMessage(schema)) == nil {
				t.Errorf("%.40s is taken", schema)
			}
		}
		if r := ask(t, verify.Sample{Output: number})(verify.Assertion(`json > 1`)); r.Evidence == "" {
			t.Errorf("%.20s: got %+v", number, r)
		}
	}
	for _, number := range []string{"1e400", "-1e-400", strings.Repeat("1", 1000), "1.5E+3"} {
		got := ask(t, verify.Sample{Output: number})(verify.Schema(json.RawMessage(`{"type":"number","minimum":-2}`)))
		want(t, got, true, "fits")
	}
	want(t, ask(t, verify.Sample{Output: strings.Repeat("[", 102) + strings.Repeat("]", 102)})(verify.Schema(json.RawMessage(`{}`))),
		false, "nested deeper than 100 levels")
}

// patterns are so many different ones.
func patterns(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"pattern":"%da{900}"},`, i)
	}
	return b.String()
}

// TestSchemasThatAreTooLarge are refused before the library sees them.
func TestSchemasThatAreTooLarge(t *testing.T) {
	for name, schema := range map[string]string{
		"bytes":    `{"description":"` + strings.Repeat("x", 128<<10) + `"}`,
		"parts":    `{"allOf":[` + strings.Repeat("true,", 5000) + `true]}`,
		"depth":    strings.Repeat(`{"not":`, 101) + "true" + strings.Repeat("}", 101),
		"pattern":  `{"pattern":"` + strings.Repeat("(a{30}){30}", 20) + `"}`,
		"patterns": `{"allOf":[` + patterns(60) + `true]}`,
		"length":   `{"pattern":"` + strings.Repeat("a", 10_001) + `"}`,
		"property": `{"patternProperties":{"(a{30}){30}(a{30}){30}(a{30}){30}(a{30}){30}(a{30}){30}(a{30}){30}(a{30}){30}(a{30}){30}(a{30}){30}(a{30}){30}(a{30}){30}(a{30}){30}":{}}}`,
	} {
		if _, err := verify.Schema(json.RawMessage(schema)); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
	for name, schema := range map[string]string{
		"patterns":    `{"allOf":[` + patterns(20) + `true]}`,
		"one pattern": `{"allOf":[` + strings.Repeat(`{"pattern":"a{900}"},`, 200) + `true]}`,
	} {
		if _, err := verify.Schema(json.RawMessage(schema)); err != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestLargeOutputsAreChecked: realistic checks are decided at the largest size of
// an output.
func TestLargeOutputsAreChecked(t *testing.T) {
	record := `{"id":123,"name":"Ada Lovelace","email":"ada@example.com","tags":["a","b"],"at":"2026-01-02T03:04:05Z","price":12.50}`
	schema := `{"type":"array","minItems":1,"uniqueItems":false,"items":{"type":"object","additionalProperties":false,
		"required":["id","name","email"],"properties":{"id":{"type":"integer","minimum":1},"name":{"type":"string","minLength":1,"maxLength":80},
		"email":{"type":"string","pattern":"^[^@\\s]+@[a-z]+\\.[a-z]{2,6}$"},"tags":{"type":"array","uniqueItems":true,"items":{"enum":["a","b","c"]}},
		"at":{"type":"string","format":"date-time"},"price":{"type":"number","multipleOf":0.01}}}}`
	cost, r, err := verify.SchemaCost(t.Context(), verify.MaxCost, schema, list(record, maxOutput-200))
	if err != nil || !r.Pass {
		t.Errorf("got %+v, %v at a cost of %d", r, err, cost)
	}
	text := strings.Repeat("The deployment of eu-west-1 took 12 minutes.\n", maxOutput/46)
	for _, expression := range []string{
		`output.contains("eu-west-1") && output.matches("took [0-9]+ minutes") && !output.matches("(?i)error|panic|fatal")`,
		`size(output) > 1000000 && output.startsWith("The") && !output.contains("eu-west-2")`,
	} {
		if cost, r, err := verify.AssertionCost(t.Context(), verify.MaxCost, expression, verify.Sample{Output: text}); err != nil || !r.Pass {
			t.Errorf("%s: got %+v, %v at a cost of %d", expression, r, err, cost)
		}
	}
	if cost, r, err := verify.AssertionCost(t.Context(), verify.MaxCost, `json.all(r, r.id > 0 && r.tags.exists(t, t == "a"))`,
		verify.Sample{Output: list(record, maxOutput-200)}); err != nil || !r.Pass {
		t.Errorf("got %+v, %v at a cost of %d", r, err, cost)
	}
}

// TestFailuresAreEvaluatedOnce: a false assertion costs the same as a true one.
func TestFailuresAreEvaluatedOnce(t *testing.T) {
	s := verify.Sample{Output: strings.Repeat("a", 1000)}
	right, _, err1 := verify.AssertionCost(t.Context(), verify.MaxCost, `output.matches("a+")`, s)
	wrong, r, err2 := verify.AssertionCost(t.Context(), verify.MaxCost, `output.matches("b+")`, s)
	if err1 != nil || err2 != nil || r.Pass || wrong > right+1000*10 {
		t.Errorf("cost %d and %d: %+v, %v, %v", right, wrong, r, err1, err2)
	}
}
