package account

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// accountCommands are the commands `whetstone service-account`: accounts for machines,
// e.g. a deployment. They need the permission admin.
type accountCommands struct {
	List      accountList   `cmd:"" help:"List the service accounts of the organisation."`
	Create    accountCreate `cmd:"" help:"Create a service account: a machine with a name and a role."`
	Update    accountUpdate `cmd:"" help:"Change the name or the role of a service account."`
	Delete    accountDelete `cmd:"" help:"Delete a service account: its keys stop working, what it created stays."`
	CreateKey accountKey    `cmd:"" help:"Create a key of a service account; it is printed once."`
	Keys      accountKeys   `cmd:"" help:"List the keys of a service account."`
	RevokeKey accountRevoke `cmd:"" help:"Revoke a key of a service account."`
}

// The paths of keys and of their policy, which have no list of their own here.
const (
	keysPath   = "/api/v1/keys"
	policyPath = "/api/v1/key-policy"
)

// serviceAccounts is the list of service accounts, and how it is printed.
var serviceAccounts = server.Resource[api.ServiceAccount]{
	Path: "/api/v1/service-accounts", Field: "service_accounts", List: term.List[api.ServiceAccount]{
		None: "No service accounts; `whetstone service-account create NAME` makes one.",
		Head: "ID\tNAME\tROLE\tKEYS\tSINCE\tLAST USED",
		Row: func(a api.ServiceAccount) []any {
			return []any{a.ID, term.Cell(a.Name), a.Role, a.Keys, term.Day(&a.CreatedAt), term.Day(a.LastUsedAt)}
		},
	},
}

// serviceAccountAnswer is the reply to a creation or a change.
type serviceAccountAnswer struct {
	Account api.ServiceAccount `json:"service_account"`
}

// findAccount returns the service account with that name or id. Names are unique among
// the accounts that were not deleted.
func findAccount(ctx context.Context, s *server.Session, who string) (api.ServiceAccount, error) {
	return serviceAccounts.Find(ctx, s,
		"No service account has the name or id "+who+"; `whetstone service-account list` shows them",
		func(a api.ServiceAccount) bool { return a.ID == who || a.Name == who })
}

// accountList lists service accounts.
type accountList struct {
	server.Flags `embed:""`
	Deleted      bool `env:"-" help:"List those that were deleted instead."`
}

// Run lists the active service accounts, or the deleted ones.
func (c *accountList) Run(ctx context.Context, p *term.Program) error {
	query := url.Values{}
	if c.Deleted {
		query.Set("state", "deleted")
	}
	return serviceAccounts.Show(ctx, p, &c.Flags, query)
}

// accountCreate has the flags of a new service account. The role owner is for people
// only.
type accountCreate struct {
	server.Flags `embed:""`
	Name         string `arg:"" help:"Name: lower-case letters, digits, dots, hyphens and underscores."`
	Role         string `env:"-" default:"member" enum:"viewer,member,admin" help:"Role: ${enum}."`
}

// Run creates a service account, without a key: create-key makes one for each program.
func (c *accountCreate) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		var out serviceAccountAnswer
		body := map[string]string{"name": c.Name, "role": c.Role}
		if err := s.Call(ctx, http.MethodPost, serviceAccounts.Path, body, &out); err != nil {
			return err
		}
		return p.Print(out.Account, func(w io.Writer) {
			fmt.Fprintf(w, "Created %s with the role %s; `whetstone service-account create-key %s` makes a key.\n",
				out.Account.Name, out.Account.Role, out.Account.Name)
		})
	})
}

// accountUpdate has the fields to change; an empty one stays as it is.
type accountUpdate struct {
	server.Flags `embed:""`
	Account      string `arg:"" help:"Name or id of the service account."`
	Name         string `env:"-" help:"The new name."`
	Role         string `env:"-" help:"The new role: viewer, member or admin."`
}

// Run changes the name or the role of a service account. A flag that is left out
// changes nothing.
func (c *accountUpdate) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		a, err := findAccount(ctx, s, c.Account)
		if err != nil {
			return err
		}
		body := map[string]string{}
		if c.Name != "" {
			body["name"] = c.Name
		}
		if c.Role != "" {
			body["role"] = c.Role
		}
		var out serviceAccountAnswer
		if err := s.Call(ctx, http.MethodPatch, serviceAccounts.At(a.ID), body, &out); err != nil {
			return err
		}
		return p.Print(out.Account, func(w io.Writer) {
			fmt.Fprintf(w, "%s has the role %s.\n", term.Plain(out.Account.Name), out.Account.Role)
		})
	})
}

// accountDelete deletes a service account.
type accountDelete struct {
	server.Flags `embed:""`
	Account      string `arg:"" help:"Name or id of the service account."`
	Cascade      bool   `env:"-" help:"Also revoke the keys that were created with its keys."`
	Yes          bool   `env:"-" short:"y" help:"Do not ask."`
}

// Run deletes a service account after a confirmation. Without a terminal it needs
// --yes, as programs that use its keys stop working.
func (c *accountDelete) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		a, err := findAccount(ctx, s, c.Account)
		if err != nil {
			return err
		}
		question := fmt.Sprintf("Delete %s? Programs that use its keys (%d) stop working; what it made stays.",
			term.Plain(a.Name), a.Keys)
		if !c.Yes && !p.Confirm(ctx, question) {
			return fault.New(fault.Conflict, "Nothing was changed; answer yes, or use --yes")
		}
		path := serviceAccounts.At(a.ID)
		if c.Cascade {
			path += "?cascade=true"
		}
		return s.Delete(ctx, p, path, a.ID, "deleted", "Deleted; its keys end within five seconds.")
	})
}

// accountKey has the flags of a new key.
type accountKey struct {
	server.Flags `embed:""`
	Account      string          `arg:"" help:"Name or id of the service account."`
	Name         string          `env:"-" default:"command line" help:"What the key is for."`
	Permissions  []string        `env:"-" help:"Limit the key to these permissions."`
	Expires      config.Duration `env:"-" placeholder:"90d" help:"Lifetime of the key; as long as the key policy and your own key allow when empty."`
	Allow        []string        `env:"-" placeholder:"CIDR,..." help:"Networks from which the key works, e.g. 10.0.0.0/8; all when empty."`
}

// Run creates a key of a service account and prints it alone, so that a script can
// capture it. The key is not shown again.
func (c *accountKey) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		a, err := findAccount(ctx, s, c.Account)
		if err != nil {
			return err
		}
		body := map[string]any{"name": c.Name, "service_account_id": a.ID}
		if len(c.Permissions) > 0 {
			body["permissions"] = c.Permissions
		}
		if len(c.Allow) > 0 {
			body["allowed_ips"] = c.Allow
		}
		if c.Expires > 0 {
			body["expires_at"] = time.Now().UTC().Add(time.Duration(c.Expires))
		}
		var out struct {
			Key    api.Key `json:"key"`
			APIKey string  `json:"api_key"`
		}
		if err := s.Call(ctx, http.MethodPost, keysPath, body, &out); err != nil {
			return err
		}
		return p.Print(out, func(w io.Writer) { fmt.Fprintln(w, out.APIKey) })
	})
}

// accountKeys lists the keys of one account.
type accountKeys struct {
	server.Flags `embed:""`
	Account      string `arg:"" help:"Name or id of the service account."`
}

// Run lists the keys of a service account, including revoked and expired ones.
func (c *accountKeys) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		a, err := findAccount(ctx, s, c.Account)
		if err != nil {
			return err
		}
		found, err := client.List[api.Key](ctx, s.Client, keysPath, "keys", url.Values{"service_account_id": {a.ID}})
		if err != nil {
			return err
		}
		return term.List[api.Key]{
			None: fmt.Sprintf("No keys; `whetstone service-account create-key %s` makes one.", term.Plain(a.Name)),
			Head: "ID\tNAME\tPREFIX\tALLOWED FROM\tLAST USED\tEXPIRES\tREVOKED",
			Row: func(k api.Key) []any {
				return []any{
					k.ID, term.Cell(k.Name), k.Prefix, cmp.Or(strings.Join(k.AllowedIPs, " "), "everywhere"),
					term.Day(k.LastUsedAt), term.Day(k.ExpiresAt), term.Day(k.RevokedAt),
				}
			},
		}.Print(p, found)
	})
}

// accountRevoke revokes a key by its id, which `service-account keys` prints.
type accountRevoke struct {
	server.Flags `embed:""`
	ID           string `arg:"" help:"Id of the key."`
}

// Run revokes a key. It ends when the servers' caches of keys expire, within five
// seconds.
func (c *accountRevoke) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		return s.Delete(ctx, p, keysPath+"/"+url.PathEscape(c.ID), c.ID, "revoked", "Revoked; it ends within five seconds.")
	})
}

// policyCommands are the commands `whetstone key-policy`.
type policyCommands struct {
	Show policyShow `cmd:"" default:"withargs" help:"Show the policy for new API keys."`
	Set  policySet  `cmd:"" help:"Set the policy for new API keys."`
}

// printPolicy prints the policy in sentences.
func printPolicy(p *term.Program, k api.KeyPolicy) error {
	return p.Print(k, func(w io.Writer) {
		life, from := "New keys need not expire.", "They need no list of networks."
		if k.MaxDays != nil {
			life = fmt.Sprintf("New keys expire after at most %d days.", *k.MaxDays)
		}
		if k.RequireAllowedIPs {
			from = "They must list the networks from which they work."
		}
		fmt.Fprintln(w, life, from)
		if k.ViolatingKeys > 0 {
			fmt.Fprintf(w, "%s of before, still active, without that.\n", term.Count(k.ViolatingKeys, "key"))
		}
	})
}

// policyShow shows the key policy.
type policyShow struct {
	server.Flags `embed:""`
}

// Run shows the key policy of the organisation.
func (c *policyShow) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		var out api.KeyPolicy
		if err := s.Call(ctx, http.MethodGet, policyPath, nil, &out); err != nil {
			return err
		}
		return printPolicy(p, out)
	})
}

// policySet has the whole policy: a flag that is left out lifts that rule.
type policySet struct {
	server.Flags      `embed:""`
	MaxDays           int  `env:"-" placeholder:"N" help:"How long a new key lives at most, in days; keys need not expire when 0."`
	RequireAllowedIPs bool `name:"require-allowed-ips" env:"-" help:"New keys must list the networks from which they work."`
}

// Run replaces the key policy. Existing keys stay valid; the output counts those that
// break it.
func (c *policySet) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		body := map[string]any{"require_allowed_ips": c.RequireAllowedIPs}
		if c.MaxDays != 0 {
			body["max_days"] = c.MaxDays
		}
		var out api.KeyPolicy
		if err := s.Call(ctx, http.MethodPut, policyPath, body, &out); err != nil {
			return err
		}
		return printPolicy(p, out)
	})
}
