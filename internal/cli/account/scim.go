package account

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// scimTokens are the commands `whetstone member scim-token`.
type scimTokens struct {
	List   scimTokenList   `cmd:"" help:"List tokens."`
	Create scimTokenCreate `cmd:"" help:"Create a token, which is printed once. Owners only."`
	Delete scimTokenDelete `cmd:"" help:"Revoke a token immediately."`
}

// scimGroups are the commands `whetstone member scim-group`.
type scimGroups struct {
	List    scimGroupList `cmd:"" help:"List groups."`
	SetRole scimGroupRole `cmd:"" help:"Set the role that a group gives its members. Owners only."`
}

// scimTokensPath is the path of SCIM tokens. They are no server.Resource, as the reply
// has the address of the SCIM endpoint beside the list.
const scimTokensPath = "/api/v1/scim-tokens"

// scimGroupResource is the list of groups, and how it is printed.
var scimGroupResource = server.Resource[api.SCIMGroup]{
	Path: "/api/v1/scim-groups", Field: "scim_groups", List: term.List[api.SCIMGroup]{
		None: "No groups; the identity provider pushes them.",
		Head: "ID\tGROUP\tMEMBERS\tROLE",
		Row: func(g api.SCIMGroup) []any {
			return []any{g.ID, term.Cell(g.DisplayName), g.Members, term.OrDash(g.Role)}
		},
	},
}

// scimTokensOf returns the tokens of the organisation.
func scimTokensOf(ctx context.Context, s *server.Session) (out api.SCIMTokens, err error) {
	err = s.Call(ctx, http.MethodGet, scimTokensPath, nil, &out)
	return out, err
}

// scimTokenList lists tokens.
type scimTokenList struct {
	server.Flags `embed:""`
}

// Run lists the SCIM tokens of the organisation.
func (c *scimTokenList) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		out, err := scimTokensOf(ctx, s)
		if err != nil {
			return err
		}
		tokens := term.List[api.SCIMToken]{
			None: "No tokens; `whetstone member scim-token create NAME` makes one.",
			Head: "ID\tNAME\tPREFIX\tSTATE\tCREATED\tLAST USED\tEXPIRES",
			Row: func(t api.SCIMToken) []any {
				return []any{
					t.ID, term.Cell(t.Name), t.Prefix, t.State, term.Day(&t.CreatedAt), term.Day(t.LastUsedAt),
					term.Day(t.ExpiresAt),
				}
			},
		}
		return p.Print(out, func(w io.Writer) { tokens.Write(w, out.Tokens) })
	})
}

// scimTokenCreate has the fields of a new token. A provider should have a token of
// its own, so that one can be revoked alone.
type scimTokenCreate struct {
	server.Flags `embed:""`
	Name         string          `arg:"" help:"Name of the token, e.g. that of the provider."`
	Expires      config.Duration `env:"-" placeholder:"365d" help:"Lifetime; it does not expire when empty."`
}

// Run creates a token and prints it alone; it is not shown again.
func (c *scimTokenCreate) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		body := map[string]any{"name": c.Name}
		if c.Expires > 0 {
			body["expires_at"] = time.Now().Add(time.Duration(c.Expires)).UTC()
		}
		var out struct {
			Token api.SCIMToken `json:"scim_token"`
			URL   string        `json:"url"`
			Raw   string        `json:"token"`
		}
		if err := s.Call(ctx, http.MethodPost, scimTokensPath, body, &out); err != nil {
			return err
		}
		if !p.JSON {
			p.Note("Give the provider this token, which is not shown again, and the address %s.", out.URL)
		}
		return p.Print(out, func(w io.Writer) { fmt.Fprintln(w, out.Raw) })
	})
}

// scimTokenDelete revokes a token.
type scimTokenDelete struct {
	server.Flags `embed:""`
	ID           string `arg:"" name:"token" help:"Name or id of the token."`
}

// Run revokes a token. The identity provider that used it can change nothing any more.
func (c *scimTokenDelete) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) (err error) {
		c.ID, err = server.ID("token", "member scim-token list", c.ID, func() ([]api.SCIMToken, error) {
			out, err := scimTokensOf(ctx, s)
			return out.Tokens, err
		}, func(t api.SCIMToken) (string, []string) { return t.ID, []string{t.Name} })
		if err != nil {
			return err
		}
		return s.Delete(ctx, p, scimTokensPath+"/"+url.PathEscape(c.ID), c.ID, "deleted",
			"Deleted; the provider that used it can change nothing any more.")
	})
}

// scimGroupList lists groups.
type scimGroupList struct {
	server.Flags `embed:""`
}

// Run lists the groups that identity providers pushed.
func (c *scimGroupList) Run(ctx context.Context, p *term.Program) error {
	return scimGroupResource.Show(ctx, p, &c.Flags, nil)
}

// scimGroupRole maps a group to a role.
type scimGroupRole struct {
	server.Flags `embed:""`
	Group        string `arg:"" help:"Name or id of the group."`
	Role         string `arg:"" enum:"viewer,member,admin,owner,none" help:"The role: ${enum}."`
}

// Run sets the role that a group gives its members; "none" gives none.
func (c *scimGroupRole) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		missing := fmt.Sprintf("No group has the name or id %s; `whetstone member scim-group list` shows them", c.Group)
		group, err := scimGroupResource.Find(ctx, s, missing, func(g api.SCIMGroup) bool {
			return g.ID == c.Group || strings.EqualFold(g.DisplayName, c.Group)
		})
		if err != nil {
			return err
		}
		body := map[string]any{"role": c.Role}
		// The API has null for "no role".
		if c.Role == "none" {
			body["role"] = nil
		}
		var out struct {
			Group api.SCIMGroup `json:"scim_group"`
		}
		if err := s.Call(ctx, http.MethodPut, scimGroupResource.At(group.ID), body, &out); err != nil {
			return err
		}
		return p.Print(out.Group, func(w io.Writer) {
			fmt.Fprintf(w, "%s gives the role %s.\n", term.Plain(out.Group.DisplayName), c.Role)
		})
	})
}
