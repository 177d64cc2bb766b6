package web

import "strings"

// A diffFile is the diff of one file.
type diffFile struct {
	Name  string
	Lines []diffLine
}

// A diffLine is a line of a unified diff.
type diffLine struct {
	Kind string // CSS class: add, del, hunk or same
	Mark string // + or -, or ""
	Text string
}

// The limits of a page; a browser renders more lines too slowly.
const (
	maxLines = 5_000
	maxBytes = 512 << 10
)

// readDiff splits the beginning of a unified diff by file, up to the limits of a page,
// and reports whether there is more. Unknown lines are shown as they are.
func readDiff(text string) (files []diffFile, more bool) {
	lines, read := 0, 0
	for line := range strings.Lines(text) {
		lines++
		read += len(line)
		if lines > maxLines || read > maxBytes {
			return files, true
		}
		line = strings.TrimRight(line, "\r\n")
		if isFileHeader(line) || strings.HasPrefix(line, "diff ") || len(files) == 0 {
			files = append(files, diffFile{})
		}
		f := &files[len(files)-1]
		if inHeader := len(f.Lines) == 0 && !strings.HasPrefix(line, "@@"); inHeader {
			f.nameFrom(line)
			continue
		}
		f.Lines = append(f.Lines, newDiffLine(line))
	}
	return files, false
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
		f.Lines = append(f.Lines, diffLine{Kind: "hunk", Text: line})
	}
}

// newDiffLine classifies a line by its first character.
func newDiffLine(line string) diffLine {
	switch {
	case strings.HasPrefix(line, "@@"):
		return diffLine{Kind: "hunk", Text: line}
	case strings.HasPrefix(line, "+"):
		return diffLine{Kind: "add", Mark: "+", Text: line[1:]}
	case strings.HasPrefix(line, "-"):
		return diffLine{Kind: "del", Mark: "-", Text: line[1:]}
	}
	return diffLine{Kind: "same", Text: strings.TrimPrefix(line, " ")}
}
