package scim

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

type groupOutput struct {
	Schemas    []string       `json:"schemas"`
	ID         string         `json:"id"`
	ExternalID *string        `json:"externalId,omitempty"`
	Name       string         `json:"displayName"`
	Members    []memberOutput `json:"members,omitempty"`
	Meta       metaOutput     `json:"meta"`
}

type memberOutput struct {
	Value   string `json:"value"`
	Ref     string `json:"$ref"`
	Display string `json:"display"`
}

// outputs are groups with their members. Members are read with one query for all groups, and only
// if the provider wants them.
func (s *Service) outputs(r *http.Request, groups []Group) ([]any, error) {
	byID := map[string][]memberOutput{}
	if !withoutMembers(r) && len(groups) > 0 {
		ids := make([]string, len(groups))
		for i, g := range groups {
			ids[i] = g.ID
		}
		all, err := membersOf(r.Context(), s.DB, orgOf(r), ids)
		if err != nil {
			return nil, err
		}
		for _, m := range all {
			byID[m.groupID] = append(byID[m.groupID], memberOutput{m.id, s.URL() + "/Users/" + m.id, m.userName})
		}
	}
	out := make([]any, len(groups))
	for i, g := range groups {
		out[i] = groupOutput{
			[]string{groupSchema}, g.ID, g.ExternalID, g.Name, byID[g.ID], s.meta("Group", g.ID, g.CreatedAt, g.UpdatedAt),
		}
	}
	return out, nil
}

// listGroups answers a page with the total, so a page that was shortened isn't mistaken for the
// last one.
func (s *Service) listGroups(r *http.Request) (answer, error) {
	p, err := readPage(r)
	if err != nil {
		return answer{}, err
	}
	where, err := groupCondition(orgOf(r), p.filter)
	if err != nil {
		return answer{}, err
	}
	page := store.Page{Limit: p.count, Offset: p.start - 1}
	found, total, err := groupsWhere(where).Page(r.Context(), s.DB, page, where.args...)
	if err != nil {
		return answer{}, err
	}
	if !withoutMembers(r) {
		if found, err = s.shorten(r.Context(), found); err != nil {
			return answer{}, err
		}
	}
	resources, err := s.outputs(r, found)
	if err != nil {
		return answer{}, err
	}
	return list(r, total, p.start, resources), nil
}

// shorten keeps the first groups that have at most maxListed members together, and one at
// least. Providers ask for the rest with the next page.
func (s *Service) shorten(ctx context.Context, groups []Group) ([]Group, error) {
	if len(groups) < 2 {
		return groups, nil
	}
	ids := make([]string, len(groups))
	for i, g := range groups {
		ids[i] = g.ID
	}
	counts, err := memberCounts(ctx, s.DB, groups[0].OrgID, ids)
	if err != nil {
		return nil, err
	}
	sum := 0
	for i, g := range groups {
		if sum += counts[g.ID]; i > 0 && sum > maxListed {
			return groups[:i], nil
		}
	}
	return groups, nil
}

func (s *Service) getGroup(r *http.Request) (answer, error) {
	g, err := groupByID(r.Context(), s.DB, orgOf(r), r.PathValue("id"), "")
	if err != nil {
		return answer{}, err
	}
	return s.showGroup(r, http.StatusOK, g)
}

func (s *Service) showGroup(r *http.Request, status int, g Group) (answer, error) {
	out, err := s.outputs(r, []Group{g})
	if err != nil {
		return answer{}, err
	}
	return answer{status: status, body: project(r, out[0])}, nil
}

// groupInput is a group as a provider sends it. Attributes that aren't stored are ignored.
type groupInput struct {
	DisplayName string        `json:"displayName"`
	ExternalID  *string       `json:"externalId"`
	Members     []memberInput `json:"members"`
}

type memberInput struct {
	Value string `json:"value"`
	Type  string `json:"type"`
}

// A roster is a group that is being changed. It has the members as a set, so the operations of a
// patch can be applied one after the other.
type roster struct {
	Group
	members map[string]bool // by the id of the user
}

// replace is PUT: what isn't named goes, except the provider's id.
func (ro *roster) replace(in groupInput) error {
	ro.Name = in.DisplayName
	if in.ExternalID != nil {
		ro.ExternalID = in.ExternalID
	}
	ro.members = map[string]bool{}
	return ro.add(in.Members)
}

// add only collects ids. Whether they exist is checked in save, with one query for all.
func (ro *roster) add(all []memberInput) error {
	for _, m := range all {
		if strings.EqualFold(m.Type, "Group") {
			return refuse(invalidValue, "members must be users: groups in groups are not supported")
		}
		if m.Value == "" {
			return refuse(invalidValue, "members.value is required")
		}
		if err := checkText("members.value", m.Value); err != nil {
			return err
		}
		ro.members[m.Value] = true
	}
	if len(ro.members) > maxMembers {
		return refuse(invalidValue, "members must be at most %d", maxMembers)
	}
	return nil
}

// patch applies all operations or none: the caller's transaction ends with the first error.
func (ro *roster) patch(in patchInput) error {
	if err := in.check(); err != nil {
		return err
	}
	for _, o := range in.Operations {
		if err := o.each(ro.change); err != nil {
			return err
		}
	}
	return nil
}

// change applies one operation to one attribute. Unknown attributes are ignored, so that a
// provider's extensions don't make the whole patch fail.
func (ro *roster) change(op string, t target, value json.RawMessage) error {
	switch t.attribute {
	case "id", "meta", "schemas":
		return errReadOnly(t)
	case "displayname":
		return setText(&ro.Name, op, t, value)
	case "externalid":
		external := ""
		err := setText(&external, op, t, value)
		ro.ExternalID = &external
		return err
	case "members":
		return ro.changeMembers(op, t, value)
	}
	return nil // not kept here
}

// changeMembers knows both ways to remove a member: by a path with a filter, and by a list of
// values.
func (ro *roster) changeMembers(op string, t target, value json.RawMessage) error {
	if t.by != "" {
		if t.by != "value" || op != opRemove {
			return refuse(invalidPath, `A path to members must be members, or members[value eq "ID"] to remove one`)
		}
		delete(ro.members, t.is)
		return nil
	}
	var all []memberInput
	if len(value) > 0 {
		var err error
		if all, err = manyInto[memberInput](t, value); err != nil {
			return err
		}
	}
	switch {
	case op == opRemove && len(value) == 0, op == opReplace:
		ro.members = map[string]bool{}
	case op == opRemove:
		for _, m := range all {
			delete(ro.members, m.Value)
		}
		return nil
	}
	return ro.add(all)
}

// check validates the group as it would be after the change.
func (ro *roster) check() error {
	if ro.ExternalID != nil && *ro.ExternalID == "" {
		ro.ExternalID = nil
	}
	if strings.TrimSpace(ro.Name) == "" {
		return refuse(invalidValue, "displayName is required")
	}
	if err := checkText("displayName", ro.Name); err != nil {
		return err
	}
	if ro.ExternalID != nil {
		return checkText("externalId", *ro.ExternalID)
	}
	return nil
}

func (s *Service) createGroup(r *http.Request) (answer, error) {
	var in groupInput
	if err := readBody(r, &in); err != nil {
		return answer{}, err
	}
	ctx, now := r.Context(), store.Now()
	ro := roster{Group: Group{ID: store.NewID(), OrgID: orgOf(r), CreatedAt: now, UpdatedAt: now}}
	if err := cmp.Or(ro.replace(in), ro.check()); err != nil {
		return answer{}, err
	}
	// InTx of auth clears the cache of keys: roles may change with the members.
	err := s.Auth.InTx(ctx, func(tx *store.Tx) error {
		n, err := groupsWhere(condition{text: `org_id = $1`}).Count(ctx, tx, ro.OrgID)
		if err != nil {
			return err
		}
		if n >= maxGroups {
			return fault.New(fault.Conflict, "The organisation has %d groups, the maximum", n)
		}
		if err := insertGroup(ctx, tx, ro.Group); err != nil {
			return takenIfDuplicate(err, "A group with this displayName or externalId exists")
		}
		if _, err := ro.save(ctx, tx, nil); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: ro.OrgID, Action: "scim.group.create", Target: ro.target(), Detail: audit.Detail{"members": len(ro.members)},
		})
	})
	if err != nil {
		return answer{}, err
	}
	a, err := s.showGroup(r, http.StatusCreated, ro.Group)
	a.location = s.meta("Group", ro.ID, now, now).Location
	return a, err
}

func (s *Service) replaceGroup(r *http.Request) (answer, error) {
	var in groupInput
	if err := readBody(r, &in); err != nil {
		return answer{}, err
	}
	g, err := s.updateGroup(r, func(ro *roster) error { return ro.replace(in) })
	if err != nil {
		return answer{}, err
	}
	return s.showGroup(r, http.StatusOK, g)
}

// patchGroup answers without a body unless the provider asks for attributes: groups may
// have thousands of members.
func (s *Service) patchGroup(r *http.Request) (answer, error) {
	var in patchInput
	if err := readBody(r, &in); err != nil {
		return answer{}, err
	}
	g, err := s.updateGroup(r, func(ro *roster) error { return ro.patch(in) })
	if err != nil {
		return answer{}, err
	}
	if len(names(r, "attributes")) > 0 {
		return s.showGroup(r, http.StatusOK, g)
	}
	return answer{status: http.StatusNoContent}, nil
}

// updateGroup locks the group, applies a change and saves the difference. A push that changes
// nothing writes nothing, also not to the audit log: providers repeat their pushes.
func (s *Service) updateGroup(r *http.Request, change func(*roster) error) (g Group, err error) {
	ctx := r.Context()
	err = s.Auth.InTx(ctx, func(tx *store.Tx) error {
		if g, err = groupByID(ctx, tx, orgOf(r), r.PathValue("id"), tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		before, err := memberIDs(ctx, tx, g)
		if err != nil {
			return err
		}
		ro := roster{Group: g, members: map[string]bool{}}
		for _, id := range before {
			ro.members[id] = true
		}
		if err := cmp.Or(change(&ro), ro.check()); err != nil {
			return err
		}
		moved, err := ro.save(ctx, tx, before)
		if err != nil {
			return err
		}
		if moved == 0 && ro.Name == g.Name && ptr(ro.ExternalID) == ptr(g.ExternalID) {
			return nil
		}
		ro.UpdatedAt = store.Now()
		if err := updateGroup(ctx, tx, ro.Group); err != nil {
			return takenIfDuplicate(err, "A group with this displayName or externalId exists")
		}
		g = ro.Group
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: g.OrgID, Action: "scim.group.update", Target: g.target(),
			Detail: audit.Detail{"members": len(ro.members), "changed": moved},
		})
	})
	return g, err
}

func ptr(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// save writes the members of a group that is locked, gives those who came or left their
// roles, and returns how many they are.
func (ro *roster) save(ctx context.Context, tx *store.Tx, before []string) (moved int, err error) {
	was := map[string]bool{}
	var left []string
	for _, id := range before {
		if was[id] = true; !ro.members[id] {
			left = append(left, id)
		}
	}
	came := slices.DeleteFunc(slices.Sorted(maps.Keys(ro.members)), func(id string) bool { return was[id] })
	affected := slices.Concat(came, left)
	if len(affected) == 0 {
		return 0, nil
	}
	// Users are locked before their memberships change: of two groups that change at the
	// same time, the second sees what the first gave.
	known, err := lockUsersByID(ctx, tx, ro.OrgID, affected)
	if err != nil {
		return 0, err
	}
	for _, id := range came {
		if _, ok := slices.BinarySearch(known, id); !ok {
			return 0, refuse(invalidValue, "members: no user has the id %s", id)
		}
	}
	orgs, groups := make([]string, len(came)), make([]string, len(came))
	for i := range came {
		orgs[i], groups[i] = ro.OrgID, ro.ID
	}
	_, err = store.Bulk{Table: "scim_group_members", Columns: []store.Column{
		store.Col("org_id", orgs), store.Col("group_id", groups), store.Col("member_id", came),
	}}.Insert(ctx, tx)
	if err != nil {
		return 0, err
	}
	if err := removeMembers(ctx, tx, ro.Group, left); err != nil {
		return 0, err
	}
	// A group without a role changes nothing for its members.
	if ro.Role != nil {
		err = applyRoles(ctx, tx, ro.OrgID, affected)
	}
	return len(affected), err
}

// applyRoles gives users the highest role of their groups. Those whose last group with a
// role went become members again, unless they have less.
func applyRoles(ctx context.Context, tx *store.Tx, orgID string, ids []string) error {
	roles, err := rolesByGroups(ctx, tx, orgID, ids)
	if err != nil {
		return err
	}
	return auth.SetRoles(ctx, tx, orgID, slices.Sorted(maps.Keys(roles)), func(u auth.User) access.Role {
		role := highest(roles[u.ID])
		switch {
		case role != "":
			return role
		case u.Role.Includes(access.DefaultRole):
			return access.DefaultRole
		}
		return u.Role
	})
}

func (s *Service) deleteGroup(r *http.Request) (answer, error) {
	if err := httpapi.DrainBody(r); err != nil {
		return answer{}, err
	}
	ctx := r.Context()
	err := s.Auth.InTx(ctx, func(tx *store.Tx) error {
		g, err := groupByID(ctx, tx, orgOf(r), r.PathValue("id"), tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		// The rows of the members are locked before those of the group's memberships are deleted.
		members, err := lockMembers(ctx, tx, g)
		if err != nil {
			return err
		}
		// Its memberships go with it (ON DELETE CASCADE), so the roles are computed without them.
		if err := removeGroup(ctx, tx, g); err != nil {
			return err
		}
		if g.Role != nil {
			if err := applyRoles(ctx, tx, g.OrgID, members); err != nil {
				return err
			}
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: g.OrgID, Action: "scim.group.delete", Target: g.target(), Detail: audit.Detail{"members": len(members)},
		})
	})
	return answer{status: http.StatusNoContent}, err
}

// lockMembers locks the users of a group, in the order that save uses.
func lockMembers(ctx context.Context, tx *store.Tx, g Group) ([]string, error) {
	ids, err := memberIDs(ctx, tx, g)
	if err != nil {
		return nil, err
	}
	return lockUsersByID(ctx, tx, g.OrgID, ids)
}

// A ListedGroup is a group with the number of its members.
type ListedGroup struct {
	Group
	Members int
}

// Groups returns a page of an organisation's groups, and their number.
func (s *Service) Groups(ctx context.Context, orgID string, p store.Page) ([]ListedGroup, int, error) {
	found, total, err := groupsWhere(condition{text: `org_id = $1`}).Page(ctx, s.DB, p, orgID)
	if err != nil {
		return nil, 0, err
	}
	all, err := s.counted(ctx, orgID, found)
	return all, total, err
}

func (s *Service) counted(ctx context.Context, orgID string, groups []Group) ([]ListedGroup, error) {
	ids := make([]string, len(groups))
	for i, g := range groups {
		ids[i] = g.ID
	}
	counts, err := memberCounts(ctx, s.DB, orgID, ids)
	all := make([]ListedGroup, len(groups))
	for i, g := range groups {
		all[i] = ListedGroup{g, counts[g.ID]}
	}
	return all, err
}

// SetGroupRole lets a group give its members a role, or none if it is "". Only owners
// decide it. The members get it at once, in the same transaction.
func (s *Service) SetGroupRole(ctx context.Context, c access.Caller, id string, role access.Role) (_ ListedGroup, err error) {
	if !auth.MayGive(c, access.Owner) {
		return ListedGroup{}, fault.New(fault.Denied, "Only an owner can decide which role a group gives")
	}
	if role != "" && !role.Valid() {
		return ListedGroup{}, fault.Invalid("role", "role must be viewer, member, admin, owner or null")
	}
	var g Group
	err = s.Auth.InTx(ctx, func(tx *store.Tx) error {
		if g, err = groupByID(ctx, tx, c.OrgID, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		before := g.Role
		if g.Role = nil; role != "" {
			g.Role = &role
		}
		if before == nil && g.Role == nil || before != nil && *before == role {
			return nil
		}
		members, err := lockMembers(ctx, tx, g)
		if err != nil {
			return err
		}
		if err := updateGroup(ctx, tx, g); err != nil {
			return err
		}
		if err := applyRoles(ctx, tx, g.OrgID, members); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: g.OrgID, Action: "scim.group.set-role", Target: g.target(), Detail: audit.Detail{"from": before, "to": g.Role},
		})
	})
	if err != nil {
		return ListedGroup{}, err
	}
	all, err := s.counted(ctx, c.OrgID, []Group{g})
	return all[0], err
}
