package publishers

import (
	"context"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Mount adds the routes of trusted publishers. The exchange is public, since the ID token
// is its only credential, and therefore limited per address.
func (s *Service) Mount(a *httpapi.API) {
	const path = "/api/v1/trusted-publishers"
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Admin, Method: "GET", Path: path,
		Summary: "List the organisation's trusted publishers",
	})
	httpapi.Add(a, s.handleCreate, httpapi.Route{
		Permission: access.Admin, Method: "POST", Path: path, Status: http.StatusCreated,
		Also:    []int{http.StatusConflict},
		Summary: "Let workflows of a repository publish an entry without a stored secret",
	})
	httpapi.Add(a, s.handleDelete, httpapi.Route{
		Permission: access.Admin, Method: "DELETE", Path: path + "/{id}", Status: http.StatusNoContent,
		Summary: "Remove a trusted publisher, and revoke the keys that its runs have",
	})
	httpapi.Add(a, s.handleExchange, httpapi.Route{
		Public: true, Method: "POST", Path: path + "/token", Status: http.StatusCreated, MaxBody: 32 << 10,
		Also:  []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict, http.StatusBadGateway},
		Limit: &httpapi.Limit{Requests: 120, Per: time.Minute, By: httpapi.ByAddress},
		Summary: "Exchange the ID token of a workflow run for a key of 15 minutes, " +
			"which pushes versions of one entry and does nothing else",
	})
	httpapi.Add(a, s.handleProvenance, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/registry/{id}/versions/{version}/publisher",
		Summary: "The workflow run that published a version, as its code host vouched for it",
	})
}

// newPublisherOutput shows "any" as null: "" in the rule means no condition.
func newPublisherOutput(p Publisher) api.TrustedPublisher {
	return api.TrustedPublisher{
		ID: p.ID, EntryID: p.EntryID, EntryName: p.EntryName, Provider: string(p.Provider), Issuer: p.Issuer,
		Repository: p.Repository,
		Ref:        notEmpty(p.Ref), Workflow: notEmpty(p.Workflow), Environment: notEmpty(p.Environment),
		RepositoryID: notEmpty(p.RepositoryID), RepositoryOwnerID: notEmpty(p.OwnerID),
		CreatedBy: p.CreatedBy, CreatedAt: httpapi.Time(p.CreatedAt), LastUsedAt: httpapi.NullTime(p.LastUsedAt),
	}
}

type listInput struct {
	httpapi.Page
	EntryID string `query:"entry_id" doc:"Only those of this entry"`
}

type listOutput struct {
	Publishers []api.TrustedPublisher `json:"trusted_publishers" nullable:"false"`
	Pagination httpapi.Pagination     `json:"pagination"`
}

func (s *Service) handleList(ctx context.Context, in listInput) (listOutput, error) {
	all, total, err := s.List(ctx, access.From(ctx).OrgID, in.EntryID, in.Rows())
	out := listOutput{Publishers: make([]api.TrustedPublisher, len(all)), Pagination: in.Of(total)}
	for i, p := range all {
		out.Publishers[i] = newPublisherOutput(p)
	}
	return out, err
}

type createInput struct {
	Body struct {
		EntryID           string   `json:"entry_id" format:"uuid"`
		Provider          Provider `json:"provider,omitempty" enum:"github,gitlab,gitea" doc:"Omitted: told from the issuer"`
		Issuer            string   `json:"issuer,omitempty" maxLength:"255" example:"https://token.actions.githubusercontent.com" doc:"Omitted: GitHub's. A GitLab instance is its own; one of Gitea or Forgejo ends in /api/actions"`
		Repository        string   `json:"repository" minLength:"3" maxLength:"255" example:"acme/skills"`
		Ref               string   `json:"ref,omitempty" maxLength:"255" example:"main" doc:"A branch, or a pattern of full refs, e.g. refs/tags/v*; omitted: every branch and tag"`
		Workflow          string   `json:"workflow,omitempty" maxLength:"255" example:"release.yml" doc:"File of the workflow; omitted: every one"`
		Environment       string   `json:"environment,omitempty" maxLength:"255" example:"production" doc:"Omitted: every one, and none"`
		RepositoryID      string   `json:"repository_id,omitempty" maxLength:"20" example:"4711" doc:"Omitted: that of the first run"`
		RepositoryOwnerID string   `json:"repository_owner_id,omitempty" maxLength:"20" example:"815" doc:"Omitted: that of the first run"`
	}
}

type createOutput struct {
	Publisher api.TrustedPublisher `json:"trusted_publisher"`
}

func (s *Service) handleCreate(ctx context.Context, in createInput) (createOutput, error) {
	b := in.Body
	p, err := s.Create(ctx, access.From(ctx), Publisher{
		EntryID: b.EntryID, Provider: b.Provider, Issuer: b.Issuer, Repository: b.Repository, Ref: b.Ref, Workflow: b.Workflow,
		Environment: b.Environment, RepositoryID: b.RepositoryID, OwnerID: b.RepositoryOwnerID,
	})
	return createOutput{newPublisherOutput(p)}, err
}

type deleteInput struct {
	ID string `path:"id" format:"uuid"`
}

func (s *Service) handleDelete(ctx context.Context, in deleteInput) (httpapi.None, error) {
	return httpapi.None{}, s.Delete(ctx, access.From(ctx).OrgID, in.ID)
}

type exchangeInput struct {
	Body struct {
		Token        string `json:"token" minLength:"1" maxLength:"16384" doc:"The ID token; its audience is the public address of this server"`
		EntryID      string `json:"entry_id,omitempty" format:"uuid" doc:"The entry to publish; required, or organisation, if the server has several organisations"`
		Organisation string `json:"organisation,omitempty" maxLength:"100" doc:"Name of the entry's organisation"`
		Name         string `json:"name,omitempty" maxLength:"100" doc:"Name of the entry"`
	}
}

type exchangeOutput struct {
	Key       string           `json:"key" example:"st_live_..." doc:"It pushes versions of the entry, and does nothing else"`
	ExpiresAt httpapi.Time     `json:"expires_at"`
	Entry     api.GrantedEntry `json:"entry"`
}

// handleExchange is called by the command line in a workflow run. The reply describes the
// entry as well, since the key that it grants can't read anything.
func (s *Service) handleExchange(ctx context.Context, in exchangeInput) (exchangeOutput, error) {
	to := Destination{EntryID: in.Body.EntryID, Organisation: in.Body.Organisation, Name: in.Body.Name}
	g, err := s.Exchange(ctx, in.Body.Token, to)
	return exchangeOutput{g.Key, httpapi.Time(g.ExpiresAt), api.GrantedEntry{
		ID: g.Entry.ID, Name: g.Entry.Name, Organisation: g.OrgName, EntryType: string(g.Entry.Type),
		Visibility: string(g.Entry.Visibility), CurrentVersion: notEmpty(g.Entry.CurrentVersion),
		ContentHash: notEmpty(g.Entry.CurrentHash), Repository: g.Run.Repository,
	}}, err
}

type provenanceInput struct {
	ID      string `path:"id" doc:"Id of the entry"`
	Version string `path:"version"`
}

// provenanceOutput reports the run as it was at the push; the rule that allowed it may be
// gone.
type provenanceOutput struct {
	PublisherID string       `json:"trusted_publisher_id" format:"uuid" doc:"It may be gone"`
	Run         Run          `json:"run"`
	PublishedAt httpapi.Time `json:"published_at"`
}

func (s *Service) handleProvenance(ctx context.Context, in provenanceInput) (provenanceOutput, error) {
	p, err := s.Of(ctx, access.From(ctx).OrgID, in.ID, in.Version)
	return provenanceOutput{p.PublisherID, p.Run, httpapi.Time(p.At)}, err
}
