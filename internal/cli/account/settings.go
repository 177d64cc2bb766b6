package account

import (
	"context"
	"fmt"
	"io"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

type settingsCommands struct {
	Content contentCommands `cmd:"" help:"Show or change whether the content of sessions is stored."`
}

type contentCommands struct {
	Show   contentShow   `cmd:"" default:"1" help:"Show whether content is stored."`
	On     contentOn     `cmd:"" help:"Store the content that clients send explicitly. Owners only."`
	Off    contentOff    `cmd:"" help:"Stop storing content; what is stored stays. Owners only."`
	Delete contentDelete `cmd:"" help:"Delete all stored content. Owners only."`
}

type contentShow struct {
	server.Flags `embed:""`
}

// Run prints the setting.
func (c *contentShow) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		setting, err := s.ContentSetting(ctx)
		return printContent(p, setting, err)
	})
}

type contentOn struct {
	server.Flags `embed:""`
}

// Run switches it on.
func (c *contentOn) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		setting, err := s.SetContent(ctx, true)
		return printContent(p, setting, err)
	})
}

type contentOff struct {
	server.Flags `embed:""`
}

// Run switches it off.
func (c *contentOff) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		setting, err := s.SetContent(ctx, false)
		return printContent(p, setting, err)
	})
}

func printContent(p *term.Program, setting client.ContentSetting, err error) error {
	if err != nil {
		return err
	}
	return p.Print(setting, func(w io.Writer) {
		if setting.Enabled {
			fmt.Fprintln(w,
				"Content of sessions is kept where senders send it on purpose, e.g. with `whetstone import --with-content`.")
			return
		}
		fmt.Fprintln(w, "No content of sessions is kept from now on. `whetstone settings content delete` deletes what is there.")
	})
}

type contentDelete struct {
	server.Flags `embed:""`
}

// Run deletes all content.
func (c *contentDelete) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		if err := s.DeleteContent(ctx); err != nil {
			return err
		}
		return p.Print(map[string]bool{"deleted": true}, func(w io.Writer) {
			fmt.Fprintln(w, "All content of sessions is deleted.")
		})
	})
}
