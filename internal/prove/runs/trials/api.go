package trials

import (
	"context"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
)

// Mount adds the route of trials.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/eval-runs/{id}/trials/{n}",
		Summary: "Get a trial of a run: what was asked and done, the files that were left, and why it has its verdict",
	})
}

type getInput struct {
	runs.RunPath
	N       int      `path:"n" minimum:"1" maximum:"30" doc:"Number of the trial"`
	CaseID  string   `query:"case_id" required:"true" doc:"Id of the case"`
	Variant runs.Arm `query:"variant" enum:"skill,no_skill,previous" default:"skill"`
	Cursor  string   `query:"cursor" maxLength:"200" doc:"The next_cursor of an answer, for the events after it"`
	Limit   int      `query:"limit" default:"1000" minimum:"1" maximum:"1000" doc:"Events in an answer"`
}

type getOutput struct {
	Trial      api.EvalTrialDetail `json:"trial"`
	NextCursor *string             `json:"next_cursor" doc:"Where the next page of events begins; null at the end"`
}

func (s *Service) handleGet(ctx context.Context, in getInput) (getOutput, error) {
	t, err := s.Get(ctx, access.From(ctx).OrgID, Key{RunID: in.ID, CaseID: in.CaseID, Arm: in.Variant, N: in.N})
	if err != nil {
		return getOutput{}, err
	}
	if t.Session, err = sessions.Page(t.Session, in.Cursor, in.Limit); err != nil {
		return getOutput{}, err
	}
	out := api.EvalTrialDetail{
		RunID: t.Run.ID, CaseID: t.Case.ID, CaseName: t.Case.Name, CaseKind: string(t.Case.Kind),
		EvalTrial: runs.NewTrialOutput(t.Trial, runs.MaxTail), Asked: orNull(t.Asked),
		Session: sessions.NewDetailOutput(t.Session), Files: make([]api.EvalFile, len(t.Files)), FilesTruncated: t.MoreFiles,
	}
	for i, f := range t.Files {
		out.Files[i] = api.EvalFile{
			Path: f.Path, Change: string(f.Change), Size: f.Size, SHA256: orNull(f.SHA256), Text: f.Text, Truncated: f.Truncated,
			Diff: orNull(f.Diff),
		}
	}
	return getOutput{out, orNull(t.Session.Next)}, nil
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
