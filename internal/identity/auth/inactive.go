package auth

import (
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// RefuseInactive refuses, with fault.Denied, a person with one of the addresses whom the
// identity provider that pushes people with SCIM has deactivated, or who was removed here
// and was not activated there since. A
// member whom the provider lists as active gets in, whoever had the address before. The
// userID is "" for a person who isn't a member yet.
//
// It waits for a removal that is under way, and the next removal waits for this
// transaction: either this one sees the person inactive, or that one removes them.
func RefuseInactive(ctx context.Context, tx *store.Tx, orgID, userID string, addresses ...string) error {
	if err := lockOwners(ctx, tx, orgID); err != nil {
		return err
	}
	if active, err := isProvisioned(ctx, tx, orgID, userID); err != nil || active {
		return err
	}
	slices.Sort(addresses)
	for _, address := range slices.Compact(addresses) {
		inactive, err := hasInactive(ctx, tx, orgID, address)
		if err != nil {
			return err
		}
		if inactive {
			return inactiveRefusal(address)
		}
	}
	return nil
}

// RefuseInactiveFormer refuses a person who was the removed user, if that one is inactive. After
// the provider deleted them they are a stranger.
func RefuseInactiveFormer(ctx context.Context, tx *store.Tx, orgID, userID, address string) error {
	inactive, err := isProvisioned(ctx, tx, orgID, userID)
	if err == nil && inactive {
		return inactiveRefusal(address)
	}
	return err
}

func inactiveRefusal(address string) error {
	return fault.New(fault.Denied, "%s is inactive at the identity provider that manages the people of this organisation; "+
		"ask its administrator to activate you there, and try again", address)
}
