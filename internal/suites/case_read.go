package suites

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/suites/taskfile"
	"github.com/whetstone-dev/whetstone/internal/suites/verify"
)

// maxCaseID is how long a case's id may be, in bytes.
const maxCaseID = 200

// ParseCases reads the cases of a suite as they are stored, a JSON array.
func ParseCases(document json.RawMessage, v VerifierKind) ([]Case, error) {
	var all []Fields
	if err := json.Unmarshal(document, &all); err != nil {
		return nil, err
	}
	cases := make([]Case, len(all))
	for i, f := range all {
		cases[i] = parseCase(f, v)
	}
	return cases, nil
}

// parseCase reads what it can of a case. What is missing or wrong becomes a
// problem of the case, not an error: authors may store unfinished cases.
func parseCase(f Fields, v VerifierKind) Case {
	r := &reading{fields: f}
	c := Case{Fields: f, ID: r.id(), Kind: r.kind(v), Name: r.text("name"), Weight: r.number("weight", 1), Tags: r.texts("tags")}
	if c.Weight <= 0 {
		r.problem("weight", "weight must be above 0")
	}
	switch c.Kind {
	case TriggerQuery:
		r.trigger(&c)
	case LLMRubric:
		r.rubric(&c)
	case ExactMatch:
		r.exactMatch(&c)
	case JSONSchema:
		r.schema(&c)
	case BooleanAssertion:
		c.Subject, c.Assertion = r.subject(), r.required("assertion")
	case TaskPackage:
		r.taskPackage(&c)
	case "":
		r.problem("case_kind", "case_kind is missing, and the other fields do not tell it")
	}
	c.problems = r.problems
	return c
}

// A reading takes a case's fields one by one, so that a bad one does not hide
// the others.
type reading struct {
	fields   Fields
	problems []fault.Issue
}

func (r *reading) problem(field, format string, args ...any) {
	r.problems = append(r.problems, fault.At(field, format, args...))
}

// has reports whether the case has the field; null counts as missing.
func (r *reading) has(field string) bool {
	raw := bytes.TrimSpace(r.fields[field])
	return len(raw) > 0 && string(raw) != "null"
}

// into decodes a field, and reports whether it was there and good.
func (r *reading) into(v any, field, want string) bool {
	if !r.has(field) {
		return false
	}
	if err := json.Unmarshal(r.fields[field], v); err != nil {
		r.problem(field, "%s must be %s", field, want)
		return false
	}
	return true
}

func (r *reading) text(field string) string {
	var text string
	r.into(&text, field, "a string")
	return text
}

// required wants a text that is not blank.
func (r *reading) required(field string) string {
	var text string
	if r.has(field) && !r.into(&text, field, "a string") {
		return ""
	}
	if strings.TrimSpace(text) == "" {
		r.problem(field, "%s is required", field)
	}
	return text
}

func (r *reading) texts(field string) []string {
	var all []string
	r.into(&all, field, "an array of strings")
	return all
}

func (r *reading) number(field string, otherwise float64) float64 {
	number := otherwise
	if !r.into(&number, field, "a number") {
		return otherwise
	}
	return number
}

// id is a text, or a whole number, as in evals.json.
func (r *reading) id() string {
	if !r.has("id") {
		return ""
	}
	var text string
	if json.Unmarshal(r.fields["id"], &text) == nil {
		if text == "" || len(text) > maxCaseID {
			r.problem("id", "id must have 1 to %d bytes", maxCaseID)
		}
		return text
	}
	var number int64
	r.into(&number, "id", "a string or a whole number")
	return strconv.FormatInt(number, 10)
}

// kind is what the case says of itself or, if it does not, what its fields
// say: first a kind that the verifier can judge.
func (r *reading) kind(v VerifierKind) CaseKind {
	if r.has("case_kind") {
		return CaseKind(r.text("case_kind"))
	}
	var told []CaseKind
	for _, sign := range []struct {
		field string
		kind  CaseKind
	}{
		{"environment_ref", TaskPackage},
		{"assertion", BooleanAssertion},
		{"schema", JSONSchema},
		{"rubric", LLMRubric},
		{"expectations", LLMRubric},
		{"expected", ExactMatch},
		{"expectation", TriggerQuery},
		{"query", TriggerQuery},
	} {
		if r.has(sign.field) {
			told = append(told, sign.kind)
		}
	}
	if i := slices.IndexFunc(told, v.allows); i >= 0 {
		return told[i]
	}
	if len(told) > 0 {
		return told[0]
	}
	return ""
}

func (r *reading) trigger(c *Case) {
	c.Query, c.Invocation = r.required("query"), r.text("invocation_type")
	c.Expectation = Expectation(r.text("expectation"))
	if c.Expectation != ShouldTrigger && c.Expectation != ShouldNotTrigger {
		r.problem("expectation", "expectation must be should_trigger or should_not_trigger")
	}
}

// subject wants exactly one.
func (r *reading) subject() (s Subject) {
	given := 0
	for _, field := range []string{"prompt", "input", "query"} {
		if r.has(field) {
			text := r.required(field)
			s.Prompt = &text
			given++
			break // the others are aliases
		}
	}
	if r.has("command") {
		given++
		if s.Command = r.texts("command"); len(s.Command) == 0 || s.Command[0] == "" {
			r.problem("command", "command must be an array of strings that begins with a program")
		}
	}
	if r.has("output") {
		given++
		s.Output = r.output()
	}
	if given != 1 {
		r.problem("", "the case needs one of prompt, command and output")
	}
	return s
}

// output is a text; any other value stands for its JSON.
func (r *reading) output() *string {
	text := string(r.fields["output"])
	_ = json.Unmarshal(r.fields["output"], &text) // leaves it alone unless it is a string
	return &text
}

func (r *reading) rubric(c *Case) {
	c.Subject, c.Rubric, c.Expectations = r.subject(), r.text("rubric"), r.texts("expectations")
	if strings.TrimSpace(c.Rubric) == "" && len(c.Expectations) == 0 {
		r.problem("expectations", "the case needs a rubric or expectations")
	}
	if slices.ContainsFunc(c.Expectations, func(e string) bool { return strings.TrimSpace(e) == "" }) {
		r.problem("expectations", "expectations must not be blank")
	}
	if c.Threshold = r.number("threshold", 1); !(c.Threshold > 0 && c.Threshold <= 1) {
		r.problem("threshold", "threshold must be above 0 and at most 1")
	}
}

func (r *reading) exactMatch(c *Case) {
	c.Subject, c.Normalize = r.subject(), r.texts("normalize")
	if !r.into(&c.Expected, "expected", "a string") && !r.has("expected") {
		r.problem("expected", "expected is required")
	}
	if len(c.Normalize) > verify.MaxNormalizations {
		r.problem("normalize", "normalize may name %d normalizations at most", verify.MaxNormalizations)
		return
	}
	for _, n := range c.Normalize {
		if !slices.Contains([]string{"trim", "case", "whitespace", "newline"}, n) {
			r.problem("normalize", "normalize knows trim, case, whitespace and newline")
		}
	}
}

func (r *reading) schema(c *Case) {
	c.Subject = r.subject()
	raw := bytes.TrimSpace(r.fields["schema"])
	if !bytes.HasPrefix(raw, []byte("{")) && !slices.Contains([]string{"true", "false"}, string(raw)) {
		r.problem("schema", "schema must be a JSON Schema: an object or a boolean")
		return
	}
	if err := verify.CheckSchema(raw); err != nil {
		r.problem("schema", "%s", err)
		return
	}
	c.Schema = raw
}

func (r *reading) taskPackage(c *Case) {
	c.Package = Package{
		EnvironmentRef: r.text("environment_ref"), Instruction: r.text("instruction"),
		VerifierRef: r.path("verifier_ref", taskfile.DefaultVerifier), SkillBundleRef: r.path("skill_bundle_ref", taskfile.DefaultSkillBundle),
		OracleRef: r.path("oracle_ref", ""),
	}
	if scheme, _, _ := strings.Cut(c.Package.EnvironmentRef, "://"); !slices.Contains(fetchable, strings.ToLower(scheme)) {
		r.problem("environment_ref", "environment_ref must begin with one of %s:// for this service to fetch it", strings.Join(fetchable, "://, "))
	}
	var hints Fields
	if r.into(&hints, "resource_hints", "an object") {
		h := &reading{fields: hints}
		h.hints(&c.Package)
		for _, p := range h.problems {
			r.problems = append(r.problems, fault.Issue{Path: append([]string{"resource_hints"}, p.Path...), Message: p.Message})
		}
	}
}

func (r *reading) hints(p *Package) {
	p.WorkingDir = r.path("working_dir", "")
	milliseconds := r.number("timeout_ms", 0)
	if r.has("timeout_ms") && !(milliseconds >= 1 && milliseconds <= math.MaxInt32) {
		r.problem("timeout_ms", "timeout_ms must be a number of milliseconds, at least 1")
		return
	}
	p.TimeoutMS = int64(milliseconds)
	r.into(&p.Env, "env", "an object of strings")
}

// path is a way into the archive, which it must not leave.
func (r *reading) path(field, otherwise string) string {
	text := r.text(field)
	if text == "" {
		return otherwise
	}
	if text = path.Clean(text); !fs.ValidPath(text) {
		r.problem(field, "%s must be a path inside the archive", field)
	}
	return text
}
