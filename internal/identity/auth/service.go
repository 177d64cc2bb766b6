package auth

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/keyrules"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Service creates organisations, users and keys, and authenticates callers.
type Service struct {
	DB  *store.DB
	Log *slog.Logger
	// Seal encrypts the installation's secrets. It may be nil if those are not
	// used.
	Seal *seal.Keyring
	// PublicURL is the base of the page on which people approve device logins.
	PublicURL string
	// Jobs delivers events. It may be nil, e.g. in commands on the server.
	Jobs *jobs.Queue
	// RequireSSO lets people sign in to the dashboard with an identity provider only.
	RequireSSO bool

	keys     keyCache[holder]
	refusals keyrules.Refusals
}

// CreateOrg creates an organisation. A name that is taken is fault.Conflict. It has no members yet.
func (s *Service) CreateOrg(ctx context.Context, name string, plan access.Plan) (_ Organisation, err error) {
	defer fault.Wrap(&err, "organisation %q", name)
	if !orgName.MatchString(name) {
		return Organisation{}, fault.Invalid("name",
			"name must be 1 to 100 letters, digits, spaces, dots, hyphens or underscores, "+
				"the first a letter or digit")
	}
	if err := checkPlan(plan); err != nil {
		return Organisation{}, err
	}
	o := Organisation{ID: store.NewID(), Name: name, Plan: plan, CreatedAt: store.Now()}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error { return insertNewOrg(ctx, tx, o) })
	if err != nil {
		return Organisation{}, conflictIfDuplicate(err, "An organisation named %s exists", name)
	}
	return o, nil
}

// conflictIfDuplicate turns the violation of a unique constraint into a
// fault.Conflict with that message. Checking before would be a race.
func conflictIfDuplicate(err error, format string, args ...any) error {
	if store.IsDuplicate(err) {
		return fault.New(fault.Conflict, format, args...).Because(err)
	}
	return err
}

// Orgs lists all organisations, oldest first.
func (s *Service) Orgs(ctx context.Context) ([]Organisation, error) { return allOrgs(ctx, s.DB) }

// OrgByName finds an organisation.
func (s *Service) OrgByName(ctx context.Context, name string) (Organisation, error) {
	return OrgNamed(ctx, s.DB, name)
}

// SetPlan changes the plan of an organisation. Other replicas may use the old
// one for keyCacheTTL. Nothing is deleted if the new plan has less; routes of a higher plan just
// stop working.
func (s *Service) SetPlan(ctx context.Context, name string, plan access.Plan) (Organisation, error) {
	if err := checkPlan(plan); err != nil {
		return Organisation{}, err
	}
	var o Organisation
	err := s.DB.InTx(ctx, func(tx *store.Tx) (err error) {
		if o, err = OrgNamed(ctx, tx, name); err != nil {
			return err
		}
		before := o.Plan
		o.Plan = plan
		if err := updatePlan(ctx, tx, o.ID, plan); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: o.ID, Action: "auth.organisation.set-plan", Target: o.target(),
			Detail: audit.Detail{"from": before, "to": plan},
		})
	})
	s.keys.Clear()
	return o, err
}

// CreateUser adds a person to an organisation. An address that is taken is fault.Conflict.
func (s *Service) CreateUser(ctx context.Context, n NewUser) (u User, err error) {
	if err := n.normalise(); err != nil {
		return User{}, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		u, err = insertNewUser(ctx, tx, n)
		return err
	})
	return u, err
}

func insertNewUser(ctx context.Context, tx *store.Tx, n NewUser) (User, error) {
	u := User{ID: store.NewID(), OrgID: n.OrgID, Email: n.Email, Name: n.Name, Role: n.Role, CreatedAt: store.Now()}
	if err := insertUser(ctx, tx, u); err != nil {
		return User{}, conflictIfDuplicate(err, "A user with the address %s exists in this organisation", n.Email)
	}
	return u, recordUser(ctx, tx, u)
}

func recordUser(ctx context.Context, tx *store.Tx, u User) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: u.OrgID, Action: "auth.user.create", Target: u.target(), Detail: audit.Detail{"role": u.Role},
	})
}

// Users lists an organisation's people, oldest first. It includes removed ones; see Members for
// pages.
func (s *Service) Users(ctx context.Context, orgID string) ([]User, error) {
	return usersOfOrg(ctx, s.DB, orgID)
}

// UserByEmail finds a person of an organisation.
func (s *Service) UserByEmail(ctx context.Context, orgID, email string) (User, error) {
	return userByEmail(ctx, s.DB, orgID, strings.ToLower(strings.TrimSpace(email)))
}

// CreateKey creates a key for a user and returns it with the raw key, which is
// not stored. Nobody is asked for it, so no policy refuses it; see insertNewKey.
func (s *Service) CreateKey(ctx context.Context, n NewKey) (k Key, raw string, err error) {
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		k, raw, err = insertNewKey(ctx, tx, n)
		return err
	})
	return k, raw, err
}

// CreateKeyFor creates a key for the caller. It never allows more, nor lasts
// longer, than the key that the caller used. A role may have permissions that the key lacks: these
// are refused here, unknown ones by NewKey.check.
func (s *Service) CreateKeyFor(ctx context.Context, c access.Caller, n NewKey) (k Key, raw string, err error) {
	n.OrgID, n.UserID = c.OrgID, c.UserID
	for _, p := range n.Permissions {
		if slices.Contains(c.Role.Permissions(), p) && !c.May(p) {
			return Key{}, "", fault.New(fault.Denied, "Your key does not have the permission %s and cannot give it", p)
		}
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := checkPolicy(ctx, tx, n); err != nil {
			return err
		}
		k, raw, err = insertKeyOf(ctx, tx, c, n)
		return err
	})
	return k, raw, err
}

// A Holder is the person or machine that a key is issued to. On the server it is named by the
// operator; in requests it is always the caller.
type Holder struct {
	Email string      // "" for machines, which share one holder per role
	Role  access.Role // "" for the role the holder has; new ones need one
}

// IssueKey creates a key for a person and, in the same transaction, adds them to the organisation
// if needed. The operator is bound by the policy, too: an exception would be invisible.
func (s *Service) IssueKey(ctx context.Context, h Holder, n NewKey) (u User, k Key, raw string, err error) {
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if u, err = findHolder(ctx, tx, n.OrgID, h); err != nil {
			return err
		}
		n.UserID = u.ID
		if err := checkPolicy(ctx, tx, n); err != nil {
			return err
		}
		k, raw, err = insertNewKey(ctx, tx, n)
		return err
	})
	return u, k, raw, err
}

// findHolder finds or creates the holder. It refuses a role that differs from the one that an
// existing person has, since issuing a key must not change roles.
func findHolder(ctx context.Context, tx *store.Tx, orgID string, h Holder) (User, error) {
	if h.Email == "" {
		h.Role = cmp.Or(h.Role, access.Owner)
		h.Email = string(h.Role) + "@localhost"
	}
	n := NewUser{OrgID: orgID, Email: h.Email, Role: cmp.Or(h.Role, access.DefaultRole)}
	if err := n.normalise(); err != nil && !IsMachineAddress(n.Email) {
		return User{}, err
	}
	u, err := userByEmail(ctx, tx, orgID, n.Email)
	if fault.Is(err, fault.NotFound) {
		// People are added on purpose. Machines, e.g. trusted publishers, come with their key.
		if h.Role == "" && !IsMachineAddress(n.Email) {
			return u, fault.New(fault.NotFound, "No user has the address %s; to add them, give a role, e.g. --role member", n.Email)
		}
		return insertNewUser(ctx, tx, n)
	}
	if err == nil && h.Role != "" && u.Role != h.Role {
		return u, fault.New(fault.Conflict, "%s has the role %s, not %s; leave --role out, or name another person",
			u.Email, u.Role, h.Role)
	}
	return u, err
}

// insertKeyOf creates a key on behalf of a caller. The caller's own key stays
// locked until the transaction ends, so that a concurrent revocation either comes
// first or sees the new key.
func insertKeyOf(ctx context.Context, tx *store.Tx, c access.Caller, n NewKey) (Key, string, error) {
	parent, err := keyByID(ctx, tx, c.OrgID, c.KeyID, tx.Dialect().ForUpdate())
	if err != nil {
		return Key{}, "", err
	}
	if err := checkUsable(parent.RevokedAt, parent.ExpiresAt); err != nil {
		return Key{}, "", err
	}
	if err := n.inherit(parent); err != nil {
		return Key{}, "", err
	}
	// A list of permissions stays a list, even if it has all of the role's: the
	// role may be given more later.
	if n.UserID == parent.UserID && n.Permissions == nil && parent.Permissions != nil {
		n.Permissions = c.Permissions
	}
	return insertNewKey(ctx, tx, n)
}

// insertNewKey checks what is asked for, and shortens the lifetime to the policy silently: a person
// who asks for too much was refused before, by checkPolicy.
func insertNewKey(ctx context.Context, tx *store.Tx, n NewKey) (Key, string, error) {
	u, err := userByID(ctx, tx, n.OrgID, n.UserID)
	if err != nil {
		return Key{}, "", err
	}
	if err := n.check(u.Role); err != nil {
		return Key{}, "", err
	}
	policy, err := keyrules.Load(ctx, tx, n.OrgID)
	if err != nil {
		return Key{}, "", err
	}
	n.ExpiresAt = policy.Shorten(n.ExpiresAt)
	return insertRawKey(ctx, tx, n, newRawKey())
}

// insertRawKey stores the hash and what lists show. The raw key exists only in the answer.
func insertRawKey(ctx context.Context, tx *store.Tx, n NewKey, raw string) (Key, string, error) {
	k := Key{
		ID: store.NewID(), OrgID: n.OrgID, UserID: n.UserID, Name: n.Name, Prefix: raw[:min(len(raw), shownLength)],
		Permissions: n.Permissions, CreatedAt: store.Now(), ExpiresAt: n.ExpiresAt,
		CreatedByKey: n.createdByKey, Login: n.login, Relay: n.Relay, EntryID: n.entryID, AllowedIPs: n.AllowedIPs,
	}
	if err := insertKey(ctx, tx, k, hash(raw), n.deviceID); err != nil {
		return k, raw, err
	}
	return k, raw, recordKey(ctx, tx, "auth.key.create", k)
}

// recordKey writes the terms of the key to the audit log, so that it can be told later what a key
// could do, also after its deletion.
func recordKey(ctx context.Context, tx *store.Tx, action string, k Key) error {
	detail := audit.Detail{"holder": k.UserID, "permissions": k.Permissions, "expires_at": k.ExpiresAt}
	if k.Relay {
		detail["relay"] = true
	}
	if k.EntryID != nil {
		detail["entry"] = *k.EntryID
	}
	if len(k.AllowedIPs) > 0 {
		detail["allowed_ips"] = k.AllowedIPs.Strings()
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: k.OrgID, Action: action, Target: audit.Target{Kind: "key", ID: k.ID, Name: k.Name}, Detail: detail,
	})
}

// Keys lists a page of an organisation's keys, newest first, and their number.
func (s *Service) Keys(ctx context.Context, orgID string, p store.Page) ([]Key, int, error) {
	return s.KeysOf(ctx, orgID, "", p)
}

// KeysOf is Keys of one user, or of all if userID is empty.
func (s *Service) KeysOf(ctx context.Context, orgID, userID string, p store.Page) ([]Key, int, error) {
	return listedKeys.Page(ctx, s.DB, p, orgID, userID)
}

// Key returns a key of an organisation.
func (s *Service) Key(ctx context.Context, orgID, id string) (Key, error) {
	return keyByID(ctx, s.DB, orgID, id, "")
}

// Bootstrap creates the first organisation, its owner and one key in an empty
// database. It returns the raw key, or "" if there is an organisation already.
// If raw is empty, the key is random. The first start of several replicas is decided by the unique
// name of the organisation.
func (s *Service) Bootstrap(ctx context.Context, plan access.Plan, raw string) (_ string, err error) {
	defer fault.Wrap(&err, "first start")
	if err := checkPlan(plan); err != nil {
		return "", err
	}
	if raw == "" {
		raw = newRawKey()
	} else if err := CheckRawKey(raw); err != nil {
		return "", err
	}
	made := false
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		orgs, err := allOrgs(ctx, tx)
		if made = err == nil && len(orgs) == 0; !made {
			return err
		}
		return bootstrap(ctx, tx, plan, raw)
	})
	if store.IsDuplicate(err) {
		return "", nil // another replica was first
	}
	if err != nil || !made {
		return "", err
	}
	return raw, nil
}

func bootstrap(ctx context.Context, tx *store.Tx, plan access.Plan, raw string) error {
	o := Organisation{ID: store.NewID(), Name: "default", Plan: plan, CreatedAt: store.Now()}
	if err := insertNewOrg(ctx, tx, o); err != nil {
		return err
	}
	u := User{ID: store.NewID(), OrgID: o.ID, Email: "owner@localhost", Name: "owner", Role: access.Owner, CreatedAt: store.Now()}
	if err := insertUser(ctx, tx, u); err != nil {
		return err
	}
	if err := recordUser(ctx, tx, u); err != nil {
		return err
	}
	_, _, err := insertRawKey(ctx, tx, NewKey{OrgID: o.ID, UserID: u.ID, Name: "first key"}, raw)
	return err
}
