package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/claims"
)

// withClaims opens the database for a command about claims: which organisation an
// account of the code host is assigned to. The server may be running.
func withClaims(
	ctx context.Context, d config.Database,
	do func(ctx context.Context, db *store.DB, orgs *auth.Service) error,
) error {
	return withAuth(ctx, d, func(ctx context.Context, s *auth.Service) error {
		return do(ctx, s.DB, s)
	})
}

// repohostAllow assigns an account, e.g. "acme" of github.com/acme, to an organisation.
type repohostAllow struct {
	config.Database `embed:""`
	Org             string `arg:"" help:"Name of the organisation."`
	Account         string `arg:"" help:"Login of the account on the code host."`
	Move            bool   `env:"-" help:"Take it from the organisation that has it."`
}

// Run assigns an account to an organisation. Without --move, an account that another
// organisation has is a conflict.
func (c *repohostAllow) Run(ctx context.Context, p *term.Program) error {
	if err := allowAccount(ctx, c.Database, c.Org, c.Account, c.Move); err != nil {
		return err
	}
	return p.Print(map[string]string{"account": host.AccountKey(c.Account), "organisation": c.Org}, func(w io.Writer) {
		fmt.Fprintf(w, "The account %s is assigned to %s.\n", c.Account, c.Org)
	})
}

// allowAccount assigns the account to the organisation with that name.
func allowAccount(ctx context.Context, d config.Database, org, account string, move bool) error {
	return withClaims(ctx, d, func(ctx context.Context, db *store.DB, orgs *auth.Service) error {
		o, err := orgs.OrgByName(ctx, org)
		if err != nil {
			return err
		}
		return claims.Allow(ctx, db, o.ID, account, move)
	})
}

// repohostRelease takes an account from its organisation, whose installations of it
// become inactive.
type repohostRelease struct {
	config.Database `embed:""`
	Account         string `arg:"" help:"Login of the account on the code host."`
}

// Run removes an account from its organisation.
func (c *repohostRelease) Run(ctx context.Context, p *term.Program) error {
	return withClaims(ctx, c.Database, func(ctx context.Context, db *store.DB, _ *auth.Service) error {
		if err := claims.Release(ctx, db, c.Account); err != nil {
			return err
		}
		return p.Print(map[string]string{"account": host.AccountKey(c.Account)}, func(w io.Writer) {
			fmt.Fprintf(w, "The account %s is no longer assigned to an organisation.\n", c.Account)
		})
	})
}

// repohostClaims lists the claims of all organisations.
type repohostClaims struct {
	config.Database `embed:""`
}

// claimOutput is a claim as --json prints it.
type claimOutput struct {
	Account      string       `json:"account"`
	Organisation string       `json:"organisation"` // "" for a contested account
	BoundBy      []string     `json:"bound_by"`
	ClaimedAt    httpapi.Time `json:"claimed_at"`
}

// Run lists the accounts with their organisations. BoundBy names the organisations that
// are connected to the account; with several the account is contested and belongs to
// none until the operator assigns it.
func (c *repohostClaims) Run(ctx context.Context, p *term.Program) error {
	return withClaims(ctx, c.Database, func(ctx context.Context, db *store.DB, orgs *auth.Service) error {
		all, err := claims.All(ctx, db)
		if err != nil {
			return err
		}
		known, err := orgs.Orgs(ctx)
		if err != nil {
			return err
		}
		names := map[string]string{}
		for _, o := range known {
			names[o.ID] = o.Name
		}
		out := make([]claimOutput, len(all))
		for i, claim := range all {
			out[i] = claimOutput{claim.Account, names[claim.OrgID], []string{}, httpapi.Time(claim.ClaimedAt)}
			for _, id := range claim.BoundBy {
				out[i].BoundBy = append(out[i].BoundBy, names[id])
			}
		}
		return term.List[claimOutput]{
			Head: "ACCOUNT\tORGANISATION\tBOUND BY",
			Row: func(o claimOutput) []any {
				return []any{
					o.Account, cmp.Or(o.Organisation, "contested: assign it with `repohost allow`"),
					cmp.Or(strings.Join(o.BoundBy, ", "), "none"),
				}
			},
		}.Print(p, out)
	})
}
