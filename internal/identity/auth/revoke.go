package auth

import (
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// RevokeKey revokes any key of an organisation, for the operator. In the same
// transaction it ends the sessions that were signed in with the key, revokes the
// keys of device logins that it approved, and denies those that have no key yet.
// The key stops working at once in this process, and after keyCacheTTL on other
// replicas. Revoking a revoked key is not an error.
func (s *Service) RevokeKey(ctx context.Context, orgID, id string) error {
	return s.revoke(ctx, orgID, id, onlyLogins, nil)
}

// RevokeKeyAndMade is RevokeKey for a stolen key: it cascades to all keys that
// were created with the key, directly or indirectly.
func (s *Service) RevokeKeyAndMade(ctx context.Context, orgID, id string) error {
	return s.revoke(ctx, orgID, id, allMade, nil)
}

// RevokeKeyFor is RevokeKey for a caller, or RevokeKeyAndMade if made is set. It
// refuses to revoke a key of a holder with a higher role, and the last key with
// which an owner can manage the organisation. What the caller may do is checked under the locks.
func (s *Service) RevokeKeyFor(ctx context.Context, c access.Caller, id string, made bool) error {
	e := onlyLogins
	if made {
		e = allMade
	}
	return s.revoke(ctx, c.OrgID, id, e, &c)
}

// A cascade is how far a revocation goes beyond the key itself.
type cascade bool

const (
	onlyLogins cascade = false // to the device logins that it approved
	allMade    cascade = true  // to every key that was created with it
)

// revoke revokes a key and those that it cascades to. The caller is nil for the
// operator, who may revoke every key. The key itself is locked first, so that nothing can be made
// with it while its lineage is read.
func (s *Service) revoke(ctx context.Context, orgID, id string, e cascade, c *access.Caller) error {
	err := s.DB.InTx(ctx, func(tx *store.Tx) error {
		if _, err := keyByID(ctx, tx, orgID, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		doomed, err := lockWholeLineage(ctx, tx, orgID, id, e)
		if err != nil {
			return err
		}
		if c != nil {
			if err := checkMayRevoke(ctx, tx, *c, id, doomed); err != nil {
				return err
			}
		}
		return revokeAll(ctx, tx, doomed, e)
	})
	s.keys.Clear()
	return err
}

// revokeAll revokes keys that are locked. If all that was made with them goes, so do
// the invitations. Invitations that were made with a stolen key would let its thief in again.
func revokeAll(ctx context.Context, tx *store.Tx, doomed []Key, e cascade) error {
	now := store.Now()
	for _, k := range doomed {
		if err := markKeyRevoked(ctx, tx, k.ID, now); err != nil {
			return err
		}
		if err := denyApprovedDevices(ctx, tx, k.ID); err != nil {
			return err
		}
		if e == allMade {
			if err := revokeInvitationsOfKey(ctx, tx, k, now); err != nil {
				return err
			}
		}
		if err := recordKey(ctx, tx, "auth.key.revoke", k); err != nil {
			return err
		}
	}
	return nil
}

// lockWholeLineage locks a key and those that its revocation cascades to. It
// repeats until it finds no more: while it waited for the lock of a key, a
// concurrent transaction may have created another with it. In practice it runs twice.
func lockWholeLineage(ctx context.Context, tx *store.Tx, orgID, id string, e cascade) (doomed []Key, err error) {
	for {
		found, err := lockLineage(ctx, tx, orgID, id, e)
		if err != nil || len(found) <= len(doomed) {
			return found, err
		}
		doomed = found
	}
}

// checkMayRevoke refuses what a caller, unlike the operator, may not revoke. A revoked key of a
// higher role is a way to lock its holder out.
func checkMayRevoke(ctx context.Context, tx *store.Tx, c access.Caller, id string, doomed []Key) error {
	users, err := usersOfOrg(ctx, tx, c.OrgID)
	if err != nil {
		return err
	}
	for _, k := range doomed {
		holder := users[slices.IndexFunc(users, func(u User) bool { return u.ID == k.UserID })]
		if !c.Role.Includes(holder.Role) {
			return fault.New(fault.Denied, "The key %s is held by %s, who is %s; only an %s can revoke it",
				k.Name, holder.Email, holder.Role, holder.Role)
		}
		// Revoking one's own key on purpose is fine, but not as a side effect.
		if k.ID == c.KeyID && k.ID != id {
			return fault.New(fault.Conflict,
				"The key that you use was made with this one and would be revoked, too; use another one")
		}
	}
	// Keep the last key with which an owner can manage the organisation. The lock on the
	// owners makes one of two concurrent revocations wait for the other.
	if _, err := lockedOwners(ctx, tx, c.OrgID); err != nil {
		return err
	}
	left, err := ownerKeyLeft(ctx, tx, c.OrgID, doomed)
	if err == nil && !left {
		return fault.New(fault.Conflict, "No owner would have a key left to manage the organisation with; "+
			"make another one first, or run `whetstone key revoke` on the server")
	}
	return err
}

// ownerKeyLeft reports whether an owner can manage the organisation with another key
// than those. It does not count if none could before. Keys with the permission admin count: without
// it an owner's key can't make another one.
func ownerKeyLeft(ctx context.Context, tx *store.Tx, orgID string, doomed []Key) (bool, error) {
	keys, err := ownersKeys(ctx, tx, orgID)
	isDoomed := func(k Key) bool { return slices.ContainsFunc(doomed, func(d Key) bool { return d.ID == k.ID }) }
	usable := slices.DeleteFunc(keys, func(k Key) bool {
		return k.State() != keyActive || !slices.Contains(narrow(access.Owner, k.Permissions), access.Admin)
	})
	return !slices.ContainsFunc(usable, isDoomed) || slices.ContainsFunc(usable, func(k Key) bool { return !isDoomed(k) }), err
}

// MadeKeys returns the active keys that were created with each key, directly or
// indirectly, by the id of that key: those that RevokeKeyAndMade also revokes. The lineage is a
// tree, so following the parents ends at keys that were made on the server.
func (s *Service) MadeKeys(ctx context.Context, orgID string) (map[string][]Key, error) {
	keys, err := keysMadeByKeys(ctx, s.DB, orgID)
	parent := map[string]string{}
	for _, k := range keys {
		parent[k.ID] = *k.CreatedByKey
	}
	made := map[string][]Key{}
	for _, k := range keys {
		if k.State() != keyActive {
			continue
		}
		for id := parent[k.ID]; id != ""; id = parent[id] {
			made[id] = append(made[id], k)
		}
	}
	return made, err
}
