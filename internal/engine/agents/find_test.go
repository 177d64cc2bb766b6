package agents_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/agents"
	"github.com/whetstone-dev/whetstone/internal/engine/agents/agentstest"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

var (
	messagesModel  = gateway.Model{Name: "sonnet", ID: "claude-sonnet-4-5", API: gateway.Anthropic, URL: "http://127.0.0.1:9"}
	responsesModel = gateway.Model{Name: "gpt", ID: "gpt-5.1-codex", API: gateway.Responses, URL: "http://127.0.0.1:9/v1"}
)

// TestFind finds programs in all the places that are searched, the folder before
// PATH.
func TestFind(t *testing.T) {
	from := agentstest.StandIns(t)
	for _, c := range []struct{ name, at string }{
		{"folder", "claude"},
		{"bin", "bin/claude"},
		{"npm", "node_modules/.bin/claude"},
		{"path", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := agentstest.Folder(t)
			if c.at == "" {
				setPath(t, from)
			} else {
				setPath(t)
				linkProgram(t, from, dir, c.at)
			}
			s := agentstest.Service(t, dir, messagesModel)
			got, err := s.Choose(t.Context(), agents.ClaudeCode, "")
			want := agents.Choice{Agent: agents.ClaudeCode, Version: "9.8.7", Model: "sonnet"}
			if err != nil || got != want {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

// setPath sets PATH to folders, and to one with nothing but the program of the sandbox.
func setPath(t *testing.T, folders ...string) {
	t.Helper()
	dir := agentstest.Folder(t)                           // that the sandbox's user can enter
	if bwrap, err := exec.LookPath("bwrap"); err == nil { // else agentstest.Service says so
		if err := os.Symlink(bwrap, filepath.Join(dir, "bwrap")); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", strings.Join(append(folders, dir), string(os.PathListSeparator)))
}

// linkProgram installs a program in a folder, below node_modules as npm does.
func linkProgram(t *testing.T, from, dir, at string) {
	t.Helper()
	target := filepath.Join(dir, at)
	if strings.HasPrefix(at, "node_modules/") {
		target = filepath.Join(dir, "node_modules/pkg/claude")
	}
	for _, folder := range []string{filepath.Dir(target), filepath.Dir(filepath.Join(dir, at))} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(from, "claude"), target); err != nil {
		t.Fatal(err)
	}
	if target != filepath.Join(dir, at) {
		if err := os.Symlink("../pkg/claude", filepath.Join(dir, at)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestChoose(t *testing.T) {
	setPath(t)
	dir := agentstest.Folder(t)
	linkProgram(t, agentstest.StandIns(t), dir, "claude")
	s := agentstest.Service(t, dir, messagesModel, responsesModel)
	for _, c := range []struct {
		name, agent, model string
		kind               fault.Kind
		message            string
	}{
		{"unknown agent", "clippy", "", fault.NotFound, `Agent "clippy" is not known`},
		{"not installed", agents.Codex, "", fault.Unavailable, "there is no program codex"},
		{"unknown model", agents.ClaudeCode, "opus", fault.Malformed, "must be one of sonnet"},
		{"other wire format", agents.ClaudeCode, "gpt", fault.Malformed, "must be one of sonnet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.Choose(t.Context(), c.agent, c.model)
			if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.message) {
				t.Errorf("got %v, want %q", err, c.message)
			}
		})
	}
}

// TestAPI is the list of agents: found ones with their version and models, others
// with the reason why they cannot be run.
func TestAPI(t *testing.T) {
	setPath(t)
	dir := agentstest.Folder(t)
	from := agentstest.StandIns(t)
	linkProgram(t, from, dir, "claude")
	if err := os.Link(filepath.Join(from, "gemini"), filepath.Join(dir, "gemini")); err != nil {
		t.Fatal(err)
	}
	s := agentstest.Service(t, dir, messagesModel)
	s.Commands = map[string]agents.Command{"mine": {Argv: []string{"/bin/sh", "-c", ":"}}}
	w := apptest.NewWorld(t, storetest.Open(t, "sqlite"), apptest.Options{})
	s.Mount(w.API)
	missing := func(name, program string, models ...any) apptest.Object {
		return apptest.Object{
			"name": name, "version": nil, "available": false, "models": append([]any{}, models...),
			"reason": "there is no program " + program + " on this machine; install it, or set --agents to the folder that has it",
		}
	}
	want := apptest.Object{"agents": []any{
		apptest.Object{"name": "claude-code", "version": "9.8.7", "available": true, "reason": nil, "models": []any{"sonnet"}},
		missing("codex", "codex"),
		missing("copilot", "copilot", "sonnet"),
		apptest.Object{
			"name": "gemini", "version": "9.8.7", "available": false, "models": []any{},
			"reason": "no model is configured whose wire format it speaks; set --model and --model-api",
		},
		apptest.Object{"name": "mine", "version": nil, "available": true, "reason": nil, "models": []any{"sonnet"}},
		missing("opencode", "opencode", "sonnet"),
	}}
	admin := w.Org("Acme")
	admin.Get("/api/v1/agents").Want(200).WantBody(want)
	w.Member(admin.Org, access.Viewer).Get("/api/v1/agents").Want(200).WantBody(want)
	w.Anonymous().Get("/api/v1/agents").Want(401)
}

// TestCommand runs an agent of the operator's own. What it did is unknown, which
// is not "not activated".
func TestCommand(t *testing.T) {
	s := agentstest.Service(t, "", messagesModel)
	const script = `echo "$1|$2|$MODEL_URL|$WHERE|$MODEL_KEY"; cat ~/.mine/skills/pdf-tables/SKILL.md >skill.txt; cat >stdin.txt`
	for _, c := range []struct{ name, instruction, stdin string }{
		{"argument", "{instruction}", ""},
		{"stdin", "none", "Count; {model}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			command, err := agents.ParseCommand("mine", `{"argv":["/bin/sh","-c",`+quote(script)+`,"sh",`+quote(c.instruction)+
				`,"{model}"],"skills_dir":"~/.mine/skills/","env":{"WHERE":"{home}:{dir}"}}`)
			if err != nil {
				t.Fatal(err)
			}
			s.Commands = map[string]agents.Command{"mine-" + c.name: command}
			choice, err := s.Choose(t.Context(), "mine-"+c.name, "")
			if err != nil {
				t.Fatal(err)
			}
			skill, work := agentstest.SkillFolder(t), agentstest.Folder(t)
			o, err := s.Run(t.Context(), agents.Request{
				Choice: choice, Instruction: "Count; {model}", Timeout: time.Minute, Work: work,
				Meter: gateway.NewMeter(gateway.Budget{}, gateway.Usage{}, nil), Skills: map[string]string{"pdf-tables": skill},
			})
			if err != nil || o.Failure != nil {
				t.Fatal(err, o.Failure, o.Stderr)
			}
			said := "none"
			if c.stdin == "" {
				said = "Count; {model}"
			}
			want := said + "|claude-sonnet-4-5|http://127.0.0.1:8787|/home/agent:/work|no-key-inside-the-sandbox"
			if diff := cmp.Diff(want, o.Final); diff != "" {
				t.Errorf("final message (-want +got):\n%s", diff)
			}
			if text, err := os.ReadFile(filepath.Join(work, "stdin.txt")); err != nil || string(text) != c.stdin {
				t.Errorf("stdin %q, %v, want %q", text, err, c.stdin)
			}
			if text, err := os.ReadFile(filepath.Join(work, "skill.txt")); err != nil || !strings.Contains(string(text), "pdf-tables") {
				t.Errorf("the skill is %q, %v", text, err)
			}
			if activated := o.Activated("pdf-tables"); activated != nil {
				t.Errorf("activated %v, want unknown", *activated)
			}
		})
	}
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

// TestSweep removes what a killed service left, and nothing that may be in use.
func TestSweep(t *testing.T) {
	s := agentstest.Service(t, "", messagesModel)
	s.Scratch = agentstest.Folder(t)
	old, recent, other := filepath.Join(s.Scratch, "whetstone-agent-1"), filepath.Join(s.Scratch, "whetstone-agent-2"),
		filepath.Join(s.Scratch, "else")
	for _, dir := range []string{old, recent, other} {
		if err := os.MkdirAll(filepath.Join(dir, "home"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-25 * time.Hour)
	for _, dir := range []string{old, other} {
		if err := os.Chtimes(dir, long, long); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Sweep(); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{old: false, recent: true, other: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", filepath.Base(dir), err == nil, want)
		}
	}
}
