package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A Grader is one of several criteria of a case, as `claude plugin eval` has them:
// a deterministic one, which a GraderSet decides, or one for a judge.
type Grader struct {
	Name   string
	Type   GraderType
	Weight float64 // above 0
	// Arm is WithOnly or BothArms, or "" for the default of the grader.
	Arm string

	On       Target // of Regex and LLM: what it reads
	Pattern  string // of Regex
	Flags    string // of Regex, those of JavaScript
	Match    string // of Regex: contains, not_contains or count:N
	Tool     ToolMatch
	Min, Max *int      // of ToolUsed: how often; by default once or more
	After    ToolMatch // of ToolOrder: the first call of Tool comes before the first of After
	Path     string    // of FileExists: a glob
	Exists   bool      // of FileExists
	Criteria string    // of LLM and Baseline
}

// A GraderType says how a grader decides.
type GraderType string

// The types of graders.
const (
	Regex      GraderType = "regex"
	ToolOrder  GraderType = "tool_order"
	ToolUsed   GraderType = "tool_used"
	FileExists GraderType = "file_exists"
	LLM        GraderType = "llm"
	Baseline   GraderType = "baseline"
)

// The arms of a grader.
const (
	WithOnly = "with-only"
	BothArms = "both"
)

// A Target is what a grader reads: the last message, the paths of the files that the
// agent left (one per line), or the content of one of them. The sources trace and
// mock_calls are parsed, but not supported.
type Target struct {
	Source string // last_message, files, file, trace or mock_calls
	Path   string // of the source file
}

func (t Target) String() string {
	if t.Source == "file" {
		return "the file " + t.Path
	}
	return t.Source
}

// A ToolMatch selects calls of a tool by name and input.
type ToolMatch struct {
	Tool  string
	Input string // a regular expression on the call's input as JSON; "" for all
}

// graderFields are the fields that each type may have, besides name, type, weight and
// arm.
var graderFields = map[GraderType][]string{
	Regex:      {"target", "pattern", "flags", "match"},
	ToolOrder:  {"before", "after"},
	ToolUsed:   {"tool", "input_match", "min", "max"},
	FileExists: {"path", "exists"},
	LLM:        {"criteria", "focus"},
	Baseline:   {"criteria", "baseline_file"},
}

// MaxGraders bounds the graders of a case.
const MaxGraders = 256

// ParseGraders parses the graders of a case, a JSON array. Errors are for the author of
// the case.
func ParseGraders(raw json.RawMessage) ([]Grader, error) {
	var all []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("graders must be an array of objects")
	}
	if len(all) < 1 || len(all) > MaxGraders {
		return nil, fmt.Errorf("there must be 1 to %d graders, not %d", MaxGraders, len(all))
	}
	graders, names := make([]Grader, len(all)), map[string]bool{}
	for i, fields := range all {
		g, err := parseGrader(fields)
		if err != nil {
			return nil, fmt.Errorf("grader %d: %w", i+1, err)
		}
		if names[g.Name] {
			return nil, fmt.Errorf("two graders have the name %s", quote(g.Name))
		}
		names[g.Name], graders[i] = true, g
	}
	return graders, nil
}

// parseGrader parses one grader. Unknown fields are an error: one that is misspelled
// would silently change the verdict.
func parseGrader(fields map[string]json.RawMessage) (g Grader, err error) {
	p := graderParser{fields: fields}
	g = Grader{
		Name: p.text("name", true), Type: GraderType(p.text("type", true)), Weight: p.number("weight", 1),
		Arm: p.text("arm", false),
	}
	if p.err != nil {
		return g, p.err
	}
	own, known := graderFields[g.Type]
	if !known {
		return g, fmt.Errorf("the type must be one of %s, not %s", graderTypes(), quote(string(g.Type)))
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(own, name) && !slices.Contains([]string{"name", "type", "weight", "arm"}, name) {
			return g, fmt.Errorf("a grader of the type %s has no field %s", g.Type, quote(name))
		}
	}
	switch g.Type {
	case Regex:
		g.On, g.Pattern, g.Flags, g.Match = p.target("target"), p.text("pattern", true), p.text("flags", false), p.match()
	case ToolOrder:
		g.Tool, g.After = p.toolMatch("before"), p.toolMatch("after")
	case ToolUsed:
		g.Tool = ToolMatch{p.text("tool", true), p.text("input_match", false)}
		g.Min, g.Max = p.count("min"), p.count("max")
	case FileExists:
		g.Path, g.Exists = p.text("path", true), true
		p.decode(&g.Exists, "exists", "true or false")
	case LLM:
		g.On, g.Criteria = p.target("focus"), p.text("criteria", true)
	case Baseline:
		g.Criteria = p.text("criteria", true)
		p.text("baseline_file", true)
	}
	if p.err == nil && g.Weight <= 0 {
		return g, fmt.Errorf("weight must be above 0")
	}
	if p.err == nil && g.Arm != "" && g.Arm != WithOnly && g.Arm != BothArms {
		return g, fmt.Errorf("arm must be %s or %s", WithOnly, BothArms)
	}
	return g, p.err
}

func graderTypes() string {
	return strings.Join([]string{"regex", "tool_order", "tool_used", "file_exists", "llm", "baseline"}, ", ")
}

// A graderParser decodes the fields of a grader and keeps the first error.
type graderParser struct {
	fields map[string]json.RawMessage
	err    error
}

// decode decodes a field into v, and reports whether it exists and has the right type.
// Unlike a missing field, null is an error.
func (p *graderParser) decode(v any, field, wanted string) bool {
	raw := bytes.TrimSpace(p.fields[field])
	if p.err != nil || len(raw) == 0 {
		return false
	}
	if string(raw) == "null" || json.Unmarshal(raw, v) != nil {
		p.err = fmt.Errorf("%s must be %s", field, wanted)
	}
	return p.err == nil
}

func (p *graderParser) text(field string, required bool) (text string) {
	found := p.decode(&text, field, "a string")
	if p.err == nil && required && (!found || strings.TrimSpace(text) == "") {
		p.err = fmt.Errorf("%s is required", field)
	}
	return text
}

func (p *graderParser) number(field string, otherwise float64) float64 {
	number := otherwise
	p.decode(&number, field, "a number")
	return number
}

// count returns a number of calls, nil if the field is missing.
func (p *graderParser) count(field string) *int {
	var n int
	if !p.decode(&n, field, "a whole number") {
		return nil
	}
	if n < 0 {
		p.err = fmt.Errorf("%s must not be negative", field)
	}
	return &n
}

// match parses the field match: contains (the default), not_contains or count:N.
func (p *graderParser) match() string {
	match := p.text("match", false)
	if match == "" {
		match = "contains"
	}
	n, counts := strings.CutPrefix(match, "count:")
	_, err := strconv.ParseUint(n, 10, 31)
	if p.err == nil && match != "contains" && match != "not_contains" && (!counts || err != nil) {
		p.err = fmt.Errorf("match must be contains, not_contains or count:N")
	}
	return match
}

// target parses what a grader reads: a source such as "files", or {source: file, path}.
// The default is the last message.
func (p *graderParser) target(field string) Target {
	t := Target{Source: "last_message"}
	raw := bytes.TrimSpace(p.fields[field])
	if !bytes.HasPrefix(raw, []byte("{")) {
		p.decode(&t.Source, field, "a string")
		if p.err == nil && !slices.Contains([]string{"last_message", "files", "trace", "mock_calls"}, t.Source) {
			p.err = fmt.Errorf("%s must be last_message, files, trace, mock_calls or {source: file, path}", field)
		}
		return t
	}
	var file map[string]json.RawMessage
	p.decode(&file, field, "an object")
	inner := graderParser{fields: file, err: p.err}
	t = Target{inner.text("source", true), inner.text("path", true)}
	if p.err = inner.err; p.err == nil && (t.Source != "file" || len(file) > 2) {
		p.err = fmt.Errorf("%s must be {source: file, path}", field)
	}
	return t
}

// toolMatch parses the name of a tool, or an object with a name and a pattern for the
// input.
func (p *graderParser) toolMatch(field string) ToolMatch {
	if raw := bytes.TrimSpace(p.fields[field]); !bytes.HasPrefix(raw, []byte("{")) {
		return ToolMatch{Tool: p.text(field, true)}
	}
	var object map[string]json.RawMessage
	p.decode(&object, field, "a tool")
	inner := graderParser{fields: object, err: p.err}
	m := ToolMatch{inner.text("tool", true), inner.text("input_match", false)}
	p.err = inner.err
	return m
}

// Unsupported returns why runs here can't decide the grader, or "".
func (g Grader) Unsupported() string {
	switch {
	case g.Type == Baseline:
		return "graders of the type baseline need a recorded trajectory, which runs here do not have"
	case g.On.Source == "trace" || g.On.Source == "mock_calls":
		return fmt.Sprintf("it reads %s, which runs here do not have; it may read last_message, files and {source: file, path}",
			g.On.Source)
	case g.On.Source == "file" && !fs.ValidPath(path.Clean(g.On.Path)):
		return fmt.Sprintf("the path %s leads out of the working folder", quote(g.On.Path))
	}
	if _, err := compileGrader(g); err != nil {
		return err.Error()
	}
	return ""
}

// IsJudged reports whether a judge decides the grader.
func (g Grader) IsJudged() bool { return g.Type == LLM }

// NeedsAgent reports whether the grader is about what an agent did or left, rather than
// about its last message.
func (g Grader) NeedsAgent() bool { return g.needsCalls() || g.needsFiles() }

func (g Grader) needsCalls() bool { return g.Type == ToolOrder || g.Type == ToolUsed }

func (g Grader) needsFiles() bool {
	return g.Type == FileExists || g.On.Source == "files" || g.On.Source == "file"
}

// withOnly reports whether the grader is meaningless in the arm without the skill, e.g.
// because it expects the skill to be called.
func (g Grader) withOnly() bool {
	return g.Arm == WithOnly || g.Arm == "" && g.Type == ToolUsed && g.Tool.Tool == "Skill"
}

// Scored returns which graders count in the verdict. In a run that compares with an arm
// without the skill, those that only the skill's arm can pass don't, unless there are
// no others.
func Scored(all []Grader, compared bool) []bool {
	scored := make([]bool, len(all))
	some := false
	for i, g := range all {
		scored[i] = !compared || !g.withOnly()
		some = some || scored[i]
	}
	if !some {
		for i := range scored {
			scored[i] = true
		}
	}
	return scored
}
