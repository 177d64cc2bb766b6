package gates

import (
	"context"
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/gates/decision"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// policyOf reads the policy of an entry, or else the organisation's default.
func policyOf(ctx context.Context, q store.Querier, orgID, entryID string) (p Policy, inherited bool, err error) {
	p, inherited = DefaultPolicy(), true
	rows, err := q.Query(ctx, `
		SELECT entry_id, policy FROM gate_policies WHERE org_id = $1 AND entry_id IN ('', $2)
		ORDER BY entry_id`, orgID, entryID)
	err = store.Each(rows, err, func(row store.Row) error {
		var of, raw string
		if err := row.Scan(&of, &raw); err != nil {
			return err
		}
		inherited, p = of != entryID, DefaultPolicy()
		return json.Unmarshal([]byte(raw), &p)
	})
	return p, inherited && entryID != "", err
}

func upsertPolicy(ctx context.Context, tx *store.Tx, c access.Caller, entryID string, p Policy) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO gate_policies (org_id, entry_id, policy, updated_by, updated_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (org_id, entry_id) DO UPDATE
		SET policy = excluded.policy, updated_by = excluded.updated_by, updated_at = excluded.updated_at`,
		c.OrgID, entryID, string(raw), c.UserID, store.Micros(store.Now()))
	return err
}

const gateColumns = `id, org_id, entry_id, version_id, version, against_id, against, status, verdict, reason, policy, created_by,
	created_at, started_at, decided_at, override, result, pull`

func scanGate(row store.Row) (g Gate, err error) {
	var policy, result string
	var verdict, override, pull *string
	err = row.Scan(&g.ID, &g.OrgID, &g.EntryID, &g.VersionID, &g.Version, &g.AgainstID, &g.Against, &g.Status, &verdict, &g.Reason,
		&policy, &g.CreatedBy, store.Time(&g.CreatedAt), store.NullTime(&g.StartedAt), store.NullTime(&g.DecidedAt), &override, &result, &pull)
	if err != nil {
		return g, err
	}
	if verdict != nil {
		v := decision.Verdict(*verdict)
		g.Verdict = &v
	}
	if pull != nil {
		if err := json.Unmarshal([]byte(*pull), &g.Pull); err != nil {
			return g, err
		}
	}
	if override != nil {
		if err := json.Unmarshal([]byte(*override), &g.Override); err != nil {
			return g, err
		}
	}
	if err := json.Unmarshal([]byte(policy), &g.Policy); err != nil {
		return g, err
	}
	return g, json.Unmarshal([]byte(result), &g.Result)
}

func insertGate(ctx context.Context, tx *store.Tx, g Gate) error {
	policy, err := json.Marshal(g.Policy)
	if err != nil {
		return err
	}
	var pullID, pull *string
	if g.Pull != nil {
		raw, err := json.Marshal(g.Pull)
		if err != nil {
			return err
		}
		text := string(raw)
		pullID, pull = &g.Pull.ID, &text
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO gates (id, org_id, entry_id, version_id, version, against_id, against, status, reason, policy, created_by,
			created_at, result, pull_id, pull)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, '{}', $13, $14)`,
		g.ID, g.OrgID, g.EntryID, g.VersionID, g.Version, g.AgainstID, g.Against, g.Status, g.Reason, string(policy), g.CreatedBy,
		store.Micros(g.CreatedAt), pullID, pull)
	return err
}

// updateGate writes what changes while a gate decides.
func updateGate(ctx context.Context, tx *store.Tx, g Gate) error {
	result, err := json.Marshal(g.Result)
	if err != nil {
		return err
	}
	var override *string
	if g.Override != nil {
		raw, err := json.Marshal(g.Override)
		if err != nil {
			return err
		}
		text := string(raw)
		override = &text
	}
	_, err = tx.Exec(ctx, `
		UPDATE gates SET status = $2, verdict = $3, reason = $4, started_at = $5, decided_at = $6, override = $7, result = $8
		WHERE id = $1`, g.ID, g.Status, g.Verdict, g.Reason, store.NullMicros(g.StartedAt), store.NullMicros(g.DecidedAt), override,
		string(result))
	return err
}

// gateByID finds a gate of the organisation.
func gateByID(ctx context.Context, q store.Querier, orgID, id string) (Gate, error) {
	rows, err := q.Query(ctx, `SELECT `+gateColumns+` FROM gates WHERE org_id = $1 AND id = $2`, orgID, id)
	return store.One(rows, err, "Gate", scanGate)
}

// openGates lists the gates of an entry's pushes or, with an id, of a pull request
// that have yet to decide.
func openGates(ctx context.Context, q store.Querier, entryID, pullID string) ([]Gate, error) {
	rows, err := q.Query(ctx, `
		SELECT `+gateColumns+` FROM gates
		WHERE entry_id = $1 AND status IN ('queued', 'running') AND COALESCE(pull_id, '') = $2 ORDER BY id`, entryID, pullID)
	return store.All(rows, err, scanGate)
}

const listed = ` FROM gates WHERE org_id = $1 AND ($2 = '' OR entry_id = $2) AND ($3 = '' OR verdict = $3)`

var sorts = store.Sorting{"version": "version", "verdict": "COALESCE(verdict, status)", "created_at": "created_at"}

// listGates reads a page of gates and their number.
func listGates(ctx context.Context, q store.Querier, orgID string, f Filter) ([]Gate, int, error) {
	rows, err := q.Query(ctx, `SELECT COUNT(*)`+listed, orgID, f.EntryID, f.Verdict)
	total, err := store.One(rows, err, "Count", store.Value[int])
	if err != nil {
		return nil, 0, err
	}
	rows, err = q.Query(ctx, `SELECT `+gateColumns+listed+sorts.By(f.Sort, `id DESC`)+` LIMIT $4 OFFSET $5`,
		orgID, f.EntryID, f.Verdict, f.Limit, f.Offset)
	all, err := store.All(rows, err, scanGate)
	return all, total, err
}

func verdictsByID(ctx context.Context, q store.Querier, orgID string, ids []string) (map[string]*decision.Verdict, error) {
	in, list := q.Dialect().In("$2", ids)
	rows, err := q.Query(ctx, `SELECT id, verdict FROM gates WHERE org_id = $1 AND id`+in, orgID, list)
	all, err := store.All(rows, err, func(row store.Row) (g Gate, err error) {
		err = row.Scan(&g.ID, &g.Verdict)
		return g, err
	})
	verdicts := map[string]*decision.Verdict{}
	for _, g := range all {
		verdicts[g.ID] = g.Verdict
	}
	return verdicts, err
}

const runColumns = `gate_id, suite_id, step, arm, run_id, version_id, conditions`

func scanRun(row store.Row) (r trialRun, err error) {
	err = row.Scan(&r.gateID, &r.suiteID, &r.step, &r.arm, &r.runID, &r.versionID, &r.conditions)
	return r, err
}

func insertTrialRun(ctx context.Context, tx *store.Tx, r trialRun) error {
	_, err := tx.Exec(ctx, `INSERT INTO gate_runs (`+runColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		r.gateID, r.suiteID, r.step, r.arm, r.runID, r.versionID, r.conditions)
	return err
}

func runsOfGate(ctx context.Context, q store.Querier, gateID string) ([]trialRun, error) {
	rows, err := q.Query(ctx, `
		SELECT `+runColumns+` FROM gate_runs WHERE gate_id = $1 ORDER BY suite_id, step DESC, arm DESC`, gateID)
	return store.All(rows, err, scanRun)
}

// lastScreen finds the run of a version on all cases of a suite that the newest
// gate before another one made.
func lastScreen(ctx context.Context, q store.Querier, versionID, suiteID, before string) (r trialRun, found bool, err error) {
	rows, err := q.Query(ctx, `
		SELECT `+runColumns+` FROM gate_runs WHERE version_id = $1 AND suite_id = $2 AND step = 'screen' AND gate_id < $3
		ORDER BY gate_id DESC LIMIT 1`, versionID, suiteID, before)
	r, err = store.One(rows, err, "Run", scanRun)
	if fault.Is(err, fault.NotFound) {
		return r, false, nil
	}
	return r, err == nil, err
}

// runsOfOpenGates lists the runs of an entry's gates that have yet to decide.
func runsOfOpenGates(ctx context.Context, q store.Querier, entryID string) ([]cancelRun, error) {
	rows, err := q.Query(ctx, `
		SELECT g.org_id, r.run_id FROM gates g JOIN gate_runs r ON r.gate_id = g.id
		WHERE g.entry_id = $1 AND g.status IN ('queued', 'running') ORDER BY r.run_id`, entryID)
	return store.All(rows, err, func(row store.Row) (args cancelRun, err error) {
		err = row.Scan(&args.OrgID, &args.RunID)
		return args, err
	})
}

func deleteOfEntry(ctx context.Context, tx *store.Tx, entryID string) error {
	for _, statement := range []string{
		`DELETE FROM gate_runs WHERE gate_id IN (SELECT id FROM gates WHERE entry_id = $1)`,
		`DELETE FROM gates WHERE entry_id = $1`,
		`DELETE FROM gate_policies WHERE entry_id = $1`,
	} {
		if _, err := tx.Exec(ctx, statement, entryID); err != nil {
			return err
		}
	}
	return nil
}
