// Package connect has the settings and commands that connect agents and installers
// to a server, for people to copy. It owns no tables.
package connect

import (
	"net/url"
	"regexp"
	"strings"
)

// What stands for a key and a catalog token until one is created.
const (
	Key   = "st_live_..."
	Token = "TOKEN"
)

// A Snippet is the code that connects one program.
type Snippet struct{ Title, Text, Code string }

// Agents are the settings of agents, as in docs/telemetry.md.
func Agents(server, key string) []Snippet {
	fill := strings.NewReplacer("$SERVER", server, "$KEY", key)
	return []Snippet{
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

// claudeSettings adds a marketplace for everybody who works on a project.
const claudeSettings = `{
  "extraKnownMarketplaces": {
    "$NAME": {
      "source": {
        "source": "url",
        "url": "$SERVER/o/$ORG/marketplace.json",
        "headers": { "Authorization": "Bearer $TOKEN" }
      }
    }
  },
  "enabledPlugins": { "everything@$NAME": true }
}`

// unfit are the characters that the name of a marketplace does not have.
var unfit = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// marketplace is the name of an organisation's marketplace.
func marketplace(org string) string { return "whetstone-" + unfit.ReplaceAllString(org, "-") }

// Installers are commands that install skills. Some have a catalog token in an
// address, because the installer cannot send headers.
func Installers(server, org, token string) []Snippet {
	fill := strings.NewReplacer("$SERVER", server, "$ORG", url.PathEscape(org), "$TOKEN", token)
	return []Snippet{
		{"whetstone", "The login opens a page here to approve it and stores its own key.", fill.Replace(commandLine)},
		{"npx skills", "Public skills of this organisation.", fill.Replace("DISABLE_TELEMETRY=1 npx skills add $SERVER/o/$ORG")},
		{
			"npx skills, including the organisation's private skills",
			"The catalog token is part of the URL, which npx skills sends to its vendor unless DISABLE_TELEMETRY is set, " +
				"and writes into its lock file. It opens nothing but the catalog; rotate it if it leaks.",
			fill.Replace("DISABLE_TELEMETRY=1 npx skills add $SERVER/o/$ORG/$TOKEN"),
		},
		{
			"Claude Code, once", "A plugin for each skill, and one with all of them. The archives need a server with https.",
			fill.Replace("claude plugin marketplace add $SERVER/o/$ORG/$TOKEN/marketplace.json\n" +
				"claude plugin install everything@" + marketplace(org)),
		},
		{
			"Codex", "The same plugins, from a git repository.",
			fill.Replace("codex plugin marketplace add $SERVER/o/$ORG/$TOKEN/marketplace.git\n" +
				"codex plugin add everything@" + marketplace(org)),
		},
		{
			"Copilot CLI", "The same plugins, from a git repository.",
			fill.Replace("copilot plugin marketplace add $SERVER/o/$ORG/$TOKEN/marketplace.git\n" +
				"copilot plugin install everything@" + marketplace(org)),
		},
		{
			"Cursor, git", "Import this address as a team marketplace in Cursor's dashboard, or clone it.",
			fill.Replace("$SERVER/o/$ORG/$TOKEN/marketplace.git"),
		},
		{
			"Claude Code, for a team", "In .claude/settings.json of a project, or in managed settings. " +
				"The token is sent in a header, so that the file can name a variable in place of it.",
			fill.Replace(strings.ReplaceAll(claudeSettings, "$NAME", marketplace(org))),
		},
		{
			"MCP: Claude Code", "Tools to search, load and report on skills, for every MCP client; hosts of the skills extension list them. " +
				"With an API key in place of the token, in the same header, sessions can also report outcomes.",
			fill.Replace(`claude mcp add --transport http whetstone $SERVER/o/$ORG/mcp --header "Authorization: Bearer $TOKEN"`),
		},
		{"MCP: Codex", "In ~/.codex/config.toml; the token is in the environment variable WHETSTONE_TOKEN.", fill.Replace(codexMCP)},
		{"MCP: Cursor", "In .cursor/mcp.json of a project, or ~/.cursor/mcp.json.", fill.Replace(cursorMCP)},
		{"MCP: VS Code", "In .vscode/mcp.json of a project. The token is asked for once.", fill.Replace(codeMCP)},
	}
}

// Workflows publish an entry from a code host, without a stored secret.
func Workflows(server, entryID, name string) []Snippet {
	fill := strings.NewReplacer("$SERVER", server, "$ENTRY", entryID, "$NAME", unfit.ReplaceAllString(name, "-"))
	return []Snippet{
		{
			"GitHub Actions, Gitea, Forgejo", "As .github/workflows/release.yml. The job needs whetstone on its runner; " +
				"Forgejo wants enable-openid-connect: true in place of the permissions.", fill.Replace(actionsWorkflow),
		},
		{"GitLab CI", "In .gitlab-ci.yml. An ID token can be exchanged once.", fill.Replace(gitlabJob)},
	}
}

const (
	actionsWorkflow = `name: release
on:
  push:
    branches: [main]
permissions:
  contents: read
  id-token: write
jobs:
  publish:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: whetstone push ./$NAME --entry $ENTRY --server $SERVER`

	gitlabJob = `publish:
  id_tokens:
    WHETSTONE_ID_TOKEN:
      aud: $SERVER
  script:
    - whetstone push ./$NAME --entry $ENTRY --server $SERVER
  rules:
    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH`
)

// What adds the server to MCP clients by a file.
const (
	codexMCP = `[mcp_servers.whetstone]
url = "$SERVER/o/$ORG/mcp"
bearer_token_env_var = "WHETSTONE_TOKEN"`

	cursorMCP = `{
  "mcpServers": {
    "whetstone": {
      "url": "$SERVER/o/$ORG/mcp",
      "headers": { "Authorization": "Bearer ${env:WHETSTONE_TOKEN}" }
    }
  }
}`

	codeMCP = `{
  "inputs": [
    { "type": "promptString", "id": "whetstone-token", "description": "Token of Whetstone", "password": true }
  ],
  "servers": {
    "whetstone": {
      "type": "http",
      "url": "$SERVER/o/$ORG/mcp",
      "headers": { "Authorization": "Bearer ${input:whetstone-token}" }
    }
  }
}`
)
