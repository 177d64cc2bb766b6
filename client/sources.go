package client

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"time"
)

// A Source is a cloud source: a skill as its author uploads it or keeps it in a
// repository.
type Source struct {
	ID         string    `json:"id"`
	Label      string    `json:"label"`
	SourceType string    `json:"sourceType"` // upload or repohost
	SkillID    *string   `json:"skillId"`
	CreatedAt  time.Time `json:"createdAt"`
	// The following fields are set for a repohost source.
	RepoFullName   string `json:"repoFullName,omitempty"`
	InstallationID int64  `json:"installationId,omitempty"`
	DefaultBranch  string `json:"defaultBranch,omitempty"`
	SkillPath      string `json:"skillPath,omitempty"`
}

// A Snapshot is the files of a source at one time. It is immutable.
type Snapshot struct {
	ID          string         `json:"id"`
	SourceID    string         `json:"sourceId"`
	ContentHash string         `json:"contentHash"`
	CreatedAt   time.Time      `json:"createdAt"`
	FileCount   int            `json:"fileCount"`
	TotalBytes  int64          `json:"totalBytes"`
	Files       []SnapshotFile `json:"files"`
	SkillName   string         `json:"skillName"`
	Description string         `json:"description"`
	CommitSHA   string         `json:"commitSha,omitempty"`
	Ref         string         `json:"ref,omitempty"`
	IsCurrent   bool           `json:"isCurrent"`
	Runnable    bool           `json:"runnable"` // its validation did not fail
}

// A SnapshotFile is one file of a snapshot.
type SnapshotFile struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// A ValidationReport has the findings about a snapshot.
type ValidationReport struct {
	ID         string    `json:"id"`
	SnapshotID string    `json:"snapshotId"`
	Engine     string    `json:"engine"`
	Status     string    `json:"status"` // pass, warn or fail
	CreatedAt  time.Time `json:"createdAt"`
	Counts     struct {
		Error   int `json:"error"`
		Warning int `json:"warning"`
		Info    int `json:"info"`
	} `json:"counts"`
	Findings []Finding `json:"findings"`
}

// A Finding is one problem that the linter found.
type Finding struct {
	Code        string `json:"code"`
	Category    string `json:"category"` // spec, quality or security
	Severity    string `json:"severity"` // error, warning or info
	Path        string `json:"path"`
	Line        int    `json:"line,omitempty"`
	Message     string `json:"message"`
	Evidence    string `json:"evidence,omitempty"`
	Remediation string `json:"remediation,omitempty"`
}

// A Suggestion is a test case that was derived from sessions or runs.
type Suggestion struct {
	ID             string    `json:"id"`
	Query          string    `json:"query"`
	ShouldTrigger  bool      `json:"shouldTrigger"`
	Source         string    `json:"source"`     // linked_telemetry or hosted_run
	Provenance     string    `json:"provenance"` // failed_evaluation, missed_query, run_regression or run_failure
	Rationale      string    `json:"rationale"`
	ObservedCount  int       `json:"observedCount"`
	Confidence     float64   `json:"confidence"`
	LastObservedAt time.Time `json:"lastObservedAt"`
	InvocationType string    `json:"invocationType,omitempty"`
	ReviewStatus   string    `json:"reviewStatus"`
}

// A Review is a person's decision on a suggestion.
type Review struct {
	ID               string     `json:"id"`
	SuggestionID     string     `json:"suggestionId"`
	ReviewStatus     string     `json:"reviewStatus"` // accepted or rejected
	AcceptTarget     *string    `json:"acceptTarget"` // draft or saved_suite
	AppliedSuiteID   *string    `json:"appliedSuiteId"`
	Query            string     `json:"query"`
	ShouldTrigger    bool       `json:"shouldTrigger"`
	Source           string     `json:"source"`
	Provenance       string     `json:"provenance"`
	ReviewedBy       string     `json:"reviewedBy"`
	ReviewedAt       time.Time  `json:"reviewedAt"`
	AppliedToSuiteAt *time.Time `json:"appliedToSuiteAt"`
	// The rest is the suggestion as it was reviewed.
	Rationale      string    `json:"rationale"`
	ObservedCount  int       `json:"observedCount"`
	Confidence     float64   `json:"confidence"`
	LastObservedAt time.Time `json:"lastObservedAt"`
	InvocationType string    `json:"invocationType,omitempty"`
}

// A SourceSuite is a saved suite of a source.
type SourceSuite struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	VerifierKind string `json:"verifierKind,omitempty"`
}

// SourceDetail is a source with its snapshots, reports, suggestions and suites.
type SourceDetail struct {
	Source
	CurrentSnapshot *Snapshot          `json:"currentSnapshot"`
	Snapshots       []Snapshot         `json:"snapshots"`         // the newest 20
	Reports         []ValidationReport `json:"validationReports"` // of the current snapshot
	Suggestions     []Suggestion       `json:"evalSuggestions"`   // pending, the best 200
	SuggestionCount int                `json:"evalSuggestionCount"`
	Reviews         []Review           `json:"reviewedSuggestions"` // the newest 200
	ReviewCount     int                `json:"reviewedSuggestionCount"`
	Suites          []SourceSuite      `json:"evalSuites"`
}

const sourcesPath = "/api/v1/cloud-sources"

func sourcePath(id string) string { return sourcesPath + "/" + url.PathEscape(id) }

// Sources lists the sources of the caller's organisation, newest first. A
// sourceType of upload or repohost selects those; "" selects all.
func (c *Client) Sources(ctx context.Context, sourceType string) (out []Source, err error) {
	err = c.get(ctx, sourcesPath, newQuery(map[string]string{"type": sourceType}), &out)
	return out, err
}

// Source returns a source by its id.
func (c *Client) Source(ctx context.Context, id string) (out SourceDetail, err error) {
	err = c.get(ctx, sourcePath(id), nil, &out)
	return out, err
}

// NewSource describes a source to create.
type NewSource struct {
	Type    string `json:"type"` // upload or repohost
	Label   string `json:"label"`
	SkillID string `json:"skill_id,omitempty"`
	// The following fields are for repohost; the first two are required.
	InstallationID int64  `json:"installation_id,omitempty"`
	RepoFullName   string `json:"repo_full_name,omitempty"`
	DefaultBranch  string `json:"default_branch,omitempty"`
	SkillPath      string `json:"skill_path,omitempty"`
}

// CreateSource creates a source without a snapshot.
func (c *Client) CreateSource(ctx context.Context, n NewSource) (out Source, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: sourcesPath, body: encode(n)}, &out)
	return out, err
}

// DeleteSource deletes a source with all its snapshots.
func (c *Client) DeleteSource(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: sourcePath(id), idempotent: true}, nil)
	return err
}

// SourceUpload is the archive of a new snapshot.
type SourceUpload struct {
	SourceID string // "" creates a new source
	Label    string // of a new source
	SkillID  string // of a new source, if any
	Archive  []byte // a zip or tar.gz
}

// A TakenSnapshot is the current snapshot of a source, with its reports.
type TakenSnapshot struct {
	Source
	Snapshot Snapshot           `json:"snapshot"`
	Reports  []ValidationReport `json:"validationReports"`
}

// UploadSource creates a snapshot from an archive. If the content is that of the
// current snapshot, that one is returned instead, so the call is idempotent for an
// existing source.
func (c *Client) UploadSource(ctx context.Context, u SourceUpload) (out TakenSnapshot, err error) {
	fields := map[string]string{"source_id": u.SourceID, "label": u.Label, "skill_id": u.SkillID}
	_, err = c.do(ctx, call{
		method: http.MethodPost, path: sourcesPath + "/upload", timeout: transferTimeout, idempotent: u.SourceID != "",
		body: newForm(fields, formFile{
			field: "file", name: "skill.tar.gz", content: bytes.NewReader(u.Archive), size: int64(len(u.Archive)),
		}),
	}, &out)
	return out, err
}

// SyncSource creates a snapshot from the current state of a source's repository.
// The answer does not include the source itself.
func (c *Client) SyncSource(ctx context.Context, id string) (out TakenSnapshot, err error) {
	_, err = c.do(ctx, call{
		method: http.MethodPost, path: sourcePath(id) + "/repohost-sync", timeout: transferTimeout, idempotent: true,
	}, &out)
	return out, err
}

// reviewBody is the request of a review and of an application to a suite.
type reviewBody struct {
	SuggestionID   string    `json:"suggestion_id,omitempty"`
	ReviewStatus   string    `json:"review_status,omitempty"`
	SuiteID        string    `json:"suite_id,omitempty"`
	Query          string    `json:"query"`
	ShouldTrigger  bool      `json:"should_trigger"`
	Source         string    `json:"source"`
	Provenance     string    `json:"provenance"`
	Rationale      string    `json:"rationale"`
	ObservedCount  int       `json:"observed_count"`
	Confidence     float64   `json:"confidence"`
	LastObservedAt time.Time `json:"last_observed_at"`
	InvocationType string    `json:"invocation_type,omitempty"`
}

func newReviewBody(s Suggestion) reviewBody {
	return reviewBody{
		Query: s.Query, ShouldTrigger: s.ShouldTrigger, Source: s.Source, Provenance: s.Provenance,
		Rationale: s.Rationale, ObservedCount: s.ObservedCount, Confidence: s.Confidence,
		LastObservedAt: s.LastObservedAt, InvocationType: s.InvocationType,
	}
}

// ReviewSuggestion records a decision on a suggestion: accepted, which keeps it as
// a draft, or rejected.
func (c *Client) ReviewSuggestion(ctx context.Context, sourceID string, s Suggestion, status string) (Review, error) {
	body := newReviewBody(s)
	body.SuggestionID, body.ReviewStatus = s.ID, status
	var out struct {
		Review Review `json:"review"`
	}
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: sourcePath(sourceID) + "/eval-suggestions/review", body: encode(body), idempotent: true,
	}, &out)
	return out.Review, err
}

// ClearReview makes a suggestion pending again. A suggestion without a review is
// an *Error with the status 404.
func (c *Client) ClearReview(ctx context.Context, sourceID, suggestionID string) error {
	path := sourcePath(sourceID) + "/eval-suggestions/" + url.PathEscape(suggestionID) + "/review"
	_, err := c.do(ctx, call{method: http.MethodDelete, path: path}, nil)
	return err
}

// ApplySuggestion accepts a suggestion and appends its case to a suite of the
// source. It is idempotent.
func (c *Client) ApplySuggestion(
	ctx context.Context, sourceID string, s Suggestion, suiteID string,
) (SourceSuite, Review, error) {
	body := newReviewBody(s)
	body.SuiteID = suiteID
	var out struct {
		Suite  SourceSuite `json:"suite"`
		Review Review      `json:"review"`
	}
	path := sourcePath(sourceID) + "/eval-suggestions/" + url.PathEscape(s.ID) + "/apply-to-suite"
	_, err := c.do(ctx, call{method: http.MethodPost, path: path, body: encode(body), idempotent: true}, &out)
	return out.Suite, out.Review, err
}
