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

// sections are the pages of the dashboard that can be named. They take precedence over
// skills of the same name.
var sections = []string{
	"alerts", "costs", "gates", "incidents", "proposals", "registry", "review", "sessions", "settings",
	"skills", "sources", "suites",
}

// openCommand selects a page.
type openCommand struct {
	server.Flags `embed:""`
	Page         string `arg:"" optional:"" help:"Name of a skill or an entry, or a section of the dashboard, e.g. alerts; its home when empty."`
	Print        bool   `env:"-" help:"Only print the address."`
}

// Run prints the address of a page, and opens it if a person is at the terminal. The
// address is always printed: the browser may be on another machine.
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

// address returns the server's address and that of the page. It needs a key only for
// the name of a skill, to find out which page it has.
func (c *openCommand) address(ctx context.Context, p *term.Program) (base, page string, err error) {
	if c.Page == "" || slices.Contains(sections, c.Page) {
		stored, err := server.LoadCredentials()
		if err != nil {
			return "", "", err
		}
		// Without a request: the page asks for a login itself.
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

// pageOf returns the page of a skill, which has its figures, or that of the registry
// for an entry that was never used. 0 days: only whether the skill exists is of
// interest.
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
