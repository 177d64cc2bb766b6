package skillpkg

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/whetstone-dev/whetstone/client/api"
)

// A ManifestEntry is a file in the manifest of a version.
type ManifestEntry = api.File

// Manifest lists the Installed files, sorted by path: a link has the hash and
// the size of the file that it points to.
func (p *Package) Manifest() []ManifestEntry {
	entries := []ManifestEntry{}
	for _, f := range p.installed {
		entries = append(entries, ManifestEntry{Path: f.Path, Hash: f.SHA256, Size: f.Size})
	}
	return entries
}

// CheckManifest says what is wrong with a manifest that somebody made of the same
// files, e.g. `leaves out "a.md"`: the first file on which they disagree; "" if they
// agree, or nobody made one. Links may be left out: not every client follows them.
func (p *Package) CheckManifest(claimed []ManifestEntry) string {
	if claimed == nil {
		return ""
	}
	byPath := map[string]ManifestEntry{}
	for _, f := range p.Manifest() {
		byPath[f.Path] = f
	}
	for _, c := range claimed {
		f, ok := byPath[c.Path]
		if !ok {
			return fmt.Sprintf("names %q, which is not in the archive, or twice", c.Path)
		}
		if f.Hash != c.Hash || f.Size != c.Size {
			return fmt.Sprintf("is wrong about %q: it has %d bytes and the SHA-256 %s", c.Path, f.Size, f.Hash)
		}
		delete(byPath, c.Path)
	}
	for _, f := range p.Files {
		if _, missing := byPath[f.Path]; missing && f.Kind == Regular {
			return fmt.Sprintf("leaves out %q", f.Path)
		}
	}
	return ""
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
