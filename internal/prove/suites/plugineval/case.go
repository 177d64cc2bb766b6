// Package plugineval reads and writes the cases of `claude plugin eval`: folders
// with a case.yaml, or with a prompt.md and graders, and the file in which that
// command reports its results. It is a pure translation, and owns no tables.
package plugineval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/prove/suites/verify"
)

// The files of a case.
const (
	caseFile   = "case.yaml"
	promptFile = "prompt.md"
	gradersDir = "graders/"
)

// A Folder has the files that define a case: their texts by path, e.g. "prompt.md".
type Folder map[string]string

// IsDefinition reports whether a path in the folder of a case is one of the files
// that define it.
func IsDefinition(name string) bool {
	grader, isGrader := strings.CutPrefix(name, gradersDir)
	return name == caseFile || name == promptFile ||
		isGrader && strings.HasSuffix(grader, ".md") && !strings.Contains(grader, "/")
}

// A Case is a case of `claude plugin eval`, parsed and checked.
type Case struct {
	Name        string
	Description string
	Tags        []string
	Prompt      string
	// MaxTurns and TimeoutS (seconds) limit the agent.
	MaxTurns, TimeoutS int
	// Runs is how often the case is tried.
	Runs            int
	Graders         json.RawMessage // a list that verify.ParseGraders takes
	ExpectedOutcome string
	// Judged means that a grader needs a judge.
	Judged bool

	// definition has everything that the files say, in the structure of case.yaml.
	definition map[string]any
}

// The defaults and limits of Claude Code.
const (
	defaultTurns, maxTurns     = 10, 200
	defaultTimeout, maxTimeout = 300, 3600
	defaultRuns, maxRuns       = 3, 50
	schemaVersion              = "1.1"
)

// promptKeys are the keys of prompt.md that belong to the case itself, and
// executionKeys those of its execution.
var (
	promptKeys    = []string{"schema_version", "name", "description", "tags", "plugins", "runs", "expected_outcome"}
	executionKeys = []string{
		"model", "max_turns", "timeout_seconds", "allowed_tools", "disallowed_tools", "artifact_publish", "growthbook_overrides",
		"append_system_prompt", "env",
	}
)

// Parse reads a case. name is that of its folder, which is also the case's unless its
// files give another. Errors are for the author.
func Parse(name string, files Folder) (Case, error) {
	definition, err := merge(name, files)
	if err != nil {
		return Case{}, err
	}
	return parse(definition)
}

// merge joins the files of a case into one definition, in the structure of case.yaml.
// What prompt.md says takes precedence; graders and disallowed tools of both are added
// up.
func merge(name string, files Folder) (map[string]any, error) {
	d, err := decodeYAML(files[caseFile])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", caseFile, err)
	}
	if d == nil {
		d = map[string]any{"schema_version": schemaVersion, "name": name}
	}
	execution, ok := d["execution"].(map[string]any)
	if !ok && d["execution"] != nil {
		return nil, fmt.Errorf("execution must be an object")
	}
	execution = maps.Clone(execution)
	if execution == nil {
		execution = map[string]any{}
	}
	header, prompt, _, err := splitFrontmatter(files[promptFile])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", promptFile, err)
	}
	for key, value := range header {
		switch {
		case slices.Contains(promptKeys, key):
			d[key] = value
		case key == "disallowed_tools":
			before, _ := execution[key].([]any)
			more, _ := value.([]any)
			execution[key] = slices.Concat(before, more)
		case slices.Contains(executionKeys, key):
			execution[key] = value
		default:
			return nil, fmt.Errorf("%s: the key %q is unknown", promptFile, key)
		}
	}
	if prompt != "" {
		execution["prompt"] = prompt
	}
	d["execution"] = execution
	graders, ok := d["graders"].([]any)
	if !ok && d["graders"] != nil {
		return nil, fmt.Errorf("graders must be a list")
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasPrefix(file, gradersDir) {
			continue
		}
		grader, err := parseGraderFile(file, files[file])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if grader != nil {
			graders = append(graders, grader)
		}
	}
	d["graders"] = graders
	return d, nil
}

// parseGraderFile reads a grader. The body is its criteria or its pattern, unless the
// header has them. A file without a header, e.g. a README, is nil.
func parseGraderFile(file, text string) (any, error) {
	header, body, found, err := splitFrontmatter(text)
	if err != nil || !found {
		return nil, err
	}
	grader := map[string]any{"name": strings.TrimSuffix(path.Base(file), ".md")}
	maps.Copy(grader, header)
	field := map[any]string{"llm": "criteria", "baseline": "criteria", "regex": "pattern"}[grader["type"]]
	if field != "" && grader[field] == nil && body != "" {
		grader[field] = body
	}
	return grader, nil
}

// splitFrontmatter splits a text into the YAML between two lines of dashes at its
// beginning, and the rest, trimmed.
func splitFrontmatter(text string) (header map[string]any, body string, found bool, err error) {
	text = strings.TrimPrefix(text, "\ufeff")
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t\r\f\v") != "---" {
		return nil, strings.TrimSpace(text), false, nil
	}
	block, rest, closed := strings.Cut(rest, "---")
	if !closed {
		return nil, "", false, fmt.Errorf(`the header has no closing "---"`)
	}
	header, err = decodeYAML(block)
	return header, strings.TrimSpace(rest), true, err
}

// parse checks a definition, and returns what runs need of it. Errors are for the
// author.
func parse(d map[string]any) (Case, error) {
	raw, err := json.Marshal(d)
	if err != nil {
		return Case{}, err
	}
	var in struct {
		SchemaVersion *string         `json:"schema_version"`
		Name          string          `json:"name"`
		Description   string          `json:"description"`
		Tags          []string        `json:"tags"`
		Plugins       []string        `json:"plugins"`
		Runs          *int            `json:"runs"`
		Graders       json.RawMessage `json:"graders"`
		Outcome       string          `json:"expected_outcome"`
		Execution     struct {
			Prompt   string `json:"prompt"`
			MaxTurns *int   `json:"max_turns"`
			Timeout  *int   `json:"timeout_seconds"`
		} `json:"execution"`
	}
	if err := decode(raw, &in); err != nil {
		return Case{}, err
	}
	c := Case{
		Name: in.Name, Description: in.Description, Tags: in.Tags, Prompt: in.Execution.Prompt, ExpectedOutcome: in.Outcome,
		Graders: in.Graders, definition: d,
	}
	version, _, _ := strings.Cut(deref(in.SchemaVersion, ""), ".")
	switch {
	case version != "1" && version != "0":
		return c, fmt.Errorf(`schema_version must be "1.0" or "1.1", in quotes`)
	case strings.TrimSpace(c.Name) == "":
		return c, fmt.Errorf("name is required")
	case strings.TrimSpace(c.Prompt) == "":
		return c, fmt.Errorf("there is no prompt: neither a text in prompt.md nor execution.prompt in case.yaml")
	case strings.Contains(c.Prompt, "TODO: describe what the agent should do"):
		return c, fmt.Errorf("the prompt is still the template")
	}
	for _, n := range []struct {
		into                 *int
		given                *int
		name                 string
		otherwise, mostValue int
	}{
		{&c.MaxTurns, in.Execution.MaxTurns, "max_turns", defaultTurns, maxTurns},
		{&c.TimeoutS, in.Execution.Timeout, "timeout_seconds", defaultTimeout, maxTimeout},
		{&c.Runs, in.Runs, "runs", defaultRuns, maxRuns},
	} {
		if *n.into = deref(n.given, n.otherwise); *n.into < 1 || *n.into > n.mostValue {
			return c, fmt.Errorf("%s must be 1 to %d", n.name, n.mostValue)
		}
	}
	graders, err := verify.ParseGraders(c.Graders)
	if err != nil {
		return c, err
	}
	for _, g := range graders {
		if strings.Contains(g.Criteria+g.Pattern, "TODO: describe what a successful response looks like") {
			return c, fmt.Errorf("the grader %q is still the template", g.Name)
		}
		c.Judged = c.Judged || g.IsJudged()
	}
	return c, nil
}

// decode decodes JSON that was YAML. Errors are for its author.
func decode(raw []byte, v any) error {
	err := json.NewDecoder(bytes.NewReader(raw)).Decode(v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s must not be a %s", wrong.Field, wrong.Value)
	}
	return err
}

func deref[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// Refusals returns why runs here would decide the case differently from Claude Code: it
// asks for something that they don't have.
func (c Case) Refusals() (reasons []string) {
	refuse := func(where, key, reason string) {
		if part, _ := c.definition[where].(map[string]any); !isEmpty(part[key]) {
			reasons = append(reasons, where+"."+key+": "+reason)
		}
	}
	refuse("context", "scaffold_script", "scripts that prepare the working folder are not run here")
	refuse("context", "history_file", "conversations are not resumed here")
	refuse("context", "add_dirs", "agents here get no folders beside their working folder, which is empty")
	refuse("execution", "append_system_prompt", "agents here get no system prompt of a case")
	refuse("execution", "env", "agents here get no variables of a case")
	refuse("execution", "artifact_publish", "nothing can be published from here")
	graders, err := verify.ParseGraders(c.Graders)
	if err != nil {
		return append(reasons, err.Error())
	}
	for _, g := range graders {
		if reason := g.Unsupported(); reason != "" {
			reasons = append(reasons, fmt.Sprintf("the grader %q: %s", g.Name, reason))
		}
	}
	return reasons
}

// Warnings returns what is kept for an export, but not used by runs.
func (c Case) Warnings() (all []string) {
	execution, _ := c.definition["execution"].(map[string]any)
	for _, w := range []struct {
		value any
		text  string
	}{
		{execution["model"], "execution.model is kept, but not used: a run names its model"},
		{execution["allowed_tools"], "execution.allowed_tools is kept, but not used: the agent has all of its tools"},
		{execution["disallowed_tools"], "execution.disallowed_tools is kept, but not used: the agent has all of its tools"},
		{execution["growthbook_overrides"], "execution.growthbook_overrides is kept, but not used"},
		{c.definition["plugins"], "plugins is kept, but not used: a run installs the skill under test, and others of the registry"},
	} {
		if !isEmpty(w.value) {
			all = append(all, w.text)
		}
	}
	return all
}

// isEmpty reports whether a JSON value is empty: templates have keys without values.
func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}
