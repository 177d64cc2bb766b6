package clients_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// inspect runs the command line of the MCP inspector against a catalog.
func inspect(t *testing.T, base string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	programs := servertest.InstallNPM(t, root, "e2e/clients")
	args = append([]string{
		filepath.Join(programs, "mcp-inspector"), "--cli", site.server.URL + base + "/mcp", "--transport", "http",
	}, args...)
	cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "node"), args...)
	home := t.TempDir()
	cmd.Dir, cmd.Env = home, []string{"PATH=" + programs, "HOME=" + home, "NO_COLOR=1"}
	var out, log strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &log
	err = cmd.Run()
	return out.String(), log.String(), err
}

// inspected runs a method that must work, and print all of the texts.
func inspected(t *testing.T, want []string, base string, args ...string) string {
	t.Helper()
	out, log, err := inspect(t, base, args...)
	if err != nil {
		t.Fatalf("inspector %q: %v\n%s%s", args, err, out, log)
	}
	for _, text := range want {
		if !strings.Contains(out, text) {
			t.Errorf("inspector %q does not print %q:\n%s", args, text, out)
		}
	}
	return out
}

// TestInspector lists 500 skills by the inspector, which reads all of their files and
// verifies every digest, and calls the tools.
func TestInspector(t *testing.T) {
	t.Parallel()
	org := newOrganisation(t, "Inspected")
	author := &registrytest.Client{Caller: org.Caller}
	const skills, private = 500, 50
	for i := range skills {
		name, visibility := fmt.Sprintf("inspected-%03d", i), "public"
		if i < private {
			visibility = "org"
		}
		author.Made(name, "1.0.0", pack(t, map[string]string{
			"SKILL.md":              fmt.Sprintf("---\nname: %s\ndescription: Does %d things.\n---\n", name, i),
			"data/notes & more.bin": fmt.Sprintf("\x00\xff%d", i),
		}), object{"visibility": visibility})
	}
	token := org.Post("/api/v1/catalog-tokens", object{"name": "CI"}).Want(http.StatusCreated).Text("token")
	out := inspected(t, nil, "/o/Inspected/"+token, "--method", "skills/list", "--verify", "--require-digests", "--skill-catalog-max-skills", "1000")
	verified := 0
	for line := range strings.Lines(out) {
		var report struct {
			OK      bool   `json:"ok"`
			Outcome string `json:"outcome"`
			Files   []any  `json:"files"`
		}
		if err := json.Unmarshal([]byte(line), &report); err != nil || !report.OK || report.Outcome != "verified" || len(report.Files) != 2 {
			t.Fatalf("%v: %s", err, line)
		}
		verified++
	}
	if verified != skills {
		t.Errorf("%d skills are verified, want %d", verified, skills)
	}
	out = inspected(t, nil, "/o/Inspected", "--method", "skills/list")
	if listed := strings.Count(out, `"frontmatter"`); listed != skills-private {
		t.Errorf("%d skills are listed without a token, want %d", listed, skills-private)
	}

	const base, uri = "/o/Inspected", "skill://Inspected/inspected-100/SKILL.md"
	key := []string{"--header", "Authorization: Bearer " + org.Key}
	inspected(t, []string{`"search_skills"`, `"get_skill"`, `"readOnlyHint": true`}, base, "--method", "tools/list", "--strict")
	inspected(t, []string{`"report_skill_outcome"`}, base, append(key, "--method", "tools/list", "--strict")...)
	inspected(t, []string{`"inspected-100"`, `"text/markdown"`, uri}, base, "--method", "resources/list")
	inspected(t, []string{"Does 100 things."}, base, "--method", "resources/read", "--uri", uri)
	inspected(t, []string{`"inode/directory"`}, base, "--method", "resources/directory/read", "--uri", "skill://Inspected/inspected-100")
	inspected(t, []string{`"verified"`}, base, "--method", "skills/get", "--verify", "--uri", "skill://Inspected/v/1.0.0/inspected-100/SKILL.md")
	inspected(t, []string{"Does 123 things."}, base, "--method", "tools/call", "--tool-name", "search_skills", "--tool-arg", "query=inspected-123")
	inspected(t, []string{"Does 100 things."}, base, "--method", "tools/call", "--tool-name", "get_skill", "--tool-arg", "name=inspected-100")
	inspected(t, []string{"Recorded: inspected-100 passed"}, base, append(key,
		"--method", "tools/call", "--tool-name", "report_skill_outcome", "--tool-arg", "skill=inspected-100", "session=i1", "passed=true")...)
	if got := org.Get("/v1/sessions/i1").Want(http.StatusOK).Field("session"); !strings.Contains(fmt.Sprint(got["grades"]), "basis:pushed") {
		t.Errorf("the session's grades: %v", got["grades"])
	}
	for _, c := range []struct{ base, uri string }{
		{base, "skill://Inspected/inspected-000/SKILL.md"},
		{base, "skill://Inspected/v/1.0.0/inspected-000/SKILL.md"},
		{"/o/Inspected/ct_wrong", uri},
	} {
		if out, log, err := inspect(t, c.base, "--method", "resources/read", "--uri", c.uri); err == nil {
			t.Errorf("%s is read at %s:\n%s%s", c.uri, c.base, out, log)
		}
	}
}

// TestClaudeCodeMCP adds the server to the real Claude Code, which connects to it.
func TestClaudeCodeMCP(t *testing.T) {
	t.Parallel()
	org := newOrganisation(t, "ClaudeMCP")
	programs := servertest.InstallNPM(t, root, "e2e/agents")
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	claude := filepath.Join(programs, "..", "@anthropic-ai", "claude-code-linux-"+arch, "claude")
	home := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), claude, append([]string{"mcp"}, args...)...)
		cmd.Dir = home
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + home, "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("claude mcp %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	token := org.Post("/api/v1/catalog-tokens", object{"name": "CI"}).Want(http.StatusCreated).Text("token")
	base := site.server.URL + "/o/ClaudeMCP"
	run("add", "--transport", "http", "by-key", base+"/mcp", "--header", "Authorization: Bearer "+org.Key)
	run("add", "--transport", "http", "by-token", base+"/"+token+"/mcp")
	run("add", "--transport", "http", "wrong", base+"/mcp", "--header", "Authorization: Bearer st_live_wrong")
	list := run("list")
	for line := range strings.Lines(list) {
		name, _, named := strings.Cut(line, ": http")
		if named && strings.Contains(line, "Connected") != (name != "wrong") {
			t.Errorf("claude mcp list:\n%s", list)
		}
	}
	if strings.Count(list, "Connected") != 2 {
		t.Errorf("claude mcp list:\n%s", list)
	}
}
