package app

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/app/backup"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/git"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/recording"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

// Backup saves the installation to a file, or to w if the file is "-". The service
// may be running. It returns the manifest and the size in bytes. It needs no lock of the data
// folder: the database is read in one snapshot.
func Backup(
	ctx context.Context, o Options, file string, w io.Writer, progress func(backup.Progress),
) (backup.Manifest, int64, error) {
	if path, ok := strings.CutPrefix(o.Config.URL(), "sqlite:"); ok {
		if _, err := os.Stat(path); err != nil { // opening it would create it
			return backup.Manifest{}, 0, fault.New(fault.NotFound, "there is no database to save: %s", err).Because(err)
		}
	}
	p, err := openPlace(ctx, o)
	if err != nil {
		return backup.Manifest{}, 0, err
	}
	defer p.DB.Close()
	p.Progress = progress
	if file != "-" {
		return backup.SaveFile(ctx, p, file)
	}
	return backup.Save(ctx, p, w)
}

// RestoreOptions are the installation to restore into, and how.
type RestoreOptions struct {
	Options
	Progress func(backup.Progress) // may be nil
	// Unverified accepts a backup that is not signed, or signed with another key.
	Unverified bool
}

// Restore fills the empty installation that the settings describe from r. After an error the
// place has to be emptied; see backup.Unfinished.
func Restore(ctx context.Context, o RestoreOptions, r io.Reader) (backup.Restored, error) {
	if o.Config.DatabaseURL == "" {
		if err := o.Config.MakeData(); err != nil {
			return backup.Restored{}, err
		}
	}
	p, err := openPlace(ctx, o.Options)
	if err != nil {
		return backup.Restored{}, err
	}
	defer p.DB.Close()
	p.Progress, p.Unverified = o.Progress, o.Unverified
	m, err := backup.Restore(ctx, p, r)
	if err != nil || p.Repositories == "" {
		return m, err
	}
	// The hooks of the restored repositories must call the binary of this machine.
	program, err := os.Executable()
	if err != nil {
		return m, err
	}
	return m, git.Adopt(p.Repositories, program)
}

// openPlace opens the parts of an installation that a backup holds. It does not
// migrate the database. The doctor and backups look at installations of any age, which they
// must not change.
func openPlace(ctx context.Context, o Options) (p backup.Place, err error) {
	p.Version = o.Version
	if p.DB, err = store.Open(ctx, store.Options{URL: o.Config.URL(), MaxConns: o.Config.DatabaseConns}); err != nil {
		return p, err
	}
	defer func() {
		if err != nil {
			_ = p.DB.Close()
		}
	}()
	if p.Blobs, err = openBucket(ctx, o.Config); err != nil {
		return p, err
	}
	// The queue is only read and filled. Nothing runs.
	if p.Jobs, err = jobs.New(jobs.Options{DB: p.DB, Log: slog.New(slog.DiscardHandler)}); err != nil {
		return p, err
	}
	if o.Config.Repohost == string(host.Git) {
		p.Repositories = git.Dir(o.Config.Data, string(o.Config.RepohostURL))
	}
	p.Referrers = referrers()
	keyring, err := seal.Load(o.Config.Data, string(o.Config.SecretKey))
	// Without a key a backup is unsigned; Restore refuses one that it can't verify.
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	p.Signer = backup.NewSigner(keyring)
	return p, nil
}

// referrers are the capabilities whose rows refer to blobs. Without one of them, the doctor
// would report its blobs as orphans, and a backup would not notice lost ones. They need no
// fields: References gets its database as an argument.
func referrers() []backup.Referrer {
	return []backup.Referrer{&registry.Service{}, &sources.Service{}, &telemetry.Service{}, &suites.Service{}, &recording.Store{}}
}

// openBucket opens the bucket outside of the running service. Its URLs are not
// valid, since it has no signing secret. A URL that was signed with this secret of zeros must
// never be handed out.
func openBucket(ctx context.Context, c config.Config) (blob.Bucket, error) {
	return blob.Open(ctx, blob.Options{
		URL: string(c.BlobURL), Dir: filepath.Join(c.Data, "blobs"),
		Secret: make([]byte, 32), Log: slog.New(slog.DiscardHandler),
	})
}
