package skills

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// PromptStats is the outcomes of one prompt in the sessions of a skill.
type PromptStats struct {
	PromptHash   string // see PromptHash
	Checks       int    // how often the skill was considered for it
	Missed       int    // of those, how often it was not activated
	Graded       int    // how often it was activated in a graded session
	Failed       int    // of those, how often the session failed
	LastMissedAt *time.Time
	LastFailedAt *time.Time
	Mode         string // how the skill was called, or ""
}

// PromptStats returns the outcomes of the prompts in a skill's newest
// observations, the newest prompt first. A graded session failed if its pass rate
// is below one half.
func (s *Service) PromptStats(
	ctx context.Context, q store.Querier, orgID, skillID string, observations int,
) ([]PromptStats, error) {
	return promptStatsOfSkill(ctx, q, orgID, skillID, observations)
}
