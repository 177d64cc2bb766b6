package grades

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Check compares the grades with the gradings that count.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	return invariants.Check(ctx, q, "grades", []invariants.Rule{
		{Broken: uncounted, Wrong: "grades that are not those that count", Do: invariants.Report},
		{Broken: lostFailures, Wrong: "failures of grades that are not there", Do: invariants.Report},
		{Broken: lostLabels, Wrong: "labels of failures that are not there", Do: invariants.Report},
	})
}

const (
	uncounted = `
		SELECT COUNT(*), COALESCE(MIN(g.id), '') FROM grades g LEFT JOIN skill_gradings c ON c.id = g.id
		WHERE c.id IS NULL OR c.pass_rate <> g.pass_rate OR COALESCE(c.basis, 'pushed') <> g.basis
		OR c.session_hash <> g.session_hash`

	lostFailures = `
		SELECT COUNT(*), COALESCE(MIN(f.grade_id), '') FROM grade_failures f
		WHERE NOT EXISTS (SELECT 1 FROM grades g WHERE g.id = f.grade_id)`

	lostLabels = `
		SELECT COUNT(*), COALESCE(MIN(l.grade_id), '') FROM grade_failure_labels l
		WHERE NOT EXISTS (SELECT 1 FROM grade_failures f WHERE f.grade_id = l.grade_id AND f.key = l.key)`
)
