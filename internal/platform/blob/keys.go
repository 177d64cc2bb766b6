package blob

import (
	"hash/maphash"
	"slices"
)

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
