package audit

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Mount adds the routes of the audit log.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Admin, Method: "GET", Path: "/api/v1/audit",
		Summary: "Who changed what in the organisation, newest first",
	})
	httpapi.Add(a, s.handleExport, httpapi.Route{
		Permission: access.Admin, Method: "GET", Path: "/api/v1/audit/export",
		Produces: []httpapi.Media{{Type: "application/x-ndjson"}},
		Summary:  "Export the audit log as JSON lines, oldest first",
	})
}

type listInput struct {
	Actor  string `query:"actor" maxLength:"254" doc:"A user's or key's id, a person's address, or user, key, system or command."`
	Action string `query:"action" maxLength:"100" example:"registry." doc:"What the action begins with."`
	Target string `query:"target" maxLength:"200" doc:"The id or the name of what was changed."`
	Since  string `query:"since" example:"2026-01-02" doc:"Only entries from this time or day on."`
	Until  string `query:"until" example:"2026-01-02T03:04:05Z" doc:"Only entries before this time or day."`
	Cursor string `query:"cursor" maxLength:"36" doc:"The next_cursor of an answer, for the entries after it."`
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"200" doc:"Entries in an answer."`
}

type entryOutput struct {
	ID     string       `json:"id" format:"uuid"`
	At     httpapi.Time `json:"at"`
	Actor  actorOutput  `json:"actor"`
	Action string       `json:"action" example:"registry.version.publish"`
	Target targetOutput `json:"target"`
	Detail Detail       `json:"detail" nullable:"false" doc:"More about the change; its fields depend on the action"`
	Via    Via          `json:"via" enum:"api,web,cli,job"`
	// RequestID is that of the answer's X-Request-Id.
	RequestID *string `json:"request_id"`
}

type actorOutput struct {
	Kind   Actor   `json:"kind" enum:"user,key,system,command"`
	Name   string  `json:"name" example:"ada@example.org" doc:"The person's address at that time; empty if there was none"`
	UserID *string `json:"user_id" format:"uuid"`
	KeyID  *string `json:"key_id" format:"uuid"`
}

type targetOutput struct {
	Kind string `json:"kind" example:"version"`
	ID   string `json:"id"`
	Name string `json:"name" example:"pdf-tools"`
}

func newEntryOutput(e Entry) entryOutput {
	return entryOutput{
		ID: e.ID, At: httpapi.Time(e.At), Actor: actorOutput{e.Actor, e.ActorName, e.UserID, e.KeyID}, Action: e.Action,
		Target: targetOutput(e.Target), Detail: e.Detail, Via: e.Via, RequestID: e.RequestID,
	}
}

type listOutput struct {
	Entries    []entryOutput `json:"entries" nullable:"false"`
	NextCursor *string       `json:"next_cursor" doc:"Where the next answer begins; null at the end"`
}

func (s *Service) handleList(ctx context.Context, in listInput) (listOutput, error) {
	f := Filter{Actor: in.Actor, Action: in.Action, Target: in.Target, Before: in.Cursor, Limit: in.Limit}
	if err := f.Between(in.Since, in.Until); err != nil {
		return listOutput{}, err
	}
	entries, more, err := s.List(ctx, access.From(ctx).OrgID, f)
	out := listOutput{Entries: make([]entryOutput, len(entries))}
	for i, e := range entries {
		out.Entries[i] = newEntryOutput(e)
	}
	if more {
		out.NextCursor = &entries[len(entries)-1].ID
	}
	return out, err
}
