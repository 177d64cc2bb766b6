package auth

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Member is a user with the last use of their keys, which is also that of their
// sessions. The table of keys has the only record of it, so a session's use counts as that of its
// key.
type Member struct {
	User
	LastSeenAt *time.Time // to within touchInterval
}

// A MemberPage is which members to list.
type MemberPage struct {
	Removed bool   // those who were removed instead
	Search  string // in name or address
	store.Page
}

// Members lists a page of an organisation's members, oldest first, and their number.
func (s *Service) Members(ctx context.Context, orgID string, p MemberPage) ([]Member, int, error) {
	return listedMembers.Page(ctx, s.DB, p.Page, orgID, p.Removed, store.Like(p.Search))
}

// LockInviter locks the caller's row until the transaction ends, and returns the
// caller as they are now. One who was removed meanwhile is fault.Unauthorized, and one
// who may not give the role fault.Denied. A permission that the caller had at the beginning of the
// request may be gone.
func LockInviter(ctx context.Context, tx *store.Tx, c access.Caller, role access.Role) error {
	crew, err := lockCrew(ctx, tx, c.OrgID, c.UserID, &c)
	if err != nil {
		return err
	}
	return crew.checkMay(role)
}

// InviterMayGive reports whether a member is still there and may give a role. Their
// row is locked until the transaction ends. It is asked when an invitation is accepted, perhaps
// days after it was made.
func InviterMayGive(ctx context.Context, tx *store.Tx, orgID, userID string, role access.Role) (bool, error) {
	users, err := lockUsers(ctx, tx, orgID, userID, userID)
	for _, u := range users {
		if u.ID == userID {
			return MayGive(access.Caller{Role: u.Role, Permissions: u.Role.Permissions()}, role), err
		}
	}
	return false, err
}

// A Joiner is a person who becomes a member. The key is the new member's first, and the only one
// that isn't of their own making.
type Joiner struct {
	NewUser
	KeyName string
	// Claimed says that the address is self-asserted (unverified): no identity provider
	// may sign in as them because of it.
	Claimed bool
	// ByKey is the key of the person who let them in; nil on the server. The new one is
	// made with it: it expires with it, and a cascading revocation reaches it.
	ByKey *string
}

// Join adds a person and creates a key for them, in the caller's transaction. It
// returns the raw key, which is not stored. An address that a member has is
// fault.Conflict, and that of an inactive person fault.Denied; that of a removed member
// is free, and belongs to a new user, who sees nothing of what the removed one alone
// could see. The order matters: the check for inactive people takes the locks under which nobody is
// removed meanwhile.
func Join(ctx context.Context, tx *store.Tx, j Joiner) (u User, k Key, raw string, err error) {
	if err := j.normalise(); err != nil {
		return u, k, "", err
	}
	if err := RefuseInactive(ctx, tx, j.OrgID, "", j.Email); err != nil {
		return u, k, "", err
	}
	u = User{ID: store.NewID(), OrgID: j.OrgID, Email: j.Email, Name: j.Name, Role: j.Role, CreatedAt: store.Now()}
	// The audit log names the new member as the one who has acted.
	ctx = access.With(ctx, access.Caller{OrgID: u.OrgID, UserID: u.ID, Email: u.Email})
	if err := insertUser(ctx, tx, u); err != nil {
		return u, k, "", conflictIfDuplicate(err, "%s is a member of this organisation already", j.Email)
	}
	if j.Claimed {
		if err := markAddressClaimed(ctx, tx, u); err != nil {
			return u, k, "", err
		}
	}
	if err := recordUser(ctx, tx, u); err != nil {
		return u, k, "", err
	}
	n := NewKey{OrgID: u.OrgID, UserID: u.ID, Name: j.KeyName}
	if j.ByKey != nil {
		parent, err := keyByID(ctx, tx, u.OrgID, *j.ByKey, "")
		if err != nil {
			return u, k, "", err
		}
		if err := n.inherit(parent); err != nil {
			return u, k, "", err
		}
	}
	k, raw, err = insertNewKey(ctx, tx, n)
	return u, k, raw, err
}

// NormaliseEmail checks an address and puts it into lower case. It is what uniqueness within an
// organisation is decided by.
func NormaliseEmail(email string) (string, error) {
	n := NewUser{Email: email, Role: access.DefaultRole}
	err := n.normalise()
	return n.Email, err
}

// CheckKeyUsable refuses a key that was revoked or has expired, for what is made with
// it, and returns it. It stays locked until the transaction ends.
func CheckKeyUsable(ctx context.Context, tx *store.Tx, c access.Caller) (Key, error) {
	k, err := keyByID(ctx, tx, c.OrgID, c.KeyID, tx.Dialect().ForUpdate())
	if fault.Is(err, fault.NotFound) {
		return k, errUnknownKey()
	}
	if err != nil {
		return k, err
	}
	return k, checkUsable(k.RevokedAt, k.ExpiresAt)
}
