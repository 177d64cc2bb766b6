package term

import (
	"fmt"
	"io"
	"strings"
)

// PrintDiff prints a unified diff. Its lines may come from other people, so control
// characters are stripped.
func PrintDiff(w io.Writer, diff string, colour bool) {
	for line := range strings.Lines(diff) {
		begin, end := "", ""
		if colour {
			switch line[0] {
			case '-':
				begin, end = red, reset
			case '+':
				begin, end = green, reset
			case '@':
				begin, end = yellow, reset
			}
		}
		fmt.Fprintln(w, begin+Plain(strings.TrimRight(line, "\r\n"))+end)
	}
}
