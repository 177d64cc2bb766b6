package web

import (
	"cmp"
	"time"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/web/format"
)

// settingsView is the way to all settings.
type settingsView struct{ Usage string }

// planView is the organisation's plan and the server's settings for it. Nothing
// on it can be changed by the organisation: plans and retention are the operator's.
type planView struct {
	settingsView
	Plans     []planRow
	Retention []setting
}

// A planRow is what a plan adds to the lower ones.
type planRow struct {
	Plan    access.Plan
	Adds    string
	Has     bool // the organisation's plan includes it
	Current bool
}

// A setting is chosen by the operator.
type setting struct{ What, Value, Name, Note string }

var planTexts = map[access.Plan]string{
	access.Free:       "skill metrics, alerts, sources, suites and runs, the review queue, read access to the registry",
	access.Pro:        "publish, install and roll back skills; connect a code host",
	access.Team:       "see who has installed which version, and whose copy was edited",
	access.Enterprise: "no further features on this server",
}

// handleSettings shows what can be set, and where.
func (s *Service) handleSettings(v *visit) (answer, error) {
	usage, err := s.usage(v)
	return show("settings", "Settings", settingsView{usage}), err
}

// usage says how much is stored, e.g. "1.5 GiB of 20.0 GiB": the quota's counter, which
// a job corrects from time to time.
func (s *Service) usage(v *visit) (string, error) {
	used, err := s.Quota.Usage(v.Context(), v.Caller.OrgID)
	text := quota.Bytes(used.Used).Short()
	if used.Limit != nil {
		text += " of " + quota.Bytes(*used.Limit).Short()
	}
	return text, err
}

// handlePlan shows the plans and the retention.
func (s *Service) handlePlan(v *visit) (answer, error) {
	usage, err := s.usage(v)
	view := planView{settingsView: settingsView{usage}, Retention: s.retention()}
	for _, p := range access.Plans() {
		view.Plans = append(view.Plans, planRow{p, planTexts[p], v.Caller.Plan.Includes(p), v.Caller.Plan == p})
	}
	return show("settings_plan", "Plan and limits", view), err
}

// retention lists settings of the server, with the name under which docs have them.
func (s *Service) retention() []setting {
	return []setting{
		{
			"Raw data", format.Span(s.Telemetry.Retention), "retention-prompts",
			"prompts, records and request bodies; the metrics derived from them are kept",
		},
		{
			"Metrics window", format.Days(float64(s.Skills.Window)), "metrics-window",
			"pass rate, trigger rate and confidence of skills",
		},
		{"Alert evaluation", "every " + format.Span(s.Alerts.Interval), "alert-interval", "also a second after new sessions"},
		{"Browser session", format.Span(auth.SessionLifetime), "", format.Span(auth.SessionIdle) + " without activity"},
	}
}

// connectView has the commands and settings that connect agents and people.
type connectView struct {
	Agents     []Snippet
	Installers []Snippet
	Admins     []string   // who can create keys, if the caller cannot
	Made       string     // what was created and is filled in: a key or a catalog token
	Until      *time.Time // when that key expires
	Waiting    bool       // no session was reported yet
}

// handleConnect shows how to connect agents and installers. Without a key the
// snippets have a placeholder, which a person replaces.
func (s *Service) handleConnect(v *visit) (answer, error) {
	view := s.connections(v, keyPlaceholder, tokenPlaceholder)
	found, _, err := s.Sessions.List(v.Context(), v.Caller, sessions.Filter{Limit: 1})
	if err != nil {
		return answer{}, err
	}
	if view.Waiting = len(found) == 0; v.Caller.May(access.Admin) {
		return show("settings_connect", "Connect agents", view), nil
	}
	users, err := s.Auth.Users(v.Context(), v.Caller.OrgID)
	for _, u := range users {
		if u.RemovedAt == nil && u.Role.Includes(access.AdminRole) {
			view.Admins = append(view.Admins, personName(u))
		}
	}
	return show("settings_connect", "Connect agents", view), err
}

// connections fills a key and a token into the snippets.
func (s *Service) connections(v *visit, key, token string) connectView {
	return connectView{
		Agents:     Agents(s.PublicURL, key),
		Installers: Installers(s.PublicURL, v.Caller.OrgName, token),
	}
}

// handleConnectWithKey creates a key or a catalog token and fills it in. It responds with
// the page itself: a redirect would have to carry the key.
func (s *Service) handleConnectWithKey(v *visit) (answer, error) {
	key, token, made := keyPlaceholder, tokenPlaceholder, "key"
	var k auth.Key
	var err error
	if v.FormValue("for") == "installers" {
		made = "catalog token"
		_, token, err = s.Tokens.Create(v.Context(), v.Caller, "installers", nil)
	} else {
		// The key can only send telemetry, since it ends up in files on many
		// machines.
		n := auth.NewKey{Name: "agents", Permissions: []access.Permission{access.TelemetryWrite}}
		k, key, err = s.Auth.CreateKeyFor(v.Context(), v.Caller, n)
	}
	if err != nil {
		return show("settings_connect", "Connect agents", s.connections(v, keyPlaceholder, tokenPlaceholder)).refused(err)
	}
	view := s.connections(v, key, token)
	view.Made, view.Until, view.Waiting = made, k.ExpiresAt, true
	return show("settings_connect", "Connect agents", view), nil
}

// personName returns the name of a user, or else the email address. It marks those who
// were removed.
func personName(u auth.User) string {
	name := cmp.Or(u.Name, u.Email)
	if u.RemovedAt != nil {
		name += " (removed)"
	}
	return name
}
