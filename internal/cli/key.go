package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/keyrules"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// keyCommands are the commands `whetstone key`. Unlike the API they check no
// permission: they can create an owner's key when all owners are locked out.
type keyCommands struct {
	Create keyCreate `cmd:"" help:"Create an API key; it is printed once."`
	List   keyList   `cmd:"" help:"List the API keys of an organisation."`
	Revoke keyRevoke `cmd:"" help:"Revoke an API key."`
}

// keyCreate has the flags of a new key.
type keyCreate struct {
	config.Database `embed:""`
	Org             string              `env:"-" default:"default" help:"Name of the organisation."`
	User            string              `env:"-" help:"Email address of the holder; a machine user when empty. For a new person, give --role as well."`
	Role            access.Role         `env:"-" help:"Role of a new holder: viewer, member, admin or owner."`
	Permissions     []access.Permission `env:"-" help:"Limit the key to these permissions, e.g. telemetry:write for a machine that reports sessions."`
	Name            string              `env:"-" default:"command line" help:"What the key is for."`
	Expires         config.Duration     `env:"-" placeholder:"30d" help:"Lifetime of the key; when empty, as long as the key policy allows, or forever."`
	Allow           []string            `env:"-" placeholder:"CIDR,..." help:"Networks from which the key works, e.g. 10.0.0.0/8; all when empty."`
	Relay           bool                `env:"-" help:"For a server that relays contributors' signals: the key may name the contributors (user_cohort)."`
}

// keyCreateOutput is the new key as --json prints it. APIKey is in no other output: the
// database has only its hash.
type keyCreateOutput struct {
	ID          string              `json:"id"`
	APIKey      string              `json:"api_key"`
	OrgID       string              `json:"org_id"`
	UserID      string              `json:"user_id"`
	Plan        access.Plan         `json:"plan"`
	Role        access.Role         `json:"role"`
	Permissions []access.Permission `json:"permissions"`
	Relay       bool                `json:"relay,omitempty"`
}

// Run creates a key and prints it alone on standard output, so that a script can
// capture it. A holder who is unknown is created, but only with --role: a typing error in
// an address must not make a member.
func (c *keyCreate) Run(ctx context.Context, p *term.Program) error {
	return withOrg(ctx, c.Database, c.Org, func(ctx context.Context, s *auth.Service, o auth.Organisation) error {
		n := auth.NewKey{OrgID: o.ID, Name: c.Name, Permissions: c.Permissions, Relay: c.Relay}
		if c.Expires > 0 {
			at := time.Now().Add(time.Duration(c.Expires))
			n.ExpiresAt = &at
		}
		allowed, err := keyrules.ParseAllowList(c.Allow)
		if err != nil {
			return err
		}
		n.AllowedIPs = allowed
		u, k, raw, err := s.IssueKey(ctx, auth.Holder{Email: c.User, Role: c.Role}, n)
		if err != nil {
			return err
		}
		out := keyCreateOutput{k.ID, raw, o.ID, u.ID, o.Plan, u.Role, c.Permissions, c.Relay}
		// Without --permissions the key has all permissions of its holder's role.
		if out.Permissions == nil {
			out.Permissions = u.Role.Permissions()
		}
		return p.Print(out, func(w io.Writer) { fmt.Fprintln(w, raw) })
	})
}

type keyList struct {
	config.Database `embed:""`
	Org             string `env:"-" default:"default" help:"Name of the organisation."`
}

// keyOutput is a key as --json prints it, without the secret: Prefix is its public
// beginning, by which people recognise it.
type keyOutput struct {
	ID          string              `json:"id"`
	UserID      string              `json:"user_id"`
	Name        string              `json:"name"`
	Prefix      string              `json:"prefix"`
	Permissions []access.Permission `json:"permissions"`
	CreatedAt   httpapi.Time        `json:"created_at"`
	LastUsedAt  *httpapi.Time       `json:"last_used_at"`
	ExpiresAt   *httpapi.Time       `json:"expires_at"`
	RevokedAt   *httpapi.Time       `json:"revoked_at"`
	CreatedBy   *string             `json:"created_by_key"`
	Login       bool                `json:"login"`
	Relay       bool                `json:"relay,omitempty"`
	AllowedIPs  []string            `json:"allowed_ips"`
}

// maxListed limits the list of keys. It is read as one page, because no organisation is
// expected to have more.
const maxListed = 10_000

// Run lists the keys of an organisation, including revoked and expired ones.
func (c *keyList) Run(ctx context.Context, p *term.Program) error {
	return withOrg(ctx, c.Database, c.Org, func(ctx context.Context, s *auth.Service, o auth.Organisation) error {
		keys, _, err := s.Keys(ctx, o.ID, store.Page{Limit: maxListed})
		if err != nil {
			return err
		}
		out := make([]keyOutput, len(keys))
		for i, k := range keys {
			out[i] = keyOutput{
				k.ID, k.UserID, k.Name, k.Prefix, k.Permissions, httpapi.Time(k.CreatedAt),
				httpapi.NullTime(k.LastUsedAt), httpapi.NullTime(k.ExpiresAt), httpapi.NullTime(k.RevokedAt), k.CreatedByKey,
				k.Login, k.Relay, k.AllowedIPs.Strings(),
			}
		}
		return p.Print(out, func(w io.Writer) {
			fmt.Fprintln(w, "NAME\tKEY\tSTATE\tKEY ID") // key revoke wants the id
			for _, k := range keys {
				fmt.Fprintf(w, "%s\t%s...\t%s\t%s\n", k.Name, k.Prefix, k.State(), k.ID)
			}
		})
	})
}

// keyRevoke revokes a key by its id, which `key list` prints.
type keyRevoke struct {
	config.Database `embed:""`
	ID              string `arg:"" help:"Id of the key."`
	Org             string `env:"-" default:"default" help:"Name of the organisation."`
	Cascade         bool   `env:"-" help:"Also revoke the keys that were created with it, directly or indirectly: for a stolen key."`
}

// keyRevokeOutput is the result of a revocation, as --json prints it.
type keyRevokeOutput struct {
	ID     string   `json:"id"`
	Status string   `json:"status"`
	Left   []string `json:"made_keys_left"` // ids of active keys that were created with it
}

// Run revokes a key. The operator may revoke any key, no matter who created it. Keys
// that were created with it stay active without --cascade, so the output lists them:
// whoever stole a key may have made others with it.
func (c *keyRevoke) Run(ctx context.Context, p *term.Program) error {
	return withOrg(ctx, c.Database, c.Org, func(ctx context.Context, s *auth.Service, o auth.Organisation) error {
		revoke := s.RevokeKey
		if c.Cascade {
			revoke = s.RevokeKeyAndMade
		}
		if err := revoke(ctx, o.ID, c.ID); err != nil {
			return err
		}
		made, err := s.MadeKeys(ctx, o.ID)
		if err != nil {
			return err
		}
		out := keyRevokeOutput{c.ID, "revoked", []string{}}
		for _, k := range made[c.ID] {
			out.Left = append(out.Left, k.ID)
		}
		return p.Print(out, func(w io.Writer) {
			fmt.Fprintln(w, "Revoked; a running server refuses the key within five seconds.")
			if len(out.Left) > 0 {
				fmt.Fprintf(w, "%s created with it and still active. "+
					"If the key was stolen, revoke them, too, with --cascade:\n", term.Count(len(out.Left), "key"))
			}
			for _, k := range made[c.ID] {
				fmt.Fprintf(w, "%s\t%s...\t%s\n", k.ID, k.Prefix, k.Name)
			}
		})
	})
}
