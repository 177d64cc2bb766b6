package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/observe/content"
	"github.com/whetstone-dev/whetstone/internal/observe/grades"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/release/attestations"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
)

// loadKeyring returns the secret key, creates it in a new installation, and seals
// with it all secrets in the database that are in clear text or sealed with an
// older key: each start finishes a rotation of the key. It runs at each start, before anything else uses a secret.
func loadKeyring(ctx context.Context, db *store.DB, data string, setting config.Secret) (*seal.Keyring, error) {
	keyring, err := seal.Load(data, string(setting))
	if errors.Is(err, fs.ErrNotExist) {
		keyring, err = createKeyFile(ctx, db, data)
	}
	if err != nil {
		return nil, err
	}
	if _, err = reseal(ctx, db, keyring); err != nil {
		return nil, err
	}
	// The first replica stores a secret, which a replica with another key cannot
	// open.
	_, err = (&auth.Secrets{DB: db, Seal: keyring}).Secret(ctx, "key-check")
	return keyring, explainKeyError(err)
}

// createKeyFile refuses to create a second key for a database that has sealed
// secrets: it could not open them.
func createKeyFile(ctx context.Context, db *store.DB, data string) (*seal.Keyring, error) {
	path := filepath.Join(data, seal.FileName)
	// A lost volume must not look like a new installation.
	sealed, err := (&auth.Secrets{DB: db}).HasSealed(ctx)
	if err != nil {
		return nil, err
	}
	if sealed {
		return nil, fault.Invalid("secret-key", "secret-key: the secrets in this database are sealed, and %s is missing; "+
			"put it back, or set --secret-key to the key that the other replicas have", path)
	}
	if err := (&config.Database{Data: data}).MakeData(); err != nil {
		return nil, err
	}
	if err := seal.MakeFile(path); err != nil {
		return nil, fmt.Errorf("secret key: %w", err)
	}
	return seal.ReadFile(path)
}

// reseal is the rotation of the secret key: it seals with the first key all secrets in the database that are in clear
// text or sealed with another key, in one transaction, and then the content of
// sessions, in many. It returns their number. The first part is small and all or nothing. The
// texts of sessions may be gigabytes: interrupted, the next start goes on with them, since both
// keys still open.
func reseal(ctx context.Context, db *store.DB, keyring *seal.Keyring) (count int, err error) {
	err = db.InTx(ctx, func(tx *store.Tx) error {
		own, err := (&auth.Secrets{DB: db, Seal: keyring}).Reseal(ctx, tx)
		if err != nil {
			return err
		}
		targets, err := (&alerts.Service{DB: db, Seal: keyring}).Reseal(ctx, tx)
		if err != nil {
			return err
		}
		tokens, err := (&repohost.Service{DB: db, Seal: keyring}).Reseal(ctx, tx)
		if err != nil {
			return err
		}
		signing, err := (&attestations.Service{DB: db, Seal: keyring}).Reseal(ctx, tx)
		if err != nil {
			return err
		}
		webhooks, err := (&events.Service{DB: db, Seal: keyring}).Reseal(ctx, tx)
		if err != nil {
			return err
		}
		quotations, err := (&grades.Service{DB: db, Seal: keyring}).Reseal(ctx, tx)
		count = own + targets + tokens + signing + webhooks + quotations
		return err
	})
	if err != nil {
		return count, explainKeyError(err)
	}
	texts, err := (&content.Service{DB: db, Seal: keyring}).Reseal(ctx)
	return count + texts, explainKeyError(err)
}

// explainKeyError says what to do if the secrets were sealed with another key. Other errors are
// returned as they are.
func explainKeyError(err error) error {
	if errors.Is(err, seal.ErrKey) {
		return fault.Invalid("secret-key", "secret-key: the secrets in this database were sealed with another key; "+
			"set --secret-key to that one, or put its file %s back into --data (every replica needs the same key)",
			seal.FileName).Because(err)
	}
	return err
}

// Rekey seals all secrets of a database with the first of the keys, and returns how many it
// changed. Afterwards the other keys are no longer needed. The service may be running
// meanwhile, if it has both keys.
func Rekey(ctx context.Context, d config.Database, setting config.Secret) (int, error) {
	db, err := OpenExisting(ctx, d)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	keyring, err := seal.Load(d.Data, string(setting))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fault.Invalid("secret-key", "secret-key: there is no key yet; `whetstone serve` creates one")
	}
	if err != nil {
		return 0, err
	}
	return reseal(ctx, db, keyring)
}

// WithSigningKeys calls do with the keys that sign versions, for a command on the server's
// machine. Without a secret key the error is fs.ErrNotExist. It creates no secret key, which
// would be a second one for the same database.
func WithSigningKeys(
	ctx context.Context, d config.Database, setting config.Secret, do func(s *attestations.Service) error,
) error {
	db, err := OpenExisting(ctx, d)
	if err != nil {
		return err
	}
	defer db.Close()
	keyring, err := seal.Load(d.Data, string(setting))
	if err != nil {
		return err
	}
	return explainKeyError(do(&attestations.Service{DB: db, Seal: keyring}))
}
