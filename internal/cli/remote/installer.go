package remote

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/install"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

// A target is a version of an entry that is to be installed.
type target struct {
	name         string // of the entry, and of its folder
	organisation string // the owner of the entry
	foreign      bool   // the owner is not the caller's organisation
	entryID      string
	version      string
	hash         string
	pinned       bool
	link         string // signed download URL, or ""
}

// An installer downloads versions into a folder of skills and records the
// installations on the server. Its methods may be called concurrently.
type installer struct {
	*session
	program *term.Program
	dir     string
	device  string

	mu      sync.Mutex // guards what follows
	folder  *install.Folder
	refused bool // the key may not record installations
}

// newInstaller locks the folder for this process, and waits for other processes
// that use it.
func newInstaller(ctx context.Context, p *term.Program, s *session, dir string) (*installer, error) {
	folder, err := install.Open(ctx, dir, func() { p.Note("waiting for another whetstone to be done with %s", dir) })
	if err != nil {
		return nil, err
	}
	device, _ := server.DeviceID()
	return &installer{session: s, program: p, dir: dir, device: device, folder: folder}, nil
}

func (i *installer) close() { _ = i.folder.Close() } // everything is already on disk

func (i *installer) pathOf(name string) string { return filepath.Join(i.dir, name) }

// fetch downloads the archive and verifies its hash.
func (i *installer) fetch(ctx context.Context, t target, progress func(done, of int64)) ([]byte, error) {
	wanted := client.Wanted{ContentHash: t.hash, Progress: progress}
	if t.link != "" {
		archive, err := i.Download(ctx, t.link, wanted)
		if client.Status(err) != http.StatusForbidden {
			return archive, err
		}
		// The link expired while other skills were downloaded.
	}
	return i.DownloadVersion(ctx, t.entryID, t.version, wanted)
}

// unpack installs an archive that fetch returned.
func (i *installer) unpack(ctx context.Context, t target, archive []byte, force bool) (backup string, err error) {
	pkg, err := skillpkg.Open(ctx, bytes.NewReader(archive), int64(len(archive)), skillpkg.StoredLimits())
	if err != nil {
		return "", err
	}
	defer func() { _ = pkg.Close() }() // it was only read
	r := install.Record{
		Server: i.Server, EntryID: t.entryID, Version: t.version, ContentHash: t.hash, Pinned: t.pinned,
		InstalledAt: time.Now().UTC().Truncate(time.Second),
	}
	i.mu.Lock() // downloads run in parallel, but the lock file has one writer
	defer i.mu.Unlock()
	if before := i.folder.Skills()[t.name]; before.EntryID == r.EntryID {
		r.Explicit, r.RequiredBy, r.NoRequires = before.Explicit, before.RequiredBy, before.NoRequires
	}
	return i.folder.Install(ctx, t.name, pkg, r, force)
}

// record reports the installation to the server, and returns whether the server
// recorded it. The skill is installed either way, so a failure is only a note,
// and a key without the permission gets it once.
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
		i.program.Note("%s is installed, but the server has no record of it: %s", t.name, term.Message(server.AsFault(err, i.Server)))
	}
	i.refused = client.Status(err) == http.StatusForbidden
	return false
}
