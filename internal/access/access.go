// Package access says who is calling and what they may do: plans, roles,
// permissions, and the caller that a request's context carries.
package access

import (
	"context"
	"slices"
)

// A Plan is what an organisation has bought. Each includes the ones before it.
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

// A Permission is one thing a role or key allows.
type Permission string

// The permissions.
const (
	Read  Permission = "read"
	Write Permission = "write"
	// TelemetryWrite is all that a machine needs that reports sessions: push,
	// OTLP, signals and bundles. Write includes it.
	TelemetryWrite   Permission = "telemetry:write"
	RegistryPush     Permission = "registry:push"
	RegistryInstall  Permission = "registry:install"
	RegistryRollback Permission = "registry:rollback"
	RegistryDelete   Permission = "registry:delete"
	Admin            Permission = "admin"
)

// Allows reports whether one of the permissions held is p or includes it.
func Allows(held []Permission, p Permission) bool {
	return slices.Contains(held, p) || p == TelemetryWrite && slices.Contains(held, Write)
}

// A Role is a person's place in an organisation.
type Role string

// The roles, least first.
const (
	Viewer      Role = "viewer"
	Member      Role = "member"
	AdminRole   Role = "admin"
	Owner       Role = "owner"
	DefaultRole      = Member
)

// Roles lists all roles, least first.
func Roles() []Role { return []Role{Viewer, Member, AdminRole, Owner} }

// Valid reports whether r is one of the roles.
func (r Role) Valid() bool { return slices.Contains(Roles(), r) }

// Includes reports whether r is q or higher.
func (r Role) Includes(q Role) bool {
	return slices.Index(Roles(), r) >= slices.Index(Roles(), q)
}

// Permissions lists what the role allows; nothing for an unknown role.
func (r Role) Permissions() []Permission {
	all := []Permission{
		Read, Write, TelemetryWrite, RegistryPush, RegistryInstall, RegistryRollback, Admin, RegistryDelete,
	}
	count := map[Role]int{Viewer: 1, Member: 5, AdminRole: 7, Owner: 8}
	return all[:count[r]]
}

// A Caller is the organisation and person behind a request's key.
type Caller struct {
	OrgID, OrgName      string
	UserID, Email, Name string
	KeyID               string
	Plan                Plan
	Role                Role
	Permissions         []Permission // the role's, narrowed by the key
	Relay               bool         // the key passes on what others contribute
}

// May reports whether the caller has the permission.
func (c Caller) May(p Permission) bool { return Allows(c.Permissions, p) }

// Narrowed reports whether the key allows less than the caller's role does.
func (c Caller) Narrowed() bool { return len(c.Permissions) < len(c.Role.Permissions()) }

type contextKey struct{}

// With returns a context that carries the caller.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// From returns the caller that the context carries; the zero Caller on routes
// that ask for no key.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(contextKey{}).(Caller)
	return c
}
