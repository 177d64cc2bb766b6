package trials

import (
	"context"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/workdir"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
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

// trialOutput is a trial in a response, with its session and the files that it left.
type trialOutput struct {
	RunID    string          `json:"run_id" format:"uuid"`
	CaseID   string          `json:"case_id"`
	CaseName string          `json:"case_name"`
	CaseKind suites.CaseKind `json:"case_kind"`
	runs.TrialOutput
	Asked     *string           `json:"asked" doc:"The instruction; null if the case has none"`
	Session   api.SessionDetail `json:"session" doc:"What was done, as GET /v1/sessions/{session_id} answers it; session_id is empty without an agent"`
	Files     []fileOutput      `json:"files" nullable:"false" doc:"That the agent changed, by path"`
	MoreFiles bool              `json:"files_truncated" doc:"There may be more changed files"`
}

type fileOutput struct {
	Path      string         `json:"path" example:"result.csv"`
	Change    workdir.Change `json:"change" enum:"added,modified,deleted"`
	Size      int64          `json:"size" doc:"Bytes; 0 of a deleted file"`
	SHA256    *string        `json:"sha256" doc:"Null of a deleted file, and beyond 64 MiB"`
	Text      *string        `json:"text" doc:"Of a text file; null of others"`
	Truncated bool           `json:"truncated" doc:"text is not all of it"`
	Diff      *string        `json:"diff" doc:"Unified diff of a small text file that was modified"`
}

type getOutput struct {
	Trial      trialOutput `json:"trial"`
	NextCursor *string     `json:"next_cursor" doc:"Where the next page of events begins; null at the end"`
}

func (s *Service) handleGet(ctx context.Context, in getInput) (getOutput, error) {
	t, err := s.Get(ctx, access.From(ctx).OrgID, Key{RunID: in.ID, CaseID: in.CaseID, Arm: in.Variant, N: in.N})
	if err != nil {
		return getOutput{}, err
	}
	if t.Session, err = sessions.Page(t.Session, in.Cursor, in.Limit); err != nil {
		return getOutput{}, err
	}
	out := trialOutput{
		RunID: t.Run.ID, CaseID: t.Case.ID, CaseName: t.Case.Name, CaseKind: t.Case.Kind,
		TrialOutput: runs.NewTrialOutput(t.Trial, runs.MaxTail), Asked: orNull(t.Asked),
		Session: sessions.NewDetailOutput(t.Session), Files: make([]fileOutput, len(t.Files)), MoreFiles: t.MoreFiles,
	}
	for i, f := range t.Files {
		out.Files[i] = fileOutput{f.Path, f.Change, f.Size, orNull(f.SHA256), f.Text, f.Truncated, orNull(f.Diff)}
	}
	return getOutput{out, orNull(t.Session.Next)}, nil
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
