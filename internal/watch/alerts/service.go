package alerts

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/delivery"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// Service keeps rules, evaluates them and sends their notifications.
type Service struct {
	DB           *store.DB
	Jobs         *jobs.Queue
	Skills       *skills.Service
	Registry     *registry.Service
	Release      *release.Service // rolls back
	Sender       *notify.Sender
	OnRolledBack OnRolledBack // may be nil
	// Owners finds whom rules of the channel owners notify; it may be nil.
	Owners Owners
	// Interval is how often all rules are evaluated.
	Interval time.Duration
	// AllowPrivate permits targets in private networks; without it they get a
	// warning, since the SSRF guard of outbound refuses to dial them.
	AllowPrivate bool
	// PublicURL is the base of the links in notifications.
	PublicURL string
	// Seal encrypts addresses and signing secrets in the database.
	Seal *seal.Keyring
	Log  *slog.Logger

	testBackoff    delivery.Backoff // replaces DefaultBackoff in tests
	testTransition func()           // called in the transaction of a transition, in tests
}

// NewRule describes a rule to be created. Create fills in what is left out, and
// reports all that is wrong at once.
type NewRule struct {
	SkillID     *string
	Type        Type
	Threshold   *float64    // nil: the type's default
	Sensitivity Sensitivity // "": the default of the type and the action
	Action      *Action
	Channel     notify.Channel
	Config      Config
}

// Create makes a rule. The returned rule's Secret signs its webhooks; it is
// shown only now. A rule that rolls back needs the permission to roll back.
func (s *Service) Create(ctx context.Context, c access.Caller, n NewRule) (r Rule, err error) {
	defer fault.Wrap(&err, "create alert")
	if err := authorizeAction(c, n.Action); err != nil {
		return r, err
	}
	r = Rule{
		ID: store.NewID(), OrgID: c.OrgID, SkillID: n.SkillID, Type: n.Type, Threshold: defaultThreshold(n.Type),
		Sensitivity: n.Sensitivity, Action: n.Action, Enabled: true,
		CreatedBy: c.UserID, CreatedAt: store.Now(), UpdatedAt: store.Now(),
	}
	if n.Threshold != nil {
		r.Threshold = *n.Threshold
	}
	if n.Sensitivity == "" {
		r.Sensitivity = defaultSensitivity(n.Type, n.Action)
	}
	// It also makes the secret of a webhook that has none.
	r.setTarget(n.Channel, n.Config)
	issues := r.issues()
	if r.SkillID != nil {
		exists, err := s.Skills.Exists(ctx, r.OrgID, *r.SkillID)
		if err != nil {
			return r, err
		}
		if !exists {
			// First, since it is the first field of the form.
			issues = slices.Insert(issues, 0, fault.At("skill_id", "skill_id names no skill of this organisation"))
		}
	}
	if len(issues) > 0 {
		return r, fault.Issues(issues...)
	}
	return r, s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := s.insertRule(ctx, tx, r); err != nil {
			return err
		}
		return r.recordAudit(ctx, tx, "alerts.rule.create",
			audit.Detail{"channel": r.Channel, "threshold": r.Threshold, "action": r.Action})
	})
}

// authorizeAction denies creating, changing or deleting a rule that rolls back
// to callers who may not roll back themselves: with the threshold they would
// decide when it happens.
func authorizeAction(c access.Caller, a *Action) error {
	if a != nil && !c.May(access.RegistryRollback) {
		return fault.New(fault.Denied, "This needs the permission %s, since the alert rolls back", access.RegistryRollback)
	}
	return nil
}

// MayChange reports whether the caller may change or delete the rule. Pages show the
// form by it; lockRule enforces it.
func MayChange(c access.Caller, r Rule) bool {
	return c.May(access.Write) && authorizeAction(c, r.Action) == nil
}

// lockRule locks a rule of the caller's organisation that the caller may
// change. The lock also serialises with evaluations, which lock all rules of the
// organisation.
func (s *Service) lockRule(ctx context.Context, tx *store.Tx, c access.Caller, id string) (Rule, error) {
	r, err := s.ruleByID(ctx, tx, c.OrgID, id, tx.Dialect().ForUpdate())
	if err != nil {
		return r, err
	}
	return r, authorizeAction(c, r.Action)
}

// recordAudit adds an audit entry about the rule. The address is left out: it
// is a secret.
func (r Rule) recordAudit(ctx context.Context, tx *store.Tx, action string, d audit.Detail) error {
	if r.SkillID != nil {
		d["skill"] = *r.SkillID
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: r.OrgID, Action: action, Target: audit.Target{Kind: "alert", ID: r.ID, Name: string(r.Type)}, Detail: d,
	})
}

// Warnings says why a rule's notifications would not arrive with the current
// settings. They are no errors: the operator may set up mail later.
func (s *Service) Warnings(r Rule) []string {
	var all []string
	if (r.Channel == notify.Email || r.Channel == ToOwners) && !s.Sender.MailConfigured() {
		all = append(all, "No mail server is configured, so deliveries will fail: set --smtp-url and --mail-from")
	}
	if r.Channel != notify.Email && r.Channel != ToOwners && !s.AllowPrivate {
		if warning := outbound.LiteralWarning(r.Address); warning != "" {
			all = append(all, warning)
		}
	}
	return all
}

// Change is what a patch changes; nil leaves a field as it is. Type, skill and
// action are not in it: they never change.
type Change struct {
	Threshold   *float64
	Sensitivity *Sensitivity
	Channel     *notify.Channel
	Config      *Config
	Enabled     *bool
}

// Update changes a rule of the caller's organisation. A rule that rolls back
// needs the permission to roll back. The second result is the signing secret if
// the change generated or set one; it is shown only now.
func (s *Service) Update(
	ctx context.Context, by access.Caller, id string, c Change,
) (r Rule, secret *string, err error) {
	defer fault.Wrap(&err, "update alert %s", id)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if r, err = s.lockRule(ctx, tx, by, id); err != nil {
			return err
		}
		before := r.Secret
		issues := c.apply(&r)
		if issues = append(r.issues(), issues...); len(issues) > 0 {
			return fault.Issues(issues...)
		}
		// Set in each attempt, since the transaction may run more than once.
		if secret = nil; r.Secret != before {
			secret = r.Secret
		}
		r.UpdatedAt = store.Now()
		if err := s.updateRule(ctx, tx, r); err != nil {
			return err
		}
		return r.recordAudit(ctx, tx, "alerts.rule.change", audit.Detail{
			"threshold": c.Threshold, "sensitivity": c.Sensitivity, "channel": c.Channel, "enabled": c.Enabled,
			"target": c.Config != nil,
		})
	})
	return r, secret, err
}

// apply changes the rule. A channel cannot change without the address that
// goes with it.
func (c Change) apply(r *Rule) []fault.Issue {
	if c.Threshold != nil {
		r.Threshold = *c.Threshold
	}
	if c.Sensitivity != nil {
		r.Sensitivity = *c.Sensitivity
	}
	if c.Enabled != nil {
		// The reason was the service's, and is settled by a person's decision.
		r.Enabled, r.DisabledReason = *c.Enabled, nil
	}
	channel := r.Channel
	if c.Channel != nil {
		channel = *c.Channel
	}
	switch {
	case c.Config != nil:
		r.setTarget(channel, *c.Config)
	case channel == ToOwners:
		r.setTarget(channel, Config{})
	case channel != r.Channel:
		return []fault.Issue{fault.At("config", "config is required when the channel changes")}
	}
	return nil
}

// RotateSecret gives a webhook rule a new signing secret, if the caller may
// change the rule. For rotationGrace both sign.
func (s *Service) RotateSecret(ctx context.Context, c access.Caller, id string) (r Rule, err error) {
	defer fault.Wrap(&err, "rotate secret of alert %s", id)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if r, err = s.lockRule(ctx, tx, c, id); err != nil {
			return err
		}
		if r.Channel != notify.Webhook {
			return fault.New(fault.Conflict, "Only a webhook alert has a signing secret")
		}
		// A secret that is rotated twice in a short time ends early: only two sign.
		until, secret := store.Now().Add(rotationGrace), notify.NewSecret()
		r.OldSecret, r.OldSecretUntil, r.Secret, r.UpdatedAt = r.Secret, &until, &secret, store.Now()
		if err := s.updateRule(ctx, tx, r); err != nil {
			return err
		}
		return r.recordAudit(ctx, tx, "alerts.rule.rotate-secret", audit.Detail{})
	})
	return r, err
}

// Rule returns a rule of the organisation.
func (s *Service) Rule(ctx context.Context, orgID, id string) (Rule, error) {
	return s.ruleByID(ctx, s.DB, orgID, id, "")
}

// Rules returns a page of the organisation's rules, newest first, and their
// number.
func (s *Service) Rules(ctx context.Context, orgID string, p store.Page) ([]Rule, int, error) {
	return s.listed().Page(ctx, s.DB, p, orgID)
}

// States returns the states of rules, by rule and ordered by skill: of each skill for
// which something is known.
func (s *Service) States(ctx context.Context, rules ...Rule) (map[string][]State, error) {
	ids := make([]string, len(rules))
	for i, r := range rules {
		ids[i] = r.ID
	}
	all, err := statesOf(ctx, s.DB, ids)
	states := map[string][]State{}
	for _, state := range all {
		states[state.RuleID] = append(states[state.RuleID], state)
	}
	return states, err
}

// Delete removes a rule, if the caller may change it. A firing alert ends
// without a notification. Deliveries under way end by themselves: their rule is
// gone.
func (s *Service) Delete(ctx context.Context, c access.Caller, id string) (err error) {
	defer fault.Wrap(&err, "delete alert %s", id)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		r, err := s.lockRule(ctx, tx, c, id)
		if err != nil {
			return err
		}
		if err := deleteRule(ctx, tx, id); err != nil {
			return err
		}
		return r.recordAudit(ctx, tx, "alerts.rule.delete", audit.Detail{})
	})
}
