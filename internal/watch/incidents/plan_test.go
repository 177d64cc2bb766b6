package incidents_test

import (
	"regexp"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/watch/incidents"
)

func TestQueryPlans(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		q := storetest.Explainer{
			DB: db, T: t, Refuse: regexp.MustCompile(`^SCAN |Seq Scan on incidents`),
			Allow: regexp.MustCompile(`^SCAN incidents USING (COVERING )?INDEX incidents_unfinished`), // which has only the rows that are asked for
		}
		open := incidents.Filter{State: "open", Page: store.Page{Limit: 10}}
		if _, _, err := incidents.ListIncidents(t.Context(), q, "a", open); err != nil {
			t.Error(err)
		}
		if _, err := incidents.Unfinished(t.Context(), q); err != nil {
			t.Error(err)
		}
		if _, err := incidents.OwnIncident(t.Context(), q, "a", "b"); !fault.Is(err, fault.NotFound) {
			t.Error(err)
		}
	})
}
