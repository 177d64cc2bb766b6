package api

// A ListedSource is a cloud source in lists: a skill as its author uploads it or keeps it in a
// repository.
type ListedSource struct {
	ID         string  `json:"id" example:"src_0197a7a5-9d4e-7c3b-8f5e-2d6a1b9c4e70"`
	Label      string  `json:"label"`
	SourceType string  `json:"sourceType" enum:"upload,repohost,pull" doc:"pull: the files of a pull request, which no list shows"`
	SkillID    *string `json:"skillId"`
	CreatedAt  Time    `json:"createdAt"`
}

// A Source is a cloud source. The repository's fields are only set for those of a code host.
type Source struct {
	ListedSource
	RepoFullName   string `json:"repoFullName,omitempty" example:"acme/skills"`
	InstallationID int64  `json:"installationId,omitempty"`
	DefaultBranch  string `json:"defaultBranch,omitempty"`
	SkillPath      string `json:"skillPath,omitempty"`
}

// A Snapshot is the files of a source at one time. It is immutable, and camelCase, as all of
// sources is.
type Snapshot struct {
	ID          string         `json:"id" format:"uuid"`
	SourceID    string         `json:"sourceId"`
	ContentHash string         `json:"contentHash" doc:"SHA-256 of the canonical archive: the same for the same files, however they were sent"`
	CreatedAt   Time           `json:"createdAt"`
	FileCount   int            `json:"fileCount"`
	TotalBytes  int64          `json:"totalBytes"`
	Files       []SnapshotFile `json:"files" nullable:"false"`
	SkillName   string         `json:"skillName"`
	Description string         `json:"description"`
	CommitSHA   *string        `json:"commitSha,omitempty"`
	Ref         *string        `json:"ref,omitempty"`
	IsCurrent   bool           `json:"isCurrent"`
	Runnable    bool           `json:"runnable" doc:"False when its validation failed"`
}

// A SnapshotFile is one file of a snapshot.
type SnapshotFile struct {
	Path   string `json:"path" example:"scripts/run.sh"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// A ValidationReport has the findings about a snapshot.
type ValidationReport struct {
	ID         string        `json:"id" format:"uuid"`
	SnapshotID string        `json:"snapshotId" format:"uuid"`
	Engine     string        `json:"engine"`
	Status     string        `json:"status" enum:"pass,warn,fail"`
	CreatedAt  Time          `json:"createdAt"`
	Counts     FindingCounts `json:"counts"`
	Findings   []Finding     `json:"findings" nullable:"false"`
}

// A Finding is one problem that the linter found.
type Finding struct {
	Code     string   `json:"code"`
	Category Category `json:"category"`
	Severity Severity `json:"severity"`
	// Path is that of the file, or "" if the skill as a whole is meant.
	Path string `json:"path"`
	// Line counts from 1; 0 means the whole file.
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
	// Evidence is the text at fault, truncated. Secrets in it are redacted.
	Evidence    string `json:"evidence,omitempty"`
	Remediation string `json:"remediation,omitempty"`
}

// FindingCounts counts findings by severity.
type FindingCounts struct {
	Error   int `json:"error"`
	Warning int `json:"warning"`
	Info    int `json:"info"`
}

// A Category is the family of a rule of the linter: spec, quality or security.
type Category string

// A Severity is the severity of a finding: error, warning or info.
type Severity string

// A TakenSnapshot is a new or unchanged snapshot with its reports.
type TakenSnapshot struct {
	Snapshot Snapshot           `json:"snapshot"`
	Reports  []ValidationReport `json:"validationReports" nullable:"false"`
}

// NewSource describes a source to create, without a snapshot.
type NewSource struct {
	Type           string  `json:"type" enum:"upload,repohost"`
	Label          string  `json:"label" doc:"1 to 200 characters"`
	SkillID        *string `json:"skill_id,omitempty" format:"uuid" doc:"The skill that the source is measured as"`
	InstallationID int64   `json:"installation_id,omitempty" doc:"Required for repohost, as is repo_full_name"`
	RepoFullName   string  `json:"repo_full_name,omitempty" example:"acme/skills"`
	DefaultBranch  string  `json:"default_branch,omitempty" doc:"main when omitted"`
	SkillPath      string  `json:"skill_path,omitempty" doc:"Folder of the skill in the repository; . when omitted"`
}

// An UploadedSource is a source and its new or unchanged snapshot.
type UploadedSource struct {
	Source
	TakenSnapshot
}

// A SourceChange is a partial update: fields that are null or absent stay unchanged.
type SourceChange struct {
	Label   *string `json:"label,omitempty" doc:"1 to 200 characters"`
	SkillID *string `json:"skill_id,omitempty" doc:"The skill that the source is measured as; empty unlinks it"`
}

// A Suggestion is a test case that was derived from sessions or runs.
type Suggestion struct {
	ID             string  `json:"id" format:"uuid"`
	Query          string  `json:"query"`
	ShouldTrigger  bool    `json:"shouldTrigger"`
	Source         string  `json:"source" enum:"linked_telemetry,hosted_run"`
	Provenance     string  `json:"provenance" enum:"failed_evaluation,missed_query,run_regression,run_failure"`
	Rationale      string  `json:"rationale"`
	ObservedCount  int     `json:"observedCount"`
	Confidence     float64 `json:"confidence" doc:"Lower end of the 95 % Wilson interval of the share that went wrong"`
	LastObservedAt Time    `json:"lastObservedAt"`
	InvocationType *string `json:"invocationType,omitempty"`
	ReviewStatus   string  `json:"reviewStatus" enum:"pending"`
}

// A Review is a person's decision on a suggestion, with the suggestion as it was reviewed.
type Review struct {
	ID               string   `json:"id" format:"uuid"`
	SuggestionID     string   `json:"suggestionId" format:"uuid"`
	ReviewStatus     string   `json:"reviewStatus" enum:"accepted,rejected"`
	AcceptTarget     *string  `json:"acceptTarget" enum:"draft,saved_suite" doc:"Null when rejected"`
	AppliedSuiteID   *string  `json:"appliedSuiteId"`
	Query            string   `json:"query"`
	ShouldTrigger    bool     `json:"shouldTrigger"`
	Source           string   `json:"source" enum:"linked_telemetry,hosted_run"`
	Provenance       string   `json:"provenance" enum:"failed_evaluation,missed_query,run_regression,run_failure"`
	Rationale        *string  `json:"rationale,omitempty"`
	ObservedCount    *float64 `json:"observedCount,omitempty"`
	Confidence       *float64 `json:"confidence,omitempty"`
	LastObservedAt   *Time    `json:"lastObservedAt,omitempty"`
	InvocationType   *string  `json:"invocationType,omitempty"`
	ReviewedBy       string   `json:"reviewedBy" format:"uuid"`
	ReviewedAt       Time     `json:"reviewedAt"`
	AppliedToSuiteAt *Time    `json:"appliedToSuiteAt"`
}

// SourceDetail is a source with its snapshots, reports, suggestions, reviews and suites.
type SourceDetail struct {
	Source
	Suggestions     []Suggestion       `json:"evalSuggestions" nullable:"false" doc:"Pending, the best 200"`
	SuggestionCount int                `json:"evalSuggestionCount" doc:"All that are pending"`
	Reviews         []Review           `json:"reviewedSuggestions" nullable:"false" doc:"The newest 200, newest first"`
	ReviewCount     int                `json:"reviewedSuggestionCount"`
	Suites          []SourceSuite      `json:"evalSuites" nullable:"false"`
	CurrentSnapshot *Snapshot          `json:"currentSnapshot"`
	Snapshots       []Snapshot         `json:"snapshots" nullable:"false" doc:"The newest 20"`
	Reports         []ValidationReport `json:"validationReports" nullable:"false" doc:"Of the current snapshot"`
}

// A SourceSuite is a saved suite of a source.
type SourceSuite struct {
	ID           string `json:"id" format:"uuid"`
	Name         string `json:"name"`
	VerifierKind string `json:"verifierKind" example:"llm_judge"`
}

// A ReviewedCase is a suggestion as it was shown, in the body of a review: the review is of what
// the person saw, even if the suggestion has changed since.
type ReviewedCase struct {
	Query          string   `json:"query" minLength:"1" maxLength:"10000"`
	ShouldTrigger  bool     `json:"should_trigger"`
	Source         string   `json:"source" enum:"linked_telemetry,hosted_run"`
	Provenance     string   `json:"provenance" enum:"failed_evaluation,missed_query,run_regression,run_failure"`
	Rationale      *string  `json:"rationale,omitempty" maxLength:"10000"`
	ObservedCount  *float64 `json:"observed_count,omitempty" minimum:"0"`
	Confidence     *float64 `json:"confidence,omitempty" minimum:"0" maximum:"1"`
	LastObservedAt *Time    `json:"last_observed_at,omitempty"`
	InvocationType *string  `json:"invocation_type,omitempty" maxLength:"64" doc:"For positive trigger cases"`
}

// NewReview is a decision on a suggestion.
type NewReview struct {
	ReviewedCase
	SuggestionID   string  `json:"suggestion_id" format:"uuid"`
	ReviewStatus   string  `json:"review_status" enum:"accepted,rejected"`
	AcceptTarget   *string `json:"accept_target,omitempty" enum:"draft,saved_suite" doc:"Of an accepted case; draft when omitted"`
	AppliedSuiteID *string `json:"applied_suite_id,omitempty" format:"uuid" doc:"Required with the target saved_suite"`
}

// NewSuiteCase accepts a suggestion and appends its case to a suite.
type NewSuiteCase struct {
	ReviewedCase
	SuiteID string `json:"suite_id" format:"uuid"`
}

// An AppliedSuite is the suite that a case was appended to.
type AppliedSuite struct {
	ID   string `json:"id" format:"uuid"`
	Name string `json:"name"`
}

// A NamedSuite is a suite to create for the cases of a request.
type NamedSuite struct {
	Name string `json:"name" minLength:"1" maxLength:"200"`
}

// NewCase is a test case to make of a session; the server fills in empty fields.
type NewCase struct {
	Skill       string      `json:"skill,omitempty" maxLength:"200" doc:"Id or name; when omitted, that of source_id or suite_id, or else the one that was activated"`
	SourceID    string      `json:"source_id,omitempty" maxLength:"40" doc:"A cloud source of the skill; without a suite the case becomes a draft of it"`
	SuiteID     string      `json:"suite_id,omitempty" format:"uuid" doc:"Any suite with the verifier llm_judge; when omitted, the newest of the skill, or else a new one with its name"`
	NewSuite    *NamedSuite `json:"new_suite,omitempty" doc:"A suite to create for the case, instead of suite_id"`
	Query       string      `json:"query,omitempty" maxLength:"4000" doc:"The first prompt of the session when omitted, if it is kept and the caller may read it"`
	Expectation string      `json:"expectation,omitempty" enum:"should_trigger,should_not_trigger" default:"should_trigger"`
}

// A SessionCase is a test case that was made of a session.
type SessionCase struct {
	SuggestionID *string `json:"suggestion_id" format:"uuid" doc:"Of the accepted suggestion: a review of it, or its deletion, undoes the case; null if no source is linked to the skill"`
	SessionID    string  `json:"session_id"`
	Skill        string  `json:"skill" example:"pdf-tables"`
	SourceID     *string `json:"source_id" format:"uuid" doc:"Of the accepted suggestion"`
	SuiteID      *string `json:"suite_id" format:"uuid" doc:"Null for a draft"`
	CaseID       *string `json:"case_id" doc:"In the suite; null for a draft"`
	Query        string  `json:"query"`
	Expectation  string  `json:"expectation" enum:"should_trigger,should_not_trigger"`
}

// A CreatedCase is a test case, and where it went.
type CreatedCase struct {
	Case    SessionCase `json:"case"`
	SuiteID *string     `json:"suite_id" format:"uuid" doc:"Null for a draft"`
	Skill   string      `json:"skill" example:"pdf-tables"`
}

// NewDraftCases adds drafts of a source, which are accepted suggestions, to a suite.
type NewDraftCases struct {
	SuiteID  string      `json:"suite_id,omitempty" format:"uuid" doc:"Any suite with the verifier llm_judge; when omitted, the newest of the source, or else a new one with its label"`
	NewSuite *NamedSuite `json:"new_suite,omitempty" doc:"A suite to create for the drafts, instead of suite_id"`
	DraftIDs []string    `json:"draft_ids,omitempty" minItems:"1" maxItems:"500" doc:"Ids of reviews or of their suggestions; all drafts when omitted"`
}

// AppliedDrafts says what became of the drafts of a source.
type AppliedDrafts struct {
	SuiteID string `json:"suite_id" format:"uuid"`
	Added   int    `json:"added" doc:"Cases"`
	Already int    `json:"already" doc:"Drafts that the suite had, or that were applied before"`
}
