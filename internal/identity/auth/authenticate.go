package auth

import (
	"context"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// touchInterval is how often the last use of keys is written. It is a display figure: writing it on
// each request would make every read a write.
const touchInterval = 10 * time.Second

// Authenticate returns the caller who holds the key. A key that is unknown,
// revoked or expired is fault.Unauthorized; a catalog token, a key that does not work
// from the client's address, and one for one entry, which AuthenticateEntry accepts, is
// fault.Denied.
func (s *Service) Authenticate(ctx context.Context, raw string) (access.Caller, error) {
	return s.AuthenticateEntry(ctx, raw, "")
}

// AuthenticateEntry is Authenticate for a request that pushes a version of an entry:
// keys for that entry are accepted, too.
//
// The key is looked up by its SHA-256. That needs no comparison in constant
// time: the time of a lookup may reveal how many leading bytes of the hash
// match, but nothing about a key of 256 random bits that has such a hash.
func (s *Service) AuthenticateEntry(ctx context.Context, raw, entryID string) (access.Caller, error) {
	if strings.HasPrefix(raw, CatalogPrefix) {
		return access.Caller{}, fault.New(fault.Denied, "Catalog tokens open catalogs, not the API; use an API key")
	}
	if strings.HasPrefix(raw, SCIMPrefix) {
		return access.Caller{}, fault.New(fault.Unauthorized, "SCIM tokens are for /scim/v2, not for the API; use an API key")
	}
	sum := hash(raw)
	// Only hits are cached. Unknown keys cost a query each, but a cache of these could be filled by
	// anyone.
	h, ok := s.keys.Get(sum)
	if !ok {
		if !keyPattern.MatchString(raw) { // saves a query
			return access.Caller{}, errUnknownKey()
		}
		asked := time.Now()
		var err error
		if h, err = holderByHash(ctx, s.DB, sum); fault.Is(err, fault.NotFound) {
			return access.Caller{}, errUnknownKey()
		} else if err != nil {
			return access.Caller{}, err
		}
		s.keys.Put(sum, h, asked)
	}
	// Expiry is checked on each use, since it may come while the entry is cached.
	if err := checkUsable(h.revokedAt, h.expiresAt); err != nil {
		return access.Caller{}, err
	}
	if err := s.checkAddress(ctx, h); err != nil {
		return access.Caller{}, err
	}
	if h.caller.EntryID != "" && h.caller.EntryID != entryID {
		return access.Caller{}, fault.New(fault.Denied, "This key pushes versions of one registry entry, and does nothing else")
	}
	// After all checks: a refused key wasn't used.
	s.keys.Used(h.caller.KeyID)
	return h.caller, nil
}

func errUnknownKey() error { return fault.New(fault.Unauthorized, "Unknown API key") }

// Run writes the last use of keys every touchInterval, until ctx is done. It writes once more at
// the end, with a second for that.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(touchInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.flushUses(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			s.flushUses(last)
			cancel()
			return nil
		}
	}
}

// flushUses writes the last use of keys in one transaction. A failure loses at most a few seconds
// of last uses, so it is only logged.
func (s *Service) flushUses(ctx context.Context) {
	uses := s.keys.TakeUses()
	if len(uses) == 0 {
		return
	}
	err := s.DB.InTx(ctx, func(tx *store.Tx) error {
		for id, at := range uses {
			if err := touchKey(ctx, tx, id, at); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.Log.Warn("the last use of keys was not written", "error", err)
	}
}
