package quality

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// hunkHead matches the head of a hunk, e.g. "@@ -3,7 +3,8 @@". Its groups are the first
// line and the number of lines in the old text.
var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@`)

// applyDiff applies a unified diff of one file. It is strict, without the fuzz of
// patch(1): every line that the diff keeps or removes must be exactly where the diff
// has it. Only line ends may differ (CRLF). A proposal that no longer fits must
// fail, not end up in another place.
func applyDiff(text, diff string) (string, error) {
	old := slices.Collect(strings.Lines(text))
	var out strings.Builder
	at := 0 // number of old lines that were copied or dropped
	inHunk, added := false, false
	for line := range strings.Lines(diff) {
		if head := hunkHead.FindStringSubmatch(line); head != nil {
			start, err := strconv.Atoi(head[1])
			if err != nil {
				return "", err
			}
			// A hunk that only adds lines names the line before it, any other one its
			// first line.
			if head[2] != "0" {
				start--
			}
			// Hunks are in order, and must not overlap.
			if start < at || start > len(old) {
				return "", fmt.Errorf("it has no line %d", start+1)
			}
			out.WriteString(strings.Join(old[at:start], ""))
			at, inHunk = start, true
			continue
		}
		if !inHunk {
			continue // the lines with the names of the file
		}
		switch line[0] {
		case '+':
			out.WriteString(line[1:])
		case ' ', '-':
			if at >= len(old) || strings.TrimRight(old[at], "\r\n") != strings.TrimRight(line[1:], "\r\n") {
				return "", fmt.Errorf("line %d differs", at+1)
			}
			if line[0] == ' ' {
				out.WriteString(old[at])
			}
			at++
		// "\ No newline at end of file": the line before has none.
		case '\\':
			if added {
				text := strings.TrimSuffix(out.String(), "\n")
				out.Reset()
				out.WriteString(text)
			}
		default:
			return "", errors.New("the diff is not valid")
		}
		added = line[0] == '+'
	}
	if !inHunk {
		return "", errors.New("the diff is empty")
	}
	out.WriteString(strings.Join(old[at:], ""))
	return out.String(), nil
}
