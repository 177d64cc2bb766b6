package term_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"text/tabwriter"

	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

func printed(t *testing.T, p *term.Program, text string) string {
	t.Helper()
	var out strings.Builder
	p.Stdout = &out
	if err := p.Print(nil, func(w io.Writer) { fmt.Fprint(w, text) }); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const id = "01890000-0000-7000-8000-000000000001"

const gates = "GATE\tSKILL\tVERDICT\tWHY\n" +
	id + "\tpass\tblock, overridden\tIt is worse on three of the forty cases.\n" +
	id + "\tpdf\tpass\t\n" +
	"\nCost\tfail\n"

func TestTableWidth(t *testing.T) {
	const narrow = "" +
		"GATE                                  SKILL  VERDICT     WHY\n" +
		id + "  pass   block, ...  It is w...\n" +
		id + "  pdf    pass        \n" +
		"\nCost  fail\n"
	if got := printed(t, &term.Program{Columns: 67}, gates); got != narrow {
		t.Errorf("67 columns: got\n%swant\n%s", got, narrow)
	}
	if got := printed(t, &term.Program{Columns: 20}, gates); got != narrow {
		t.Errorf("20 columns: got\n%swant ids and short columns as they are", got)
	}
	if got := printed(t, &term.Program{Columns: 200}, gates); !strings.Contains(got, "forty cases.\n") {
		t.Errorf("200 columns: got\n%s", got)
	}
	if got := printed(t, &term.Program{}, gates); !strings.Contains(got, "forty cases.\n") {
		t.Errorf("no terminal: got\n%s", got)
	}
}

func TestTableColours(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("CLICOLOR_FORCE", "")
	plain := printed(t, &term.Program{}, gates)
	if strings.Contains(plain, "\x1b") {
		t.Errorf("colours without a terminal: %q", plain)
	}
	t.Setenv("CLICOLOR_FORCE", "1")
	got := printed(t, &term.Program{}, gates)
	for _, want := range []string{
		"\x1b[1mGATE                                  SKILL  VERDICT            WHY\x1b[0m\n",
		id + "  pass   \x1b[31mblock, overridden\x1b[0m  It is",
		id + "  pdf    \x1b[32mpass\x1b[0m               \n",
		"\nCost  fail\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%q", want, got)
		}
	}
	t.Setenv("NO_COLOR", "1")
	if got := printed(t, &term.Program{}, gates); got != plain {
		t.Errorf("NO_COLOR: %q", got)
	}
}

// TestTableAligns: without a terminal the text is as text/tabwriter aligns it, and
// colours and truncation never lose a line.
func TestTableAligns(t *testing.T) {
	cell := rapid.SampledFrom([]string{"", "a", "fail", "ok", "STATUS", "NAME", "ä ö", "a longer text with words", strings.Repeat("x", 40)})
	rapid.Check(t, func(t *rapid.T) {
		var lines []string
		for _, cells := range rapid.SliceOfN(rapid.SliceOfN(cell, 1, 4), 0, 8).Draw(t, "lines") {
			lines = append(lines, strings.Join(cells, "\t")+"\n")
		}
		text := strings.Join(lines, "")
		var want, got, narrow strings.Builder
		w := tabwriter.NewWriter(&want, 0, 0, 2, ' ', 0)
		_, _ = io.WriteString(w, text)
		_ = w.Flush()
		if err := (&term.Program{Stdout: &got}).Print(nil, func(w io.Writer) { _, _ = io.WriteString(w, text) }); err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() {
			t.Fatalf("got %q, want %q", got.String(), want.String())
		}
		_ = (&term.Program{Stdout: &narrow, Columns: 20}).Print(nil, func(w io.Writer) { _, _ = io.WriteString(w, text) })
		if strings.Count(narrow.String(), "\n") != len(lines) {
			t.Fatalf("got %q of %q", narrow.String(), text)
		}
		if painted := term.Painted(text); strings.NewReplacer("\x1b[1m", "", "\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "", "\x1b[0m", "").Replace(painted) != want.String() {
			t.Fatalf("painted %q, want %q", painted, want.String())
		}
	})
}

func TestTableIDs(t *testing.T) {
	const lists = "ID\tNAME\tROLE\n" + id + "\tdocs\tmember\n"
	if got, want := printed(t, &term.Program{}, lists), "NAME  ROLE\ndocs  member\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got, want := printed(t, &term.Program{IDs: true}, lists), "NAME  ROLE    ID\ndocs  member  "+id+"\n"; got != want {
		t.Errorf("with ids: got\n%swant\n%s", got, want)
	}
}
