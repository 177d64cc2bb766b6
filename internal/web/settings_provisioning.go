package web

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/scim"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/tokens"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// provisioningView is the page of SCIM tokens, and of the groups that were pushed with them.
type provisioningView struct {
	URL        string // that the provider calls
	Tokens     []tokens.Token
	Groups     []scim.ListedGroup
	Size       // of the groups
	Roles      []access.Role
	Owner      bool   // the caller may make tokens and set roles
	Name, Days string // of the form
	Made       string // the new token, which is shown once
}

// newProvisioning returns the requested page of groups.
func newProvisioning(ctx context.Context, s *scim.Service, c access.Caller, l tableRequest) (p provisioningView, err error) {
	p = provisioningView{URL: s.URL(), Size: Size{PerPage: peopleShown}, Roles: access.Roles(), Owner: c.Role == access.Owner &&
		auth.MayGive(c, access.Owner)}
	if p.Tokens, _, err = s.Tokens().List(ctx, c.OrgID, scim.AllTokens); err != nil {
		return p, err
	}
	p.Groups, p.Total, err = s.Groups(ctx, c.OrgID, l.Rows(peopleShown))
	return p, err
}
