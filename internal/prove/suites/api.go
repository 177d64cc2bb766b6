package suites

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

// MaxImport bounds the body of an import, in bytes: the largest file, 10 MiB,
// and the fields beside it.
const MaxImport = 12 << 20

// Mount adds the routes of suites.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/eval-suites",
		Summary: "List the organisation's eval suites, newest first",
	})
	httpapi.Add(a, s.handleCreate, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/eval-suites", Status: http.StatusCreated,
		Summary: "Create an eval suite",
	})
	httpapi.Add(a, s.handleImport, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/eval-suites/import", Status: http.StatusCreated,
		MaxBody: MaxImport,
		Form: []httpapi.Part{
			{
				Name: "file", File: true,
				Doc: "evals.json, a file of trigger queries, an exported suite, or a tar.gz or zip " +
					"of Harbor task folders or of cases of claude plugin eval, at most 10 MiB",
			},
			{Name: "name", Doc: "Name of the suite; taken from the file when omitted", Optional: true},
			{Name: "source_id", Doc: "The cloud source that the suite is for", Optional: true},
			{Name: "oracle", Doc: "true: task packages run their solution before their verifier", Optional: true},
			{Name: "partial", Doc: "true: cases of claude plugin eval that cannot be run here are left out", Optional: true},
		},
		Summary: "Create an eval suite from a file",
	})
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/eval-suites/{id}",
		Summary: "Get an eval suite",
	})
	httpapi.Add(a, s.handleUpdate, httpapi.Route{
		Permission: access.Write, Method: "PATCH", Path: "/api/v1/eval-suites/{id}",
		Summary: "Change an eval suite",
	})
	httpapi.Add(a, s.handleDelete, httpapi.Route{
		Permission: access.Write, Method: "DELETE", Path: "/api/v1/eval-suites/{id}", Status: http.StatusNoContent,
		Summary: "Delete an eval suite and its runs",
	})
	httpapi.Add(a, s.handleExport, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/eval-suites/{id}/export",
		Produces: []httpapi.Media{{Type: "application/json"}, {Type: "application/zip"}},
		Summary:  "Export an eval suite as a file",
	})
}

// SuitePath is the path parameter of a suite.
type SuitePath struct {
	ID string `path:"id" doc:"Id of the eval suite"`
}

func newSuiteOutput(s Suite) (api.EvalSuite, error) {
	out := api.EvalSuite{
		ID: s.ID, SourceID: s.SourceID, Name: s.Name, SourceKind: string(s.SourceKind), VerifierKind: string(s.VerifierKind),
		SupportsNoSkill: s.SupportsNoSkill, CaseCount: s.CaseCount, SuiteKind: string(s.Kind), Runnable: s.Runnable(),
		RunnabilityIssues: make([]httpapi.Issue, len(s.Issues)), Version: s.Version,
		CreatedAt: httpapi.Time(s.CreatedAt), UpdatedAt: httpapi.Time(s.UpdatedAt),
	}
	for i, issue := range s.Issues {
		out.RunnabilityIssues[i] = httpapi.Issue(issue)
	}
	if s.ResourceLimits != nil {
		if err := json.Unmarshal(s.ResourceLimits, &out.ResourceLimits); err != nil {
			return out, err
		}
	}
	if s.Document == nil {
		return out, nil
	}
	return out, json.Unmarshal(s.Document, &out.Cases)
}

type oneOutput struct {
	Suite api.EvalSuite `json:"suite"`
}

// newOneOutput converts the result of an operation on a suite into a response.
func newOneOutput(s Suite, err error) (oneOutput, error) {
	if err != nil {
		return oneOutput{}, err
	}
	out, err := newSuiteOutput(s)
	return oneOutput{out}, err
}

type listInput struct {
	SourceID     string       `query:"source_id" doc:"Only of this cloud source"`
	VerifierKind VerifierKind `query:"verifier_kind" enum:"llm_judge,deterministic,structured_rubric" doc:"Only with this verifier"`
	Cases        bool         `query:"cases" default:"true" doc:"false leaves cases_json out"`
	Page         int          `query:"page" default:"1" minimum:"1" maximum:"1000000"`
	PerPage      int          `query:"per_page" default:"100" minimum:"1" maximum:"100"`
}

type listOutput struct {
	Suites     []api.EvalSuite    `json:"suites" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleList(ctx context.Context, in listInput) (out listOutput, err error) {
	sourceID, err := ParseSourceID(in.SourceID)
	if err != nil {
		return out, err
	}
	page := httpapi.Page{Page: in.Page, PerPage: in.PerPage}
	suites, total, err := s.List(ctx, access.From(ctx).OrgID, Filter{
		SourceID: sourceID, VerifierKind: in.VerifierKind, WithCases: in.Cases, Page: page.Rows(),
	})
	if err != nil {
		return out, err
	}
	out = listOutput{Suites: make([]api.EvalSuite, len(suites)), Pagination: page.Of(total)}
	for i, suite := range suites {
		if out.Suites[i], err = newSuiteOutput(suite); err != nil {
			return out, err
		}
	}
	return out, nil
}

// ParseSourceID reads the id of a cloud source, with or without the prefix
// "src_", and returns it without. No id is "".
func ParseSourceID(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	id, err := sources.ParseID(text)
	if err != nil {
		return "", fault.Invalid("source_id", "source_id must be the id of a cloud source")
	}
	return id, nil
}

type createInput struct {
	Body api.NewEvalSuite
}

func (s *Service) handleCreate(ctx context.Context, in createInput) (oneOutput, error) {
	b := in.Body
	n := NewSuite{
		Name: b.Name, SourceKind: SourceKind(b.SourceKind), VerifierKind: VerifierKind(b.VerifierKind),
		SupportsNoSkill: b.SupportsNoSkill,
		ResourceLimits:  encodeFields(b.ResourceLimits), Cases: b.Cases,
	}
	if b.SourceID != nil {
		id, err := ParseSourceID(*b.SourceID)
		if err != nil {
			return oneOutput{}, err
		}
		n.SourceID = &id
	}
	return newOneOutput(s.Create(ctx, access.From(ctx), n))
}

func (s *Service) handleGet(ctx context.Context, in SuitePath) (oneOutput, error) {
	return newOneOutput(s.Get(ctx, access.From(ctx).OrgID, in.ID))
}

type updateInput struct {
	SuitePath
	Body api.EvalSuiteChange
}

func (s *Service) handleUpdate(ctx context.Context, in updateInput) (oneOutput, error) {
	b := in.Body
	return newOneOutput(s.Update(ctx, access.From(ctx), in.ID, Change{
		Name: b.Name, VerifierKind: (*VerifierKind)(b.VerifierKind), SupportsNoSkill: b.SupportsNoSkill,
		ResourceLimits: encodeFields(b.ResourceLimits), Cases: b.Cases, IfVersion: b.IfVersion,
	}))
}

func (s *Service) handleDelete(ctx context.Context, in SuitePath) (httpapi.None, error) {
	return httpapi.None{}, s.Delete(ctx, access.From(ctx), in.ID)
}
