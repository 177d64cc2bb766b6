package recording

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/prove/runs/workdir"
)

// TestThen adds up the steps of a task.
func TestThen(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	one := Recording{StartedAt: at, EndedAt: at, ToolCalls: 1, Micros: new(int64(2)), Steps: []Step{{Kind: Prompt}}, Files: []workdir.File{{Path: "a", Change: workdir.Added}}}
	two := Recording{StartedAt: at.Add(1), EndedAt: at.Add(2), ToolCalls: 2, ToolErrors: 1, Micros: new(int64(3)), Steps: []Step{{Kind: Response}}, Files: []workdir.File{{Path: "a", Change: workdir.Deleted}}}
	want := Recording{
		StartedAt: at, EndedAt: at.Add(2), ToolCalls: 3, ToolErrors: 1, Micros: new(int64(5)), Steps: []Step{{Kind: Prompt}, {Kind: Response}},
	}
	if diff := cmp.Diff(want, one.Then(two)); diff != "" {
		t.Errorf("two steps (-want +got):\n%s", diff)
	}
	two.Micros = nil
	if one.Then(two).Micros != nil {
		t.Error("the cost is known although a part of it is not")
	}
	if diff := cmp.Diff(two, Recording{}.Then(two)); diff != "" {
		t.Errorf("after nothing (-want +got):\n%s", diff)
	}
}

// TestMovedTo: all times move, and the recording that is moved stays as it is.
func TestMovedTo(t *testing.T) {
	t.Parallel()
	began, later := time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC), time.Date(2026, 11, 4, 9, 0, 0, 0, time.UTC)
	r := Recording{
		StartedAt: began, EndedAt: began.Add(time.Minute), Steps: []Step{{Kind: Prompt, At: began.Add(time.Second)}},
	}
	want := Recording{
		StartedAt: later, EndedAt: later.Add(time.Minute), Steps: []Step{{Kind: Prompt, At: later.Add(time.Second)}},
	}
	if diff := cmp.Diff(want, r.MovedTo(later)); diff != "" || !r.Steps[0].At.Equal(began.Add(time.Second)) {
		t.Errorf("moved (-want +got):\n%s", diff)
	}
}

// TestLimits keeps to the bytes of texts, also those of files, and finds secrets
// before it truncates.
func TestLimits(t *testing.T) {
	redact := func(s string) string { return strings.ReplaceAll(s, "secret", "[...]") }
	long := strings.Repeat("x", maxText-3)
	r := Recording{Files: []workdir.File{{Text: new("a secret")}, {Text: new(long)}, {Text: new(long)}}}
	for range maxSteps + 1 {
		r.Steps = append(r.Steps, Step{Text: long + "secret"})
	}
	const limit = 64 << 10
	got := r.limited(redact, limit)
	bytes := 0
	for _, s := range got.Steps {
		bytes += len(s.Text)
		if strings.Contains(s.Text, "sec") {
			t.Fatalf("a part of a secret is kept: %q", s.Text[len(s.Text)-10:])
		}
	}
	for _, f := range got.Files {
		bytes += len(*f.Text)
	}
	if bytes > limit || len(got.Steps) != maxSteps || !got.MoreSteps || *got.Files[0].Text != "a [...]" || !got.Files[2].Truncated {
		t.Errorf("%d bytes, %d steps, more %v, files %q, truncated %v", bytes, len(got.Steps), got.MoreSteps, *got.Files[0].Text, got.Files[2].Truncated)
	}
	if TextLimit(1) != maxTexts || TextLimit(30_000) != minTexts {
		t.Errorf("limits %d and %d", TextLimit(1), TextLimit(30_000))
	}
}
