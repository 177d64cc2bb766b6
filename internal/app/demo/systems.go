package demo

import (
	"context"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/identity/auth/members"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/publishers"
)

// connectSystems adds what other systems use: a service account, a trusted publisher
// and an event webhook; and an invitation that nobody has accepted yet.
func (f *filling) connectSystems(ctx context.Context) error {
	keys, _, err := f.Auth.KeysOf(ctx, f.owner.OrgID, f.owner.UserID, store.Page{Limit: 1})
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return fmt.Errorf("the owner has no key")
	}
	caller := f.owner
	caller.KeyID = keys[0].ID // accounts are created with a key only
	if _, err := f.Accounts.Create(ctx, caller, "release-bot", access.Member); err != nil {
		return err
	}
	if _, err := f.Publishers.Create(ctx, f.owner, publishers.Publisher{
		EntryID: f.find("release-notes").entry.ID, Repository: "acme/skills", Ref: "main", Workflow: "release.yml",
	}); err != nil {
		return err
	}
	if _, err := f.Events.Create(ctx, f.owner, f.Receiver+"/events", []events.Type{events.AlertFired, events.GateDecided}); err != nil {
		return err
	}
	_, _, err = f.Members.InviteByOperator(ctx, f.owner.OrgID,
		members.NewInvitation{Role: access.Member, Email: "farah@acme.example"})
	return err
}
