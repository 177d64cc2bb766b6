package plugineval

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/prove/suites/verify"
)

// Fields are a case of a suite in the format of the API.
type Fields = map[string]json.RawMessage

// origin is the field plugin_eval of a case: the files that it was imported from.
type origin struct {
	Dir   string            `json:"dir"`
	Files map[string]string `json:"files"`
}

// limits is the field agent of a case.
type limits struct {
	Name     string `json:"name,omitempty"`
	Model    string `json:"model,omitempty"`
	MaxTurns int    `json:"max_turns,omitempty"`
	TimeoutS int    `json:"timeout_s,omitempty"`
}

// Fields returns the case in the format of the API. The files are kept, so that an
// export gives them back; a run takes the limits of the agent from the case.
func (c Case) Fields(kind string, f Found) Fields {
	all := map[string]any{
		"case_kind": kind, "name": c.Name, "prompt": c.Prompt, "graders": c.Graders,
		"agent":       limits{MaxTurns: c.MaxTurns, TimeoutS: c.TimeoutS},
		"plugin_eval": origin{f.Dir, f.Files},
	}
	if len(c.Tags) > 0 {
		all["tags"] = c.Tags
	}
	for name, text := range map[string]string{"description": c.Description, "expected_outcome": c.ExpectedOutcome} {
		if text != "" {
			all[name] = text
		}
	}
	fields := Fields{}
	for name, value := range all {
		fields[name], _ = json.Marshal(value) // it was decoded before
	}
	return fields
}

// The limits of an agent in a run that sets none: suites.DefaultTurns and
// DefaultTimeoutS, which can't be imported here. An export writes them out, since
// Claude Code's defaults differ.
const (
	ownTurns   = 50
	ownTimeout = 900
)

// errNotRepresentable completes the sentence that a format "holds only …".
var errNotRepresentable = errors.New("cases with a prompt, and graders, expectations or a rubric of which all must be met")

// FromFields prepares a case of a suite to be written. The error says which cases can
// be.
func FromFields(f Fields) (m Member, err error) {
	var in struct {
		ID           any             `json:"id"`
		Kind         string          `json:"case_kind"`
		Name         string          `json:"name"`
		Description  string          `json:"description"`
		Tags         []string        `json:"tags"`
		Prompt       *string         `json:"prompt"`
		Input        *string         `json:"input"`
		Query        *string         `json:"query"`
		Graders      json.RawMessage `json:"graders"`
		Expectations []string        `json:"expectations"`
		Rubric       string          `json:"rubric"`
		Threshold    *float64        `json:"threshold"`
		Outcome      string          `json:"expected_outcome"`
		Agent        limits          `json:"agent"`
		Origin       origin          `json:"plugin_eval"`
	}
	raw, err := json.Marshal(f)
	if err != nil {
		return m, err
	}
	if json.Unmarshal(raw, &in) != nil {
		return m, errNotRepresentable
	}
	var prompt *string
	for _, p := range []*string{in.Prompt, in.Input, in.Query} {
		if prompt == nil {
			prompt = p
		}
	}
	graders := in.Graders
	if len(graders) == 0 && in.Kind == judgedKind {
		graders = criteria(in.Expectations, in.Rubric)
	}
	if prompt == nil || graders == nil || len(in.Graders) == 0 && deref(in.Threshold, 1) != 1 {
		return m, errNotRepresentable
	}
	if in.Agent.Name != "" {
		return m, errors.New("cases that name no agent")
	}
	c := Case{
		Name: in.Name, Description: in.Description, Tags: in.Tags, Prompt: *prompt, Graders: graders, ExpectedOutcome: in.Outcome,
		MaxTurns: in.Agent.MaxTurns, TimeoutS: in.Agent.TimeoutS,
	}
	if c.Name == "" {
		c.Name = fmt.Sprint(in.ID)
	}
	if c.MaxTurns == 0 {
		c.MaxTurns = ownTurns
	}
	if c.TimeoutS == 0 {
		c.TimeoutS = ownTimeout
	}
	m = Member{Dir: in.Origin.Dir, Name: c.Name}
	if m.Files, err = c.Written(c.Name, Definitions(in.Origin.Files)); err != nil {
		return m, err
	}
	if _, err := Parse(c.Name, m.Files); err != nil {
		return m, fmt.Errorf("cases that Claude Code accepts (%w)", err)
	}
	return m, nil
}

// criteria returns graders for the expectations or the rubric of a case; nil if it has
// neither.
func criteria(expectations []string, rubric string) json.RawMessage {
	if len(expectations) == 0 && rubric != "" {
		expectations = []string{rubric}
	}
	var graders []map[string]any
	for i, text := range expectations {
		graders = append(graders, map[string]any{
			"name": fmt.Sprintf("expectation-%d", i+1), "type": verify.LLM, "criteria": text,
		})
	}
	if graders == nil {
		return nil
	}
	raw, _ := json.Marshal(graders) // texts can be encoded
	return raw
}

// The kinds of the cases of a suite. It has one verifier for all: if a single grader
// needs a judge, every case is of the kind that may have one.
const (
	judgedKind        = "llm_rubric"
	deterministicKind = "boolean_assertion"
)

// ids returns an id for each case: its name, or its folder if another case has the same
// name.
func ids(cases []Case, found []Found) []string {
	count := map[string]int{}
	for _, c := range cases {
		count[c.Name]++
	}
	all := make([]string, len(cases))
	for i, c := range cases {
		all[i] = c.Name
		if count[c.Name] > 1 || len(c.Name) > maxID {
			all[i] = found[i].Dir
		}
	}
	return all
}

// maxID bounds the id of a case, in bytes, as in package suites.
const maxID = 200

// An Import is what the case folders of an archive become.
type Import struct {
	Name     string // of the plugin, or ""
	Judged   bool   // a case needs a judge
	Cases    []Fields
	Refused  []Refusal
	Warnings []string
}

// A Refusal says why a case was not imported.
type Refusal struct {
	Case    string
	Reasons []string
}

// Translate converts the folders of cases into cases of a suite. Those that can't be
// run here are in Refused; equal warnings of several cases are joined.
func Translate(found []Found) (out Import) {
	var cases []Case
	var folders []Found
	warned := map[string][]string{}
	for _, f := range found {
		c, err := Parse(path.Base(f.Dir), f.Files)
		reasons := slices.Clone(f.Reasons)
		if err != nil {
			reasons = append(reasons, err.Error())
		} else {
			reasons = append(reasons, c.Refusals()...)
		}
		if len(reasons) > 0 {
			out.Refused = append(out.Refused, Refusal{f.Dir, reasons})
			continue
		}
		cases, folders = append(cases, c), append(folders, f)
		for _, w := range append(c.Warnings(), f.Warnings...) {
			warned[w] = append(warned[w], f.Dir)
		}
		if c.Runs > 1 {
			w := fmt.Sprintf("the case asks for %d runs: start runs with as many trials", c.Runs)
			warned[w] = append(warned[w], f.Dir)
		}
		out.Judged = out.Judged || c.Judged
	}
	kind := deterministicKind
	if out.Judged {
		kind = judgedKind
	}
	ids := ids(cases, folders)
	for i, c := range cases {
		fields := c.Fields(kind, folders[i])
		if len(ids[i]) <= maxID {
			fields["id"], _ = json.Marshal(ids[i])
		}
		out.Cases = append(out.Cases, fields)
	}
	for _, w := range slices.Sorted(maps.Keys(warned)) {
		out.Warnings = append(out.Warnings, where(warned[w], len(found))+": "+w)
	}
	return out
}

// where names the cases of a warning, e.g. "a and 2 more".
func where(dirs []string, all int) string {
	switch {
	case len(dirs) == all && all > 1:
		return "all cases"
	case len(dirs) == 1:
		return dirs[0]
	}
	return fmt.Sprintf("%s and %d more", dirs[0], len(dirs)-1)
}
