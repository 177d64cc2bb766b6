package auth

import (
	"cmp"
	"context"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// InTx runs a change of members, together with what another package keeps about them,
// in one transaction. Keys are looked up anew afterwards. Callers that change members in a
// transaction of their own must come through here, or cached keys would keep old roles.
func (s *Service) InTx(ctx context.Context, fn func(tx *store.Tx) error) error {
	err := s.DB.InTx(ctx, fn)
	s.keys.Clear()
	return err
}

// IsMachineAddress reports whether the holder of machines' keys of a role, or that of
// trusted publishers, has the address, or would have it.
func IsMachineAddress(email string) bool {
	role, ok := strings.CutSuffix(email, "@localhost")
	return email == publisherEmail || ok && access.Role(role).Valid()
}

// MemberByAddress finds a member, not one who was removed.
func MemberByAddress(ctx context.Context, tx *store.Tx, orgID, email string) (User, error) {
	return userByEmail(ctx, tx, orgID, email)
}

// Provision adds a person without a key. An address that a member has is
// fault.Conflict.
func Provision(ctx context.Context, tx *store.Tx, n NewUser) (User, error) {
	if err := n.normalise(); err != nil {
		return User{}, err
	}
	return insertNewUser(ctx, tx, n)
}

// Deprovision is Remove for an identity provider. The last owner stays. It differs from Remove in
// that nobody's permission is asked: the provider's token stands for the organisation.
func (s *Service) Deprovision(ctx context.Context, tx *store.Tx, orgID, userID string) (User, error) {
	return s.removeIn(ctx, tx, nil, orgID, Removal{UserID: userID})
}

// Reinstate makes a removed person a member again: the same user, with what they made,
// but without their keys and sessions. The address, name and role are those of u. An
// address that a member has is fault.Conflict. Old keys stay revoked: they may be on machines that
// were returned.
func Reinstate(ctx context.Context, tx *store.Tx, u User) error {
	n := NewUser{Email: u.Email, Name: u.Name, Role: u.Role}
	if err := n.normalise(); err != nil {
		return err
	}
	u.Email, u.Name = n.Email, n.Name
	found, err := reinstateUser(ctx, tx, u)
	if err != nil {
		return conflictIfDuplicate(err, "A user with the address %s exists in this organisation", u.Email)
	}
	if !found {
		return fault.New(fault.NotFound, "Member not found")
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: u.OrgID, Action: "auth.user.reinstate", Target: u.target(), Detail: audit.Detail{"role": u.Role},
	})
}

// UpdateProfile changes the address and, unless it is empty, the name of a member. An
// address that another one has is fault.Conflict.
func UpdateProfile(ctx context.Context, tx *store.Tx, u User) error {
	before, err := userByID(ctx, tx, u.OrgID, u.ID)
	if err != nil {
		return err
	}
	n := NewUser{Email: u.Email, Name: cmp.Or(u.Name, before.Name), Role: before.Role}
	if err := n.normalise(); err != nil || before.Email == n.Email && before.Name == n.Name {
		return err
	}
	after := before
	after.Email, after.Name = n.Email, n.Name
	if err := updateProfile(ctx, tx, after); err != nil {
		return conflictIfDuplicate(err, "A user with the address %s exists in this organisation", n.Email)
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: u.OrgID, Action: "auth.user.update", Target: after.target(),
		Detail: audit.Detail{"from": before.Email, "name": after.Name},
	})
}

// SetRoles gives members the roles that choose returns for them. Those who were removed
// are left out, and the last owner stays one. All are changed in one statement, since a provider
// may push thousands at once.
func SetRoles(ctx context.Context, tx *store.Tx, orgID string, userIDs []string, choose func(User) access.Role) error {
	users, err := lockOwnersAnd(ctx, tx, orgID, userIDs)
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, id := range userIDs {
		wanted[id] = true
	}
	var given, changes []roleChange
	var former User // an owner who will not be one
	owners := 0
	// Owners are counted over all locked users: several changes together may take the last one
	// away.
	for _, u := range users {
		role := u.Role
		if wanted[u.ID] {
			role = choose(u)
			given = append(given, roleChange{u, role})
		}
		if role == access.Owner {
			owners++
		} else if u.Role == access.Owner {
			former = u
		}
		if role != u.Role {
			changes = append(changes, roleChange{u, role})
		}
	}
	if owners == 0 && former.ID != "" {
		return fault.New(fault.Conflict, "%s is the only owner; make another person owner first", former.Email)
	}
	if len(given) == 0 {
		return nil
	}
	// Also roles that stay the same are written, see setRole.
	if err := updateRoles(ctx, tx, given); err != nil { // also equal ones: no sign-in lowers them now
		return err
	}
	for _, c := range changes {
		if err := audit.Record(ctx, tx, audit.Entry{
			OrgID: c.OrgID, Action: "auth.user.set-role", Target: c.target(), Detail: audit.Detail{"from": c.Role, "to": c.to},
		}); err != nil {
			return err
		}
	}
	return nil
}

// A roleChange is a user with the role of before, and the new one.
type roleChange struct {
	User
	to access.Role
}
