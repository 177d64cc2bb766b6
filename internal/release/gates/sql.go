package gates

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
)

// policyOf reads the policy of an entry, or else the organisation's default. The default is
// stored with the entry id ”; it sorts first, so the entry's own overwrites it.
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

// policiesOf returns the policies of an organisation's entries by their ids, and the
// default.
func policiesOf(ctx context.Context, q store.Querier, orgID string) (own map[string]Policy, everyone Policy, err error) {
	own, everyone = map[string]Policy{}, DefaultPolicy()
	rows, err := q.Query(ctx, `SELECT entry_id, policy FROM gate_policies WHERE org_id = $1`, orgID)
	err = store.Each(rows, err, func(row store.Row) error {
		var of, raw string
		if err := row.Scan(&of, &raw); err != nil {
			return err
		}
		p := DefaultPolicy()
		if err := json.Unmarshal([]byte(raw), &p); err != nil {
			return err
		}
		if of == "" {
			everyone = p
		} else {
			own[of] = p
		}
		return nil
	})
	return own, everyone, err
}

// upsertPolicy writes the policy of an entry, or the default for "".
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

// pull_id is the lane: an id, apart, or NULL for ordinary pushes.
const gateColumns = `id, org_id, entry_id, version_id, version, against_id, against, status, verdict, reason, policy, created_by,
	created_at, started_at, decided_at, override, result, pull, COALESCE(pull_id, ''), content, pool, previous`

// scanGate reads gateColumns. JSON columns that may be NULL stay nil.
func scanGate(row store.Row) (g Gate, err error) {
	var policy, result, pullID, previous string
	var verdict, override, pull *string
	err = row.Scan(&g.ID, &g.OrgID, &g.EntryID, &g.VersionID, &g.Version, &g.AgainstID, &g.Against, &g.Status,
		&verdict, &g.Reason,
		&policy, &g.CreatedBy, store.Time(&g.CreatedAt), store.NullTime(&g.StartedAt), store.NullTime(&g.DecidedAt),
		&override, &result, &pull, &pullID, &g.Content, &g.Pool, &previous)
	if err != nil {
		return g, err
	}
	g.Apart = pullID == apart
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
	if err := json.Unmarshal([]byte(previous), &g.Previous); err != nil {
		return g, err
	}
	return g, json.Unmarshal([]byte(result), &g.Result)
}

// insertGate writes a gate before its trials. started_at, verdict and the like come with
// updateGate.
func insertGate(ctx context.Context, tx *store.Tx, g Gate) error {
	policy, err := json.Marshal(g.Policy)
	if err != nil {
		return err
	}
	var pull *string
	if g.Pull != nil {
		raw, err := json.Marshal(g.Pull)
		if err != nil {
			return err
		}
		text := string(raw)
		pull = &text
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO gates (id, org_id, entry_id, version_id, version, against_id, against, status, reason, policy, created_by,
			created_at, result, pull_id, pull, content)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, '{}', NULLIF($13, ''), $14, $15)`,
		g.ID, g.OrgID, g.EntryID, g.VersionID, g.Version, g.AgainstID, g.Against, g.Status, g.Reason, string(policy), g.CreatedBy,
		store.Micros(g.CreatedAt), g.lane(), pull, g.Content)
	return err
}

// updateGate writes what changes while a gate decides. The caller has locked the entry, so no
// update is lost.
func updateGate(ctx context.Context, tx *store.Tx, g Gate) error {
	result, err := json.Marshal(g.Result.stored())
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
		WHERE id = $1`, g.ID, g.Status, g.Verdict, g.Reason, store.NullMicros(g.StartedAt), store.NullMicros(g.DecidedAt),
		override,
		string(result))
	return err
}

// findPool sets the earlier gates of a pool, or, before the trials are planned, of the pool
// that the newest gate of the same files against the same version was in. Ids are time-ordered
// (store.NewID), so id < $4 are the earlier gates.
func findPool(ctx context.Context, q store.Querier, g *Gate) error {
	g.Previous = nil
	if g.Content == "" || g.AgainstID == nil {
		return nil
	}
	rows, err := q.Query(ctx, `
		SELECT id, pool FROM gates
		WHERE entry_id = $1 AND content = $2 AND content <> '' AND against_id = $3 AND pool <> '' AND id < $4 ORDER BY id DESC`,
		g.EntryID, g.Content, *g.AgainstID, g.ID)
	pool := g.Pool
	return store.Each(rows, err, func(row store.Row) error {
		var id, of string
		err := row.Scan(&id, &of)
		// Rows come newest first.
		if pool == "" {
			pool = of
		}
		if of == pool {
			g.Previous = append([]string{id}, g.Previous...)
		}
		return err
	})
}

// updatePool writes the pool of a gate.
func updatePool(ctx context.Context, tx *store.Tx, g Gate) error {
	previous, err := json.Marshal(append([]string{}, g.Previous...))
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE gates SET content = $2, pool = $3, previous = $4 WHERE id = $1`,
		g.ID, g.Content, g.Pool, string(previous))
	return err
}

// gateByID finds a gate of the organisation.
func gateByID(ctx context.Context, q store.Querier, orgID, id string) (Gate, error) {
	rows, err := q.Query(ctx, `SELECT `+gateColumns+` FROM gates WHERE org_id = $1 AND id = $2`, orgID, id)
	g, err := store.One(rows, err, "Gate", scanGate)
	if err != nil {
		return g, err
	}
	return g, addEmails(ctx, q, []Gate{g})
}

// gatesOfVersion lists the gates of a version, newest first. Gates of pull requests are left
// out, since they are of snapshots.
func gatesOfVersion(ctx context.Context, q store.Querier, v registry.Version) ([]Gate, error) {
	rows, err := q.Query(ctx, `
		SELECT `+gateColumns+` FROM gates WHERE entry_id = $1 AND version_id = $2 AND pull IS NULL ORDER BY id DESC`,
		v.EntryID, v.ID)
	return store.All(rows, err, scanGate)
}

// addEmails sets the addresses of who changed suites, which gates do not store. Removed users
// stay without one.
func addEmails(ctx context.Context, q store.Querier, all []Gate) error {
	var changes []*api.GateSuiteChange
	var ids []string
	for _, g := range all {
		for i := range g.Result.Suites {
			for j := range g.Result.Suites[i].Changes {
				c := &g.Result.Suites[i].Changes[j]
				changes, ids = append(changes, c), append(ids, c.By)
			}
		}
	}
	slices.Sort(ids)
	users, err := auth.UsersByID(ctx, q, slices.Compact(ids))
	for _, c := range changes {
		if u := users[c.By]; u.RemovedAt == nil {
			c.Email = u.Email
		}
	}
	return err
}

// openGates lists the gates of one lane of an entry that have yet to decide: see
// Gate.lane.
func openGates(ctx context.Context, q store.Querier, entryID, lane string) ([]Gate, error) {
	rows, err := q.Query(ctx, `
		SELECT `+gateColumns+` FROM gates
		WHERE entry_id = $1 AND status IN ('queued', 'running') AND COALESCE(pull_id, '') = $2 ORDER BY id`, entryID, lane)
	return store.All(rows, err, scanGate)
}

// Gates without a verdict sort by their status.
var listed = store.List[Gate]{
	Columns: gateColumns, Order: `id DESC`, Scan: scanGate,
	From:  `FROM gates WHERE org_id = $1 AND ($2 = '' OR entry_id = $2) AND ($3 = '' OR verdict = $3)`,
	Sorts: store.Sorting{"version": "version", "verdict": "COALESCE(verdict, status)", "created_at": "created_at"},
}

// List returns a page of the organisation's gates, newest first, and their number.
func (s *Service) List(ctx context.Context, orgID string, f Filter) ([]Gate, int, error) {
	all, total, err := listed.Page(ctx, s.DB, f.Page, orgID, f.EntryID, f.Verdict)
	if err != nil {
		return nil, 0, err
	}
	return all, total, addEmails(ctx, s.DB, all)
}

// Verdicts returns what gates of the organisation decided, nil for those that have
// yet to. Those that were deleted are missing. It reads verdicts only; the other columns hold
// large JSON.
func (s *Service) Verdicts(ctx context.Context, orgID string, ids []string) (map[string]*decision.Verdict, error) {
	in, list := s.DB.Dialect().In("$2", ids)
	rows, err := s.DB.Query(ctx, `SELECT id, verdict FROM gates WHERE org_id = $1 AND id`+in, orgID, list)
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

// They must be in the order of scanRun and Insert.
const runColumns = `gate_id, suite_id, step, arm, run_id, version_id, conditions, reused`

func scanRun(row store.Row) (r trialRun, err error) {
	err = row.Scan(&r.gateID, &r.suiteID, &r.step, &r.arm, &r.runID, &r.versionID, &r.conditions, &r.reused)
	return r, err
}

// Insert implements runs.Purpose.
func (r trialRun) Insert(ctx context.Context, tx *store.Tx) (isNew bool, err error) {
	n, err := tx.Exec(ctx, `
		INSERT INTO gate_runs (`+runColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
		r.gateID, r.suiteID, r.step, r.arm, r.runID, r.versionID, r.conditions, r.reused)
	return n > 0, err
}

// runsOfGates lists the runs of some gates, those of the first step first. "screen" sorts after
// "repeat" and "confirm", and "new" after "current", hence DESC.
func runsOfGates(ctx context.Context, q store.Querier, gateIDs ...string) ([]trialRun, error) {
	in, list := q.Dialect().In("$1", gateIDs)
	rows, err := q.Query(ctx, `
		SELECT `+runColumns+` FROM gate_runs WHERE gate_id`+in+` ORDER BY gate_id, suite_id, step DESC, arm DESC`, list)
	return store.All(rows, err, scanRun)
}

// RunsOf lists the runs of a gate by suite, those of the new version first.
func RunsOf(ctx context.Context, q store.Querier, gateID string) ([]Run, error) {
	all, err := runsOfGates(ctx, q, gateID)
	made := make([]Run, len(all))
	for i, r := range all {
		made[i] = Run{r.runID, string(r.arm), string(r.step), suiteVersion(r.conditions)}
	}
	return made, err
}

// HasRun reports whether a run was made for a gate.
func HasRun(ctx context.Context, q store.Querier, runID string) (bool, error) {
	rows, err := q.Query(ctx, `SELECT EXISTS (SELECT 1 FROM gate_runs WHERE run_id = $1)`, runID)
	return store.One(rows, err, "Run", store.Value[bool])
}

// DecidedOf returns the organisations and ids of the decided gates of versions, oldest first.
func DecidedOf(ctx context.Context, q store.Querier, of []registry.Version) ([][2]string, error) {
	entries, versions := make([]string, len(of)), make([]string, len(of))
	for i, v := range of {
		entries[i], versions[i] = v.EntryID, v.ID
	}
	inEntries, entryList := q.Dialect().In("$1", entries)
	inVersions, versionList := q.Dialect().In("$2", versions)
	rows, err := q.Query(ctx, `
		SELECT org_id, id FROM gates WHERE entry_id`+inEntries+` AND version_id`+inVersions+`
			AND (status = 'decided' OR override IS NOT NULL) AND pull IS NULL ORDER BY id`, entryList, versionList)
	return store.All(rows, err, func(row store.Row) (of [2]string, err error) {
		err = row.Scan(&of[0], &of[1])
		return of, err
	})
}

// lastScreen finds the run of a version on all cases of a suite that the newest
// gate before another one made. That run may itself be reused, or be deleted by now.
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

// ranSuites reports whether a gate of an entry's versions has run a suite before.
func ranSuites(ctx context.Context, q store.Querier, entryID string) (bool, error) {
	rows, err := q.Query(ctx, `
		SELECT EXISTS (SELECT 1 FROM gates g JOIN gate_runs r ON r.gate_id = g.id WHERE g.entry_id = $1
			AND g.pull IS NULL)`, entryID)
	return store.One(rows, err, "Runs", store.Value[bool])
}

// lastConditions returns the conditions under which the last gate of another version of the
// entry ran its suites, by suite. A rerun would else hide what was changed.
func lastConditions(ctx context.Context, q store.Querier, g Gate) (map[string]string, error) {
	rows, err := q.Query(ctx, `
		SELECT suite_id, conditions FROM gate_runs
		WHERE step = 'screen' AND arm = 'new' AND gate_id = (
			SELECT g.id FROM gates g JOIN gate_runs r ON r.gate_id = g.id
			WHERE g.entry_id = $1 AND g.id < $2 AND g.version_id <> $3 AND g.pull IS NULL AND g.status = 'decided'
			ORDER BY g.id DESC LIMIT 1)
		ORDER BY suite_id`, g.EntryID, g.ID, g.VersionID)
	last := map[string]string{}
	return last, store.Each(rows, err, func(row store.Row) error {
		var suiteID, conditions string
		err := row.Scan(&suiteID, &conditions)
		last[suiteID] = conditions
		return err
	})
}

// keepRequirements makes the versions of an entry, or of all entries with the default
// policy, that wait for people go on waiting for what a policy asks. Requirements only grow: of
// several lowered policies the strictest counts.
func keepRequirements(ctx context.Context, tx *store.Tx, orgID, entryID string, p Policy) error {
	waiting, err := registry.Unpublished(ctx, tx, orgID, entryID)
	if err != nil || len(waiting) == 0 {
		return err
	}
	pairs, list := tx.Dialect().Pairs("$6", waiting)
	_, err = tx.Exec(ctx, `
		INSERT INTO gate_requirements (version_id, org_id, entry_id, approvals, self_approval, host_reviews)
		SELECT pairs.a, CAST($1 AS TEXT), pairs.b, $3, $4, $5 FROM `+pairs+`
		WHERE $2 <> '' OR NOT EXISTS (SELECT 1 FROM gate_policies p WHERE p.org_id = $1 AND p.entry_id = pairs.b)
		ON CONFLICT (version_id) DO UPDATE SET
			approvals = CASE WHEN excluded.approvals > gate_requirements.approvals
				THEN excluded.approvals ELSE gate_requirements.approvals END,
			self_approval = gate_requirements.self_approval AND excluded.self_approval,
			host_reviews = gate_requirements.host_reviews AND excluded.host_reviews`,
		orgID, entryID, p.Approvals, p.SelfApproval, p.HostReviews, list)
	return err
}

// requirementsOf returns what versions go on waiting for since their policy was lowered, by id.
// Only the three fields about approvals are set.
func requirementsOf(ctx context.Context, q store.Querier, versionIDs ...string) (map[string]Policy, error) {
	in, list := q.Dialect().In("$1", versionIDs)
	rows, err := q.Query(ctx, `
		SELECT version_id, approvals, self_approval, host_reviews FROM gate_requirements WHERE version_id`+in, list)
	found := map[string]Policy{}
	err = store.Each(rows, err, func(row store.Row) error {
		var id string
		var p Policy
		err := row.Scan(&id, &p.Approvals, &p.SelfApproval, &p.HostReviews)
		found[id] = p
		return err
	})
	return found, err
}

// deleteOfEntry deletes all rows of an entry, children first.
func deleteOfEntry(ctx context.Context, tx *store.Tx, entryID string) error {
	for _, statement := range []string{
		`DELETE FROM gate_runs WHERE gate_id IN (SELECT id FROM gates WHERE entry_id = $1)`,
		`DELETE FROM gates WHERE entry_id = $1`,
		`DELETE FROM gate_requirements WHERE entry_id = $1`,
		`DELETE FROM gate_policies WHERE entry_id = $1`,
	} {
		if _, err := tx.Exec(ctx, statement, entryID); err != nil {
			return err
		}
	}
	return nil
}
