package agents_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/gateway/modeltest"
)

// A codexCLI is Codex with a scripted model.
type codexCLI struct {
	agent
	model *modeltest.Model
}

// newCodex configures telemetry as the documentation does, with all signals and
// the prompts.
func newCodex(t *testing.T, o organisation) codexCLI {
	t.Helper()
	c := codexCLI{newAgent(t, o), modeltest.Responses(t)}
	protocol := "binary"
	if *capture {
		protocol = "json"
	}
	config := codexModel(c.agent, c.model) + "[otel]\nlog_user_prompt = true\n"
	for exporter, path := range map[string]string{
		"exporter": "/v1/logs", "trace_exporter": "/v1/traces", "metrics_exporter": "/v1/metrics",
	} {
		config += fmt.Sprintf("%s = { otlp-http = { endpoint = %q, protocol = %q, headers = { Authorization = %q } } }\n",
			exporter, c.telemetry.URL+path, protocol, "Bearer "+o.key)
	}
	c.write(t, ".codex/config.toml", config)
	c.write(t, "project/.agents/skills/pdf-tables/SKILL.md", skillFile("pdf-tables"))
	return c
}

// codexModel is the configuration of Codex with a scripted model.
func codexModel(a agent, m *modeltest.Model) string {
	return fmt.Sprintf(`
model = "gpt-5.1-codex"
model_provider = "scripted"
check_for_update_on_startup = false
analytics.enabled = false
projects.%q.trust_level = "trusted"

[model_providers.scripted]
name = "scripted"
base_url = %q
env_key = "MODEL_KEY"
wire_api = "responses"

`, a.project, m.URL+"/v1")
}

// prompt runs one prompt without a terminal.
func (c codexCLI) prompt(t *testing.T, text string) {
	t.Helper()
	c.run(t, []string{"MODEL_KEY=scripted"}, codex, "exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access", text)
}

func shell(command string) toolCall {
	return toolCall{Tool: "exec_command", Input: object{"cmd": command}}
}

// TestCodex runs Codex with a skill that the prompt names and with one that the
// model reads by itself, and reports that by logs, by metrics and by both. The
// counter of the metrics has no session.
func TestCodex(t *testing.T) {
	requireAgents(t)
	s := startService(t)
	readSkill, readInvoice := calls(shell("cat .agents/skills/pdf-tables/SKILL.md")), calls(shell("cat invoice.txt"))
	named, unnamed := "Use $pdf-tables on the invoice. "+promptWord, "What does the invoice say? "+promptWord
	for _, test := range []struct {
		name       string
		prompts    []string // a session each
		script     []reply  // of each of them
		uses       int64
		confidence float64
	}{
		{"explicit", []string{named}, []reply{readInvoice, answer()}, 1, 1},
		{"implicit", []string{unnamed}, []reply{readSkill, readInvoice, answer()}, 1, 0.6},
		{"explicit-read", []string{named}, []reply{readSkill, answer()}, 2, 0.8}, // Codex reports both
		{"sessions", []string{unnamed, unnamed}, []reply{readSkill, answer()}, 2, 0.6},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			live := s.newOrganisation(t)
			c := newCodex(t, live)
			c.model.Script(test.script...)
			for _, p := range test.prompts {
				c.prompt(t, p)
			}
			c.model.WantAllSaid(len(test.prompts))
			if *capture {
				c.capture(t, test.name)
			}

			byLogs := map[string]figures{"pdf-tables": {int64(len(test.prompts)), test.uses, test.uses, 1.0, test.confidence}}
			byCounter := map[string]figures{"pdf-tables": {0, test.uses, test.uses, nil, test.confidence}}
			logs, metrics := c.telemetry.sent("/v1/logs"), c.telemetry.sent("/v1/metrics")
			t.Run("all signals", func(t *testing.T) { live.wantSkills(t, byLogs) })
			for _, report := range []struct {
				name    string
				exports []export
				want    map[string]figures
			}{
				{"logs", logs, byLogs},
				{"metrics", metrics, byCounter},
				{"logs then metrics", slices.Concat(logs, metrics), byLogs},
				{"metrics then logs", slices.Concat(metrics, logs), byLogs},
				{"both repeated", slices.Concat(metrics, logs, metrics, logs), byLogs},
			} {
				t.Run(report.name, func(t *testing.T) {
					o := s.newOrganisation(t)
					o.replay(t, report.exports)
					o.wantSkills(t, report.want)
				})
			}
		})
	}
}
