package skillpkg

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/chunk"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

// A ManifestEntry is one regular file as clients of the registry name it.
type ManifestEntry struct {
	Path string `json:"path"`
	Hash string `json:"hash"`
	Size int64  `json:"size"`
}

// Manifest lists the regular files of the archive, sorted by path.
func (p *Package) Manifest() []ManifestEntry {
	entries := []ManifestEntry{}
	for _, f := range p.Files {
		if f.Kind == Regular {
			entries = append(entries, ManifestEntry{Path: f.Path, Hash: f.SHA256, Size: f.Size})
		}
	}
	return entries
}

// TreeDigest is our own name for what an installation of the package holds:
// the SHA-256 over path, size and digest of the Installed files. Unlike that
// of the archive it does not depend on how the files were packed.
func (p *Package) TreeDigest() string {
	digest := sha256.New()
	for _, f := range p.installed {
		digest.Write(fmt.Appendf(nil, "%s\x00%d\x00%s\n", f.Path, f.Size, f.SHA256))
	}
	return hex.EncodeToString(digest.Sum(nil))
}

// An Order is a way to sort paths. Other tools hash files in the order of
// their user's language, and some copies of them in that of the bytes:
// whoever looks for a hash must try both.
type Order int

// The orders.
const (
	ByteOrder Order = iota
	// LocaleOrder is that of languages in Latin script, exact for ASCII paths.
	LocaleOrder
)

// LockHash returns the computedHash that skills-lock.json has for an
// installation of the package: SHA-256 over each path and content.
func (p *Package) LockHash(ctx context.Context, order Order) (_ string, err error) {
	defer fault.Wrap(&err, "lock hash")
	digest := sha256.New()
	for _, f := range order.sort(p.installed) {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if hasSegment(f.Path, func(s string) bool { return s == ".git" || s == "node_modules" }) {
			continue
		}
		digest.Write([]byte(f.Path))
		if _, err := chunk.Copy(digest, p.content(f)); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// Fingerprint returns the hash by which ClawHub's clients ask for the version
// that is installed: SHA-256 over lines of path and digest, hidden files and
// node_modules left out.
func (p *Package) Fingerprint(order Order) string {
	var lines []string
	for _, f := range order.sort(p.installed) {
		if hasSegment(f.Path, func(s string) bool { return s[0] == '.' || s == "node_modules" }) {
			continue
		}
		lines = append(lines, f.Path+":"+f.SHA256)
	}
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:])
}

func hasSegment(path string, is func(string) bool) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), is)
}

// sort returns the files in the order; they come sorted by bytes.
func (o Order) sort(files []File) []File {
	if o == ByteOrder {
		return files
	}
	return slices.SortedFunc(slices.Values(files), func(a, b File) int { return compareLocale(a.Path, b.Path) })
}

// compareLocale compares like the root collation of Unicode: letters first
// whatever their case, then lower before upper case. Characters beyond ASCII
// come last, by code point.
func compareLocale(a, b string) int {
	weights := func(s string) (primary, tertiary []int) {
		for _, r := range s {
			w := int(r) + len(collation)
			if i := strings.IndexRune(collation, r); i >= 0 {
				w = i
			}
			upper := 0
			if 'A' <= r && r <= 'Z' {
				w, upper = strings.IndexRune(collation, r|0x20), 1
			}
			primary, tertiary = append(primary, w), append(tertiary, upper)
		}
		return primary, tertiary
	}
	primaryA, tertiaryA := weights(a)
	primaryB, tertiaryB := weights(b)
	return cmp.Or(slices.Compare(primaryA, primaryB), slices.Compare(tertiaryA, tertiaryB))
}

// collation is the printable part of ASCII in the order of Unicode's root
// collation, without upper-case letters.
const collation = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"
