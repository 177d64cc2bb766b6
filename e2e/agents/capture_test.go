package agents_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The captures are fixtures for the packages that read telemetry and
// transcripts. -capture writes them anew.
const (
	telemetryCaptures  = "../../internal/observe/telemetry/testdata/agents"
	transcriptCaptures = "../../internal/local/transcripts/testdata/agents"
)

func (c claudeCode) capture(t *testing.T, scenario string) {
	t.Helper()
	c.captureTelemetry(t, "claude-"+scenario)
	dir := filepath.Join(transcriptCaptures, scenario)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	// The name of the project's folder is made of its path.
	projects, err := filepath.Glob(filepath.Join(c.home, ".claude", "projects", "*"))
	if err != nil || len(projects) != 1 {
		t.Fatalf("projects %q, %v", projects, err)
	}
	err = filepath.WalkDir(projects[0], func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".jsonl" {
			return err
		}
		in, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var out bytes.Buffer
		for line := range bytes.Lines(in) {
			value := c.scrubbed(t, line)
			if !vendorText(value) {
				out.Write(encode(t, value))
			}
		}
		name, err := filepath.Rel(projects[0], path)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, out.Bytes(), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (c codexCLI) capture(t *testing.T, scenario string) {
	t.Helper()
	c.captureTelemetry(t, "codex-"+scenario)
}

// captureTelemetry writes all reports of one signal into one file, a line each.
func (a agent) captureTelemetry(t *testing.T, name string) {
	t.Helper()
	for _, signal := range []string{"logs", "metrics", "traces"} {
		var out bytes.Buffer
		for _, e := range a.telemetry.sent("/v1/" + signal) {
			value := a.scrubbed(t, e.body)
			keepRelevant(value)
			out.Write(encode(t, value))
		}
		if err := os.MkdirAll(telemetryCaptures, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(telemetryCaptures, name+"-"+signal+".jsonl"), out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// scrubbed reads JSON without what belongs to the machine, and with long texts
// cut: a few words of a system prompt are as good as all of it.
func (a agent) scrubbed(t *testing.T, text []byte) any {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	replace := strings.NewReplacer(a.home, "/home/ada", strings.ReplaceAll(a.home, "/", "-"), "-home-ada",
		os.Getenv("WHETSTONE_AGENTS"), "/usr/lib/node_modules", host, "workstation",
		strings.TrimSpace(string(kernel)), "6.1.0", a.org.key, "st_live_key",
		strings.TrimPrefix(a.telemetry.URL, "http://"), "127.0.0.1:4318")
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return mapTexts(value, func(s string) string { return shorten(userID.ReplaceAllString(replace.Replace(s), "user")) })
}

// userID is the id that Claude Code makes up for a home.
var userID = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// shorten keeps up to 20 lines of up to 100 characters.
func shorten(s string) string {
	lines := strings.Split(s, "\n")
	lines = lines[:min(len(lines), 20)]
	for i, line := range lines {
		if runes := []rune(line); len(runes) > 100 {
			lines[i] = string(runes[:100]) + "…"
		}
	}
	return strings.Join(lines, "\n")
}

func mapTexts(value any, f func(string) string) any {
	switch v := value.(type) {
	case string:
		return f(v)
	case []any:
		for i := range v {
			v[i] = mapTexts(v[i], f)
		}
	case map[string]any:
		for name := range v {
			v[name] = mapTexts(v[name], f)
		}
	}
	return value
}

// vendorText reports whether a line of a transcript is a copy of what the agent
// sends to the model with every request.
func vendorText(line any) bool {
	fields, ok := line.(map[string]any)
	if !ok {
		return false
	}
	attachment, _ := fields["attachment"].(map[string]any)
	return slices.Contains([]any{"api-request", "api-request-shape", "api-request-blob"}, fields["type"]) ||
		slices.Contains([]any{"prompt_snapshot", "deferred_tools_delta", "agent_listing_delta"}, attachment["type"])
}

// relevant are the names of metrics and spans that are about skills, prompts and
// models. Codex and OpenCode report hundreds of others in a session.
var relevant = regexp.MustCompile(`^(claude_code\..*|` +
	`codex\.(skill\..*|thread\.skills\..*|turn\.token_usage|exec|sampling)|exec_command|gen_ai\..*|gemini_cli\..*|` +
	`ai\..*|invoke_agent|chat .*|execute_tool.*|llm_call|tool_call|schedule_tool_calls)$`)

func keepRelevant(value any) {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			keepRelevant(element)
		}
	case map[string]any:
		for name, element := range v {
			if list, ok := element.([]any); ok && (name == "metrics" || name == "spans") {
				v[name] = slices.DeleteFunc(list, func(one any) bool {
					fields, _ := one.(map[string]any)
					text, _ := fields["name"].(string)
					return !relevant.MatchString(text)
				})
			}
			keepRelevant(v[name])
		}
	}
}
