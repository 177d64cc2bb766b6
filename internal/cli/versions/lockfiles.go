package versions

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/lockfiles"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/treehash"
)

// A lockFile is a lock file of some client, e.g. skills-lock.json, and where it is.
type lockFile struct {
	lockfiles.File
	path string // absolute
}

// readAll reads the named lock files. A path that is a folder means the lock files at
// the usual places in it. A file that is named twice is read once.
func readAll(paths []string) ([]lockFile, error) {
	var names []string
	for _, p := range paths {
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(abs)
		if err != nil {
			return nil, fault.Invalid("lock", "lock: %s", term.Plain(unwrap(err).Error()))
		}
		if !info.IsDir() {
			names = append(names, abs)
			continue
		}
		for _, usual := range lockfiles.In() {
			name := filepath.Join(abs, filepath.FromSlash(usual))
			if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
				names = append(names, name)
			}
		}
	}
	var all []lockFile
	for _, name := range names {
		if slices.ContainsFunc(all, func(f lockFile) bool { return f.path == name }) {
			continue
		}
		content, err := readFile(name)
		if err != nil {
			return nil, fault.Invalid("lock", "lock: %s", term.Plain(unwrap(err).Error()))
		}
		f, err := lockfiles.Parse(filepath.Base(name), content, nearFolder(filepath.Dir(name)))
		if err != nil {
			return nil, err
		}
		all = append(all, lockFile{f, name})
	}
	return all, nil
}

// unwrap drops the operation from the error of a file: "PATH: no such file" instead of
// "open PATH: no such file".
func unwrap(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return errors.New(e.Path + ": " + e.Err.Error())
	}
	return err
}

// readFile reads a regular file, up to one byte more than Parse accepts so that Parse
// can refuse a larger one. A FIFO or a device is refused: reading it could block
// forever.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.Join(errors.New("is not a file"), err)}
	}
	return io.ReadAll(io.LimitReader(f, lockfiles.MaxSize+1))
}

// nearFolder gives a parser access to the files beside the lock file, which some
// clients need to tell what is installed. Names have forward slashes.
func nearFolder(dir string) lockfiles.Near {
	return lockfiles.Near{
		ReadFile: func(name string) ([]byte, error) { return readFile(filepath.Join(dir, filepath.FromSlash(name))) },
		ReadDir: func(name string) (names []string, err error) {
			entries, err := os.ReadDir(filepath.Join(dir, filepath.FromSlash(name)))
			for _, e := range entries {
				if e.IsDir() {
					names = append(names, e.Name())
				}
			}
			return names, err
		},
	}
}

// A lockRow is a skill of a lock file, as it is installed. It is a line of `status
// --lock`.
type lockRow struct {
	lockfiles.Item
	plugin string // the plugin that it is one of several skills of, or ""
	path   string // its folder; "" if that is not found
	digest string // ClawHub hash of the folder; "" if it is unknown
}

// rows finds the folders of a file's items. A plugin with several skills becomes a row
// for each; one without a folder is a row with only what the lock file has.
func (f lockFile) rows(ctx context.Context) []lockRow {
	var all []lockRow
	// Only the pattern may have wildcards, not the name of the folder.
	escaped := strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`)
	for _, item := range f.Items {
		r := lockRow{Item: item, path: f.folderOf(item)}
		if r.path == "" || isFile(filepath.Join(r.path, "SKILL.md")) || !item.Plugin {
			all = append(all, r)
			continue
		}
		skills, _ := filepath.Glob(filepath.Join(escaped.Replace(r.path), "skills", "*", "SKILL.md"))
		if len(skills) == 0 {
			all = append(all, r)
		}
		for _, skill := range skills {
			dir := filepath.Dir(skill)
			inner := lockRow{Item: item, plugin: item.Name, path: dir}
			// The version and the hashes are the plugin's. That of the skill is found
			// by its files.
			inner.Name, inner.Version, inner.Hashes = filepath.Base(dir), "", nil
			all = append(all, inner)
		}
	}
	for i := range all {
		all[i].digest = digestOf(ctx, all[i].path)
	}
	return all
}

// isFile reports whether name is a regular file or a link to one.
func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// folderOf returns the first of an item's folders that exists, or "". An absolute one
// must be below the folder of the lock file, which may be written by anyone: otherwise
// it could make the command hash, and report, any folder of the machine.
func (f lockFile) folderOf(item lockfiles.Item) string {
	dir := filepath.Dir(f.path)
	for _, name := range item.Folders {
		path := filepath.FromSlash(name)
		if filepath.IsAbs(path) {
			rel, err := filepath.Rel(dir, path)
			if err != nil || !filepath.IsLocal(rel) {
				continue
			}
		} else {
			path = filepath.Join(dir, path)
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path
		}
	}
	return ""
}

// digestOf returns the ClawHub hash of a folder. It leaves out hidden files, where
// clients keep their own data. It is "" for a folder without a SKILL.md or that cannot
// be packed.
func digestOf(ctx context.Context, dir string) string {
	if dir == "" || !isFile(filepath.Join(dir, "SKILL.md")) {
		return ""
	}
	packed, err := server.PackFolder(ctx, dir)
	if err != nil {
		return ""
	}
	defer packed.Close()
	hashes, err := treehash.Of(packed.Package, filepath.Base(dir))
	if err != nil {
		return ""
	}
	for _, h := range hashes {
		if h.Kind == treehash.ClawHub {
			return h.Hex
		}
	}
	return ""
}

// A recordedPlace identifies an installation of this device: the same entry may be
// installed in several folders.
type recordedPlace struct{ entryID, path string }

// recordLocks reports the skills of lock files to the server as installations of this
// device. Installations on record with the same client are synced instead of recorded
// again, so that a second report changes nothing. Skills that the registry does not
// have are skipped.
func recordLocks(ctx context.Context, s *server.Session, out []lockFileOutput) error {
	device, _ := server.DeviceID()
	known, err := recorded(ctx, s, device)
	if err != nil {
		return err
	}
	var items []client.SyncItem
	seen := map[recordedPlace]bool{}
	for i := range out {
		for n := range out[i].Skills {
			o := &out[i].Skills[n]
			// A skill whose folder is unknown is recorded at the path of its lock file.
			path := cmp.Or(o.Path, out[i].File)
			at := recordedPlace{o.EntryID, path}
			if o.EntryID == "" || o.contentHash == "" {
				continue
			}
			o.Recorded = true
			if seen[at] {
				continue
			}
			seen[at] = true
			if known[at] == out[i].Client {
				items = append(items, client.SyncItem{
					EntryID: o.EntryID, CurrentVersionHash: o.contentHash, DeviceID: device, InstallPath: path,
				})
				continue
			}
			body := map[string]string{
				"device_id": device, "install_path": path, "content_hash": o.contentHash, "client": string(out[i].Client),
			}
			route := "/api/v1/registry/" + url.PathEscape(o.EntryID) + "/install"
			if err := s.Call(ctx, http.MethodPost, route, body, nil); err != nil {
				return err
			}
		}
	}
	if len(items) == 0 {
		return nil
	}
	_, err = s.Sync(ctx, items)
	return err
}

// recorded returns the installations of this device that the server has on record, with
// the client that each was reported for.
func recorded(ctx context.Context, s *server.Session, device string) (map[recordedPlace]lockfiles.Client, error) {
	var out struct {
		Installations []struct {
			EntryID     string           `json:"entry_id"`
			DeviceID    string           `json:"device_id"`
			InstallPath string           `json:"install_path"`
			Client      lockfiles.Client `json:"client"`
		} `json:"installations"`
	}
	err := s.Call(ctx, http.MethodGet, "/api/v1/registry/installed", nil, &out)
	known := map[recordedPlace]lockfiles.Client{}
	for _, i := range out.Installations {
		if i.DeviceID == device {
			known[recordedPlace{i.EntryID, i.InstallPath}] = i.Client
		}
	}
	return known, err
}

// A skillQuery is an item of POST /api/v1/registry/resolve: what a lock file has about
// a skill. All fields are optional; the server matches with what is there.
type skillQuery struct {
	Name         string           `json:"name,omitempty"`
	Organisation string           `json:"organisation,omitempty"`
	Version      string           `json:"version,omitempty"`
	EntryID      string           `json:"entry_id,omitempty"`
	FromHere     bool             `json:"from_here,omitempty"`
	Hashes       []lockfiles.Hash `json:"hashes,omitempty"`
}

// A foundSkill is the registry's answer to a query. EntryID is "" if it has no such
// skill that the key may see.
type foundSkill struct {
	State             string `json:"state"`
	MatchedBy         string `json:"matched_by"`
	EntryID           string `json:"entry_id"`
	Name              string `json:"name"`
	Organisation      string `json:"organisation"`
	Version           string `json:"version"`
	ContentHash       string `json:"content_hash"`
	LatestVersion     string `json:"latest_version"`
	LatestContentHash string `json:"latest_content_hash"`
}

// The states that the registry answers with; others are printed as they are.
const (
	lockUpToDate = "up_to_date"
	withdrawn    = "withdrawn"
	lockModified = "modified"
	unknown      = "unknown"
)

// resolveBatch is the API's limit of items per request.
const resolveBatch = 1000

// resolveSkills asks the registry about all queries, in batches, and returns the
// answers in their order. An answer that is missing is the zero foundSkill.
func resolveSkills(ctx context.Context, s *server.Session, queries []skillQuery) ([]foundSkill, error) {
	all := make([]foundSkill, 0, len(queries))
	for len(queries) > 0 {
		n := min(len(queries), resolveBatch)
		body := struct {
			Items []skillQuery `json:"items"`
		}{queries[:n]}
		var out struct {
			Items []foundSkill `json:"items"`
		}
		if err := s.Call(ctx, http.MethodPost, "/api/v1/registry/resolve", body, &out); err != nil {
			return nil, err
		}
		all = append(append(all, out.Items...), make([]foundSkill, max(0, n-len(out.Items)))...)
		queries = queries[n:]
	}
	return all, nil
}
