package incidents

import (
	"cmp"
	"context"

	"github.com/whetstone-dev/whetstone/client/api"
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

// State is open or closed.
func (i Incident) State() string {
	if i.ClosedAt == nil {
		return "open"
	}
	return "closed"
}

func newOutput(i Incident) api.Incident {
	out := api.Incident{
		ID: i.ID, State: i.State(), AlertID: i.RuleID, SkillID: i.SkillID, Skill: i.SkillName, EntryID: i.EntryID,
		Version:     i.Version,
		GoodVersion: i.GoodVersion, Evidence: i.Evidence, InstallationsLeft: i.Installations,
		OpenedAt: httpapi.Time(i.OpenedAt), ClosedAt: httpapi.NullTime(i.ClosedAt),
	}
	if i.ClosedAt != nil {
		outcome := cmp.Or(i.Outcome, Resolved) // early incidents have none on record
		out.Outcome = (*string)(&outcome)
	}
	if i.CommitSHA != nil {
		out.Commit = &api.IncidentCommit{
			ConnectionID: *i.ConnectionID, SHA: *i.CommitSHA, Status: string(i.CommitStatus), Detail: i.CommitDetail,
		}
	}
	if i.IssueStatus != None {
		out.Issue = &api.IncidentIssue{
			Status: string(i.IssueStatus), Number: i.IssueNumber, URL: i.IssueURL, Detail: i.IssueDetail,
		}
	}
	return out
}

type listInput struct {
	State string `query:"state" enum:"open,closed" doc:"Only those"`
	httpapi.Page
}

type listOutput struct {
	Incidents  []api.Incident     `json:"incidents" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleList(ctx context.Context, in listInput) (listOutput, error) {
	all, total, err := s.List(ctx, access.From(ctx).OrgID, Filter{State: in.State, Page: in.Rows()})
	out := listOutput{Incidents: make([]api.Incident, len(all)), Pagination: in.Of(total)}
	for i, one := range all {
		out.Incidents[i] = newOutput(one)
	}
	return out, err
}

type getInput struct {
	ID string `path:"id" doc:"Id of the incident"`
}

type getOutput struct {
	Incident api.IncidentDetail `json:"incident"`
}

func (s *Service) handleGet(ctx context.Context, in getInput) (out getOutput, err error) {
	i, devices, err := s.Get(ctx, access.From(ctx).OrgID, in.ID)
	if err != nil {
		return out, err
	}
	out.Incident.Incident, out.Incident.Devices = newOutput(i), append([]string{}, devices...)
	for _, m := range i.Timeline() {
		out.Incident.Timeline = append(out.Incident.Timeline, api.Moment{At: httpapi.Time(m.At), What: m.What, Text: m.Text})
	}
	return out, nil
}
