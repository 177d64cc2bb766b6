package client

import (
	"bytes"
	"context"
	"net/http"
	"net/url"

	"github.com/whetstone-dev/whetstone/client/api"
)

const sourcesPath = "/api/v1/cloud-sources"

func sourcePath(id string) string { return sourcesPath + "/" + url.PathEscape(id) }

// Sources lists the sources of the caller's organisation, newest first. A
// sourceType of upload or repohost selects those; "" selects all.
func (c *Client) Sources(ctx context.Context, sourceType string) (out []api.ListedSource, err error) {
	err = c.get(ctx, sourcesPath, newQuery(map[string]string{"type": sourceType}), &out)
	return out, err
}

// Source returns a source by its id.
func (c *Client) Source(ctx context.Context, id string) (out api.SourceDetail, err error) {
	err = c.get(ctx, sourcePath(id), nil, &out)
	return out, err
}

// CreateSource creates a source without a snapshot.
func (c *Client) CreateSource(ctx context.Context, n api.NewSource) (out api.Source, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: sourcesPath, body: encode(n)}, &out)
	return out, err
}

// UpdateSource changes a source.
func (c *Client) UpdateSource(ctx context.Context, id string, change api.SourceChange) (out api.Source, err error) {
	return out, c.Call(ctx, http.MethodPatch, sourcePath(id), change, &out)
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

// UploadSource creates a snapshot from an archive. If the content is that of the
// current snapshot, that one is returned instead, so the call is idempotent for an
// existing source.
func (c *Client) UploadSource(ctx context.Context, u SourceUpload) (out api.UploadedSource, err error) {
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
func (c *Client) SyncSource(ctx context.Context, id string) (out api.TakenSnapshot, err error) {
	_, err = c.do(ctx, call{
		method: http.MethodPost, path: sourcePath(id) + "/repohost-sync", timeout: transferTimeout, idempotent: true,
	}, &out)
	return out, err
}

// reviewed is a suggestion as it goes back with a decision: the server compares it with what it
// would suggest now.
func reviewed(s api.Suggestion) api.ReviewedCase {
	observed := float64(s.ObservedCount)
	return api.ReviewedCase{
		Query: s.Query, ShouldTrigger: s.ShouldTrigger, Source: s.Source, Provenance: s.Provenance,
		Rationale: &s.Rationale, ObservedCount: &observed, Confidence: &s.Confidence,
		LastObservedAt: &s.LastObservedAt, InvocationType: s.InvocationType,
	}
}

// ReviewSuggestion records a decision on a suggestion: accepted, which keeps it as
// a draft, or rejected.
func (c *Client) ReviewSuggestion(ctx context.Context, sourceID string, s api.Suggestion, status string) (api.Review, error) {
	body := api.NewReview{ReviewedCase: reviewed(s), SuggestionID: s.ID, ReviewStatus: status}
	var out struct {
		Review api.Review `json:"review"`
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
	ctx context.Context, sourceID string, s api.Suggestion, suiteID string,
) (api.AppliedSuite, api.Review, error) {
	body := api.NewSuiteCase{ReviewedCase: reviewed(s), SuiteID: suiteID}
	var out struct {
		Suite  api.AppliedSuite `json:"suite"`
		Review api.Review       `json:"review"`
	}
	path := sourcePath(sourceID) + "/eval-suggestions/" + url.PathEscape(s.ID) + "/apply-to-suite"
	_, err := c.do(ctx, call{method: http.MethodPost, path: path, body: encode(body), idempotent: true}, &out)
	return out.Suite, out.Review, err
}

// ApplyDrafts adds the drafts of a source, or some of them, to a suite. It is idempotent.
func (c *Client) ApplyDrafts(ctx context.Context, sourceID string, in api.NewDraftCases) (out api.AppliedDrafts, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: sourcePath(sourceID) + "/drafts/apply", body: encode(in), idempotent: true}, &out)
	return out, err
}
