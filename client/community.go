package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/whetstone-dev/whetstone/client/api"
)

const bundlesPath = "/api/v1/community/bundles"

// SubmitBundle sends a contribution bundle about a skill to its creator and
// returns the id of the submission. It is idempotent: the same bundle is the same
// submission.
func (c *Client) SubmitBundle(ctx context.Context, creatorID, skillName string, bundle json.RawMessage) (id string, err error) {
	body := encode(api.NewBundle{CreatorID: creatorID, SkillName: skillName, Bundle: bundle})
	var out struct {
		SubmissionID string `json:"submission_id"`
	}
	_, err = c.do(ctx, call{method: http.MethodPost, path: bundlesPath, body: body, idempotent: true}, &out)
	return out.SubmissionID, err
}

// BundlesOverview counts the bundles that came for the caller.
func (c *Client) BundlesOverview(ctx context.Context) (out api.BundlesOverview, err error) {
	return out, c.get(ctx, bundlesPath+"/overview", nil, &out)
}

// SkillBundles returns the bundles about a skill of the caller.
func (c *Client) SkillBundles(ctx context.Context, skill string) (out api.SkillBundles, err error) {
	return out, c.get(ctx, bundlesPath+"/skills/"+url.PathEscape(skill), nil, &out)
}

// RecentBundles returns the newest bundles for the caller, as many as limit at most.
func (c *Client) RecentBundles(ctx context.Context, limit int) (out api.RecentBundles, err error) {
	return out, c.get(ctx, bundlesPath+"/recent", url.Values{"limit": {strconv.Itoa(limit)}}, &out)
}
