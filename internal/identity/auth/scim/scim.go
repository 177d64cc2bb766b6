// Package scim lets identity providers push people and groups with SCIM 2.0 (RFC 7643
// and 7644): who is assigned becomes a member, and who is deactivated is one no more. It
// owns the tables scim_tokens, scim_users, scim_groups and scim_group_members.
package scim

import (
	"context"
	"log/slog"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/tokens"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Service keeps tokens, and what providers push with them. Provisioning decides membership only;
// how people sign in is package signin's.
type Service struct {
	DB   *store.DB
	Auth *auth.Service
	// PublicURL is the base of the resources' locations.
	PublicURL string
	Log       *slog.Logger

	api *httpapi.API
}

// URL is what a provider needs beside a token.
func (s *Service) URL() string { return s.PublicURL + base }

const (
	base = "/scim/v2"

	maxUsers      = 50_000 // of an organisation
	maxGroups     = 2_000
	maxMembers    = 10_000 // of a group
	maxOperations = 1_000  // of a patch
	maxPage       = 100
	// maxListed is how many members the groups of a page have together; beyond it, the
	// page is shorter.
	maxListed = 20_000

	maxText   = 254 // characters of a name, an address or the provider's id
	maxEmails = 20
	maxFilter = 1_000 // bytes of a filter or a path
)

// A user is a person as the provider describes them. They are a member while active. The two rows
// stay linked after a deactivation, so that the same user comes back.
type user struct {
	ID        string
	OrgID     string
	UserID    *string // nil: never active so far
	CreatedAt time.Time
	UpdatedAt time.Time
	attributes
}

// attributes are what the provider sets. Active isn't stored: it is whether the user is a member;
// see userColumns.
type attributes struct {
	UserName   string
	ExternalID *string
	Active     bool
	profile
}

// A profile is kept as the provider sent it. It is given back unchanged, also what this service
// doesn't use.
type profile struct {
	Name        fullName `json:"name,omitzero"`
	DisplayName string   `json:"displayName,omitempty"`
	Emails      []email  `json:"emails,omitempty"`
}

type fullName struct {
	Formatted  string `json:"formatted,omitempty"`
	GivenName  string `json:"givenName,omitempty"`
	FamilyName string `json:"familyName,omitempty"`
}

type email struct {
	Value   string `json:"value"`
	Type    string `json:"type,omitempty"`
	Primary truth  `json:"primary,omitempty"`
}

func (u user) target() audit.Target {
	return audit.Target{Kind: "scim_user", ID: u.ID, Name: u.UserName}
}

// A Group is a group of the provider. What it is for is decided here: an owner may give it a role.
type Group struct {
	ID         string
	OrgID      string
	Name       string
	ExternalID *string
	Role       *access.Role // that it gives its members; nil: none
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// GivenRole is the role that the group gives; "" if none.
func (g Group) GivenRole() access.Role {
	if g.Role == nil {
		return ""
	}
	return *g.Role
}

func (g Group) target() audit.Target { return audit.Target{Kind: "scim_group", ID: g.ID, Name: g.Name} }

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
