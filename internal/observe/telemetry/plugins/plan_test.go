package plugins_test

import (
	"regexp"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/plugins"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestQueryPlans: no query of the job scans a whole table.
func TestQueryPlans(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, q := t.Context(), storetest.Explainer{
			DB: db, T: t, Refuse: regexp.MustCompile(`^SCAN |Seq Scan on plugin`), Allow: regexp.MustCompile(`^SCAN json_each`),
		}
		for name, run := range map[string]func() error{
			"pending loads": func() error { _, err := plugins.LockPendingLoads(ctx, q, "a", 20); return err },
			"pending skill": func() error { _, _, err := plugins.LockPendingSkill(ctx, q, "a"); return err },
			"loads":         func() error { _, err := plugins.LoadsAfter(ctx, q, "a", "p", "", 20); return err },
			"skills":        func() error { _, err := plugins.SkillsOf(ctx, q, "a", "p", 500); return err },
		} {
			if err := run(); err != nil && !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
