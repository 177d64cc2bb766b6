package alerts

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/notify"
	"github.com/whetstone-dev/whetstone/internal/outbound"
	"github.com/whetstone-dev/whetstone/internal/seal"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Registry knows the versions of skills.
type Registry interface {
	// CurrentVersion returns the skill's current version, nil if it has none.
	CurrentVersion(ctx context.Context, q store.Querier, orgID, skillID string) (*string, error)
	// Revert rolls the skill's entry back in the transaction, once for each
	// version, and returns what to tell of it; "" if it did not.
	Revert(ctx context.Context, tx *store.Tx, r skills.Revert) (note string, err error)
}

// Service keeps rules, evaluates them and sends their notices.
type Service struct {
	DB       *store.DB
	Jobs     *jobs.Queue
	Skills   *skills.Service
	Registry Registry
	Sender   *notify.Sender
	// Interval is how often all rules are evaluated.
	Interval time.Duration
	// AllowPrivate says that private targets are not worth a warning.
	AllowPrivate bool
	// PublicURL is the base of the links in notices.
	PublicURL string
	// Seal encrypts where notices go and what signs them.
	Seal *seal.Keyring
	Log  *slog.Logger

	pauses []time.Duration // instead of the schedule, in tests
}

// NewRule describes a rule to be made.
type NewRule struct {
	SkillID     *string
	Type        Type
	Threshold   *float64
	Sensitivity Sensitivity
	Action      *Action
	Channel     notify.Channel
	Config      Config
}

// Create makes a rule. The rule's Secret is the one that signs its webhooks:
// the caller shows it this once. Only who may roll back can have it done.
func (s *Service) Create(ctx context.Context, c access.Caller, n NewRule) (r Rule, err error) {
	defer fault.Wrap(&err, "create alert")
	if err := checkRollback(c, n.Action); err != nil {
		return r, err
	}
	r = Rule{
		ID: store.NewID(), OrgID: c.OrgID, SkillID: n.SkillID, Type: n.Type, Threshold: defaultThreshold(n.Type),
		Sensitivity: n.Sensitivity, Action: n.Action, Channel: n.Channel, Enabled: true,
		CreatedBy: c.UserID, CreatedAt: store.Now(), UpdatedAt: store.Now(),
	}
	if n.Threshold != nil {
		r.Threshold = *n.Threshold
	}
	unknown, err := s.checkSkill(ctx, r)
	if err != nil {
		return r, err
	}
	issues := slices.Concat(unknown, r.checkThreshold(), r.checkAction(), r.setTarget(n.Channel, n.Config))
	if len(issues) > 0 {
		return r, fault.Issues(issues...)
	}
	return r, s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := s.insertRule(ctx, tx, r); err != nil {
			return err
		}
		return r.record(ctx, tx, "alerts.rule.create", audit.Detail{"channel": r.Channel, "threshold": r.Threshold, "action": r.Action})
	})
}

// checkRollback refuses to make, change or delete a rule that rolls back unless the
// caller may roll back: its threshold decides whether it does.
func checkRollback(c access.Caller, a *Action) error {
	if a != nil && !c.May(access.RegistryRollback) {
		return fault.New(fault.Denied, "This needs the permission %s, since the alert rolls back", access.RegistryRollback)
	}
	return nil
}

// MayChange reports whether the caller may change or delete the rule.
func MayChange(c access.Caller, r Rule) bool {
	return c.May(access.Write) && checkRollback(c, r.Action) == nil
}

// changeableRule locks a rule of the caller's organisation that the caller may
// change.
func (s *Service) changeableRule(ctx context.Context, tx *store.Tx, c access.Caller, id string) (Rule, error) {
	r, err := s.ruleByID(ctx, tx, c.OrgID, id, tx.Dialect().ForUpdate())
	if err != nil {
		return r, err
	}
	return r, checkRollback(c, r.Action)
}

// record writes down what was done to a rule. Where its notices go is left
// out: that is a secret.
func (r Rule) record(ctx context.Context, tx *store.Tx, action string, d audit.Detail) error {
	if r.SkillID != nil {
		d["skill"] = *r.SkillID
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: r.OrgID, Action: action, Target: audit.Target{Kind: "alert", ID: r.ID, Name: string(r.Type)}, Detail: d,
	})
}

func (s *Service) checkSkill(ctx context.Context, r Rule) ([]fault.Issue, error) {
	if r.SkillID == nil {
		return nil, nil
	}
	known, err := s.Skills.Exists(ctx, r.OrgID, *r.SkillID)
	if err == nil && !known {
		return []fault.Issue{fault.At("skill_id", "skill_id names no skill of this organisation")}, nil
	}
	return nil, err
}

// Warnings say why the notices of a rule will not arrive as things are.
func (s *Service) Warnings(r Rule) []string {
	var all []string
	if r.Channel == notify.Email && !s.Sender.MailConfigured() {
		all = append(all, "No mail server is configured, so deliveries will fail: set --smtp-url and --mail-from")
	}
	if r.Channel != notify.Email && !s.AllowPrivate {
		if warning := outbound.LiteralWarning(r.Address); warning != "" {
			all = append(all, warning)
		}
	}
	return all
}

// Change is what a patch changes; nil leaves a field as it is.
type Change struct {
	Threshold   *float64
	Sensitivity *Sensitivity
	Channel     *notify.Channel
	Config      *Config
	Enabled     *bool
}

// Update changes a rule of the caller's organisation; one that rolls back, only
// if the caller may. Made is the signing secret if the change made one, which
// the caller shows this once.
func (s *Service) Update(
	ctx context.Context, by access.Caller, id string, c Change,
) (r Rule, made *string, err error) {
	defer fault.Wrap(&err, "update alert %s", id)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if r, err = s.changeableRule(ctx, tx, by, id); err != nil {
			return err
		}
		before := r.Secret
		if issues := c.apply(&r); len(issues) > 0 {
			return fault.Issues(issues...)
		}
		if made = nil; r.Secret != before {
			made = r.Secret
		}
		r.UpdatedAt = store.Now()
		if err := s.updateRule(ctx, tx, r); err != nil {
			return err
		}
		return r.record(ctx, tx, "alerts.rule.change", c.detail())
	})
	return r, made, err
}

// detail says what a change changes.
func (c Change) detail() audit.Detail {
	return audit.Detail{
		"threshold": c.Threshold, "sensitivity": c.Sensitivity, "channel": c.Channel, "enabled": c.Enabled, "target": c.Config != nil,
	}
}

func (c Change) apply(r *Rule) []fault.Issue {
	if c.Threshold != nil {
		r.Threshold = *c.Threshold
	}
	if c.Sensitivity != nil {
		r.Sensitivity = *c.Sensitivity
	}
	if c.Enabled != nil {
		r.Enabled = *c.Enabled
		r.DisabledReason = nil
	}
	return slices.Concat(r.checkThreshold(), c.applyTarget(r))
}

func (c Change) applyTarget(r *Rule) []fault.Issue {
	switch {
	case c.Config != nil && c.Channel != nil:
		return r.setTarget(*c.Channel, *c.Config)
	case c.Config != nil:
		return r.setTarget(r.Channel, *c.Config)
	case c.Channel != nil && *c.Channel != r.Channel:
		return []fault.Issue{fault.At("config", "config is required when the channel changes")}
	}
	return nil
}

// RotateSecret gives a webhook a new secret, if the caller may change the rule.
// For a day both sign.
func (s *Service) RotateSecret(ctx context.Context, c access.Caller, id string) (r Rule, err error) {
	defer fault.Wrap(&err, "rotate secret of alert %s", id)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if r, err = s.changeableRule(ctx, tx, c, id); err != nil {
			return err
		}
		if r.Channel != notify.Webhook {
			return fault.New(fault.Conflict, "Only a webhook alert has a signing secret")
		}
		until, secret := store.Now().Add(rotationGrace), notify.NewSecret()
		r.OldSecret, r.OldSecretUntil, r.Secret, r.UpdatedAt = r.Secret, &until, &secret, store.Now()
		if err := s.updateRule(ctx, tx, r); err != nil {
			return err
		}
		return r.record(ctx, tx, "alerts.rule.rotate-secret", audit.Detail{})
	})
	return r, err
}

// Rule returns a rule of the organisation.
func (s *Service) Rule(ctx context.Context, orgID, id string) (Rule, error) {
	return s.ruleByID(ctx, s.DB, orgID, id, "")
}

// Rules lists a page of the organisation's rules, newest first, and their number.
func (s *Service) Rules(ctx context.Context, orgID string, limit, offset int) ([]Rule, int, error) {
	return s.rulesOfOrg(ctx, s.DB, orgID, limit, offset)
}

// Delete removes a rule, if the caller may change it; what fires ends without a
// notice.
func (s *Service) Delete(ctx context.Context, c access.Caller, id string) (err error) {
	defer fault.Wrap(&err, "delete alert %s", id)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		r, err := s.changeableRule(ctx, tx, c, id)
		if err != nil {
			return err
		}
		if err := deleteRule(ctx, tx, id); err != nil {
			return err
		}
		return r.record(ctx, tx, "alerts.rule.delete", audit.Detail{})
	})
}
