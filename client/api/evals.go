package api

import "encoding/json"

// An EvalSuite is a set of test cases for a skill.
type EvalSuite struct {
	ID                string            `json:"id" format:"uuid"`
	SourceID          *string           `json:"source_id" format:"uuid"`
	Name              string            `json:"name"`
	SourceKind        string            `json:"source_kind" enum:"manual,imported,contributor_aggregate,org_exemplars"`
	VerifierKind      string            `json:"verifier_kind" enum:"llm_judge,deterministic,structured_rubric"`
	SupportsNoSkill   bool              `json:"supports_no_skill"`
	ResourceLimits    CaseFields        `json:"resource_limits_json" doc:"Hints for the execution, as they were given"`
	CaseCount         int               `json:"case_count"`
	Cases             []json.RawMessage `json:"cases_json,omitempty" doc:"As they were given, each with its id and case_kind"`
	SuiteKind         string            `json:"suite_kind" enum:"task_package,cases"`
	Runnable          bool              `json:"runnable"`
	RunnabilityIssues []Issue           `json:"runnability_issues" nullable:"false" doc:"Why the suite cannot be run"`
	Version           int64             `json:"version" doc:"Grows with every change"`
	CreatedAt         Time              `json:"created_at"`
	UpdatedAt         Time              `json:"updated_at"`
}

// NewEvalSuite is a suite to create.
type NewEvalSuite struct {
	SourceID        *string      `json:"source_id,omitempty" doc:"The cloud source that the suite is for"`
	Name            string       `json:"name" minLength:"1" maxLength:"200"`
	SourceKind      string       `json:"source_kind" enum:"manual,imported,contributor_aggregate,org_exemplars"`
	VerifierKind    string       `json:"verifier_kind" enum:"llm_judge,deterministic,structured_rubric"`
	SupportsNoSkill *bool        `json:"supports_no_skill,omitempty" doc:"Whether a no_skill baseline makes sense; when omitted, true if a case has a prompt"`
	ResourceLimits  CaseFields   `json:"resource_limits_json,omitempty" doc:"Hints for the execution"`
	Cases           []CaseFields `json:"cases_json" minItems:"1" maxItems:"500" nullable:"false"`
}

// An EvalSuiteChange is a partial update: fields that are null or absent stay unchanged.
type EvalSuiteChange struct {
	Name            *string      `json:"name,omitempty" minLength:"1" maxLength:"200"`
	VerifierKind    *string      `json:"verifier_kind,omitempty" enum:"llm_judge,deterministic,structured_rubric"`
	SupportsNoSkill *bool        `json:"supports_no_skill,omitempty"`
	ResourceLimits  CaseFields   `json:"resource_limits_json,omitempty"`
	Cases           []CaseFields `json:"cases_json,omitempty" minItems:"1" maxItems:"500" nullable:"false" doc:"Replaces all cases"`
	IfVersion       *int64       `json:"if_version,omitempty" doc:"Refuse with 409 unless the suite has this version"`
}

// EvalImported is the result of an import.
type EvalImported struct {
	Suite    EvalSuite     `json:"suite"`
	Refused  []RefusedTask `json:"refused" nullable:"false" doc:"Tasks that cannot be cases"`
	Warnings []string      `json:"warnings" nullable:"false"`
}

// A RefusedTask is a task of the archive that was not imported.
type RefusedTask struct {
	Task    string   `json:"task"`
	Reasons []string `json:"reasons" nullable:"false"`
}

// CaseFields are the fields of a JSON object, e.g. of a case, as they were given.
type CaseFields map[string]json.RawMessage
