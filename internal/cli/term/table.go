package term

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	xterm "golang.org/x/term"
)

// The colours of results, as ANSI escape sequences.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	bold   = "\x1b[1m"
	reset  = "\x1b[0m"
)

// judged are the headings of the columns whose words get a colour.
var judged = []string{"STATUS", "VERDICT", "BASELINE", "HEALTH", "STATE", "OUTCOME", "DECISION"}

// tones maps a colour to the words that have it in those columns: statuses of the API
// as the tables print them.
var tones = map[string][]string{
	green: {
		"pass", "passed", "ok", "healthy", "up to date", "succeeded", "delivered", "approved", "applied", "active",
		"good", "on", "current",
	},
	red: {
		"fail", "failed", "critical", "block", "broken", "error", "gone from the registry", "revoked", "rejected", "firing",
		"withdrawn", "dead", "expired", "missing",
	},
	yellow: {
		"warn", "warning", "degraded", "behind", "modified", "inconclusive", "pending", "candidate", "stale", "held",
		"changed", "cancelled",
	},
}

// toneOf returns the colour of a cell by its first word or words, or "". What follows a
// comma or colon is detail, e.g. "modified: kept".
func toneOf(cell string) string {
	word, _, _ := strings.Cut(cell, ",")
	word, _, _ = strings.Cut(word, ":")
	for colour, words := range tones {
		if slices.Contains(words, strings.TrimSpace(word)) {
			return colour
		}
	}
	return ""
}

// Colour reports whether the result may have colours. It may if it goes to a terminal
// that can show them, and the person has not turned them off (no-color.org) or has
// asked for them anyway (bixense.com/clicolors). JSON never has them.
func (p *Program) Colour() bool {
	if p.JSON || os.Getenv("NO_COLOR") != "" {
		return false
	}
	if force := os.Getenv("CLICOLOR_FORCE"); force != "" && force != "0" {
		return true
	}
	return isTerminal(p.Stdout) && os.Getenv("TERM") != "dumb"
}

// width returns the columns of the terminal that the result goes to, or 0 if it goes
// elsewhere: output for a script is never truncated.
func (p *Program) width() int {
	if f, ok := p.Stdout.(*os.File); ok && p.Columns == 0 {
		if columns, _, err := xterm.GetSize(int(f.Fd())); err == nil {
			return columns
		}
	}
	return p.Columns
}

// A grid is text whose cells are separated by tabs, line by line. Lines may have
// different numbers of cells.
type grid [][]string

// newGrid splits what a command printed into lines and cells.
func newGrid(text string) grid {
	var g grid
	for line := range strings.Lines(text) {
		g = append(g, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return g
}

// write aligns the columns. Tables, which have headings, are truncated to the width of
// the terminal, unless that is 0, and get colours. Other lines stay whole.
func (g grid) write(w io.Writer, width int, colour bool) error {
	tables := g.tables()
	if width > 0 {
		for _, t := range tables {
			t.fit(width)
		}
	}
	var text bytes.Buffer
	aligned := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, line := range g {
		// Writes to a bytes.Buffer never fail.
		_, _ = io.WriteString(aligned, strings.Join(line, "\t")+"\n")
	}
	_ = aligned.Flush()
	if !colour {
		_, err := text.WriteTo(w)
		return err
	}
	// Colours come last: their escape sequences would count as width in tabwriter.
	lines := strings.SplitAfter(text.String(), "\n")
	for _, t := range tables {
		for n := t.at; n < t.at+len(t.grid); n++ {
			if n == t.at {
				lines[n] = bold + strings.TrimSuffix(lines[n], "\n") + reset + "\n"
				continue
			}
			lines[n] = t.paint(lines[n], g[n])
		}
	}
	_, err := io.WriteString(w, strings.Join(lines, ""))
	return err
}

// A table is a part of a grid: a line of headings, and lines with as many cells.
type table struct {
	grid
	at int // index of its heading in the grid
}

// heading matches the cell of a heading, e.g. "LAST USED" or "CHECK-RUN".
var heading = regexp.MustCompile(`^[A-Z][A-Z /-]*$`)

// tables finds the tables of a grid: a line of at least two headings starts one, and
// the first line with another number of cells ends it.
func (g grid) tables() (all []table) {
	for i := 0; i < len(g); i++ {
		if len(g[i]) < 2 || slices.ContainsFunc(g[i], func(cell string) bool { return !heading.MatchString(cell) }) {
			continue
		}
		end := i + 1
		for end < len(g) && len(g[end]) == len(g[i]) {
			end++
		}
		all = append(all, table{g[i:end], i})
		i = end - 1
	}
	return all
}

// moveIDs makes the column ID of tables the last one, or removes it: commands take names,
// too, and an id takes a third of the line.
func (g grid) moveIDs(show bool) {
	for _, t := range g.tables() {
		column := slices.Index(t.grid[0], "ID")
		if column < 0 {
			continue
		}
		for i, line := range t.grid {
			id := line[column]
			g[t.at+i] = slices.Delete(slices.Clone(line), column, column+1)
			if show {
				g[t.at+i] = append(g[t.at+i], id)
			}
		}
	}
}

// minColumn is the width below which no column is truncated, in characters.
const minColumn = 10

// fit truncates the widest columns until a line fits into the width. A column with a
// cell of 32 or more characters without a space is an id, a hash or a URL: it stays
// whole, since people copy it. If nothing can shrink further, lines stay too long.
func (t table) fit(width int) {
	widths := make([]int, len(t.grid[0]))
	fixed := make([]bool, len(widths))
	// Columns are two spaces apart.
	total := 2 * (len(widths) - 1)
	for column := range widths {
		for _, line := range t.grid {
			n := utf8.RuneCountInString(line[column])
			widths[column] = max(widths[column], n)
			fixed[column] = fixed[column] || n >= 32 && !strings.Contains(line[column], " ")
		}
		total += widths[column]
	}
	// One character per round, always from the widest column, so that the widths even
	// out.
	for ; total > width; total-- {
		widest := -1
		for column, n := range widths {
			if !fixed[column] && n > minColumn && (widest < 0 || n > widths[widest]) {
				widest = column
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
		for _, line := range t.grid {
			line[widest] = shorten(line[widest], widths[widest])
		}
	}
}

// shorten truncates a text to n characters, of which the last three are dots. n must be
// at least 3.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-3]) + "..."
}

// paint colours the judged cells of an aligned line. It searches each cell in the rest
// of the line: alignment has added only spaces.
func (t table) paint(line string, cells []string) string {
	var out strings.Builder
	for column, cell := range cells {
		at := strings.Index(line, cell)
		colour := ""
		if slices.Contains(judged, t.grid[0][column]) {
			colour = toneOf(cell)
		}
		if at < 0 || cell == "" || colour == "" {
			at = max(at, 0)
			out.WriteString(line[:at+len(cell)])
		} else {
			out.WriteString(line[:at] + colour + cell + reset)
		}
		line = line[at+len(cell):]
	}
	return out.String() + line
}

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
