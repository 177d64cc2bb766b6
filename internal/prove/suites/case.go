package suites

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/taskfile"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/verify"
)

// A CaseKind says how a case is decided.
type CaseKind string

// The kinds of case.
const (
	TriggerQuery     CaseKind = "trigger_query"
	LLMRubric        CaseKind = "llm_rubric"
	ExactMatch       CaseKind = "exact_match"
	JSONSchema       CaseKind = "json_schema"
	BooleanAssertion CaseKind = "boolean_assertion"
	TaskPackage      CaseKind = "task_package"
)

// Fields are a case as its author wrote it, unknown fields included, e.g.
// {"query": "extract the tables", "expectation": "should_trigger"}.
type Fields = api.CaseFields

// A Case is one test of a skill. The fields that its kind does not use are zero.
type Case struct {
	// ID is unique in a suite that can be run. Edits of the case keep it.
	ID     string
	Kind   CaseKind // "" if it is unknown, in suites that cannot be run
	Name   string
	Weight float64 // 1 unless the case says otherwise
	Tags   []string

	Query       string      // of a trigger_query
	Expectation Expectation // of a trigger_query
	Invocation  string      // of a trigger_query

	Subject      Subject         // of all but trigger_query and task_package
	Rubric       string          // of an llm_rubric
	Expectations []string        // of an llm_rubric, instead of Rubric
	Threshold    float64         // of an llm_rubric: the share of expectations to meet; 1 unless the case says otherwise
	Expected     string          // of an exact_match
	Normalize    []string        // of an exact_match: trim, case, whitespace, newline
	Schema       json.RawMessage // of a json_schema
	Assertion    string          // of a boolean_assertion
	// Graders decide an llm_rubric or a boolean_assertion instead of its own fields:
	// all of them must pass.
	Graders []verify.Grader

	Package Package // of a task_package

	Agent *Agent // nil unless the case names one

	// Fields are the case as the API and the database have it.
	Fields Fields

	problems []fault.Issue // why it cannot be run; their paths are relative to the case
}

// Title returns what to call the case: its name, or else what it asks.
func (c Case) Title() string {
	prompt := ""
	if c.Subject.Prompt != nil {
		prompt = *c.Subject.Prompt
	}
	return cmp.Or(c.Name, c.Query, prompt, strings.Join(c.Subject.Command, " "), c.Package.Instruction, c.ID)
}

// maxLabel is how many characters a label has.
const maxLabel = 100

// Label is the title in one short line.
func (c Case) Label() string { return text.Ellipsis(text.PlainLine(c.Title()), maxLabel) }

// Runnable reports whether the case can be run.
func (c Case) Runnable() bool { return len(c.problems) == 0 }

// TakesAgent reports whether an agent can work on the case: it has an instruction.
func (c Case) TakesAgent() bool {
	return c.Kind == TriggerQuery || c.Kind == TaskPackage || c.Subject.Prompt != nil
}

// An Expectation is what a trigger_query expects of the skill.
type Expectation string

// The expectations.
const (
	ShouldTrigger    Expectation = "should_trigger"
	ShouldNotTrigger Expectation = "should_not_trigger"
)

// A Subject is where the output that a case tests comes from. Exactly one of its
// fields is set in a suite that can be run.
type Subject struct {
	Prompt  *string  // sent to the model with the skill loaded, or to an agent
	Command []string // run in the sandbox with the skill mounted
	Output  *string  // given
}

// A Package is a task_package: an environment and what to run in it.
type Package struct {
	EnvironmentRef string
	Instruction    string
	VerifierRef    string // tests/test.sh unless the case says otherwise
	SkillBundleRef string // skill-under-test unless the case says otherwise
	OracleRef      string // "" for none
	WorkingDir     string // "" for the archive's root
	TimeoutMS      int64  // 0: the service's default
	Resources      taskfile.Resources
	NeedsImage     bool // the service's own machine cannot stand in for its image
	Env            map[string]string
}
