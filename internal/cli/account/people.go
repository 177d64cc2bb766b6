package account

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// memberCommands are the commands `whetstone member`. All but list and leave need the
// permission admin. Members are named by their address; ids are for scripts.
type memberCommands struct {
	List        memberList        `cmd:"" help:"List the members of the organisation."`
	Invite      memberInvite      `cmd:"" help:"Invite a person; the link is printed once and works once."`
	Invitations memberInvitations `cmd:"" help:"List invitations."`
	Uninvite    memberUninvite    `cmd:"" help:"Revoke an invitation."`
	SetRole     memberSetRole     `cmd:"" help:"Change the role of a member."`
	Transfer    memberTransfer    `cmd:"" help:"Make a member owner, and yourself an admin."`
	Remove      memberRemove      `cmd:"" help:"Remove a member: keys and sessions end, what they created stays."`
	Leave       memberLeave       `cmd:"" help:"Leave the organisation yourself."`
	ScimToken   scimTokens        `cmd:"" help:"Tokens with which an identity provider manages members by SCIM."`
	ScimGroup   scimGroups        `cmd:"" help:"Groups that an identity provider pushed, and the roles that they give."`
}

// members is the list of members, and how it is printed.
var members = server.Resource[api.Member]{
	Path: "/api/v1/members", Field: "members", List: term.List[api.Member]{
		None: "No member was removed.",
		Head: "ID\tNAME\tEMAIL\tROLE\tKIND\tSINCE\tLAST SEEN",
		Row: func(m api.Member) []any {
			return []any{
				m.UserID, term.Cell(m.Name), term.Cell(m.Email), m.Role, m.Kind, term.Day(&m.CreatedAt),
				term.Day(m.LastSeenAt),
			}
		},
	},
}

// mailState formats the state for a cell of the list; nil means that no mail was sent.
func mailState(m *api.InvitationMail) string {
	switch {
	case m == nil:
		return "-"
	case m.Detail == nil:
		return m.Status
	}
	return m.Status + ": " + *m.Detail
}

// invitations is the list of invitations, and how it is printed.
var invitations = server.Resource[api.Invitation]{
	Path: "/api/v1/invitations", Field: "invitations", List: term.List[api.Invitation]{
		None: "No invitations; `whetstone member invite ADDRESS` makes one.",
		Head: "ID\tFOR\tROLE\tSTATE\tEXPIRES\tMAIL",
		Row: func(i api.Invitation) []any {
			return []any{
				i.ID, term.Cell(term.OrDash(i.Email)), i.Role, i.State, term.Day(&i.ExpiresAt),
				term.Cell(mailState(i.Mail)),
			}
		},
	},
}

// findMember returns the member with that address, in any case, or that id. Members
// that were removed are not among them.
func findMember(ctx context.Context, s *server.Session, who string) (api.Member, error) {
	return members.Find(ctx, s, "No member has the address or id "+who+"; `whetstone member list` shows them",
		func(m api.Member) bool { return m.UserID == who || strings.EqualFold(m.Email, who) })
}

// memberList lists members.
type memberList struct {
	server.Flags `embed:""`
	Removed      bool `env:"-" help:"List those who were removed instead."`
}

// Run lists the members, or those who were removed.
func (c *memberList) Run(ctx context.Context, p *term.Program) error {
	query := url.Values{}
	if c.Removed {
		query.Set("state", "removed")
	}
	return members.Show(ctx, p, &c.Flags, query)
}

// memberInvite has the fields of a new invitation. A link without an address is as
// good as a key until it is used.
type memberInvite struct {
	server.Flags `embed:""`
	Email        string          `arg:"" optional:"" help:"E-mail address of the person; anyone with the link when empty."`
	Role         string          `env:"-" default:"member" enum:"viewer,member,admin,owner" help:"Role: ${enum}."`
	Expires      config.Duration `env:"-" placeholder:"7d" help:"Lifetime of the link, at most 30d; 7 days when empty."`
}

// Run makes an invitation and prints its link, which is not shown again. With a mail
// server and an address, the server also sends it; otherwise the caller passes it on.
func (c *memberInvite) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		body := map[string]any{"role": c.Role}
		if c.Email != "" {
			body["email"] = c.Email
		}
		if c.Expires > 0 {
			body["expires_in"] = int(time.Duration(c.Expires).Seconds())
		}
		var out struct {
			Invitation api.Invitation `json:"invitation"`
			URL        string         `json:"url"`
			Token      string         `json:"token"`
		}
		if err := s.Call(ctx, http.MethodPost, invitations.Path, body, &out); err != nil {
			return err
		}
		// Pending: the mail is sent by a job, after this reply.
		sent := out.Invitation.Mail != nil && out.Invitation.Mail.Status == "pending"
		if !p.JSON && sent {
			p.Note("The server sends this link to %s; `whetstone member invitations` says whether it arrived. It works "+
				"once, until %s, and gives the role %s.",
				term.Plain(c.Email), term.Minute(out.Invitation.ExpiresAt)+" UTC", out.Invitation.Role)
		} else if !p.JSON {
			p.Note("Send this link over a secure channel: it works once, until %s, and gives the role %s.",
				term.Minute(out.Invitation.ExpiresAt)+" UTC", out.Invitation.Role)
		}
		// The link alone on standard output, so that a script can take it.
		return p.Print(out, func(w io.Writer) { fmt.Fprintln(w, out.URL) })
	})
}

// memberInvitations lists invitations.
type memberInvitations struct {
	server.Flags `embed:""`
}

// Run lists invitations, including accepted and expired ones.
func (c *memberInvitations) Run(ctx context.Context, p *term.Program) error {
	return invitations.Show(ctx, p, &c.Flags, nil)
}

// memberUninvite revokes an invitation.
type memberUninvite struct {
	server.Flags `embed:""`
	ID           string `arg:"" name:"invitation" help:"Id of the invitation, or the address that it is for."`
}

// Run revokes a pending invitation. One that was accepted is not found: remove the
// member.
func (c *memberUninvite) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) (err error) {
		c.ID, err = server.ID("pending invitation", "member invitations", c.ID, func() ([]api.Invitation, error) {
			all, err := invitations.All(ctx, s, nil)
			return slices.DeleteFunc(all, func(i api.Invitation) bool { return i.State != "pending" }), err
		}, func(i api.Invitation) (string, []string) { return i.ID, []string{term.OrDash(i.Email)} })
		if err != nil {
			return err
		}
		return s.Delete(ctx, p, invitations.At(c.ID), c.ID, "revoked", "Ended; its link does not work any more.")
	})
}

// memberSetRole changes a role.
type memberSetRole struct {
	server.Flags `embed:""`
	Member       string `arg:"" help:"Address or id of the member."`
	Role         string `arg:"" enum:"viewer,member,admin,owner" help:"The new role: ${enum}."`
}

// Run changes the role of a member.
func (c *memberSetRole) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		m, err := findMember(ctx, s, c.Member)
		if err != nil {
			return err
		}
		var out struct {
			Member api.Member `json:"member"`
		}
		if err := s.Call(ctx, http.MethodPatch, members.At(m.UserID), map[string]string{"role": c.Role}, &out); err != nil {
			return err
		}
		return p.Print(out.Member, func(w io.Writer) {
			fmt.Fprintf(w, "%s now has the role %s.\n", term.Plain(out.Member.Email), out.Member.Role)
		})
	})
}

// memberTransfer hands the organisation over. The caller must be an owner; there may
// be several.
type memberTransfer struct {
	server.Flags `embed:""`
	Member       string `arg:"" help:"Address or id of the member who becomes owner."`
	Yes          bool   `env:"-" short:"y" help:"Do not ask."`
}

// Run makes a member owner and the caller an admin, in one step, after a confirmation.
func (c *memberTransfer) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		m, err := findMember(ctx, s, c.Member)
		if err != nil {
			return err
		}
		if !c.Yes && !p.Confirm(ctx, fmt.Sprintf("Make %s an owner, and yourself an admin?", term.Plain(m.Email))) {
			return fault.New(fault.Conflict, "Nothing was changed; answer yes, or use --yes")
		}
		var out struct {
			Owner  api.Member `json:"owner"`
			Former api.Member `json:"former_owner"`
		}
		if err := s.Call(ctx, http.MethodPost, members.At(m.UserID)+"/transfer", nil, &out); err != nil {
			return err
		}
		return p.Print(out, func(w io.Writer) {
			fmt.Fprintf(w, "%s is an owner now, and %s an admin.\n", term.Plain(out.Owner.Email), term.Plain(out.Former.Email))
		})
	})
}

// memberRemove removes a member.
type memberRemove struct {
	server.Flags `embed:""`
	Member       string `arg:"" help:"Address or id of the member."`
	Cascade      bool   `env:"-" help:"Also revoke the keys that were created with theirs: of machines, and of people they invited."`
	Yes          bool   `env:"-" short:"y" help:"Do not ask."`
}

// Run removes a member after a confirmation. Keys that they created for others stay,
// unless --cascade is given: an attacker may have made some with a stolen key. The
// server refuses to remove the last owner.
func (c *memberRemove) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		m, err := findMember(ctx, s, c.Member)
		if err != nil {
			return err
		}
		question := "Remove %s? Their keys, sessions and invitations end at once; what they made stays."
		if !c.Yes && !p.Confirm(ctx, fmt.Sprintf(question, term.Plain(m.Email))) {
			return fault.New(fault.Conflict, "Nothing was changed; answer yes, or use --yes")
		}
		path := members.At(m.UserID)
		if c.Cascade {
			path += "?cascade=true"
		}
		if err := s.Call(ctx, http.MethodDelete, path, nil, nil); err != nil {
			return err
		}
		out := map[string]string{"user_id": m.UserID, "email": m.Email, "status": "removed"}
		return p.Print(out, func(w io.Writer) {
			fmt.Fprintf(w, "Removed %s; their keys and sessions have ended.\n", term.Plain(m.Email))
		})
	})
}

// memberLeave removes the caller.
type memberLeave struct {
	server.Flags `embed:""`
	Yes          bool `env:"-" short:"y" help:"Do not ask."`
}

// Run removes the caller from the organisation after a confirmation. The last owner
// cannot leave; the server says so.
func (c *memberLeave) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		me, err := s.Me(ctx)
		if err != nil {
			return err
		}
		question := "Leave %s as %s? Your keys, sessions and invitations end at once; what you made stays."
		if !c.Yes && !p.Confirm(ctx, fmt.Sprintf(question, term.Plain(me.Organisation.Name), term.Plain(me.User.Email))) {
			return fault.New(fault.Conflict, "Nothing was changed; answer yes, or use --yes")
		}
		// The address confirms whose membership ends.
		if err := s.Call(ctx, http.MethodPost, "/api/v1/me/leave", map[string]string{"email": me.User.Email}, nil); err != nil {
			return err
		}
		out := map[string]string{"organisation": me.Organisation.Name, "status": "left"}
		return p.Print(out, func(w io.Writer) {
			fmt.Fprintf(w, "You have left %s; `whetstone logout` deletes the stored key, which does not work any more.\n",
				term.Plain(me.Organisation.Name))
		})
	})
}

// invite has the flags with which a person without an account accepts an invitation.
type invite struct {
	Invite string `env:"-" placeholder:"LINK" help:"Accept this invitation, and log in with the first key."`
	Name   string `env:"-" help:"Your name, with --invite; the part of the address before the @ when empty."`
	Email  string `env:"-" help:"Your address, with --invite, if the invitation names none."`
}

// accept accepts the invitation and returns the server's address and the person's first
// key. Both are in the link: "https://HOST/invite/TOKEN". The key is not shown
// again. It needs no key, which is why it makes a client without one.
func (i invite) accept(ctx context.Context, p *term.Program) (address, key string, err error) {
	base, token, ok := strings.Cut(i.Invite, "/invite/")
	if address, err = (&server.Flags{Server: base}).Address(server.Credentials{}); err != nil || !ok || base == "" {
		return "", "", fault.Invalid("invite", "--invite must be a link like https://whetstone.example.org/invite/inv_...")
	}
	var out struct {
		APIKey string `json:"api_key"`
	}
	body := map[string]string{"token": strings.TrimRight(token, "/"), "name": i.Name, "email": i.Email}
	if err := server.New(p, address, "").Call(ctx, http.MethodPost, invitations.Path+"/accept", body, &out); err != nil {
		return "", "", server.AsFault(err, address)
	}
	return address, out.APIKey, nil
}
