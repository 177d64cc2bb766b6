package lint

// A matcher finds which of many keywords occur in a line, in one pass over its
// bytes (Aho-Corasick). Only patterns whose keywords occur are tried: a hundred
// regular expressions on every line would take seconds.
type matcher struct {
	// class maps a byte to its column of next; bytes in no keyword share one.
	class   [256]uint8
	classes int
	// next is the state after a byte, by state and class.
	next []uint16
	// hits are, by state, the lists with a keyword that ends there.
	hits []keywordSet
}

// A keywordSet holds the numbers of up to 128 lists.
type keywordSet [2]uint64

func (s keywordSet) empty() bool                   { return s[0]|s[1] == 0 }
func (s keywordSet) union(t keywordSet) keywordSet { return keywordSet{s[0] | t[0], s[1] | t[1]} }

// newMatcher takes lists of keywords, which are in lower case.
func newMatcher(keywords [][]string) *matcher {
	m := &matcher{classes: 1}
	for _, list := range keywords {
		for _, word := range list {
			m.classify(word)
		}
	}
	m.addState()
	for n, list := range keywords {
		for _, word := range list {
			// Walk the trie along the keyword, adding the states that are missing.
			at := uint16(0)
			for i := range len(word) {
				step := int(at)*m.classes + int(m.class[word[i]])
				if m.next[step] == 0 {
					to := m.addState()
					m.next[step] = to
				}
				at = m.next[step]
			}
			m.hits[at][n/64] |= 1 << (n % 64)
		}
	}
	m.connect()
	return m
}

// classify assigns classes to the bytes of a keyword, ignoring case.
func (m *matcher) classify(word string) {
	for i := range len(word) {
		b := word[i]
		if m.class[b] != 0 {
			continue
		}
		m.class[b] = uint8(m.classes) // keywords are ASCII: there are fewer than 128
		if 'a' <= b && b <= 'z' {
			m.class[b-'a'+'A'] = m.class[b]
		}
		m.classes++
	}
}

func (m *matcher) addState() uint16 {
	m.next = append(m.next, make([]uint16, m.classes)...)
	m.hits = append(m.hits, keywordSet{})
	return uint16(len(m.hits) - 1) // keywords are few
}

// connect adds the failure links, which turn the trie into an automaton: where a
// keyword cannot continue, the longest suffix that begins another one does.
func (m *matcher) connect() {
	fallback := make([]uint16, len(m.hits))
	queue := []uint16{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for class := range m.classes {
			step := int(at)*m.classes + class
			other := uint16(0)
			if at != 0 {
				other = m.next[int(fallback[at])*m.classes+class]
			}
			child := m.next[step]
			if child == 0 {
				m.next[step] = other
				continue
			}
			fallback[child] = other
			m.hits[child] = m.hits[child].union(m.hits[other])
			queue = append(queue, child)
		}
	}
}

// Find returns the lists that have a keyword in the text.
func (m *matcher) Find(text string) keywordSet {
	var found keywordSet
	at := uint16(0)
	for i := range len(text) {
		at = m.next[int(at)*m.classes+int(m.class[text[i]])]
		if hit := &m.hits[at]; !hit.empty() {
			found = found.union(*hit)
		}
	}
	return found
}
