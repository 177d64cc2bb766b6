package signin

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// assignRole gives a member, who is locked, the role that their groups have at a provider.
// It lowers a role only as far as neither a person nor another provider gave more, and the
// last owner stays one. Who gave what is stored separately, users.given_role for people and
// identities.role for providers, so that one of them can take back only what it gave.
func assignRole(ctx context.Context, tx *store.Tx, u auth.User, issuer string, role access.Role) (auth.User, error) {
	if !role.Includes(u.Role) {
		given, err := rolesBeside(ctx, tx, u, issuer)
		if err != nil {
			return u, err
		}
		for _, g := range given {
			if !role.Includes(g) {
				role = g
			}
		}
		// If lowering isn't possible, the role stays exactly as it is.
		if last, err := isLastOwner(ctx, tx, u); err != nil || last || role.Includes(u.Role) {
			return u, err // what was given is no reason to raise it
		}
	}
	if u.Role == role {
		return u, nil
	}
	before := u.Role
	u.Role = role
	if err := updateRole(ctx, tx, u); err != nil {
		return u, err
	}
	return u, audit.Record(ctx, tx, audit.Entry{
		OrgID: u.OrgID, Action: "auth.user.set-role", Target: audit.Target{Kind: "user", ID: u.ID, Name: u.Email},
		Detail: audit.Detail{"from": before, "to": role},
	})
}
