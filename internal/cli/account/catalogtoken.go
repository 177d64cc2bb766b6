package account

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// catalogTokenCommands are the commands `whetstone catalog-token`. The tokens stand in
// the addresses from which installers of agents fetch a catalog, so they can read the
// catalog and nothing else.
type catalogTokenCommands struct {
	Create catalogTokenCreate `cmd:"" help:"Create a catalog token; it is printed once."`
	List   catalogTokenList   `cmd:"" help:"List the organisation's catalog tokens."`
	Rotate catalogTokenRotate `cmd:"" help:"Replace a catalog token; the old one ends after an overlap."`
	Delete catalogTokenDelete `cmd:"" help:"Revoke a catalog token immediately."`
}

// catalogTokens is the list of catalog tokens, and how it is printed.
var catalogTokens = server.Resource[api.CatalogToken]{
	Path: "/api/v1/catalog-tokens", Field: "catalog_tokens", List: term.List[api.CatalogToken]{
		None: "No catalog tokens; `whetstone catalog-token create NAME` makes one.",
		Head: "ID\tNAME\tTOKEN\tSTATE\tLAST USED\tEXPIRES",
		Row: func(t api.CatalogToken) []any {
			return []any{t.ID, term.Cell(t.Name), t.Prefix + "...", t.State, term.Day(t.LastUsedAt), term.Day(t.ExpiresAt)}
		},
	},
}

// newCatalogToken is the reply to a creation or rotation, the only one with the secret.
type newCatalogToken struct {
	CatalogToken api.CatalogToken  `json:"catalog_token"`
	Token        string            `json:"token"`
	Replaced     *api.CatalogToken `json:"replaced,omitempty"` // by a rotation
}

// catalogTokenCreate has the flags of a new token.
type catalogTokenCreate struct {
	server.Flags `embed:""`
	Name         string          `arg:"" help:"What the token is for, e.g. the project."`
	Expires      config.Duration `env:"-" placeholder:"90d" help:"Lifetime of the token; it does not expire when empty."`
	Sets         []string        `env:"-" name:"set" placeholder:"SET" help:"Open only the skills of this set, by its name or id. Repeatable."`
}

// Run creates a token and prints it alone, so that a script can capture it.
func (c *catalogTokenCreate) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		body := map[string]any{"name": c.Name}
		if c.Expires > 0 {
			body["expires_at"] = time.Now().Add(time.Duration(c.Expires)).UTC()
		}
		if len(c.Sets) > 0 {
			ids := make([]string, len(c.Sets))
			for i, name := range c.Sets {
				var err error
				if ids[i], err = s.SetID(ctx, name); err != nil {
					return err
				}
			}
			body["sets"] = ids
		}
		var out newCatalogToken
		if err := s.Call(ctx, http.MethodPost, catalogTokens.Path, body, &out); err != nil {
			return err
		}
		return p.Print(out, func(w io.Writer) { fmt.Fprintln(w, out.Token) })
	})
}

// catalogTokenList lists the tokens of the organisation.
type catalogTokenList struct {
	server.Flags `embed:""`
}

// Run lists tokens. It needs the permission admin, as do all commands here.
func (c *catalogTokenList) Run(ctx context.Context, p *term.Program) error {
	return catalogTokens.Show(ctx, p, &c.Flags, nil)
}

// catalogTokenName is the argument of the commands about one token: its name or id.
type catalogTokenName struct {
	server.Flags `embed:""`
	ID           string `arg:"" name:"token" help:"Name or id of the token."`
}

// with resolves the token to its id, and calls do. Only active tokens are searched:
// after a rotation the old token keeps the name, but is no longer what the name means.
func (c *catalogTokenName) with(ctx context.Context, p *term.Program, do func(s *server.Session) error) error {
	return c.WithSession(p, func(s *server.Session) (err error) {
		c.ID, err = server.ID("active catalog token", "catalog-token list", c.ID, func() ([]api.CatalogToken, error) {
			all, err := catalogTokens.All(ctx, s, nil)
			return slices.DeleteFunc(all, func(t api.CatalogToken) bool { return t.State != "active" }), err
		}, func(t api.CatalogToken) (string, []string) { return t.ID, []string{t.Name} })
		if err != nil {
			return err
		}
		return do(s)
	})
}

// catalogTokenRotate replaces a token with a new one of the same name.
type catalogTokenRotate struct {
	catalogTokenName `embed:""`
	Overlap          config.Duration `env:"-" default:"7d" help:"How long the old token still works, in whole hours."`
	Now              bool            `env:"-" help:"Revoke the old token immediately."`
}

// Run replaces a token. The old one still works for the overlap, so that clients can be
// changed one by one; the server counts it in whole hours, and 0 ends it now.
func (c *catalogTokenRotate) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, p, func(s *server.Session) error {
		hours := int(time.Duration(c.Overlap).Hours())
		if c.Now {
			hours = 0
		}
		body := map[string]any{"overlap_hours": hours}
		var out newCatalogToken
		if err := s.Call(ctx, http.MethodPost, catalogTokens.At(c.ID)+"/rotate", body, &out); err != nil {
			return err
		}
		if !p.JSON && out.Replaced != nil && out.Replaced.ExpiresAt != nil {
			p.Note("The old token works until %s.", term.Minute(*out.Replaced.ExpiresAt)+" UTC")
		}
		return p.Print(out, func(w io.Writer) { fmt.Fprintln(w, out.Token) })
	})
}

// catalogTokenDelete revokes a token.
type catalogTokenDelete struct {
	catalogTokenName `embed:""`
}

// Run deletes a token, without an overlap.
func (c *catalogTokenDelete) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, p, func(s *server.Session) error {
		return s.Delete(ctx, p, catalogTokens.At(c.ID), c.ID, "deleted", "Deleted; installers that use it find nothing any more.")
	})
}
