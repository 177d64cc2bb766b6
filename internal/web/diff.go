package web

import (
	"fmt"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/compare"
	"github.com/whetstone-dev/whetstone/internal/web/format"
)

// A diff is what changed between two sets of files, as pages show it.
type diff struct {
	Files   []diffFile
	Cut     bool   // only the beginning is shown
	URL     string // of the whole diff; "" if no page has it
	Command string // that prints the whole diff; "" if URL does
}

// A diffFile is the diff of one file.
type diffFile struct {
	Name           string
	Added, Removed int // lines
	Lines          []diffLine
}

// A diffLine is a line of a diff, with its changed words marked.
type diffLine struct {
	Kind     string // CSS class: add, del, same, or gap for a note about lines that are not shown
	Mark     string // + or -, or ""
	Old, New int    // line numbers; 0 on the side that does not have the line
	Spans    []compare.Span
}

const (
	// The limits of a page; a browser renders more lines too slowly.
	maxLines = 5_000
	maxBytes = 512 << 10
	// maxMarked limits how much text is compared word by word, in bytes.
	maxMarked = 128 << 10
	// alike is the share of its words that a passage must keep for its changed words to be
	// marked. In a passage written anew, marks would be noise.
	alike = 0.3
)

// newDiff reads the beginning of a unified diff, up to the limits of a page. Unknown lines
// are shown as they are.
func newDiff(unified string) (d diff) {
	lines, read := 0, 0
	var at hunkStart
	inHeader := true
	for line := range strings.Lines(unified) {
		lines++
		read += len(line)
		if d.Cut = lines > maxLines || read > maxBytes; d.Cut {
			break
		}
		line = strings.TrimRight(line, "\r\n")
		if isFileHeader(line) || strings.HasPrefix(line, "diff ") || len(d.Files) == 0 {
			d.Files, at, inHeader = append(d.Files, diffFile{}), hunkStart{1, 1}, true
		}
		f := &d.Files[len(d.Files)-1]
		switch {
		case strings.HasPrefix(line, "@@"):
			at, inHeader = f.jumpTo(line, at), false
		case inHeader:
			f.nameFrom(line)
		case !strings.HasPrefix(line, `\`): // "\ No newline at end of file"
			f.addLine(line, &at)
		}
	}
	budget := maxMarked
	for i := range d.Files {
		d.Files[i].markWords(&budget)
	}
	return d
}

// diffOfTexts compares two texts, neither of which has to end with a newline.
func diffOfTexts(name, before, after string) diff {
	return newDiff(string(compare.Texts(name, strings.TrimSpace(before)+"\n", strings.TrimSpace(after)+"\n")))
}

// isFileHeader reports whether a line only states that a file differs, e.g. a binary
// one.
func isFileHeader(line string) bool {
	return strings.HasPrefix(line, "Binary files ") || strings.HasPrefix(line, "Files ")
}

// nameFrom takes the file's name from a line of its header: the new name, or the old
// one of a deleted file.
func (f *diffFile) nameFrom(line string) {
	for _, prefix := range []string{"--- a/", "+++ b/", "--- ", "+++ "} {
		if name, ok := strings.CutPrefix(line, prefix); ok && name != "/dev/null" {
			f.Name = name
			return
		}
	}
	if isFileHeader(line) {
		f.note(line)
	}
}

// note adds a line about the file.
func (f *diffFile) note(text string) {
	f.Lines = append(f.Lines, diffLine{Kind: "gap", Spans: []compare.Span{{Kind: compare.Same, Text: text}}})
}

// hunkStart is the next line of both sides.
type hunkStart struct{ old, now int }

// jumpTo reads the header of a hunk, e.g. "@@ -12,7 +12,8 @@", and notes how many unchanged
// lines are before it.
func (f *diffFile) jumpTo(header string, at hunkStart) hunkStart {
	var to hunkStart
	for _, field := range strings.Fields(header) {
		_, _ = fmt.Sscanf(field, "-%d", &to.old) // any other field
		_, _ = fmt.Sscanf(field, "+%d", &to.now)
	}
	if hidden := int64(to.old - at.old); hidden > 0 {
		text, _ := format.Plural(hidden, "unchanged line", "unchanged lines") // it is a number
		f.note(text)
	}
	return to
}

// addLine adds a line by its first character.
func (f *diffFile) addLine(line string, at *hunkStart) {
	l := diffLine{Kind: "same", Old: at.old, New: at.now}
	text := strings.TrimPrefix(line, " ")
	switch {
	case strings.HasPrefix(line, "+"):
		l.Kind, l.Mark, l.Old, text = "add", "+", 0, line[1:]
		f.Added++
	case strings.HasPrefix(line, "-"):
		l.Kind, l.Mark, l.New, text = "del", "-", 0, line[1:]
		f.Removed++
	}
	if l.Kind != "add" {
		at.old++
	}
	if l.Kind != "del" {
		at.now++
	}
	l.Spans = []compare.Span{{Kind: compare.Same, Text: text}}
	f.Lines = append(f.Lines, l)
}

// markWords compares each run of removed lines with the added lines after it, word by
// word, as far as the budget goes.
func (f *diffFile) markWords(budget *int) {
	end := func(from int, kind string) int {
		for from < len(f.Lines) && f.Lines[from].Kind == kind {
			from++
		}
		return from
	}
	for i := 0; i < len(f.Lines); i++ {
		middle := end(i, "del")
		last := end(middle, "add")
		if middle == i || last == middle {
			continue
		}
		before, after := textOfLines(f.Lines[i:middle]), textOfLines(f.Lines[middle:last])
		if *budget -= len(before) + len(after); *budget < 0 {
			return
		}
		if spans := compare.Words(before, after); worthMarking(spans) {
			setSpans(f.Lines[i:middle], spans, compare.Added)
			setSpans(f.Lines[middle:last], spans, compare.Removed)
		}
		i = last - 1
	}
}

func textOfLines(lines []diffLine) string {
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = l.Spans[0].Text
	}
	return strings.Join(texts, "\n")
}

// worthMarking reports whether enough stayed the same, see alike.
func worthMarking(spans []compare.Span) bool {
	same, all := 0, 0
	for _, s := range spans {
		n := len(strings.Join(strings.Fields(s.Text), ""))
		if all += n; s.Kind == compare.Same {
			same += n
			all += n // it is in both texts
		}
	}
	return float64(2*same) >= alike*float64(all)
}

// setSpans divides a word diff into the lines of one side, which lacks the words of a kind.
func setSpans(lines []diffLine, spans []compare.Span, without compare.Kind) {
	for i := range lines {
		lines[i].Spans = nil
	}
	at := 0
	for _, s := range spans {
		if s.Kind == without {
			continue
		}
		for i, part := range strings.Split(s.Text, "\n") {
			if i > 0 {
				at++
			}
			if part != "" {
				lines[at].Spans = append(lines[at].Spans, compare.Span{Kind: s.Kind, Text: part})
			}
		}
	}
}
