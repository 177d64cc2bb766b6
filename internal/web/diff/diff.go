// Package diff reads unified diffs for pages.
package diff

import "strings"

// A File is the diff of one file.
type File struct {
	Name  string
	Lines []Line
}

// A Line is a line of a unified diff.
type Line struct {
	Kind string // add, del, hunk or same
	Mark string // + or -, or ""
	Text string
}

// The most that a page shows of a diff.
const (
	maxLines = 5_000
	maxBytes = 512 << 10
)

// Read splits the beginning of a unified diff by file, up to the limits of a
// page, and reports whether there is more. Unknown lines are shown as they are.
func Read(text string) (files []File, more bool) {
	lines, read := 0, 0
	for line := range strings.Lines(text) {
		lines++
		read += len(line)
		if lines > maxLines || read > maxBytes {
			return files, true
		}
		line = strings.TrimRight(line, "\r\n")
		if named(line) || strings.HasPrefix(line, "diff ") || len(files) == 0 {
			files = append(files, File{})
		}
		f := &files[len(files)-1]
		if inHeader := len(f.Lines) == 0 && !strings.HasPrefix(line, "@@"); inHeader {
			f.nameFrom(line)
			continue
		}
		f.Lines = append(f.Lines, newLine(line))
	}
	return files, false
}

// named reports whether a line only states that a file differs.
func named(line string) bool {
	return strings.HasPrefix(line, "Binary files ") || strings.HasPrefix(line, "Files ")
}

// nameFrom takes the file's name from a line of its header: the new name, or the
// old one of a deleted file.
func (f *File) nameFrom(line string) {
	for _, prefix := range []string{"--- a/", "+++ b/", "--- ", "+++ "} {
		if name, ok := strings.CutPrefix(line, prefix); ok && name != "/dev/null" {
			f.Name = name
			return
		}
	}
	if named(line) {
		f.Lines = append(f.Lines, Line{Kind: "hunk", Text: line})
	}
}

func newLine(line string) Line {
	switch {
	case strings.HasPrefix(line, "@@"):
		return Line{Kind: "hunk", Text: line}
	case strings.HasPrefix(line, "+"):
		return Line{Kind: "add", Mark: "+", Text: line[1:]}
	case strings.HasPrefix(line, "-"):
		return Line{Kind: "del", Mark: "-", Text: line[1:]}
	}
	return Line{Kind: "same", Text: strings.TrimPrefix(line, " ")}
}
