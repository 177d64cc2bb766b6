package scim

import (
	"context"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Mount adds the routes of providers, and those of tokens and groups.
func (s *Service) Mount(a *httpapi.API) {
	const tokens, groups = "/api/v1/scim-tokens", "/api/v1/scim-groups"
	conflict := []int{http.StatusConflict}
	httpapi.Add(a, s.handleTokens, httpapi.Route{
		Permission: access.Admin, Method: "GET", Path: tokens,
		Summary: "List the organisation's SCIM tokens",
	})
	httpapi.Add(a, s.handleCreateToken, httpapi.Route{
		// Only owners: a token can remove and promote members, owners included. Revoking one needs
		// less.
		Permission: access.Admin, Role: access.Owner, Method: "POST", Path: tokens, Status: http.StatusCreated, Also: conflict,
		Summary: "Create a SCIM token, with which an identity provider manages members, and nothing else; it is shown once",
	})
	httpapi.Add(a, s.handleDeleteToken, httpapi.Route{
		Permission: access.Admin, Method: "DELETE", Path: tokens + "/{id}", Status: http.StatusNoContent,
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

type tokenOutput struct {
	ID         string        `json:"id" format:"uuid"`
	Name       string        `json:"name" example:"okta"`
	Prefix     string        `json:"prefix" example:"scim_3fKx" doc:"What the token begins with"`
	State      string        `json:"state" enum:"active,expired"`
	CreatedBy  string        `json:"created_by" format:"uuid"`
	CreatedAt  httpapi.Time  `json:"created_at"`
	LastUsedAt *httpapi.Time `json:"last_used_at" doc:"To the minute"`
	ExpiresAt  *httpapi.Time `json:"expires_at"`
}

func newTokenOutput(t Token) tokenOutput {
	return tokenOutput{
		ID: t.ID, Name: t.Name, Prefix: t.Prefix, State: t.State(), CreatedBy: t.CreatedBy, CreatedAt: httpapi.Time(t.CreatedAt),
		LastUsedAt: httpapi.NullTime(t.LastUsedAt), ExpiresAt: httpapi.NullTime(t.ExpiresAt),
	}
}

type tokensOutput struct {
	URL    string        `json:"url" example:"https://whetstone.example.org/scim/v2" doc:"What the provider calls"`
	Tokens []tokenOutput `json:"scim_tokens" nullable:"false"`
}

func (s *Service) handleTokens(ctx context.Context, _ struct{}) (tokensOutput, error) {
	all, err := s.Tokens(ctx, access.From(ctx).OrgID)
	out := tokensOutput{URL: s.URL(), Tokens: make([]tokenOutput, len(all))}
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
	Token tokenOutput `json:"scim_token"`
	URL   string      `json:"url" example:"https://whetstone.example.org/scim/v2" doc:"What the provider calls"`
	Raw   string      `json:"token" example:"scim_..." doc:"It is not shown again"`
}

func (s *Service) handleCreateToken(ctx context.Context, in createTokenInput) (createTokenOutput, error) {
	t, raw, err := s.CreateToken(ctx, access.From(ctx), in.Body.Name, (*time.Time)(in.Body.ExpiresAt))
	return createTokenOutput{newTokenOutput(t), s.URL(), raw}, err
}

type tokenID struct {
	ID string `path:"id" format:"uuid"`
}

func (s *Service) handleDeleteToken(ctx context.Context, in tokenID) (httpapi.None, error) {
	return httpapi.None{}, s.DeleteToken(ctx, access.From(ctx).OrgID, in.ID)
}

type listedGroupOutput struct {
	ID          string       `json:"id" format:"uuid"`
	DisplayName string       `json:"display_name" example:"Engineering"`
	ExternalID  *string      `json:"external_id" doc:"The provider's id"`
	Role        *access.Role `json:"role" enum:"viewer,member,admin,owner" doc:"That it gives its members; null: none"`
	Members     int          `json:"members" doc:"How many there are"`
	CreatedAt   httpapi.Time `json:"created_at"`
	UpdatedAt   httpapi.Time `json:"updated_at"`
}

func newListedGroupOutput(g ListedGroup) listedGroupOutput {
	return listedGroupOutput{g.ID, g.Name, g.ExternalID, g.Role, g.Members, httpapi.Time(g.CreatedAt), httpapi.Time(g.UpdatedAt)}
}

type groupsOutput struct {
	Groups     []listedGroupOutput `json:"scim_groups" nullable:"false"`
	Pagination httpapi.Pagination  `json:"pagination"`
}

func (s *Service) handleGroups(ctx context.Context, in struct{ httpapi.Page }) (groupsOutput, error) {
	all, total, err := s.Groups(ctx, access.From(ctx).OrgID, in.Rows())
	out := groupsOutput{Groups: make([]listedGroupOutput, len(all)), Pagination: in.Of(total)}
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
	Group listedGroupOutput `json:"scim_group"`
}

func (s *Service) handleSetGroupRole(ctx context.Context, in setGroupRoleInput) (groupAnswer, error) {
	var role access.Role
	if in.Body.Role != nil {
		role = *in.Body.Role
	}
	g, err := s.SetGroupRole(ctx, access.From(ctx), in.ID, role)
	return groupAnswer{newListedGroupOutput(g)}, err
}
