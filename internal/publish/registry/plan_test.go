package registry_test

import (
	"regexp"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

var (
	// fullScan is how the databases call reading a whole table.
	fullScan = regexp.MustCompile(`^SCAN |Seq Scan on registry_`)
	// wantedScan is a scan of a list in a parameter, of another query's rows, or
	// of an index that has only the rows that are asked for.
	wantedScan = regexp.MustCompile(`^SCAN (json_each|shelf|\(subquery|e USING (COVERING )?INDEX registry_entries_public)`)
)

func TestQueryPlans(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, q := t.Context(), storetest.Explainer{DB: db, T: t, Refuse: fullScan, Allow: wantedScan}
		page := registry.Filter{Page: store.Page{Limit: 10}}
		ids, entry := []string{"a", "b"}, registry.Entry{OrgID: "a", ID: "b"}
		contents := []registry.Content{{EntryID: "a", Hash: "x"}, {EntryID: "b", Hash: "y"}}
		for name, run := range map[string]func() error{
			"list": func() error {
				_, _, err := registry.ListEntries(ctx, q, "e.org_id = $1", "a", page)
				return err
			},
			"public list": func() error {
				_, _, err := registry.ListEntries(ctx, q, "e.visibility = 'public' AND e.org_id <> $1", "", page)
				return err
			},
			"versions":  func() error { return second(registry.VersionsAfter(ctx, q, entry, true, nil, 10)) },
			"manifests": func() error { return second(registry.ManifestTexts(ctx, q, ids)) },
			"before": func() error {
				return second(registry.VersionBefore(ctx, q, registry.Version{OrgID: "a", EntryID: "b"}))
			},
			"lineage":       func() error { return second(registry.LineagesOfSkills(ctx, q, "a", ids)) },
			"rollbacks":     func() error { return second(registry.RollbacksOfEntry(ctx, q, entry)) },
			"alive objects": func() error { return second(registry.ReferredKeys(ctx, q, ids)) },
			"sync, latest":  func() error { return second(registry.LatestVersions(ctx, q, "a", ids)) },
			"sync, known":   func() error { return second(registry.KnownVersions(ctx, q, contents)) },
			"sync, since":   func() error { return second(registry.CurrentSince(ctx, q, ids)) },
			"index": func() error {
				return registry.EachOnShelf(ctx, q, registry.Shelf{}, 10, nil)
			},
			"skill of the index": func() error {
				return second(registry.SkillsNamed(ctx, q, registry.Shelf{}, "pdf"))
			},
			"index of an organisation": func() error {
				return registry.EachOnShelf(ctx, q, registry.Shelf{OrgName: "acme", Private: true}, 10, nil)
			},
		} {
			if err := run(); err != nil && !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }
