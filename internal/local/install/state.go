package install

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// A Condition is how the folder of a skill relates to its Record.
type Condition string

// The conditions.
const (
	Missing  Condition = "missing"
	Clean    Condition = "clean"
	Modified Condition = "modified"
)

// A State is the state of a skill's folder. It is computed from the files alone; times of
// modification are not looked at.
type State struct {
	Condition Condition
	// Edits are the changes since the installation, sorted by path.
	Edits []Edit
	// Digest is a SHA-256 over paths and contents; "" if the folder is missing.
	Digest string
}

// An Edit is a file that differs from the installed one.
type Edit struct {
	Path   string `json:"path"`
	Change Change `json:"change"`
}

// A Change is what happened to a file.
type Change string

// The changes.
const (
	Changed Change = "changed"
	Added   Change = "added"
	Removed Change = "removed"
)

// Inspect compares the folder of a skill with its record. Files that systems and
// interpreters generate are not edits, and neither are files that belong to the
// user: .env*, .git and node_modules. It takes no lock, so it may see a swap in progress, in
// which the folder is missing for a moment.
func Inspect(dir, name string, r Record) (_ State, err error) {
	defer fault.Wrap(&err, "skill %s", name)
	if err := CheckName(name); err != nil {
		return State{}, err
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return State{Condition: Missing}, nil
	}
	if err != nil {
		return State{}, err
	}
	defer func() { _ = root.Close() }() // it was only read
	found, err := scan(root, name, r.Files)
	return found.state(r.Files), err
}

// A scanResult is the content of a skill's folder.
type scanResult struct {
	present bool
	// files are the files that could be the skill's, by path.
	files map[string]foundFile
	// userOwned are the paths that a skill never has but its user may need.
	userOwned []string
}

// hash is the type instead for what is no regular file, e.g. "L---------": it equals no
// SHA-256.
type foundFile struct {
	size       int64
	hash       string
	executable bool
}

// scan reads the folder of a skill. owned are the files of the skill, whatever
// they are called. A skill may contain a file called .env.example, which is then the skill's.
func scan(root *os.Root, name string, owned map[string]string) (scanResult, error) {
	f := scanResult{files: map[string]foundFile{}}
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	f.present = true
	if !info.IsDir() { // e.g. a symbolic link of the user's
		f.files["."] = foundFile{hash: info.Mode().Type().String()}
		return f, nil
	}
	folder, err := root.OpenRoot(name)
	if err != nil {
		return f, err
	}
	defer func() { _ = folder.Close() }() // it was only read
	return f, fs.WalkDir(folder.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return f.add(folder, p, d, owned)
	})
}

// add classifies one path. Folders of the user's are not descended into: they may be huge.
func (f *scanResult) add(folder *os.Root, p string, d fs.DirEntry, owned map[string]string) error {
	if !overlaps(p, owned) {
		kind := classify(d.Name())
		if kind == userOwned {
			f.userOwned = append(f.userOwned, p)
		}
		if kind != ordinary && d.IsDir() {
			return fs.SkipDir
		}
		if kind != ordinary {
			return nil
		}
	}
	if d.IsDir() {
		return nil
	}
	file, err := readFile(folder, p, d)
	f.files[p] = file
	return err
}

// readFile hashes a file as a stream.
func readFile(folder *os.Root, p string, d fs.DirEntry) (foundFile, error) {
	if !d.Type().IsRegular() { // a skill has no links or devices once it is installed
		return foundFile{hash: d.Type().String()}, nil
	}
	file, err := folder.Open(p)
	if err != nil {
		return foundFile{}, err
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return foundFile{}, err
	}
	digest := sha256.New()
	size, err := io.Copy(digest, file)
	return foundFile{size, hex.EncodeToString(digest.Sum(nil)), info.Mode()&0o111 != 0}, err
}

// A kind says by the name of a file who created it.
type kind int

const (
	ordinary  kind = iota
	generated      // by systems and interpreters
	userOwned      // never in a skill, but its user may need it
)

// classify looks at the last element of a path only.
func classify(name string) kind {
	switch name {
	case ".DS_Store", "__MACOSX", "__pycache__":
		return generated
	case ".git", "node_modules":
		return userOwned
	}
	if strings.HasPrefix(name, ".env") {
		return userOwned
	}
	return ordinary
}

// overlaps reports whether one of the files is at the path, below or above it.
func overlaps(p string, files map[string]string) bool {
	if _, ok := files[p]; ok || p == "." {
		return true
	}
	for file := range files {
		if strings.HasPrefix(file, p+"/") || strings.HasPrefix(p, file+"/") {
			return true
		}
	}
	return false
}

// state compares what was found with the files of the record. Permissions are no edits.
func (f scanResult) state(installed map[string]string) State {
	if !f.present {
		return State{Condition: Missing}
	}
	s := State{Condition: Clean, Digest: f.digest()}
	for p, file := range f.files {
		if hash, ok := installed[p]; !ok {
			s.Edits = append(s.Edits, Edit{p, Added})
		} else if hash != file.hash {
			s.Edits = append(s.Edits, Edit{p, Changed})
		}
	}
	for p := range installed {
		if _, ok := f.files[p]; !ok {
			s.Edits = append(s.Edits, Edit{p, Removed})
		}
	}
	slices.SortFunc(s.Edits, func(a, b Edit) int { return cmp.Compare(a.Path, b.Path) })
	if len(s.Edits) > 0 {
		s.Condition = Modified
	}
	return s
}

// digest changes with every edit, so that a report of the same edits can be recognised.
func (f scanResult) digest() string {
	digest := sha256.New()
	for _, p := range slices.Sorted(maps.Keys(f.files)) {
		digest.Write(fmt.Appendf(nil, "%s\x00%d\x00%s\n", path.Clean(p), f.files[p].size, f.files[p].hash))
	}
	return hex.EncodeToString(digest.Sum(nil))
}
