// Package catalog has the client's commands for the tokens that open an
// organisation's catalogs to installers.
package catalog

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// Commands are the commands of this package.
type Commands struct {
	CatalogToken tokenCommands `cmd:"" group:"Client" help:"Create, list, rotate and delete the tokens that installers have in addresses."`
}

type tokenCommands struct {
	Create tokenCreate `cmd:"" help:"Create a catalog token; it is printed once."`
	List   tokenList   `cmd:"" help:"List the organisation's catalog tokens."`
	Rotate tokenRotate `cmd:"" help:"Replace a catalog token; the old one ends after an overlap."`
	Delete tokenDelete `cmd:"" help:"Revoke a catalog token immediately."`
}

const path = "/api/v1/catalog-tokens"

func pathOf(id string) string { return path + "/" + url.PathEscape(id) }

// A token is a catalog token, as the server describes it.
type token struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Prefix     string     `json:"prefix"`
	State      string     `json:"state"` // active, replaced or expired
	CreatedBy  string     `json:"created_by"`
	CreatedAt  time.Time  `json:"created_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
	ExpiresAt  *time.Time `json:"expires_at"`
	ReplacedAt *time.Time `json:"replaced_at"`
}

// made is a new token, which is shown once.
type made struct {
	CatalogToken token  `json:"catalog_token"`
	Token        string `json:"token"`
	Replaced     *token `json:"replaced,omitempty"`
}

type tokenCreate struct {
	server.Flags `embed:""`
	Name         string          `arg:"" help:"What the token is for, e.g. the project."`
	Expires      config.Duration `env:"-" placeholder:"90d" help:"Lifetime of the token; it does not expire when empty."`
}

// Run creates a token.
func (c *tokenCreate) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		body := map[string]any{"name": c.Name}
		if c.Expires > 0 {
			body["expires_at"] = time.Now().Add(time.Duration(c.Expires)).UTC()
		}
		var out made
		if err := s.Call(ctx, http.MethodPost, path, body, &out); err != nil {
			return err
		}
		return p.Print(out, func(w io.Writer) { fmt.Fprintln(w, out.Token) })
	})
}

type tokenList struct {
	server.Flags `embed:""`
}

// Run lists tokens.
func (c *tokenList) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		all, err := list(ctx, s)
		if err != nil {
			return err
		}
		return p.Print(all, func(w io.Writer) {
			if len(all) == 0 {
				fmt.Fprintln(w, "No catalog tokens; `whetstone catalog-token create NAME` makes one.")
				return
			}
			fmt.Fprintln(w, "ID\tNAME\tTOKEN\tSTATE\tLAST USED\tEXPIRES")
			for _, t := range all {
				fmt.Fprintf(w, "%s\t%s\t%s...\t%s\t%s\t%s\n", t.ID, term.Cell(t.Name), t.Prefix, t.State,
					term.Day(t.LastUsedAt), term.Day(t.ExpiresAt))
			}
		})
	})
}

// list returns all tokens.
func list(ctx context.Context, s *server.Session) ([]token, error) {
	return server.All[token](ctx, s, path+"?", "catalog_tokens")
}

// tokenName names a token.
type tokenName struct {
	server.Flags `embed:""`
	ID           string `arg:"" name:"token" help:"Name or id of the token."`
}

// with calls do after it has found the id of the token. A name means the token that
// works: a rotated one has it, too.
func (c *tokenName) with(ctx context.Context, p *term.Program, do func(s *server.Session) error) error {
	return c.WithSession(p, func(s *server.Session) error {
		if !server.IsID(c.ID) {
			all, err := list(ctx, s)
			if err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(t token) bool { return t.State != "active" })
			c.ID, err = server.Pick("active catalog token", "catalog-token list", c.ID, server.NamesOf(all, func(t token) server.Named {
				return server.Named{ID: t.ID, Names: []string{t.Name}}
			}))
			if err != nil {
				return err
			}
		}
		return do(s)
	})
}

type tokenRotate struct {
	tokenName `embed:""`
	Overlap   config.Duration `env:"-" default:"7d" help:"How long the old token still works, in whole hours."`
	Now       bool            `env:"-" help:"Revoke the old token immediately."`
}

// Run replaces a token.
func (c *tokenRotate) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, p, func(s *server.Session) error {
		hours := int(time.Duration(c.Overlap).Hours())
		if c.Now {
			hours = 0
		}
		body := map[string]any{"overlap_hours": hours}
		var out made
		if err := s.Call(ctx, http.MethodPost, pathOf(c.ID)+"/rotate", body, &out); err != nil {
			return err
		}
		if !p.JSON && out.Replaced != nil && out.Replaced.ExpiresAt != nil {
			p.Note("The old token works until %s.", out.Replaced.ExpiresAt.UTC().Format("2006-01-02 15:04 UTC"))
		}
		return p.Print(out, func(w io.Writer) { fmt.Fprintln(w, out.Token) })
	})
}

type tokenDelete struct {
	tokenName `embed:""`
}

// Run deletes a token.
func (c *tokenDelete) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, p, func(s *server.Session) error {
		if err := s.Call(ctx, http.MethodDelete, pathOf(c.ID), nil, nil); err != nil {
			return err
		}
		out := map[string]string{"id": c.ID, "status": "deleted"}
		return p.Print(out, func(w io.Writer) { fmt.Fprintln(w, "Deleted; installers that use it find nothing any more.") })
	})
}
