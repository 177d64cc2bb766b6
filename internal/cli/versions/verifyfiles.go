package versions

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/local/install"
)

// dirHash returns the digest of files (SHA-256 by path) as a provenance statement has
// it: the h1 hash of Go modules, in hex. It is "" if a path has a line break, which
// would make the hashed text ambiguous.
func dirHash(files map[string]string) string {
	digest := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if strings.Contains(path, "\n") {
			return ""
		}
		fmt.Fprintf(digest, "%s  %s\n", files[path], path)
	}
	return hex.EncodeToString(digest.Sum(nil))
}

// maxUnchecked is how many files and folders are listed.
const maxUnchecked = 20

// unchecked lists what is in a folder beside the files of the skill and the edits,
// folders with a slash at the end: .git, .env, __pycache__ and the like, which people
// and interpreters make. A folder without files of the skill is listed as one and not
// entered.
func unchecked(path string, files map[string]string, edits []install.Edit) ([]string, error) {
	found := []string{}
	known := func(p string) bool {
		_, ok := files[p]
		return ok || slices.ContainsFunc(edits, func(e install.Edit) bool { return e.Path == p })
	}
	below := func(p string) bool {
		for file := range files {
			if strings.HasPrefix(file, p+"/") {
				return true
			}
		}
		return slices.ContainsFunc(edits, func(e install.Edit) bool { return strings.HasPrefix(e.Path, p+"/") })
	}
	err := fs.WalkDir(os.DirFS(path), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == "." || known(p) || len(found) == maxUnchecked {
			return err
		}
		if !d.IsDir() {
			found = append(found, p)
			return nil
		}
		if below(p) {
			return nil
		}
		// An empty folder is harmless. One that cannot be listed is not: programs may
		// still load files in it.
		if entries, err := fs.ReadDir(os.DirFS(path), p); err != nil || len(entries) > 0 {
			found = append(found, p+"/")
		}
		return fs.SkipDir
	})
	return found, err
}
