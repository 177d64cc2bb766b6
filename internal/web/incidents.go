package web

import (
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
	"github.com/whetstone-dev/whetstone/internal/watch/incidents"
)

const incidentsPerPage = 50

// incidentsView is the list of incidents.
type incidentsView struct {
	Size
	Rows  []incidents.Incident
	State string // filter; "" for all
}

// handleIncidents lists incidents.
func (s *Service) handleIncidents(v *visit) (answer, error) {
	view := incidentsView{Size: Size{PerPage: incidentsPerPage}, State: v.URL.Query().Get("state")}
	var err error
	view.Rows, view.Total, err = s.Incidents.List(v.Context(), v.Caller.OrgID, incidents.Filter{
		State: view.State, Page: v.list.Rows(incidentsPerPage),
	})
	return show("incidents", "Incidents", view), err
}

// incidentView is the page of one incident.
type incidentView struct {
	incidents.Incident
	Devices []string // devices that still have the bad version
	Sent    []alerts.Tally
}

// Failed is the URL of the failed sessions of the bad version.
func (v incidentView) Failed() string { return failedSessions(v.SkillID, v.Version) }

// handleIncident shows one incident.
func (s *Service) handleIncident(v *visit) (answer, error) {
	i, devices, err := s.Incidents.Get(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	sent, err := s.Alerts.Tallies(v.Context(), v.Caller.OrgID, i.RuleID, i.ID)
	return show("incident", "Incident of "+i.SkillName+" "+i.Version, incidentView{i, devices, sent}), err
}
