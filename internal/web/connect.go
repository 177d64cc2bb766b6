package web

// The page "Connect agents" has settings and commands for people to copy.

import (
	"net/url"
	"regexp"
	"strings"
)

// What stands for a key and a catalog token until one is created.
const (
	keyPlaceholder   = "st_live_..."
	tokenPlaceholder = "TOKEN"
)

// A Snippet is the code that connects one program.
type Snippet struct{ Title, Text, Code string }

// Agents are the settings of agents, as in docs/telemetry.md. e2e/agents runs the
// agents with them. server is the public URL, without a slash at the end.
func Agents(server, key string) []Snippet {
	fill := strings.NewReplacer("$SERVER", server, "$KEY", key)
	return []Snippet{
		{"Claude Code", "In your shell profile, or as env in ~/.claude/settings.json.", fill.Replace(claudeCode)},
		{"Codex", "In ~/.codex/config.toml.", fill.Replace(codex)},
		{"Copilot", "For the CLI, the app and the SDK.", fill.Replace(copilot)},
		{"Gemini CLI", "In your shell profile.", fill.Replace(gemini)},
		{"OpenCode", "In your shell profile.", fill.Replace(openCode)},
		{"OpenCode: opencode.json", "In ~/.config/opencode/opencode.json, as well.", openCodeSettings},
		{
			"Hooks", "Claude Code and Codex then report their transcripts after every turn, which adds what OTLP lacks: the skills that " +
				"were on offer, prompts, tests and commits. With or without the settings above; nothing counts twice.",
			fill.Replace(hooks),
		},
		{
			"Transcripts", "Sessions that Claude Code and Codex recorded on this machine before you connected them.",
			fill.Replace(imports),
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

	gemini = `export GEMINI_TELEMETRY_ENABLED=true
export GEMINI_TELEMETRY_OTLP_PROTOCOL=http
export GEMINI_TELEMETRY_OTLP_ENDPOINT="$SERVER"
export OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer $KEY"`

	openCode = `export OTEL_EXPORTER_OTLP_ENDPOINT="$SERVER"
export OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer $KEY"`

	openCodeSettings = `{ "experimental": { "openTelemetry": true } }`

	hooks = `whetstone hook install claude-code --server $SERVER --api-key $KEY
whetstone hook install codex --server $SERVER --api-key $KEY`

	imports = `whetstone import --server $SERVER --api-key $KEY
whetstone import ~/.codex/sessions --server $SERVER --api-key $KEY`

	commandLine = `whetstone login --server $SERVER
whetstone push ./my-skill
whetstone install my-skill`
)

// claudeSettings adds a marketplace for everybody who works on a project.
const (
	claudeSettings = `{
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

	// claudeGitSettings is the same from a git repository.
	claudeGitSettings = `{
  "extraKnownMarketplaces": {
    "$NAME": {
      "source": { "source": "git", "url": "$SERVER/o/$ORG/$TOKEN/marketplace.git" }
    }
  },
  "enabledPlugins": { "everything@$NAME": true }
}`
)

// claudePlugins are the commands and the settings that install plugins in Claude
// Code. It downloads archives by https only, so without it they are those of the git
// repository. once is for one person, team for a repository or a fleet.
func claudePlugins(server, org string) (once, team Snippet) {
	once = Snippet{"Claude Code, once", "A plugin for each skill, and one with all of them.", "marketplace.json"}
	team = Snippet{
		"Claude Code, for a team", "In .claude/settings.json of a project, or in managed settings. " +
			"The token is sent in a header, so that the file can name a variable in place of it.", claudeSettings,
	}
	if !strings.HasPrefix(server, "https:") {
		once.Text += " From a git repository, since Claude Code installs archives from servers with https only."
		once.Code = "marketplace.git"
		team.Text, team.Code = "In .claude/settings.json of a project, or in managed settings.", claudeGitSettings
	}
	once.Code = "claude plugin marketplace add $SERVER/o/$ORG/$TOKEN/" + once.Code +
		"\nclaude plugin install everything@" + marketplace(org)
	team.Code = strings.ReplaceAll(team.Code, "$NAME", marketplace(org))
	return once, team
}

// unfit are the characters that the name of a marketplace does not have.
var unfit = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// marketplace is the name of an organisation's marketplace.
func marketplace(org string) string { return "whetstone-" + unfit.ReplaceAllString(org, "-") }

// Installers are commands that install skills. Some have a catalog token in an
// address, because the installer cannot send headers. Tokens that go in an address
// are more likely to leak, which the texts say.
func Installers(server, org, token string) []Snippet {
	fill := strings.NewReplacer("$SERVER", server, "$ORG", url.PathEscape(org), "$TOKEN", token)
	once, team := claudePlugins(server, org)
	return []Snippet{
		{"whetstone", "The login opens a page here to approve it and stores its own key.", fill.Replace(commandLine)},
		{"npx skills", "Public skills of this organisation.", fill.Replace("DISABLE_TELEMETRY=1 npx skills add $SERVER/o/$ORG")},
		{
			"npx skills, including the organisation's private skills",
			"The catalog token is part of the URL, which npx skills sends to its vendor unless DISABLE_TELEMETRY is set, " +
				"and writes into its lock file. It opens nothing but the catalog; rotate it if it leaks.",
			fill.Replace("DISABLE_TELEMETRY=1 npx skills add $SERVER/o/$ORG/$TOKEN"),
		},
		{once.Title, once.Text, fill.Replace(once.Code)},
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
		{team.Title, team.Text, fill.Replace(team.Code)},
		{
			"MCP: Claude Code", "Tools to search, load and report on skills, for every MCP client; hosts of the skills extension list them. " +
				"With an API key in place of the token, in the same header, sessions can also report outcomes.",
			fill.Replace(`claude mcp add --transport http whetstone $SERVER/o/$ORG/mcp --header "Authorization: Bearer $TOKEN"`),
		},
		{
			"MCP: Codex", "In ~/.codex/config.toml; the token is in the environment variable WHETSTONE_TOKEN.",
			fill.Replace(codexMCP),
		},
		{"MCP: Cursor", "In .cursor/mcp.json of a project, or ~/.cursor/mcp.json.", fill.Replace(cursorMCP)},
		{"MCP: VS Code", "In .vscode/mcp.json of a project. The token is asked for once.", fill.Replace(codeMCP)},
	}
}

// workflows publish an entry from a code host, without a stored secret. The code
// host signs an ID token for the job, which push exchanges for a key.
func workflows(server, entryID, name string) []Snippet {
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
