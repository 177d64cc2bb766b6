package access_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

func TestRolePermissions(t *testing.T) {
	member := []access.Permission{"read", "write", "telemetry:write", "registry:push", "registry:install"}
	admin := slices.Concat(member, []access.Permission{"registry:rollback", "admin", "evidence:read"})
	for _, c := range []struct {
		role access.Role
		want []access.Permission
	}{
		{"viewer", []access.Permission{"read"}},
		{"member", member},
		{"admin", admin},
		{"owner", slices.Concat(admin, []access.Permission{"registry:delete"})},
		{"stranger", []access.Permission{}},
	} {
		if diff := cmp.Diff(c.want, c.role.Permissions()); diff != "" {
			t.Errorf("%s: %s", c.role, diff)
		}
	}
}

// TestAllows: write includes telemetry:write, and no permission includes another
// one besides.
func TestAllows(t *testing.T) {
	all := access.Owner.Permissions()
	for _, held := range all {
		for _, asked := range all {
			want := held == asked || held == access.Write && asked == access.TelemetryWrite
			if got := access.Allows([]access.Permission{held}, asked); got != want {
				t.Errorf("%s allows %s = %v, want %v", held, asked, got, want)
			}
			if got := (access.Caller{Permissions: []access.Permission{held}}).May(asked); got != want {
				t.Errorf("a caller with %s may %s = %v, want %v", held, asked, got, want)
			}
		}
	}
}

func TestRoleIncludes(t *testing.T) {
	roles := access.Roles()
	for i, have := range roles {
		for j, need := range roles {
			if got, want := have.Includes(need), i >= j; got != want {
				t.Errorf("%s includes %s = %v, want %v", have, need, got, want)
			}
		}
	}
	if access.Role("king").Includes(access.Viewer) {
		t.Error("an unknown role includes something")
	}
}

func TestPlanIncludes(t *testing.T) {
	plans := access.Plans()
	for i, have := range plans {
		for j, need := range plans {
			if got, want := have.Includes(need), i >= j; got != want {
				t.Errorf("%s includes %s = %v, want %v", have, need, got, want)
			}
		}
	}
	if access.Plan("gold").Includes(access.Free) {
		t.Error("an unknown plan includes something")
	}
}

func TestFromEmptyContext(t *testing.T) {
	if access.From(t.Context()).May(access.Read) {
		t.Error("nobody may read")
	}
}
