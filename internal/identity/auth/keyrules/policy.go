package keyrules

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const (
	// MaxDays is the longest life of a key that a policy or a request may ask for.
	MaxDays = 3650
	day     = 24 * time.Hour
	// clockSkew is how far the clocks of clients, who compute expires_at, may be off.
	clockSkew = time.Minute
)

// A Policy is what an organisation asks of new keys. Existing keys go on working; those
// that do not follow it are shown.
type Policy struct {
	// MaxDays is how long a key lives at most; nil if keys need not expire.
	MaxDays *int
	// RequireAllowedIPs asks for an allow list of every key that somebody creates.
	// Device logins and the first key of an invited person need none: people move.
	RequireAllowedIPs bool
	UpdatedAt         *time.Time // nil if it was never set
}

// latest is when a key that is created now expires at the latest; nil for never.
func (p Policy) latest(now time.Time) *time.Time {
	if p.MaxDays == nil {
		return nil
	}
	at := now.Add(time.Duration(*p.MaxDays) * day)
	return &at
}

// Check refuses what somebody asks of a new key against the policy. No time is no
// problem: see Shorten. The list of networks can't be chosen for somebody, so its absence is an
// error.
func (p Policy) Check(expiresAt *time.Time, allowed AllowList) error {
	latest := p.latest(store.Now())
	if latest != nil && expiresAt != nil && expiresAt.After(latest.Add(clockSkew)) {
		return fault.Invalid("expires_at", "expires_at must be within %d days: the organisation's key policy asks for it",
			*p.MaxDays)
	}
	if p.RequireAllowedIPs && len(allowed) == 0 {
		return fault.Invalid("allowed_ips", "allowed_ips must name the networks that the key is used from: "+
			"the organisation's key policy asks for it")
	}
	return nil
}

// Shorten returns when a new key expires: as wanted, or as late as the policy allows. It also
// limits keys that nobody has asked a time for.
func (p Policy) Shorten(wanted *time.Time) *time.Time {
	if latest := p.latest(store.Now()); latest != nil && (wanted == nil || wanted.After(*latest)) {
		return latest
	}
	return wanted
}

// The parts of a policy that a key may violate.
const (
	violatesMaxDays    = "max_days"
	violatesAllowedIPs = "require_allowed_ips"
)

// A Subject is an active key, as far as the policy is concerned.
type Subject struct {
	CreatedAt time.Time
	ExpiresAt *time.Time
	Allowed   AllowList
	Login     bool
}

// Violations names the parts of the policy that a key does not follow. CountViolating is the same
// rule in SQL.
func (p Policy) Violations(k Subject) []string {
	var found []string
	if p.MaxDays != nil && (k.ExpiresAt == nil || k.ExpiresAt.After(p.latest(k.CreatedAt).Add(clockSkew))) {
		found = append(found, violatesMaxDays)
	}
	if p.RequireAllowedIPs && len(k.Allowed) == 0 && !k.Login {
		found = append(found, violatesAllowedIPs)
	}
	return found
}

// Load returns an organisation's policy; the zero Policy if there is none.
func Load(ctx context.Context, q store.Querier, orgID string) (Policy, error) {
	p, err := policyOf(ctx, q, orgID)
	if fault.Is(err, fault.NotFound) {
		return Policy{}, nil
	}
	return p, err
}

// Save replaces the policy of the caller's organisation. The audit log has both the old and the new
// policy.
func Save(ctx context.Context, db *store.DB, c access.Caller, p Policy) (Policy, error) {
	if p.MaxDays != nil && (*p.MaxDays < 1 || *p.MaxDays > MaxDays) {
		return p, fault.Invalid("max_days", "max_days must be 1 to %d, or null", MaxDays)
	}
	now := store.Now()
	p.UpdatedAt = &now
	return p, db.InTx(ctx, func(tx *store.Tx) error {
		before, err := Load(ctx, tx, c.OrgID)
		if err != nil {
			return err
		}
		if err := upsertPolicy(ctx, tx, c.OrgID, p); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: c.OrgID, Action: "auth.keypolicy.set",
			Target: audit.Target{Kind: "organisation", ID: c.OrgID, Name: c.OrgName},
			Detail: audit.Detail{"from": before.detail(), "to": p.detail()},
		})
	})
}

func (p Policy) detail() audit.Detail {
	return audit.Detail{"max_days": p.MaxDays, "require_allowed_ips": p.RequireAllowedIPs}
}
