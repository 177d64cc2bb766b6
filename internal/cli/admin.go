package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
)

// withAuth opens the existing database for an administration command, migrates it, and
// calls do with an auth.Service on it. It never creates a database: a mistyped --data
// is an error, not an empty installation.
//
// The server may be running: both databases allow several processes, and the server
// caches keys for seconds only. Commands need no API key, since whoever can open the
// database can do everything anyway; the audit log records the command line as the
// actor.
func withAuth(ctx context.Context, d config.Database, do func(ctx context.Context, s *auth.Service) error) error {
	db, err := app.OpenExisting(ctx, d)
	if err != nil {
		return err
	}
	defer db.Close()
	return do(audit.By(ctx, audit.CLI), &auth.Service{DB: db, Log: slog.New(slog.DiscardHandler)})
}

// withOrg is withAuth for a command about one organisation, which is given by name. An
// unknown name is fault.NotFound.
func withOrg(
	ctx context.Context, d config.Database, name string,
	do func(ctx context.Context, s *auth.Service, o auth.Organisation) error,
) error {
	return withAuth(ctx, d, func(ctx context.Context, s *auth.Service) error {
		o, err := s.OrgByName(ctx, name)
		if err != nil {
			return err
		}
		return do(ctx, s, o)
	})
}

// orgCommands are the commands `whetstone org`.
type orgCommands struct {
	Create  orgCreate  `cmd:"" help:"Create an organisation."`
	List    orgList    `cmd:"" help:"List all organisations."`
	SetPlan orgSetPlan `cmd:"" help:"Change the plan of an organisation."`
}

// orgOutput is an organisation as --json prints it.
type orgOutput struct {
	ID        string       `json:"id"`
	Name      string       `json:"name"`
	Plan      access.Plan  `json:"plan"`
	CreatedAt httpapi.Time `json:"created_at"`
}

func newOrgOutput(o auth.Organisation) orgOutput {
	return orgOutput{o.ID, o.Name, o.Plan, httpapi.Time(o.CreatedAt)}
}

// listedOrg is an organisation with the bytes that it stores, as quota counts them.
type listedOrg struct {
	orgOutput
	BytesUsed int64 `json:"bytes_used"`
}

// printOrg prints one organisation without headings, so that a script can cut the id
// out of the first column.
func printOrg(p *term.Program, o auth.Organisation) error {
	return p.Print(newOrgOutput(o), func(w io.Writer) {
		fmt.Fprintf(w, "%s\t%s\t%s\n", o.ID, o.Name, o.Plan)
	})
}

// orgCreate creates an organisation without users: `user create`, `user invite` or `key
// create` adds the first one.
type orgCreate struct {
	config.Database `embed:""`
	Name            string      `arg:"" help:"Name of the organisation."`
	Plan            access.Plan `env:"-" default:"team" enum:"free,pro,team,enterprise" help:"Its plan: ${enum}."`
}

// Run creates an organisation. A name that is taken is an error.
func (c *orgCreate) Run(ctx context.Context, p *term.Program) error {
	return withAuth(ctx, c.Database, func(ctx context.Context, s *auth.Service) error {
		o, err := s.CreateOrg(ctx, c.Name, c.Plan)
		if err != nil {
			return err
		}
		return printOrg(p, o)
	})
}

type orgList struct {
	config.Database `embed:""`
}

// Run lists all organisations with the storage that each uses. One that stores nothing
// shows as 0.
func (c *orgList) Run(ctx context.Context, p *term.Program) error {
	return withAuth(ctx, c.Database, func(ctx context.Context, s *auth.Service) error {
		orgs, err := s.Orgs(ctx)
		if err != nil {
			return err
		}
		used, err := (&quota.Service{DB: s.DB}).Used(ctx)
		if err != nil {
			return err
		}
		out := make([]listedOrg, len(orgs))
		for i, o := range orgs {
			out[i] = listedOrg{newOrgOutput(o), used[o.ID]}
		}
		return term.List[listedOrg]{
			Head: "ID\tNAME\tPLAN\tSTORED",
			Row:  func(o listedOrg) []any { return []any{o.ID, o.Name, o.Plan, quota.Bytes(o.BytesUsed).Short()} },
		}.Print(p, out)
	})
}

// orgSetPlan changes the plan, on which features and limits depend.
type orgSetPlan struct {
	config.Database `embed:""`
	Name            string      `arg:"" help:"Name of the organisation."`
	Plan            access.Plan `arg:"" enum:"free,pro,team,enterprise" help:"Its new plan: ${enum}."`
}

// Run changes the plan of an organisation. A running server applies it within seconds,
// when its cache of keys expires.
func (c *orgSetPlan) Run(ctx context.Context, p *term.Program) error {
	return withAuth(ctx, c.Database, func(ctx context.Context, s *auth.Service) error {
		o, err := s.SetPlan(ctx, c.Name, c.Plan)
		if err != nil {
			return err
		}
		return printOrg(p, o)
	})
}

// userCommands are the commands `whetstone user`. They are the operator's way in when
// no owner can log in to the dashboard: no permission is checked.
type userCommands struct {
	Create  userCreate  `cmd:"" help:"Add a user to an organisation."`
	List    userList    `cmd:"" help:"List the users of an organisation."`
	Invite  userInvite  `cmd:"" help:"Invite a person to an organisation; the link is printed once and works once."`
	SetRole userSetRole `cmd:"" help:"Change the role of a user."`
	Remove  userRemove  `cmd:"" help:"Remove a user: keys and sessions end, what they created stays."`
}

// userOutput is a user as --json prints it. Removed users are never printed.
type userOutput struct {
	ID        string       `json:"id"`
	OrgID     string       `json:"org_id"`
	Email     string       `json:"email"`
	Name      string       `json:"name"`
	Role      access.Role  `json:"role"`
	CreatedAt httpapi.Time `json:"created_at"`
}

func newUserOutput(u auth.User) userOutput {
	return userOutput{u.ID, u.OrgID, u.Email, u.Name, u.Role, httpapi.Time(u.CreatedAt)}
}

// userCreate adds a user without a password or a key; they log in through an identity
// provider or with a key of `key create --user`.
type userCreate struct {
	config.Database `embed:""`
	Org             string      `env:"-" default:"default" help:"Name of the organisation."`
	Email           string      `env:"-" required:"" help:"Email address of the user."`
	Name            string      `env:"-" help:"Name of the user."`
	Role            access.Role `env:"-" default:"member" enum:"viewer,member,admin,owner" help:"Role: ${enum}."`
}

// Run adds a user. An email address that the organisation has already is an error.
func (c *userCreate) Run(ctx context.Context, p *term.Program) error {
	return withOrg(ctx, c.Database, c.Org, func(ctx context.Context, s *auth.Service, o auth.Organisation) error {
		u, err := s.CreateUser(ctx, auth.NewUser{OrgID: o.ID, Email: c.Email, Name: c.Name, Role: c.Role})
		if err != nil {
			return err
		}
		return p.Print(newUserOutput(u), func(w io.Writer) { fmt.Fprintf(w, "%s\t%s\t%s\n", u.ID, u.Email, u.Role) })
	})
}

type userList struct {
	config.Database `embed:""`
	Org             string `env:"-" default:"default" help:"Name of the organisation."`
}

// Run lists the users of an organisation, without the removed ones: their rows stay,
// since other rows name them as authors.
func (c *userList) Run(ctx context.Context, p *term.Program) error {
	return withOrg(ctx, c.Database, c.Org, func(ctx context.Context, s *auth.Service, o auth.Organisation) error {
		users, err := s.Users(ctx, o.ID)
		if err != nil {
			return err
		}
		users = slices.DeleteFunc(users, func(u auth.User) bool { return u.RemovedAt != nil })
		out := make([]userOutput, len(users))
		for i, u := range users {
			out[i] = newUserOutput(u)
		}
		return p.Print(out, func(w io.Writer) {
			fmt.Fprintln(w, "ID\tEMAIL\tROLE")
			for _, u := range users {
				fmt.Fprintf(w, "%s\t%s\t%s\n", u.ID, u.Email, u.Role)
			}
		})
	})
}

// deviceCommands are the commands `whetstone device`: they decide a device login (RFC
// 8628) without a browser, e.g. for the first login of a new installation.
type deviceCommands struct {
	Approve deviceApprove `cmd:"" help:"Approve the login of a program that shows this code."`
	Deny    deviceDeny    `cmd:"" help:"Deny the login of a program that shows this code."`
}

// deviceApprove approves a device login.
type deviceApprove struct {
	deviceDecision `embed:""`
}

// Run approves the login.
func (c *deviceApprove) Run(ctx context.Context, p *term.Program) error {
	return c.decide(ctx, p, true)
}

// deviceDeny denies a device login; the waiting program reports that.
type deviceDeny struct {
	deviceDecision `embed:""`
}

// Run denies the login.
func (c *deviceDeny) Run(ctx context.Context, p *term.Program) error { return c.decide(ctx, p, false) }

// deviceDecision has the flags that approving and denying share.
type deviceDecision struct {
	config.Database `embed:""`
	Code            string `arg:"" help:"The code that the program shows."`
	Org             string `env:"-" default:"default" help:"Name of the organisation."`
	User            string `env:"-" help:"Email address of the user to log in as; the organisation's first owner when empty."`
}

// decide approves or denies the login with the code, on behalf of the user. An unknown
// or expired code is an error, as is one that was decided before.
func (c *deviceDecision) decide(ctx context.Context, p *term.Program, approve bool) error {
	return withOrg(ctx, c.Database, c.Org, func(ctx context.Context, s *auth.Service, o auth.Organisation) error {
		u, err := userOrOwner(ctx, s, o, c.User)
		if err != nil {
			return err
		}
		if err := s.DecideDevice(ctx, c.Code, u, approve); err != nil {
			return err
		}
		decision := map[bool]string{true: "approved", false: "denied"}[approve]
		return p.Print(map[string]string{"status": decision, "user_id": u.ID}, func(w io.Writer) {
			fmt.Fprintf(w, "The login was %s for %s.\n", decision, u.Email)
		})
	})
}

// userOrOwner finds a user by email address, or with "" the organisation's first owner
// that was not removed. An organisation without one needs an explicit --user.
func userOrOwner(ctx context.Context, s *auth.Service, o auth.Organisation, email string) (auth.User, error) {
	if email != "" {
		return s.UserByEmail(ctx, o.ID, email)
	}
	users, err := s.Users(ctx, o.ID)
	if err != nil {
		return auth.User{}, err
	}
	for _, u := range users {
		if u.Role == access.Owner && u.RemovedAt == nil {
			return u, nil
		}
	}
	return auth.User{}, fault.New(fault.NotFound, "The organisation %s has no owner; name a user with --user", o.Name)
}

// rekeyCommand re-encrypts secrets after a key was rotated: put the new key first in
// --secret-key, keep the old one behind it, run rekey, then drop the old one.
type rekeyCommand struct {
	config.Database `embed:""`
	SecretKey       config.Secret `placeholder:"KEY,..." help:"The keys: the first encrypts, all decrypt; secret.key in --data when empty."`
}

// Run encrypts all secrets of the database with the first key. It prints how many
// values it re-encrypted.
func (c *rekeyCommand) Run(ctx context.Context, p *term.Program) error {
	count, err := app.Rekey(ctx, c.Database, c.SecretKey)
	if err != nil {
		return err
	}
	return p.Print(map[string]int{"resealed": count}, func(w io.Writer) {
		fmt.Fprintf(w, "Re-encrypted %s; all secrets are now encrypted with the first key.\n", term.Count(count, "value"))
	})
}
