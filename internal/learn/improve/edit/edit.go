// Package edit changes a SKILL.md by a few small edits, and guards what they may
// do. An edit names its place by an anchor, a passage that the text has exactly
// once. Of the frontmatter only the description can be changed. It owns no tables.
package edit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/compare"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/rewrite"
)

// MaxEdits is how many edits a round may have. With more of them scores collapse
// (SkillOpt, arXiv 2605.23904).
const MaxEdits = 4

// Limits of growth: the larger of both is allowed. Without a limit, texts grow with every round.
const (
	maxGrowth      = 0.2 // of the text
	maxGrowthRunes = 400 * runesPerToken
	runesPerToken  = 4
)

// The operations of an edit.
const (
	Replace     = "replace"
	InsertAfter = "insert_after"
	Delete      = "delete"
)

// An Edit is one change of a SKILL.md.
type Edit = api.Edit

// A Target is the part of a SKILL.md that edits may change.
type Target string

// The targets.
const (
	Description Target = "description"
	Body        Target = "body"
	Both        Target = "both"
)

// Refused says why an edit was not applied.
type Refused struct {
	Edit Edit
	// N is its number in the list, from 1.
	N int
	// Why quotes nothing of the edit, so it can be sent to the model that wrote it.
	Why string
}

func (r Refused) String() string { return fmt.Sprintf("edit %d %s", r.N, r.Why) }

// Apply applies the edits to a SKILL.md, wherever they may change it.
func Apply(skillMD string, edits []Edit) (string, []Refused) { return Both.Apply(skillMD, edits) }

// Apply applies the edits to a SKILL.md, and returns those that it refuses. All
// anchors are looked up in the text as it was, so the order of the edits does not
// matter, except that the later of two that cannot both be applied is refused.
// White space around a change is mended: an insertion after a whole line is a line
// of its own, and a deleted line leaves none. Line ends and a missing final newline
// are kept.
func (t Target) Apply(skillMD string, edits []Edit) (string, []Refused) {
	var refused []Refused
	refuse := func(n int, format string, args ...any) {
		refused = append(refused, Refused{Edit: edits[n], N: n + 1, Why: fmt.Sprintf(format, args...)})
	}
	// Without a frontmatter there is no telling description from body.
	doc, err := rewrite.Parse(skillMD)
	if err != nil {
		for n := range edits {
			refuse(n, "cannot be applied: SKILL.md has no valid frontmatter")
		}
		return skillMD, refused
	}
	var changes []change
	// The limit is for all edits together, in their order.
	room := growthLimit(skillMD)
	for n, e := range edits {
		c, err := t.locate(doc, e)
		if err != nil {
			refuse(n, "%s", err)
			continue
		}
		c.n = n
		grown := utf8.RuneCountInString(c.text) - utf8.RuneCountInString(textOf(doc, c.part)[c.start:c.end])
		switch {
		case n >= MaxEdits:
			refuse(n, "is one too many: a round has at most %d", MaxEdits)
		case slices.ContainsFunc(changes, c.overlaps):
			refuse(n, "overlaps with another one")
		case grown > room:
			refuse(n, "makes the text too long: it may grow by %d %% or about %d tokens, whichever is more",
				int(100*maxGrowth), maxGrowthRunes/runesPerToken)
		default:
			room -= grown
			changes = append(changes, c)
		}
	}
	description := apply(doc.Description, inDescription, changes)
	body := apply(doc.RawBody, inBody, rawChanges(doc, changes))
	// If the changed description isn't valid YAML or too long, its edits are refused and those of
	// the body stay.
	changed, err := doc.With(description, body)
	if err != nil { // of the description
		for _, c := range changes {
			if c.part == inDescription {
				refuse(c.n, "makes a description that %s", err)
			}
		}
		if changed, err = doc.With(doc.Description, body); err != nil {
			changed = skillMD
		}
	}
	slices.SortStableFunc(refused, func(a, b Refused) int { return cmp.Compare(a.N, b.N) })
	return changed, refused
}

// growthLimit is by how many characters a text may grow.
func growthLimit(before string) int {
	return max(int(maxGrowth*float64(utf8.RuneCountInString(before))), maxGrowthRunes)
}

// Unified returns the unified diff between two versions of a SKILL.md.
func Unified(before, after string) string {
	if before == after {
		return ""
	}
	return string(compare.Texts("SKILL.md", before, after))
}

// A part of a SKILL.md.
type part int

const (
	inDescription part = iota
	inBody
)

// textOf returns the text of a part, in which anchors are looked up.
func textOf(d *rewrite.Document, p part) string {
	if p == inDescription {
		return d.Description
	}
	return d.Body
}

// A change replaces a range of a part. The range of its anchor is claimed: no
// other change may touch it. Two edits of one anchor would depend on their order.
type change struct {
	n                  int // index of its edit
	part               part
	start, end         int // bytes of the part
	text               string
	claimFrom, claimTo int
}

func (c change) overlaps(other change) bool {
	return c.part == other.part && c.claimFrom < other.claimTo && other.claimFrom < c.claimTo
}

// locate finds the place of an edit.
func (t Target) locate(doc *rewrite.Document, e Edit) (change, error) {
	anchor, added := rewrite.LineFeeds(e.Anchor), rewrite.LineFeeds(e.Text)
	switch {
	case !text.Valid(anchor) || !text.Valid(added):
		return change{}, fmt.Errorf("is not text")
	case e.Op != Replace && e.Op != InsertAfter && e.Op != Delete:
		return change{}, fmt.Errorf("has an unknown op: only %s, %s and %s are allowed", Replace, InsertAfter, Delete)
	case strings.TrimSpace(anchor) == "":
		return change{}, fmt.Errorf("has no anchor")
	case e.Op != Delete && strings.TrimSpace(added) == "":
		return change{}, fmt.Errorf("has no text")
	case e.Op == Replace && added == anchor:
		return change{}, fmt.Errorf("changes nothing")
	}
	in, at, err := t.find(doc, anchor)
	if err != nil {
		return change{}, err
	}
	c := change{part: in, start: at, end: at + len(anchor), claimFrom: at, claimTo: at + len(anchor)}
	switch whole := textOf(doc, in); e.Op {
	case Replace:
		c.text = added
	case InsertAfter:
		c.start = c.end
		c.text = separator(whole, c.end, added, in) + added
	case Delete:
		c.start, c.end = widen(whole, c.start, c.end)
	}
	return c, nil
}

// find returns the part and the position of the only occurrence of an anchor in
// what the target allows to change. The message says what to do, since the model that wrote the
// edit gets it.
func (t Target) find(doc *rewrite.Document, anchor string) (in part, at int, err error) {
	inDesc, body := count(doc.Description, anchor), count(doc.Body, anchor)
	var allowed int
	switch t {
	case Description:
		allowed = inDesc
	case Body:
		allowed = body
	default:
		allowed = inDesc + body
	}
	switch {
	case allowed > 1:
		return 0, 0, fmt.Errorf("has an anchor that occurs %d times; it must occur once", allowed)
	case allowed == 0 && inDesc+body > 0:
		return 0, 0, fmt.Errorf("is outside the %s, which is all that may be changed", t)
	case allowed == 0 && strings.Contains(rewrite.LineFeeds(doc.Head), anchor):
		return 0, 0, fmt.Errorf("is in the frontmatter, of which only the value of description may be changed")
	case allowed == 0:
		return 0, 0, fmt.Errorf("has an anchor that does not occur")
	}
	if t != Body && inDesc == 1 {
		return inDescription, strings.Index(doc.Description, anchor), nil
	}
	return inBody, strings.Index(doc.Body, anchor), nil
}

// count counts occurrences up to 100, overlapping ones too: "aa" is twice in "aaa". An anchor that
// overlaps itself is ambiguous, too.
func count(s, anchor string) (n int) {
	for n < 100 {
		at := strings.Index(s, anchor)
		if at < 0 {
			return n
		}
		n++
		s = s[at+1:]
	}
	return n
}

// separator is what an insertion needs before it: a newline if the anchor ends a
// line, a space inside of one.
func separator(whole string, at int, added string, in part) string {
	if strings.ContainsAny(added[:1], " \t\n") || at > 0 && whole[at-1] == '\n' {
		return ""
	}
	if in == inBody && (at == len(whole) || whole[at] == '\n') {
		return "\n"
	}
	return " "
}

// widen extends a range that is to be deleted by the white space that would be
// left over: the newline of whole lines, or one of the spaces around it.
func widen(whole string, start, end int) (int, int) {
	lineStart := start == 0 || whole[start-1] == '\n'
	lineEnd := end == len(whole) || whole[end] == '\n'
	switch {
	case lineStart && end < len(whole) && whole[end] == '\n':
		return start, end + 1
	case lineEnd:
		for start > 0 && whole[start-1] == ' ' {
			start--
		}
	case (lineStart || whole[start-1] == ' ') && whole[end] == ' ':
		return start, end + 1
	}
	return start, end
}

// apply makes the changes of one part.
func apply(whole string, in part, changes []change) string {
	var mine []change
	for _, c := range changes {
		if c.part == in {
			mine = append(mine, c)
		}
	}
	slices.SortFunc(mine, func(a, b change) int { return cmp.Compare(a.claimFrom, b.claimFrom) })
	var b strings.Builder
	done := 0
	for _, c := range mine {
		b.WriteString(whole[done:max(c.start, done)]) // two deletions may share the space between them
		b.WriteString(c.text)
		done = max(c.end, done)
	}
	b.WriteString(whole[done:])
	return b.String()
}

// rawChanges translates changes of the body into changes of the file's bytes. Body has line feeds
// only; the file may have CRLF, which an edit must not change elsewhere.
func rawChanges(d *rewrite.Document, changes []change) []change {
	raw := slices.Clone(changes)
	for i := range raw {
		c := &raw[i]
		if c.part == inBody {
			c.start, c.end, c.text = rawOffset(d, c.start), rawOffset(d, c.end), d.LineEnds(c.text)
		}
	}
	return raw
}

// rawOffset returns the position in RawBody of a position in Body.
func rawOffset(d *rewrite.Document, at int) int {
	if len(d.Body) == len(d.RawBody) {
		return at
	}
	raw := 0
	for range strings.Count(d.Body[:at], "\n") {
		raw += strings.IndexByte(d.RawBody[raw:], '\n') + 1
	}
	return raw + at - (strings.LastIndexByte(d.Body[:at], '\n') + 1)
}
