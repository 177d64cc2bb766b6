package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// LockName is the name of the lock file in a folder of skills.
const LockName = ".whetstone-lock.json"

// lockVersion is the version of the lock file's format.
const lockVersion = 1

// A Record is the entry of a skill in the lock file. Its fields are sorted by
// their keys, as everything in the file is, for small diffs in version control. The file is
// meant to be committed, so it has no absolute paths and nothing secret.
type Record struct {
	// ContentHash is the SHA-256 of the archive that was installed.
	ContentHash string `json:"content_hash"`
	EntryID     string `json:"entry_id"`
	// Explicit says that the skill was installed by its name, though others require it.
	Explicit bool `json:"explicit,omitempty"`
	// Files has the SHA-256 of every installed file by its path.
	Files       map[string]string `json:"files"`
	InstalledAt time.Time         `json:"installed_at"`
	// NoRequires keeps what it requires from being installed along.
	NoRequires bool `json:"no_requires,omitempty"`
	// Pinned keeps updates from replacing this version.
	Pinned bool `json:"pinned,omitempty"`
	// RequiredBy are the skills of the folder that require it, sorted.
	RequiredBy []string `json:"required_by,omitempty"`
	Server     string   `json:"server"`
	Version    string   `json:"version"`
}

// equal must compare every field: one that is left out would never be updated.
func (r Record) equal(other Record) bool {
	return maps.Equal(r.Files, other.Files) && r.InstalledAt.Equal(other.InstalledAt) &&
		r.ContentHash == other.ContentHash && r.EntryID == other.EntryID && r.Pinned == other.Pinned &&
		r.Server == other.Server && r.Version == other.Version && r.Explicit == other.Explicit &&
		r.NoRequires == other.NoRequires &&
		slices.Equal(r.RequiredBy, other.RequiredBy)
}

// A lockFile is the file. Its fields are sorted, too.
type lockFile struct {
	Skills  map[string]Record `json:"skills"`
	Version int               `json:"version"`
}

// ReadLock returns the records of a folder's lock file by the names of the
// skills. A folder without one has no skills. The file is untrusted, since it may
// come with a repository: a name that could lead out of the folder is refused.
func ReadLock(dir string) (_ map[string]Record, err error) {
	name := filepath.Join(dir, LockName)
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]Record{}, nil
	}
	if err != nil {
		return nil, err
	}
	var lock lockFile
	if err := json.Unmarshal(raw, &lock); err != nil {
		return nil, fault.New(fault.Conflict, "%s is not a lock file (%s); fix or remove it", name, err)
	}
	if lock.Version != lockVersion {
		return nil, fault.New(fault.Conflict,
			"%s has the form %d, and this program knows %d; use another version of whetstone",
			name, lock.Version, lockVersion)
	}
	for skill := range lock.Skills {
		if CheckName(skill) != nil {
			return nil, fault.New(fault.Conflict, "%s has a skill %q, which cannot be a folder; remove it there", name, skill)
		}
	}
	if lock.Skills == nil {
		lock.Skills = map[string]Record{}
	}
	return lock.Skills, nil
}

// encodeJSON encodes JSON for version control: indented, keys sorted, with a
// line break at the end and no HTML escapes in paths.
func encodeJSON(value any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(value)
	return b.Bytes(), err
}

// maxName leaves room within the 255 bytes of most file systems.
const maxName = 200

// CheckName validates the name of a skill: it must be usable as the name of a
// folder on every system. Names come from a registry and are untrusted.
func CheckName(name string) error {
	base, _, _ := strings.Cut(strings.ToUpper(name), ".")
	switch {
	case name == "" || len(name) > maxName || !utf8.ValidString(name):
	case name[0] == '.' || strings.HasSuffix(name, ".") || strings.TrimSpace(name) != name:
	case strings.ContainsAny(name, `/\:*?"<>|`) || strings.ContainsFunc(name, unicode.IsControl):
	case isWindowsDevice(base):
	default:
		return nil
	}
	return fault.Invalid("name", "%q cannot be the name of a folder on every system", name)
}

// isWindowsDevice reports whether the name is a device on Windows.
func isWindowsDevice(name string) bool {
	switch name {
	case "CON", "PRN", "AUX", "NUL":
		return true
	}
	port := strings.HasPrefix(name, "COM") || strings.HasPrefix(name, "LPT")
	// Windows also reserves them with an extension, e.g. "com1.txt", hence the cut in
	// CheckName.
	return port && len(name) == 4 && '0' <= name[3] && name[3] <= '9'
}
