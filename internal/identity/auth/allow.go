package auth

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/identity/auth/keyrules"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// checkAddress refuses a key that does not work from the client's address.
func (s *Service) checkAddress(ctx context.Context, h holder) error {
	return s.refusals.Check(ctx, keyrules.Use{DB: s.DB, Log: s.Log, Caller: h.caller, KeyName: h.keyName, Allowed: h.allowed})
}

// checkPolicy refuses a new key that somebody asks for against the organisation's
// policy. It is called where a person asks for a key. Keys that follow from something else (logins,
// invitations) are only shortened to the policy; see insertNewKey.
func checkPolicy(ctx context.Context, tx *store.Tx, n NewKey) error {
	policy, err := keyrules.Load(ctx, tx, n.OrgID)
	if err != nil {
		return err
	}
	return policy.Check(n.ExpiresAt, n.AllowedIPs)
}

// Violations names the parts of the policy that an active key does not follow. Keys that don't work
// any more, and those of trusted publishers, which live for minutes, are left out.
func (k Key) Violations(p keyrules.Policy) []string {
	if k.State() != keyActive || k.EntryID != nil {
		return nil
	}
	return p.Violations(keyrules.Subject{CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, Allowed: k.AllowedIPs, Login: k.Login})
}
