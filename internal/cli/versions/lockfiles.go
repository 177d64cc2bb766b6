package versions

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/lockfiles"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/treehash"
)

// A lockFile is one that was read.
type lockFile struct {
	lockfiles.File
	path string // absolute
}

// readAll reads lock files, and those that a folder has at their usual places.
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

func unwrap(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return errors.New(e.Path + ": " + e.Err.Error())
	}
	return err
}

// readFile reads a file up to one byte more than Parse accepts.
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

// A lockRow is a skill of a lock file, as it is installed.
type lockRow struct {
	lockfiles.Item
	plugin string // that it is in, if it is one of several
	path   string // of its folder; "" if that is not found
	digest string // of its folder: the clawhub hash; "" if it is not known
}

// rows finds the folders of a file's items. A plugin with several skills becomes a row
// for each.
func (f lockFile) rows(ctx context.Context) []lockRow {
	var all []lockRow
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
			// The version is the plugin's; only the files tell that of the skill.
			inner.Name, inner.Version, inner.Hashes = filepath.Base(dir), "", nil
			all = append(all, inner)
		}
	}
	for i := range all {
		all[i].digest = digestOf(ctx, all[i].path)
	}
	return all
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// folderOf returns the first folder of an item that there is. An absolute one must be
// below the lock file's: the file may be anybody's.
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

// digestOf is the hash of a folder without what clients keep there for themselves, in
// hidden files. A folder that is no skill has none.
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
