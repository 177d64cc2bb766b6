package app_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// unaudited are the routes that may change something without an entry, and why.
var unaudited = map[string]string{
	"POST /api/v1/push":                                   "a measurement, not a decision, and many a second",
	"POST /v1/logs":                                       "a measurement",
	"POST /v1/traces":                                     "a measurement",
	"POST /v1/metrics":                                    "a measurement",
	"POST /api/v1/signals":                                "a measurement",
	"POST /api/v1/registry/sync":                          "asks; what it notes of installations is a measurement",
	"POST /api/v1/registry/resolve":                       "asks",
	"POST /api/v1/improve-runs/estimate":                  "reads only; a body tells what about",
	"POST /api/v1/device-code":                            "decides nothing: somebody has to approve it, which is recorded",
	"POST /api/v1/device-code/poll":                       "public; the key that an approved login gets is recorded: TestDeviceIsRecorded in internal/identity/auth",
	"POST /api/v1/repohost/webhook":                       "public, and kept as a delivery; what the service does because of it is recorded",
	"POST /api/v1/event-webhooks/{}/deliveries/{}/replay": "needs a delivery that has ended: TestReplay in internal/platform/events",

	"POST /api/v1/trusted-publishers/token": "public; the run and its key are recorded: TestExchange in internal/publish/publishers",
	"POST /api/v1/registry/requirements":    "reads only; a body tells what about",
	"POST /api/v1/invitations/accept":       "public; recorded as the new member's: TestInvite in internal/identity/auth/members",
	"DELETE /api/v1/organization":           "recorded without the caller, for the operator: TestDelete in internal/web/privacy",
	"POST /api/v1/me/leave":                 "recorded, but then the caller is gone: TestMembersAPI in internal/identity/auth/members",
}

// A change is a call of the API that changes something.
type change struct {
	route  string // as the route table has it
	path   string // with {names} of ids
	action string
	body   any
	keeps  string   // the name under which the id of what it made is kept
	at     []string // where the answer has that id
	before func(*house)
	send   func(h *house, path, key string) apptest.Response // instead of JSON
}

func (h *house) do(c change, key string) apptest.Response {
	h.t.Helper()
	method, _, _ := strings.Cut(c.route, " ")
	path := h.fill(c.path)
	if c.send != nil {
		return c.send(h, path, key)
	}
	raw, err := json.Marshal(c.body)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.as(key).Do(method, path, h.fill(string(raw)))
}

// changes calls every route that changes something, in an order that works.
func changes(hook string) []change {
	aCase := object{"query": "ship it", "should_trigger": true, "source": "linked_telemetry", "provenance": "missed_query"}
	with := func(more object) object {
		all := object{}
		for _, o := range []object{aCase, more} {
			for k, v := range o {
				all[k] = v
			}
		}
		return all
	}
	bundle := object{
		"schema_version": "1.0", "contributor_id": uuid.NewString(), "created_at": "2026-01-02T03:04:05Z", "agent_type": "codex",
		"sanitization_level": "aggressive", "positive_queries": []string{}, "eval_entries": []string{}, "session_metrics": object{},
	}
	const sources, suites, connections, alerts = "/api/v1/cloud-sources", "/api/v1/eval-suites", "/api/v1/repohost/connections", "/api/v1/alerts"
	return []change{
		{route: "POST /api/v1/keys", path: "/api/v1/keys", action: "auth.key.create", body: object{"name": "CI"}, keeps: "key", at: []string{"key", "id"}},
		{route: "PATCH /api/v1/keys/{id}", path: "/api/v1/keys/{key}", action: "auth.key.update", body: object{"name": "CI 2"}},
		{route: "DELETE /api/v1/keys/{id}", path: "/api/v1/keys/{key}", action: "auth.key.revoke"},
		{route: "PUT /api/v1/key-policy", path: "/api/v1/key-policy", action: "auth.keypolicy.set", body: object{"max_days": 3650}},

		{
			route: "POST /api/v1/service-accounts", path: "/api/v1/service-accounts", action: "auth.serviceaccount.create",
			body: object{"name": "deploy-bot", "role": "member"}, keeps: "service_account", at: []string{"service_account", "id"},
		},
		{
			route: "PATCH /api/v1/service-accounts/{id}", path: "/api/v1/service-accounts/{service_account}",
			action: "auth.serviceaccount.update", body: object{"role": "viewer"},
		},
		{
			route: "DELETE /api/v1/service-accounts/{id}", path: "/api/v1/service-accounts/{service_account}",
			action: "auth.serviceaccount.delete",
		},

		{
			route: "POST /api/v1/invitations", path: "/api/v1/invitations", action: "auth.invitation.create", body: object{"role": "viewer"},
			keeps: "invitation", at: []string{"invitation", "id"},
		},
		{route: "DELETE /api/v1/invitations/{id}", path: "/api/v1/invitations/{invitation}", action: "auth.invitation.revoke"},
		{
			route: "PATCH /api/v1/members/{user_id}", path: "/api/v1/members/{member}", action: "auth.user.set-role", body: object{"role": "member"},
			before: func(h *house) { h.ids["member"], _ = h.join("bob@example.org", "viewer") },
		},
		{
			route: "POST /api/v1/members/{user_id}/transfer", path: "/api/v1/members/{member}/transfer", action: "auth.user.transfer",
			before: func(h *house) { h.ids["member"], h.ids["member's key"] = h.join("cleo@example.org", "member") },
			send:   (*house).transfer,
		},
		{
			route: "POST /api/v1/teams", path: "/api/v1/teams", action: "teams.team.create", body: object{"name": "Docs"},
			keeps: "team", at: []string{"team", "id"},
		},
		{route: "PATCH /api/v1/teams/{id}", path: "/api/v1/teams/{team}", action: "teams.team.change", body: object{"description": "writes"}},
		{
			route: "PUT /api/v1/teams/{id}/members", path: "/api/v1/teams/{team}/members", action: "teams.team.members",
			body: object{"users": []string{"{member}"}},
		},
		{
			route: "DELETE /api/v1/teams/{id}/members/{user_id}", path: "/api/v1/teams/{team}/members/{member}",
			action: "teams.team.members",
		},
		{route: "PUT /api/v1/teams/{id}/members/{user_id}", path: "/api/v1/teams/{team}/members/{member}", action: "teams.team.members"},
		{route: "DELETE /api/v1/members/{user_id}", path: "/api/v1/members/{member}", action: "auth.user.remove"},

		{route: "POST /api/v1/organization/export", path: "/api/v1/organization/export", action: "privacy.export.start"},

		{
			route: "POST /api/v1/scim-tokens", path: "/api/v1/scim-tokens", action: "scim.token.create", body: object{"name": "okta"},
			keeps: "scim_token", at: []string{"scim_token", "id"},
		},
		{
			route: "PUT /api/v1/scim-groups/{id}", path: "/api/v1/scim-groups/{scim_group}", action: "scim.group.set-role", body: object{"role": "admin"},
			before: (*house).pushGroup,
		},
		{route: "DELETE /api/v1/scim-tokens/{id}", path: "/api/v1/scim-tokens/{scim_token}", action: "scim.token.delete"},

		{
			route: "POST /api/v1/catalog-tokens", path: "/api/v1/catalog-tokens", action: "catalog.token.create", body: object{"name": "laptops"},
			keeps: "catalog_token", at: []string{"catalog_token", "id"},
		},
		{
			route: "POST /api/v1/catalog-tokens/{id}/rotate", path: "/api/v1/catalog-tokens/{catalog_token}/rotate", action: "catalog.token.rotate",
			body: object{"overlap_hours": 1},
		},
		{route: "DELETE /api/v1/catalog-tokens/{id}", path: "/api/v1/catalog-tokens/{catalog_token}", action: "catalog.token.delete"},

		{
			route: "POST /api/v1/event-webhooks", path: "/api/v1/event-webhooks", action: "events.webhook.create",
			body: object{"url": "http://127.0.0.1:1/x", "events": []string{"version.published"}}, keeps: "event_webhook", at: []string{"id"},
		},
		{
			route: "PATCH /api/v1/event-webhooks/{id}", path: "/api/v1/event-webhooks/{event_webhook}", action: "events.webhook.change",
			body: object{"events": []string{"version.withdrawn"}},
		},
		{
			route: "POST /api/v1/event-webhooks/{id}/test", path: "/api/v1/event-webhooks/{event_webhook}/test",
			action: "events.webhook.test", body: object{},
		},
		{
			route: "POST /api/v1/event-webhooks/{id}/rotate-secret", path: "/api/v1/event-webhooks/{event_webhook}/rotate-secret",
			action: "events.webhook.rotate-secret", body: object{},
		},
		{
			route: "DELETE /api/v1/event-webhooks/{id}", path: "/api/v1/event-webhooks/{event_webhook}", action: "events.webhook.delete",
		},

		{
			route: "POST /api/v1/registry", path: "/api/v1/registry", action: "registry.entry.create", keeps: "entry", at: []string{"entry", "id"},
			send: func(h *house, path, key string) apptest.Response { return h.publish(path, key, "1.0.0") },
		},
		{
			route: "POST /api/v1/registry/{id}/versions", path: "/api/v1/registry/{entry}/versions", action: "registry.version.publish",
			send: func(h *house, path, key string) apptest.Response { return h.publish(path, key, "1.1.0") },
		},
		{
			route: "POST /api/v1/trusted-publishers", path: "/api/v1/trusted-publishers", action: "publishers.publisher.create",
			body: object{"entry_id": "{entry}", "repository": "acme/skills"}, keeps: "trusted_publisher", at: []string{"trusted_publisher", "id"},
		},
		{
			route: "DELETE /api/v1/trusted-publishers/{id}", path: "/api/v1/trusted-publishers/{trusted_publisher}",
			action: "publishers.publisher.delete",
		},
		{
			route: "PUT /api/v1/registry/{id}/owners", path: "/api/v1/registry/{entry}/owners", action: "teams.owners.set",
			body: object{"teams": []string{"{team}"}},
		},
		{
			route: "POST /api/v1/sets", path: "/api/v1/sets", action: "sets.set.create", keeps: "set", at: []string{"set", "id"},
			body: object{"name": "docs-team", "entries": []object{{"entry_id": "{entry}"}}},
		},
		{
			route: "PUT /api/v1/sets/{id}", path: "/api/v1/sets/{set}", action: "sets.set.change",
			body: object{"name": "docs-team", "teams": []string{"{team}"}},
		},
		{route: "DELETE /api/v1/sets/{id}", path: "/api/v1/sets/{set}", action: "sets.set.delete"},
		{route: "DELETE /api/v1/teams/{id}", path: "/api/v1/teams/{team}", action: "teams.team.delete"},
		{route: "POST /api/v1/registry/{id}/rollback", path: "/api/v1/registry/{entry}/rollback", action: "registry.version.rollback", body: object{}},
		{route: "POST /api/v1/registry/{id}/rollback/undo", path: "/api/v1/registry/{entry}/rollback/undo", action: "registry.rollback.undo", body: object{}},
		{
			route: "PUT /api/v1/settings/gate-policy", path: "/api/v1/settings/gate-policy", action: "gates.policy.change",
			body: object{"policy": object{"mode": "off"}},
		},
		{
			route: "PUT /api/v1/registry/{id}/gate-policy", path: "/api/v1/registry/{entry}/gate-policy", action: "gates.policy.change",
			body: object{"policy": object{"mode": "enforce"}},
		},
		{
			route: "POST /api/v1/registry/{id}/versions/{version}/promote", path: "/api/v1/registry/{entry}/versions/1.2.0/promote",
			action: "registry.version.promote", body: object{"reason": "good"}, before: func(h *house) { h.hold("1.2.0") },
		},
		{
			route: "POST /api/v1/registry/{id}/versions/{version}/withdraw", path: "/api/v1/registry/{entry}/versions/1.1.0/withdraw",
			action: "registry.version.withdraw", body: object{"reason": "bad"},
		},
		{
			route: "POST /api/v1/registry/{id}/versions/{version}/restore", path: "/api/v1/registry/{entry}/versions/1.1.0/restore",
			action: "registry.version.restore", body: object{},
		},
		{
			route: "POST /api/v1/gates/{id}/rerun", path: "/api/v1/gates/{gate}/rerun", action: "gates.gate.rerun",
			before: func(h *house) { h.hold("1.3.0") },
		},
		{
			route: "POST /api/v1/gates/{id}/override", path: "/api/v1/gates/{gate}/override", action: "gates.gate.override",
			before: func(h *house) { h.hold("1.4.0") }, body: object{"reason": "good"},
		},
		{
			route: "POST /api/v1/registry/{id}/versions/{version}/comments", path: "/api/v1/registry/{entry}/versions/1.5.0/comments",
			action: "approvals.version.comment", body: object{"comment": "why?"}, before: func(h *house) { h.askPeople("1.5.0") },
		},
		{
			route: "POST /api/v1/registry/{id}/versions/{version}/approvals", path: "/api/v1/registry/{entry}/versions/1.5.0/approvals",
			action: "approvals.version.reject", body: object{"decision": "reject"},
		},
		{
			route:  "POST /api/v1/registry/{id}/versions/{version}/approvals/override",
			path:   "/api/v1/registry/{entry}/versions/1.5.0/approvals/override",
			action: "approvals.version.override", body: object{"reason": "good"},
		},
		{
			route: "POST /api/v1/registry/{id}/install", path: "/api/v1/registry/{entry}/install", action: "registry.installation.record",
			body: object{"device_id": "laptop", "install_path": "/skills"},
		},

		{route: "PATCH /v1/skills/{id}", path: "/v1/skills/deploy", action: "skills.skill.hide", body: object{"hidden": true}},

		{
			route: "POST /v1/sessions/{session_id}/grades", path: "/v1/sessions/s1/grades", action: "grades.session.grade",
			before: (*house).useSkill, body: object{"skill": "deploy", "verdict": "fail", "reason": "slow"},
		},
		{route: "PUT /v1/skills/{skill_id}/grader", path: "/v1/skills/deploy/grader", action: "grades.grader.change", body: object{"enabled": true}},
		{
			route: "PUT /v1/skills/{skill_id}/improve-policy", path: "/v1/skills/deploy/improve-policy", action: "improve.policy.change",
			body: object{"mode": "propose", "monthly_usd": 5},
		},
		{route: "PUT /api/v1/settings/grader", path: "/api/v1/settings/grader", action: "grades.grader.change", body: object{"enabled": true}},

		{
			route: "PUT /api/v1/settings/prices", path: "/api/v1/settings/prices", action: "costs.prices.change",
			body: object{"models": []object{{"match": "gpt-5", "input": 1, "output": 2}}},
		},

		{route: "PUT /api/v1/settings/content", path: "/api/v1/settings/content", action: "evidence.setting.change", body: object{"enabled": true}},
		{route: "DELETE /api/v1/content", path: "/api/v1/content", action: "evidence.content.delete"},

		{route: "POST /api/v1/repohost/settings", path: "/api/v1/repohost/settings", action: "repohost.settings.change", body: object{"write_back_mode": "off"}},
		{
			route: "POST /api/v1/repohost/installations", path: "/api/v1/repohost/installations", action: "repohost.installation.bind",
			body: object{"installation_id": 7, "account_login": "acme", "account_type": "Organization"},
		},
		{
			route: "POST " + connections, path: connections, action: "repohost.connection.create", keeps: "connection", at: []string{"id"},
			body: object{"entry_id": "{entry}", "installation_id": 7, "repo_full_name": "acme/deploy"},
		},
		{route: "PATCH " + connections + "/{id}", path: connections + "/{connection}", action: "repohost.connection.change", body: object{"auto_publish": false}},
		{route: "POST " + connections + "/{id}/sync", path: connections + "/{connection}/sync", action: "repohost.connection.sync"},
		{
			route: "POST /api/v1/repohost/deliveries/{id}/redeliver", path: "/api/v1/repohost/deliveries/{delivery}/redeliver",
			action: "repohost.delivery.redeliver", before: (*house).deliver,
		},

		{
			route: "POST " + alerts, path: alerts, action: "alerts.rule.create", keeps: "alert", at: []string{"id"},
			body: object{"type": "no_data", "channel": "webhook", "config": object{"webhook_url": hook, "webhook_secret": alertSecret}},
		},
		{route: "PATCH " + alerts + "/{id}", path: alerts + "/{alert}", action: "alerts.rule.change", body: object{"threshold": 3}},
		{route: "POST " + alerts + "/{id}/test", path: alerts + "/{alert}/test", action: "alerts.rule.test"},
		{route: "POST " + alerts + "/{id}/ack", path: alerts + "/{alert}/ack", action: "alerts.rule.acknowledge"},
		{
			route: "POST " + alerts + "/{id}/snooze", path: alerts + "/{alert}/snooze", action: "alerts.rule.snooze",
			body: object{"until": nil},
		},
		{route: "POST " + alerts + "/{id}/rotate-secret", path: alerts + "/{alert}/rotate-secret", action: "alerts.rule.rotate-secret"},

		{
			route: "POST " + sources, path: sources, action: "sources.source.create", keeps: "repo-source", at: []string{"id"},
			body: object{"type": "repohost", "label": "from the repository", "installation_id": 7, "repo_full_name": "acme/deploy"},
		},
		{route: "POST " + sources + "/{id}/repohost-sync", path: sources + "/{repo-source}/repohost-sync", action: "sources.snapshot.create"},
		{
			route: "POST " + sources + "/upload", path: sources + "/upload", action: "sources.source.create", keeps: "source", at: []string{"id"},
			send: func(h *house, path, key string) apptest.Response {
				return h.form(path, key, map[string]string{"label": "deploy"}, apptest.Part{Name: "file", File: "skill.tar.gz", Content: h.archive("1")})
			},
		},
		{
			route: "POST /api/v1/registry/{id}/gates", path: "/api/v1/registry/{entry}/gates", action: "gates.gate.ask",
			body: object{"snapshot_id": "{snapshot}"}, before: func(h *house) {
				h.ids["snapshot"] = h.as(h.FirstKey).Get(h.fill(sources+"/{source}")).Want(http.StatusOK).Text("currentSnapshot", "id")
			},
		},
		{route: "PATCH " + sources + "/{id}", path: sources + "/{source}", action: "sources.source.change", body: object{"label": "deploy, ours"}},

		{
			route: "POST " + suites, path: suites, action: "evals.suite.create", keeps: "suite", at: []string{"suite", "id"},
			body: object{
				"name": "triggers", "source_id": "{source}", "source_kind": "manual", "verifier_kind": "llm_judge",
				"cases_json": []object{{"query": "ship", "expectation": "should_trigger"}},
			},
		},
		{
			route: "POST " + suites + "/import", path: suites + "/import", action: "evals.suite.create",
			send: func(h *house, path, key string) apptest.Response {
				return h.form(path, key, nil, apptest.Part{
					Name: "file", File: "queries.json", Content: []byte(`[{"query":"a","should_trigger":true}]`),
				})
			},
		},
		{route: "PATCH " + suites + "/{id}", path: suites + "/{suite}", action: "evals.suite.change", body: object{"name": "all triggers"}},
		{
			route: "POST " + suites + "/{id}/runs", path: suites + "/{suite}/runs", action: "evals.run.start", keeps: "run", at: []string{"run", "id"},
			body: object{"subject": object{"entry_id": "{entry}"}},
		},
		{
			route: "POST " + suites + "/{id}/runs/import", path: suites + "/{suite}/runs/import", action: "evals.run.import",
			send: func(h *house, path, key string) apptest.Response {
				return h.form(path, key, nil, apptest.Part{Name: "file", File: "aggregate-result.json", Content: []byte(
					`{"schemaVersion":1,"claudeVersion":"2.1.325","startedAt":"2026-11-02T10:00:00Z","cases":[{"name":"a","arms":{"with":[{}]}}]}`)})
			},
		},
		{route: "POST /api/v1/eval-runs/{id}/cancel", path: "/api/v1/eval-runs/{run}/cancel", action: "evals.run.cancel"},
		{
			route: "POST " + suites, path: suites, action: "evals.suite.create", keeps: "queries", at: []string{"suite", "id"},
			body: object{"name": "queries", "source_kind": "manual", "verifier_kind": "llm_judge", "cases_json": []object{
				{"query": "ship", "expectation": "should_trigger"},
				{"query": "deliver", "expectation": "should_trigger"},
				{"query": "release", "expectation": "should_trigger"},
				{"query": "publish", "expectation": "should_trigger"},
			}},
		},
		{
			route: "POST /api/v1/comparisons", path: "/api/v1/comparisons", action: "evals.comparison.start", keeps: "comparison", at: []string{"comparison", "id"},
			body: object{"suite_id": "{queries}", "arms": []object{{"entry_id": "{entry}"}, {"entry_id": "{entry}", "agent": object{"name": "claude-code"}}}},
		},
		{route: "POST /api/v1/comparisons/{id}/cancel", path: "/api/v1/comparisons/{comparison}/cancel", action: "evals.comparison.cancel"},
		{
			route: "POST /api/v1/eval-schedules", path: "/api/v1/eval-schedules", action: "evals.schedule.create", keeps: "schedule", at: []string{"schedule", "id"},
			body: object{"suite_id": "{queries}", "entry_id": "{entry}"},
		},
		{route: "PATCH /api/v1/eval-schedules/{id}", path: "/api/v1/eval-schedules/{schedule}", action: "evals.schedule.change", body: object{"enabled": false}},
		{route: "POST /api/v1/eval-schedules/{id}/run", path: "/api/v1/eval-schedules/{schedule}/run", action: "evals.schedule.run"},
		{route: "DELETE /api/v1/eval-schedules/{id}", path: "/api/v1/eval-schedules/{schedule}", action: "evals.schedule.delete"},
		{
			route: "POST /api/v1/improve-runs", path: "/api/v1/improve-runs", action: "evals.improve.start", keeps: "improve", at: []string{"improve_run", "id"},
			body: object{"entry_id": "{entry}", "suite_id": "{queries}"},
		},
		{route: "POST /api/v1/improve-runs/{id}/cancel", path: "/api/v1/improve-runs/{improve}/cancel", action: "evals.improve.cancel"},

		{
			route: "POST " + sources + "/{id}/eval-suggestions/review", path: sources + "/{source}/eval-suggestions/review", action: "sources.review.set",
			body: with(object{"suggestion_id": "{suggestion}", "review_status": "accepted"}),
		},
		{
			route: "POST " + sources + "/{id}/eval-suggestions/{id}/apply-to-suite", path: sources + "/{source}/eval-suggestions/{suggestion}/apply-to-suite",
			action: "sources.review.set", body: with(object{"suite_id": "{suite}"}),
		},
		{
			route: "DELETE " + sources + "/{id}/eval-suggestions/{id}/review", path: sources + "/{source}/eval-suggestions/{suggestion}/review",
			action: "sources.review.clear",
		},
		{
			route: "POST " + sources + "/{id}/drafts/apply", path: sources + "/{source}/drafts/apply", action: "sources.review.set",
			body: object{"suite_id": "{suite}"}, before: (*house).draft,
		},
		{
			route: "POST /v1/sessions/{session_id}/cases", path: "/v1/sessions/s1/cases", action: "sources.review.set", before: (*house).linkSkill,
			body: object{"source_id": "{source}", "query": "ship it"},
		},
		{
			route: "POST /api/v1/community/bundles", path: "/api/v1/community/bundles", action: "community.bundle.submit",
			body: object{"creator_id": uuid.NewString(), "skill_name": "deploy", "bundle": bundle},
		},
		{
			route: "POST /api/v1/proposals/{id}/refresh", path: "/api/v1/proposals/{proposal}/refresh", action: "proposals.proposal.refresh",
			before: (*house).propose,
		},
		{
			route: "POST /api/v1/proposals/{id}/apply", path: "/api/v1/proposals/{proposal}/apply", action: "proposals.proposal.apply",
			body: object{"as": "patch"}, before: (*house).writeProposal,
		},
		{
			route: "PATCH /api/v1/proposals/{id}", path: "/api/v1/proposals/{proposal}", action: "proposals.proposal.move",
			body: object{"status": "rejected"},
		},

		{route: "DELETE " + alerts + "/{id}", path: alerts + "/{alert}", action: "alerts.rule.delete"},
		{route: "DELETE " + connections + "/{id}", path: connections + "/{connection}", action: "repohost.connection.delete"},
		{route: "DELETE " + suites + "/{id}", path: suites + "/{suite}", action: "evals.suite.delete"},
		{route: "DELETE " + sources + "/{id}", path: sources + "/{source}", action: "sources.source.delete"},
		{route: "DELETE /api/v1/me/data", path: "/api/v1/me/data", action: "telemetry.data.erase"},
		{
			route: "PATCH /api/v1/registry/{id}", path: "/api/v1/registry/{entry}",
			action: "registry.entry.visibility", body: object{"visibility": "unlisted"},
		},
		{route: "DELETE /api/v1/registry/{id}", path: "/api/v1/registry/{entry}", action: "registry.entry.delete"},
	}
}

// drive makes all changes and calls each with what was changed and what it was
// answered.
func (h *house) drive(each func(c change, a apptest.Response)) {
	h.t.Helper()
	for _, c := range changes(h.hook.URL + plantedPath) {
		if c.before != nil {
			c.before(h)
		}
		a := h.do(c, h.FirstKey)
		if a.Status >= 300 {
			h.t.Fatalf("%s: %d %s", c.route, a.Status, a.Body)
		}
		h.keep(c, a)
		each(c, a)
	}
}

// keep remembers the id of what a change has made.
func (h *house) keep(c change, a apptest.Response) {
	h.t.Helper()
	if c.keeps == "" {
		return
	}
	if h.ids[c.keeps] = a.Text(c.at...); h.ids[c.keeps] == "" {
		h.t.Fatalf("%s: no id at %v of %s", c.route, c.at, a.Body)
	}
}

type entry struct {
	Action, Via string
	Actor       struct {
		Kind, Name string
		KeyID      *string `json:"key_id"`
	}
	RequestID *string `json:"request_id"`
}

// entries lists what the audit log of a key's organisation says.
func (h *house) entries(key string, query url.Values) (all []entry) {
	h.t.Helper()
	query.Set("limit", "200")
	a := h.as(key).Do("GET", "/api/v1/audit?"+query.Encode(), nil)
	var out struct{ Entries []entry }
	a.Want(http.StatusOK).Into(&out)
	return out.Entries
}

func (h *house) entriesOf(key, requestID string) []entry {
	h.t.Helper()
	return slices.DeleteFunc(h.entries(key, url.Values{}), func(e entry) bool { return e.RequestID == nil || *e.RequestID != requestID })
}

// TestEveryChangeIsRecorded calls every route that changes something: an entry
// says so, and who did it. Whoever adds such a route adds it to changes, or to
// unaudited with a reason.
func TestEveryChangeIsRecorded(t *testing.T) {
	each(t, storetest.URL, func(t *testing.T, flags []string) {
		h := newHouse(t, flags)
		me := h.as(h.FirstKey).Do("GET", "/api/v1/me", nil)
		covered := map[string]bool{}
		h.drive(func(c change, a apptest.Response) {
			method, path, _ := strings.Cut(c.route, " ")
			covered[routeName(method, path)] = true
			found := h.entriesOf(h.FirstKey, a.Header.Get("X-Request-Id"))
			i := slices.IndexFunc(found, func(e entry) bool { return e.Action == c.action })
			if i < 0 {
				t.Errorf("%s left no entry %s, only %v: %s", c.route, c.action, found, a.Body)
				return
			}
			e := found[i]
			if e.Actor.Kind != "key" || e.Actor.Name != "owner@localhost" || e.Actor.KeyID == nil || *e.Actor.KeyID != me.Text("key", "id") || e.Via != "api" {
				t.Errorf("%s was recorded as done by %+v via %s", c.route, e.Actor, e.Via)
			}
		})
		for _, r := range h.Routes() {
			name := routeName(r.Method, r.Path)
			if _, excused := unaudited[name]; r.Method != http.MethodGet && !excused && !covered[name] {
				t.Errorf("%s changes something: record it with audit.Record and add it to changes, or to unaudited with a reason", name)
			}
		}
		all := h.as(h.FirstKey).Do("GET", "/api/v1/audit?limit=200", nil)
		for _, private := range []string{"ship it", plantedPath, alertSecret, h.FirstKey} {
			if strings.Contains(string(all.Body), private) {
				t.Errorf("the audit log tells %q", private)
			}
		}
		for _, e := range h.entries(h.stranger, url.Values{}) {
			if e.Actor.Kind != "system" {
				t.Errorf("the stranger's organisation has the entry %+v", e)
			}
		}
	})
}

// TestRefusedChangesAreNotRecorded calls the same routes as somebody who may
// not.
func TestRefusedChangesAreNotRecorded(t *testing.T) {
	h := newHouse(t, []string{"--data", t.TempDir()})
	for _, c := range changes(h.hook.URL) {
		if c.before != nil {
			c.before(h)
		}
		refused := map[string]string{"viewer": h.viewer, "nobody": ""}
		if strings.Contains(c.route, "{") {
			refused["stranger"] = h.stranger
		}
		for who, key := range refused {
			a := h.do(c, key)
			if a.Status < 400 || a.Status >= 500 {
				t.Errorf("%s as %s: %d %s", c.route, who, a.Status, a.Body)
			}
			if found := slices.Concat(h.entriesOf(h.FirstKey, a.Header.Get("X-Request-Id")), h.entriesOf(h.stranger, a.Header.Get("X-Request-Id"))); len(found) > 0 {
				t.Errorf("%s as %s was refused and left %v", c.route, who, found)
			}
		}
		h.keep(c, h.do(c, h.FirstKey))
	}
}
