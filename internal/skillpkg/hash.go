package skillpkg

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/collate"
	"golang.org/x/text/language"
)

// A ManifestEntry is a file in the manifest of a version.
type ManifestEntry struct {
	Path string `json:"path"`
	Hash string `json:"hash"`
	Size int64  `json:"size"`
}

// Manifest lists the Installed files, sorted by path: a link has the hash and
// the size of the file that it points to.
func (p *Package) Manifest() []ManifestEntry {
	entries := []ManifestEntry{}
	for _, f := range p.installed {
		entries = append(entries, ManifestEntry{Path: f.Path, Hash: f.SHA256, Size: f.Size})
	}
	return entries
}

// TreeDigest identifies the content of an installation: the SHA-256 over path,
// size and digest of the Installed files. Unlike the digest of the archive it
// does not depend on how the files were packed.
func (p *Package) TreeDigest() string {
	digest := sha256.New()
	for _, f := range p.installed {
		digest.Write(fmt.Appendf(nil, "%s\x00%d\x00%s\n", f.Path, f.Size, f.SHA256))
	}
	return hex.EncodeToString(digest.Sum(nil))
}

// Fingerprint returns the hash by which ClawHub's clients look up the version of
// an installation: the SHA-256 of lines "path:sha256" without hidden files and
// node_modules. Paths are sorted as JavaScript's localeCompare does, by Unicode
// collation: "scripts/x.sh" comes before "SKILL.md". It is a function, not a
// method, so that the linker drops the tables of the collation (1 MB) from
// programs that do not call it.
func Fingerprint(p *Package) string {
	// A Collator is not safe for concurrent use.
	collator := collate.New(language.Und)
	files := slices.SortedStableFunc(slices.Values(p.installed), func(a, b File) int {
		return collator.CompareString(a.Path, b.Path)
	})
	var lines []string
	for _, f := range files {
		omitted := func(segment string) bool { return segment[0] == '.' || segment == "node_modules" }
		if !slices.ContainsFunc(strings.Split(f.Path, "/"), omitted) {
			lines = append(lines, f.Path+":"+f.SHA256)
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:])
}
