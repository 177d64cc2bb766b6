package app

import (
	_ "embed"
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

//go:embed examples.json
var examplesJSON []byte

//go:embed fields.txt
var fieldsText string

// apiWords returns what fields and parameters of the API are.
func apiWords() httpapi.Words {
	words, err := httpapi.ParseWords(fieldsText)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return words
}

// apiExamples returns bodies of requests and answers for the API reference.
func apiExamples() (all map[string]json.RawMessage) {
	if err := json.Unmarshal(examplesJSON, &all); err != nil {
		panic(err) // the file is part of the program
	}
	return all
}

// apiTags describes the groups of routes in the OpenAPI document.
var apiTags = []httpapi.Tag{
	{Name: "agents", Description: "Coding agents that runs can start, and the models that they can ask."},
	{Name: "alert-events", Description: "When alerts fired and when they were resolved."},
	{Name: "alerts", Description: "Rules that watch skills, and the notifications that they sent."},
	{Name: "approvals", Description: "Candidates that wait for the approval of people."},
	{Name: "audit", Description: "Who changed what in the organisation."},
	{Name: "catalogue-report", Description: "What agents are offered of the catalogue, and what that costs."},
	{Name: "cloud-sources", Description: "Skills under observation: their snapshots, validation and suggested test cases."},
	{Name: "community", Description: "Bundles of results that contributors sent to a skill's creator."},
	{Name: "comparisons", Description: "Comparisons of versions, no skill, agents and models on a suite."},
	{Name: "content", Description: "The content of sessions, where the organisation stores it."},
	{Name: "costs", Description: "What model requests cost, by skill."},
	{Name: "creator-signals", Description: "What contributors' signals say to a skill's creator."},
	{Name: "device-code", Description: "Login of programs without a browser."},
	{Name: "eval-runs", Description: "Runs of eval suites and their results."},
	{Name: "eval-schedules", Description: "Suites that run at fixed times, and what changed between their runs."},
	{Name: "eval-suites", Description: "Suites of test cases, and runs of them."},
	{Name: "event-webhooks", Description: "Webhooks that send the organisation's events to other systems."},
	{Name: "gates", Description: "Comparisons of a pushed version with the current one, and what they decided."},
	{Name: "improve-runs", Description: "Searches for a better description of a skill."},
	{Name: "incidents", Description: "Rollbacks by alerts, followed until no installation has the bad version."},
	{Name: "invitations", Description: "Links by which people become members."},
	{Name: "key-policy", Description: "The policy for new API keys."},
	{Name: "keys", Description: "API keys of the organisation."},
	{Name: "catalog-tokens", Description: "Tokens that open the organisation's catalogs, and nothing else."},
	{Name: "sets", Description: "Which skills teams and projects should have, and who has them."},
	{Name: "logs", Description: "OTLP logs of agents."},
	{Name: "me", Description: "The holder of the key, and their data."},
	{Name: "members", Description: "People and machines of the organisation, and their roles."},
	{Name: "metrics", Description: "OTLP metrics of agents."},
	{Name: "organization", Description: "Export and deletion of the organisation."},
	{Name: "proposals", Description: "Proposed changes of skills, to review and apply."},
	{Name: "push", Description: "Session records of clients, in the canonical schema."},
	{Name: "registry", Description: "Skills and agents, their versions and their installations."},
	{Name: "repohost", Description: "The code host: repositories that publish versions."},
	{Name: "scim-groups", Description: "Groups that identity providers push, and the roles that they give."},
	{Name: "scim-tokens", Description: "Tokens with which identity providers push people and groups, and nothing else."},
	{Name: "service-accounts", Description: "Machines with a name, a role and keys of their own."},
	{Name: "sessions", Description: "Sessions of agents: what happened when, and how it went."},
	{Name: "settings", Description: "Settings of the organisation."},
	{Name: "signals", Description: "Signals of contributors about skills."},
	{Name: "skills", Description: "How often skills trigger and how well they do."},
	{Name: "teams", Description: "Groups of members, which can own entries of the registry."},
	{Name: "traces", Description: "OTLP spans of agents."},
	{Name: "trusted-publishers", Description: "Workflows of code hosts that publish an entry without a stored secret."},
	{Name: "usage", Description: "How much the organisation stores."},
	{Name: "verify", Description: "Whether a key's telemetry arrives."},
}
