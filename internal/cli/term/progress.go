package term

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// redrawInterval throttles a Progress: some callers report every row.
const redrawInterval = 100 * time.Millisecond

// A Progress is one line on a terminal that is redrawn in place. Where no person
// watches, it prints nothing. It may be used by several goroutines at once.
type Progress struct {
	w io.Writer

	mu      sync.Mutex // guards what follows
	drawn   time.Time
	skipped string // the last line, if it was throttled
}

// Progress starts a line that is empty until Show is called. It is drawn on
// standard error, so it does not disturb JSON on standard output.
func (p *Program) Progress() *Progress {
	if !p.Interactive {
		return &Progress{w: io.Discard}
	}
	return &Progress{w: p.Stderr}
}

// Show replaces the line, at most ten times a second.
func (g *Progress) Show(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	line := fmt.Sprintf("\r"+format+"\x1b[K", args...)
	if time.Since(g.drawn) < redrawInterval {
		g.skipped = line
		return
	}
	g.drawn, g.skipped = time.Now(), ""
	fmt.Fprint(g.w, line)
}

// Clear removes the line to make room for other output. The last line is always
// drawn before, so that a recorded terminal shows the end.
func (g *Progress) Clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	fmt.Fprint(g.w, g.skipped+"\r\x1b[K")
	g.skipped = ""
}

// Bar draws a share, e.g. "[===   ]".
func Bar(done, total int64) string {
	const width = 30
	filled := int(width * min(done, total) / max(total, 1))
	return "[" + strings.Repeat("=", filled) + strings.Repeat(" ", width-filled) + "]"
}

// A Transfer is the Progress of bytes sent or received, of one item or of
// several at once.
type Transfer struct {
	*Progress
	label string
	items int

	mu          sync.Mutex // guards what follows
	done, total int64
	finished    int // items
}

// Transfer starts to show a transfer of that many items.
func (p *Program) Transfer(label string, items int) *Transfer {
	return &Transfer{Progress: p.Progress(), label: label, items: items}
}

// Item returns a function that reports how many bytes of one item are done.
func (t *Transfer) Item() func(done, total int64) {
	var before int64
	return func(done, total int64) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.done += done - before
		before, t.total = done, total
		t.show()
	}
}

// Finish counts an item as done.
func (t *Transfer) Finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finished++
	t.show()
}

func (t *Transfer) show() {
	if t.items == 1 && t.total > 0 {
		t.Show("%s  %s  %3d%%  %s", t.label, Bar(t.done, t.total), 100*min(t.done, t.total)/t.total, Size(t.done))
		return
	}
	t.Show("%s  %d of %d  %s", t.label, t.finished, t.items, Size(t.done))
}
