package scim

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

type userOutput struct {
	Schemas    []string `json:"schemas"`
	ID         string   `json:"id"`
	ExternalID *string  `json:"externalId,omitempty"`
	UserName   string   `json:"userName"`
	profile
	Active bool       `json:"active"`
	Meta   metaOutput `json:"meta"`
}

// output shows a user as SCIM does: what the provider sent, plus the id and whether they are a
// member.
func (s *Service) output(u user) userOutput {
	return userOutput{
		[]string{userSchema}, u.ID, u.ExternalID, u.UserName, u.profile, u.Active, s.meta("User", u.ID, u.CreatedAt, u.UpdatedAt),
	}
}

func (s *Service) listUsers(r *http.Request) (answer, error) {
	p, err := readPage(r)
	if err != nil {
		return answer{}, err
	}
	where, err := userCondition(orgOf(r), p.filter)
	if err != nil {
		return answer{}, err
	}
	page := store.Page{Limit: p.count, Offset: p.start - 1}
	found, total, err := usersWhere(where).Page(r.Context(), s.DB, page, where.args...)
	if err != nil {
		return answer{}, err
	}
	resources := make([]any, len(found))
	for i, u := range found {
		resources[i] = s.output(u)
	}
	return list(r, total, p.start, resources), nil
}

func (s *Service) getUser(r *http.Request) (answer, error) {
	u, err := userByID(r.Context(), s.DB, orgOf(r), r.PathValue("id"), "")
	return answer{status: http.StatusOK, body: project(r, s.output(u))}, err
}

// createUser adds a person. A member who has the address is linked, not doubled.
func (s *Service) createUser(r *http.Request) (answer, error) {
	var in userInput
	if err := readBody(r, &in); err != nil {
		return answer{}, err
	}
	now := store.Now()
	u := user{ID: store.NewID(), OrgID: orgOf(r), CreatedAt: now, UpdatedAt: now, attributes: attributes{Active: true}}
	if err := u.replace(in); err != nil {
		return answer{}, err
	}
	// If it fails, the answer that was prepared is dropped with the error.
	err := s.Auth.InTx(r.Context(), func(tx *store.Tx) error { return s.createIn(r.Context(), tx, &u) })
	a := answer{status: http.StatusCreated, body: project(r, s.output(u)), location: s.meta("User", u.ID, now, now).Location}
	return a, err
}

// createIn inserts the row and makes the person a member, or ends the membership of whoever has
// their address: pushing an inactive person means that they must not be here.
func (s *Service) createIn(ctx context.Context, tx *store.Tx, u *user) error {
	n, err := usersWhere(condition{text: `org_id = $1`}).Count(ctx, tx, u.OrgID)
	if err != nil {
		return err
	}
	if n >= maxUsers {
		return fault.New(fault.Conflict, "The organisation has %d provisioned users, the maximum", n)
	}
	email, err := u.address()
	if err != nil {
		return err
	}
	// The row comes first: of two requests at once, one fails here.
	if err := insertUser(ctx, tx, *u, email); err != nil {
		return takenIfDuplicate(err, "A user with this userName or externalId exists")
	}
	if u.Active {
		if err := u.activate(ctx, tx, email); err != nil {
			return err
		}
	} else if err := s.deactivate(ctx, tx, u); err != nil {
		return err
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: u.OrgID, Action: "scim.user.create", Target: u.target(),
		Detail: audit.Detail{"user": u.UserID, "active": u.Active},
	})
}

func (s *Service) replaceUser(r *http.Request) (answer, error) {
	var in userInput
	if err := readBody(r, &in); err != nil {
		return answer{}, err
	}
	return s.updateUser(r, func(a *attributes) error { return a.replace(in) })
}

func (s *Service) patchUser(r *http.Request) (answer, error) {
	var in patchInput
	if err := readBody(r, &in); err != nil {
		return answer{}, err
	}
	return s.updateUser(r, func(a *attributes) error { return a.patch(in) })
}

// updateUser is PUT and PATCH. A push that changes nothing writes nothing.
func (s *Service) updateUser(r *http.Request, change func(*attributes) error) (answer, error) {
	ctx, id := r.Context(), r.PathValue("id")
	var u user
	err := s.Auth.InTx(ctx, func(tx *store.Tx) (err error) {
		if u, err = userByID(ctx, tx, orgOf(r), id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		before := u.attributes
		if err := change(&u.attributes); err != nil {
			return err
		}
		if !u.sameAs(before) {
			return s.save(ctx, tx, &u, before.Active)
		}
		if u.Active {
			return nil
		}
		return s.deactivate(ctx, tx, &u) // somebody may have joined with the address since
	})
	return answer{status: http.StatusOK, body: project(r, s.output(u))}, err
}

// save writes a changed user, and makes the member what the provider says. The four cases are who
// was a member and who will be one; a change of an inactive person deactivates once more, for
// addresses that are new.
func (s *Service) save(ctx context.Context, tx *store.Tx, u *user, wasActive bool) error {
	email, err := u.address()
	if err != nil {
		return err
	}
	u.UpdatedAt = store.Now()
	if err := updateUser(ctx, tx, *u, email); err != nil {
		return takenIfDuplicate(err, "A user with this userName or externalId exists")
	}
	switch {
	case wasActive && u.Active:
		member := auth.User{ID: *u.UserID, OrgID: u.OrgID, Email: email, Name: u.memberName()}
		err = takenIfConflict(auth.UpdateProfile(ctx, tx, member))
	case u.Active:
		err = u.activate(ctx, tx, email)
	default:
		err = s.deactivate(ctx, tx, u)
	}
	if err != nil {
		return err
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: u.OrgID, Action: "scim.user.update", Target: u.target(),
		Detail: audit.Detail{"user": u.UserID, "active": u.Active},
	})
}

// activate makes the person a member: the one who has the address already, else the
// user that they were before, else a new one. Their role is that of their groups. Without one, an
// existing member keeps the role that they have.
func (u *user) activate(ctx context.Context, tx *store.Tx, email string) error {
	role, err := roleByGroups(ctx, tx, u.OrgID, u.ID)
	if err != nil {
		return err
	}
	member, err := auth.MemberByAddress(ctx, tx, u.OrgID, email)
	if err == nil {
		if err := u.link(ctx, tx, member); err != nil {
			return err
		}
		member.Name = u.memberName()
		if err := auth.UpdateProfile(ctx, tx, member); err != nil || role == "" {
			return err
		}
		return auth.SetRoles(ctx, tx, u.OrgID, []string{member.ID}, func(auth.User) access.Role { return role })
	}
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	role = cmp.Or(role, access.DefaultRole)
	if u.UserID != nil {
		return takenIfConflict(auth.Reinstate(ctx, tx, auth.User{
			ID: *u.UserID, OrgID: u.OrgID, Email: email, Name: u.memberName(), Role: role,
		}))
	}
	member, err = auth.Provision(ctx, tx, auth.NewUser{OrgID: u.OrgID, Email: email, Name: u.memberName(), Role: role})
	if err != nil {
		return takenIfConflict(err)
	}
	return u.link(ctx, tx, member)
}

// deactivate ends the membership of a user, and of whoever has become a member with one of
// their addresses. Those were members before the provider knew them, or came back by
// another way. Removing by address closes the way around a deactivation: joining again by an
// invitation or with another provider.
func (s *Service) deactivate(ctx context.Context, tx *store.Tx, u *user) error {
	addresses := []string{key(u.UserName)}
	for _, e := range u.Emails {
		addresses = append(addresses, key(e.Value))
	}
	if u.UserID != nil {
		if err := s.remove(ctx, tx, u.OrgID, *u.UserID); err != nil {
			return err
		}
		former, err := formerAddress(ctx, tx, u.OrgID, *u.UserID)
		if err != nil {
			return err
		}
		addresses = append(addresses, former)
	}
	members, err := auth.MembersAtAddresses(ctx, tx, u.OrgID, slices.DeleteFunc(addresses, auth.IsMachineAddress))
	if err != nil {
		return err
	}
	for _, id := range members {
		// A person who was never active here becomes linked to the member that was removed, so that
		// they can be reinstated.
		if u.UserID == nil {
			if err := u.link(ctx, tx, auth.User{ID: id}); err != nil {
				return err
			}
		}
		if err := s.remove(ctx, tx, u.OrgID, id); err != nil {
			return err
		}
	}
	return nil
}

// link makes a member the person's user. Accounts at providers move along, so the person signs in
// as the same member.
func (u *user) link(ctx context.Context, tx *store.Tx, member auth.User) error {
	former := u.UserID
	u.UserID = &member.ID
	err := linkUser(ctx, tx, *u)
	if err == nil && former != nil {
		err = moveIdentities(ctx, tx, u.OrgID, *former, member.ID)
	}
	return takenIfDuplicate(err, "The address "+member.Email+" belongs to another user")
}

// remove ends the membership. Somebody who was removed meanwhile is no error.
func (s *Service) remove(ctx context.Context, tx *store.Tx, orgID, userID string) error {
	_, err := s.Auth.Deprovision(ctx, tx, orgID, userID)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// deleteUser forgets a person, and ends the membership. Unlike a deactivated one, a deleted person
// can come back as a stranger.
func (s *Service) deleteUser(r *http.Request) (answer, error) {
	if err := httpapi.DrainBody(r); err != nil {
		return answer{}, err
	}
	ctx := r.Context()
	err := s.Auth.InTx(ctx, func(tx *store.Tx) error {
		u, err := userByID(ctx, tx, orgOf(r), r.PathValue("id"), tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		// Before the member is locked, as in all changes of groups.
		if err := deleteUser(ctx, tx, u); err != nil {
			return err
		}
		if err := s.deactivate(ctx, tx, &u); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: u.OrgID, Action: "scim.user.delete", Target: u.target(), Detail: audit.Detail{"user": u.UserID},
		})
	})
	return answer{status: http.StatusNoContent}, err
}

// takenIfDuplicate names the violation of a unique constraint.
func takenIfDuplicate(err error, message string) error {
	if store.IsDuplicate(err) {
		return taken("%s", message)
	}
	return err
}

// takenIfConflict is for an address that another member has.
func takenIfConflict(err error) error {
	if fault.Is(err, fault.Conflict) {
		return taken("%s", messageOf(err))
	}
	return err
}

func (p profile) encode() string {
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err) // made of text and booleans
	}
	return string(raw)
}

// highest returns the highest of some roles; "" if there is none. Roles are totally ordered by what
// they include.
func highest(roles []access.Role) access.Role {
	if len(roles) == 0 {
		return ""
	}
	return slices.MaxFunc(roles, func(a, b access.Role) int {
		if a.Includes(b) {
			return 1
		}
		return -1
	})
}
