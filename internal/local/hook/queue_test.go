package hook_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/local/hook"
)

func newQueue(t *testing.T) (hook.Queue, func(name string) hook.Session) {
	t.Helper()
	dir := t.TempDir()
	return hook.Queue{Dir: filepath.Join(dir, "queue")}, func(name string) hook.Session {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return hook.Session{Transcript: path, Prompts: true}
	}
}

// TestOffline: what cannot be sent waits, once, and is sent the next time.
func TestOffline(t *testing.T) {
	q, session := newQueue(t)
	a, b, gone := session("a.jsonl"), session("b.jsonl"), session("gone.jsonl")
	for _, s := range []hook.Session{a, b, a, gone} {
		if err := q.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(gone.Transcript); err != nil {
		t.Fatal(err)
	}
	down := errors.New("connection refused")
	if err := q.Send(t.Context(), func(hook.Session) error { return down }); !errors.Is(err, down) || q.Len() != 2 {
		t.Errorf("offline: %v, %d wait; want the error, and 2", err, q.Len())
	}
	sent := map[string]int{}
	send := func(s hook.Session) error { sent[filepath.Base(s.Transcript)]++; return nil }
	for range 2 {
		if err := q.Send(t.Context(), send); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(map[string]int{"a.jsonl": 1, "b.jsonl": 1}, sent); diff != "" || q.Len() != 0 {
		t.Errorf("%d wait, sent (-want +got):\n%s", q.Len(), diff)
	}
}

// TestAddedWhileSending: a turn that ends meanwhile is sent, too.
func TestAddedWhileSending(t *testing.T) {
	q, session := newQueue(t)
	a := session("a.jsonl")
	if err := q.Add(a); err != nil {
		t.Fatal(err)
	}
	if err := q.Send(t.Context(), q.Add); err != nil || q.Len() != 1 {
		t.Errorf("%v, %d wait; want 1", err, q.Len())
	}
}

// TestKilled: what a process was sending when it was killed is sent by the next.
func TestKilled(t *testing.T) {
	q, session := newQueue(t)
	if err := q.Add(session("a.jsonl")); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = q.Send(t.Context(), func(hook.Session) error { panic("killed") })
	}()
	sent := 0
	if err := q.Send(t.Context(), func(hook.Session) error { sent++; return nil }); err != nil || sent != 1 || q.Len() != 0 {
		t.Errorf("%v, sent %d, %d wait", err, sent, q.Len())
	}
}

// TestOneSender: a second process waits for the first.
func TestOneSender(t *testing.T) {
	q, session := newQueue(t)
	if err := q.Add(session("a.jsonl")); err != nil {
		t.Fatal(err)
	}
	err := q.Send(t.Context(), func(hook.Session) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		return q.Send(ctx, func(hook.Session) error { return nil })
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want that the second waits", err)
	}
}

func TestForeignFiles(t *testing.T) {
	q, _ := newQueue(t)
	if err := q.Send(t.Context(), nil); err != nil {
		t.Errorf("empty: %v", err)
	}
	for name, content := range map[string]string{"x.json": "nonsense", "y.json": "{}", "notes.txt": ""} {
		if err := os.WriteFile(filepath.Join(q.Dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Send(t.Context(), nil); err != nil || q.Len() != 0 {
		t.Errorf("%v, %d wait", err, q.Len())
	}
}

func TestTranscript(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CODEX_HOME", dir)
	id := "01a1e379-c2f4-7760-9efd-5ce33ac5e135"
	rollout := filepath.Join(dir, "sessions", "2026", "11", "16", "rollout-2026-11-16T08-29-30-"+id+".jsonl")
	if err := os.MkdirAll(filepath.Dir(rollout), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(rollout, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ agent, payload, want string }{
		{hook.ClaudeCode, `{"session_id":"s","transcript_path":"/p/s.jsonl","hook_event_name":"Stop"}`, "/p/s.jsonl"},
		{hook.ClaudeCode, `{"transcript_path":"s.jsonl"}`, ""},
		{hook.ClaudeCode, `{}`, ""},
		{hook.ClaudeCode, ``, ""},
		{hook.Codex, `{"type":"agent-turn-complete","thread-id":"` + id + `"}`, rollout},
		{hook.Codex, `{"thread-id":"other"}`, ""},
		{hook.Codex, `{"thread-id":"*"}`, ""},
		{hook.Codex, `[]`, ""},
	} {
		got, err := hook.Transcript(test.agent, []byte(test.payload))
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s %s: %q, %v; want %q", test.agent, test.payload, got, err, test.want)
		}
	}
}
