package versions

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/install"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// An installTarget is a version of an entry that is to be installed.
type installTarget struct {
	Name         string // of the entry, and of its folder
	Organisation string // the owner of the entry
	Foreign      bool   // the owner is not the caller's organisation
	EntryID      string
	Version      string
	Hash         string
	Pinned       bool   // it was named as NAME@VERSION, so sync leaves it alone
	Withdrawn    bool   // install it although it was withdrawn
	Link         string // signed download URL of a sync, which expires; or ""
}

// An installer downloads versions into a folder of skills and records the installations
// on the server. Its methods may be called concurrently. The caller must close it.
type installer struct {
	*server.Session
	Program *term.Program

	dir    string
	device string

	mu      sync.Mutex // guards the fields below
	folder  *install.Folder
	refused bool // the key may not record installations: stop asking
}

// newInstaller locks the folder for this process. It waits for other processes that use
// the folder, e.g. a sync in the start hook of another agent, and notes that it does.
func newInstaller(ctx context.Context, p *term.Program, s *server.Session, dir string) (*installer, error) {
	folder, err := install.Open(ctx, dir, func() { p.Note("waiting for another whetstone to be done with %s", dir) })
	if err != nil {
		return nil, err
	}
	device, _ := server.DeviceID()
	return &installer{Session: s, Program: p, dir: dir, device: device, folder: folder}, nil
}

// close unlocks the folder.
func (i *installer) close() { _ = i.folder.Close() } // all writes were synced before

// pathOf returns the folder of a skill.
func (i *installer) pathOf(name string) string { return filepath.Join(i.dir, name) }

// skills returns a copy of the lock file's records, by the names of the skills.
func (i *installer) skills() map[string]install.Record { return i.folder.Skills() }

// put writes the record of a skill to the lock file.
func (i *installer) put(name string, r install.Record) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.folder.Put(name, r)
}

// fetch downloads the archive and verifies its hash. A link that expired while other
// skills were downloaded is replaced by a request with the key.
func (i *installer) fetch(ctx context.Context, t installTarget, progress func(done, of int64)) ([]byte, error) {
	wanted := client.Wanted{ContentHash: t.Hash, Withdrawn: t.Withdrawn, Progress: progress}
	if t.Link != "" {
		archive, err := i.Download(ctx, t.Link, wanted)
		if client.Status(err) != http.StatusForbidden {
			return archive, err
		}
	}
	return i.DownloadVersion(ctx, t.EntryID, t.Version, wanted)
}

// unpack installs an archive that fetch returned, and records it in the lock file.
// Without force, local edits are an *install.EditedError; with it the old folder is
// moved to backup.
func (i *installer) unpack(ctx context.Context, t installTarget, archive []byte, force bool) (backup string, err error) {
	pkg, err := skillpkg.Open(ctx, bytes.NewReader(archive), int64(len(archive)), skillpkg.StoredLimits())
	if err != nil {
		return "", err
	}
	defer func() { _ = pkg.Close() }() // opened for reading only
	r := install.Record{
		Server: i.Server, EntryID: t.EntryID, Version: t.Version, ContentHash: t.Hash, Pinned: t.Pinned,
		InstalledAt: time.Now().UTC().Truncate(time.Second),
	}
	// Downloads run in parallel, but the lock file has one writer.
	i.mu.Lock()
	defer i.mu.Unlock()
	// A reinstallation keeps why the skill is there.
	if before := i.folder.Skills()[t.Name]; before.EntryID == r.EntryID {
		r.Explicit, r.RequiredBy, r.NoRequires = before.Explicit, before.RequiredBy, before.NoRequires
	}
	return i.folder.Install(ctx, t.Name, pkg, r, force)
}

// restore installs an archive that fetch returned at the version of the lock file,
// which it does not change.
func (i *installer) restore(ctx context.Context, name string, archive []byte, force bool) (backup string, err error) {
	pkg, err := skillpkg.Open(ctx, bytes.NewReader(archive), int64(len(archive)), skillpkg.StoredLimits())
	if err != nil {
		return "", err
	}
	defer func() { _ = pkg.Close() }() // opened for reading only
	return i.folder.Restore(ctx, name, pkg, force)
}

// record reports the installation to the server, and returns whether the server
// recorded it. The skill is installed either way, so a failure is only a note. A key
// without the permission gets that note once, and no further requests are made.
func (i *installer) record(ctx context.Context, t installTarget) bool {
	i.mu.Lock()
	refused := i.refused
	i.mu.Unlock()
	if refused {
		return false
	}
	_, err := i.RecordInstall(ctx, t.EntryID, api.NewInstallation{
		InstallPath: i.pathOf(t.Name), DeviceID: i.device, ContentHash: t.Hash,
	})
	if err == nil {
		return true
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.refused {
		i.Program.Note("%s is installed, but the server has no record of it: %s", t.Name,
			term.Message(server.AsFault(err, i.Server)))
	}
	i.refused = client.Status(err) == http.StatusForbidden
	return false
}
