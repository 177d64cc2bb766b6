package alerts

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
)

const ruleColumns = `id, org_id, skill_id, type, threshold, sensitivity, action, channel, address, secret, old_secret,
	old_secret_until, enabled, disabled_reason, created_by, created_at, updated_at, snoozed_until`

// scanRule decrypts the address and the secrets, which is why it needs the service.
func (s *Service) scanRule(row store.Row) (r Rule, err error) {
	err = row.Scan(&r.ID, &r.OrgID, &r.SkillID, &r.Type, &r.Threshold, &r.Sensitivity, &r.Action, &r.Channel, &r.Address,
		&r.Secret, &r.OldSecret, store.NullTime(&r.OldSecretUntil), &r.Enabled, &r.DisabledReason,
		&r.CreatedBy, store.Time(&r.CreatedAt), store.Time(&r.UpdatedAt), store.NullTime(&r.SnoozedUntil))
	if err != nil {
		return r, err
	}
	err = s.Seal.OpenRow(sealedRow(r.ID, &r.Address, r.Secret, r.OldSecret))
	return r, err
}

// insertRule stores a new rule. due_at is 0 by default: a new rule is due at once.
func (s *Service) insertRule(ctx context.Context, q store.Querier, r Rule) error {
	r = s.sealed(r)
	_, err := q.Exec(ctx, `
		INSERT INTO alert_rules (`+ruleColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`,
		r.ID, r.OrgID, r.SkillID, r.Type, r.Threshold, r.Sensitivity, r.Action, r.Channel, r.Address, r.Secret, r.OldSecret,
		store.NullMicros(r.OldSecretUntil), r.Enabled, r.DisabledReason, r.CreatedBy,
		store.Micros(r.CreatedAt), store.Micros(r.UpdatedAt), store.NullMicros(r.SnoozedUntil))
	return err
}

// updateRule stores what can change of a rule. due_at is 0 again, so that the change
// shows at the next evaluation.
func (s *Service) updateRule(ctx context.Context, q store.Querier, r Rule) error {
	r = s.sealed(r)
	_, err := q.Exec(ctx, `
		UPDATE alert_rules SET threshold = $2, sensitivity = $3, channel = $4, address = $5, secret = $6, old_secret = $7,
			old_secret_until = $8, enabled = $9, disabled_reason = $10, updated_at = $11, snoozed_until = $12,
			due_at = 0
		WHERE id = $1`, r.ID, r.Threshold, r.Sensitivity, r.Channel, r.Address, r.Secret, r.OldSecret,
		store.NullMicros(r.OldSecretUntil), r.Enabled, r.DisabledReason, store.Micros(r.UpdatedAt),
		store.NullMicros(r.SnoozedUntil))
	return err
}

// deleteRule removes a rule with its states. Events and deliveries stay as the
// record of past notifications.
func deleteRule(ctx context.Context, q store.Querier, id string) error {
	if _, err := q.Exec(ctx, `DELETE FROM alert_states WHERE rule_id = $1`, id); err != nil {
		return err
	}
	_, err := q.Exec(ctx, `DELETE FROM alert_rules WHERE id = $1`, id)
	return err
}

// ruleByID finds a rule of the organisation. lock is a locking clause of the
// dialect, or "".
func (s *Service) ruleByID(ctx context.Context, q store.Querier, orgID, id, lock string) (Rule, error) {
	rows, err := q.Query(ctx, `SELECT `+ruleColumns+` FROM alert_rules WHERE org_id = $1 AND id = $2`+lock, orgID, id)
	return store.One(rows, err, "Alert", s.scanRule)
}

func (s *Service) listed() store.List[Rule] {
	return store.List[Rule]{
		// Ids are UUIDv7, which are in the order of time.
		Columns: ruleColumns, From: `FROM alert_rules WHERE org_id = $1`, Order: `id DESC`, Scan: s.scanRule,
		Sorts: store.Sorting{
			"type": "type", "channel": "channel", "enabled": "CASE WHEN enabled THEN 1 ELSE 2 END", "created_at": "created_at",
		},
	}
}

// lockEnabledRules locks the rules, which serialises the evaluations of one
// organisation.
func (s *Service) lockEnabledRules(ctx context.Context, tx *store.Tx, orgID string) ([]Rule, error) {
	rows, err := tx.Query(ctx, `
		SELECT `+ruleColumns+` FROM alert_rules WHERE org_id = $1 AND enabled ORDER BY id`+tx.Dialect().ForUpdate(), orgID)
	return store.All(rows, err, s.scanRule)
}

// sealedTarget is a rule's address and secrets as they are stored: encrypted.
type sealedTarget struct {
	ruleID            string
	address           string
	secret, oldSecret *string
}

// lockSealedTargets is for a change of the key, which encrypts all anew.
func lockSealedTargets(ctx context.Context, tx *store.Tx) ([]sealedTarget, error) {
	rows, err := tx.Query(ctx, `SELECT id, address, secret, old_secret FROM alert_rules ORDER BY id`+tx.Dialect().ForUpdate())
	return store.All(rows, err, func(row store.Row) (t sealedTarget, err error) {
		err = row.Scan(&t.ruleID, &t.address, &t.secret, &t.oldSecret)
		return t, err
	})
}

func updateSealedTarget(ctx context.Context, q store.Querier, t sealedTarget) error {
	_, err := q.Exec(ctx, `UPDATE alert_rules SET address = $2, secret = $3, old_secret = $4 WHERE id = $1`,
		t.ruleID, t.address, t.secret, t.oldSecret)
	return err
}

// hasRules spares the many organisations without alerts a job after every push.
func hasRules(ctx context.Context, q store.Querier, orgID string) (bool, error) {
	rows, err := q.Query(ctx, `SELECT EXISTS (SELECT 1 FROM alert_rules WHERE org_id = $1 AND enabled)`, orgID)
	return store.One(rows, err, "Rules", store.Value[bool])
}

// hasRuleOf reports whether there is an enabled rule of a type. Figures that only
// one type needs are read only if there is such a rule.
func hasRuleOf(ctx context.Context, q store.Querier, orgID string, t Type) (bool, error) {
	rows, err := q.Query(ctx, `SELECT EXISTS (SELECT 1 FROM alert_rules WHERE org_id = $1 AND enabled AND type = $2)`, orgID, t)
	return store.One(rows, err, "Rules", store.Value[bool])
}

// orgsDue returns the organisations of rules that are due, of so many that wait longest.
func orgsDue(ctx context.Context, q store.Querier, now time.Time, limit int) ([]string, error) {
	rows, err := q.Query(ctx, `
		SELECT DISTINCT org_id FROM (
			SELECT org_id FROM alert_rules WHERE enabled AND due_at <= $1 ORDER BY due_at LIMIT $2
		) AS due ORDER BY org_id`, store.Micros(now), limit)
	return store.All(rows, err, store.Value[string])
}

// schedule sets when rules that were evaluated are due next. Those that are due later
// than now and earlier than that are left alone: an evaluation after ingest, of which
// there may be many, writes nothing. A rule that was made or turned on meanwhile stays
// due.
func schedule(ctx context.Context, tx *store.Tx, rules []Rule, now, due time.Time) error {
	ids := make([]string, len(rules))
	for i, r := range rules {
		ids[i] = r.ID
	}
	in, list := tx.Dialect().In("$1", ids)
	_, err := tx.Exec(ctx, `UPDATE alert_rules SET due_at = $3 WHERE id`+in+` AND (due_at <= $2 OR due_at > $3)`,
		list, store.Micros(now), store.Micros(due))
	return err
}

// postpone sets when the rules of an organisation that are due are tried again. An
// organisation whose evaluation fails must not be retried in a tight loop.
func postpone(ctx context.Context, q store.Querier, orgID string, now, until time.Time) error {
	_, err := q.Exec(ctx, `UPDATE alert_rules SET due_at = $3 WHERE org_id = $1 AND enabled AND due_at <= $2`,
		orgID, store.Micros(now), store.Micros(until))
	return err
}

const stateColumns = `rule_id, skill_id, state, since, good_streak, sequence, episode_id, last_notice_at,
	acknowledged_at, acknowledged_by, evidence, evidence_limit, evidence_sessions, evidence_of, evidence_reached,
	rollback_version, rollback_at, rollback_blocked_by, rollback_needs`

func scanState(row store.Row) (s State, err error) {
	var version, blockedBy *string
	var at *time.Time
	err = row.Scan(&s.RuleID, &s.SkillID, &s.State, store.Time(&s.Since), &s.GoodStreak, &s.Sequence,
		&s.EpisodeID, store.NullTime(&s.LastNoticeAt), store.NullTime(&s.AcknowledgedAt), &s.AcknowledgedBy,
		&s.Evidence.Sum, &s.Evidence.Limit, &s.Evidence.Sessions, &s.Evidence.of, &s.Evidence.Reached,
		&version, store.NullTime(&at), &blockedBy, &s.Rollback.Needs)
	// The two columns are set together.
	if version != nil && at != nil {
		s.Rollback.Version, s.Rollback.At = *version, *at
	}
	if blockedBy != nil {
		s.Rollback.BlockedBy = release.Blocked(*blockedBy)
	}
	return s, err
}

// statesOf returns the states of rules, ordered by skill.
func statesOf(ctx context.Context, q store.Querier, ruleIDs []string) ([]State, error) {
	if len(ruleIDs) == 0 {
		return nil, nil
	}
	in, list := q.Dialect().In("$1", ruleIDs)
	rows, err := q.Query(ctx, `SELECT `+stateColumns+` FROM alert_states WHERE rule_id`+in+` ORDER BY skill_id`, list)
	return store.All(rows, err, scanState)
}

// statesOfPairs returns states by pairs of rule and skill, and until when the rules are
// snoozed.
func statesOfPairs(
	ctx context.Context, q store.Querier, pairs [][2]string,
) (states map[stateKey]State, snoozed map[string]*time.Time, err error) {
	states, snoozed = map[stateKey]State{}, map[string]*time.Time{}
	if len(pairs) == 0 {
		return states, snoozed, nil
	}
	from, list := q.Dialect().ByPair("alert_states", "rule_id", "skill_id", "$1", pairs)
	rows, err := q.Query(ctx, `SELECT `+stateColumns+` FROM `+from, list)
	all, err := store.All(rows, err, scanState)
	if err != nil {
		return nil, nil, err
	}
	ruleIDs := make([]string, len(all))
	for i, s := range all {
		states[stateKey{s.RuleID, s.SkillID}], ruleIDs[i] = s, s.RuleID
	}
	in, list := q.Dialect().In("$1", ruleIDs)
	rows, err = q.Query(ctx, `SELECT id, snoozed_until FROM alert_rules WHERE id`+in, list)
	err = store.Each(rows, err, func(row store.Row) error {
		var id string
		var until *time.Time
		err := row.Scan(&id, store.NullTime(&until))
		snoozed[id] = until
		return err
	})
	return states, snoozed, err
}

// upsertStates stores the states that an evaluation changed. One statement for each:
// an evaluation changes few states, and mostly none.
func upsertStates(ctx context.Context, tx *store.Tx, states []State) error {
	for _, s := range states {
		var version, blockedBy *string
		var at *time.Time
		if s.Rollback.Version != "" {
			version, at = &s.Rollback.Version, &s.Rollback.At
		}
		if s.Rollback.BlockedBy != "" {
			blockedBy = (*string)(&s.Rollback.BlockedBy)
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO alert_states (`+stateColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
			ON CONFLICT (rule_id, skill_id) DO UPDATE SET state = excluded.state, since = excluded.since,
				good_streak = excluded.good_streak, sequence = excluded.sequence, episode_id = excluded.episode_id,
				last_notice_at = excluded.last_notice_at, acknowledged_at = excluded.acknowledged_at,
				acknowledged_by = excluded.acknowledged_by, evidence = excluded.evidence,
				evidence_limit = excluded.evidence_limit, evidence_sessions = excluded.evidence_sessions,
				evidence_of = excluded.evidence_of, evidence_reached = excluded.evidence_reached,
				rollback_version = excluded.rollback_version, rollback_at = excluded.rollback_at,
				rollback_blocked_by = excluded.rollback_blocked_by, rollback_needs = excluded.rollback_needs`,
			s.RuleID, s.SkillID, s.State, store.Micros(s.Since), s.GoodStreak, s.Sequence, s.EpisodeID,
			store.NullMicros(s.LastNoticeAt),
			store.NullMicros(s.AcknowledgedAt), s.AcknowledgedBy, s.Evidence.Sum, s.Evidence.Limit,
			s.Evidence.Sessions, s.Evidence.of,
			s.Evidence.Reached, version, store.NullMicros(at), blockedBy, s.Rollback.Needs)
		if err != nil {
			return err
		}
	}
	return nil
}

// acknowledgeStates acknowledges the firing states of a rule. Those that are
// acknowledged stay as they are.
func acknowledgeStates(ctx context.Context, tx *store.Tx, ruleID, userID string, at time.Time) error {
	_, err := tx.Exec(ctx, `
		UPDATE alert_states SET acknowledged_at = $2, acknowledged_by = $3
		WHERE rule_id = $1 AND state = 'firing' AND acknowledged_at IS NULL`, ruleID, store.Micros(at), userID)
	return err
}

// nextSequence counts a further notification of the rule and the skill. The number
// orders the notifications of an episode for receivers, who may get them out of
// order.
func nextSequence(ctx context.Context, tx *store.Tx, e Event) (int, error) {
	rows, err := tx.Query(ctx, `
		UPDATE alert_states SET sequence = sequence + 1 WHERE rule_id = $1 AND skill_id = $2 RETURNING sequence`,
		e.RuleID, e.SkillID)
	return store.One(rows, err, "State", store.Value[int])
}

const eventColumns = `id, org_id, rule_id, skill_id, skill_name, type, transition, threshold, pass_rate, interval_low,
	interval_high, graded_sessions, days_silent, window_from, window_to, last_session_at, sequence, episode_id,
	firing_since, version, note, occurred_at, measured, reference, reference_version, evidence, evidence_limit, last_graded_at`

func scanEvent(row store.Row) (e Event, err error) {
	var low, high *float64
	err = row.Scan(&e.ID, &e.OrgID, &e.RuleID, &e.SkillID, &e.SkillName, &e.Type, &e.Transition, &e.Threshold, &e.PassRate,
		&low, &high, &e.GradedSessions, &e.DaysSilent, store.Time(&e.WindowFrom), store.Time(&e.WindowTo),
		store.NullTime(&e.LastSessionAt), &e.Sequence, &e.EpisodeID, store.Time(&e.FiringSince), &e.Version, &e.Note,
		store.Time(&e.OccurredAt), &e.Measured, &e.Reference, &e.ReferenceVersion, &e.Evidence, &e.EvidenceLimit,
		store.NullTime(&e.LastGradedAt))
	if low != nil && high != nil {
		e.Interval = &[2]float64{*low, *high}
	}
	return e, err
}

func insertEvent(ctx context.Context, q store.Querier, e Event) error {
	var low, high *float64
	if e.Interval != nil {
		low, high = &e.Interval[0], &e.Interval[1]
	}
	_, err := q.Exec(ctx, `
		INSERT INTO alert_events (`+eventColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
			$23, $24, $25, $26, $27, $28)`,
		e.ID, e.OrgID, e.RuleID, e.SkillID, e.SkillName, e.Type, e.Transition, e.Threshold, e.PassRate, low, high,
		e.GradedSessions, e.DaysSilent, store.Micros(e.WindowFrom), store.Micros(e.WindowTo), store.NullMicros(e.LastSessionAt),
		e.Sequence, e.EpisodeID, store.Micros(e.FiringSince), e.Version, e.Note, store.Micros(e.OccurredAt),
		e.Measured, e.Reference, e.ReferenceVersion, e.Evidence, e.EvidenceLimit, store.NullMicros(e.LastGradedAt))
	return err
}

// eventByID is for deliveries, whose organisation is known already.
func eventByID(ctx context.Context, q store.Querier, id string) (Event, error) {
	rows, err := q.Query(ctx, `SELECT `+eventColumns+` FROM alert_events WHERE id = $1`, id)
	return store.One(rows, err, "Event", scanEvent)
}

var listedEvents = store.List[Event]{
	Columns: eventColumns, Order: `id DESC`, Scan: scanEvent,
	// An empty parameter selects all: there are few events, so no index is needed
	// for each combination.
	From: `FROM alert_events WHERE org_id = $1 AND ($2 = '' OR rule_id = $2) AND ($3 = '' OR skill_id = $3)
		AND ($4 = '' OR transition = $4) AND ($5 = '' OR lower(skill_name) LIKE lower($5) ESCAPE '\')`,
	Sorts: store.Sorting{"occurred_at": "occurred_at", "skill": "lower(skill_name)", "event": "transition"},
}

// deliveryBefore finds the delivery of the event before this one about the same
// skill to the same recipient. Ids are ordered by time (UUIDv7), which makes both lookups index scans
// of few rows.
func deliveryBefore(ctx context.Context, q store.Querier, e Event, recipient *string) (Delivery, error) {
	rows, err := q.Query(ctx, `
		SELECT id FROM alert_events WHERE rule_id = $1 AND skill_id = $2 AND sequence = $3 ORDER BY id DESC LIMIT 1`,
		e.RuleID, e.SkillID, e.Sequence-1)
	before, err := store.One(rows, err, "Event", store.Value[string])
	if err != nil {
		return Delivery{}, err
	}
	return deliveries.First(ctx, q, `rule_id = $1 AND event_id = $2 AND id > $2
		AND COALESCE(recipient_id, '') = COALESCE($3, '')`,
		e.RuleID, before, recipient)
}

// talliesOfEpisode reads the deliveries of one rule, which an index has.
func talliesOfEpisode(ctx context.Context, q store.Querier, orgID, ruleID, episodeID string) ([]Tally, error) {
	rows, err := q.Query(ctx, `
		SELECT status, COUNT(*), COALESCE(MAX(detail), '') FROM alert_deliveries
		WHERE org_id = $1 AND rule_id = $2 AND event_id IN (SELECT id FROM alert_events WHERE rule_id = $2 AND episode_id = $3)
		GROUP BY status ORDER BY status`, orgID, ruleID, episodeID)
	return store.All(rows, err, func(row store.Row) (t Tally, err error) {
		err = row.Scan(&t.Status, &t.Count, &t.Detail)
		return t, err
	})
}
