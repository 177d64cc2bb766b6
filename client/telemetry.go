package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/whetstone-dev/whetstone/client/api"
)

// Push reports sessions: body is a push of the canonical schema 2.0, with a
// unique push_id. It is idempotent: the server deduplicates by the push_id.
func (c *Client) Push(ctx context.Context, body []byte) (out api.PushResult, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: "/api/v1/push", body: jsonBody(body), idempotent: true}, &out)
	return out, err
}

// A SkillFilter selects and orders skills; its zero value is all that are confirmed,
// not hidden and not merged, by name.
type SkillFilter struct {
	Query       string // text in the name
	Status      string
	Sort        string // a field; a leading - reverses the order, e.g. "-pass_rate"
	Unconfirmed bool   // names without a real use instead
	Hidden      bool   // hidden ones instead
	Merged      bool   // those merged into others instead
}

// Skills lists the skills of the caller's organisation.
func (c *Client) Skills(ctx context.Context, f SkillFilter) ([]api.ListedSkill, error) {
	query := newQuery(map[string]string{"q": f.Query, "status": f.Status, "sort": f.Sort})
	if f.Unconfirmed {
		query.Set("confirmed", "false")
	}
	if f.Hidden {
		query.Set("hidden", "true")
	}
	if f.Merged {
		query.Set("merged", "true")
	}
	return List[api.ListedSkill](ctx, c, "/v1/skills", "skills", query)
}

// Skill returns a skill by its id or name, with its last days: 30 when days is 0.
// An unknown one is an *Error with the status 404.
func (c *Client) Skill(ctx context.Context, idOrName string, days int) (out api.SkillDetail, err error) {
	query := url.Values{}
	if days > 0 {
		query.Set("days", strconv.Itoa(days))
	}
	err = c.get(ctx, skillPath(idOrName), query, &out)
	return out, err
}

func skillPath(idOrName string) string { return "/v1/skills/" + url.PathEscape(idOrName) }

// HideSkill leaves a skill, by its id or name, out of lists and alerts, or shows it
// again. It needs the permission admin.
func (c *Client) HideSkill(ctx context.Context, idOrName string, hidden bool) (api.SkillDetail, error) {
	return c.changeSkill(ctx, idOrName, map[string]any{"hidden": hidden})
}

// MergeSkill lets another skill, by its id or name, have all that is and was reported
// of this one. It needs the permission admin.
func (c *Client) MergeSkill(ctx context.Context, idOrName, into string) (api.SkillDetail, error) {
	return c.changeSkill(ctx, idOrName, map[string]any{"merged_into": into})
}

// UnmergeSkill takes a merge back. It needs the permission admin.
func (c *Client) UnmergeSkill(ctx context.Context, idOrName string) (api.SkillDetail, error) {
	return c.changeSkill(ctx, idOrName, map[string]any{"merged_into": nil})
}

func (c *Client) changeSkill(ctx context.Context, idOrName string, change map[string]any) (out api.SkillDetail, err error) {
	_, err = c.do(ctx, call{method: http.MethodPatch, path: skillPath(idOrName), body: encode(change), idempotent: true}, &out)
	return out, err
}
