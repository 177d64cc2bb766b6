package text

import "strings"

// Cell keeps a spreadsheet from running a text of a CSV file that somebody else wrote: one that
// begins like a formula gets an apostrophe in front. A tab and a carriage return are
// skipped by some programs, which then see the formula.
func Cell(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
