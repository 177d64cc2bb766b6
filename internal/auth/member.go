package auth

import (
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// MayGive reports whether the caller may give others a role, which needs all of
// its permissions.
func MayGive(c access.Caller, role access.Role) bool {
	return c.May(access.Admin) && checkMayGive(c, role.Permissions()) == nil
}

// checkMayGive prevents privilege escalation: it refuses permissions that the
// caller does not have.
func checkMayGive(c access.Caller, permissions []access.Permission) error {
	for _, p := range permissions {
		if !c.May(p) {
			return fault.New(fault.Denied, "You do not have the permission %s and cannot give it", p)
		}
	}
	return nil
}

// AddMember adds a person to the caller's organisation and creates a first key
// to hand over. It returns the raw key, which is not stored. The key lasts no
// longer than the one that the caller used.
func (s *Service) AddMember(ctx context.Context, c access.Caller, n NewUser) (u User, raw string, err error) {
	n.OrgID = c.OrgID
	if err := n.normalise(); err != nil {
		return User{}, "", err
	}
	if err := checkMayGive(c, n.Role.Permissions()); err != nil {
		return User{}, "", err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if u, err = insertNewUser(ctx, tx, n); err != nil {
			return err
		}
		_, raw, err = insertKeyOf(ctx, tx, c, NewKey{OrgID: u.OrgID, UserID: u.ID, Name: "first key"})
		return err
	})
	return u, raw, err
}

// SetRole changes the role of a person of the caller's organisation, who may
// be the caller. The last owner's role cannot be changed. Other replicas may use
// the old role for keyCacheTTL.
func (s *Service) SetRole(ctx context.Context, c access.Caller, userID string, role access.Role) (u User, err error) {
	if !role.Valid() {
		return u, fault.Invalid("role", "role must be viewer, member, admin or owner")
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		u, err = updateUserRole(ctx, tx, c, User{ID: userID, Role: role})
		return err
	})
	s.keys.clear()
	return u, err
}

func updateUserRole(ctx context.Context, tx *store.Tx, c access.Caller, wanted User) (User, error) {
	u, err := userByID(ctx, tx, c.OrgID, wanted.ID)
	if err != nil {
		return u, err
	}
	// The old role is checked too: an admin must not demote an owner.
	if err := checkMayGive(c, slices.Concat(u.Role.Permissions(), wanted.Role.Permissions())); err != nil {
		return u, err
	}
	owners, err := lockedOwners(ctx, tx, c.OrgID)
	if err != nil {
		return u, err
	}
	if wanted.Role != access.Owner && slices.Equal(owners, []string{u.ID}) {
		return u, fault.New(fault.Conflict, "%s is the only owner; make another person owner first", u.Email)
	}
	before := u.Role
	u.Role = wanted.Role
	if err := updateRole(ctx, tx, u); err != nil {
		return u, err
	}
	return u, audit.Record(ctx, tx, audit.Entry{
		OrgID: u.OrgID, Action: "auth.user.set-role", Target: u.target(), Detail: audit.Detail{"from": before, "to": u.Role},
	})
}

// CreateMachineKey creates a key that is held by the organisation's machine user
// of that role. It never allows more, nor lasts longer, than the key that the
// caller used.
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
		k, raw, err = insertKeyOf(ctx, tx, c, n)
		return err
	})
	return k, raw, err
}
