package web

import (
	"net/url"
	"strings"
)

// placeholder stands for a key until one is created.
const placeholder = "st_live_..."

// agentConnections are the settings of agents, as in docs/telemetry.md.
func agentConnections(server, key string) []connection {
	fill := strings.NewReplacer("$SERVER", server, "$KEY", key)
	return []connection{
		{"Claude Code", "In your shell profile, or as env in ~/.claude/settings.json.", fill.Replace(claudeCode)},
		{"Codex", "In ~/.codex/config.toml.", fill.Replace(codex)},
		{"Copilot", "For the CLI, the app and the SDK.", fill.Replace(copilot)},
		{
			"Transcripts", "Sessions that Claude Code recorded on this machine before you connected it.",
			fill.Replace("whetstone import --server $SERVER --api-key $KEY"),
		},
	}
}

const (
	claudeCode = `export CLAUDE_CODE_ENABLE_TELEMETRY=1
export OTEL_LOGS_EXPORTER=otlp
export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_ENDPOINT="$SERVER"
export OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer $KEY"
export OTEL_LOG_TOOL_DETAILS=1`

	codex = `[otel]
exporter = { otlp-http = { endpoint = "$SERVER/v1/logs", protocol = "binary", headers = { Authorization = "Bearer $KEY" } } }`

	copilot = `export COPILOT_OTEL_ENABLED=true
export OTEL_EXPORTER_OTLP_ENDPOINT="$SERVER"
export OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer $KEY"`

	commandLine = `whetstone login --server $SERVER
whetstone push ./my-skill
whetstone install my-skill`
)

// installerConnections are commands that install skills. The last one has the key in
// its URL, because npx skills cannot send headers.
func installerConnections(server, org, key string) []connection {
	fill := strings.NewReplacer("$SERVER", server, "$ORG", url.PathEscape(org), "$KEY", key)
	return []connection{
		{"whetstone", "The login opens a page here to approve it and stores its own key.", fill.Replace(commandLine)},
		{"npx skills", "Public skills of this organisation.", fill.Replace("npx skills add $SERVER/o/$ORG")},
		{
			"npx skills, including the organisation's private skills",
			"The key is part of the URL, which npx skills sends to its vendor unless DISABLE_TELEMETRY is set, " +
				"and writes into its lock file. Use a separate read-only key, and do not commit the lock file.",
			fill.Replace("DISABLE_TELEMETRY=1 npx skills add $SERVER/o/$ORG/$KEY"),
		},
	}
}
