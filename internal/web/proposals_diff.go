package web

import (
	"strings"

	"github.com/whetstone-dev/whetstone/internal/learn/improve/edit"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/compare"
)

// improveNote is the writer's reason for a candidate, or "" if its edits say the same.
func improveNote(reason string, edits []edit.Edit) string {
	if len(edits) == 1 && edits[0].Why == reason {
		return ""
	}
	return reason
}

// A passage is a part of a text with its changes, word by word.
type passage struct {
	Where string // e.g. "line 12"; "" for a whole text
	Spans []compare.Span
}

// maxWordDiff is how much of a diff a page shows, in bytes.
const maxWordDiff = 128 << 10

// wordDiff reads a unified diff of one file as passages, and reports whether there is
// more than a page shows.
func wordDiff(unified string) (passages []passage, more bool) {
	if len(unified) > maxWordDiff {
		// At the end of a line: half a line would look like a change.
		unified, more = unified[:strings.LastIndexByte(unified[:maxWordDiff], '\n')+1], true
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
			passages = append(passages, passage{Where: "line " + where})
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

// diffOfTexts compares two texts. The second may be nil, if nothing is proposed yet.
func diffOfTexts(before, after *string) []passage {
	if after == nil {
		return nil
	}
	was := ""
	if before != nil {
		was = *before
	}
	return []passage{{Spans: compare.Words(was, *after)}}
}
