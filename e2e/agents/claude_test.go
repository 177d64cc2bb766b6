package agents_test

import (
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/gateway/modeltest"
)

type (
	reply    = modeltest.Reply
	toolCall = modeltest.Call
	tokens   = modeltest.Tokens
	object   = modeltest.Object
)

// A claudeCode is Claude Code with a scripted model.
type claudeCode struct {
	agent
	model *modeltest.Model
}

func newClaudeCode(t *testing.T, o organisation) claudeCode {
	t.Helper()
	return claudeCode{newAgent(t, o), modeltest.Messages(t)}
}

// start runs Claude Code with telemetry as the documentation sets it up, and
// with every switch that adds content to it.
func (c claudeCode) start(t *testing.T, args ...string) {
	t.Helper()
	protocol := "http/protobuf"
	if *capture {
		protocol = "http/json"
	}
	c.run(t, []string{
		"ANTHROPIC_BASE_URL=" + c.model.URL, "ANTHROPIC_API_KEY=scripted",
		"IS_SANDBOX=1", // else it does not skip permissions as root
		"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"CLAUDE_CODE_ENABLE_TELEMETRY=1", "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA=1",
		"OTEL_LOGS_EXPORTER=otlp", "OTEL_METRICS_EXPORTER=otlp", "OTEL_TRACES_EXPORTER=otlp",
		"OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol, "OTEL_EXPORTER_OTLP_ENDPOINT=" + c.telemetry.URL,
		"OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer " + c.org.key,
		"CLAUDE_CODE_OTEL_FLUSH_TIMEOUT_MS=60000", "CLAUDE_CODE_OTEL_SHUTDOWN_TIMEOUT_MS=60000", // it waits 2 s on its own
		"OTEL_LOG_TOOL_DETAILS=1", "OTEL_LOG_USER_PROMPTS=1", "OTEL_LOG_ASSISTANT_RESPONSES=1",
		"OTEL_LOG_TOOL_CONTENT=1", "OTEL_LOG_RAW_API_BODIES=1", "OTEL_LOG_MANAGED_SETTINGS=1",
	}, claude, args...)
}

// prompt runs one prompt without a terminal.
func (c claudeCode) prompt(t *testing.T, text string, flags ...string) {
	t.Helper()
	c.start(t, append([]string{
		"-p", text, "--model", claudeModel, "--max-turns", "10", "--output-format", "json", "--dangerously-skip-permissions",
	}, flags...)...)
}

// claudeModel is one whose prices Claude Code knows.
const claudeModel = "claude-sonnet-4-5"

// useOf is a call of the tool that loads a skill.
func useOf(skill string) toolCall { return toolCall{Tool: "Skill", Input: object{"skill": skill}} }

func bash(command string) toolCall { return toolCall{Tool: "Bash", Input: object{"command": command}} }

// subagent is a call of the tool that starts a subagent. Its answer is the
// result of the call or, from the background, a later message of the user.
func subagent(background bool) toolCall {
	return toolCall{Tool: "Agent", Input: object{
		"description": "Read the invoice", "subagent_type": "general-purpose", "run_in_background": background,
		"prompt": modeltest.SubagentTask + " Read the invoice.",
	}}
}

// answer ends a turn.
func answer() reply { return reply{Text: "Pencils, 12.50. " + replyWord, Usage: usualTokens} }

func calls(c ...toolCall) reply { return reply{Calls: c, Usage: usualTokens} }

var usualTokens = tokens{Input: 1000, Output: 50, CacheRead: 3000, CacheWrite: 200}

// claudeScenarios are sessions of Claude Code with what must be counted for
// them, whichever way they are reported.
var claudeScenarios = []struct {
	name           string
	skills         []string // installed in the project
	registered     bool     // the skills are in the registry
	install        func(*testing.T, claudeCode)
	main, subagent []reply
	prompts        [][]string // each with its flags
	want           map[string]figures
	// wantImported replaces want where the transcripts were imported: they have
	// what the agent does not report.
	wantImported map[string]figures
}{
	{
		name: "tool", skills: []string{"pdf-tables"},
		main: []reply{
			calls(useOf("pdf-tables")),
			calls(toolCall{Tool: "Read", Input: object{"file_path": "invoice.txt"}}, bash("echo "+commandWord)),
			answer(),
		},
		prompts: [][]string{{"What does the invoice say? " + promptWord}},
		want:    map[string]figures{"pdf-tables": {1, 1, 1, 1.0, 0.6}},
	},
	{
		name: "named", skills: []string{"pdf-tables"},
		main:         []reply{calls(useOf("pdf-tables")), answer()},
		prompts:      [][]string{{"Use pdf-tables on the invoice. " + promptWord}},
		want:         map[string]figures{"pdf-tables": {1, 1, 1, 1.0, 0.6}},
		wantImported: map[string]figures{"pdf-tables": {1, 1, 1, 1.0, 0.85}},
	},
	{
		name: "slash", skills: []string{"pdf-tables"},
		main:    []reply{answer()},
		prompts: [][]string{{"/pdf-tables on the invoice " + promptWord}},
		want:    map[string]figures{"pdf-tables": {1, 1, 1, 1.0, 1.0}},
	},
	{
		name: "slash-and-tool", skills: []string{"pdf-tables"},
		main:         []reply{calls(useOf("pdf-tables")), answer()},
		prompts:      [][]string{{"/pdf-tables on the invoice " + promptWord}},
		want:         map[string]figures{"pdf-tables": {1, 2, 2, 1.0, 0.8}},
		wantImported: map[string]figures{"pdf-tables": {1, 2, 2, 1.0, 0.925}},
	},
	{
		name: "subagent", skills: []string{"pdf-tables"},
		main:     []reply{calls(subagent(false)), answer()},
		subagent: []reply{calls(useOf("pdf-tables")), answer()},
		prompts:  [][]string{{"What does the invoice say? " + promptWord}},
		want:     map[string]figures{"pdf-tables": {1, 1, 1, 1.0, 0.6}},
	},
	{
		name: "denied", skills: []string{"pdf-tables"}, registered: true,
		main:    []reply{calls(useOf("pdf-tables")), answer()},
		prompts: [][]string{{"What does the invoice say? " + promptWord, "--disallowedTools", "Skill(pdf-tables)"}},
		want:    map[string]figures{"pdf-tables": {1, 1, 0, 0.0, nil}},
	},
	{
		name:    "unknown",
		main:    []reply{calls(useOf("invoice-wizard")), answer()},
		prompts: [][]string{{"What does the invoice say? " + promptWord}},
		want:    map[string]figures{},
	},
	{
		name: "offered", skills: []string{"pdf-tables", "alpha-notes"},
		main:    []reply{calls(useOf("pdf-tables")), answer()},
		prompts: [][]string{{"What does the invoice say? " + promptWord}},
		want:    map[string]figures{"pdf-tables": {1, 1, 1, 1.0, 0.6}},
		// Transcripts list the skills that the model could choose from.
		wantImported: map[string]figures{"pdf-tables": {1, 1, 1, 1.0, 0.6}, "alpha-notes": {1, 0, 0, 0.0, nil}},
	},
	{
		name: "twice", skills: []string{"pdf-tables"},
		main:    []reply{calls(useOf("pdf-tables")), calls(useOf("pdf-tables")), answer()},
		prompts: [][]string{{"What do the invoices say? " + promptWord}},
		want:    map[string]figures{"pdf-tables": {1, 2, 2, 1.0, 0.6}},
	},
	{
		name: "resumed", skills: []string{"pdf-tables"},
		main:    []reply{calls(useOf("pdf-tables")), answer(), answer()},
		prompts: [][]string{{"What does the invoice say? " + promptWord}, {"/pdf-tables once more " + promptWord, "--continue"}},
		want:    map[string]figures{"pdf-tables": {1, 2, 2, 1.0, 0.8}},
	},
	{
		name: "forked-slash", skills: []string{"pdf-tables"},
		main: []reply{answer(), calls(useOf("pdf-tables")), answer()},
		prompts: [][]string{
			{"/pdf-tables on the invoice " + promptWord},
			{"What does the next one say? " + promptWord, "--continue", "--fork-session"},
		},
		want: map[string]figures{"pdf-tables": {2, 2, 2, 1.0, 0.8}},
	},
	{
		name: "forked", skills: []string{"pdf-tables"},
		main: []reply{calls(useOf("pdf-tables")), answer(), answer()},
		prompts: [][]string{
			{"What does the invoice say? " + promptWord},
			{"/pdf-tables once more " + promptWord, "--continue", "--fork-session"},
		},
		want: map[string]figures{"pdf-tables": {2, 2, 2, 1.0, 0.8}},
	},
	{
		name: "plugin", install: installPlugin,
		main:    []reply{calls(useOf("acme:deploy")), answer()},
		prompts: [][]string{{"Ship it. " + promptWord}},
		want:    map[string]figures{"acme:deploy": {1, 1, 1, 1.0, 0.6}},
	},
}

// installPlugin installs the plugin acme, version 1.2.0, from a marketplace on
// disk.
func installPlugin(t *testing.T, c claudeCode) {
	t.Helper()
	c.write(t, "market/.claude-plugin/marketplace.json",
		`{"name": "acme-market", "owner": {"name": "Acme"}, "plugins": [{"name": "acme", "source": "./acme", "version": "1.2.0"}]}`)
	c.write(t, "market/acme/.claude-plugin/plugin.json", `{"name": "acme", "version": "1.2.0", "description": "Acme's skills"}`)
	c.write(t, "market/acme/skills/deploy/SKILL.md", skillFile("deploy"))
	c.start(t, "plugin", "marketplace", "add", c.home+"/market")
	c.start(t, "plugin", "install", "acme@acme-market")
}

// TestClaudeCode runs every scenario once and reports its session by OTLP, by an
// import of its transcripts, and by both in either order: all must yield the
// same figures.
func TestClaudeCode(t *testing.T) {
	requireAgents(t)
	s := startService(t)
	for _, test := range claudeScenarios {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			newOrganisation := func(t *testing.T) organisation {
				t.Helper()
				o := s.newOrganisation(t)
				if test.registered {
					o.register(t, test.skills...)
				}
				return o
			}
			live := newOrganisation(t)
			c := newClaudeCode(t, live)
			for _, skill := range test.skills {
				c.write(t, "project/.claude/skills/"+skill+"/SKILL.md", skillFile(skill))
			}
			if test.install != nil {
				test.install(t, c)
			}
			c.model.Script(test.main...)
			c.model.Subagent(test.subagent...)
			for _, p := range test.prompts {
				c.prompt(t, p[0], p[1:]...)
			}
			c.model.WantAllSaid(1)
			if *capture {
				c.capture(t, test.name)
			}

			wantImported := test.wantImported
			if wantImported == nil {
				wantImported = test.want
			}
			t.Run("OTLP", func(t *testing.T) { live.wantSkills(t, test.want) })
			t.Run("OTLP logs", func(t *testing.T) {
				o := newOrganisation(t)
				o.replay(t, c.telemetry.sent("/v1/logs"))
				o.wantSkills(t, test.want)
			})
			t.Run("import", func(t *testing.T) {
				o := newOrganisation(t)
				o.importTranscripts(t, c.home)
				o.wantSkills(t, wantImported)
			})
			t.Run("OTLP then import", func(t *testing.T) {
				o := newOrganisation(t)
				o.replay(t, c.telemetry.sent())
				o.importTranscripts(t, c.home)
				o.wantSkills(t, wantImported)
			})
			t.Run("import then OTLP", func(t *testing.T) {
				o := newOrganisation(t)
				o.importTranscripts(t, c.home)
				o.replay(t, c.telemetry.sent())
				o.wantSkills(t, wantImported)
			})
			t.Run("both repeated", func(t *testing.T) {
				o := newOrganisation(t)
				for range 2 {
					o.replay(t, c.telemetry.sent())
					o.importTranscripts(t, c.home)
				}
				o.wantSkills(t, wantImported)
			})
		})
	}
}
