package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/whetstone-dev/whetstone/client/api"
)

// A Signal is one observation of a contributor's tool about a skill.
type Signal struct {
	SkillName  string  `json:"skill_name"`
	SignalType string  `json:"signal_type"`
	Confidence float64 `json:"confidence"`
	// SourceKey identifies the signal: the server deduplicates by it within the
	// organisation.
	SourceKey string `json:"source_key"`
	// UserCohort is the contributor, if the key is that of a relay; otherwise the
	// contributor is the caller.
	UserCohort string `json:"user_cohort,omitempty"`
}

// SendSignals sends a batch of 1 to 1000 signals. It is idempotent: the server
// deduplicates by the source keys.
func (c *Client) SendSignals(ctx context.Context, signals []Signal) (out api.SignalsResult, err error) {
	body := encode(map[string]any{"signals": signals})
	_, err = c.do(ctx, call{method: http.MethodPost, path: "/api/v1/signals", body: body, idempotent: true}, &out)
	return out, err
}

// SignalsOverview returns the summary of the contributors' signals about the
// organisation's skills.
func (c *Client) SignalsOverview(ctx context.Context) (out api.SignalsOverview, err error) {
	err = c.get(ctx, "/api/v1/creator-signals/overview", nil, &out)
	return out, err
}

// SkillSignals returns what contributors' signals say about one skill.
func (c *Client) SkillSignals(ctx context.Context, skill string) (out api.SkillSignalsDetail, err error) {
	return out, c.get(ctx, "/api/v1/creator-signals/skills/"+url.PathEscape(skill), nil, &out)
}

// A SignalsQuery selects signals; an empty field selects all. Since and Until are RFC 3339 times or
// days, and Bucket is day or week.
type SignalsQuery struct{ SkillName, SignalType, Since, Until, Bucket string }

// SignalsAggregates counts signals by skill, type and period.
func (c *Client) SignalsAggregates(ctx context.Context, q SignalsQuery) (out api.SignalsAggregates, err error) {
	return out, c.get(ctx, "/api/v1/signals/aggregates", newQuery(map[string]string{
		"skill_name": q.SkillName, "signal_type": q.SignalType, "since": q.Since, "until": q.Until, "bucket": q.Bucket,
	}), &out)
}
