package suites

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/plugineval"
)

// A Format is a file format for suites.
type Format string

// The formats. FormatSuite keeps everything; the others are for other tools.
const (
	FormatSuite   Format = "suite"
	FormatEvals   Format = "evals.json"
	FormatTrigger Format = "trigger"
	// FormatPluginEval is a zip of cases of `claude plugin eval`.
	FormatPluginEval Format = "plugin-eval"
)

// Formats returns all formats.
func Formats() []Format { return []Format{FormatSuite, FormatEvals, FormatTrigger, FormatPluginEval} }

// ContentType is the media type of a file.
func (f Format) ContentType() string {
	if f == FormatPluginEval {
		return "application/zip"
	}
	return "application/json"
}

// Filename is the name of the file of a suite.
func (f Format) Filename(s Suite) string {
	if f == FormatPluginEval {
		return s.ID + ".zip"
	}
	return s.ID + ".json"
}

// Export encodes a suite as a file. Importing the file gives the same cases. A
// case that the format cannot represent is a Conflict.
func (s *Service) Export(ctx context.Context, orgID, id string, f Format) (_ Suite, file []byte, err error) {
	defer fault.Wrap(&err, "export eval suite %s", id)
	suite, err := s.Get(ctx, orgID, id)
	if err != nil {
		return suite, nil, err
	}
	var content any
	switch f {
	case FormatEvals:
		content, err = suite.exportEvals()
	case FormatTrigger:
		content, err = suite.exportTriggers()
	case FormatPluginEval:
		file, err = suite.exportPluginEval()
		return suite, file, err
	case FormatSuite:
		content = exportedSuite{
			suite.Name, suite.SourceKind, suite.VerifierKind, suite.SupportsNoSkill, suite.ResourceLimits, suite.Document,
		}
	}
	if err != nil {
		return suite, nil, err
	}
	file, err = json.MarshalIndent(content, "", "  ")
	return suite, append(file, '\n'), err
}

type exportedSuite struct {
	Name            string          `json:"name"`
	SourceKind      SourceKind      `json:"source_kind"`
	VerifierKind    VerifierKind    `json:"verifier_kind"`
	SupportsNoSkill bool            `json:"supports_no_skill"`
	ResourceLimits  json.RawMessage `json:"resource_limits_json,omitempty"`
	Cases           json.RawMessage `json:"cases_json"`
}

type exportedEvals struct {
	SkillName string   `json:"skill_name"`
	Evals     []Fields `json:"evals"`
}

// exportEvals writes evals.json, which can only express rubric cases with a prompt.
func (s Suite) exportEvals() (exportedEvals, error) {
	out := exportedEvals{SkillName: s.Name, Evals: make([]Fields, len(s.Cases))}
	for i, c := range s.Cases {
		if c.Kind != LLMRubric || c.Subject.Prompt == nil || c.Subject.Output != nil || c.Subject.Command != nil {
			return out, notRepresentable(FormatEvals, i, "cases of the kind llm_rubric with a prompt")
		}
		f := maps.Clone(c.Fields)
		delete(f, "case_kind")
		if f["prompt"] == nil {
			rename(f, "input", "prompt")
			rename(f, "query", "prompt")
		}
		out.Evals[i] = f
	}
	return out, nil
}

// exportPluginEval writes a zip with a folder for each case.
func (s Suite) exportPluginEval() ([]byte, error) {
	members := make([]plugineval.Member, len(s.Cases))
	for i, c := range s.Cases {
		var err error
		if members[i], err = plugineval.FromFields(c.Fields); err != nil {
			return nil, notRepresentable(FormatPluginEval, i, err.Error())
		}
	}
	return plugineval.Archive(members)
}

// exportTriggers writes an array of {query, should_trigger}, the inverse of
// parseTriggers.
func (s Suite) exportTriggers() ([]Fields, error) {
	out := make([]Fields, len(s.Cases))
	for i, c := range s.Cases {
		if c.Kind != TriggerQuery || c.Expectation != ShouldTrigger && c.Expectation != ShouldNotTrigger {
			return out, notRepresentable(FormatTrigger, i, "cases of the kind trigger_query with an expectation")
		}
		f := maps.Clone(c.Fields)
		delete(f, "case_kind")
		delete(f, "expectation")
		f["should_trigger"] = json.RawMessage("false")
		if c.Expectation == ShouldTrigger {
			f["should_trigger"] = json.RawMessage("true")
		}
		out[i] = f
	}
	return out, nil
}

// notRepresentable is the Conflict for a case that a format can't express.
func notRepresentable(f Format, index int, kinds string) error {
	return fault.New(fault.Conflict, "The format %s holds only %s, which case %d is not; the format suite holds all",
		f, kinds, index+1)
}
