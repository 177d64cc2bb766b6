package teams

import (
	"context"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// Service manages teams and the owners of entries.
type Service struct {
	DB       *store.DB
	Auth     *auth.Service
	Registry *registry.Service
}

// Create makes an empty team in the caller's organisation. Slugs are unique in an
// organisation, since CODEOWNERS files refer to teams by them: a name whose slug is taken
// is fault.Conflict.
func (s *Service) Create(ctx context.Context, c access.Caller, name, description string) (t Team, err error) {
	now := store.Now()
	t = Team{
		ID: store.NewID(), OrgID: c.OrgID, Name: name, Description: description, CreatedBy: c.UserID, CreatedAt: now,
		UpdatedAt: now,
	}
	if err := t.check(); err != nil {
		return t, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		n, err := listed.Count(ctx, tx, c.OrgID)
		if err != nil {
			return err
		}
		if n >= maxTeams {
			return fault.New(fault.Conflict, "The organisation has %d teams, the maximum; delete some first", n)
		}
		if err := insertTeam(ctx, tx, t); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{OrgID: t.OrgID, Action: "teams.team.create", Target: t.target()})
	})
	return t, t.explain(err)
}

// explain turns a violation of the unique slug into an error that names it. The unique
// index decides, not a query before the insert, which two requests could both pass.
func (t *Team) explain(err error) error {
	if store.IsDuplicate(err) {
		return fault.New(fault.Conflict, "There is a team %s already; choose another name", t.Slug).Because(err)
	}
	return err
}

// List returns a page of an organisation's teams, by slug, and how many there are.
func (s *Service) List(ctx context.Context, orgID string, p store.Page) ([]Team, int, error) {
	return listed.Page(ctx, s.DB, p, orgID)
}

// Get returns a team of an organisation and its members, by address.
func (s *Service) Get(ctx context.Context, orgID, id string) (Team, []Person, error) {
	t, err := teamByID(ctx, s.DB, orgID, id, "")
	if err != nil {
		return t, nil, err
	}
	members, err := membersOf(ctx, s.DB, orgID, []string{id})
	return t, members, err
}

// A Change is a partial update; nil leaves a field unchanged.
type Change struct {
	Name, Description *string
}

// Update changes the name or description of a team. A new name changes the slug, and with
// it which CODEOWNERS lines refer to the team.
func (s *Service) Update(ctx context.Context, orgID, id string, c Change) (t Team, err error) {
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if t, err = teamByID(ctx, tx, orgID, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		before := t
		if c.Name != nil {
			t.Name = *c.Name
		}
		if c.Description != nil {
			t.Description = *c.Description
		}
		if err := t.check(); err != nil {
			return err
		}
		t.UpdatedAt = store.Now()
		if err := updateTeam(ctx, tx, t); err != nil {
			return err
		}
		d := audit.Detail{}
		if t.Name != before.Name {
			d["from"] = before.Name
		}
		if t.Description != before.Description {
			d["description"] = t.Description
		}
		return audit.Record(ctx, tx, audit.Entry{OrgID: orgID, Action: "teams.team.change", Target: t.target(), Detail: d})
	})
	return t, t.explain(err)
}

// Delete removes a team and its ownerships. An entry that it owned alone falls back to
// its CODEOWNERS file, or has no owners.
func (s *Service) Delete(ctx context.Context, orgID, id string) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		t, err := teamByID(ctx, tx, orgID, id, tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		// Only for the audit log: the rows themselves go by cascade.
		owned, err := countOwned(ctx, tx, t)
		if err != nil {
			return err
		}
		if err := deleteTeam(ctx, tx, t); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: orgID, Action: "teams.team.delete", Target: t.target(),
			Detail: audit.Detail{"members": t.Size, "owned": owned},
		})
	})
}

// SetMembers replaces the members of a team and returns the new ones. Ids that aren't
// members of the organisation are fault.Invalid.
func (s *Service) SetMembers(ctx context.Context, orgID, id string, users []string) (Team, []Person, error) {
	if len(users) > MaxMembers {
		return Team{}, nil, fault.Invalid("users", "users must have at most %d ids", MaxMembers)
	}
	return s.changeMembers(ctx, orgID, id, users, func([]string) []string { return users })
}

// AddMembers adds members to a team. Adding one who is already in it is not an error.
func (s *Service) AddMembers(ctx context.Context, orgID, id string, users ...string) (Team, []Person, error) {
	return s.changeMembers(ctx, orgID, id, users, func(now []string) []string { return append(now, users...) })
}

// RemoveMember takes a member out of a team; someone who isn't in it is fault.NotFound.
func (s *Service) RemoveMember(ctx context.Context, orgID, id, userID string) error {
	found := false
	// change may run again if the transaction is retried, so it computes found anew.
	_, _, err := s.changeMembers(ctx, orgID, id, nil, func(now []string) []string {
		left := slices.DeleteFunc(slices.Clone(now), func(m string) bool { return m == userID })
		found = len(left) < len(now)
		return left
	})
	if err == nil && !found {
		return fault.New(fault.NotFound, "Member not found")
	}
	return err
}

// changeMembers locks the team and gives it the members that change returns for the
// present ones. Only the ids in added are checked: members who left the organisation
// since they joined the team must not make every later change fail.
func (s *Service) changeMembers(
	ctx context.Context, orgID, id string, added []string, change func(now []string) []string,
) (t Team, people []Person, err error) {
	// Before anything else, so that an unknown team is NotFound even if the ids are wrong
	// too.
	if _, err := teamByID(ctx, s.DB, orgID, id, ""); err != nil {
		return t, nil, err
	}
	known, err := s.people(ctx, orgID)
	if err != nil {
		return t, nil, err
	}
	if issues := unknownUsers(known, added); len(issues) > 0 {
		return t, nil, fault.Issues(issues...)
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if t, err = teamByID(ctx, tx, orgID, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		present, err := membersOf(ctx, tx, orgID, []string{id})
		if err != nil {
			return err
		}
		before := ids(present)
		after := slices.Compact(slices.Sorted(slices.Values(change(slices.Clone(before)))))
		slices.Sort(before)
		if people = pick(known, after); slices.Equal(before, after) {
			return nil
		}
		if len(after) > MaxMembers {
			return fault.New(fault.Conflict, "The team has %d members, the maximum", MaxMembers)
		}
		t.Size, t.UpdatedAt = len(after), store.Now()
		if err := replaceMembers(ctx, tx, t, after); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: orgID, Action: "teams.team.members", Target: t.target(),
			Detail: audit.Detail{"added": without(after, before), "removed": without(before, after)},
		})
	})
	return t, people, err
}

// people returns the members of an organisation who can be in a team, by id: no removed
// users, no machines.
func (s *Service) people(ctx context.Context, orgID string) (map[string]Person, error) {
	users, err := s.Auth.Users(ctx, orgID)
	all := make(map[string]Person, len(users))
	for _, u := range users {
		if u.RemovedAt == nil && !u.Machine() {
			all[u.ID] = Person{u.ID, u.Name, u.Email}
		}
	}
	return all, err
}

// unknownUsers returns an issue for each wanted id that isn't a person of the
// organisation.
func unknownUsers(known map[string]Person, wanted []string) (issues []fault.Issue) {
	for i, id := range wanted {
		if _, ok := known[id]; !ok {
			issues = append(issues, fault.At(at("users", i),
				"users must be ids of members of the organisation who are people; %s is not", quote(id)))
		}
	}
	return issues
}

// pick keeps the known people among the wanted ids, sorted by address.
func pick(known map[string]Person, wanted []string) []Person {
	all := make([]Person, 0, len(wanted))
	for _, id := range wanted {
		if p, ok := known[id]; ok {
			all = append(all, p)
		}
	}
	sortPeople(all)
	return all
}

// sortPeople sorts by address, then by id for a stable order.
func sortPeople(all []Person) {
	slices.SortFunc(all, func(a, b Person) int { return strings.Compare(a.Email+a.ID, b.Email+b.ID) })
}

// ids returns the people's ids, in their order.
func ids(people []Person) []string {
	all := make([]string, len(people))
	for i, p := range people {
		all[i] = p.ID
	}
	return all
}

// without returns the elements of all that aren't in others.
func without(all, others []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(id string) bool { return slices.Contains(others, id) })
}
