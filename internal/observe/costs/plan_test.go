package costs_test

import (
	"regexp"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestQueryPlans: no query of the API or of Ingest scans a whole table.
func TestQueryPlans(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, q := t.Context(), storetest.Explainer{
			DB: db, T: t, Refuse: regexp.MustCompile(`^SCAN |Seq Scan on (cost|skill)`),
			Allow: regexp.MustCompile(`^SCAN json_each`),
		}
		ids := []string{"a", "b"}
		for name, run := range map[string]func() error{
			"requests":              func() error { return second(costs.RequestsByID(ctx, q, ids)) },
			"requests after a mark": func() error { return second(costs.RequestsAfterMarks(ctx, q, costs.Marks("s", 1, 2))) },
			"last marks":            func() error { return second(costs.LastMarks(ctx, q, costs.Moments("s", 1, 2))) },
			"requests of sessions":  func() error { return second(costs.RequestsOfSessions(ctx, q, ids)) },
			"groups":                func() error { return second(costs.GroupsByKey(ctx, q, ids)) },
			"first requests":        func() error { return second(costs.FirstRequests(ctx, q, costs.Groups(ids...))) },
			"to reprice":            func() error { _, _, err := costs.PricedAfter(ctx, q, "o", "a", 10); return err },
			"of a skill":            func() error { _, _, err := costs.RequestsOfSkill(ctx, q, "o", "s", "a", 10); return err },
			"prices":                func() error { return second(costs.PricesByOrg(ctx, q, "o")) },
			"days":                  func() error { return second(costs.DaySums(ctx, q, ids, 1)) },
			"days of all skills":    func() error { return second(costs.SkillSums(ctx, q, "o", 1)) },
			"histograms":            func() error { return second(costs.HistogramsOf(ctx, q, ids, 1)) },
			"models":                func() error { return second(costs.ModelsByUse(ctx, q, "o", 1)) },
		} {
			if err := run(); err != nil && !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }
