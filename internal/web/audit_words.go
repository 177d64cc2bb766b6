package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/audit"
)

// An auditArea is a part of the service whose changes are recorded.
type auditArea struct {
	Prefix string // of its actions
	Label  string
	Words  []auditWords
}

// auditWords say what an action did, before the name of what it was done to.
type auditWords struct{ Action, Did string }

// auditAreas are all actions, as the filter of the audit log offers them.
var auditAreas = []auditArea{
	{"auth.", "people, keys and sessions", []auditWords{
		{"auth.organisation.create", "made the organisation"},
		{"auth.organisation.set-plan", "changed the plan of"},
		{"auth.user.create", "added"},
		{"auth.user.set-role", "changed the role of"},
		{"auth.key.create", "made the key"},
		{"auth.key.revoke", "revoked the key"},
		{"auth.device.approve", "let a program sign in as"},
		{"auth.device.deny", "kept a program from signing in as"},
		{"auth.session.start", "signed in with"},
		{"auth.session.end", "ended the session in"},
	}},
	{"registry.", "the registry", []auditWords{
		{"registry.entry.create", "made the entry"},
		{"registry.version.publish", "published a version of"},
		{"registry.version.rollback", "rolled back"},
		{"registry.entry.delete", "deleted the entry"},
		{"registry.installation.record", "installed"},
	}},
	{"alerts.", "alerts", []auditWords{
		{"alerts.rule.create", "made the alert"},
		{"alerts.rule.change", "changed the alert"},
		{"alerts.rule.test", "tested the alert"},
		{"alerts.rule.rotate-secret", "made a new secret for the alert"},
		{"alerts.rule.disable", "switched off the alert"},
		{"alerts.rule.delete", "deleted the alert"},
	}},
	{"sources.", "sources and reviews", []auditWords{
		{"sources.source.create", "made the source"},
		{"sources.source.change", "changed the source"},
		{"sources.source.delete", "deleted the source"},
		{"sources.snapshot.create", "added a snapshot to"},
		{"sources.review.set", "decided on a suggestion of"},
		{"sources.review.clear", "took back a decision on a suggestion of"},
	}},
	{"evals.", "suites and runs", []auditWords{
		{"evals.suite.create", "made the suite"},
		{"evals.suite.change", "changed the suite"},
		{"evals.suite.delete", "deleted the suite"},
		{"evals.run.start", "started a run of"},
		{"evals.run.cancel", "cancelled a run of"},
		{"evals.improve.start", "started an improve run of"},
		{"evals.improve.cancel", "cancelled an improve run of"},
	}},
	{"repohost.", "the code host", []auditWords{
		{"repohost.settings.change", "changed the code host's settings of"},
		{"repohost.account.allow", "gave this organisation the account"},
		{"repohost.account.release", "took from this organisation the account"},
		{"repohost.installation.bind", "bound the account"},
		{"repohost.installation.follow", "followed the code host's change of the account"},
		{"repohost.connection.create", "connected the repository"},
		{"repohost.connection.change", "changed the connection of"},
		{"repohost.connection.sync", "synchronised"},
		{"repohost.connection.follow", "followed the code host's change of"},
		{"repohost.connection.delete", "disconnected the repository"},
		{"repohost.delivery.redeliver", "replayed a delivery of"},
	}},
	{"community.", "community bundles", []auditWords{{"community.bundle.submit", "submitted a bundle on"}}},
	{"proposals.", "proposals", []auditWords{{"proposals.proposal.move", "decided on a proposal for"}}},
	{"telemetry.", "telemetry", []auditWords{
		{"telemetry.data.erase", "erased the raw data of"},
		{"telemetry.data.expire", "removed expired raw data of"},
	}},
}

// didWords says in words what an action did; one that nobody has put into words
// is shown as it is.
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

// whoWords stand for those who have no name.
var whoWords = map[audit.Actor]string{
	audit.User: "somebody", audit.Key: "a program", audit.System: "the service itself", audit.Command: "somebody on the server",
}

// viaWords say how a named person did it.
var viaWords = map[audit.Via]string{audit.Web: "in a browser", audit.API: "through the API", audit.CLI: "on the server"}

// pagesOfTargets are where the things of entries are shown, as in routes.go. A
// path without an id is that of a list, which is always there.
var pagesOfTargets = map[string]string{
	"entry": "/registry/{id}", "alert": "/alerts/{id}", "source": "/sources/{id}", "suite": "/suites/{id}", "run": "/runs/{id}",
	"improve_run": "/improve-runs/{id}", "proposal": "/proposals/{id}", "connection": "/repohost/connections/{id}", "skill": "/skills/{skill}", "skill_id": "/skills/{skill}",
	"user": "/settings/members", "key": "/settings/keys", "organisation": "/settings", "account": "/repohost", "installation": "/repohost", "delivery": "/repohost",
	"bundle": "/community",
}

// ofOne reports whether a path is that of one thing, not of a list.
func ofOne(path string) bool { return strings.HasSuffix(path, "}") }

// An auditFact is one thing that an entry says beside its action.
type auditFact struct{ Name, Value, Link string }

// auditFacts lists the detail of an entry by name.
func auditFacts(d audit.Detail) []auditFact {
	all := []auditFact{}
	for _, name := range slices.Sorted(maps.Keys(d)) {
		if text := factText(d[name]); text != "" {
			all = append(all, auditFact{Name: strings.ReplaceAll(name, "_", " "), Value: text})
		}
	}
	return all
}

// factText is a value of a detail, which was JSON.
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

var idText = regexp.MustCompile(`^[0-9a-f-]{32,}$`)

// shortID cuts an id or a hash to what tells it apart on a page; other texts
// stay.
func shortID(text string) string {
	if idText.MatchString(text) {
		return short(idLength, text)
	}
	return short(factLength, text)
}

const (
	idLength   = 14
	factLength = 120
)
