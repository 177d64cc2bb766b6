package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"time"
)

// A Source is where a skill's author keeps the skill.
type Source struct {
	ID         string    `json:"id"`
	Label      string    `json:"label"`
	SourceType string    `json:"sourceType"` // upload or repohost
	SkillID    *string   `json:"skillId"`
	CreatedAt  time.Time `json:"createdAt"`
	// What follows is of a repohost source.
	RepoFullName   string `json:"repoFullName,omitempty"`
	InstallationID int64  `json:"installationId,omitempty"`
	DefaultBranch  string `json:"defaultBranch,omitempty"`
	SkillPath      string `json:"skillPath,omitempty"`
}

// A Snapshot is the files of a source at one time. It never changes.
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

// A ValidationReport is what was found wrong with a snapshot.
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

// A Finding is one thing that somebody should look at.
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

// A Suggestion is a test case that something which happened suggests.
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
}

// A SourceSuite is a saved suite of a source.
type SourceSuite struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	VerifierKind string `json:"verifierKind,omitempty"`
}

// SourceDetail is a source with what belongs to it.
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

// Sources lists the sources of the caller's organisation, newest first; only
// those of a type (upload or repohost), unless it is "".
func (c *Client) Sources(ctx context.Context, sourceType string) (out []Source, err error) {
	query := url.Values{}
	if sourceType != "" {
		query.Set("type", sourceType)
	}
	_, err = c.do(ctx, call{method: http.MethodGet, path: sourcesPath, query: query, repeatable: true}, &out)
	return out, err
}

// Source returns a source by its id.
func (c *Client) Source(ctx context.Context, id string) (out SourceDetail, err error) {
	_, err = c.do(ctx, call{method: http.MethodGet, path: sourcePath(id), repeatable: true}, &out)
	return out, err
}

// NewSource says what source to make.
type NewSource struct {
	Type    string `json:"type"` // upload or repohost
	Label   string `json:"label"`
	SkillID string `json:"skill_id,omitempty"`
	// What follows is for repohost, the first two required.
	InstallationID int64  `json:"installation_id,omitempty"`
	RepoFullName   string `json:"repo_full_name,omitempty"`
	DefaultBranch  string `json:"default_branch,omitempty"`
	SkillPath      string `json:"skill_path,omitempty"`
}

// CreateSource makes a source without a snapshot.
func (c *Client) CreateSource(ctx context.Context, n NewSource) (out Source, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: sourcesPath, body: encode(n)}, &out)
	return out, err
}

// DeleteSource removes a source with all its snapshots.
func (c *Client) DeleteSource(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: sourcePath(id), repeatable: true}, nil)
	return err
}

// SourceUpload is an archive to become a snapshot.
type SourceUpload struct {
	SourceID string // "" makes a new source
	Label    string // of a new source
	SkillID  string // of a new source, if any
	Archive  []byte // a zip or tar.gz
}

// A TakenSnapshot is a snapshot as a source has it now, with its reports.
type TakenSnapshot struct {
	Source
	Snapshot Snapshot           `json:"snapshot"`
	Reports  []ValidationReport `json:"validationReports"`
}

// UploadSource makes a snapshot of an archive. One with the content of the
// current one is not stored again: that one is returned.
func (c *Client) UploadSource(ctx context.Context, u SourceUpload) (out TakenSnapshot, err error) {
	_, err = c.do(ctx, call{
		method: http.MethodPost, path: sourcesPath + "/upload", body: newSourceForm(u), timeout: transferTimeout,
		repeatable: u.SourceID != "",
	}, &out)
	return out, err
}

// SyncSource makes a snapshot of what the repository of a source holds now.
// The source itself is not in the answer.
func (c *Client) SyncSource(ctx context.Context, id string) (out TakenSnapshot, err error) {
	_, err = c.do(ctx, call{
		method: http.MethodPost, path: sourcePath(id) + "/repohost-sync", timeout: transferTimeout, repeatable: true,
	}, &out)
	return out, err
}

// sourceForm is an upload as a multipart body.
type sourceForm struct {
	content   []byte
	mediaType string
}

func newSourceForm(u SourceUpload) *sourceForm {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	// A boundary of our own cannot be refused, and a buffer takes everything.
	_ = w.SetBoundary(rand.Text() + rand.Text())
	for name, value := range map[string]string{"source_id": u.SourceID, "label": u.Label, "skill_id": u.SkillID} {
		if value != "" {
			_ = w.WriteField(name, value)
		}
	}
	part, _ := w.CreateFormFile("file", "skill.tar.gz")
	_, _ = part.Write(u.Archive)
	_ = w.Close()
	return &sourceForm{b.Bytes(), w.FormDataContentType()}
}

func (f *sourceForm) open() (io.Reader, int64, string) {
	return bytes.NewReader(f.content), int64(len(f.content)), f.mediaType
}

// reviewBody is what a review and an application say of a case.
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
		Query: s.Query, ShouldTrigger: s.ShouldTrigger, Source: s.Source, Provenance: s.Provenance, Rationale: s.Rationale,
		ObservedCount: s.ObservedCount, Confidence: s.Confidence, LastObservedAt: s.LastObservedAt, InvocationType: s.InvocationType,
	}
}

// ReviewSuggestion records a decision, accepted or rejected, on a suggestion.
// What is accepted is kept as a draft.
func (c *Client) ReviewSuggestion(ctx context.Context, sourceID string, s Suggestion, status string) (Review, error) {
	body := newReviewBody(s)
	body.SuggestionID, body.ReviewStatus = s.ID, status
	var out struct {
		Review Review `json:"review"`
	}
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: sourcePath(sourceID) + "/eval-suggestions/review", body: encode(body), repeatable: true,
	}, &out)
	return out.Review, err
}

// ClearReview makes a suggestion pending again. Without a review it is an
// *Error with the status 404.
func (c *Client) ClearReview(ctx context.Context, sourceID, suggestionID string) error {
	path := sourcePath(sourceID) + "/eval-suggestions/" + url.PathEscape(suggestionID) + "/review"
	_, err := c.do(ctx, call{method: http.MethodDelete, path: path}, nil)
	return err
}

// ApplySuggestion accepts a suggestion and appends its case to a suite of the
// source. Doing so again changes nothing.
func (c *Client) ApplySuggestion(ctx context.Context, sourceID string, s Suggestion, suiteID string) (SourceSuite, Review, error) {
	body := newReviewBody(s)
	body.SuiteID = suiteID
	var out struct {
		Suite  SourceSuite `json:"suite"`
		Review Review      `json:"review"`
	}
	path := sourcePath(sourceID) + "/eval-suggestions/" + url.PathEscape(s.ID) + "/apply-to-suite"
	_, err := c.do(ctx, call{method: http.MethodPost, path: path, body: encode(body), repeatable: true}, &out)
	return out.Suite, out.Review, err
}
