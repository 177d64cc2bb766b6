package auth

import (
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// RevokeKey ends a key for the operator, whoever holds it. With it end, in the
// same transaction, the sessions that were signed in with it, the device logins
// that it approved and those that wait for their key. It stops working at once
// here and within five seconds on every replica. Revoking a revoked key is not
// an error.
func (s *Service) RevokeKey(ctx context.Context, orgID, id string) error {
	return s.revoke(ctx, orgID, id, logins, nil)
}

// RevokeKeyAndMade ends a key as RevokeKey does, and all keys that were made with
// it or with one of those: what is needed after a theft.
func (s *Service) RevokeKeyAndMade(ctx context.Context, orgID, id string) error {
	return s.revoke(ctx, orgID, id, cascade, nil)
}

// RevokeKeyFor ends a key as RevokeKey does, or as RevokeKeyAndMade where made is
// set. The caller revokes no key of a holder with a higher role, nor the last
// key by which an owner can manage the organisation.
func (s *Service) RevokeKeyFor(ctx context.Context, c access.Caller, id string, made bool) error {
	e := logins
	if made {
		e = cascade
	}
	return s.revoke(ctx, c.OrgID, id, e, &c)
}

// extent is how much is revoked together with a key.
type extent bool

const (
	logins  extent = false // the device logins that it approved
	cascade extent = true  // every key that was made with it
)

// revoke ends a key and those that go with it. The operator is no caller.
func (s *Service) revoke(ctx context.Context, orgID, id string, e extent, c *access.Caller) error {
	err := s.DB.InTx(ctx, func(tx *store.Tx) error {
		if _, err := keyByID(ctx, tx, orgID, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		doomed, err := wholeLineage(ctx, tx, orgID, id, e)
		if err != nil {
			return err
		}
		if c != nil {
			if err := mayRevoke(ctx, tx, *c, id, doomed); err != nil {
				return err
			}
		}
		for _, k := range doomed {
			if err := revokeKey(ctx, tx, k.ID, store.Now()); err != nil {
				return err
			}
			if err := denyApproved(ctx, tx, k.ID); err != nil {
				return err
			}
			if err := recordKey(ctx, tx, "auth.key.revoke", k); err != nil {
				return err
			}
		}
		return nil
	})
	s.holders.clear()
	return err
}

// wholeLineage locks what is to be revoked with a key until nothing is added: while
// it waited for a key, that one may have made another.
func wholeLineage(ctx context.Context, tx *store.Tx, orgID, id string, e extent) (doomed []Key, err error) {
	for {
		found, err := lockLineage(ctx, tx, orgID, id, e)
		if err != nil || len(found) <= len(doomed) {
			return found, err
		}
		doomed = found
	}
}

// mayRevoke checks what a caller, unlike the operator, may not do to keys.
func mayRevoke(ctx context.Context, tx *store.Tx, c access.Caller, id string, doomed []Key) error {
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
		if k.ID == c.KeyID && k.ID != id {
			return fault.New(fault.Conflict,
				"The key that you use was made with this one and would be revoked, too; use another one")
		}
	}
	return keepOwnerKey(ctx, tx, c.OrgID, doomed)
}

// keepOwnerKey refuses to revoke the last key by which an owner can manage the
// organisation. It locks the owners, so that of two such revocations one waits.
func keepOwnerKey(ctx context.Context, tx *store.Tx, orgID string, doomed []Key) error {
	if _, err := lockedOwners(ctx, tx, orgID); err != nil {
		return err
	}
	keys, err := ownersKeys(ctx, tx, orgID)
	if err != nil {
		return err
	}
	isDoomed := func(k Key) bool { return slices.ContainsFunc(doomed, func(d Key) bool { return d.ID == k.ID }) }
	usable := slices.DeleteFunc(keys, func(k Key) bool {
		return k.State() != "active" || !slices.Contains(narrow(access.Owner, k.Permissions), access.Admin)
	})
	if slices.ContainsFunc(usable, isDoomed) && !slices.ContainsFunc(usable, func(k Key) bool { return !isDoomed(k) }) {
		return fault.New(fault.Conflict, "No owner would have a key left to manage the organisation with; "+
			"make another one first, or run `whetstone key revoke` on the server")
	}
	return nil
}

// MadeKeys lists the active keys that were made with each key, by its id, or with
// one of those: what RevokeKeyAndMade ends besides the key.
func (s *Service) MadeKeys(ctx context.Context, orgID string) (map[string][]Key, error) {
	keys, err := keysMadeByKeys(ctx, s.DB, orgID)
	parent := map[string]string{}
	for _, k := range keys {
		parent[k.ID] = *k.CreatedByKey
	}
	made := map[string][]Key{}
	for _, k := range keys {
		if k.State() != "active" {
			continue
		}
		for id := parent[k.ID]; id != ""; id = parent[id] {
			made[id] = append(made[id], k)
		}
	}
	return made, err
}
