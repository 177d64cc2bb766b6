package docs_test

import (
	"regexp"
	"strconv"
	"strings"
)

// A block is a fenced block of commands in a document.
type block struct {
	line     int // of its opening fence
	commands string
	// prints is the block of output that follows it, or "".
	prints string
	// skip is why the commands cannot run in a test, or "".
	skip string
	// exit is the code that the last command ends with.
	exit int
}

// marker is a comment before a fence, which pages do not show:
//
//	<!-- doctest: skip needs a hosted code host -->
//	<!-- doctest: exit 1 -->
var marker = regexp.MustCompile(`^<!-- doctest: (skip|exit) (.+) -->$`)

// blocks returns the ```sh blocks of a document. A block without a language that
// follows one, with nothing but blank lines between them, is what it prints.
func blocks(text string) []block {
	var all []block
	var mark []string
	after := false // nothing but blank lines since the last block of commands
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		info, fenced := strings.CutPrefix(lines[i], "```")
		switch {
		case fenced:
			end := i + 1
			for end < len(lines) && lines[end] != "```" {
				end++
			}
			content := strings.Join(lines[i+1:min(end, len(lines))], "\n") + "\n"
			switch {
			case info == "sh":
				all = append(all, newBlock(i+1, content, mark))
			case info == "" && after:
				all[len(all)-1].prints = content
			}
			after, mark = info == "sh", nil
			i = end
		case marker.MatchString(lines[i]):
			mark, after = marker.FindStringSubmatch(lines[i]), false
		case strings.TrimSpace(lines[i]) != "":
			mark, after = nil, false
		}
	}
	return all
}

func newBlock(line int, commands string, mark []string) block {
	b := block{line: line, commands: commands}
	if mark != nil && mark[1] == "skip" {
		b.skip = mark[2]
	}
	if mark != nil && mark[1] == "exit" {
		b.exit, _ = strconv.Atoi(mark[2])
	}
	return b
}

var (
	moment = regexp.MustCompile(`\b\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?Z?)?)?`)
	uuid   = regexp.MustCompile(`\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
	spaces = regexp.MustCompile(` +`)
)

// missing returns the first line that a document says is printed and that is not
// in the output after the lines before it, or "". Times, ids and the width of
// columns may differ, and "..." stands for any text.
func missing(prints, output string) string {
	printed := strings.Split(comparable(output), "\n")
	for line := range strings.SplitSeq(comparable(prints), "\n") {
		if line == "" || line == "..." {
			continue
		}
		found := false
		for !found && len(printed) > 0 {
			found = like(line, printed[0])
			printed = printed[1:]
		}
		if !found {
			return line
		}
	}
	return ""
}

// comparable replaces what differs from run to run.
func comparable(text string) string {
	text = moment.ReplaceAllString(uuid.ReplaceAllString(text, "ID"), "TIME")
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(spaces.ReplaceAllString(line, " "))
	}
	return strings.Join(lines, "\n")
}

// like reports whether a line is as documented, where "..." stands for any text.
func like(want, got string) bool {
	parts := strings.Split(want, "...")
	if !strings.HasPrefix(got, parts[0]) {
		return false
	}
	got = got[len(parts[0]):]
	for i, part := range parts[1:] {
		if i == len(parts)-2 {
			return strings.HasSuffix(got, part)
		}
		_, rest, ok := strings.Cut(got, part)
		if !ok {
			return false
		}
		got = rest
	}
	return got == ""
}
