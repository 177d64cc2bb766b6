package blob

import (
	"hash/maphash"
	"io/fs"
	"slices"
	"strings"
	"unicode"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// S3 allows 1,024 bytes for prefix and key together; a file system allows 255
// for one element.
const (
	maxKey     = 768
	maxPrefix  = 255
	maxElement = 255
)

// checkKey refuses keys that one of the implementations cannot store, or
// interprets in another way.
func checkKey(key string) error {
	switch {
	case !fs.ValidPath(key) || key == ".":
		return fault.Invalid("key", "key must be a relative path without empty, . or .. elements")
	case len(key) > maxKey:
		return fault.Invalid("key", "key must be at most %d bytes", maxKey)
	case strings.ContainsRune(key, '\\') || strings.ContainsFunc(key, unicode.IsControl):
		return fault.Invalid("key", "key must not contain control characters or backslashes")
	}
	for element := range strings.SplitSeq(key, "/") {
		if len(element) > maxElement {
			return fault.Invalid("key", "key must not have elements over %d bytes", maxElement)
		}
		if strings.HasSuffix(element, partSuffix) {
			return fault.Invalid("key", "key must not have elements that end in %s", partSuffix)
		}
	}
	return nil
}

// checkPrefix accepts the empty prefix, and every prefix of a valid key that ends
// with an element or with a slash.
func checkPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	return checkKey(strings.TrimSuffix(prefix, "/"))
}

// Keys is a set of very many keys, of which it keeps 64-bit hashes. Of a million
// keys, any two collide with a probability of 1 in 40 million. The zero value is
// empty. It is not safe for concurrent use.
type Keys struct {
	seed   maphash.Seed
	hashes []uint64
	sorted bool
}

// Add puts a key into the set.
func (k *Keys) Add(key string) {
	if k.hashes == nil {
		k.seed = maphash.MakeSeed()
	}
	k.hashes, k.sorted = append(k.hashes, maphash.String(k.seed, key)), false
}

// Has reports whether a key is in the set.
func (k *Keys) Has(key string) bool {
	if k.hashes == nil {
		return false
	}
	if !k.sorted {
		slices.Sort(k.hashes)
		k.sorted = true
	}
	_, ok := slices.BinarySearch(k.hashes, maphash.String(k.seed, key))
	return ok
}
