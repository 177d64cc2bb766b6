package sets

import (
	"context"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// Named implements catalog.Sets: it returns the id of an organisation's set.
func (s *Service) Named(ctx context.Context, orgName, name string) (string, error) {
	org, err := auth.OrgNamed(ctx, s.DB, orgName)
	if err != nil {
		return "", err
	}
	all, err := setsAfter(ctx, s.DB, org.ID, Filter{Name: name}, nil, 1)
	if err == nil && len(all) == 0 {
		err = fault.New(fault.NotFound, "Set not found")
	}
	if err != nil {
		return "", err
	}
	return all[0].ID, nil
}

// Selection implements catalog.Sets: it returns what the sets of a shelf give together. Of an
// entry of several sets it is the newest version that any of them gives. A set that was deleted
// gives nothing.
func (s *Service) Selection(ctx context.Context, sh registry.Shelf) (only registry.Selection, err error) {
	defer fault.Wrap(&err, "selection of sets of %q", sh.OrgName)
	only = registry.Selection{}
	org, err := auth.OrgNamed(ctx, s.DB, sh.OrgName)
	if fault.Is(err, fault.NotFound) {
		return only, nil
	}
	if err != nil {
		return nil, err
	}
	ids := strings.Split(sh.Sets, ",")
	entries, err := entriesOf(ctx, s.DB, org.ID, ids)
	if err != nil || len(entries) == 0 {
		return only, err
	}
	picks, err := registry.PicksOf(ctx, s.DB, org.ID, entries)
	for _, w := range entries {
		pick, known := picks[w]
		if !known {
			continue
		}
		selected, there := only[w.EntryID]
		if !there || pick.VersionID != "" && (selected.VersionID == "" || registry.Newer(pick.Version, selected.Version)) {
			selected.Pick = pick
		}
		if !slices.Contains(selected.Ranges, w.Range) {
			selected.Ranges = append(selected.Ranges, w.Range)
		}
		only[w.EntryID] = selected
	}
	return only, err
}
