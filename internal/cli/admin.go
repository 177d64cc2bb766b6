package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/config"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/quota"
)

// withAuth opens the database, migrated, for one command of administration.
// The server may run meanwhile.
func withAuth(ctx context.Context, d config.Database, do func(ctx context.Context, s *auth.Service) error) error {
	db, err := app.OpenDatabase(ctx, d)
	if err != nil {
		return err
	}
	defer db.Close()
	return do(audit.By(ctx, audit.CLI), &auth.Service{DB: db, Log: slog.New(slog.DiscardHandler)})
}

// withOrg is withAuth for a command about one organisation.
func withOrg(ctx context.Context, d config.Database, name string, do func(ctx context.Context, s *auth.Service, o auth.Organisation) error) error {
	return withAuth(ctx, d, func(ctx context.Context, s *auth.Service) error {
		o, err := s.OrgByName(ctx, name)
		if err != nil {
			return err
		}
		return do(ctx, s, o)
	})
}

type orgCommands struct {
	Create  orgCreate  `cmd:"" help:"Make an organisation."`
	List    orgList    `cmd:"" help:"List all organisations."`
	SetPlan orgSetPlan `cmd:"" help:"Change the plan of an organisation."`
}

type orgOutput struct {
	ID        string       `json:"id"`
	Name      string       `json:"name"`
	Plan      access.Plan  `json:"plan"`
	CreatedAt httpapi.Time `json:"created_at"`
}

func newOrgOutput(o auth.Organisation) orgOutput {
	return orgOutput{o.ID, o.Name, o.Plan, httpapi.Time(o.CreatedAt)}
}

// listedOrg is an organisation and how much it stores.
type listedOrg struct {
	orgOutput
	BytesUsed int64 `json:"bytes_used"`
}

func (p *Program) printOrg(o auth.Organisation) error {
	return p.print(newOrgOutput(o), func(w io.Writer) {
		fmt.Fprintf(w, "%s\t%s\t%s\n", o.ID, o.Name, o.Plan)
	})
}

type orgCreate struct {
	config.Database `embed:""`
	Name            string      `arg:"" help:"Name of the organisation."`
	Plan            access.Plan `env:"-" default:"team" enum:"free,pro,team,enterprise" help:"Its plan: ${enum}."`
}

// Run makes an organisation.
func (c *orgCreate) Run(ctx context.Context, p *Program) error {
	return withAuth(ctx, c.Database, func(ctx context.Context, s *auth.Service) error {
		o, err := s.CreateOrg(ctx, c.Name, c.Plan)
		if err != nil {
			return err
		}
		return p.printOrg(o)
	})
}

type orgList struct {
	config.Database `embed:""`
}

// Run lists all organisations.
func (c *orgList) Run(ctx context.Context, p *Program) error {
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
		return p.print(out, func(w io.Writer) {
			for _, o := range out {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", o.ID, o.Name, o.Plan, quota.Bytes(o.BytesUsed).Short())
			}
		})
	})
}

type orgSetPlan struct {
	config.Database `embed:""`
	Name            string      `arg:"" help:"Name of the organisation."`
	Plan            access.Plan `arg:"" enum:"free,pro,team,enterprise" help:"Its new plan: ${enum}."`
}

// Run changes a plan.
func (c *orgSetPlan) Run(ctx context.Context, p *Program) error {
	return withAuth(ctx, c.Database, func(ctx context.Context, s *auth.Service) error {
		o, err := s.SetPlan(ctx, c.Name, c.Plan)
		if err != nil {
			return err
		}
		return p.printOrg(o)
	})
}

type userCommands struct {
	Create userCreate `cmd:"" help:"Add a person to an organisation."`
	List   userList   `cmd:"" help:"List the people of an organisation."`
}

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

type userCreate struct {
	config.Database `embed:""`
	Org             string      `env:"-" default:"default" help:"Name of the organisation."`
	Email           string      `env:"-" required:"" help:"Address of the person."`
	Name            string      `env:"-" help:"Name of the person."`
	Role            access.Role `env:"-" default:"member" enum:"viewer,member,admin,owner" help:"Role: ${enum}."`
}

// Run adds a person.
func (c *userCreate) Run(ctx context.Context, p *Program) error {
	return withOrg(ctx, c.Database, c.Org, func(ctx context.Context, s *auth.Service, o auth.Organisation) error {
		u, err := s.CreateUser(ctx, auth.NewUser{OrgID: o.ID, Email: c.Email, Name: c.Name, Role: c.Role})
		if err != nil {
			return err
		}
		return p.print(newUserOutput(u), func(w io.Writer) { fmt.Fprintf(w, "%s\t%s\t%s\n", u.ID, u.Email, u.Role) })
	})
}

type userList struct {
	config.Database `embed:""`
	Org             string `env:"-" default:"default" help:"Name of the organisation."`
}

// Run lists the people of an organisation.
func (c *userList) Run(ctx context.Context, p *Program) error {
	return withOrg(ctx, c.Database, c.Org, func(ctx context.Context, s *auth.Service, o auth.Organisation) error {
		users, err := s.Users(ctx, o.ID)
		if err != nil {
			return err
		}
		out := make([]userOutput, len(users))
		for i, u := range users {
			out[i] = newUserOutput(u)
		}
		return p.print(out, func(w io.Writer) {
			for _, u := range users {
				fmt.Fprintf(w, "%s\t%s\t%s\n", u.ID, u.Email, u.Role)
			}
		})
	})
}

type deviceCommands struct {
	Approve deviceApprove `cmd:"" help:"Let a program in that shows this code."`
	Deny    deviceDeny    `cmd:"" help:"Turn a program away that shows this code."`
}

type deviceApprove struct {
	deviceDecision `embed:""`
}

// Run lets the program in.
func (c *deviceApprove) Run(ctx context.Context, p *Program) error { return c.decide(ctx, p, true) }

type deviceDeny struct {
	deviceDecision `embed:""`
}

// Run turns the program away.
func (c *deviceDeny) Run(ctx context.Context, p *Program) error { return c.decide(ctx, p, false) }

type deviceDecision struct {
	config.Database `embed:""`
	Code            string `arg:"" help:"The code that the program shows."`
	Org             string `env:"-" default:"default" help:"Name of the organisation."`
	User            string `env:"-" help:"Address of the person on whose behalf; the organisation's first owner when empty."`
}

func (c *deviceDecision) decide(ctx context.Context, p *Program, approve bool) error {
	return withOrg(ctx, c.Database, c.Org, func(ctx context.Context, s *auth.Service, o auth.Organisation) error {
		u, err := personOf(ctx, s, o, c.User)
		if err != nil {
			return err
		}
		if err := s.DecideDevice(ctx, c.Code, u, approve); err != nil {
			return err
		}
		decision := map[bool]string{true: "approved", false: "denied"}[approve]
		return p.print(map[string]string{"status": decision, "user_id": u.ID}, func(w io.Writer) {
			fmt.Fprintf(w, "The login was %s for %s.\n", decision, u.Email)
		})
	})
}

// personOf finds the person by address, or the organisation's first owner.
func personOf(ctx context.Context, s *auth.Service, o auth.Organisation, email string) (auth.User, error) {
	if email != "" {
		return s.UserByEmail(ctx, o.ID, email)
	}
	users, err := s.Users(ctx, o.ID)
	if err != nil {
		return auth.User{}, err
	}
	for _, u := range users {
		if u.Role == access.Owner {
			return u, nil
		}
	}
	return auth.User{}, fault.New(fault.NotFound, "The organisation %s has no owner; name a person with --user", o.Name)
}
