package agentstest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/relay"
)

// programs are the names of the agents' executables.
var programs = map[string]string{
	"claude-code": "claude", "codex": "codex", "copilot": "copilot", "opencode": "opencode", "gemini": "gemini",
}

// copier is the program cp, found before a test changes PATH.
var copier, _ = exec.LookPath("cp")

// Main lets the program of a test be the relay, as the service's own binary is, and
// the stand-in of an agent. TestMain calls it first.
func Main() {
	switch {
	case len(os.Args) > 1 && os.Args[1] == relay.Command:
		os.Exit(relay.Main(os.Args[2:]))
	case IsStandIn(os.Args[0]):
		os.Exit(StandIn(os.Args[0], os.Args[1:]))
	}
}

// StandIns returns a folder with a stand-in for every agent.
func StandIns(t *testing.T) string {
	t.Helper()
	dir := Folder(t)
	first := filepath.Join(dir, "claude")
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Skip(err) // only Linux has a sandbox
	}
	// Another process writes the copy. A file that this process has open for writing is
	// inherited by every process that another test starts, until that calls exec; meanwhile
	// executing the file fails with ETXTBSY.
	if out, err := exec.Command(copier, self, first).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Chmod(first, 0o755); err != nil { // the sandbox's user executes it
		t.Fatal(err)
	}
	for _, name := range programs {
		if to := filepath.Join(dir, name); to != first {
			if err := os.Link(first, to); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// IsStandIn reports whether a program is to behave as an agent, by the name that
// it was started with.
func IsStandIn(program string) bool {
	for _, name := range programs {
		if filepath.Base(program) == name {
			return true
		}
	}
	return false
}

// StandIn behaves as an agent: it starts with the same arguments, environment and
// files, asks the same model in the same wire format, has a tool for skills and
// one for the shell, and writes what the agent writes. It returns the exit status.
func StandIn(program string, args []string) int {
	if slices.Equal(args, []string{"--version"}) {
		fmt.Println("9.8.7 (stand-in)")
		return 0
	}
	home := os.Getenv("HOME")
	var err error
	switch filepath.Base(program) {
	case "claude":
		err = converse(&claude{}, &messages{url: os.Getenv("ANTHROPIC_BASE_URL"), key: os.Getenv("ANTHROPIC_API_KEY")},
			stdin(), tools{"Skill", "skill", "Bash", "command", home + "/.claude/skills"}, maxTurns(args))
	case "codex":
		config, _ := os.ReadFile(home + "/.codex/config.toml")
		url := regexp.MustCompile(`base_url = "(.*)/v1"`).FindSubmatch(config)
		if url == nil {
			return 2
		}
		err = converse(&codex{}, &responses{url: string(url[1]), key: os.Getenv("MODEL_KEY")},
			stdin(), tools{"", "", "exec_command", "cmd", ""}, 0)
	case "copilot":
		err = converse(&copilot{}, &messages{url: os.Getenv("COPILOT_PROVIDER_BASE_URL"), key: os.Getenv("COPILOT_PROVIDER_API_KEY")},
			prompt(args), tools{"skill", "skill", "bash", "command", home + "/.copilot/skills"}, 0)
	case "opencode":
		config, _ := os.ReadFile(home + "/.config/opencode/opencode.json")
		url := regexp.MustCompile(`"baseURL":"(.*)/v1"`).FindSubmatch(config)
		if url == nil {
			return 2
		}
		if !slices.Contains(args, "--title") { // it asks the model for one
			m := &messages{url: string(url[1])}
			m.begin("Generate a title for this conversation")
			if _, _, err := m.ask(); err != nil {
				return 1
			}
		}
		err = converse(&openCode{}, &messages{url: string(url[1])}, args[len(args)-1],
			tools{"skill", "name", "bash", "command", home + "/.config/opencode/skills"}, 0)
	case "gemini":
		err = converse(&gemini{}, &google{url: os.Getenv("GOOGLE_GEMINI_BASE_URL"), key: os.Getenv("GEMINI_API_KEY")},
			prompt(args), tools{"activate_skill", "name", "run_shell_command", "command", home + "/.gemini/skills"}, 0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func stdin() string {
	text, _ := io.ReadAll(os.Stdin)
	return string(text)
}

func prompt(args []string) string {
	for _, arg := range args {
		if text, ok := strings.CutPrefix(arg, "--prompt="); ok {
			return text
		}
	}
	return ""
}

func maxTurns(args []string) (n int) {
	if i := slices.Index(args, "--max-turns"); i >= 0 {
		_, _ = fmt.Sscan(args[i+1], &n)
	}
	return n
}

// tools are the names of the two tools and of the fields of their inputs.
type tools struct{ skill, skillField, shell, shellField, skillsDir string }

// A toolCall is one that the model asks for.
type toolCall struct {
	id, name string
	input    map[string]any
}

// A wire asks a model.
type wire interface {
	begin(instruction string)
	// ask returns the next answer.
	ask() (text string, calls []toolCall, err error)
	// answer adds the result of a call to the conversation.
	answer(c toolCall, output string, failed bool)
}

// A form is how an agent tells what it does.
type form interface {
	begin()
	said(text string, calls []toolCall)
	did(c toolCall, output string, failed bool)
	end(text string, err error)
}

var errTurns = errors.New("max turns")

// converse is what every agent does.
func converse(f form, w wire, instruction string, t tools, maxTurns int) error {
	f.begin()
	w.begin(instruction)
	for turn := 1; ; turn++ {
		text, calls, err := w.ask()
		if err != nil {
			f.end("", err)
			return err
		}
		f.said(text, calls)
		if len(calls) == 0 {
			f.end(text, nil)
			return nil
		}
		for _, c := range calls {
			output, failed := t.run(c)
			f.did(c, output, failed)
			w.answer(c, output, failed)
		}
		if turn == maxTurns {
			f.end("", errTurns)
			return errTurns
		}
	}
}

func (t tools) run(c toolCall) (output string, failed bool) {
	switch c.name {
	case t.skill:
		name, _ := c.input[t.skillField].(string)
		text, err := os.ReadFile(filepath.Join(t.skillsDir, name, "SKILL.md"))
		if err != nil {
			return "Unknown skill: " + name, true
		}
		return string(text), false
	case t.shell:
		command, _ := c.input[t.shellField].(string)
		text, err := exec.Command("/bin/sh", "-c", command).CombinedOutput() // the sandbox ends it
		return string(text), err != nil
	}
	return "unknown tool " + c.name, true
}

// post sends JSON and reads JSON.
func post(url, header, key string, body, into any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	req.Header.Set(header, key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("API Error: %d %s", resp.StatusCode, text)
	}
	return json.Unmarshal(text, into)
}

type object = map[string]any

// messages is Anthropic's wire format.
type messages struct {
	url, key string
	all      []object
}

func (m *messages) begin(instruction string) {
	m.all = []object{{"role": "user", "content": instruction}}
}

func (m *messages) ask() (text string, calls []toolCall, err error) {
	var out struct {
		Content []struct {
			Type, Text, ID, Name string
			Input                map[string]any
		}
	}
	ask := object{"model": "any", "max_tokens": 9, "messages": m.all}
	if err := post(m.url+"/v1/messages", "X-Api-Key", m.key, ask, &out); err != nil {
		return "", nil, err
	}
	for _, b := range out.Content {
		text += b.Text
		if b.Type == "tool_use" {
			calls = append(calls, toolCall{b.ID, b.Name, b.Input})
		}
	}
	m.all = append(m.all, object{"role": "assistant", "content": out.Content})
	return text, calls, nil
}

func (m *messages) answer(c toolCall, output string, failed bool) {
	m.all = append(m.all, object{"role": "user", "content": []object{{
		"type": "tool_result", "tool_use_id": c.id, "content": output, "is_error": failed,
	}}})
}

// responses is OpenAI's wire format.
type responses struct {
	url, key string
	input    []any
}

func (r *responses) begin(instruction string) {
	r.input = []any{object{"type": "message", "role": "user", "content": instruction}}
}

func (r *responses) ask() (text string, calls []toolCall, err error) {
	var out struct{ Output []json.RawMessage }
	err = post(r.url+"/v1/responses", "Authorization", "Bearer "+r.key, object{"model": "any", "input": r.input}, &out)
	if err != nil {
		return "", nil, err
	}
	for _, raw := range out.Output {
		var item struct {
			Type, Name, Arguments string
			CallID                string `json:"call_id"`
			Content               []struct{ Text string }
		}
		if err := json.Unmarshal(raw, &item); err != nil {
			return "", nil, err
		}
		for _, part := range item.Content {
			text += part.Text
		}
		if item.Type == "function_call" {
			c := toolCall{id: item.CallID, name: item.Name}
			if err := json.Unmarshal([]byte(item.Arguments), &c.input); err != nil {
				return "", nil, err
			}
			calls = append(calls, c)
		}
		r.input = append(r.input, raw)
	}
	return text, calls, nil
}

func (r *responses) answer(c toolCall, output string, _ bool) {
	r.input = append(r.input, object{"type": "function_call_output", "call_id": c.id, "output": output})
}

// google is Google's wire format.
type google struct {
	url, key string
	contents []any
}

func (g *google) begin(instruction string) {
	g.contents = []any{object{"role": "user", "parts": []object{{"text": instruction}}}}
}

func (g *google) ask() (text string, calls []toolCall, err error) {
	var out struct {
		Candidates []struct {
			Content struct {
				Role  string `json:"role"`
				Parts []struct {
					Text         string `json:"text,omitempty"`
					FunctionCall *struct {
						Name string         `json:"name"`
						Args map[string]any `json:"args"`
					} `json:"functionCall,omitempty"`
				} `json:"parts"`
			}
		}
	}
	err = post(g.url+"/v1beta/models/any:generateContent", "X-Goog-Api-Key", g.key, object{"contents": g.contents}, &out)
	if err != nil {
		return "", nil, err
	}
	for n, part := range out.Candidates[0].Content.Parts {
		text += part.Text
		if part.FunctionCall != nil {
			calls = append(calls, toolCall{fmt.Sprintf("call-%d-%d", len(g.contents), n), part.FunctionCall.Name, part.FunctionCall.Args})
		}
	}
	g.contents = append(g.contents, out.Candidates[0].Content)
	return text, calls, nil
}

func (g *google) answer(c toolCall, output string, _ bool) {
	g.contents = append(g.contents, object{"role": "user", "parts": []object{{
		"functionResponse": object{"name": c.name, "response": object{"output": output}},
	}}})
}
