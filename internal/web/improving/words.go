// Package improving prepares what the pages of improve runs and proposals show: word
// diffs, evidence in sentences, and what a proof means.
package improving

import (
	"strings"

	"github.com/whetstone-dev/whetstone/internal/learn/improve/edit"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/compare"
)

// Note is the writer's reason for a candidate, or "" if its edits say the same.
func Note(reason string, edits []edit.Edit) string {
	if len(edits) == 1 && edits[0].Why == reason {
		return ""
	}
	return reason
}

// A Passage is a part of a text with its changes, word by word.
type Passage struct {
	Where string // e.g. "line 12"; "" for a whole text
	Spans []compare.Span
}

// maxDiff is how much of a diff a page shows, in bytes.
const maxDiff = 128 << 10

// Diff reads a unified diff of one file as passages, and reports whether there is
// more than a page shows.
func Diff(unified string) (passages []Passage, more bool) {
	if len(unified) > maxDiff {
		unified, more = unified[:strings.LastIndexByte(unified[:maxDiff], '\n')+1], true
	}
	var before, after strings.Builder
	flush := func() {
		if len(passages) > 0 {
			passages[len(passages)-1].Spans = compare.Words(before.String(), after.String())
		}
		before.Reset()
		after.Reset()
	}
	for line := range strings.Lines(unified) {
		if where, ok := strings.CutPrefix(line, "@@ -"); ok {
			flush()
			where, _, _ = strings.Cut(where, ",")
			where, _, _ = strings.Cut(where, " ")
			passages = append(passages, Passage{Where: "line " + where})
			continue
		}
		if len(passages) == 0 {
			continue // the names of the file
		}
		switch line[0] {
		case '-':
			before.WriteString(line[1:])
		case '+':
			after.WriteString(line[1:])
		case ' ':
			before.WriteString(line[1:])
			after.WriteString(line[1:])
		}
	}
	flush()
	return passages, more
}

// Texts compares two texts. The second may be nil, if nothing is proposed yet.
func Texts(before, after *string) []Passage {
	if after == nil {
		return nil
	}
	was := ""
	if before != nil {
		was = *before
	}
	return []Passage{{Spans: compare.Words(was, *after)}}
}
