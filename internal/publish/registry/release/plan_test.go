package release_test

import (
	"regexp"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
)

func TestQueryPlans(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		q := storetest.Explainer{DB: db, T: t, Refuse: regexp.MustCompile(`^SCAN |Seq Scan on registry_`)}
		if _, _, err := release.IDBefore(t.Context(), q, registry.Entry{OrgID: "a", ID: "b"}); err != nil && !fault.Is(err, fault.NotFound) {
			t.Error(err)
		}
	})
}
