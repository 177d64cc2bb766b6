package transcripts_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/local/transcripts"
)

func TestLines(t *testing.T) {
	// Longer than any buffer.
	wide := strings.Repeat("w", 200_000)
	got, err := transcripts.Lines([]byte("one\n\n"+wide+"\r\n"+wide+"x"+wide+"\nlast"), 300_000)
	want := []transcripts.Line{
		{Text: "one", Number: 1, Offset: 0, Ended: true},
		{Text: "", Number: 2, Offset: 4, Ended: true},
		{Text: wide + "\r", Number: 3, Offset: 5, Ended: true},
		{Number: 4, Offset: 200_007, Ended: true, Long: true},
		{Text: "last", Number: 5, Offset: 600_009},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("lines (-want +got), %v:\n%s", err, diff)
	}
}

// FuzzLines compares the reader with strings.Split.
func FuzzLines(f *testing.F) {
	for _, text := range []string{"", "\n", "a", "a\nb", "a\n\nb\n", strings.Repeat("x", 40) + "\n{}", "\r\n\x00\xff\n"} {
		f.Add([]byte(text), 10)
	}
	f.Fuzz(func(t *testing.T, text []byte, limit int) {
		limit = min(max(limit, 0), 100)
		got, err := transcripts.Lines(text, limit)
		if err != nil {
			t.Fatal(err)
		}
		var want []transcripts.Line
		offset := int64(0)
		for piece := range bytes.SplitAfterSeq(text, []byte("\n")) {
			if len(piece) == 0 {
				continue
			}
			content, ended := bytes.CutSuffix(piece, []byte("\n"))
			l := transcripts.Line{
				Text: string(content), Number: len(want) + 1, Offset: offset, Ended: ended,
				Long: len(content) > limit,
			}
			if l.Long {
				l.Text = ""
			}
			want = append(want, l)
			offset += int64(len(piece))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}
