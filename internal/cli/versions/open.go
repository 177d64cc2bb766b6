package versions

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// sections are the pages that can be named.
var sections = []string{
	"alerts", "costs", "gates", "incidents", "proposals", "registry", "review", "sessions", "settings",
	"skills", "sources", "suites",
}

type openCommand struct {
	server.Flags `embed:""`
	Page         string `arg:"" optional:"" help:"Name of a skill or an entry, or a section of the dashboard, e.g. alerts; its home when empty."`
	Print        bool   `env:"-" help:"Only print the address."`
}

// Run prints the address of a page, and opens it if a person is at the terminal.
func (c *openCommand) Run(ctx context.Context, p *term.Program) error {
	base, page, err := c.address(ctx, p)
	if err != nil {
		return err
	}
	if err := p.Print(map[string]string{"url": page}, func(w io.Writer) { fmt.Fprintln(w, page) }); err != nil {
		return err
	}
	if !c.Print {
		p.OpenPage(ctx, base, page)
	}
	return nil
}

// address needs a key only for a name, to know which page it has.
func (c *openCommand) address(ctx context.Context, p *term.Program) (base, page string, err error) {
	if c.Page == "" || slices.Contains(sections, c.Page) {
		stored, err := server.LoadCredentials()
		if err != nil {
			return "", "", err
		}
		base, err := c.Address(stored)
		return base, base + "/" + c.Page, err
	}
	err = c.WithSession(p, func(s *server.Session) error {
		base = s.Server
		page, err = pageOf(ctx, s, c.Page)
		return err
	})
	return base, page, err
}

// pageOf is the page of a skill, which has its figures, or that of an entry which
// was never used.
func pageOf(ctx context.Context, s *server.Session, name string) (string, error) {
	_, err := s.Skill(ctx, name, 0)
	if err == nil {
		return s.Page("skills", name), nil
	}
	if client.Status(err) != http.StatusNotFound {
		return "", err
	}
	entry, err := s.OwnEntry(ctx, name)
	if client.Status(err) == http.StatusNotFound {
		return "", fault.New(fault.NotFound,
			"No skill or entry is named %s; `whetstone list` lists them, and these are sections: %s",
			term.Plain(name), strings.Join(sections, ", "))
	}
	return s.Page("registry", entry.ID), err
}
