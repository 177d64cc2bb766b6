package clawhub_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/clawhub"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// TestQueryPlans wants an index for everything that a request reads.
func TestQueryPlans(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		q := storetest.Explainer{
			DB: db, T: t, Refuse: regexp.MustCompile(`^SCAN |Seq Scan on (registry_|organisations|clawhub_)`), Allow: regexp.MustCompile(`^SCAN json_each`),
		}
		ctx, ids, now := t.Context(), []string{"a", "b"}, time.Now()
		for name, run := range map[string]func() error{
			"publishers": func() error { return second(registry.OrgsOffering(ctx, q, "pdf", "acme", 10)) },
			"notes":      func() error { return second(registry.VersionsByID(ctx, q, ids)) },
			"versions":   func() error { return second(registry.PublishedBefore(ctx, q, "a", 1, "b", 10)) },
			"uploads":    func() error { return second(clawhub.UploadsByID(ctx, q, "a", "b", ids, now)) },
			"pending": func() error {
				_, _, err := clawhub.PendingUploads(ctx, q, "a", now)
				return err
			},
		} {
			if err := run(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }
