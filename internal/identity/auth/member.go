package auth

import (
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// MayGive reports whether the caller may give others a role, which needs all of
// its permissions. The pages ask it to offer only roles that will be accepted.
func MayGive(c access.Caller, role access.Role) bool {
	return c.May(access.Admin) && checkMayGive(c, role.Permissions()) == nil
}

// checkMayGive prevents privilege escalation: it refuses permissions that the
// caller does not have. All roles are sets of permissions, so this also covers roles.
func checkMayGive(c access.Caller, permissions []access.Permission) error {
	for _, p := range permissions {
		if !c.May(p) {
			return fault.New(fault.Denied, "You do not have the permission %s and cannot give it", p)
		}
	}
	return nil
}

// SetRole changes the role of a member of the caller's organisation, who may be the
// caller. Only owners make and unmake owners, and the last owner stays one. Other
// replicas may use the old role for keyCacheTTL.
func (s *Service) SetRole(ctx context.Context, c access.Caller, userID string, role access.Role) (User, error) {
	return s.setRole(ctx, &c, User{ID: userID, OrgID: c.OrgID, Role: role})
}

// SetRoleByOperator is SetRole for the operator, who may make anybody owner.
func (s *Service) SetRoleByOperator(ctx context.Context, orgID, userID string, role access.Role) (User, error) {
	return s.setRole(ctx, nil, User{ID: userID, OrgID: orgID, Role: role})
}

func (s *Service) setRole(ctx context.Context, c *access.Caller, wanted User) (u User, err error) {
	if !wanted.Role.Valid() {
		return u, fault.Invalid("role", "role must be viewer, member, admin or owner")
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		crew, err := lockCrew(ctx, tx, wanted.OrgID, wanted.ID, c)
		if err != nil {
			return err
		}
		if u = crew.target; u.ServiceAccount {
			return errNoMember()
		}
		// The old role is checked too: an admin must not demote an owner.
		if err := crew.checkMay(u.Role, wanted.Role); err != nil {
			return err
		}
		if u.Role == wanted.Role {
			// given_role is what a person chose; role may be lower as long as a provider says so.
			return updateRole(ctx, tx, u) // no sign-in lowers it now
		}
		if u.Machine() {
			return fault.New(fault.Conflict, "%s holds the keys of machines with the role %s, which cannot be changed; "+
				"create keys with another role instead", u.Email, u.Role)
		}
		if wanted.Role != access.Owner {
			if err := crew.checkOwnerLeft(ctx, tx, "make another person owner first"); err != nil {
				return err
			}
		}
		u, err = changeRole(ctx, tx, u, wanted.Role)
		return err
	})
	s.keys.Clear()
	return u, err
}

// changeRole gives a member a role that a person chose.
func changeRole(ctx context.Context, tx *store.Tx, u User, role access.Role) (User, error) {
	before := u.Role
	u.Role = role
	if err := updateRole(ctx, tx, u); err != nil {
		return u, err
	}
	return u, audit.Record(ctx, tx, audit.Entry{
		OrgID: u.OrgID, Action: "auth.user.set-role", Target: u.target(), Detail: audit.Detail{"from": before, "to": u.Role},
	})
}

// Transfer makes another member owner, and the caller, who is one, an admin. Both
// happen or neither. The caller steps down in the same transaction, so there's never a moment
// without an owner or with a forgotten second one.
func (s *Service) Transfer(ctx context.Context, c access.Caller, userID string) (owner, former User, err error) {
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		crew, err := lockCrew(ctx, tx, c.OrgID, userID, &c)
		if err != nil {
			return err
		}
		if err := crew.checkMay(access.Owner); err != nil {
			return err
		}
		if owner = crew.target; owner.ServiceAccount {
			return errNoMember()
		}
		switch {
		case owner.Role == access.Owner:
			return fault.New(fault.Conflict, "%s is an owner already; change your own role to step down", owner.Email)
		case owner.Machine():
			return fault.New(fault.Conflict, "%s holds the keys of machines and cannot own the organisation", owner.Email)
		}
		if owner, err = changeRole(ctx, tx, owner, access.Owner); err != nil {
			return err
		}
		// checkOwnerLeft looks at its target, who is now the one to step down.
		crew.target = *crew.caller
		if err := crew.checkOwnerLeft(ctx, tx, owner.Email+" needs an API key first"); err != nil {
			return err
		}
		if former, err = changeRole(ctx, tx, *crew.caller, access.AdminRole); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: owner.OrgID, Action: "auth.user.transfer", Target: owner.target(), Detail: audit.Detail{"from": former.ID},
		})
	})
	s.keys.Clear()
	return owner, former, err
}

// A crew is the members whom a change of roles is about. Their rows are locked until
// the transaction ends. Locking comes before every check: what was true when the request began may
// not be.
type crew struct {
	by     *access.Caller // with the role of now; nil for the operator
	caller *User          // nil for the operator
	target User
}

// lockCrew locks the owners of an organisation, the caller and the target, in the
// order of their ids. So of two owners who demote or remove each other at the same
// time, the second finds that it was demoted or removed itself.
func lockCrew(ctx context.Context, tx *store.Tx, orgID, targetID string, c *access.Caller) (crew, error) {
	callerID := ""
	if c != nil {
		callerID = c.UserID
	}
	users, err := lockUsers(ctx, tx, orgID, callerID, targetID)
	if err != nil {
		return crew{}, err
	}
	find := func(id string) int { return slices.IndexFunc(users, func(u User) bool { return u.ID == id }) }
	var found crew
	if c != nil {
		i := find(callerID)
		if i < 0 {
			return crew{}, fault.New(fault.Unauthorized, "You are no longer a member of this organisation")
		}
		// The role that the request began with may be gone: what counts is what the current role
		// and the key both allow.
		now := *c
		now.Role = users[i].Role
		now.Permissions = slices.DeleteFunc(slices.Clone(now.Role.Permissions()),
			func(p access.Permission) bool { return !c.May(p) })
		found.by, found.caller = &now, &users[i]
	}
	i := find(targetID)
	if i < 0 {
		return crew{}, errNoMember()
	}
	found.target = users[i]
	return found, nil
}

// errNoMember is also the answer for members of other organisations.
func errNoMember() error { return fault.New(fault.NotFound, "Member not found") }

// checkMay refuses a caller who may not manage members with these roles.
func (c crew) checkMay(roles ...access.Role) error {
	if c.by == nil {
		return nil
	}
	permissions := []access.Permission{access.Admin}
	for _, r := range roles {
		permissions = append(permissions, r.Permissions()...)
	}
	return checkMayGive(*c.by, permissions)
}

// checkOwnerLeft refuses to take the target from the owners if that leaves the
// organisation without one, or, unless the operator asks, without a key of one. An organisation
// without a usable owner's key could only be rescued on the server.
func (c crew) checkOwnerLeft(ctx context.Context, tx *store.Tx, advice string) error {
	if c.target.Role != access.Owner {
		return nil
	}
	owners, err := lockedOwners(ctx, tx, c.target.OrgID)
	if err != nil {
		return err
	}
	if slices.Equal(owners, []string{c.target.ID}) {
		return fault.New(fault.Conflict, "%s is the only owner; %s", c.target.Email, advice)
	}
	if c.by == nil {
		return nil
	}
	// The target's own keys don't count: their holder won't be an owner any more.
	keys, err := keysOfUser(ctx, tx, c.target.OrgID, c.target.ID)
	if err != nil {
		return err
	}
	left, err := ownerKeyLeft(ctx, tx, c.target.OrgID, keys)
	if err == nil && !left {
		return fault.New(fault.Conflict, "No other owner has an API key to manage the organisation with; %s", advice)
	}
	return err
}

// CreateMachineKey creates a key that is held by the organisation's machine user
// of that role. It never allows more, nor lasts longer, than the key that the
// caller used. The holder is created on first use and shared by all keys of that role.
func (s *Service) CreateMachineKey(
	ctx context.Context, c access.Caller, role access.Role, n NewKey,
) (k Key, raw string, err error) {
	if !role.Valid() {
		return Key{}, "", fault.Invalid("role", "role must be viewer, member, admin or owner")
	}
	n.OrgID = c.OrgID
	if err := checkMayGive(c, narrow(role, n.Permissions)); err != nil {
		return Key{}, "", err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		u, err := findHolder(ctx, tx, n.OrgID, Holder{Role: role})
		if err != nil {
			return err
		}
		n.UserID = u.ID
		if err := checkPolicy(ctx, tx, n); err != nil {
			return err
		}
		k, raw, err = insertKeyOf(ctx, tx, c, n)
		return err
	})
	return k, raw, err
}
