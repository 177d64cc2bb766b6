package telemetry

import (
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// A ConsideredPrompt is one that a skill was considered for, with the outcomes.
type ConsideredPrompt struct {
	Ref, Text    string // Ref is the hash that Texts takes
	Checks       int    // how often the skill was considered for it
	Missed       int    // of those, how often it did not fire
	Graded       int    // how often it fired in a session that was graded
	Failed       int    // of those, how often the session failed
	LastMissedAt *time.Time
	LastFailedAt *time.Time
	Mode         string // how the skill was called, or ""
}

// maxObservations is how many of the newest observations of a skill are read.
const maxObservations = 20_000

// ConsideredPrompts returns the prompts of the newest observations of a skill that the
// organisation may read (see shareable).
func ConsideredPrompts(ctx context.Context, q store.Querier, orgID, skillID string) ([]ConsideredPrompt, error) {
	stats, err := skills.PromptStatsOf(ctx, q, orgID, skillID, maxObservations)
	if err != nil {
		return nil, err
	}
	hashes := make([]string, len(stats))
	for i, p := range stats {
		hashes[i] = p.PromptHash
	}
	texts, err := PromptTexts(ctx, q, orgID, hashes)
	all := []ConsideredPrompt{}
	for _, p := range stats {
		if text, ok := texts[p.PromptHash]; ok {
			all = append(all, ConsideredPrompt{
				p.PromptHash, text, p.Checks, p.Missed, p.Graded, p.Failed, p.LastMissedAt, p.LastFailedAt, p.Mode,
			})
		}
	}
	return all, err
}

// LastAt is when the skill last missed or failed at the prompt; the zero time if
// it never did.
func (p ConsideredPrompt) LastAt() (last time.Time) {
	for _, at := range []*time.Time{p.LastMissedAt, p.LastFailedAt} {
		if at != nil && at.After(last) {
			last = *at
		}
	}
	return last
}

// MissedPrompts returns the prompts that a skill missed or failed at, newest first, at
// most limit.
func MissedPrompts(ctx context.Context, q store.Querier, orgID, skillID string, limit int) ([]ConsideredPrompt, error) {
	all, err := ConsideredPrompts(ctx, q, orgID, skillID)
	missed := slices.DeleteFunc(all, func(p ConsideredPrompt) bool { return p.Missed == 0 && p.Failed == 0 })
	slices.SortStableFunc(missed, func(a, b ConsideredPrompt) int { return b.LastAt().Compare(a.LastAt()) })
	return missed[:min(len(missed), limit)], err
}
