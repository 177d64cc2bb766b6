package blob

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"
)

// A Ref is a reference to a blob: a row needs it.
type Ref struct {
	Key    string
	SHA256 string // lower-case hex; empty where the owner does not know it
	Size   int64  // 0 where the owner does not know it
}

// ContentSum returns the SHA-256 that a key names, in lower-case hex: the last
// element up to its first dot, e.g. of "evals/o1/<sha256>.tar.gz". A blob under
// such a key never changes, and can be checked against it.
func ContentSum(key string) (sum string, ok bool) {
	name, _, _ := strings.Cut(path.Base(key), ".")
	raw, err := hex.DecodeString(name)
	if err != nil || len(raw) != sha256.Size || name != strings.ToLower(name) {
		return "", false
	}
	return name, true
}
