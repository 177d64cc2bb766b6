package resolve

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Explain runs the queries, for the test that looks at how the databases run them.
func Explain(ctx context.Context, q store.Querier, orgID string, items []Item) error {
	if _, err := versionsByHash(ctx, q, orgID, items); err != nil {
		return err
	}
	n := &names{ownOrg: orgID, byID: map[string]match{"c": {entryID: "c"}}, byName: map[[2]string]match{}, versions: map[[2]string]match{}}
	if _, err := orgIDs(ctx, q, []string{"b"}); err != nil {
		return err
	}
	if err := n.readEntries(ctx, q, []string{"c"}, [][2]string{{"b", "a"}}); err != nil {
		return err
	}
	return n.readVersions(ctx, q, items)
}
