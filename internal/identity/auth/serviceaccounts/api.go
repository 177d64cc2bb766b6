package serviceaccounts

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/keyrules"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Mount adds the routes of service accounts, and the one that changes a key. Their keys
// have the routes of all keys.
func (s *Service) Mount(a *httpapi.API) {
	const accounts = "/api/v1/service-accounts"
	conflict := []int{http.StatusConflict}
	// It belongs to all keys, and stands here because only this package changes keys.
	httpapi.Add(a, s.handleUpdateKey, httpapi.Route{
		Permission: access.Admin, Method: "PATCH", Path: "/api/v1/keys/{id}", Also: conflict,
		Summary: "Change the name of an API key, or the networks from which it works",
	})
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Admin, Method: "GET", Path: accounts,
		Summary: "List the organisation's service accounts",
	})
	httpapi.Add(a, s.handleCreate, httpapi.Route{
		Permission: access.Admin, Method: "POST", Path: accounts, Status: http.StatusCreated, Also: conflict,
		Summary: "Create a service account: a machine with a name and a role",
	})
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.Admin, Method: "GET", Path: accounts + "/{id}",
		Summary: "Get a service account",
	})
	httpapi.Add(a, s.handleUpdate, httpapi.Route{
		Permission: access.Admin, Method: "PATCH", Path: accounts + "/{id}", Also: conflict,
		Summary: "Change the name or the role of a service account",
	})
	httpapi.Add(a, s.handleDelete, httpapi.Route{
		Permission: access.Admin, Method: "DELETE", Path: accounts + "/{id}", Status: http.StatusNoContent, Also: conflict,
		Summary: "Delete a service account: its keys stop working, what it created stays",
	})
}

func newAccountOutput(a Account) api.ServiceAccount {
	return api.ServiceAccount{
		ID: a.ID, Name: a.Name, Role: string(a.Role), Keys: a.Keys, CreatedAt: httpapi.Time(a.CreatedAt),
		LastUsedAt: httpapi.NullTime(a.LastUsedAt), DeletedAt: httpapi.NullTime(a.RemovedAt),
	}
}

type listInput struct {
	httpapi.Page
	State string `query:"state" enum:"active,deleted" default:"active" doc:"Those that were deleted instead, whose names are on what they made"`
}

type listOutput struct {
	Accounts   []api.ServiceAccount `json:"service_accounts" nullable:"false"`
	Pagination httpapi.Pagination   `json:"pagination"`
}

func (s *Service) handleList(ctx context.Context, in listInput) (listOutput, error) {
	page := Page{Deleted: in.State == "deleted", Page: in.Rows()}
	all, total, err := s.List(ctx, access.From(ctx).OrgID, page)
	out := listOutput{Accounts: make([]api.ServiceAccount, len(all)), Pagination: in.Of(total)}
	for i, a := range all {
		out.Accounts[i] = newAccountOutput(a)
	}
	return out, err
}

type accountAnswer struct {
	Account api.ServiceAccount `json:"service_account"`
}

type createInput struct {
	Body struct {
		Name string      `json:"name" maxLength:"63" example:"deploy-bot" doc:"Lower-case letters, digits, dots, hyphens and underscores; unique in the organisation"`
		Role access.Role `json:"role" enum:"viewer,member,admin"`
	}
}

func (s *Service) handleCreate(ctx context.Context, in createInput) (accountAnswer, error) {
	a, err := s.Create(ctx, access.From(ctx), in.Body.Name, in.Body.Role)
	return accountAnswer{newAccountOutput(a)}, err
}

type accountID struct {
	ID string `path:"id" format:"uuid"`
}

func (s *Service) handleGet(ctx context.Context, in accountID) (accountAnswer, error) {
	a, err := s.Get(ctx, access.From(ctx).OrgID, in.ID)
	return accountAnswer{newAccountOutput(a)}, err
}

type updateInput struct {
	ID   string `path:"id" format:"uuid"`
	Body struct {
		Name string      `json:"name,omitempty" minLength:"1" maxLength:"63" example:"deploy-bot" doc:"Omitted: as it is"`
		Role access.Role `json:"role,omitempty" enum:"viewer,member,admin" doc:"Omitted: as it is"`
	}
}

// handleUpdate reads the account again for the figures of its keys.
func (s *Service) handleUpdate(ctx context.Context, in updateInput) (out accountAnswer, err error) {
	c := access.From(ctx)
	if err := s.Update(ctx, c, in.ID, Change{in.Body.Name, in.Body.Role}); err != nil {
		return out, err
	}
	a, err := s.Get(ctx, c.OrgID, in.ID)
	return accountAnswer{newAccountOutput(a)}, err
}

type deleteInput struct {
	ID      string `path:"id" format:"uuid"`
	Cascade bool   `query:"cascade" doc:"Also revoke the keys that were created with its keys: for a key that was stolen"`
}

func (s *Service) handleDelete(ctx context.Context, in deleteInput) (httpapi.None, error) {
	return httpapi.None{}, s.Delete(ctx, access.From(ctx), in.ID, in.Cascade)
}

// In updateKeyInput both fields are pointers: an empty list of networks means everywhere, a missing
// one leaves it.
type updateKeyInput struct {
	ID   string `path:"id" format:"uuid"`
	Body struct {
		Name       *string   `json:"name,omitempty" minLength:"1" maxLength:"100" example:"CI" doc:"Omitted: as it is"`
		AllowedIPs *[]string `json:"allowed_ips,omitempty" maxItems:"50" example:"[\"10.0.0.0/8\"]" doc:"Networks from which it works; empty: from everywhere; omitted: as it is"`
	}
}

type keyAnswer struct {
	Key api.Key `json:"key"`
}

func (s *Service) handleUpdateKey(ctx context.Context, in updateKeyInput) (out keyAnswer, err error) {
	change := KeyChange{Name: in.Body.Name}
	if in.Body.AllowedIPs != nil {
		list, err := keyrules.ParseAllowList(*in.Body.AllowedIPs)
		if err != nil {
			return out, err
		}
		change.AllowedIPs = &list
	}
	k, err := s.UpdateKey(ctx, access.From(ctx), in.ID, change)
	if err != nil {
		return out, err
	}
	policy, err := keyrules.Load(ctx, s.DB, k.OrgID)
	return keyAnswer{auth.NewKeyOutput(k, policy)}, err
}
