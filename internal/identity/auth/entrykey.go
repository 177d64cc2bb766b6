package auth

import (
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const (
	// publisherEmail is the holder of the keys for one entry: a machine, not a person.
	publisherEmail = "trusted-publisher@localhost"
	// entryKeyKept is how long lists show such a key after it has expired.
	entryKeyKept = time.Hour
)

// A NewEntryKey describes a key that pushes versions of one registry entry, and does nothing else.
// It is made by exchanging a token of a code host's workflow, and is short-lived.
type NewEntryKey struct {
	OrgID, EntryID string
	Name           string
	ExpiresAt      time.Time
}

// CreateEntryKey creates such a key and returns it with the raw key. If the role of
// its holder does not allow to push, the organisation has forbidden it: fault.Denied. Its holder
// has a role, so that an owner can withdraw the right to push from all of them at once.
func (s *Service) CreateEntryKey(ctx context.Context, tx *store.Tx, n NewEntryKey) (k Key, raw string, err error) {
	u, err := s.PublisherHolder(ctx, tx, n.OrgID)
	if err != nil {
		return k, "", err
	}
	if !slices.Contains(u.Role.Permissions(), access.RegistryPush) {
		return k, "", fault.New(fault.Denied, "%s has the role %s, which may not push", u.Email, u.Role)
	}
	return insertNewKey(ctx, tx, NewKey{
		OrgID: n.OrgID, UserID: u.ID, Name: n.Name, Permissions: []access.Permission{access.RegistryPush},
		ExpiresAt: &n.ExpiresAt, entryID: &n.EntryID,
	})
}

// PublisherHolder returns the holder of the keys for one entry, and adds it to the organisation if needed.
func (*Service) PublisherHolder(ctx context.Context, tx *store.Tx, orgID string) (User, error) {
	return findHolder(ctx, tx, orgID, Holder{Email: publisherEmail})
}

// Forget empties the cache of keys. Other replicas keep what they have cached for keyCacheTTL at
// most.
func (s *Service) Forget() { s.keys.Clear() }
