package cli

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/install"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

// A target is a version of an entry that is to be installed.
type target struct {
	name         string // of the entry, and of its folder
	organisation string // that owns the entry
	foreign      bool   // which is not the caller's
	entryID      string
	version      string
	hash         string
	pinned       bool
	link         string // where it can be downloaded without a key, or ""
}

// An installer puts versions into a folder of skills, and tells the server.
// It may do several at once.
type installer struct {
	*session
	program *Program
	dir     string
	device  string

	mu      sync.Mutex // guards what follows
	folder  *install.Folder
	refused bool // the server does not take records from this key
}

// newInstaller takes the folder, for this process alone.
func (p *Program) newInstaller(ctx context.Context, s *session, dir string) (*installer, error) {
	folder, err := install.Open(ctx, dir, func() { p.note("waiting for another whetstone to be done with %s", dir) })
	if err != nil {
		return nil, err
	}
	return &installer{session: s, program: p, dir: dir, device: deviceID(), folder: folder}, nil
}

func (i *installer) close() { _ = i.folder.Close() } // everything is written by then

func (i *installer) pathOf(name string) string { return filepath.Join(i.dir, name) }

// fetch downloads the archive and checks that it is the one.
func (i *installer) fetch(ctx context.Context, t target, progress func(done, of int64)) ([]byte, error) {
	wanted := client.Wanted{ContentHash: t.hash, Progress: progress}
	if t.link != "" {
		archive, err := i.Download(ctx, t.link, wanted)
		if client.Status(err) != http.StatusForbidden {
			return archive, err
		}
		// The link has expired while others were downloaded.
	}
	return i.DownloadVersion(ctx, t.entryID, t.version, wanted)
}

// put installs an archive that fetch has checked.
func (i *installer) put(ctx context.Context, t target, archive []byte, force bool) (backup string, err error) {
	pkg, err := skillpkg.Open(ctx, bytes.NewReader(archive), int64(len(archive)), skillpkg.StoredLimits())
	if err != nil {
		return "", err
	}
	defer func() { _ = pkg.Close() }() // it was only read
	r := install.Record{
		Server: i.server, EntryID: t.entryID, Version: t.version, ContentHash: t.hash, Pinned: t.pinned,
		InstalledAt: time.Now().UTC().Truncate(time.Second),
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.folder.Install(ctx, t.name, pkg, r, force)
}

// record tells the server what is installed where, and reports whether it
// took it. The skill is installed either way, so a failure is only noted.
func (i *installer) record(ctx context.Context, t target) bool {
	i.mu.Lock()
	refused := i.refused
	i.mu.Unlock()
	if refused {
		return false
	}
	_, err := i.RecordInstall(ctx, t.entryID, client.NewInstallation{
		InstallPath: i.pathOf(t.name), DeviceID: i.device, ContentHash: t.hash,
	})
	if err == nil {
		return true
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.refused {
		i.program.note("%s is installed, but the server has no record of it: %s", t.name, message(asFault(err, i.server)))
	}
	i.refused = client.Status(err) == http.StatusForbidden
	return false
}
