package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/audit"
)

// An auditArea is a part of the service whose changes are recorded.
type auditArea struct {
	Prefix string // prefix of its actions, e.g. "auth."
	Label  string
	Words  []auditWords
}

// auditWords describe an action, in front of the name of its target: "changed the role
// of".
type auditWords struct{ Action, Did string }

// auditAreas are all actions, as the filter of the audit log lists them. A test fails
// if the code records an action that is missing here. The words are read with a
// person before and the target after them: "Ada created the suite smoke-tests".
var auditAreas = []auditArea{
	{"auth.", "people, keys and sessions", []auditWords{
		{"auth.organisation.create", "created the organisation"},
		{"auth.organisation.set-plan", "changed the plan of"},
		{"auth.user.create", "added"},
		{"auth.user.set-role", "changed the role of"},
		{"auth.user.transfer", "transferred the ownership of the organisation to"},
		{"auth.user.remove", "removed"},
		{"auth.user.reinstate", "brought back"},
		{"auth.user.update", "changed the name or address of"},
		{"auth.invitation.create", "made the invitation"},
		{"auth.invitation.accept", "accepted the invitation"},
		{"auth.invitation.revoke", "ended the invitation"},
		{"auth.key.create", "created the key"},
		{"auth.key.update", "changed the key"},
		{"auth.key.revoke", "revoked the key"},
		{"auth.key.refuse", "used, from an address that it does not allow, the key"},
		{"auth.keypolicy.set", "changed the key policy of"},
		{"auth.serviceaccount.create", "created the service account"},
		{"auth.serviceaccount.update", "changed the service account"},
		{"auth.serviceaccount.delete", "deleted the service account"},
		{"auth.device.approve", "approved the login of a program as"},
		{"auth.device.deny", "denied the login of a program as"},
		{"auth.session.start", "signed in with"},
		{"auth.identity.refuse", "refused the sign-in of"},
		{"auth.identity.link", "linked, to sign in with it, the account"},
		{"auth.identity.unlink", "unlinked the account"},
		{"auth.session.end", "ended the session in"},
	}},
	{"scim.", "provisioning", []auditWords{
		{"scim.token.create", "created the provisioning token"},
		{"scim.token.delete", "deleted the provisioning token"},
		{"scim.user.create", "provisioned the user"},
		{"scim.user.update", "changed the provisioned user"},
		{"scim.user.delete", "deleted the provisioned user"},
		{"scim.group.create", "created the group"},
		{"scim.group.update", "changed the group"},
		{"scim.group.delete", "deleted the group"},
		{"scim.group.set-role", "changed the role that is given by the group"},
	}},
	{"privacy.", "privacy", []auditWords{
		{"privacy.export.start", "started an archive of"},
		{"privacy.organisation.delete", "deleted"},
	}},
	{"catalog.", "catalogs", []auditWords{
		{"catalog.token.create", "created the catalog token"},
		{"catalog.token.rotate", "rotated the catalog token"},
		{"catalog.token.delete", "deleted the catalog token"},
	}},
	{"events.", "event webhooks", []auditWords{
		{"events.webhook.create", "added the event webhook"},
		{"events.webhook.change", "changed the event webhook"},
		{"events.webhook.rotate-secret", "rotated the secret of the event webhook"},
		{"events.webhook.pause", "paused the event webhook"},
		{"events.webhook.test", "sent a test to the event webhook"},
		{"events.webhook.delete", "deleted the event webhook"},
		{"events.delivery.replay", "sent an event again to the event webhook"},
	}},
	{"publishers.", "trusted publishers", []auditWords{
		{"publishers.publisher.create", "added the trusted publisher"},
		{"publishers.publisher.delete", "removed the trusted publisher"},
		{"publishers.token.exchange", "got a key for a workflow run of the trusted publisher"},
	}},
	{"teams.", "teams and owners", []auditWords{
		{"teams.team.create", "created the team"},
		{"teams.team.change", "changed the team"},
		{"teams.team.members", "changed the members of the team"},
		{"teams.team.delete", "deleted the team"},
		{"teams.owners.set", "set the owners of"},
		{"teams.owners.read", "read a CODEOWNERS file that changes the owners of"},
	}},
	{"costs.", "costs", []auditWords{
		{"costs.prices.change", "changed the prices of models of"},
	}},
	{"evidence.", "content of sessions", []auditWords{
		{"evidence.setting.change", "changed whether content is kept by"},
		{"evidence.content.read", "read the content of the session"},
		{"evidence.content.delete", "deleted all content of"},
		{"evidence.content.expire", "deleted expired content of"},
	}},
	{"grades.", "grades", []auditWords{
		{"grades.session.grade", "graded the session"},
		{"grades.grader.change", "changed the grader of"},
	}},
	{"registry.", "the registry", []auditWords{
		{"registry.entry.create", "created the entry"},
		{"registry.version.publish", "published a version of"},
		{"registry.version.hold", "pushed a candidate of"},
		{"registry.version.promote", "made a candidate current in"},
		{"registry.version.withdraw", "withdrew a version of"},
		{"registry.version.restore", "restored a version of"},
		{"registry.version.rollback", "rolled back"},
		{"registry.rollback.undo", "undid the rollback of"},
		{"registry.entry.delete", "deleted the entry"},
		{"registry.entry.visibility", "changed who may see"},
		{"registry.installation.record", "installed"},
	}},
	{"gates.", "gates", []auditWords{
		{"gates.policy.change", "changed the gate policy of"},
		{"gates.gate.decide", "decided the gate of version"},
		{"gates.gate.ask", "asked for the gate of a folder,"},
		{"gates.gate.rerun", "reran the gate of version"},
		{"gates.gate.override", "overrode the gate of version"},
	}},
	{"approvals.", "approvals", []auditWords{
		{"approvals.version.approve", "approved a version of"},
		{"approvals.version.reject", "rejected a version of"},
		{"approvals.version.withdraw", "no longer counts a review on the code host as an approval of a version of"},
		{"approvals.version.comment", "commented on a version of"},
		{"approvals.version.override", "overrode the approvals of a version of"},
	}},
	{"improve.", "improving by itself", []auditWords{
		{"improve.policy.change", "changed the improve policy of"},
		{"improve.policy.start", "started a nightly improve run of"},
	}},
	{"alerts.", "alerts", []auditWords{
		{"alerts.rule.create", "created the alert"},
		{"alerts.rule.change", "changed the alert"},
		{"alerts.rule.test", "tested the alert"},
		{"alerts.rule.acknowledge", "acknowledged the alert"},
		{"alerts.rule.snooze", "snoozed the alert"},
		{"alerts.rule.rotate-secret", "rotated the secret of the alert"},
		{"alerts.rule.disable", "turned off the alert"},
		{"alerts.rule.delete", "deleted the alert"},
	}},
	{"skills.", "skills", []auditWords{
		{"skills.skill.hide", "hid the skill"},
		{"skills.skill.unhide", "showed the skill again"},
		{"skills.skill.merge", "merged the skill"},
		{"skills.skill.unmerge", "took back the merge of the skill"},
	}},
	{"sources.", "sources and reviews", []auditWords{
		{"sources.source.create", "created the source"},
		{"sources.source.change", "changed the source"},
		{"sources.source.delete", "deleted the source"},
		{"sources.snapshot.create", "added a snapshot to"},
		{"sources.review.set", "reviewed a suggestion of"},
		{"sources.review.clear", "undid the review of a suggestion of"},
	}},
	{"sets.", "sets of skills", []auditWords{
		{"sets.set.create", "made the set"},
		{"sets.set.change", "changed the set"},
		{"sets.set.delete", "deleted the set"},
	}},
	{"evals.", "suites and runs", []auditWords{
		{"evals.suite.create", "created the suite"},
		{"evals.suite.change", "changed the suite"},
		{"evals.suite.delete", "deleted the suite"},
		{"evals.run.start", "started a run of"},
		{"evals.run.import", "imported a run of"},
		{"evals.run.cancel", "cancelled a run of"},
		{"evals.comparison.start", "started a comparison of"},
		{"evals.comparison.cancel", "cancelled a comparison of"},
		{"evals.schedule.create", "created a schedule of"},
		{"evals.schedule.change", "changed the schedule of"},
		{"evals.schedule.delete", "deleted the schedule of"},
		{"evals.schedule.run", "started a run of the schedule of"},
		{"evals.improve.start", "started an improve run of"},
		{"evals.improve.cancel", "cancelled an improve run of"},
	}},
	{"repohost.", "the code host", []auditWords{
		{"repohost.settings.change", "changed the code host settings of"},
		{"repohost.account.allow", "assigned to this organisation the account"},
		{"repohost.account.release", "removed from this organisation the account"},
		{"repohost.installation.bind", "bound the account"},
		{"repohost.installation.follow", "applied the code host's change of the account"},
		{"repohost.connection.create", "connected the repository"},
		{"repohost.connection.change", "changed the connection of"},
		{"repohost.connection.sync", "synchronised"},
		{"repohost.connection.follow", "applied the code host's change of"},
		{"repohost.connection.delete", "disconnected the repository"},
		{"repohost.delivery.redeliver", "replayed a delivery of"},
	}},
	{"community.", "community bundles", []auditWords{{"community.bundle.submit", "submitted a bundle on"}}},
	{"proposals.", "proposals", []auditWords{
		{"proposals.proposal.move", "decided on a proposal for"},
		{"proposals.proposal.edit", "wrote the value of a proposal for"},
		{"proposals.proposal.apply", "applied a proposal for"},
		{"proposals.proposal.refresh", "refreshed a proposal for"},
	}},
	{"telemetry.", "telemetry", []auditWords{
		{"telemetry.data.erase", "erased the raw data of"},
		{"telemetry.data.expire", "removed expired raw data of"},
	}},
}

// didWords describes an action; an unknown one, e.g. of a newer replica, is shown as it
// is. It is followed by the name of the target, e.g. "created the suite" and "smoke
// tests".
func didWords(action string) string {
	for _, area := range auditAreas {
		for _, w := range area.Words {
			if w.Action == action {
				return w.Did
			}
		}
	}
	return action
}

// whoWords describe actors without a name.
var whoWords = map[audit.Actor]string{
	audit.User: "a user", audit.Key: "a program", audit.System: "the service", audit.Command: "the operator",
}

// viaWords describe by which way a named user did it.
var viaWords = map[audit.Via]string{audit.Web: "in a browser", audit.API: "through the API", audit.CLI: "on the server"}

// pagesOfTargets are the pages of the targets of entries, as in routes.go. A path
// without an id is the page of a list, which always exists.
var pagesOfTargets = map[string]string{
	"entry": "/registry/{id}", "alert": "/alerts/{id}", "source": "/sources/{id}", "suite": "/suites/{id}",
	"run": "/runs/{id}", "comparison": "/comparisons/{id}",
	"improve_run": "/improve-runs/{id}", "proposal": "/proposals/{id}",
	"gate": "/gates/{id}", "connection": "/repohost/connections/{id}", "skill": "/skills/{skill}", "skill_id": "/skills/{skill}",
	"user": "/settings/members", "invitation": "/settings/members", "scim_token": "/settings/provisioning",
	"scim_user": "/settings/members", "scim_group": "/settings/provisioning", "key": "/settings/keys",
	"catalog_token": "/settings/catalog", "trusted_publisher": "/registry", "event_webhook": "/settings/webhooks",
	"organisation": "/settings/plan",
	"account":      "/repohost", "installation": "/repohost", "delivery": "/repohost",
	"bundle": "/community",
}

// ofOne reports whether a path is the page of one thing rather than of a list.
func ofOne(path string) bool { return strings.HasSuffix(path, "}") }

// An auditFact is one detail of an entry. Link is "" if its value has no page.
type auditFact struct{ Name, Value, Link string }

// auditFacts lists the details of an entry, sorted by name and without empty ones.
// The names are those of the entry's JSON, with spaces.
func auditFacts(d audit.Detail) []auditFact {
	all := []auditFact{}
	for _, name := range slices.Sorted(maps.Keys(d)) {
		if text := factText(d[name]); text != "" {
			all = append(all, auditFact{Name: strings.ReplaceAll(name, "_", " "), Value: text})
		}
	}
	return all
}

// factText formats a value of a detail, which is decoded JSON. A number is formatted
// by the encoder, which shows no exponent for usual ones.
func factText(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case bool:
		if value {
			return "yes"
		}
		return "no"
	case []any:
		texts := make([]string, len(value))
		for i, v := range value {
			texts[i] = fmt.Sprint(v)
		}
		return strings.Join(texts, " and ")
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// idText matches ids and hashes.
var idText = regexp.MustCompile(`^[0-9a-f-]{32,}$`)

// shortID truncates an id or a hash to a part that is unique enough on a page, and
// other texts to a line.
func shortID(text string) string {
	if idText.MatchString(text) {
		return short(idLength, text)
	}
	return short(factLength, text)
}

// The lengths of shortID, in characters.
const (
	idLength   = 14
	factLength = 120
)
