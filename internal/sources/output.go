package sources

import (
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/lint"
)

// ItemOutput is a source as lists have it.
type ItemOutput struct {
	ID        string       `json:"id" example:"src_0197a7a5-9d4e-7c3b-8f5e-2d6a1b9c4e70"`
	Label     string       `json:"label"`
	Type      Type         `json:"sourceType" enum:"upload,repohost"`
	SkillID   *string      `json:"skillId"`
	CreatedAt httpapi.Time `json:"createdAt"`
}

func newItemOutput(s Source) ItemOutput {
	return ItemOutput{Prefix + s.ID, s.Label, s.Type, s.SkillID, httpapi.Time(s.CreatedAt)}
}

// SourceOutput is a source on the wire. What begins with its repository is
// there for a repohost source only.
type SourceOutput struct {
	ItemOutput
	RepoFullName   string `json:"repoFullName,omitempty" example:"acme/skills"`
	InstallationID int64  `json:"installationId,omitempty"`
	DefaultBranch  string `json:"defaultBranch,omitempty"`
	SkillPath      string `json:"skillPath,omitempty"`
}

func newSourceOutput(s Source) SourceOutput {
	out := SourceOutput{ItemOutput: newItemOutput(s)}
	if r := s.Repo; r != nil {
		out.RepoFullName, out.InstallationID, out.DefaultBranch, out.SkillPath = r.FullName, r.InstallationID, r.DefaultBranch, r.SkillPath
	}
	return out
}

type snapshotOutput struct {
	ID          string       `json:"id" format:"uuid"`
	SourceID    string       `json:"sourceId"`
	ContentHash string       `json:"contentHash" doc:"SHA-256 of the canonical archive: the same for the same files, however they were sent"`
	CreatedAt   httpapi.Time `json:"createdAt"`
	FileCount   int          `json:"fileCount"`
	TotalBytes  int64        `json:"totalBytes"`
	Files       []File       `json:"files" nullable:"false"`
	SkillName   string       `json:"skillName"`
	Description string       `json:"description"`
	CommitSHA   *string      `json:"commitSha,omitempty"`
	Ref         *string      `json:"ref,omitempty"`
	IsCurrent   bool         `json:"isCurrent"`
	Runnable    bool         `json:"runnable" doc:"False when its validation failed"`
}

func newSnapshotOutput(src Source, s Snapshot) snapshotOutput {
	return snapshotOutput{
		ID: s.ID, SourceID: Prefix + s.SourceID, ContentHash: s.ContentHash, CreatedAt: httpapi.Time(s.CreatedAt),
		FileCount: len(s.Files), TotalBytes: s.TotalBytes, Files: s.Files, SkillName: s.SkillName, Description: s.Description,
		CommitSHA: s.CommitSHA, Ref: s.Ref, IsCurrent: src.CurrentSnapshotID != nil && *src.CurrentSnapshotID == s.ID,
		Runnable: s.Runnable,
	}
}

type reportOutput struct {
	ID         string         `json:"id" format:"uuid"`
	SnapshotID string         `json:"snapshotId" format:"uuid"`
	Engine     string         `json:"engine"`
	Status     string         `json:"status" enum:"pass,warn,fail"`
	CreatedAt  httpapi.Time   `json:"createdAt"`
	Counts     lint.Counts    `json:"counts"`
	Findings   []lint.Finding `json:"findings" nullable:"false"`
}

func newReportOutputs(reports []Report) []reportOutput {
	out := make([]reportOutput, len(reports))
	for i, r := range reports {
		out[i] = reportOutput{
			r.ID, r.SnapshotID, r.Engine, r.Found.Status(), httpapi.Time(r.CreatedAt), r.Found.Counts(),
			append([]lint.Finding{}, r.Found.Findings...),
		}
	}
	return out
}

// TakenOutput is a snapshot with its reports.
type TakenOutput struct {
	Snapshot snapshotOutput `json:"snapshot"`
	Reports  []reportOutput `json:"validationReports" nullable:"false"`
}

func newTakenOutput(t Taken) TakenOutput {
	return TakenOutput{newSnapshotOutput(t.Source, t.Snapshot), newReportOutputs(t.Reports)}
}

type suggestionOutput struct {
	ID             string       `json:"id" format:"uuid"`
	Query          string       `json:"query"`
	ShouldTrigger  bool         `json:"shouldTrigger"`
	Evidence       Evidence     `json:"source" enum:"linked_telemetry,hosted_run"`
	Provenance     Provenance   `json:"provenance" enum:"failed_evaluation,missed_query,run_regression,run_failure"`
	Rationale      string       `json:"rationale"`
	ObservedCount  int          `json:"observedCount"`
	Confidence     float64      `json:"confidence" doc:"Lower end of the 95 % Wilson interval of the share that went wrong"`
	LastObservedAt httpapi.Time `json:"lastObservedAt"`
	InvocationType *string      `json:"invocationType,omitempty"`
	ReviewStatus   string       `json:"reviewStatus" enum:"pending"`
}

func newSuggestionOutputs(suggestions []Suggestion) []suggestionOutput {
	out := make([]suggestionOutput, len(suggestions))
	for i, s := range suggestions {
		out[i] = suggestionOutput{
			s.ID, s.Query, s.ShouldTrigger, s.Provenance.evidence(), s.Provenance, s.Rationale, s.ObservedCount, s.Confidence,
			httpapi.Time(s.LastObservedAt), s.InvocationType, "pending",
		}
	}
	return out
}

type reviewOutput struct {
	ID             string        `json:"id" format:"uuid"`
	SuggestionID   string        `json:"suggestionId" format:"uuid"`
	Status         Status        `json:"reviewStatus" enum:"accepted,rejected"`
	AcceptTarget   *Target       `json:"acceptTarget" enum:"draft,saved_suite" doc:"Null when rejected"`
	AppliedSuiteID *string       `json:"appliedSuiteId"`
	Query          string        `json:"query"`
	ShouldTrigger  bool          `json:"shouldTrigger"`
	Evidence       Evidence      `json:"source" enum:"linked_telemetry,hosted_run"`
	Provenance     Provenance    `json:"provenance" enum:"failed_evaluation,missed_query,run_regression,run_failure"`
	Rationale      *string       `json:"rationale,omitempty"`
	ObservedCount  *float64      `json:"observedCount,omitempty"`
	Confidence     *float64      `json:"confidence,omitempty"`
	LastObservedAt *httpapi.Time `json:"lastObservedAt,omitempty"`
	InvocationType *string       `json:"invocationType,omitempty"`
	ReviewedBy     string        `json:"reviewedBy" format:"uuid"`
	ReviewedAt     httpapi.Time  `json:"reviewedAt"`
	AppliedAt      *httpapi.Time `json:"appliedToSuiteAt"`
}

func newReviewOutput(r Review) reviewOutput {
	return reviewOutput{
		r.ID, r.SuggestionID, r.Status, r.AcceptTarget, r.AppliedSuiteID, r.Query, r.ShouldTrigger, r.Evidence, r.Provenance,
		r.Rationale, r.ObservedCount, r.Confidence, httpapi.NullTime(r.LastObservedAt), r.InvocationType,
		r.ReviewedBy, httpapi.Time(r.ReviewedAt), httpapi.NullTime(r.AppliedAt),
	}
}

func newReviewOutputs(reviews []Review) []reviewOutput {
	out := make([]reviewOutput, len(reviews))
	for i, r := range reviews {
		out[i] = newReviewOutput(r)
	}
	return out
}

type detailOutput struct {
	SourceOutput
	Current         *snapshotOutput    `json:"currentSnapshot"`
	Snapshots       []snapshotOutput   `json:"snapshots" nullable:"false" doc:"The newest 20"`
	Reports         []reportOutput     `json:"validationReports" nullable:"false" doc:"Of the current snapshot"`
	Suggestions     []suggestionOutput `json:"evalSuggestions" nullable:"false" doc:"Pending, the best 200"`
	SuggestionCount int                `json:"evalSuggestionCount" doc:"All that are pending"`
	Reviews         []reviewOutput     `json:"reviewedSuggestions" nullable:"false" doc:"The newest 200, newest first"`
	ReviewCount     int                `json:"reviewedSuggestionCount"`
	Suites          []Suite            `json:"evalSuites" nullable:"false"`
}

func newDetailOutput(d Detail) detailOutput {
	out := detailOutput{
		SourceOutput: newSourceOutput(d.Source), Snapshots: make([]snapshotOutput, len(d.Snapshots)),
		Reports: newReportOutputs(d.Reports), Suggestions: newSuggestionOutputs(d.Pending), SuggestionCount: d.PendingCount,
		Reviews: newReviewOutputs(d.Reviews), ReviewCount: d.ReviewCount, Suites: append([]Suite{}, d.Suites...),
	}
	for i, s := range d.Snapshots {
		out.Snapshots[i] = newSnapshotOutput(d.Source, s)
	}
	if d.Current != nil {
		current := newSnapshotOutput(d.Source, *d.Current)
		out.Current = &current
	}
	return out
}
