package skills

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Prompted is what became of one prompt in the sessions of a skill.
type Prompted struct {
	PromptHash   string // see PromptHash
	Checks       int    // how often the skill was considered for it
	Missed       int    // of those, how often it did not fire
	Graded       int    // how often it fired in a session that was graded
	Failed       int    // of those, how often the session failed
	LastMissedAt *time.Time
	LastFailedAt *time.Time
	Mode         string // how the skill was called, or ""
}

// Prompted returns the prompts of the newest observations of a skill, the newest
// prompt first. A graded session failed when less than half of what was
// expected of it was met.
func (s *Service) Prompted(ctx context.Context, q store.Querier, orgID, skillID string, observations int) ([]Prompted, error) {
	return promptsOfSkill(ctx, q, orgID, skillID, observations)
}
