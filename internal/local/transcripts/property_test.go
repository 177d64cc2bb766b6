package transcripts_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/local/transcripts"
)

// TestAnyWayOfImporting appends to transcripts in random pieces and imports them
// in any order, in between and repeatedly, with crashes that lose the newest
// state. The server ends up with the same records as after one import.
func TestAnyWayOfImporting(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		texts := map[string]string{}
		for _, name := range []string{"one.jsonl", "two.jsonl", "one/subagents/agent-x.jsonl"} {
			texts[name] = drawScript(rt, name).String()
		}
		once, parts := newServer(), newServer()
		whole := machine{t, filepath.Join(dir, "whole")}
		for name, text := range texts {
			whole.write(name, text)
		}
		whole.run(once)

		m := machine{t, filepath.Join(dir, "parts")}
		written := map[string]int{}
		for range rapid.IntRange(0, 4).Draw(rt, "steps") {
			name := rapid.SampledFrom([]string{"one.jsonl", "two.jsonl", "one/subagents/agent-x.jsonl"}).Draw(rt, "file")
			written[name] = rapid.IntRange(written[name], len(texts[name])).Draw(rt, "bytes")
			m.write(name, texts[name][:written[name]])
			m.importOne(rt, parts, name)
		}
		for name, text := range texts {
			m.write(name, text)
		}
		m.importOne(rt, parts, "")
		m.importOne(rt, parts, "")
		if diff := cmp.Diff(once.records, parts.records); diff != "" {
			rt.Fatalf("records (-at once +in parts):\n%s", diff)
		}
	})
}

// importOne imports a file, or all of them, and may lose the state.
func (m machine) importOne(rt *rapid.T, s *server, name string) {
	before, readErr := os.ReadFile(m.state())
	state, err := transcripts.OpenState(m.state())
	if err != nil {
		rt.Fatal(err)
	}
	i := &transcripts.Import{Dir: m.projects(), Prompts: true, Owner: "ada", State: state, Push: s.push}
	if name != "" {
		i.Dir = m.path(name)
	}
	if got, err := i.Run(m.t.Context()); err != nil || got.Malformed > 0 {
		rt.Fatalf("%+v, %v", got, err)
	}
	if readErr == nil && rapid.Bool().Draw(rt, "crash") {
		if err := os.WriteFile(m.state(), before, 0o600); err != nil {
			rt.Fatal(err)
		}
	}
}

// drawScript draws a transcript of all kinds of lines, some with the same time.
func drawScript(rt *rapid.T, name string) *script {
	s := new(script)
	s.side = filepath.Base(name) == "agent-x.jsonl"
	now, lastCall := clock, ""
	for n := range rapid.IntRange(0, 12).Draw(rt, "lines of "+name) {
		id := fmt.Sprintf("%s-%d", name, n)
		skill := rapid.SampledFrom([]string{"pdf", "xlsx"}).Draw(rt, "skill")
		now = now.Add(time.Duration(rapid.IntRange(0, 2).Draw(rt, "seconds")) * time.Second)
		s.with = object{"uuid": id, "sessionId": name[:3], "timestamp": now.Format(time.RFC3339Nano)}
		switch rapid.IntRange(0, 8).Draw(rt, "line") {
		case 0:
			s.user("Please use " + skill + ", ä")
		case 1:
			s.user("<command-name>/" + skill + "</command-name>")
		case 2:
			s.skill(id, skill)
			lastCall = id
		case 3:
			s.read(id, "/skills/"+skill+"/SKILL.md")
		case 4:
			s.result(lastCall, rapid.Bool().Draw(rt, "fails"))
		case 5:
			s.use(id, "Bash", object{"command": rapid.SampledFrom([]string{"ls", "go test ./...", "go test | tail"}).Draw(rt, "command")})
			lastCall = id
		case 6:
			s.raw(`{"type":"file-history-snapshot","messageId":"x"}`)
		case 7:
			s.ran(lastCall, rapid.IntRange(0, 1).Draw(rt, "status"), "ok")
		case 8:
			s.user("[Request interrupted by user]")
		}
	}
	return s
}

// FuzzImport: any file is read to its end without a panic.
func FuzzImport(f *testing.F) {
	f.Add([]byte(talk(2).String()))
	f.Add([]byte(new(script).user("<command-name>/pdf</command-name>").read("t", "/pdf/SKILL.md").result("t", true).String()))
	f.Add([]byte(`{"type":"user","timestamp":"0001-01-01T00:00:00Z","message":{"content":[{"type":"text","text":"\ud800"}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), main)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		i := &transcripts.Import{Dir: path, Prompts: true}
		got, err := i.Run(t.Context())
		if err != nil || got.Read != 1 || got.Malformed > bytes.Count(text, []byte("\n")) {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}
