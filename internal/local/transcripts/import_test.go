package transcripts_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/local/transcripts"
)

// talk is a transcript of turns, each of which uses a skill.
func talk(turns int) *script {
	s := new(script)
	for n := range turns {
		id := fmt.Sprintf("t%d", n)
		s.user("Read the tables, please").skill(id, "pdf").result(id, false)
	}
	return s
}

const main = sessionID + ".jsonl"

func TestImportAgain(t *testing.T) {
	m, srv := newMachine(t), newServer()
	m.write(main, talk(3).String())
	want := transcripts.Summary{
		Files: 1, Read: 1, Records: transcripts.Counts{Sessions: 1, Prompts: 3, Invocations: 3, Facts: 3, Requests: 3, ToolCalls: 3},
		Pushes: 1, Problems: []transcripts.Problem{},
	}
	if diff := cmp.Diff(want, m.run(srv)); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	want = transcripts.Summary{Files: 1, Unchanged: 1, Problems: []transcripts.Problem{}}
	if diff := cmp.Diff(want, m.run(srv)); diff != "" {
		t.Errorf("summary of the second time (-want +got):\n%s", diff)
	}
	if len(srv.pushes) != 1 {
		t.Errorf("%d pushes, want the first only", len(srv.pushes))
	}
}

// TestGrowth: reading resumes at the last turn.
func TestGrowth(t *testing.T) {
	m, srv := newMachine(t), newServer()
	whole := talk(10)
	m.write(main, (&script{lines: whole.lines[:29]}).String())
	m.run(srv)
	m.write(main, whole.String())
	want := transcripts.Counts{Sessions: 1, Prompts: 1, Invocations: 1, Facts: 1, Requests: 1, ToolCalls: 1}
	if diff := cmp.Diff(want, m.run(srv).Records); diff != "" {
		t.Errorf("records of the second time (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(imported(t, main, whole).records, srv.records); diff != "" {
		t.Errorf("records at the server (-at once +in parts):\n%s", diff)
	}
}

// TestRewritten: a transcript that changed before its checkpoint is read again.
func TestRewritten(t *testing.T) {
	m, srv := newMachine(t), newServer()
	whole := talk(5)
	m.write(main, whole.String())
	m.run(srv)
	whole.lines[0] = strings.Replace(whole.lines[0], "tables", "pages!", 1)
	m.write(main, whole.user("more").String())
	if got := m.run(srv).Records.Prompts; got != 6 {
		t.Errorf("%d prompts, want all 6", got)
	}
	m.write(main, talk(1).String())
	if got := m.run(srv).Records.Prompts; got != 1 {
		t.Errorf("%d prompts of what was cut off, want 1", got)
	}
}

// TestBeingWritten: an incomplete last line is not a problem.
func TestBeingWritten(t *testing.T) {
	m, srv := newMachine(t), newServer()
	text := talk(2).String()
	cut := strings.LastIndex(text, "sessionId")
	m.write(main, text[:cut])
	if got := m.run(srv); got.Malformed != 0 || got.Records.Invocations != 2 {
		t.Errorf("summary %+v, want no malformed line, and what is whole", got)
	}
	m.write(main, text)
	m.run(srv)
	if diff := cmp.Diff(imported(t, main, talk(2)).records, srv.records); diff != "" {
		t.Errorf("records (-at once +in parts):\n%s", diff)
	}
}

// TestCrashBeforeStateIsWritten: what is pushed twice is deduplicated.
func TestCrashBeforeStateIsWritten(t *testing.T) {
	m, srv := newMachine(t), newServer()
	m.write(main, talk(400).String())
	first := m.run(srv)
	if err := os.Remove(m.state()); err != nil {
		t.Fatal(err)
	}
	before := len(srv.records)
	again := m.run(srv)
	if again.Pushes != first.Pushes || again.Duplicates != first.Pushes || len(srv.records) != before {
		t.Errorf("again %+v, want the %d pushes of the first time to be known", again, first.Pushes)
	}
}

func TestStateThatIsBroken(t *testing.T) {
	m, srv := newMachine(t), newServer()
	m.write(main, talk(1).String())
	m.run(srv)
	for _, content := range []string{"", "{", `{"normalizer":"0","files":{}}`, `[]`} {
		if err := os.WriteFile(m.state(), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := m.run(srv); got.Duplicates != 1 {
			t.Errorf("state %q: %+v, want everything to be sent again", content, got)
		}
	}
}

// TestServerGoesAway: the next import resumes after the last complete file.
func TestServerGoesAway(t *testing.T) {
	m, srv := newMachine(t), newServer()
	for n := range 4 {
		m.write(fmt.Sprintf("s%d.jsonl", n), strings.ReplaceAll(talk(60).String(), sessionID, fmt.Sprintf("s%d", n)))
	}
	srv.failAt = 3
	summary, err := m.newImport(srv).Run(t.Context())
	if !errors.Is(err, errRefused) || summary.Records.Total() != 1000 {
		t.Fatalf("got %+v, %v; want the error of the third push", summary, err)
	}
	srv.failAt = 0
	if got := m.run(srv); got.Unchanged != 3 || got.Read != 1 {
		t.Errorf("the second time %+v, want the last file only", got)
	}
	for n := range 4 {
		if srv.of("prompt")[fmt.Sprintf("s%d:p59", n)] == nil {
			t.Errorf("the last prompt of session %d is missing", n)
		}
	}
	if got := len(srv.of("skill_invocation")); got != 60 { // the scripts have the same ids
		t.Errorf("%d invocations, want 60", got)
	}
}

func TestInterrupted(t *testing.T) {
	m, srv := newMachine(t), newServer()
	m.write("a.jsonl", strings.ReplaceAll(talk(190).String(), sessionID, "a"))
	m.write("b.jsonl", strings.ReplaceAll(talk(190).String(), sessionID, "b"))
	ctx, cancel := context.WithCancel(t.Context())
	i := m.newImport(srv)
	i.Progress = func(s transcripts.Summary) {
		if s.Pushes == 2 {
			cancel()
		}
	}
	if _, err := i.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want that of the context", err)
	}
	if got := m.run(srv); got.Unchanged != 1 || got.Read != 1 {
		t.Errorf("the second time %+v, want the first file to be remembered", got)
	}
}

func TestBatches(t *testing.T) {
	m, srv := newMachine(t), newServer()
	m.write(main, talk(300).String()) // 1501 records
	m.run(srv)
	if diff := cmp.Diff([]int{500, 500, 500, 1}, srv.sizes); diff != "" {
		t.Errorf("records of the pushes (-want +got):\n%s", diff)
	}
	m, srv = newMachine(t), newServer()
	s := new(script)
	for range 70 {
		s.user(strings.Repeat("x", 64<<10))
	}
	m.write(main, s.String())
	m.run(srv)
	if len(srv.pushes) != 2 {
		t.Errorf("%d pushes of 4.6 MB, want 2: a push is 4 MiB at most", len(srv.pushes))
	}
}

// TestOwner: the same files of two users are different pushes.
func TestOwner(t *testing.T) {
	m, srv := newMachine(t), newServer()
	m.write(main, talk(1).String())
	m.run(srv)
	i := m.newImport(srv)
	i.Owner = "grace"
	if err := os.Remove(m.state()); err != nil {
		t.Fatal(err)
	}
	i.State, _ = transcripts.OpenState(m.state())
	if got, err := i.Run(t.Context()); err != nil || got.Duplicates != 0 {
		t.Errorf("got %+v, %v; want a push of its own", got, err)
	}
}

func TestSince(t *testing.T) {
	m, srv := newMachine(t), newServer()
	m.write("old.jsonl", talk(1).String())
	m.write("new.jsonl", talk(1).String())
	if err := os.Chtimes(m.path("old.jsonl"), time.Time{}, time.Now().Add(-48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	i := m.newImport(srv)
	i.Since = time.Now().Add(-24 * time.Hour)
	if got, err := i.Run(t.Context()); err != nil || got.Old != 1 || got.Read != 1 {
		t.Errorf("got %+v, %v; want the new one only", got, err)
	}
	if got := m.run(srv); got.Unchanged != 1 || got.Read != 1 {
		t.Errorf("without it %+v, want the old one, too", got)
	}
}

// TestPromptsWithoutText: texts can be sent by a later import.
func TestPromptsWithoutText(t *testing.T) {
	m, srv := newMachine(t), newServer()
	m.write(main, talk(2).String())
	i := m.newImport(srv)
	i.Prompts = false
	if _, err := i.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(srv.of("prompt")) != 2 {
		t.Errorf("prompts %v, want 2", srv.of("prompt"))
	}
	for _, p := range srv.of("prompt") {
		if text, ok := p["prompt_text"]; ok {
			t.Errorf("the text %q was sent", text)
		}
	}
	if got := m.run(srv); got.Read != 1 {
		t.Errorf("with texts: %+v, want it to be read again", got)
	}
	for _, p := range srv.of("prompt") {
		if p["prompt_text"] != "Read the tables, please" {
			t.Errorf("prompt %v has no text", p)
		}
	}
	i = m.newImport(srv)
	i.Prompts = false
	if got, err := i.Run(t.Context()); err != nil || got.Unchanged != 1 {
		t.Errorf("without texts again: %+v, %v; want nothing to be done", got, err)
	}
}

func TestRehearsal(t *testing.T) {
	m := newMachine(t)
	m.write(main, talk(225).String())
	i := &transcripts.Import{Dir: m.projects(), Prompts: true}
	got, err := i.Run(t.Context())
	if err != nil || got.Records.Total() != 1126 || got.Pushes != 0 {
		t.Errorf("got %+v, %v; want 1126 records and no push", got, err)
	}
	if _, err := os.Stat(m.state()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a state: %v", err)
	}
}

func TestMalformed(t *testing.T) {
	m, srv := newMachine(t), newServer()
	s := talk(1).
		raw("").
		raw("not JSON").
		raw(`{"type":"user","message":`).
		raw("12").
		raw(`{"no":"type"}`).
		raw(`{"type":"some-day","uuid":7}`).
		raw(`{"type":"assistant","message":{"content":"x"}}`).
		raw(`{"type":"user","uuid":7,"timestamp":"2026-03-14T09:26:53Z"}`).
		raw("\x00\x00\x00").
		raw(`{"type":"user","timestamp":"2026-03-14T09:26:53Z","message":{"content":` + strings.Repeat("[", 20_000)).
		raw(`{"type":"user","timestamp":"2026-03-14T09:26:53Z","message":"` + strings.Repeat("x", transcripts.MaxLine) + `"}`)
	m.write(main, s.skill("t9", "xlsx").String())
	got := m.run(srv)
	var lines []int
	for _, p := range got.Problems {
		if p.File != m.path(main) || p.Message == "" {
			t.Errorf("problem %+v, want the file and a reason", p)
		}
		lines = append(lines, p.Line)
	}
	if want := []int{5, 6, 7, 10, 11, 12, 13, 14}; got.Malformed != len(want) || !slices.Equal(lines, want) {
		t.Errorf("%d malformed lines %v, want %v: %v", got.Malformed, lines, want, got.Problems)
	}
	if got := srv.invocations(); len(got) != 2 {
		t.Errorf("invocations %v, want those before and after", got)
	}
}

func TestProblemsAreBounded(t *testing.T) {
	m, srv := newMachine(t), newServer()
	m.write(main, strings.Repeat("nonsense\n", 1000))
	if got := m.run(srv); got.Malformed != 1000 || len(got.Problems) != 20 {
		t.Errorf("%d malformed lines and %d problems, want 1000 and 20", got.Malformed, len(got.Problems))
	}
}

func TestRejected(t *testing.T) {
	m, srv := newMachine(t), newServer()
	m.write(main, talk(1).String())
	i := m.newImport(srv)
	i.Push = func(context.Context, []byte) (transcripts.Receipt, error) {
		return transcripts.Receipt{Rejected: []string{"prompt: occurred_at lies too far in the future"}}, nil
	}
	got, err := i.Run(t.Context())
	want := []transcripts.Problem{{Message: "prompt: occurred_at lies too far in the future"}}
	if diff := cmp.Diff(want, got.Problems); diff != "" || got.Rejected != 1 || err != nil {
		t.Errorf("got %+v, %v; problems (-want +got):\n%s", got, err, diff)
	}
}

func TestWhereTranscriptsAre(t *testing.T) {
	m, srv := newMachine(t), newServer()
	m.write(main, talk(1).String())
	m.write("notes.txt", "not a transcript")
	if err := os.Symlink(m.projects(), filepath.Join(m.dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(m.dir, "link"), m.path(main), m.projects()} {
		i := m.newImport(srv)
		i.Dir = dir
		if got, err := i.Run(t.Context()); err != nil || got.Files != 1 {
			t.Errorf("%s: %+v, %v; want one file", dir, got, err)
		}
	}
	if len(srv.pushes) != 1 {
		t.Errorf("%d pushes, want 1: it is the same file", len(srv.pushes))
	}
	i := m.newImport(srv)
	i.Dir = filepath.Join(m.dir, "nowhere")
	if _, err := i.Run(t.Context()); !fault.Is(err, fault.NotFound) {
		t.Errorf("error %v, want one that says that the folder is missing", err)
	}
}

// TestFilesThatAreGone: the state forgets deleted files.
func TestFilesThatAreGone(t *testing.T) {
	m, srv := newMachine(t), newServer()
	m.write("a.jsonl", talk(1).String())
	m.write("b.jsonl", talk(1).String())
	m.run(srv)
	if err := os.Remove(m.path("a.jsonl")); err != nil {
		t.Fatal(err)
	}
	m.run(srv)
	state, err := os.ReadFile(m.state())
	if err != nil || strings.Contains(string(state), "a.jsonl") || !strings.Contains(string(state), "b.jsonl") {
		t.Errorf("state %s, %v; want b.jsonl only", state, err)
	}
}

func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can read everything")
	}
	m, srv := newMachine(t), newServer()
	m.write("a.jsonl", talk(1).String())
	m.write("b.jsonl", talk(1).String())
	if err := os.Chmod(m.path("a.jsonl"), 0); err != nil {
		t.Fatal(err)
	}
	if got := m.run(srv); got.Unreadable != 1 || got.Read != 1 || len(got.Problems) != 1 {
		t.Errorf("got %+v, want one to be named and the other to be read", got)
	}
}
