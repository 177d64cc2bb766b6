package incidents

import (
	"cmp"
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Mount adds the routes of incidents. Incidents are opened and closed by the service
// only, so there is nothing to write.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/incidents",
		Summary: "List incidents, newest first",
	})
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/incidents/{id}",
		Summary: "Get an incident with its timeline",
	})
}

// IncidentOutput is an incident on the wire. Evidence is text of its time; figures
// may have changed since.
type IncidentOutput struct {
	ID            string        `json:"id" format:"uuid" doc:"Also the id of the alert event that it began with"`
	State         string        `json:"state" enum:"open,closed"`
	Outcome       *Outcome      `json:"outcome" enum:"resolved,undone" doc:"null while it is open; undone: the version was made current again"`
	AlertID       string        `json:"alert_id" format:"uuid"`
	SkillID       string        `json:"skill_id" format:"uuid"`
	Skill         string        `json:"skill" example:"pdf-tables"`
	EntryID       string        `json:"entry_id" format:"uuid"`
	Version       string        `json:"version" doc:"That was rolled back" example:"1.3.0"`
	GoodVersion   string        `json:"good_version" doc:"That became current" example:"1.2.0"`
	Evidence      string        `json:"evidence" doc:"Why, in words"`
	Commit        *commitOutput `json:"commit" doc:"null: the version came from no commit"`
	Issue         *issueOutput  `json:"issue" doc:"null: the connection opens none"`
	Installations int64         `json:"installations_left" doc:"That still have the version"`
	OpenedAt      httpapi.Time  `json:"opened_at"`
	ClosedAt      *httpapi.Time `json:"closed_at"`
}

// commitOutput is the commit that the version came from. Detail says why it failed,
// or why nothing is written.
type commitOutput struct {
	ConnectionID string `json:"connection_id" format:"uuid"`
	SHA          string `json:"sha"`
	Status       Status `json:"status" enum:"none,pending,done,failed" doc:"Of marking it as failed"`
	Detail       string `json:"detail"`
}

type issueOutput struct {
	Status Status  `json:"status" enum:"pending,done,closed,failed" doc:"done: it is open"`
	Number *int64  `json:"number"`
	URL    *string `json:"url"`
	Detail string  `json:"detail"`
}

// momentOutput is an entry of the timeline. What is for programs, Text for people.
type momentOutput struct {
	At   httpapi.Time `json:"at"`
	What string       `json:"what" enum:"rolled_back,commit_marked,issue_opened,channel_notified,closed,issue_closed"`
	Text string       `json:"text"`
}

// State is open or closed.
func (i Incident) State() string {
	if i.ClosedAt == nil {
		return "open"
	}
	return "closed"
}

func newOutput(i Incident) IncidentOutput {
	out := IncidentOutput{
		ID: i.ID, State: i.State(), AlertID: i.RuleID, SkillID: i.SkillID, Skill: i.SkillName, EntryID: i.EntryID, Version: i.Version,
		GoodVersion: i.GoodVersion, Evidence: i.Evidence, Installations: i.Installations,
		OpenedAt: httpapi.Time(i.OpenedAt), ClosedAt: httpapi.NullTime(i.ClosedAt),
	}
	if i.ClosedAt != nil {
		outcome := cmp.Or(i.Outcome, Resolved) // early incidents have none on record
		out.Outcome = &outcome
	}
	if i.CommitSHA != nil {
		out.Commit = &commitOutput{*i.ConnectionID, *i.CommitSHA, i.CommitStatus, i.CommitDetail}
	}
	if i.IssueStatus != None {
		out.Issue = &issueOutput{i.IssueStatus, i.IssueNumber, i.IssueURL, i.IssueDetail}
	}
	return out
}

type listInput struct {
	State string `query:"state" enum:"open,closed" doc:"Only those"`
	httpapi.Page
}

type listOutput struct {
	Incidents  []IncidentOutput   `json:"incidents" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleList(ctx context.Context, in listInput) (listOutput, error) {
	all, total, err := s.List(ctx, access.From(ctx).OrgID, Filter{State: in.State, Limit: in.PerPage, Offset: in.Offset()})
	out := listOutput{Incidents: make([]IncidentOutput, len(all)), Pagination: in.Of(total)}
	for i, one := range all {
		out.Incidents[i] = newOutput(one)
	}
	return out, err
}

type getInput struct {
	ID string `path:"id" doc:"Id of the incident"`
}

// detailOutput is an incident with its timeline. Devices are counted anew for each
// request, unlike installations_left in a list.
type detailOutput struct {
	IncidentOutput
	Devices  []string       `json:"devices" nullable:"false" doc:"With installations that still have the version; at most 100"`
	Timeline []momentOutput `json:"timeline" nullable:"false" doc:"Oldest first"`
}

type getOutput struct {
	Incident detailOutput `json:"incident"`
}

func (s *Service) handleGet(ctx context.Context, in getInput) (out getOutput, err error) {
	i, devices, err := s.Get(ctx, access.From(ctx).OrgID, in.ID)
	if err != nil {
		return out, err
	}
	out.Incident.IncidentOutput, out.Incident.Devices = newOutput(i), append([]string{}, devices...)
	for _, m := range i.Timeline() {
		out.Incident.Timeline = append(out.Incident.Timeline, momentOutput{httpapi.Time(m.At), m.What, m.Text})
	}
	return out, nil
}
