package account

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// publisherCommands are the commands `whetstone trusted-publisher`.
type publisherCommands struct {
	Add    publisherAdd    `cmd:"" help:"Let workflows of a repository publish an entry."`
	List   publisherList   `cmd:"" help:"List the organisation's trusted publishers."`
	Remove publisherRemove `cmd:"" help:"Remove a trusted publisher, and revoke the keys that its runs have."`
}

// publishers is the list of trusted publishers, and how it is printed.
var publishers = server.Resource[api.TrustedPublisher]{
	Path: "/api/v1/trusted-publishers", Field: "trusted_publishers", List: term.List[api.TrustedPublisher]{
		None: "No trusted publishers; `whetstone trusted-publisher add ENTRY OWNER/REPOSITORY` adds one.",
		Head: "ID\tENTRY\tREPOSITORY\tREF\tWORKFLOW\tENVIRONMENT\tLAST USED",
		Row: func(t api.TrustedPublisher) []any {
			// A missing condition is a wide one, so it is spelled out.
			orAny := func(s *string) string {
				if s == nil {
					return "any"
				}
				return term.Cell(*s)
			}
			return []any{
				t.ID, term.Cell(t.EntryName), term.Cell(t.Repository), orAny(t.Ref), orAny(t.Workflow), orAny(t.Environment),
				term.Day(t.LastUsedAt),
			}
		},
	},
}

// publisherAdd has the conditions that a run's ID token must meet.
type publisherAdd struct {
	server.Flags `embed:""`
	Entry        string `arg:"" names:"entries" help:"Name or id of the entry."`
	Repository   string `arg:"" help:"Path of the repository, e.g. acme/skills."`
	Issuer       string `env:"-" placeholder:"URL" help:"Issuer of ID tokens: a GitLab instance, or one of Gitea or Forgejo with /api/actions; GitHub's when empty."`
	Provider     string `env:"-" enum:",github,gitlab,gitea" default:"" placeholder:"gitlab" help:"Kind of code host: github, gitlab or gitea; derived from the issuer when empty."`
	Ref          string `env:"-" help:"Branch, or pattern of refs, e.g. refs/tags/v*; every branch and tag when empty."`
	Workflow     string `env:"-" placeholder:"FILE" help:"File of the workflow, e.g. release.yml; every one when empty."`
	Environment  string `env:"-" placeholder:"NAME" help:"Environment of the job; every one when empty."`
	RepositoryID string `env:"-" name:"repository-id" placeholder:"NUMBER" help:"The code host's id of the repository; that of the first run when empty."`
	OwnerID      string `env:"-" name:"owner-id" placeholder:"NUMBER" help:"The code host's id of the owner; that of the first run when empty."`
}

// Run adds a publisher, and prints what its workflow must call.
func (c *publisherAdd) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		entry, err := s.OwnEntry(ctx, c.Entry)
		if err != nil {
			return err
		}
		body := map[string]string{"entry_id": entry.ID, "repository": c.Repository}
		// Fields that are not sent take the server's defaults.
		for field, value := range map[string]string{
			"issuer": c.Issuer, "provider": c.Provider, "ref": c.Ref, "workflow": c.Workflow, "environment": c.Environment,
			"repository_id": c.RepositoryID, "repository_owner_id": c.OwnerID,
		} {
			if value != "" {
				body[field] = value
			}
		}
		var out struct {
			Publisher api.TrustedPublisher `json:"trusted_publisher"`
		}
		if err := s.Call(ctx, http.MethodPost, publishers.Path, body, &out); err != nil {
			return err
		}
		return p.Print(out.Publisher, func(w io.Writer) {
			fmt.Fprintf(w, "%s may publish %s. In its workflow: `whetstone push --entry %s --server %s`, with `permissions: "+
				"id-token: write`.\n", term.Plain(out.Publisher.Repository), term.Plain(entry.Name), entry.ID, s.Server)
		})
	})
}

// publisherList lists publishers.
type publisherList struct {
	server.Flags `embed:""`
	Entry        string `env:"-" help:"Only those of the entry with this name or id."`
}

// Run lists the trusted publishers of the organisation, or of one entry.
func (c *publisherList) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		query := url.Values{}
		if c.Entry != "" {
			entry, err := s.OwnEntry(ctx, c.Entry)
			if err != nil {
				return err
			}
			query.Set("entry_id", entry.ID)
		}
		all, err := publishers.All(ctx, s, query)
		if err != nil {
			return err
		}
		return publishers.Print(p, all)
	})
}

// publisherRemove removes a publisher.
type publisherRemove struct {
	server.Flags `embed:""`
	ID           string `arg:"" name:"publisher" help:"Id of the trusted publisher, or its repository or entry if that has one."`
}

// Run removes a publisher, and revokes the keys that its runs have.
func (c *publisherRemove) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) (err error) {
		// A repository that publishes several entries must be named by the
		// publisher's id.
		c.ID, err = server.ID("trusted publisher", "trusted-publisher list", c.ID,
			func() ([]api.TrustedPublisher, error) { return publishers.All(ctx, s, nil) },
			func(t api.TrustedPublisher) (string, []string) { return t.ID, []string{t.Repository, t.EntryName} })
		if err != nil {
			return err
		}
		return s.Delete(ctx, p, publishers.At(c.ID), c.ID, "removed", "Removed; its workflows can publish no more.")
	})
}
