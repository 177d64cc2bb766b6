package account

import (
	"context"
	"fmt"
	"io"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// settingsCommands are the commands `whetstone settings`.
type settingsCommands struct {
	Content contentCommands `cmd:"" help:"Show or change whether the content of sessions is stored."`
}

// contentCommands are the commands `whetstone settings content`. The default is off.
type contentCommands struct {
	Show   contentShow   `cmd:"" default:"1" help:"Show whether content is stored."`
	On     contentOn     `cmd:"" help:"Store the content that clients send explicitly. Owners only."`
	Off    contentOff    `cmd:"" help:"Stop storing content; what is stored stays. Owners only."`
	Delete contentDelete `cmd:"" help:"Delete all stored content. Owners only."`
}

// contentShow shows the setting.
type contentShow struct {
	server.Flags `embed:""`
}

// Run prints whether content is stored.
func (c *contentShow) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		setting, err := s.ContentSetting(ctx)
		return printContent(p, setting, err)
	})
}

// contentOn switches storage of content on.
type contentOn struct {
	server.Flags `embed:""`
}

// Run lets the server store content that senders send explicitly. It changes nothing
// about sessions of the past.
func (c *contentOn) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		setting, err := s.SetContent(ctx, true)
		return printContent(p, setting, err)
	})
}

// contentOff switches storage of content off.
type contentOff struct {
	server.Flags `embed:""`
}

// Run makes the server drop content from now on. What is stored stays until it is
// deleted.
func (c *contentOff) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		setting, err := s.SetContent(ctx, false)
		return printContent(p, setting, err)
	})
}

// printContent prints the setting, unless err is not nil.
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

// contentDelete deletes content.
type contentDelete struct {
	server.Flags `embed:""`
}

// Run deletes all stored content of the organisation, without a confirmation.
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
