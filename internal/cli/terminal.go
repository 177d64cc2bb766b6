package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/term"
)

// isTerminal reports whether a person is at the other end.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) //nolint:gosec // descriptors are small
}

// note tells a person something that is neither the result nor a failure.
func (p *Program) note(format string, args ...any) {
	fmt.Fprintf(p.Stderr, "whetstone: %s\n", plain(fmt.Sprintf(format, args...)))
}

// ask puts a question that is answered by yes or no. Where nobody is there to
// answer, or nobody does before ctx ends, the answer is no.
func (p *Program) ask(ctx context.Context, question string) bool {
	if !p.Interactive || p.json {
		return false
	}
	fmt.Fprintf(p.Stderr, "%s [y/N] ", plain(question))
	// A read from a terminal cannot be ended, so it is left to the end of the
	// process.
	answers := make(chan string, 1)
	go func() {
		answer, _ := bufio.NewReader(p.Stdin).ReadString('\n') // no answer is a no
		answers <- answer
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(p.Stderr)
		return false
	case answer := <-answers:
		answer = strings.ToLower(strings.TrimSpace(answer))
		return answer == "y" || answer == "yes"
	}
}

// plain takes out what would move a terminal's cursor or break a table:
// descriptions and names were written by others.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}

// shorten makes a line of a text that fits into a table.
func shorten(s string) string {
	const most = 60
	runes := []rune(strings.Join(strings.Fields(plain(s)), " "))
	if len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most-3]) + "..."
}

// size writes a number of bytes for people.
func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// count writes a number of things: 1 file, 2 files.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// A meter shows on a terminal how far a transfer has come. Elsewhere it shows
// nothing.
type meter struct {
	w     io.Writer
	label string
	items int // how many are to come; a single one has a bar

	mu       sync.Mutex
	done, of int64
	finished int
	drawn    time.Time
}

// meter starts to show a transfer of that many items.
func (p *Program) meter(label string, items int) *meter {
	m := &meter{w: io.Discard, label: label, items: items}
	if p.Interactive {
		m.w = p.Stderr
	}
	return m
}

// part returns a function that is told how far one item has come.
func (m *meter) part() func(done, of int64) {
	var before int64
	return func(done, of int64) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.done += done - before
		before, m.of = done, of
		if time.Since(m.drawn) > 100*time.Millisecond {
			m.draw()
		}
	}
}

// finish counts an item that has come.
func (m *meter) finish() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finished++
	m.draw()
}

const barWidth = 30

func (m *meter) draw() {
	m.drawn = time.Now()
	line := fmt.Sprintf("%s  %d of %d", m.label, m.finished, m.items)
	if m.items == 1 && m.of > 0 {
		filled := int(barWidth * min(m.done, m.of) / m.of)
		line = fmt.Sprintf("%s  [%s%s]  %3d%%", m.label, strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled), 100*min(m.done, m.of)/m.of)
	}
	fmt.Fprintf(m.w, "\r%s  %s\x1b[K", line, size(m.done))
}

// clear removes the line, for what follows.
func (m *meter) clear() { fmt.Fprint(m.w, "\r\x1b[K") }

// A lineMeter shows one line on a terminal that changes, not too often.
type lineMeter struct {
	w     io.Writer
	drawn time.Time
}

func (p *Program) lineMeter() *lineMeter { return &lineMeter{w: p.Stderr} }

func (m *lineMeter) show(format string, args ...any) {
	if time.Since(m.drawn) < 100*time.Millisecond {
		return
	}
	m.drawn = time.Now()
	fmt.Fprintf(m.w, "\r"+format+"\x1b[K", args...)
}

// clear removes the line, for what follows.
func (m *lineMeter) clear() { fmt.Fprint(m.w, "\r\x1b[K") }
