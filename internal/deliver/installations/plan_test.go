package installations_test

import (
	"regexp"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

func TestQueryPlans(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		q := storetest.Explainer{
			DB: db, T: t, Refuse: regexp.MustCompile(`^SCAN |Seq Scan on (registry|installation)_`), Allow: regexp.MustCompile(`^SCAN json_each`),
		}
		if _, err := installations.InstallationsOfEntry(t.Context(), q, "a", "b"); err != nil {
			t.Error(err)
		}
		if _, err := installations.InstallationsOfUser(t.Context(), q, access.Caller{OrgID: "a", UserID: "b"}); err != nil {
			t.Error(err)
		}
		if _, err := new(installations.Service).ForwardOnly(t.Context(), q, "a"); err != nil {
			t.Error(err)
		}
		if _, _, err := new(installations.Service).Holding(t.Context(), q, "a", "b", "c", 10); err != nil {
			t.Error(err)
		}
		if _, err := installations.RecordsOfUser(t.Context(), q, "a"); err != nil {
			t.Error(err)
		}
		if _, err := installations.RecordedHashes(t.Context(), q, "a", []string{"b", "c"}); err != nil {
			t.Error(err)
		}
		if _, err := installations.LastChanges(t.Context(), q, "a", []string{"b", "c"}); err != nil {
			t.Error(err)
		}
		if _, err := (installations.History{}).Installed(t.Context(), q, "a", []string{"b", "c"}, []string{"d", "e"}); err != nil {
			t.Error(err)
		}
	})
}
