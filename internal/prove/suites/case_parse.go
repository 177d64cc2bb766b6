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

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/taskfile"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/verify"
)

// maxCaseID bounds the id of a case, in bytes.
const maxCaseID = 200

// ParseCases parses the cases of a suite as they are stored, a JSON array.
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

// parseCase parses as much of a case as it can. What is missing or wrong becomes a
// problem of the case, not an error: authors may store unfinished cases.
func parseCase(f Fields, v VerifierKind) Case {
	p := &caseParser{fields: f}
	c := Case{
		Fields: f, ID: p.id(), Kind: p.kind(v), Name: p.text("name"), Weight: p.number("weight", 1), Tags: p.texts("tags"),
		Agent: p.agent(),
	}
	if c.Weight <= 0 {
		p.problem("weight", "weight must be above 0")
	}
	switch c.Kind {
	case TriggerQuery:
		p.trigger(&c)
	case LLMRubric:
		p.rubric(&c)
	case ExactMatch:
		p.exactMatch(&c)
	case JSONSchema:
		p.schema(&c)
	case BooleanAssertion:
		if c.Subject, c.Graders = p.subject(), p.graders(false); c.Graders == nil {
			c.Assertion = p.required("assertion")
		}
	case TaskPackage:
		p.taskPackage(&c)
	case "":
		p.problem("case_kind", "case_kind is missing, and the other fields do not tell it")
	}
	c.problems = p.problems
	return c
}

// A caseParser decodes the fields of a case one by one, so that all problems
// are found at once.
type caseParser struct {
	fields   Fields
	problems []fault.Issue
}

func (p *caseParser) problem(field, format string, args ...any) {
	p.problems = append(p.problems, fault.At(field, format, args...))
}

// has reports whether the case has the field; null counts as missing.
func (p *caseParser) has(field string) bool {
	raw := bytes.TrimSpace(p.fields[field])
	return len(raw) > 0 && string(raw) != "null"
}

// decode decodes a field into v, and reports whether it exists and has the right type.
func (p *caseParser) decode(v any, field, wanted string) bool {
	if !p.has(field) {
		return false
	}
	if err := json.Unmarshal(p.fields[field], v); err != nil {
		p.problem(field, "%s must be %s", field, wanted)
		return false
	}
	return true
}

func (p *caseParser) text(field string) string {
	var text string
	p.decode(&text, field, "a string")
	return text
}

// required returns a text that must not be blank.
func (p *caseParser) required(field string) string {
	var text string
	if p.has(field) && !p.decode(&text, field, "a string") {
		return ""
	}
	if strings.TrimSpace(text) == "" {
		p.problem(field, "%s is required", field)
	}
	return text
}

func (p *caseParser) texts(field string) []string {
	var all []string
	p.decode(&all, field, "an array of strings")
	return all
}

func (p *caseParser) number(field string, otherwise float64) float64 {
	number := otherwise
	if !p.decode(&number, field, "a number") {
		return otherwise
	}
	return number
}

// id returns the id of a case: a string, or a whole number as in evals.json.
func (p *caseParser) id() string {
	if !p.has("id") {
		return ""
	}
	var text string
	if json.Unmarshal(p.fields["id"], &text) == nil {
		if text == "" || len(text) > maxCaseID {
			p.problem("id", "id must have 1 to %d bytes", maxCaseID)
		}
		return text
	}
	var number int64
	p.decode(&number, "id", "a string or a whole number")
	return strconv.FormatInt(number, 10)
}

// kind returns the kind of a case. Without case_kind it is inferred from the
// other fields; of several candidates the first that the verifier allows.
func (p *caseParser) kind(v VerifierKind) CaseKind {
	if p.has("case_kind") {
		return CaseKind(p.text("case_kind"))
	}
	var candidates []CaseKind
	// From the most to the least specific field.
	for _, sign := range []struct {
		field string
		kind  CaseKind
	}{
		{"environment_ref", TaskPackage},
		{"assertion", BooleanAssertion},
		{"schema", JSONSchema},
		{"rubric", LLMRubric},
		{"expectations", LLMRubric},
		{"graders", LLMRubric},
		{"graders", BooleanAssertion},
		{"expected", ExactMatch},
		{"expectation", TriggerQuery},
		{"query", TriggerQuery},
	} {
		if p.has(sign.field) {
			candidates = append(candidates, sign.kind)
		}
	}
	if i := slices.IndexFunc(candidates, v.allows); i >= 0 {
		return candidates[i]
	}
	if len(candidates) > 0 {
		return candidates[0]
	}
	return ""
}

func (p *caseParser) trigger(c *Case) {
	c.Query, c.Invocation = p.required("query"), p.text("invocation_type")
	c.Expectation = Expectation(p.text("expectation"))
	if c.Expectation != ShouldTrigger && c.Expectation != ShouldNotTrigger {
		p.problem("expectation", "expectation must be should_trigger or should_not_trigger")
	}
}

// subject returns the subject, of which there must be exactly one.
func (p *caseParser) subject() (s Subject) {
	given := 0
	for _, field := range []string{"prompt", "input", "query"} {
		if p.has(field) {
			text := p.required(field)
			s.Prompt = &text
			given++
			break // the others are aliases
		}
	}
	if p.has("command") {
		given++
		if s.Command = p.texts("command"); len(s.Command) == 0 || s.Command[0] == "" {
			p.problem("command", "command must be an array of strings that begins with a program")
		}
	}
	if p.has("output") {
		given++
		output := string(p.fields["output"]) // a value that is not a string is taken as its JSON
		_ = json.Unmarshal(p.fields["output"], &output)
		s.Output = &output
	}
	if given != 1 {
		p.problem("", "the case needs one of prompt, command and output")
	}
	return s
}

func (p *caseParser) rubric(c *Case) {
	if c.Subject, c.Graders = p.subject(), p.graders(true); c.Graders != nil {
		return
	}
	c.Rubric, c.Expectations = p.text("rubric"), p.texts("expectations")
	if strings.TrimSpace(c.Rubric) == "" && len(c.Expectations) == 0 {
		p.problem("expectations", "the case needs a rubric or expectations")
	}
	if slices.ContainsFunc(c.Expectations, func(e string) bool { return strings.TrimSpace(e) == "" }) {
		p.problem("expectations", "expectations must not be blank")
	}
	if c.Threshold = p.number("threshold", 1); !(c.Threshold > 0 && c.Threshold <= 1) {
		p.problem("threshold", "threshold must be above 0 and at most 1")
	}
}

func (p *caseParser) exactMatch(c *Case) {
	c.Subject, c.Normalize = p.subject(), p.texts("normalize")
	if !p.decode(&c.Expected, "expected", "a string") && !p.has("expected") {
		p.problem("expected", "expected is required")
	}
	if len(c.Normalize) > verify.MaxNormalizations {
		p.problem("normalize", "normalize may name %d normalizations at most", verify.MaxNormalizations)
		return
	}
	for _, n := range c.Normalize {
		if !slices.Contains([]string{"trim", "case", "whitespace", "newline"}, n) {
			p.problem("normalize", "normalize knows trim, case, whitespace and newline")
		}
	}
}

func (p *caseParser) schema(c *Case) {
	c.Subject = p.subject()
	raw := bytes.TrimSpace(p.fields["schema"])
	if !bytes.HasPrefix(raw, []byte("{")) && !slices.Contains([]string{"true", "false"}, string(raw)) {
		p.problem("schema", "schema must be a JSON Schema: an object or a boolean")
		return
	}
	if err := verify.CheckSchema(raw); err != nil {
		p.problem("schema", "%s", err)
		return
	}
	c.Schema = raw
}

func (p *caseParser) taskPackage(c *Case) {
	c.Package = Package{
		EnvironmentRef: p.text("environment_ref"), Instruction: p.text("instruction"),
		VerifierRef:    p.path("verifier_ref", taskfile.DefaultVerifier),
		SkillBundleRef: p.path("skill_bundle_ref", taskfile.DefaultSkillBundle),
		OracleRef:      p.path("oracle_ref", ""),
	}
	scheme, _, _ := strings.Cut(c.Package.EnvironmentRef, "://")
	if !slices.Contains(environmentSchemes, strings.ToLower(scheme)) {
		p.problem("environment_ref", "environment_ref must begin with one of %s:// for this service to fetch it",
			strings.Join(environmentSchemes, "://, "))
	}
	var hints Fields
	if p.decode(&hints, "resource_hints", "an object") {
		h := &caseParser{fields: hints}
		h.hints(&c.Package)
		for _, issue := range h.problems {
			issue.Path = append([]string{"resource_hints"}, issue.Path...)
			p.problems = append(p.problems, issue)
		}
	}
}

// hints parses the field resource_hints of a task package.
func (p *caseParser) hints(pkg *Package) {
	pkg.WorkingDir = p.path("working_dir", "")
	milliseconds := p.number("timeout_ms", 0)
	if p.has("timeout_ms") && !(milliseconds >= 1 && milliseconds <= math.MaxInt32) {
		p.problem("timeout_ms", "timeout_ms must be a number of milliseconds, at least 1")
		return
	}
	pkg.TimeoutMS, pkg.Resources = int64(milliseconds), taskfile.ParseResources(p.fields)
	p.decode(&pkg.NeedsImage, "needs_image", "true or false")
	p.decode(&pkg.Env, "env", "an object of strings")
}

// path returns a path in the task's archive. It must not lead out of it (path
// traversal).
func (p *caseParser) path(field, otherwise string) string {
	text := p.text(field)
	if text == "" {
		return otherwise
	}
	if text = path.Clean(text); !fs.ValidPath(text) {
		p.problem(field, "%s must be a path inside the archive", field)
	}
	return text
}
