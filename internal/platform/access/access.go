// Package access has the vocabulary of authorization: plans, roles, permissions,
// and the caller of a request, which its context carries. It owns no tables.
package access

import (
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fair"
)

// A Plan is the subscription of an organisation. Each includes the lower ones.
type Plan string

// The plans, lowest first.
const (
	Free       Plan = "free"
	Pro        Plan = "pro"
	Team       Plan = "team"
	Enterprise Plan = "enterprise"
)

// Plans lists all plans, lowest first.
func Plans() []Plan { return []Plan{Free, Pro, Team, Enterprise} }

// Valid reports whether p is one of the plans.
func (p Plan) Valid() bool { return slices.Contains(Plans(), p) }

// Includes reports whether p is q or higher.
func (p Plan) Includes(q Plan) bool {
	return slices.Index(Plans(), p) >= slices.Index(Plans(), q)
}

// A Permission is one thing that a role or a key allows.
type Permission string

// The permissions.
const (
	Read  Permission = "read"
	Write Permission = "write"
	// TelemetryWrite is all that a machine needs to report sessions: push, OTLP,
	// signals and bundles. Write includes it.
	TelemetryWrite   Permission = "telemetry:write"
	RegistryPush     Permission = "registry:push"
	RegistryInstall  Permission = "registry:install"
	RegistryRollback Permission = "registry:rollback"
	RegistryDelete   Permission = "registry:delete"
	Admin            Permission = "admin"
	// EvidenceRead is to read what other people said to their agents, where the
	// organisation keeps it.
	EvidenceRead Permission = "evidence:read"
)

// Allows reports whether the held permissions include p.
func Allows(held []Permission, p Permission) bool {
	return slices.Contains(held, p) || p == TelemetryWrite && slices.Contains(held, Write)
}

// A Role is a person's role in an organisation.
type Role string

// The roles, lowest first.
const (
	Viewer      Role = "viewer"
	Member      Role = "member"
	AdminRole   Role = "admin"
	Owner       Role = "owner"
	DefaultRole      = Member
)

// Roles lists all roles, lowest first.
func Roles() []Role { return []Role{Viewer, Member, AdminRole, Owner} }

// Valid reports whether r is one of the roles.
func (r Role) Valid() bool { return slices.Contains(Roles(), r) }

// Includes reports whether r is q or higher.
func (r Role) Includes(q Role) bool {
	return slices.Index(Roles(), r) >= slices.Index(Roles(), q)
}

// Permissions lists the permissions of a role; none for an unknown role. Each role
// has those of the lower ones.
func (r Role) Permissions() []Permission {
	all := []Permission{
		Read, Write, TelemetryWrite, RegistryPush, RegistryInstall, RegistryRollback, Admin, EvidenceRead,
		RegistryDelete,
	}
	count := map[Role]int{Viewer: 1, Member: 5, AdminRole: 8, Owner: 9}
	return all[:count[r]]
}

// A Caller is the person or service account, organisation and key that make a request.
type Caller struct {
	OrgID, OrgName      string
	UserID, Email, Name string
	KeyID               string
	Plan                Plan
	Role                Role
	Permissions         []Permission // the role's, narrowed by the key
	Relay               bool         // the key passes on signals of other contributors
	DeviceID            string       // of the machine that logged in for the key, "" when unknown
	// the registry entry that the key pushes versions of, and does nothing else; "" for all other keys
	EntryID        string
	ServiceAccount bool // the user is a service account: no person is behind it
}

// May reports whether the caller has the permission.
func (c Caller) May(p Permission) bool { return Allows(c.Permissions, p) }

// Narrowed reports whether the key allows less than the caller's role does.
func (c Caller) Narrowed() bool { return len(c.Permissions) < len(c.Role.Permissions()) }

// Owns reports whether a caller owns what an id names, e.g. an entry of the registry,
// and so may do with it what the caller's role alone does not allow.
type Owns func(ctx context.Context, c Caller, id string) (bool, error)

type contextKey struct{}

// With returns a context that carries the caller, whose organisation takes its turn in
// queues.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(fair.WithTenant(ctx, c.OrgID), contextKey{}, c)
}

// From returns the caller that the context carries; the zero Caller on public
// routes.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(contextKey{}).(Caller)
	return c
}
