package checks

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
)

// Mount adds the routes of pull requests.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.RegistryPush, Plan: access.Pro, Method: "GET", Path: "/api/v1/repohost/pull-requests",
		Summary: "List pull requests, newest first",
	})
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.RegistryPush, Plan: access.Pro, Method: "GET", Path: "/api/v1/repohost/pull-requests/{id}",
		Summary: "Get a pull request",
	})
}

// State is open or closed. State is what code hosts show. Merged ones are closed, too.
func (p Pull) State() string {
	if p.Status == Closed {
		return "closed"
	}
	return "open"
}

// PullOutput is a pull request on the wire: one for each connection of the repository.
type PullOutput struct {
	ID           string            `json:"id" format:"uuid"`
	ConnectionID string            `json:"connection_id" format:"uuid"`
	EntryID      string            `json:"entry_id" format:"uuid"`
	Number       int64             `json:"number" example:"17"`
	Title        string            `json:"title"`
	URL          string            `json:"url" doc:"On the code host; empty before it was read"`
	State        string            `json:"state" enum:"open,closed" doc:"closed: also merged"`
	Head         *string           `json:"head" doc:"Commit that status and gate are about; null before it was read"`
	Status       Status            `json:"status" enum:"queued,gating,decided,valid,refused,unchanged,skipped,failed,closed" doc:"valid: the gate is off; unchanged: it does not change the skill; skipped: not gated, as the message says; failed: the code host did not answer"`
	Message      string            `json:"message" doc:"The status in words"`
	GateID       *string           `json:"gate_id" format:"uuid" doc:"null: the head met no gate"`
	Verdict      *decision.Verdict `json:"verdict" enum:"pass,block,inconclusive,skipped" doc:"Of the gate; null until it has decided"`
	CommentID    *int64            `json:"comment_id" doc:"Of the comment on the code host; null: there is none"`

	WriteBackStatus publication.WriteBackStatus `json:"write_back_status" enum:"disabled,pending,success,failed,unsupported" doc:"Of its check or status"`
	WriteBackDetail string                      `json:"write_back_detail"`
	CreatedAt       httpapi.Time                `json:"created_at" doc:"When it was first seen"`
	UpdatedAt       httpapi.Time                `json:"updated_at"`
}

type listInput struct {
	ConnectionID string `query:"connection_id" doc:"Only of this connection"`
	EntryID      string `query:"entry_id" doc:"Only of this entry"`
	State        string `query:"state" enum:"open,closed" doc:"Only those"`
	Status       string `query:"status" enum:"queued,gating,decided,valid,refused,unchanged,skipped,failed,closed" doc:"Only with this status"`
	httpapi.Page
}

type listOutput struct {
	PullRequests []PullOutput       `json:"pull_requests" nullable:"false"`
	Pagination   httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleList(ctx context.Context, in listInput) (listOutput, error) {
	all, total, err := listed.Page(ctx, s.DB, in.Rows(), access.From(ctx).OrgID, in.ConnectionID, in.EntryID, in.State, in.Status)
	out := listOutput{Pagination: in.Of(total)}
	if err != nil {
		return out, err
	}
	out.PullRequests, err = s.outputs(ctx, all)
	return out, err
}

type getInput struct {
	ID string `path:"id" doc:"Id of the pull request"`
}

type getOutput struct {
	PullRequest PullOutput `json:"pull_request"`
}

func (s *Service) handleGet(ctx context.Context, in getInput) (out getOutput, err error) {
	p, err := pullOfOrg(ctx, s.DB, access.From(ctx).OrgID, in.ID)
	if err != nil {
		return out, err
	}
	all, err := s.outputs(ctx, []Pull{p})
	if err == nil {
		out.PullRequest = all[0]
	}
	return out, err
}

// outputs adds what gates and comments say of pull requests of one organisation. It costs two
// queries for the page, not two for each row.
func (s *Service) outputs(ctx context.Context, all []Pull) ([]PullOutput, error) {
	out := make([]PullOutput, len(all))
	if len(all) == 0 {
		return out, nil
	}
	var gateIDs, comments []string
	for _, p := range all {
		comments = append(comments, p.comment().id())
		if p.GateID != nil {
			gateIDs = append(gateIDs, *p.GateID)
		}
	}
	verdicts, err := s.Gates.Verdicts(ctx, all[0].OrgID, gateIDs)
	if err != nil {
		return nil, err
	}
	commented, err := commentsByID(ctx, s.DB, comments)
	if err != nil {
		return nil, err
	}
	for i, p := range all {
		out[i] = PullOutput{
			ID: p.ID, ConnectionID: p.ConnectionID, EntryID: p.EntryID, Number: p.Number, Title: p.Title, URL: p.URL,
			State: p.State(), Status: p.Status, Message: p.Message, WriteBackStatus: p.WriteBack,
			WriteBackDetail: p.WriteBackDetail,
			CreatedAt:       httpapi.Time(p.CreatedAt), UpdatedAt: httpapi.Time(p.UpdatedAt),
		}
		if p.Head != "" {
			out[i].Head = &p.Head
		}
		if id, found := commented[p.comment().id()]; found {
			out[i].CommentID = &id
		}
		if p.GateID != nil {
			verdict, found := verdicts[*p.GateID]
			// A gate that has yet to decide is found with a nil verdict.
			if found { // it was not deleted with its entry
				out[i].GateID, out[i].Verdict = p.GateID, verdict
			}
		}
	}
	return out, nil
}
