package scim

import (
	"context"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/tokens"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Mount adds the routes of providers, and those of tokens and groups.
func (s *Service) Mount(a *httpapi.API) {
	const path, groups = "/api/v1/scim-tokens", "/api/v1/scim-groups"
	conflict := []int{http.StatusConflict}
	httpapi.Add(a, s.handleTokens, httpapi.Route{
		Permission: access.Admin, Method: "GET", Path: path,
		Summary: "List the organisation's SCIM tokens",
	})
	httpapi.Add(a, s.handleCreateToken, httpapi.Route{
		// Only owners: a token can remove and promote members, owners included. Revoking one needs
		// less.
		Permission: access.Admin, Role: access.Owner, Method: "POST", Path: path, Status: http.StatusCreated, Also: conflict,
		Summary: "Create a SCIM token, with which an identity provider manages members, and nothing else; it is shown once",
	})
	httpapi.Add(a, s.handleDeleteToken, httpapi.Route{
		Permission: access.Admin, Method: "DELETE", Path: path + "/{id}", Status: http.StatusNoContent,
		Summary: "Revoke a SCIM token immediately",
	})
	httpapi.Add(a, s.handleGroups, httpapi.Route{
		Permission: access.Admin, Method: "GET", Path: groups,
		Summary: "List the groups that identity providers pushed",
	})
	httpapi.Add(a, s.handleSetGroupRole, httpapi.Route{
		Permission: access.Admin, Role: access.Owner, Method: "PUT", Path: groups + "/{id}", Also: conflict,
		Summary: "Set the role that a group gives its members",
	})
	s.mountProtocol(a)
}

func newTokenOutput(t tokens.Token) api.SCIMToken {
	return api.SCIMToken{
		ID: t.ID, Name: t.Name, Prefix: t.Prefix, State: t.State(), CreatedBy: t.CreatedBy, CreatedAt: httpapi.Time(t.CreatedAt),
		LastUsedAt: httpapi.NullTime(t.LastUsedAt), ExpiresAt: httpapi.NullTime(t.ExpiresAt),
	}
}

func (s *Service) handleTokens(ctx context.Context, _ struct{}) (api.SCIMTokens, error) {
	all, _, err := s.Tokens().List(ctx, access.From(ctx).OrgID, AllTokens)
	out := api.SCIMTokens{URL: s.URL(), Tokens: make([]api.SCIMToken, len(all))}
	for i, t := range all {
		out.Tokens[i] = newTokenOutput(t)
	}
	return out, err
}

type createTokenInput struct {
	Body struct {
		Name      string        `json:"name" minLength:"1" maxLength:"100" example:"okta"`
		ExpiresAt *httpapi.Time `json:"expires_at,omitempty" doc:"Omitted: it does not expire"`
	}
}

type createTokenOutput struct {
	Token api.SCIMToken `json:"scim_token"`
	URL   string        `json:"url" example:"https://whetstone.example.org/scim/v2" doc:"What the provider calls"`
	Raw   string        `json:"token" example:"scim_..." doc:"It is not shown again"`
}

func (s *Service) handleCreateToken(ctx context.Context, in createTokenInput) (createTokenOutput, error) {
	t, raw, err := s.CreateToken(ctx, access.From(ctx), in.Body.Name, (*time.Time)(in.Body.ExpiresAt))
	return createTokenOutput{newTokenOutput(t), s.URL(), raw}, err
}

type tokenID struct {
	ID string `path:"id" format:"uuid"`
}

func (s *Service) handleDeleteToken(ctx context.Context, in tokenID) (httpapi.None, error) {
	return httpapi.None{}, s.Tokens().Delete(ctx, access.From(ctx).OrgID, in.ID)
}

func newListedGroupOutput(g ListedGroup) api.SCIMGroup {
	return api.SCIMGroup{
		ID: g.ID, DisplayName: g.Name, ExternalID: g.ExternalID, Role: (*string)(g.Role), Members: g.Members,
		CreatedAt: httpapi.Time(g.CreatedAt), UpdatedAt: httpapi.Time(g.UpdatedAt),
	}
}

type groupsOutput struct {
	Groups     []api.SCIMGroup    `json:"scim_groups" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleGroups(ctx context.Context, in struct{ httpapi.Page }) (groupsOutput, error) {
	all, total, err := s.Groups(ctx, access.From(ctx).OrgID, in.Rows())
	out := groupsOutput{Groups: make([]api.SCIMGroup, len(all)), Pagination: in.Of(total)}
	for i, g := range all {
		out.Groups[i] = newListedGroupOutput(g)
	}
	return out, err
}

// In setGroupRoleInput null means that the group gives no role.
type setGroupRoleInput struct {
	ID   string `path:"id" format:"uuid"`
	Body struct {
		Role *access.Role `json:"role" enum:"viewer,member,admin,owner" doc:"Null: the group gives none"`
	}
}

type groupAnswer struct {
	Group api.SCIMGroup `json:"scim_group"`
}

func (s *Service) handleSetGroupRole(ctx context.Context, in setGroupRoleInput) (groupAnswer, error) {
	var role access.Role
	if in.Body.Role != nil {
		role = *in.Body.Role
	}
	g, err := s.SetGroupRole(ctx, access.From(ctx), in.ID, role)
	return groupAnswer{newListedGroupOutput(g)}, err
}
