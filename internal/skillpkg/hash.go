package skillpkg

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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
