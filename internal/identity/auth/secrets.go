package auth

// The installation's secrets are random values that all replicas share. They are
// kept in the table service_secrets.

import (
	"context"
	"crypto/rand"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Secrets makes, opens and re-encrypts the secrets.
type Secrets struct {
	DB   *store.DB
	Seal *seal.Keyring
}

// Secret returns the installation's secret of that name: 32 random bytes that
// are created on the first call. All replicas get the same one. On the first call of several
// replicas at once the insert of one wins, and all read that.
func (s *Secrets) Secret(ctx context.Context, name string) (value []byte, err error) {
	defer fault.Wrap(&err, "secret %s", name)
	// Made on every call, and thrown away if there is one: that is cheaper than a read first and a
	// race.
	fresh := make([]byte, 32)
	if _, err := rand.Read(fresh); err != nil {
		return nil, err
	}
	var stored []byte
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := insertSecret(ctx, tx, name, s.Seal.Seal(fresh, secretPlace(name))); err != nil {
			return err
		}
		stored, err = secretByName(ctx, tx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.Seal.Open(stored, secretPlace(name))
}

// secretPlace binds the sealed value to its row: copied to another one, it can't be opened.
func secretPlace(name string) seal.Place {
	return seal.Place{Table: "service_secrets", Column: "value", Row: name}
}

// Reseal encrypts with the keyring's first key all secrets that are in clear text
// or encrypted with another key, and returns how many there were. A secret that
// the keyring cannot open is an error. It runs in the caller's transaction together with all other
// tables with secrets.
func (s *Secrets) Reseal(ctx context.Context, tx *store.Tx) (count int, err error) {
	all, err := allSecrets(ctx, tx, tx.Dialect().ForUpdate())
	if err != nil {
		return 0, err
	}
	for _, stored := range all {
		value, changed, err := s.Seal.Renew(stored.value, secretPlace(stored.name))
		if err != nil {
			return count, err
		}
		if !changed {
			continue
		}
		if err := updateSecret(ctx, tx, stored.name, value); err != nil {
			return count, err
		}
		count++
	}
	return count, nil
}

// CheckSealed fails if the keyring cannot open one of the installation's secrets. It is asked at
// the start, so that a wrong keyring is found before it is needed.
func (s *Secrets) CheckSealed(ctx context.Context) error {
	all, err := allSecrets(ctx, s.DB, "")
	if err != nil {
		return err
	}
	for _, stored := range all {
		if _, err := s.Seal.Open(stored.value, secretPlace(stored.name)); err != nil {
			return err
		}
	}
	return nil
}

// HasSealed reports whether any of the installation's secrets is sealed. Then the
// key that sealed it is needed to start. An installation that has never sealed anything may start
// without a key.
func (s *Secrets) HasSealed(ctx context.Context) (bool, error) {
	all, err := allSecrets(ctx, s.DB, "")
	for _, stored := range all {
		if seal.Sealed(stored.value) {
			return true, nil
		}
	}
	return false, err
}

// Secret returns the installation's secret of that name; see Secrets.
func (s *Service) Secret(ctx context.Context, name string) ([]byte, error) {
	return (&Secrets{DB: s.DB, Seal: s.Seal}).Secret(ctx, name)
}
