package edit

import (
	"iter"
	"unicode"
)

// leakLength is how many characters in a row a text may not have in common with a
// held-out case, white space and case aside. Shorter passages occur in many texts by chance, e.g.
// names of formats.
const leakLength = 40

// repeats reports whether a text has leakLength characters in a row of one of the
// held-out texts that it did not have before. It hashes each window of the texts
// once (Rabin-Karp), so its time is linear in them, and its memory in the text.
func repeats(heldOut []string, before, after string) bool {
	if len(heldOut) == 0 || before == after {
		return false
	}
	added := map[uint64]bool{}
	for h := range windows(after) {
		added[h] = true
	}
	for h := range windows(before) {
		delete(added, h)
	}
	var filter [1 << 10]uint64 // one bit of each hash: most windows are not in the map
	for h := range added {
		filter[h>>48%1024] |= 1 << (h >> 58)
	}
	if len(added) == 0 {
		return false
	}
	for _, text := range heldOut {
		for h := range windows(text) {
			if filter[h>>48%1024]&(1<<(h>>58)) != 0 && added[h] {
				return true
			}
		}
	}
	return false
}

// hashBase is odd and has no small factors. Two different windows of one hash only
// refuse an edit that could have been allowed.
const hashBase uint64 = 0x9E3779B97F4A7C15

// windows returns the hashes of all windows of a text, with its letters in lower
// case and runs of white space as one space.
func windows(s string) iter.Seq[uint64] {
	out := uint64(1) // the weight of the character that leaves the window
	for range leakLength {
		out *= hashBase
	}
	return func(yield func(uint64) bool) {
		var ring [leakLength]uint64
		var hash uint64
		n, space := 0, true
		for _, r := range s {
			if unicode.IsSpace(r) {
				if space {
					continue
				}
				r = ' '
			}
			space = r == ' '
			if r < 0x80 {
				if 'A' <= r && r <= 'Z' {
					r += 'a' - 'A'
				}
			} else {
				r = unicode.ToLower(r)
			}
			at := n % leakLength
			hash = hash*hashBase + uint64(r) - ring[at]*out
			ring[at] = uint64(r)
			if n++; n >= leakLength && !yield(hash) {
				return
			}
		}
	}
}
