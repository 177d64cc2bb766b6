package account

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

type scimTokens struct {
	List   scimTokenList   `cmd:"" help:"List tokens."`
	Create scimTokenCreate `cmd:"" help:"Create a token, which is printed once. Owners only."`
	Delete scimTokenDelete `cmd:"" help:"Revoke a token immediately."`
}

type scimGroups struct {
	List    scimGroupList `cmd:"" help:"List groups."`
	SetRole scimGroupRole `cmd:"" help:"Set the role that a group gives its members. Owners only."`
}

const (
	scimTokensPath = "/api/v1/scim-tokens"
	scimGroupsPath = "/api/v1/scim-groups"
)

// A scimToken, as the server describes it.
type scimToken struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Prefix     string     `json:"prefix"`
	State      string     `json:"state"`
	CreatedBy  string     `json:"created_by"`
	CreatedAt  time.Time  `json:"created_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
	ExpiresAt  *time.Time `json:"expires_at"`
}

// A scimGroup, as the server describes it.
type scimGroup struct {
	ID          string    `json:"id"`
	DisplayName string    `json:"display_name"`
	ExternalID  *string   `json:"external_id"`
	Role        *string   `json:"role"`
	Members     int       `json:"members"`
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
}

// newScimToken are the tokens, and the address that a provider needs with them.
type newScimToken struct {
	URL    string      `json:"url"`
	Tokens []scimToken `json:"scim_tokens"`
}

func scimTokensOf(ctx context.Context, s *server.Session) (out newScimToken, err error) {
	err = s.Call(ctx, http.MethodGet, scimTokensPath, nil, &out)
	return out, err
}

type scimTokenList struct {
	server.Flags `embed:""`
}

// Run lists tokens.
func (c *scimTokenList) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		out, err := scimTokensOf(ctx, s)
		if err != nil {
			return err
		}
		return p.Print(out, func(w io.Writer) {
			if len(out.Tokens) == 0 {
				fmt.Fprintln(w, "No tokens; `whetstone member scim-token create NAME` makes one.")
				return
			}
			fmt.Fprintln(w, "ID\tNAME\tPREFIX\tSTATE\tCREATED\tLAST USED\tEXPIRES")
			for _, t := range out.Tokens {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", t.ID, term.Cell(t.Name), t.Prefix, t.State, term.Day(&t.CreatedAt),
					term.Day(t.LastUsedAt), term.Day(t.ExpiresAt))
			}
		})
	})
}

type scimTokenCreate struct {
	server.Flags `embed:""`
	Name         string          `arg:"" help:"Name of the token, e.g. that of the provider."`
	Expires      config.Duration `env:"-" placeholder:"365d" help:"Lifetime; it does not expire when empty."`
}

// Run makes a token.
func (c *scimTokenCreate) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		body := map[string]any{"name": c.Name}
		if c.Expires > 0 {
			body["expires_at"] = time.Now().Add(time.Duration(c.Expires)).UTC()
		}
		var out struct {
			Token scimToken `json:"scim_token"`
			URL   string    `json:"url"`
			Raw   string    `json:"token"`
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

type scimTokenDelete struct {
	server.Flags `embed:""`
	ID           string `arg:"" name:"token" help:"Name or id of the token."`
}

// Run ends a token.
func (c *scimTokenDelete) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		if !server.IsID(c.ID) {
			out, err := scimTokensOf(ctx, s)
			if err != nil {
				return err
			}
			c.ID, err = server.Pick("token", "member scim-token list", c.ID, server.NamesOf(out.Tokens, func(t scimToken) server.Named {
				return server.Named{ID: t.ID, Names: []string{t.Name}}
			}))
			if err != nil {
				return err
			}
		}
		if err := s.Call(ctx, http.MethodDelete, scimTokensPath+"/"+url.PathEscape(c.ID), nil, nil); err != nil {
			return err
		}
		out := map[string]string{"id": c.ID, "status": "deleted"}
		return p.Print(out, func(w io.Writer) {
			fmt.Fprintln(w, "Deleted; the provider that used it can change nothing any more.")
		})
	})
}

// scimGroupsOf reads all groups.
func scimGroupsOf(ctx context.Context, s *server.Session) ([]scimGroup, error) {
	return server.All[scimGroup](ctx, s, scimGroupsPath+"?", "scim_groups")
}

type scimGroupList struct {
	server.Flags `embed:""`
}

// Run lists groups.
func (c *scimGroupList) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		found, err := scimGroupsOf(ctx, s)
		if err != nil {
			return err
		}
		return p.Print(found, func(w io.Writer) {
			if len(found) == 0 {
				fmt.Fprintln(w, "No groups; the identity provider pushes them.")
				return
			}
			fmt.Fprintln(w, "ID\tGROUP\tMEMBERS\tROLE")
			for _, g := range found {
				fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", g.ID, term.Cell(g.DisplayName), g.Members, term.OrDash(g.Role))
			}
		})
	})
}

type scimGroupRole struct {
	server.Flags `embed:""`
	Group        string `arg:"" help:"Name or id of the group."`
	Role         string `arg:"" enum:"viewer,member,admin,owner,none" help:"The role: ${enum}."`
}

// Run decides the role of a group.
func (c *scimGroupRole) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		found, err := scimGroupsOf(ctx, s)
		if err != nil {
			return err
		}
		id := ""
		for _, g := range found {
			if g.ID == c.Group || strings.EqualFold(g.DisplayName, c.Group) {
				id = g.ID
			}
		}
		if id == "" {
			return fault.New(fault.NotFound, "No group has the name or id %s; `whetstone member scim-group list` shows them", c.Group)
		}
		body := map[string]any{"role": c.Role}
		if c.Role == "none" {
			body["role"] = nil
		}
		var out struct {
			Group scimGroup `json:"scim_group"`
		}
		if err := s.Call(ctx, http.MethodPut, scimGroupsPath+"/"+url.PathEscape(id), body, &out); err != nil {
			return err
		}
		return p.Print(out.Group, func(w io.Writer) {
			fmt.Fprintf(w, "%s gives the role %s.\n", term.Plain(out.Group.DisplayName), c.Role)
		})
	})
}
