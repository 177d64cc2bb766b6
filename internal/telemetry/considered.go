package telemetry

import (
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/skills/prompts"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Considered is a prompt that a skill was considered for, with the outcomes.
type Considered struct {
	Ref, Text    string // Ref is the hash that Texts takes
	Checks       int    // how often the skill was considered for it
	Missed       int    // of those, how often it did not fire
	Graded       int    // how often it fired in a session that was graded
	Failed       int    // of those, how often the session failed
	LastMissedAt *time.Time
	LastFailedAt *time.Time
	Mode         string // how the skill was called, or ""
}

// maxConsidered is how many of the newest observations of a skill are read.
const maxConsidered = 20_000

// Considered returns the prompts of the newest observations of a skill that the
// organisation may read (see shareable).
func (s *Service) Considered(ctx context.Context, q store.Querier, orgID, skillID string) ([]Considered, error) {
	stats, err := prompts.StatsOf(ctx, q, orgID, skillID, maxConsidered)
	if err != nil {
		return nil, err
	}
	hashes := make([]string, len(stats))
	for i, p := range stats {
		hashes[i] = p.PromptHash
	}
	texts, err := s.Texts(ctx, q, orgID, hashes)
	considered := []Considered{}
	for _, p := range stats {
		if text, ok := texts[p.PromptHash]; ok {
			considered = append(considered, Considered{
				p.PromptHash, text, p.Checks, p.Missed, p.Graded, p.Failed, p.LastMissedAt, p.LastFailedAt, p.Mode,
			})
		}
	}
	return considered, err
}

// LastAt is when the skill last missed or failed at the prompt; the zero time if
// it never did.
func (c Considered) LastAt() (last time.Time) {
	for _, at := range []*time.Time{c.LastMissedAt, c.LastFailedAt} {
		if at != nil && at.After(last) {
			last = *at
		}
	}
	return last
}

// Missed returns the prompts that a skill missed or failed at, newest first, at
// most limit.
func (s *Service) Missed(ctx context.Context, orgID, skillID string, limit int) ([]Considered, error) {
	all, err := s.Considered(ctx, s.DB, orgID, skillID)
	missed := slices.DeleteFunc(all, func(c Considered) bool { return c.Missed == 0 && c.Failed == 0 })
	slices.SortStableFunc(missed, func(a, b Considered) int { return b.LastAt().Compare(a.LastAt()) })
	return missed[:min(len(missed), limit)], err
}

// Texts returns the texts of prompts by their Ref. It leaves out prompts that
// were erased, have expired or may not be shared.
func (s *Service) Texts(ctx context.Context, q store.Querier, orgID string, refs []string) (map[string]string, error) {
	return sharedTexts(ctx, q, orgID, refs)
}
