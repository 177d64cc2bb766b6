package access_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/access"
)

func TestRolePermissions(t *testing.T) {
	member := []access.Permission{"read", "write", "registry:push", "registry:install"}
	admin := slices.Concat(member, []access.Permission{"registry:rollback", "admin"})
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
