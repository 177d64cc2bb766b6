// Package serviceaccounts manages service accounts, machines with a name, a role and
// keys of their own, and changes keys. It owns no tables: service accounts are users of
// internal/identity/auth.
package serviceaccounts

import (
	"context"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/keyrules"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Service creates, changes and deletes service accounts.
type Service struct {
	DB   *store.DB
	Auth *auth.Service
}

// An Account is a machine. No person is behind it, so that it stays when people go. Its
// address is "service-account:" and its name, which nobody can have or sign in with.
type Account struct {
	auth.User
	Keys       int        // active ones
	LastUsedAt *time.Time // to within seconds
}

const (
	addressPrefix = "service-account:"
	maxKeyName    = 100 // characters
)

// accountName is stricter than a person's name: it is part of an address and of command lines.
var accountName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// check refuses owners: a machine that owns the organisation could lock everybody out.
func check(name string, role access.Role) error {
	if !accountName.MatchString(name) {
		return fault.Invalid("name", "name must be 1 to 63 lower-case letters, digits, dots, hyphens or underscores, "+
			"the first a letter or digit")
	}
	if !role.Valid() || role == access.Owner {
		return fault.Invalid("role", "role must be viewer, member or admin")
	}
	return nil
}

// errTaken turns the violation of the unique address, which has the name in it, into a Conflict.
func errTaken(err error, name string) error {
	if store.IsDuplicate(err) {
		return fault.New(fault.Conflict, "A service account named %s exists in this organisation", name).Because(err)
	}
	return err
}

func record(ctx context.Context, tx *store.Tx, action string, u auth.User, d audit.Detail) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: u.OrgID, Action: action, Target: audit.Target{Kind: "service-account", ID: u.ID, Name: u.Name}, Detail: d,
	})
}

// Create adds a service account to the caller's organisation. It gives no permission
// that the caller does not have. A name that is taken is fault.Conflict. It has no key yet.
func (s *Service) Create(ctx context.Context, c access.Caller, name string, role access.Role) (a Account, err error) {
	if err := check(name, role); err != nil {
		return a, err
	}
	a.User = auth.User{
		ID: store.NewID(), OrgID: c.OrgID, Email: addressPrefix + name, Name: name, Role: role, CreatedAt: store.Now(),
		ServiceAccount: true,
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if _, err := auth.CheckKeyUsable(ctx, tx, c); err != nil {
			return err
		}
		if err := auth.LockInviter(ctx, tx, c, role); err != nil {
			return err
		}
		if err := insertAccount(ctx, tx, a.User); err != nil {
			return errTaken(err, name)
		}
		return record(ctx, tx, "auth.serviceaccount.create", a.User, audit.Detail{"role": role})
	})
	return a, err
}

// A Page is which service accounts to list.
type Page struct {
	Deleted bool // those that were deleted instead
	store.Page
}

// A Change is what to change of a service account; "" leaves it.
type Change struct {
	Name string
	Role access.Role
}

// Update changes a service account. Other replicas may use the old role for seconds. What the
// caller may do is checked for both the old and the new role.
func (s *Service) Update(ctx context.Context, c access.Caller, id string, change Change) error {
	err := s.DB.InTx(ctx, func(tx *store.Tx) error {
		before, err := auth.LockServiceAccount(ctx, tx, c, id, change.Role)
		if err != nil {
			return err
		}
		u := before
		if change.Name != "" {
			u.Name, u.Email = change.Name, addressPrefix+change.Name
		}
		if change.Role != "" {
			u.Role = change.Role
		}
		if err := check(u.Name, u.Role); err != nil || u == before {
			return err
		}
		if err := updateAccount(ctx, tx, u); err != nil {
			return errTaken(err, u.Name)
		}
		return record(ctx, tx, "auth.serviceaccount.update", u, audit.Detail{
			"from": audit.Detail{"name": before.Name, "role": before.Role}, "to": audit.Detail{"name": u.Name, "role": u.Role},
		})
	})
	s.Auth.Forget()
	return err
}

// Delete deletes a service account. Its keys are revoked in the same transaction, and
// with made also those that were made with them. What it made stays, with its name.
// Other replicas may accept a key for seconds. The keys are locked first, then the account, as
// everywhere.
func (s *Service) Delete(ctx context.Context, c access.Caller, id string, made bool) error {
	if c.UserID == id {
		return fault.New(fault.Conflict, "This is the service account whose key you use; use another key to delete it")
	}
	err := s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := auth.LockKeysOf(ctx, tx, c.OrgID, id, made); err != nil {
			return err
		}
		u, err := auth.LockServiceAccount(ctx, tx, c, id)
		if err != nil {
			return err
		}
		if err := markDeleted(ctx, tx, u, store.Now()); err != nil {
			return err
		}
		keys, err := auth.RevokeKeysOf(ctx, tx, c, id, made)
		if err != nil {
			return err
		}
		return record(ctx, tx, "auth.serviceaccount.delete", u, audit.Detail{"role": u.Role, "keys": keys})
	})
	s.Auth.Forget()
	return err
}

// A KeyChange is what to change of a key; nil leaves it.
type KeyChange struct {
	Name       *string
	AllowedIPs *keyrules.AllowList
}

// UpdateKey changes a key of the caller's organisation, whose holder has no higher role
// than the caller. Other replicas may use the old networks for seconds. Its permissions and its
// expiry can't be changed: a key that should do more is a new one.
func (s *Service) UpdateKey(ctx context.Context, c access.Caller, id string, change KeyChange) (k auth.Key, err error) {
	if change.Name != nil && (*change.Name == "" || utf8.RuneCountInString(*change.Name) > maxKeyName) {
		return k, fault.Invalid("name", "name must have 1 to %d characters", maxKeyName)
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if k, err = auth.LockKeyToChange(ctx, tx, c, id); err != nil {
			return err
		}
		before := k.AllowedIPs
		if change.Name != nil {
			k.Name = *change.Name
		}
		if change.AllowedIPs != nil {
			k.AllowedIPs = *change.AllowedIPs
			if err := s.checkNetworks(ctx, tx, c, k); err != nil {
				return err
			}
		}
		if err := updateKey(ctx, tx, k); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: k.OrgID, Action: "auth.key.update", Target: audit.Target{Kind: "key", ID: k.ID, Name: k.Name},
			Detail: audit.Detail{"from": before.Strings(), "allowed_ips": k.AllowedIPs.Strings()},
		})
	})
	s.Auth.Forget()
	return k, err
}

// checkNetworks refuses new networks of a key that the policy or the caller's own key
// does not allow, and those that lock the caller out. Whoever has no list of their own may set any.
func (*Service) checkNetworks(ctx context.Context, tx *store.Tx, c access.Caller, k auth.Key) error {
	policy, err := keyrules.Load(ctx, tx, k.OrgID)
	if err != nil {
		return err
	}
	if err := policy.Check(nil, k.AllowedIPs); err != nil {
		return err
	}
	if addr := httpapi.ClientAddr(ctx); k.ID == c.KeyID && !k.AllowedIPs.Allows(addr) {
		return fault.Invalid("allowed_ips", "allowed_ips must have your own address, %s: you use this key", addr)
	}
	own, err := auth.CheckKeyUsable(ctx, tx, c)
	if err != nil || own.UserID != k.UserID {
		return err
	}
	return k.AllowedIPs.CheckWithin(own.AllowedIPs)
}
