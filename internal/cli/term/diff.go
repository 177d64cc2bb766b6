package term

import (
	"fmt"
	"io"
	"strings"
)

// PrintDiff writes a unified diff, whose lines may come from other people.
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
