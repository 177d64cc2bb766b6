package suites

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/plugineval"
)

// A document is any of the JSON files that can be imported. Which one it is follows
// from the field that has the cases.
type document struct {
	SkillName string   `json:"skill_name"`
	Evals     []Fields `json:"evals"` // evals.json
	Questions []Fields `json:"cases"` // its variant

	// An exported suite.
	Name            string       `json:"name"`
	SourceKind      SourceKind   `json:"source_kind"`
	VerifierKind    VerifierKind `json:"verifier_kind"`
	SupportsNoSkill *bool        `json:"supports_no_skill"`
	ResourceLimits  Fields       `json:"resource_limits_json"`
	Cases           []Fields     `json:"cases_json"`
}

// parseJSONFile parses a JSON file. Suites of evals.json and of trigger queries
// are manual: an imported suite can be run only with task packages.
func parseJSONFile(raw []byte) (draft, error) {
	// Windows editors begin a file with a byte order mark.
	raw = bytes.TrimSpace(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf")))
	if bytes.HasPrefix(raw, []byte("[")) {
		return parseTriggers(raw)
	}
	if plugineval.IsResult(raw) {
		return draft{}, fault.Invalid("file", "the file is the result of a run of claude plugin eval: import it as a run of its suite")
	}
	var d document
	if err := decodeFile(raw, &d); err != nil {
		return draft{}, err
	}
	if err := noNull(slices.Concat(d.Cases, d.Evals, d.Questions)); err != nil {
		return draft{}, err
	}
	switch {
	case d.Cases != nil:
		return d.parseSuite()
	case d.Evals != nil:
		return parseEvals(d.SkillName, d.Evals), nil
	case d.Questions != nil:
		return parseQuestions(d.SkillName, d.Questions), nil
	}
	return draft{}, fault.Invalid("file",
		"the file has none of evals, cases and cases_json, and is no array of trigger queries")
}

// decodeFile decodes a JSON file. Errors are for the user.
func decodeFile(raw []byte, v any) error {
	err := json.Unmarshal(raw, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fault.Invalid("file", "%s in the file is of the wrong type: %s", strings.TrimPrefix(wrong.Field+" ", " "),
			wrong.Value)
	}
	if err != nil {
		return fault.Invalid("file", "the file is neither JSON nor a tar.gz or zip archive: %s", err)
	}
	return nil
}

// noNull refuses null in place of a case.
func noNull(all []Fields) error {
	if i := slices.IndexFunc(all, func(f Fields) bool { return f == nil }); i >= 0 {
		return fault.Invalid("file", "case %d in the file is null", i+1)
	}
	return nil
}

// parseSuite reads an exported suite, which keeps its kinds.
func (d document) parseSuite() (draft, error) {
	if !slices.Contains([]SourceKind{Manual, Imported, ContributorAggregate, OrgExemplars}, d.SourceKind) {
		return draft{}, fault.Invalid("file",
			"source_kind in the file must be manual, imported, contributor_aggregate or org_exemplars")
	}
	if !slices.Contains([]VerifierKind{LLMJudge, Deterministic, StructuredRubric}, d.VerifierKind) {
		return draft{}, fault.Invalid("file", "verifier_kind in the file must be llm_judge, deterministic or structured_rubric")
	}
	return draft{NewSuite: NewSuite{
		Name: d.Name, SourceKind: d.SourceKind, VerifierKind: d.VerifierKind, SupportsNoSkill: d.SupportsNoSkill,
		ResourceLimits: encodeFields(d.ResourceLimits), Cases: d.Cases,
	}}, nil
}

// parseTriggers parses an array of {query, should_trigger}.
func parseTriggers(raw []byte) (draft, error) {
	var all []Fields
	if err := decodeFile(raw, &all); err != nil {
		return draft{}, err
	}
	if err := noNull(all); err != nil {
		return draft{}, err
	}
	for _, f := range all {
		var triggers *bool
		if json.Unmarshal(f["should_trigger"], &triggers) != nil || triggers == nil {
			continue // the suite's issues will name it
		}
		delete(f, "should_trigger")
		f["expectation"] = quote(string(ShouldNotTrigger))
		if *triggers {
			f["expectation"] = quote(string(ShouldTrigger))
		}
	}
	setKind(all, TriggerQuery)
	return draft{NewSuite: NewSuite{SourceKind: Manual, VerifierKind: LLMJudge, Cases: all}}, nil
}

func setKind(all []Fields, k CaseKind) {
	for _, f := range all {
		f["case_kind"] = quote(string(k))
	}
}

// rename renames a field, unless the new name is taken.
func rename(f Fields, from, to string) {
	if value, ok := f[from]; ok && f[to] == nil {
		f[to] = value
		delete(f, from)
	}
}

// parseEvals parses evals.json, in which expectations are also called
// assertions.
func parseEvals(skill string, all []Fields) draft {
	d := draft{NewSuite: NewSuite{Name: skill, SourceKind: Manual, VerifierKind: LLMJudge, Cases: all}}
	setKind(all, LLMRubric)
	files := false
	for _, f := range all {
		rename(f, "assertions", "expectations")
		addRubric(f, "expected_output", "The result is as described here: ")
		files = files || len(f["files"]) > len("[]")
	}
	if files {
		d.warnings = append(d.warnings, "The files that the evals name are not imported: their prompts run without them")
	}
	return d
}

// addRubric makes a rubric from a field that describes the result, unless the case has
// a rubric or expectations.
func addRubric(f Fields, field, intro string) {
	var expectations []json.RawMessage
	_ = json.Unmarshal(f["expectations"], &expectations) // of another type: the suite's issues will name it
	var result string
	if f["rubric"] != nil || len(expectations) > 0 || json.Unmarshal(f[field], &result) != nil || result == "" {
		return
	}
	f["rubric"] = quote(intro + result)
}

// parseQuestions parses the variant of evals.json: with an expected behaviour
// the answer is judged, with only a ground truth it is compared. A suite has one
// verifier, so one judged case makes all of them judged.
func parseQuestions(skill string, all []Fields) draft {
	d := draft{NewSuite: NewSuite{Name: skill, SourceKind: Manual, VerifierKind: Deterministic, Cases: all}}
	for _, f := range all {
		rename(f, "question", "prompt")
		rename(f, "expected_behavior", "expectations")
		if len(f["expectations"]) > len("[]") {
			d.VerifierKind = LLMJudge
		}
	}
	if d.VerifierKind == LLMJudge {
		setKind(all, LLMRubric)
		for _, f := range all {
			addRubric(f, "ground_truth", "The answer agrees with this one: ")
		}
		return d
	}
	setKind(all, ExactMatch)
	for _, f := range all {
		rename(f, "ground_truth", "expected")
		if f["normalize"] == nil {
			f["normalize"] = json.RawMessage(`["trim","whitespace"]`)
		}
	}
	return d
}
