package unattended

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
)

const policyColumns = `org_id, skill_id, mode, monthly_usd, updated_by, night, note, run_id`

func scanPolicy(row store.Row) (p policyOf, err error) {
	err = row.Scan(&p.orgID, &p.skillID, &p.Mode, &p.MonthlyUSD, &p.userID, &p.Date, &p.Note, &p.RunID)
	return p, err
}

// policyOfSkill returns the policy of a skill; a skill without one has the mode off.
func policyOfSkill(ctx context.Context, q store.Querier, orgID, skillID string) (policyOf, error) {
	rows, err := q.Query(ctx, `SELECT `+policyColumns+` FROM improve_policies WHERE org_id = $1 AND skill_id = $2`,
		orgID, skillID)
	found, err := store.All(rows, err, scanPolicy)
	if err != nil || len(found) == 0 {
		return policyOf{Policy: Policy{Mode: Off}, orgID: orgID, skillID: skillID}, err
	}
	return found[0], nil
}

// upsertPolicy sets the policy. Its first night is the next one. The note and the run of the last
// night stay as they are.
func upsertPolicy(ctx context.Context, tx *store.Tx, c access.Caller, skillID string, p Policy) error {
	now := store.Now()
	_, err := tx.Exec(ctx, `
		INSERT INTO improve_policies (org_id, skill_id, mode, monthly_usd, updated_by, updated_at, night, note)
		VALUES ($1, $2, $3, $4, $5, $6, $7, '')
		ON CONFLICT (org_id, skill_id) DO UPDATE SET mode = excluded.mode, monthly_usd = excluded.monthly_usd,
			updated_by = excluded.updated_by, updated_at = excluded.updated_at`,
		c.OrgID, skillID, p.Mode, p.MonthlyUSD, c.UserID, store.Micros(now), dateOf(now))
	return err
}

// orgsDue returns the organisations with a policy that has not seen a night, or a run
// whose end it has not seen. A policy that was switched off while its run was under way still has
// to see the end of it.
func orgsDue(ctx context.Context, q store.Querier, date string) ([]string, error) {
	rows, err := q.Query(ctx, `
		SELECT DISTINCT org_id FROM improve_policies WHERE mode <> 'off' AND night < $1 OR run_id IS NOT NULL`, date)
	return store.All(rows, err, store.Value[string])
}

// nextPolicy returns what a night has to look at next, runs before the rest; none if it
// is over.
func nextPolicy(ctx context.Context, q store.Querier, orgID, date string) ([]policyOf, error) {
	rows, err := q.Query(ctx, `
		SELECT `+policyColumns+` FROM improve_policies
		WHERE org_id = $1 AND (mode <> 'off' AND night < $2 OR run_id IS NOT NULL)
		ORDER BY run_id IS NULL, skill_id LIMIT 1`, orgID, date)
	return store.All(rows, err, scanPolicy)
}

// claimNight stores what a night does, unless it has looked at the skill already: of
// two workers one gets it.
func claimNight(ctx context.Context, tx *store.Tx, p policyOf, n Night) (claimed bool, err error) {
	rows, err := tx.Exec(ctx, `
		UPDATE improve_policies SET night = $3, note = $4, run_id = $5
		WHERE org_id = $1 AND skill_id = $2 AND night < $3 AND run_id IS NULL`, p.orgID, p.skillID, n.Date, n.Note, n.RunID)
	return rows > 0, err
}

// setNight stores what a night did.
func setNight(ctx context.Context, q store.Querier, p policyOf, n Night) error {
	_, err := q.Exec(ctx, `UPDATE improve_policies SET night = $3, note = $4, run_id = $5 WHERE org_id = $1 AND skill_id = $2`,
		p.orgID, p.skillID, n.Date, n.Note, n.RunID)
	return err
}

func insertRun(ctx context.Context, tx *store.Tx, p policyOf, runID string, maxCost float64) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO improve_policy_runs (run_id, org_id, skill_id, max_cost_usd, started_at) VALUES ($1, $2, $3, $4, $5)`,
		runID, p.orgID, p.skillID, maxCost, store.Micros(store.Now()))
	return err
}

// spentSince sums what the runs of a skill that started by themselves have cost. A run
// counts with its limit until it is over, and also if its cost is not known. So two runs that start
// on one day can't exceed the budget together.
func spentSince(ctx context.Context, q store.Querier, orgID, skillID string, since time.Time) (usd float64, err error) {
	rows, err := q.Query(ctx, `
		SELECT p.max_cost_usd, s.cost FROM improve_policy_runs p
		LEFT JOIN improve_runs r ON r.id = p.run_id AND r.finished_at IS NOT NULL
		LEFT JOIN improve_searches s ON s.run_id = r.id
		WHERE p.org_id = $1 AND p.skill_id = $2 AND p.started_at >= $3`, orgID, skillID, store.Micros(since))
	err = store.Each(rows, err, func(row store.Row) error {
		var limit float64
		var stored *string
		if err := row.Scan(&limit, &stored); err != nil {
			return err
		}
		if stored != nil {
			var cost spend.Cost
			if err := json.Unmarshal([]byte(*stored), &cost); err != nil {
				return err
			}
			if known := cost.USD(); known != nil {
				limit = *known
			}
		}
		usd += limit
		return nil
	})
	return usd, err
}

// casesTried returns the ids of the cases of a suite's last improve run, unattended or
// not. Runs of earlier versions have the cases in another column.
func casesTried(ctx context.Context, q store.Querier, orgID, suiteID string) (map[string]bool, error) {
	rows, err := q.Query(ctx, `
		SELECT COALESCE(s.cases, r.queries) FROM improve_runs r LEFT JOIN improve_searches s ON s.run_id = r.id
		WHERE r.org_id = $1 AND r.suite_id = $2 ORDER BY r.id DESC LIMIT 1`, orgID, suiteID)
	stored, err := store.All(rows, err, store.Value[string])
	if err != nil || len(stored) == 0 {
		return nil, err
	}
	var cases []struct {
		ID     string `json:"id"`
		CaseID string `json:"case_id"` // in runs of earlier versions
	}
	if err := json.Unmarshal([]byte(stored[0]), &cases); err != nil {
		return nil, err
	}
	tried := make(map[string]bool, len(cases))
	for _, c := range cases {
		tried[cmp.Or(c.ID, c.CaseID)] = true
	}
	return tried, nil
}

// runsUnderWay counts the organisation's improve runs that are not over.
func runsUnderWay(ctx context.Context, q store.Querier, orgID string) (int, error) {
	return store.Count(ctx, q, `
		FROM improve_runs WHERE org_id = $1 AND status IN ('queued', 'running')`, orgID)
}
