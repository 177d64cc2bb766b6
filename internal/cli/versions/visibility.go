package versions

import (
	"context"
	"fmt"
	"io"

	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// visibilityCommand has the new visibility.
type visibilityCommand struct {
	server.Flags `embed:""`
	Name         string `arg:"" names:"entries" help:"Name or id of the entry."`
	Visibility   string `arg:"" enum:"public,org,unlisted" help:"public: everyone; org: only the organisation; unlisted: everyone who knows organisation and name, in no list."`
}

// Run changes who may see an entry. Installed copies are not affected.
func (c *visibilityCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		entry, err := s.OwnEntry(ctx, c.Name)
		if err != nil {
			return err
		}
		out, err := s.SetVisibility(ctx, entry.ID, c.Visibility)
		if err != nil {
			return err
		}
		return p.Print(out, func(w io.Writer) {
			fmt.Fprintf(w, "%s is %s\n", term.Plain(out.Name), map[string]string{
				"public": "public", "org": "visible to your organisation only", "unlisted": "unlisted",
			}[out.Visibility])
		})
	})
}
