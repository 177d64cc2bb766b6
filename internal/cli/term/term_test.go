package term_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// TestProgress: the line is redrawn at most ten times a second, and its last
// state is drawn before it is cleared.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := &term.Program{Stderr: &out, Interactive: true, JSON: true}
		g := p.Progress()
		for n := range 3 {
			g.Show("%d of 3", n+1)
			time.Sleep(60 * time.Millisecond)
		}
		g.Show("done")
		g.Clear()
		const want = "\r1 of 3\x1b[K" + "\r3 of 3\x1b[K" + "\rdone\x1b[K" + "\r\x1b[K"
		if out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	})
	var out strings.Builder
	p := &term.Program{Stderr: &out}
	g := p.Transfer("Sending", 1)
	g.Item()(1, 2)
	g.Finish()
	g.Clear()
	if out.Len() > 0 {
		t.Errorf("got %q without a terminal", out.String())
	}
}

func TestTransfer(t *testing.T) {
	var out strings.Builder
	p := &term.Program{Stderr: &out, Interactive: true}
	one := p.Transfer("Sending pdf", 1)
	one.Item()(512, 1024)
	one.Clear()
	several := p.Transfer("Downloading", 2)
	several.Finish()
	several.Clear()
	const want = "\rSending pdf  [===============               ]   50%  512 B\x1b[K\r\x1b[K" +
		"\rDownloading  1 of 2  0 B\x1b[K\r\x1b[K"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestCell(t *testing.T) {
	for _, c := range [][2]string{
		{"", ""},
		{" a\tb\n c ", "a b c"},
		{"\x1b[31mred", "[31mred"},
		{strings.Repeat("ä", 60), strings.Repeat("ä", 60)},
		{strings.Repeat("ä", 61), strings.Repeat("ä", 57) + "..."},
		{"a " + string(rune(0x202e)), "a"},
	} {
		in, want := c[0], c[1]
		if got := term.Cell(in); got != want {
			t.Errorf("Cell(%q): got %q, want %q", in, got, want)
		}
	}
}
