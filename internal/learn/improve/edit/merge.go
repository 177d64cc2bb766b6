package edit

import (
	"strings"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/compare"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/rewrite"
)

// Merge combines two versions of a SKILL.md that were made from the same one, each
// by the edits of one or more rounds. It reports false if they change the same
// passage, or passages that touch, in different ways, or if nothing is combined
// because one has all changes of the other. It is a three-way merge on words: lines are too coarse
// for paragraphs of prose.
func Merge(base, a, b string) (_ string, ok bool) {
	from, err := rewrite.Parse(base)
	if err != nil {
		return "", false
	}
	docA, errA := rewrite.Parse(a)
	docB, errB := rewrite.Parse(b)
	if errA != nil || errB != nil {
		return "", false
	}
	description, ok := mergeText(from.Description, docA.Description, docB.Description)
	if !ok {
		return "", false
	}
	body, ok := mergeText(from.RawBody, docA.RawBody, docB.RawBody)
	if !ok {
		return "", false
	}
	merged, err := from.With(description, body)
	if err != nil || merged == a || merged == b {
		return "", false
	}
	return merged, true
}

// A hunk replaces a range of the base. Neighbouring removals and insertions are one hunk.
type hunk struct {
	start, end int
	text       string
}

// hunks returns the changes between two texts, in order.
func hunks(base, changed string) (all []hunk) {
	at := 0
	for _, s := range compare.Words(base, changed) {
		if s.Kind == compare.Same {
			at += len(s.Text)
			continue
		}
		if n := len(all); n == 0 || all[n-1].end != at {
			all = append(all, hunk{start: at, end: at})
		}
		last := &all[len(all)-1]
		if s.Kind == compare.Removed {
			at += len(s.Text)
			last.end = at
		} else {
			last.text += s.Text
		}
	}
	return all
}

// mergeText applies the changes of both versions to the base. Hunks that touch count as a conflict,
// since their order would matter.
func mergeText(base, a, b string) (_ string, ok bool) {
	fromA, fromB := hunks(base, a), hunks(base, b)
	var out strings.Builder
	at := 0
	for len(fromA)+len(fromB) > 0 {
		switch {
		case len(fromB) == 0 || len(fromA) > 0 && fromA[0].end < fromB[0].start:
			at = fromA[0].write(&out, base, at)
			fromA = fromA[1:]
		case len(fromA) == 0 || fromB[0].end < fromA[0].start:
			at = fromB[0].write(&out, base, at)
			fromB = fromB[1:]
		// Both made the same change.
		case fromA[0] == fromB[0]:
			at = fromA[0].write(&out, base, at)
			fromA, fromB = fromA[1:], fromB[1:]
		default:
			return "", false
		}
	}
	out.WriteString(base[at:])
	return out.String(), true
}

// write writes the base from a position up to the hunk, and the hunk. It returns
// the position after it.
func (h hunk) write(out *strings.Builder, base string, at int) int {
	out.WriteString(base[at:h.start])
	out.WriteString(h.text)
	return h.end
}
