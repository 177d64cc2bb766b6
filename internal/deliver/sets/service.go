package sets

import (
	"context"
	"fmt"
	"slices"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/teams"
)

// Service keeps sets.
type Service struct {
	DB            *store.DB
	Teams         *teams.Service
	Installations *installations.Service
	Listings      Listings
}

// Listings says what agents list of versions. It is implemented above this package.
type Listings interface {
	ListingsOf(ctx context.Context, orgID string, versions [][]string) ([]api.SetCatalogue, error)
}

// Create makes a set. A name that is taken is fault.Conflict.
func (s *Service) Create(ctx context.Context, c access.Caller, n New) (set Set, err error) {
	defer fault.Wrap(&err, "create set %s", n.Name)
	now := store.Now()
	set = Set{ID: store.NewID(), OrgID: c.OrgID, CreatedBy: c.UserID, CreatedAt: now}
	if n.Owners == nil {
		set.Owners.Users = []string{c.UserID}
	}
	if err := s.fill(ctx, &set, n); err != nil {
		return set, err
	}
	set.UpdatedAt = now
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := insertSet(ctx, tx, set); err != nil {
			return err
		}
		return s.written(ctx, tx, &set, "sets.set.create", set.detail())
	})
	if err = set.explain(err); err != nil {
		return set, err
	}
	return set, s.pick(ctx, []*Set{&set})
}

// Replace gives a set what n describes. Who may do that is checked by MayChange.
func (s *Service) Replace(ctx context.Context, orgID, id string, n New) (set Set, err error) {
	defer fault.Wrap(&err, "replace set %s", id)
	if set, err = setByID(ctx, s.DB, orgID, id, ""); err != nil {
		return set, err
	}
	wanted := set
	if err := s.fill(ctx, &wanted, n); err != nil {
		return set, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		before, err := setByID(ctx, tx, orgID, id, tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		set = wanted
		if n.Owners == nil {
			set.Owners = before.Owners
		}
		set.CreatedAt, set.UpdatedAt = before.CreatedAt, store.Now()
		if err := updateSet(ctx, tx, set); err != nil {
			return err
		}
		d := set.detail()
		if before.Name != set.Name {
			d["from"] = before.Name
		}
		return s.written(ctx, tx, &set, "sets.set.change", d)
	})
	if err = set.explain(err); err != nil {
		return set, err
	}
	return set, s.pick(ctx, []*Set{&set})
}

// written writes the lists of a set whose row was written. Teams that were deleted since they
// were checked are left out.
func (s *Service) written(ctx context.Context, tx *store.Tx, set *Set, action string, d audit.Detail) (err error) {
	locked, err := s.Teams.LockTeams(ctx, tx, set.OrgID, slices.Concat(set.Teams, set.Owners.Teams))
	if err != nil {
		return err
	}
	gone := func(id string) bool { return !slices.Contains(locked, id) }
	set.Teams = slices.DeleteFunc(slices.Clone(set.Teams), gone)
	set.Owners.Teams = slices.DeleteFunc(slices.Clone(set.Owners.Teams), gone)
	if err := replaceLists(ctx, tx, *set); err != nil {
		return err
	}
	// The shelves of tokens that are bound to it have changed.
	if err := registry.CountRemoval(ctx, tx, set.OrgID); err != nil {
		return err
	}
	return audit.Record(ctx, tx, audit.Entry{OrgID: set.OrgID, Action: action, Target: set.target(), Detail: d})
}

func (s Set) detail() audit.Detail {
	ids := make([]string, len(s.Entries))
	for i, e := range s.Entries {
		ids[i] = e.EntryID
	}
	return audit.Detail{"entries": ids, "teams": s.Teams, "repositories": s.Repositories, "required": s.Required}
}

// explain turns a violation of the unique name into an error that names it.
func (s Set) explain(err error) error {
	if store.IsDuplicate(err) {
		return fault.New(fault.Conflict, "There is a set %s already; choose another name", s.Name).Because(err)
	}
	return err
}

// fill checks what n describes, and puts it into the set.
func (s *Service) fill(ctx context.Context, set *Set, n New) error {
	issues := n.check()
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	set.Name, set.Description, set.Repositories, set.Required = n.Name, n.Description, n.Repositories, n.Required
	set.Teams = slices.Compact(slices.Sorted(slices.Values(n.Teams)))
	entries, issues, err := s.entries(ctx, set.OrgID, n.Entries)
	if err != nil {
		return err
	}
	set.Entries = entries
	unknown, err := s.Teams.Unknown(ctx, set.OrgID, teams.Selection{Teams: n.Teams})
	if err != nil {
		return err
	}
	issues = append(issues, unknown...)
	if n.Owners != nil {
		if unknown, err = s.Teams.Unknown(ctx, set.OrgID, *n.Owners); err != nil {
			return err
		}
		for _, issue := range unknown {
			issue.Path = append([]string{"owners"}, issue.Path...)
			issues = append(issues, issue)
		}
		set.Owners.Users = slices.Compact(slices.Sorted(slices.Values(n.Owners.Users)))
		set.Owners.Teams = slices.Compact(slices.Sorted(slices.Values(n.Owners.Teams)))
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}

// entries looks up the entries that people named.
func (s *Service) entries(ctx context.Context, orgID string, all []NewEntry) (found []Entry, issues []fault.Issue, err error) {
	var names []string
	var wanted []registry.Wanted
	for _, e := range all {
		if e.Name != "" {
			names = append(names, e.Name)
		}
	}
	ids, err := registry.IDsByName(ctx, s.DB, orgID, names)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range all {
		if e.EntryID == "" {
			e.EntryID = ids[e.Name]
		}
		wanted = append(wanted, registry.Wanted{EntryID: e.EntryID, Range: e.Range})
	}
	picks, err := registry.PicksOf(ctx, s.DB, orgID, wanted)
	if err != nil {
		return nil, nil, err
	}
	first := map[string]int{}
	for i, w := range wanted {
		path := fmt.Sprintf("entries.%d", i)
		pick, known := picks[w]
		k, twice := first[w.EntryID]
		switch {
		case !known && all[i].Name != "":
			issues = append(issues, fault.At(path+".name", "%s.name must be the name of an entry of the organisation", path))
		case !known:
			path += ".entry_id"
			issues = append(issues, fault.At(path, "%s must be the id of an entry of the organisation", path))
		case twice:
			issues = append(issues, fault.At(path, "%s is the same entry as entries.%d", path, k))
		default:
			first[w.EntryID] = i
			found = append(found, Entry{w, pick})
		}
	}
	return found, issues, nil
}

// pick finds the versions that sets of one organisation give. Entries that were deleted are left
// out.
func (s *Service) pick(ctx context.Context, sets []*Set) error {
	var wanted []registry.Wanted
	for _, set := range sets {
		for _, e := range set.Entries {
			wanted = append(wanted, e.Wanted)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	picks, err := registry.PicksOf(ctx, s.DB, sets[0].OrgID, wanted)
	for _, set := range sets {
		set.Entries = slices.DeleteFunc(set.Entries, func(e Entry) bool { _, known := picks[e.Wanted]; return !known })
		for i := range set.Entries {
			set.Entries[i].Pick = picks[set.Entries[i].Wanted]
		}
	}
	return err
}

// Get returns a set of the organisation.
func (s *Service) Get(ctx context.Context, orgID, id string) (Set, error) {
	set, err := setByID(ctx, s.DB, orgID, id, "")
	if err != nil {
		return set, err
	}
	return set, s.pick(ctx, []*Set{&set})
}

// A Filter chooses sets.
type Filter struct {
	Name       string // the one of that name
	UserID     string // only those of the user's teams
	Repository string // only those that checkouts of it should have
	After      string // cursor: the name of the last one of the page before
	Limit      int
}

// List returns at most Limit sets by name, and whether there are more.
func (s *Service) List(ctx context.Context, orgID string, f Filter) (_ []Set, more bool, err error) {
	defer fault.Wrap(&err, "sets")
	var of []string // teams; nil for all
	if f.UserID != "" {
		if of, err = s.Teams.TeamsOf(ctx, orgID, f.UserID); err != nil || len(of) == 0 {
			return nil, false, err
		}
	}
	limit := f.Limit + 1
	if f.Repository != "" {
		limit = maxSets // patterns are matched here, not in SQL
	}
	all, err := setsAfter(ctx, s.DB, orgID, f, of, limit)
	if err != nil {
		return nil, false, err
	}
	if f.Repository != "" {
		all = slices.DeleteFunc(all, func(set Set) bool { return !set.Covers(f.Repository) })
	}
	if more = len(all) > f.Limit; more {
		all = all[:f.Limit]
	}
	pointers := make([]*Set, len(all))
	for i := range all {
		pointers[i] = &all[i]
	}
	if err := addLists(ctx, s.DB, pointers); err != nil {
		return nil, false, err
	}
	return all, more, s.pick(ctx, pointers)
}
