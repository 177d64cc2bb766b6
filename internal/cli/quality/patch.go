package quality

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@`)

// applyDiff applies a unified diff of one file. It is strict: every line that the diff
// keeps or removes must stand exactly where the diff says.
func applyDiff(text, diff string) (string, error) {
	old := slices.Collect(strings.Lines(text))
	var out strings.Builder
	at := 0 // lines of old that are done
	inHunk, added := false, false
	for line := range strings.Lines(diff) {
		if head := hunkHead.FindStringSubmatch(line); head != nil {
			start, err := strconv.Atoi(head[1])
			if err != nil {
				return "", err
			}
			if head[2] != "0" { // a hunk that only adds names the line before
				start--
			}
			if start < at || start > len(old) {
				return "", fmt.Errorf("it has no line %d", start+1)
			}
			out.WriteString(strings.Join(old[at:start], ""))
			at, inHunk = start, true
			continue
		}
		if !inHunk {
			continue // the names of the file
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
		case '\\': // the line before has no newline at its end
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
