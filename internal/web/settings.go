package web

import (
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/quota"
)

// settingsView is the organisation, and what is in force for it.
type settingsView struct {
	Usage     string
	Plans     []planRow
	Retention []setting
}

// A planRow is what a plan adds to those before it.
type planRow struct {
	Plan    access.Plan
	Adds    string
	Has     bool // the organisation's plan includes it
	Current bool
}

// A setting is one that whoever runs the service has chosen.
type setting struct{ What, Value, Name, Note string }

var planTexts = map[access.Plan]string{
	access.Free:       "figures of skills, alerts, sources, suites and runs, the review queue, reading the registry",
	access.Pro:        "publishing, installing and rolling back, the code host",
	access.Team:       "who has installed which version, and who has edited it",
	access.Enterprise: "nothing more on this server",
}

func (s *Service) handleSettings(v *visit) (answer, error) {
	used, err := s.Quota.Usage(v.Context(), v.Caller.OrgID)
	if err != nil {
		return answer{}, err
	}
	view := settingsView{Usage: usageText(used), Retention: s.retention()}
	for _, p := range access.Plans() {
		view.Plans = append(view.Plans, planRow{p, planTexts[p], v.Caller.Plan.Includes(p), v.Caller.Plan == p})
	}
	return show("settings", "Settings", view), nil
}

// usageText is like "1.5 GiB of 20.0 GiB".
func usageText(u quota.Usage) string {
	if u.Limit == nil {
		return quota.Bytes(u.Used).Short()
	}
	return quota.Bytes(u.Used).Short() + " of " + quota.Bytes(*u.Limit).Short()
}

func (s *Service) retention() []setting {
	return []setting{
		{"Raw data", spanText(s.Telemetry.Retention), "retention-prompts", "prompts, records and bodies as they came; the figures made of them stay"},
		{"Rates look back", daysText(float64(s.Skills.Window)), "metrics-window", "pass rate, trigger rate and confidence of skills"},
		{"Alerts look", "every " + spanText(s.Alerts.Interval), "alert-interval", "and a second after new sessions"},
		{"A session in a browser", spanText(auth.SessionLifetime), "", spanText(auth.SessionIdle) + " without a visit"},
	}
}

// connectView says how agents and people reach this server.
type connectView struct {
	Agents     []connection
	Installers []connection
	Admins     []string   // who can make keys, for those who cannot
	Made       bool       // a key was made and is filled in
	Until      *time.Time // when that key expires
}

// A connection is what to copy to connect one program.
type connection struct{ Title, Text, Code string }

func (s *Service) handleConnect(v *visit) (answer, error) {
	view := s.connections(v, placeholder, "KEY")
	var err error
	if !v.Caller.May(access.Admin) {
		view.Admins, err = s.admins(v)
	}
	return show("settings_connect", "Connect agents", view), err
}

func (s *Service) connections(v *visit, agentKey, installerKey string) connectView {
	return connectView{
		Agents:     agentConnections(s.PublicURL, agentKey),
		Installers: installerConnections(s.PublicURL, v.Caller.OrgName, installerKey),
	}
}

// handleConnectWithKey makes a key for one purpose and fills it in. It answers with
// the page itself: a redirect would have to carry the key.
func (s *Service) handleConnectWithKey(v *visit) (answer, error) {
	installers := v.FormValue("for") == "installers"
	n := auth.NewKey{Name: "agents", Permissions: []access.Permission{access.TelemetryWrite}}
	if installers {
		n = auth.NewKey{Name: "installers", Permissions: []access.Permission{access.Read}}
	}
	k, raw, err := s.Auth.CreateKeyFor(v.Context(), v.Caller, n)
	if err != nil {
		return show("settings_connect", "Connect agents", s.connections(v, placeholder, "KEY")).refused(err)
	}
	view := s.connections(v, raw, "KEY")
	if installers {
		view = s.connections(v, placeholder, raw)
	}
	view.Made, view.Until = true, k.ExpiresAt
	return show("settings_connect", "Connect agents", view), nil
}

// admins are the names of those who can manage the organisation.
func (s *Service) admins(v *visit) ([]string, error) {
	users, err := s.Auth.Users(v.Context(), v.Caller.OrgID)
	var names []string
	for _, u := range users {
		if u.Role == access.AdminRole || u.Role == access.Owner {
			names = append(names, personName(u))
		}
	}
	return names, err
}

// personName is what people call somebody.
func personName(u auth.User) string {
	if u.Name == "" {
		return u.Email
	}
	return u.Name
}
