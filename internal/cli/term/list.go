package term

import (
	"fmt"
	"io"
	"strings"
)

// A List describes how people see a list of T: as a table whose cells are aligned.
type List[T any] struct { // printed instead of an empty table, unless it is ""
	None string // is printed in place of a table without rows, unless it is ""
	Head string // the headings, separated by tabs
	// one cell per heading, which Row must strip of control characters with Plain or
	// Cell
	Row func(T) []any
}

// Print prints a list as JSON for scripts, or as a table for people.
func (l List[T]) Print(p *Program, all []T) error {
	return p.Print(all, func(w io.Writer) { l.Write(w, all) })
}

// Write writes the table without its JSON form, for output that has more than the list.
func (l List[T]) Write(w io.Writer, all []T) {
	if len(all) == 0 && l.None != "" {
		fmt.Fprintln(w, l.None)
		return
	}
	fmt.Fprintln(w, l.Head)
	for _, one := range all {
		cells := l.Row(one)
		fmt.Fprintf(w, strings.Repeat("%v\t", len(cells)-1)+"%v\n", cells...)
	}
}
