package sandbox_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
)

func TestTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		tail := sandbox.Tail{Limit: limit}
		var all strings.Builder
		for _, part := range rapid.SliceOf(rapid.StringN(0, 50, 50)).Draw(t, "parts") {
			all.WriteString(part)
			if n, err := tail.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatalf("wrote %d of %d: %v", n, len(part), err)
			}
		}
		text := all.String()
		want := text[max(0, len(text)-limit):]
		got := tail.Output()
		if string(got.Tail) != want || got.Discarded != int64(len(text)-len(want)) {
			t.Fatalf("got %q after %d, want %q after %d", got.Tail, got.Discarded, want, len(text)-len(want))
		}
	})
}
