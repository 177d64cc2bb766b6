package grades_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/observe/grades"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestQueryPlans: no query scans a whole table.
func TestQueryPlans(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		fill(t, db)
		ctx, now, q := t.Context(), time.Now(), storetest.Explainer{
			DB: db, T: t, Refuse: regexp.MustCompile(`^SCAN (grade|skill|agent)|Seq Scan on (grade|skill_|agent)`),
			Allow: regexp.MustCompile(`^SCAN json_each`),
		}
		ids, groups := []string{"a", "b"}, []grades.Group{{Key: "k"}}
		for name, run := range map[string]func() error{
			"graders":     func() error { return second(grades.GradersOf(ctx, q, "org-1", ids)) },
			"has grader":  func() error { return second(grades.HasGrader(ctx, q, "org-1")) },
			"due":         func() error { return second(grades.OrgsWithDue(ctx, q, now.AddDate(-50, 0, 0))) },
			"waiting":     func() error { return second(grades.CountWaiting(ctx, q, "org-1", now.AddDate(-50, 0, 0), 1000)) },
			"due skills":  func() error { return second(grades.SkillsWithDue(ctx, q, "org-1", now.AddDate(-50, 0, 0))) },
			"due session": func() error { return second(grades.DueSessions(ctx, q, "org-1", "skill-1", now, 10)) },
			"graded at":   func() error { return second(grades.GradedAt(ctx, q, "a")) },
			"evidence":    func() error { return second(grades.EvidenceOf(ctx, q, "a")) },
			"failures":    func() error { return second(grades.FailureGroups(ctx, q, "skill-1", now)) },
			"labels":      func() error { return second(grades.LabelsOf(ctx, q, "skill-1", groups)) },
			"newest":      func() error { return second(grades.NewestFailures(ctx, q, "skill-1", now, groups)) },
			"examples":    func() error { return second(grades.FailureExamples(ctx, q, "skill-1", now, groups)) },
			"session": func() error {
				_, _, err := grades.GradesOfSession(ctx, q, "s-1")
				return err
			},
			"agreement": func() error { return second(grades.VerdictPairs(ctx, q, "skill-1")) },
			"unusable":  func() error { return second(grades.CountUnusable(ctx, q, "org-1", "skill-1")) },
		} {
			if err := run(); err != nil && !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

// fill makes the tables large enough for the planner to prefer an index.
func fill(t *testing.T, db *store.DB) {
	t.Helper()
	err := db.InTx(t.Context(), func(tx *store.Tx) error {
		for i := range 1000 {
			for _, statement := range []string{
				`INSERT INTO grades (id, org_id, user_id, session_hash, skill_id, basis, pass_rate, passed, evidence, graded_at)
					VALUES ($1, 'org-' || $2, 'u', 's-' || $1, 'skill-' || $2, 'judge', 0, FALSE, '[]', 1)`,
				`INSERT INTO grade_failures (grade_id, key, label, skill_id, basis, session_key, session_hash, failed_at)
					VALUES ($1, 'k', 'l', 'skill-' || $2, 'judge', $1, 's-' || $1, 1)`,
				`INSERT INTO grade_queue (session_hash, skill_id, org_id, user_id, rank, attempts, queued_at, due_at)
					VALUES ('s-' || $1, 'skill-' || $2, 'org-' || $2, 'u', $1, 0, 1, 1)`,
				`INSERT INTO grade_failure_labels (skill_id, key, grade_id, labelled_at) VALUES ('skill-' || $2, $1, $1, 1)`,
				`INSERT INTO graders (org_id, skill_id, enabled, expectations, threshold, updated_at)
					VALUES ('org-' || $2, $1, FALSE, '[]', 1, 1)`,
				`INSERT INTO skill_session_grades (session_key, day, pass_rate) VALUES ($1 || $2, 1, 1)`,
			} {
				if _, err := tx.Exec(t.Context(), statement, fmt.Sprint(i), fmt.Sprint(i%100)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `ANALYZE`); err != nil {
		t.Fatal(err)
	}
}
