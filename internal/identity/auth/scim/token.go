package scim

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/tokens"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// tokenKind is the kind of tokens that let a provider push to one organisation. They open
// nothing but SCIM, and have no holder who could leave.
var tokenKind = tokens.Kind{
	Name: "SCIM token", Table: "scim_tokens", Prefix: auth.SCIMPrefix, Target: "scim_token",
	CreatedAs: "scim.token.create", DeletedAs: "scim.token.delete", Max: 20,
	Hint: "; an owner can create one in Settings, Provisioning",
}

// AllTokens is the page that has all tokens of an organisation: there are few.
var AllTokens = store.Page{Limit: 1_000}

// Tokens lists and deletes the tokens of providers. What was pushed with a deleted one stays, and
// members stay members: whoever revokes a token doesn't want to lose everybody.
func (s *Service) Tokens() *tokens.Service {
	return &tokens.Service{Kind: tokenKind, DB: s.DB, Log: s.Log}
}

// CreateToken makes a token of the caller's organisation, and returns it as it is, for
// the only time. Only owners make them: a token manages owners, too.
func (s *Service) CreateToken(
	ctx context.Context, c access.Caller, name string, expiresAt *time.Time,
) (t tokens.Token, raw string, err error) {
	if !auth.MayGive(c, access.Owner) {
		return t, "", fault.New(fault.Denied, "Only an owner can create a SCIM token: it manages the organisation's members, owners too")
	}
	return s.Tokens().Create(ctx, c, name, expiresAt)
}

// open returns the caller of a token: no user, and without any permission of the API. The audit
// log names the token by its name.
func (s *Service) open(ctx context.Context, raw string) (access.Caller, error) {
	t, _, err := s.Tokens().Open(ctx, raw)
	if err != nil {
		return access.Caller{}, err
	}
	return access.Caller{OrgID: t.OrgID, Email: "SCIM token " + t.Name}, nil
}
