package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/members"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// userInvite invites a person to an organisation. The invitation is not mailed: the
// command prints a link to pass on.
type userInvite struct {
	config.Database `embed:""`
	Org             string          `env:"-" default:"default" help:"Name of the organisation."`
	Email           string          `env:"-" help:"E-mail address of the person; anyone with the link when empty."`
	Role            access.Role     `env:"-" default:"member" enum:"viewer,member,admin,owner" help:"Role: ${enum}."`
	Expires         config.Duration `env:"-" default:"7d" help:"Lifetime of the link, at most 30d."`
	PublicURL       string          `default:"http://127.0.0.1:8080" help:"Base of the link: that of the server."`
}

// Run makes an invitation and prints its link alone, so that a script can capture it.
// The token in the link is stored as a hash and cannot be printed again.
func (c *userInvite) Run(ctx context.Context, p *term.Program) error {
	return withOrg(ctx, c.Database, c.Org, func(ctx context.Context, s *auth.Service, o auth.Organisation) error {
		service := members.Service{DB: s.DB, Auth: s, PublicURL: strings.TrimRight(c.PublicURL, "/")}
		end := time.Now().Add(time.Duration(c.Expires))
		i, token, err := service.InviteByOperator(ctx, o.ID, members.NewInvitation{Role: c.Role, Email: c.Email, ExpiresAt: &end})
		if err != nil {
			return err
		}
		out := map[string]any{
			"id": i.ID, "role": i.Role, "email": i.Email, "expires_at": httpapi.Time(i.ExpiresAt),
			"url": service.Link(token),
		}
		return p.Print(out, func(w io.Writer) { fmt.Fprintln(w, service.Link(token)) })
	})
}

// userSetRole changes the role of a user, also to and from owner.
type userSetRole struct {
	config.Database `embed:""`
	Org             string      `env:"-" default:"default" help:"Name of the organisation."`
	Email           string      `arg:"" help:"Email address of the user."`
	Role            access.Role `arg:"" enum:"viewer,member,admin,owner" help:"The new role: ${enum}."`
}

// Run changes the role of a user. The last owner must stay one, and the shared holders
// of machine keys keep their role: both are conflicts.
func (c *userSetRole) Run(ctx context.Context, p *term.Program) error {
	return withOrg(ctx, c.Database, c.Org, func(ctx context.Context, s *auth.Service, o auth.Organisation) error {
		u, err := s.UserByEmail(ctx, o.ID, c.Email)
		if err != nil {
			return err
		}
		if u, err = s.SetRoleByOperator(ctx, o.ID, u.ID, c.Role); err != nil {
			return err
		}
		return p.Print(newUserOutput(u), func(w io.Writer) { fmt.Fprintf(w, "%s now has the role %s.\n", u.Email, u.Role) })
	})
}

// userRemove removes a user by email address.
type userRemove struct {
	config.Database `embed:""`
	Org             string `env:"-" default:"default" help:"Name of the organisation."`
	Email           string `arg:"" help:"Email address of the user."`
	Cascade         bool   `env:"-" help:"Also revoke the keys that were created with theirs: of machines, and of people they invited."`
}

// Run removes a user: their keys and sessions end. What they created stays.
func (c *userRemove) Run(ctx context.Context, p *term.Program) error {
	return withOrg(ctx, c.Database, c.Org, func(ctx context.Context, s *auth.Service, o auth.Organisation) error {
		u, err := s.UserByEmail(ctx, o.ID, c.Email)
		if err != nil {
			return err
		}
		if u, err = s.RemoveByOperator(ctx, o.ID, auth.Removal{UserID: u.ID, Made: c.Cascade}); err != nil {
			return err
		}
		out := map[string]string{"id": u.ID, "email": u.Email, "status": "removed"}
		return p.Print(out, func(w io.Writer) { fmt.Fprintf(w, "Removed %s; their keys and sessions have ended.\n", u.Email) })
	})
}
