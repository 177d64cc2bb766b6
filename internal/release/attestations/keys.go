package attestations

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/dsse"
)

// A Key is one that signs or has signed. Only the active one has its private half:
// what an old key has signed can be verified, and nothing new be signed with it.
type Key struct {
	ID          string
	PEM         string
	Active      bool
	Endorsement *dsse.Envelope // in which the key before names this one; nil for the first, and after a revocation
	CreatedAt   time.Time
	RetiredAt   *time.Time // when another key took over
	RevokedAt   *time.Time // what it signed is not to be trusted
	Reason      string     // why it was revoked

	// It is nil unless the key is active.
	private []byte // sealed
}

// The states of a key.
const (
	Active  = "active"
	Retired = "retired"
	Revoked = "revoked"
)

// State is active, retired or revoked.
func (k Key) State() string {
	switch {
	case k.RevokedAt != nil:
		return Revoked
	case k.Active:
		return Active
	}
	return Retired
}

// EndorsementType is the payload type in which a key names the one after it.
const EndorsementType = "application/vnd.whetstone.signing-key+json"

// An Endorsed is what a key says about the one after it.
type Endorsed struct {
	KeyID     string    `json:"keyid"`
	PEM       string    `json:"pem"`
	CreatedAt time.Time `json:"created_at"`
}

// place binds a sealed key to its row: copied to another one, it doesn't open.
func place(keyID string) seal.Place {
	return seal.Place{Table: "signing_keys", Column: "private_key", Row: keyID}
}

// signingKey returns the active key. The first call makes it; of several replicas
// that do so at the same time, all get the same one. addKey does nothing if another replica was
// faster, hence the second read.
func (s *Service) signingKey(ctx context.Context, tx *store.Tx) (dsse.PrivateKey, error) {
	active, err := activeKey(ctx, tx, "")
	if fault.Is(err, fault.NotFound) {
		if _, err := s.addKey(ctx, tx, nil); err != nil {
			return dsse.PrivateKey{}, err
		}
		active, err = activeKey(ctx, tx, "")
	}
	if err != nil {
		return dsse.PrivateKey{}, err
	}
	return s.open(active)
}

// An openedKey is a private key and how it is stored. The sealed bytes are the cache key, so a
// rotated or resealed key is opened anew.
type openedKey struct {
	sealed []byte
	key    dsse.PrivateKey
}

// open opens a private key. The last one is kept: to open it takes as long as to sign,
// and on SQLite others wait meanwhile.
func (s *Service) open(k Key) (dsse.PrivateKey, error) {
	if last := s.opened.Load(); last != nil && bytes.Equal(last.sealed, k.private) {
		return last.key, nil
	}
	der, err := s.Seal.Open(k.private, place(k.ID))
	if err != nil {
		return dsse.PrivateKey{}, err
	}
	key, err := dsse.ParsePrivateKey(der)
	if err == nil {
		s.opened.Store(&openedKey{k.private, key})
	}
	return key, err
}

// addKey makes the active key, unless there is one. The key before endorses it, if
// it is given. The private key exists in memory, and sealed in the database; it is never
// written elsewhere.
func (s *Service) addKey(ctx context.Context, tx *store.Tx, before *dsse.PrivateKey) (k Key, err error) {
	fresh, err := dsse.Generate()
	if err != nil {
		return k, err
	}
	public := fresh.Public()
	der, err := fresh.Marshal()
	if err != nil {
		return k, err
	}
	k = Key{
		ID: public.ID, PEM: public.PEM, Active: true, CreatedAt: store.Now(), private: s.Seal.Seal(der, place(public.ID)),
	}
	if before != nil {
		payload, err := json.Marshal(Endorsed{KeyID: k.ID, PEM: k.PEM, CreatedAt: k.CreatedAt})
		if err != nil {
			return k, err
		}
		endorsement, err := before.Sign(EndorsementType, payload)
		if err != nil {
			return k, err
		}
		k.Endorsement = &endorsement
	}
	return k, insertKey(ctx, tx, k)
}

// Keys lists all keys, newest first; there is always one. A verifier that asks before the first
// signature gets the key that will make it.
func (s *Service) Keys(ctx context.Context) (keys []Key, err error) {
	defer fault.Wrap(&err, "signing keys")
	if keys, err = allKeys(ctx, s.DB, ""); err != nil || len(keys) > 0 {
		return keys, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if _, err := s.signingKey(ctx, tx); err != nil {
			return err
		}
		keys, err = allKeys(ctx, tx, "")
		return err
	})
	return keys, err
}

// Rotate makes another key the active one. The old one stays published, so that
// what it has signed verifies, and endorses the new one, so that clients which know
// the old one trust it. Its private half is deleted.
func (s *Service) Rotate(ctx context.Context) (k Key, err error) {
	defer fault.Wrap(&err, "rotate the signing key")
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if _, err := s.signingKey(ctx, tx); err != nil {
			return err
		}
		// The lock lets of two rotations at once one go ahead.
		old, err := activeKey(ctx, tx, tx.Dialect().ForUpdate())
		if fault.Is(err, fault.NotFound) {
			return fault.New(fault.Conflict, "The signing key was rotated at the same time")
		}
		if err != nil {
			return err
		}
		private, err := s.open(old)
		if err != nil {
			return err
		}
		now := store.Now()
		old.Active, old.RetiredAt = false, &now
		if err := updateKey(ctx, tx, old); err != nil {
			return err
		}
		k, err = s.addKey(ctx, tx, &private)
		return err
	})
	return k, err
}

// maxReason is in characters.
const maxReason = 1_000

// Revoke marks a key whose private half may be known to others. If it is the active
// one, another is made, which it does not endorse. A job signs with the active key
// what the revoked one has signed here.
func (s *Service) Revoke(ctx context.Context, id, reason string) (k Key, err error) {
	defer fault.Wrap(&err, "revoke signing key %s", id)
	if strings.TrimSpace(reason) == "" || utf8.RuneCountInString(reason) > maxReason || strings.ContainsRune(reason, 0) {
		return k, fault.Invalid("reason", "reason must have 1 to %d characters: clients show it", maxReason)
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		all, err := allKeys(ctx, tx, tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		var found []Key
		for _, one := range all {
			if id != "" && strings.HasPrefix(one.ID, id) {
				found = append(found, one)
			}
		}
		// A prefix that fits several keys is refused rather than guessed.
		if len(found) != 1 {
			return fault.New(fault.NotFound, "%d signing keys have an id that begins with %q", len(found), id)
		}
		k = found[0]
		if k.RevokedAt != nil {
			return fault.New(fault.Conflict, "The key is revoked already")
		}
		now := store.Now()
		wasActive := k.Active
		k.Active, k.RevokedAt, k.Reason = false, &now, reason
		if k.RetiredAt == nil {
			k.RetiredAt = &now
		}
		if err := updateKey(ctx, tx, k); err != nil || !wasActive {
			return err
		}
		// Without an endorsement: one by a stolen key would be worth nothing.
		_, err = s.addKey(ctx, tx, nil)
		return err
	})
	return k, err
}

// Reseal encrypts with the keyring's first key the private key, if it is sealed with
// another one, and returns how many it changed. Retired and revoked keys have no private half
// to reseal.
func (s *Service) Reseal(ctx context.Context, tx *store.Tx) (count int, err error) {
	k, err := activeKey(ctx, tx, tx.Dialect().ForUpdate())
	if fault.Is(err, fault.NotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	renewed, changed, err := s.Seal.Renew(k.private, place(k.ID))
	if err != nil || !changed {
		return 0, err
	}
	k.private = renewed
	return 1, setPrivate(ctx, tx, k)
}
