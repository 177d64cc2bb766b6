package agents_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway/modeltest"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/telemetrytest"
	"github.com/whetstone-dev/whetstone/internal/web"
)

// A program is one of the five agents, connected as the connect page says.
type program struct {
	name   string // with the version, as in the folders of recordings
	skills string // where it looks for them in a project
	// ways are those of the connect page: the signals of OTLP, and with a hook also
	// "hook" and "import".
	ways  []string
	home  string // where it keeps transcripts, if they can be imported
	wire  func(*testing.T, ...reply) *modeltest.Model
	use   func(skill string) toolCall
	shell func(command string) toolCall
	// user is a prompt that uses a skill by the person's command; "" where the agent
	// has none without a terminal.
	user string
	// configure prepares the home, and returns what runs a prompt.
	configure func(*testing.T, subject) func(t *testing.T, text string, resume bool)
}

// A subject is an agent with its model.
type subject struct {
	agent
	model *modeltest.Model
}

func programs() []program {
	return []program{
		{
			name: "claude-code-2.1.327", skills: ".claude/skills", ways: []string{"logs", "hook", "import"},
			home: ".claude/projects", wire: modeltest.Messages, use: useOf, shell: bash,
			user: "/pdf-tables on the invoice", configure: connectClaude,
		},
		{
			name: "claude-code-2.1.327-masked", skills: ".claude/skills", ways: []string{"logs"},
			wire: modeltest.Messages, use: useOf, shell: bash, user: "/pdf-tables on the invoice", configure: connectMaskedClaude,
		},
		{
			name: "codex-0.169.0", skills: ".agents/skills", ways: []string{"logs", "hook", "import"},
			home: ".codex/sessions", wire: modeltest.Responses, shell: shell,
			user: "Use $pdf-tables on the invoice", configure: connectCodex,
			use: func(skill string) toolCall { return shell("cat .agents/skills/" + skill + "/SKILL.md") },
		},
		{
			name: "copilot-1.0.102", skills: ".github/skills", ways: []string{"traces", "metrics"},
			wire: modeltest.Messages, configure: connectCopilot,
			use:   func(skill string) toolCall { return toolCall{Tool: "skill", Input: object{"skill": skill}} },
			shell: describedShell("bash"),
		},
		{
			name: "gemini-cli-0.61.0", skills: ".gemini/skills", ways: []string{"logs", "traces", "metrics"},
			wire: modeltest.Google, configure: connectGemini,
			use:   func(skill string) toolCall { return toolCall{Tool: "activate_skill", Input: object{"name": skill}} },
			shell: describedShell("run_shell_command"),
		},
		{
			name: "opencode-1.18.33", skills: ".opencode/skills", ways: []string{"logs", "traces"},
			wire: modeltest.Messages, configure: connectOpenCode,
			use:   func(skill string) toolCall { return toolCall{Tool: "skill", Input: object{"name": skill}} },
			shell: describedShell("bash"),
		},
	}
}

func describedShell(tool string) func(string) toolCall {
	return func(command string) toolCall {
		return toolCall{Tool: tool, Input: object{"command": command, "description": "Runs it"}}
	}
}

var exported = regexp.MustCompile(`(?m)^export (\w+)="?([^"\n]*)"?$`)

// onPage returns what the connect page has for an agent, with the recorder as the
// server.
func (a agent) onPage(t *testing.T, title string) string {
	t.Helper()
	for _, s := range web.Agents(a.telemetry.URL, a.org.reporting) {
		if s.Title == title {
			return s.Code
		}
	}
	t.Fatalf("the connect page has no %q", title)
	return ""
}

// pageEnv returns the variables of the connect page. A recording is in JSON.
func (a agent) pageEnv(t *testing.T, title string) (env []string) {
	t.Helper()
	for _, v := range exported.FindAllStringSubmatch(a.onPage(t, title), -1) {
		env = append(env, v[1]+"="+v[2])
	}
	if *capture {
		env = append(env, "OTEL_EXPORTER_OTLP_PROTOCOL=http/json")
	}
	return env
}

// hook installs the hook of an agent as the connect page says.
func (a agent) hook(t *testing.T, name string) {
	t.Helper()
	for line := range strings.Lines(a.onPage(t, "Hooks")) {
		if args := strings.Fields(line); args[3] == name {
			a.whetstone(t, args[1:]...)
			return
		}
	}
	t.Fatalf("the connect page has no hook of %s", name)
}

func connectClaude(t *testing.T, s subject) func(*testing.T, string, bool) {
	t.Helper()
	s.hook(t, "claude-code")
	return s.promptClaude(s.pageEnv(t, "Claude Code"))
}

// connectMaskedClaude leaves out the variable that shows the names of skills, and the
// hook: Claude Code then calls every skill of a project custom_skill.
func connectMaskedClaude(t *testing.T, s subject) func(*testing.T, string, bool) {
	t.Helper()
	return s.promptClaude(slices.DeleteFunc(s.pageEnv(t, "Claude Code"), func(v string) bool {
		return strings.HasPrefix(v, "OTEL_LOG_TOOL_DETAILS=")
	}))
}

func (s subject) promptClaude(env []string) func(*testing.T, string, bool) {
	env = append(env,
		"ANTHROPIC_BASE_URL="+s.model.URL, "ANTHROPIC_API_KEY=scripted",
		"IS_SANDBOX=1", // else it does not skip permissions as root
		"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"CLAUDE_CODE_OTEL_FLUSH_TIMEOUT_MS=60000", "CLAUDE_CODE_OTEL_SHUTDOWN_TIMEOUT_MS=60000") // it waits 2 s on its own
	return func(t *testing.T, text string, resume bool) {
		t.Helper()
		args := []string{"-p", text, "--model", claudeModel, "--output-format", "json", "--dangerously-skip-permissions"}
		if resume {
			args = append(args, "--continue")
		}
		s.run(t, env, claude, args...)
	}
}

func connectCodex(t *testing.T, s subject) func(*testing.T, string, bool) {
	t.Helper()
	page := s.onPage(t, "Codex")
	if *capture {
		page = strings.ReplaceAll(page, `"binary"`, `"json"`)
	}
	s.write(t, ".codex/config.toml", codexModel(s.agent, s.model)+page+"\n")
	s.hook(t, "codex")
	return func(t *testing.T, text string, resume bool) {
		t.Helper()
		args := []string{"exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access"}
		if resume {
			args = []string{"exec", "-s", "danger-full-access", "resume", "--last", "--json", "--skip-git-repo-check"}
		}
		s.run(t, []string{"MODEL_KEY=scripted"}, codex, append(args, text)...)
	}
}

func connectCopilot(t *testing.T, s subject) func(*testing.T, string, bool) {
	t.Helper()
	env := append(s.pageEnv(t, "Copilot"),
		"COPILOT_PROVIDER_BASE_URL="+s.model.URL, "COPILOT_PROVIDER_TYPE=anthropic", "COPILOT_PROVIDER_API_KEY=scripted",
		"COPILOT_MODEL="+claudeModel, "COPILOT_OFFLINE=true", "COPILOT_AUTO_UPDATE=false")
	return func(t *testing.T, text string, resume bool) {
		t.Helper()
		args := []string{"--prompt=" + text, "--allow-all-tools", "--allow-all-paths", "--disable-builtin-mcps"}
		if resume {
			args = append(args, "--continue")
		}
		s.run(t, env, copilot, args...)
	}
}

func connectGemini(t *testing.T, s subject) func(*testing.T, string, bool) {
	t.Helper()
	s.write(t, ".gemini/settings.json", `{"security":{"auth":{"selectedType":"gemini-api-key"}},`+
		`"general":{"enableAutoUpdate":false,"enableAutoUpdateNotification":false},"privacy":{"usageStatisticsEnabled":false}}`)
	env := append(s.pageEnv(t, "Gemini CLI"),
		"GEMINI_API_KEY=scripted", "GOOGLE_GEMINI_BASE_URL="+s.model.URL, "GEMINI_CLI_NO_RELAUNCH=true")
	return func(t *testing.T, text string, resume bool) {
		t.Helper()
		args := []string{gemini, "--prompt=" + text, "--yolo", "--skip-trust", "--model", "gemini-2.5-pro"}
		if resume {
			args = append(args, "--resume", "latest")
		}
		s.run(t, env, node, args...)
	}
}

func connectOpenCode(t *testing.T, s subject) func(*testing.T, string, bool) {
	t.Helper()
	var config object
	if err := json.Unmarshal([]byte(s.onPage(t, "OpenCode: opencode.json")), &config); err != nil {
		t.Fatal(err)
	}
	config["autoupdate"], config["share"] = false, "disabled"
	config["model"], config["small_model"] = "relay/"+claudeModel, "relay/"+claudeModel
	config["provider"] = object{"relay": object{
		"npm": "@ai-sdk/anthropic", "name": "relay", "options": object{"baseURL": s.model.URL + "/v1", "apiKey": "scripted"},
		"models": object{claudeModel: object{"name": claudeModel}},
	}}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, ".config/opencode/opencode.json", string(text))
	env := append(s.pageEnv(t, "OpenCode"), "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1",
		"PATH="+ripgrep+":"+os.Getenv("PATH"))
	address := s.serveOpenCode(t, env)
	return func(t *testing.T, text string, resume bool) {
		t.Helper()
		args := []string{"run", "--attach", address, "--dir", s.project, "--format", "json", "--auto"}
		if resume {
			args = append(args, "--continue")
		}
		// Only the server reports: what does, does so every few seconds and loses the
		// rest when it ends.
		s.run(t, env[len(env)-3:], openCode, append(args, "--", text)...)
		apptest.Eventually(t, "the spans of all requests", func() bool {
			reported := 0
			for _, e := range s.telemetry.sent("/v1/traces") {
				reported += bytes.Count(e.body, []byte(`"name":"ai.streamText.doStream"`))
			}
			return reported >= len(s.model.Requests())
		})
	}
}

// serveOpenCode starts OpenCode without a terminal, and returns its address.
func (a agent) serveOpenCode(t *testing.T, env []string) string {
	t.Helper()
	cmd := a.command(t.Context(), env, openCode, "serve", "--hostname", "127.0.0.1", "--port", "0")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), "listening on "); ok {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return address
		}
	}
	t.Fatalf("OpenCode ended: %v", lines.Err())
	return ""
}

// A figuresSession is a session that every agent has: its prompts, and what the model
// answers.
type figuresSession struct {
	prompts []string
	replies []reply
}

// sessions of the program: one that uses a skill and is resumed, one that calls a
// skill that there is not, one without a skill in which tests fail, and one in which
// the person uses the skill.
func (p program) sessions() []figuresSession {
	used := func(input, output, read, write int64) tokens {
		return tokens{Input: input, Output: output, CacheRead: read, CacheWrite: write}
	}
	do := func(u tokens, c ...toolCall) reply { return reply{Calls: c, Usage: u} }
	say := func(u tokens) reply { return reply{Text: "Pencils, 12.50. " + replyWord, Usage: u} }
	all := []figuresSession{
		{
			[]string{"What does the invoice say? " + promptWord, "Thanks " + promptWord},
			[]reply{
				do(used(1000, 50, 3000, 200), p.use("pdf-tables")), do(used(1100, 60, 3200, 100), p.shell("echo "+commandWord)),
				say(used(1200, 70, 3300, 0)), say(used(1300, 20, 3300, 10)),
			},
		},
		{
			[]string{"Work magic on it. " + promptWord},
			[]reply{do(used(900, 30, 0, 400), p.use("invoice-wizard")), say(used(950, 20, 400, 0))},
		},
		{
			[]string{"Do the tests pass? " + promptWord},
			[]reply{do(used(800, 40, 2000, 0), p.shell("make test")), say(used(850, 25, 2000, 0))},
		},
	}
	if p.user != "" {
		all = append(all, figuresSession{[]string{p.user + " " + promptWord}, []reply{
			do(used(700, 35, 1000, 0), p.shell("cat invoice.txt")), say(used(750, 15, 1000, 0)),
		}})
	}
	return all
}

// title is what agents ask the model for beside the conversation.
const titleRequest = "title for this conversation"

// TestFigures runs the five agents as the connect page connects them, and compares
// every figure with what they did: reported in each way, in all, backwards and twice.
func TestFigures(t *testing.T) {
	requireAgents(t)
	s := startService(t)
	both := make(chan struct{}, 2) // the agents take gigabytes
	for _, p := range programs() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			both <- struct{}{}
			defer func() { <-both }()
			p.test(t, s)
		})
	}
}

func (p program) test(t *testing.T, s *service) {
	t.Helper()
	expected := telemetrytest.ReadExpected(t, filepath.Join(telemetryCaptures, p.name, "expected.json"))
	live := s.newReporting(t, "-live")
	live.publish(t)
	a := subject{newAgent(t, live), p.wire(t)}
	a.write(t, "project/Makefile", "test:\n\t@false\n")
	for _, skill := range []string{"pdf-tables@1.0.0", "alpha-notes"} {
		a.whetstone(t, "install", skill, "--dir", filepath.Join(a.project, p.skills), "--server", s.URL, "--api-key", live.key)
	}
	prompt := p.configure(t, a)
	prompts := 0
	for _, session := range p.sessions() {
		a.model.ScriptBy(func(first string) []reply {
			if strings.Contains(strings.ToLower(first), titleRequest) {
				return []reply{{Text: "Invoice", Usage: tokens{Input: 100, Output: 5}}}
			}
			return session.replies
		})
		for n, text := range session.prompts {
			prompt(t, text, n > 0)
			prompts++
		}
	}
	reports := map[string][]export{}
	want := expected.Of(t, p.liveWays()...)
	if slices.Contains(p.ways, "hook") {
		apptest.Eventually(t, "the hook to send every prompt", func() bool {
			waiting, _ := filepath.Glob(filepath.Join(a.home, ".cache/whetstone/hook/*.[js][se]*"))
			return a.hookedPrompts(t) == prompts && len(waiting) == 0
		})
	}
	wantFigures(t, live, want)
	for _, e := range a.telemetry.sent() {
		way := strings.TrimPrefix(e.path, "/v1/")
		if e.path == pushes {
			way = "hook"
		}
		reports[way] = append(reports[way], e)
	}
	if p.home != "" {
		reports["import"] = p.imported(t, s, a)
	}
	if *capture {
		a.record(t, p.name, reports)
	}
	for _, ways := range p.combinations() {
		t.Run(strings.Join(ways, " then "), func(t *testing.T) {
			o := s.newOrganisation(t)
			for range 2 { // the second time changes nothing
				for _, way := range ways {
					o.replay(t, reports[way])
				}
				wantFigures(t, o, expected.Of(t, ways...).WithoutVersions())
			}
		})
	}
}

// hookedPrompts counts the prompts that the hook has sent.
func (a agent) hookedPrompts(t *testing.T) int {
	t.Helper()
	ids := map[string]bool{}
	for _, e := range a.telemetry.sent(pushes) {
		var in struct {
			Canonical struct {
				Prompts []struct {
					ID string `json:"prompt_id"`
				} `json:"prompts"`
			} `json:"canonical"`
		}
		if err := json.Unmarshal(e.body, &in); err != nil {
			t.Fatal(err)
		}
		for _, p := range in.Canonical.Prompts {
			ids[p.ID] = true
		}
	}
	return len(ids)
}

// liveWays are those in which the agent reports by itself.
func (p program) liveWays() []string {
	return slices.DeleteFunc(slices.Clone(p.ways), func(way string) bool { return way == "import" })
}

// combinations of ways: each alone, and all in either order. internal/observe/telemetry
// replays what was recorded in the others.
func (p program) combinations() (all [][]string) {
	for _, way := range p.ways {
		all = append(all, []string{way})
	}
	if len(all) == 1 {
		return all
	}
	backwards := slices.Clone(p.ways)
	slices.Reverse(backwards)
	return append(all, p.ways, backwards)
}

// imported imports the transcripts as the connect page says into an organisation of
// its own, and returns what was sent.
func (p program) imported(t *testing.T, s *service, a subject) []export {
	t.Helper()
	a.org = s.newReporting(t, "-imports")
	a.telemetry = newRecorder(t, s)
	for line := range strings.Lines(a.onPage(t, "Transcripts")) {
		args := strings.Fields(line)[1:]
		if strings.HasPrefix(p.home, ".codex") == (args[1] == "~/.codex/sessions") {
			if args[1] == "~/.codex/sessions" {
				args[1] = filepath.Join(a.home, p.home)
			}
			a.run(t, []string{"XDG_CACHE_HOME=" + t.TempDir()}, binary, args...) // else it sends what the hook has not
		}
	}
	return a.telemetry.sent(pushes)
}

func wantFigures(t *testing.T, o organisation, want telemetrytest.Figures) {
	t.Helper()
	if diff := cmp.Diff(want, telemetrytest.Read(o.api(t)), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}

// record writes what the agent sent as a recording, a line for each report.
func (a agent) record(t *testing.T, name string, reports map[string][]export) {
	t.Helper()
	for way, all := range reports {
		var out bytes.Buffer
		for _, e := range all {
			value := a.scrubbed(t, e.body)
			keepRelevant(value)
			out.Write(encode(t, value))
		}
		if err := os.WriteFile(filepath.Join(telemetryCaptures, name, way+".jsonl"), out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
