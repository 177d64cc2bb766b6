package report

import (
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/stats"
)

// measure fills in what runs on the catalogue of the agent showed. Runs with and
// without truncation must differ in nothing else, so only pairs that were started
// together are compared.
func (s *Service) measure(ctx context.Context, orgID string, r *Report, since time.Time) error {
	pairs, err := catalogPairs(ctx, s.DB, orgID, r.Options, since, maxRuns)
	if err != nil || len(pairs) == 0 {
		return err
	}
	var ids []string
	for _, p := range pairs {
		ids = append(ids, p.FullID, p.CutID)
	}
	passed, err := recallOf(ctx, s.DB, ids)
	if err != nil {
		return err
	}
	m := Measured{}
	for _, p := range pairs {
		for id, cut := range passed[p.CutID] {
			// A case without a verdict in one of the runs proves nothing.
			whole, both := passed[p.FullID][id]
			if !both {
				continue
			}
			p.Cases++
			p.Right += count(whole)
			p.Cut += count(cut)
			m.Lost += count(whole && !cut)
			m.Won += count(cut && !whole)
		}
		if p.Cases == 0 {
			continue
		}
		m.Cases, m.Right, m.Cut = m.Cases+p.Cases, m.Right+p.Right, m.Cut+p.Cut
		m.Pairs = append(m.Pairs, p.RunPair)
		if !slices.Contains(m.Judges, p.judge) {
			m.Judges = append(m.Judges, p.judge)
		}
	}
	if m.Cases > 0 {
		slices.Sort(m.Judges)
		// The test for pairs: cases that are right, or wrong, in both do not count.
		m.P = stats.McNemar(m.Lost, m.Won)
		r.Routing.Measured = &m
	}
	return nil
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
