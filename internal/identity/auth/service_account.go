package auth

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// LockServiceAccount locks a service account of the caller's organisation and the
// caller, who must have all permissions of the account's role and of the others. The lock order is
// that of all changes of members.
func LockServiceAccount(ctx context.Context, tx *store.Tx, c access.Caller, id string, roles ...access.Role) (User, error) {
	found, err := lockCrew(ctx, tx, c.OrgID, id, &c)
	if fault.Is(err, fault.NotFound) || err == nil && !found.target.ServiceAccount {
		return User{}, fault.New(fault.NotFound, "Service account not found")
	}
	if err != nil {
		return User{}, err
	}
	return found.target, found.checkMay(append(roles, found.target.Role)...)
}

// LockKeysOf locks the active keys of a user and, with made, those that were made with
// them, for RevokeKeysOf. Keys are locked before users. It is called first in a transaction;
// RevokeKeysOf then does the work.
func LockKeysOf(ctx context.Context, tx *store.Tx, orgID, userID string, made bool) error {
	_, err := lockKeysOfUser(ctx, tx, orgID, userID, cascade(made))
	return err
}

// RevokeKeysOf revokes the keys that LockKeysOf locks, and those that were made until
// the user was locked. The caller of it calls Forget after the transaction: other
// replicas may use them for keyCacheTTL.
func RevokeKeysOf(ctx context.Context, tx *store.Tx, c access.Caller, userID string, made bool) (int, error) {
	doomed, err := lockKeysOfUser(ctx, tx, c.OrgID, userID, cascade(made))
	if err != nil {
		return 0, err
	}
	if made {
		if err := checkMayRevoke(ctx, tx, c, "", doomed); err != nil {
			return 0, err
		}
	}
	return len(doomed), revokeAll(ctx, tx, doomed, cascade(made))
}

// CreateServiceKey creates a key of a service account. It allows no more than the
// caller's key does, and lasts no longer. The key of the caller is its parent, so revoking that
// with a cascade ends it, too.
func (s *Service) CreateServiceKey(ctx context.Context, c access.Caller, id string, n NewKey) (k Key, raw string, err error) {
	n.OrgID, n.UserID = c.OrgID, id
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if _, err := CheckKeyUsable(ctx, tx, c); err != nil {
			return err
		}
		crew, err := lockCrew(ctx, tx, c.OrgID, id, &c)
		if fault.Is(err, fault.NotFound) || err == nil && !crew.target.ServiceAccount {
			return fault.Invalid("service_account_id", "no service account has this id")
		}
		if err != nil {
			return err
		}
		if err := checkMayGive(*crew.by, narrow(crew.target.Role, n.Permissions)); err != nil {
			return err
		}
		if err := checkPolicy(ctx, tx, n); err != nil {
			return err
		}
		k, raw, err = insertKeyOf(ctx, tx, c, n)
		return err
	})
	return k, raw, err
}

// LockKeyToChange locks an active key of the caller's organisation whose holder has no
// higher role than the caller. Changing a key includes its networks, which could lock its holder
// out.
func LockKeyToChange(ctx context.Context, tx *store.Tx, c access.Caller, id string) (Key, error) {
	k, err := keyByID(ctx, tx, c.OrgID, id, tx.Dialect().ForUpdate())
	if err != nil {
		return k, err
	}
	if k.State() != keyActive {
		return k, fault.New(fault.Conflict, "This key is %s, and cannot be changed", k.State())
	}
	holder, err := userByID(ctx, tx, k.OrgID, k.UserID)
	if err == nil && !c.Role.Includes(holder.Role) {
		err = fault.New(fault.Denied, "The key %s is held by %s, who is %s; only an %s can change it", k.Name, holder.Email,
			holder.Role, holder.Role)
	}
	return k, err
}
