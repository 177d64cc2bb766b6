package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// SubmitBundle sends a contribution bundle about a skill to its creator and
// returns the id of the submission. It is idempotent: the same bundle is the same
// submission.
func (c *Client) SubmitBundle(ctx context.Context, creatorID, skillName string, bundle json.RawMessage) (id string, err error) {
	body := encode(map[string]any{"creator_id": creatorID, "skill_name": skillName, "bundle": bundle})
	var out struct {
		SubmissionID string `json:"submission_id"`
	}
	_, err = c.do(ctx, call{method: http.MethodPost, path: "/api/v1/community/bundles", body: body, idempotent: true}, &out)
	return out.SubmissionID, err
}

// A BundleCount is the number of bundles about a skill.
type BundleCount struct {
	SkillName        string    `json:"skill_name"`
	Submissions      int       `json:"submission_count"`
	Contributors     int       `json:"contributor_count"`
	LatestSubmission time.Time `json:"latest_submission"`
}

// A BundlesOverview is what has come for the caller.
type BundlesOverview struct {
	Submissions  int           `json:"total_submissions"`
	Skills       int           `json:"total_skills"`
	Contributors int           `json:"total_contributors"`
	BySkill      []BundleCount `json:"skills"`
}

// BundlesOverview counts the bundles that came for the caller.
func (c *Client) BundlesOverview(ctx context.Context) (out BundlesOverview, err error) {
	err = c.get(ctx, "/api/v1/community/bundles/overview", nil, &out)
	return out, err
}
