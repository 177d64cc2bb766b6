package gates_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/blob/blobtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// BenchmarkPush compares pushes of a registry whose gate is off with those of one
// without a gate; `make bench` reads it.
func BenchmarkPush(b *testing.B) {
	for name, gated := range map[string]bool{"off": true, "none": false} {
		b.Run(name, func(b *testing.B) {
			ctx, db := b.Context(), storetest.Open(b, "sqlite")
			people := &auth.Service{DB: db}
			org, err := people.CreateOrg(ctx, "bench", access.Team)
			if err != nil {
				b.Fatal(err)
			}
			user, err := people.CreateUser(ctx, auth.NewUser{OrgID: org.ID, Email: "bench@example.org", Role: access.Owner})
			if err != nil {
				b.Fatal(err)
			}
			entries := &registry.Service{
				DB: db, Blobs: blobtest.Files(b), Skills: &skills.Service{DB: db, Window: 30}, Files: stored.New(nil),
			}
			if gated {
				entries.OnPush = &gates.Service{DB: db, Registry: entries}
			}
			version := func(n int) registry.Publication {
				content := []byte(apptest.Pack(b, "SKILL.md", fmt.Sprintf("---\nname: pdf\ndescription: Reads tables.\n---\nVersion %d.\n", n)))
				return registry.Publication{
					OrgID: org.ID, UserID: user.ID, Name: "pdf", Type: registry.TypeSkill, Visibility: registry.Org, Source: registry.FromCLI,
					Version: fmt.Sprintf("1.0.%d", n), Archive: bytes.NewReader(content), Size: int64(len(content)),
				}
			}
			e, _, err := entries.Create(ctx, version(0))
			if err != nil {
				b.Fatal(err)
			}
			for n := 1; b.Loop(); n++ {
				if _, _, _, err := entries.Push(ctx, e.ID, version(n)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
