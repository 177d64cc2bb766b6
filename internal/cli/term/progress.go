package term

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// redrawInterval throttles a Progress: some callers report every row, and a terminal by
// SSH is slow.
const redrawInterval = 100 * time.Millisecond

// A Progress is one line on a terminal that is redrawn in place. Without a person at
// the terminal it prints nothing. It may be used by several goroutines at once.
type Progress struct {
	w io.Writer

	mu      sync.Mutex // guards the fields below
	drawn   time.Time
	skipped string // the last line, if it was throttled, for Clear
}

// Progress starts a line that is empty until Show is called. It is drawn on
// standard error, so it does not disturb JSON on standard output.
func (p *Program) Progress() *Progress {
	if !p.Interactive {
		return &Progress{w: io.Discard}
	}
	return &Progress{w: p.Stderr}
}

// Show replaces the line, at most ten times a second. format must not have a newline.
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

// Clear removes the line to make room for other output. A line that was throttled is
// drawn first, so that a recorded terminal shows the final state.
func (g *Progress) Clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	fmt.Fprint(g.w, g.skipped+"\r\x1b[K")
	g.skipped = ""
}

// Bar draws the share done/total, e.g. "[=== ]". A total of 0 is an empty bar.
func Bar(done, total int64) string {
	const width = 30
	filled := int(width * min(done, total) / max(total, 1))
	return "[" + strings.Repeat("=", filled) + strings.Repeat(" ", width-filled) + "]"
}

// A Transfer is the Progress of bytes sent or received, of one item or of several at
// once, e.g. the downloads of a sync.
type Transfer struct {
	*Progress
	label string
	items int

	mu          sync.Mutex // guards the fields below
	done, total int64      // bytes; total is that of the item that reported last
	finished    int        // number of items
}

// Transfer starts to show a transfer; items is the number of items to expect.
func (p *Program) Transfer(label string, items int) *Transfer {
	return &Transfer{Progress: p.Progress(), label: label, items: items}
}

// Item returns a callback for one item: done is the number of bytes so far, total the
// number of all or 0 if that is unknown. Each item needs a callback of its own.
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

// Finish counts an item as done. The caller calls it once for each Item.
func (t *Transfer) Finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finished++
	t.show()
}

// show draws a bar for a single item of known size, and a count for several. The caller
// holds t.mu.
func (t *Transfer) show() {
	if t.items == 1 && t.total > 0 {
		t.Show("%s  %s  %3d%%  %s", t.label, Bar(t.done, t.total), 100*min(t.done, t.total)/t.total, Size(t.done))
		return
	}
	t.Show("%s  %d of %d  %s", t.label, t.finished, t.items, Size(t.done))
}
