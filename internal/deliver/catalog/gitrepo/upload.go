package gitrepo

import (
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/gittree"
)

// A request is what a client wants to fetch. It is that of all protocol versions;
// they differ in how lines are framed.
type request struct {
	wants, haves []gittree.Hash
	shallow      map[gittree.Hash]bool // commits of the client whose parents it lacks
	depth        int                   // 0: everything
	done         bool                  // it has no more to say about what it has
	sideBand     bool
}

// maxWants is how many commits a client may want: there is one branch.
const maxWants = 64

// read takes one line of a request.
func (q *request) read(text string) error {
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "want", "have", "shallow":
		name, capabilities, _ := strings.Cut(rest, " ")
		h, ok := gittree.ParseHash(name)
		if !ok {
			return malformed("the object %q", name[:min(len(name), 64)])
		}
		switch word {
		case "want":
			q.wants = append(q.wants, h)
			// Versions 0 and 1 list capabilities after the first want; version 2
			// always has it.
			q.sideBand = q.sideBand || strings.Contains(" "+capabilities+" ", " side-band-64k ")
		case "have":
			q.haves = append(q.haves, h)
		case "shallow":
			q.shallow[h] = true
		}
		if len(q.wants) > maxWants {
			return malformed("more than %d wants", maxWants)
		}
	case "deepen":
		n, err := strconv.ParseUint(rest, 10, 31)
		if err != nil {
			return malformed("the depth %q", rest[:min(len(rest), 64)])
		}
		q.depth = int(n)
	// Not advertised, so only a broken client asks.
	case "deepen-since", "deepen-not", "deepen-relative", "filter", "want-ref", "packfile-uris":
		return malformed("this server has no %s", word)
	case "done":
		q.done = true
	}
	// The others are about the form of the answer, or are not known.
	return nil
}

// An answer is what a client gets.
type answer struct {
	selection
	common             []gittree.Hash // of what the client has
	shallow, unshallow []gittree.Hash
	// lost says that the client has a commit that was served before, and none to
	// continue from.
	lost bool
}

// answerTo chooses the commits for a request. It returns false, with the unknown
// object, if the client wants one that this shelf does not serve.
func (r *repo) answerTo(q request) (a answer, unknown gittree.Hash, ok bool) {
	numbers := map[gittree.Hash]int64{}
	for _, c := range r.commits {
		numbers[c.hash] = c.number
	}
	top := int64(-1)
	// There is one branch, so the wants differ only if it moved while a client was
	// asking.
	for _, want := range q.wants {
		n, ok := numbers[want]
		if !ok {
			return a, want, false
		}
		top = max(top, n)
	}
	// The parent of the boundary is not served, but who has it can go on from there.
	from, boundary := r.boundary().number, r.boundary()
	a.have = -1
	if !r.complete() {
		numbers[boundary.parent] = boundary.number - 1
	}
	since := int64(-1)
	for _, have := range q.haves {
		// The client may have newer commits than it wants, which do not help it.
		if n, ok := numbers[have]; ok && n <= top {
			a.common = append(a.common, have)
			since = max(since, n)
		}
	}
	// The parent of the boundary itself has no plugins here: the client gets all of
	// them.
	if since >= from {
		a.have = since
	}
	switch {
	case q.depth > 0:
		from = max(from, top-int64(q.depth)+1)
	case since >= 0:
		from = since + 1
	default:
		a.lost = slices.ContainsFunc(q.haves, func(h gittree.Hash) bool { return r.older[h] })
	}
	for _, c := range r.commits {
		if c.number > top || c.number < from {
			continue
		}
		a.commits = append(a.commits, c)
		if q.shallow[c.hash] && c.number > from && q.depth > 0 {
			// The client had this commit without its parents, and now gets them.
			a.unshallow = append(a.unshallow, c.hash)
		}
	}
	if last := len(a.commits) - 1; last >= 0 && (q.depth > 0 || since < 0) && a.commits[last].parent != (gittree.Hash{}) {
		a.shallow = []gittree.Hash{a.commits[last].hash}
	}
	return a, gittree.Hash{}, true
}
