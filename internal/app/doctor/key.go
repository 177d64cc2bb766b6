package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// checkSecretKey tries the secret key on what the database has sealed. A wrong key is found
// here rather than by the first job that opens a secret.
func checkSecretKey(ctx context.Context, c config.Config, db *store.DB) invariants.Finding {
	const check = "secret key"
	keyring, err := seal.Load(c.Data, string(c.SecretKey))
	path := filepath.Join(c.Data, seal.FileName)
	if errors.Is(err, fs.ErrNotExist) {
		sealed, err := (&auth.Secrets{DB: db}).HasSealed(ctx)
		if err == nil && !sealed {
			return invariants.Warn(check, "%s does not exist yet; `whetstone serve` makes it and seals the secrets with it", path)
		}
		return invariants.Fail(check, "the database has sealed secrets, and %s is missing; put it back or set --secret-key", path)
	}
	if err != nil {
		return invariants.Fail(check, "%s", err)
	}
	if err := (&auth.Secrets{DB: db, Seal: keyring}).CheckSealed(ctx); err != nil {
		return invariants.Fail(check, "%s; set --secret-key to the key that sealed the secrets", err)
	}
	// With --secret-key the file isn't used.
	if info, err := os.Stat(path); c.SecretKey == "" && err == nil && info.Mode().Perm()&0o077 != 0 {
		return invariants.Warn(check, "%s is open to others (%s); run chmod 600 on it", path, info.Mode().Perm())
	}
	return invariants.Fine(check, "opens the secrets in the database")
}
