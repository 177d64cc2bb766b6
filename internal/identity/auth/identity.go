package auth

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// LockMember returns a member, whose row is locked until the transaction ends: they are
// not removed meanwhile. One who was removed is fault.NotFound.
func LockMember(ctx context.Context, tx *store.Tx, orgID, userID string) (User, error) {
	crew, err := lockCrew(ctx, tx, orgID, userID, nil)
	return crew.target, err
}

// LinkableMember returns the member with an address for whom an identity provider may
// vouch by it. Nobody vouched for the address of a member who accepted an open
// invitation, and machines are no persons: both are fault.Conflict. Otherwise whoever accepts an
// open invitation with somebody else's address would later share that person's account.
func LinkableMember(ctx context.Context, tx *store.Tx, orgID, email string) (User, error) {
	u, err := userByEmail(ctx, tx, orgID, email)
	if err != nil {
		return u, err
	}
	claimed, err := addressClaimed(ctx, tx, u)
	switch {
	case err != nil:
		return u, err
	case claimed:
		return u, fault.New(fault.Conflict, "A member who accepted an open invitation said that %s is their address, which was not verified; "+
			"ask an admin to remove that member, and sign in again", email)
	case u.Machine():
		return u, fault.New(fault.Conflict, "%s holds the keys of machines and cannot sign in", email)
	}
	return u, nil
}

// IdentityKey returns the id of the key that the sessions of an identity hang on: the one
// that it has or, if that is no longer usable, a new one. Its raw form is not kept: it
// can be listed and revoked like every key, which ends the sessions, but not used. Sessions hang on
// a key because permissions, expiry, revocation and the audit log then work alike for all of them.
func IdentityKey(ctx context.Context, tx *store.Tx, u User, present *string, name string) (string, error) {
	if present != nil {
		k, err := keyByID(ctx, tx, u.OrgID, *present, "")
		if err == nil && k.UserID == u.ID && k.State() == keyActive {
			return k.ID, nil
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return "", err
		}
	}
	k, _, err := insertNewKey(ctx, tx, NewKey{OrgID: u.OrgID, UserID: u.ID, Name: text.TruncateRunes(name, maxName)})
	return k.ID, err
}

// A VouchedSession is the sign-in of a member for whom an identity provider vouches. The provider
// has authenticated them; this package only records it.
type VouchedSession struct {
	NewSession        // RawKey is not used
	User       User   // LockMember has locked them
	KeyID      string // of IdentityKey
	IdentityID string
	Detail     audit.Detail
}

// OpenSession is SignIn for a member for whom an identity provider vouches. The session of the
// token that the browser had ends, as in SignIn.
func OpenSession(ctx context.Context, tx *store.Tx, v VouchedSession) (Session, string, error) {
	now := store.Now()
	session := v.session(Session{OrgID: v.User.OrgID, UserID: v.User.ID, KeyID: v.KeyID, IdentityID: &v.IdentityID}, now)
	session.ExpiresAt = now.Add(VouchedLifetime)
	token, err := replaceSession(ctx, tx, session, v.Replaces)
	if err != nil {
		return session, "", err
	}
	ctx = access.With(ctx, access.Caller{OrgID: v.User.OrgID, UserID: v.User.ID, KeyID: v.KeyID, Email: v.User.Email})
	return session, token, recordSession(ctx, tx, "auth.session.start", session, v.Detail)
}

// EndIdentityKey revokes the key of an identity, and the logins that it approved. It doesn't
// cascade to keys that were made with it: those belong to the member, who may still be one.
func EndIdentityKey(ctx context.Context, tx *store.Tx, orgID, keyID string) error {
	doomed, err := lockWholeLineage(ctx, tx, orgID, keyID, onlyLogins)
	if err != nil {
		return err
	}
	return revokeAll(ctx, tx, doomed, onlyLogins)
}
