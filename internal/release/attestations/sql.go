package attestations

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/dsse"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/intoto"
)

// active is TRUE or NULL, never FALSE: a unique index then allows one active key, since NULLs
// are distinct on both databases.
const keyColumns = `id, public_key, private_key, active, endorsement, created_at, retired_at, revoked_at, reason`

func scanKey(row store.Row) (k Key, err error) {
	var private, endorsement *string
	var active *bool
	err = row.Scan(&k.ID, &k.PEM, &private, &active, &endorsement, store.Time(&k.CreatedAt), store.NullTime(&k.RetiredAt),
		store.NullTime(&k.RevokedAt), &k.Reason)
	if err != nil {
		return k, err
	}
	k.Active = active != nil && *active
	if private != nil {
		k.private = []byte(*private)
	}
	if endorsement != nil {
		err = json.Unmarshal([]byte(*endorsement), &k.Endorsement)
	}
	return k, err
}

// lock is "" or the dialect's FOR UPDATE.
func allKeys(ctx context.Context, q store.Querier, lock string) ([]Key, error) {
	rows, err := q.Query(ctx, `SELECT `+keyColumns+` FROM signing_keys ORDER BY created_at DESC, id`+lock)
	return store.All(rows, err, scanKey)
}

func activeKey(ctx context.Context, q store.Querier, lock string) (Key, error) {
	rows, err := q.Query(ctx, `SELECT `+keyColumns+` FROM signing_keys WHERE active = $1`+lock, true)
	return store.One(rows, err, "Signing key", scanKey)
}

// insertKey adds the active key, unless there is one. Only the first of several replicas adds
// its key.
func insertKey(ctx context.Context, tx *store.Tx, k Key) error {
	var endorsement *string
	if k.Endorsement != nil {
		raw, err := json.Marshal(k.Endorsement)
		if err != nil {
			return err
		}
		text := string(raw)
		endorsement = &text
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO signing_keys (id, public_key, private_key, active, endorsement, created_at, reason)
		VALUES ($1, $2, $3, $4, $5, $6, '') ON CONFLICT (active) DO NOTHING`,
		k.ID, k.PEM, string(k.private), true, endorsement, store.Micros(k.CreatedAt))
	return err
}

// updateKey ends a key: its private half is deleted.
func updateKey(ctx context.Context, tx *store.Tx, k Key) error {
	_, err := tx.Exec(ctx, `
		UPDATE signing_keys SET private_key = NULL, active = NULL, retired_at = $2, revoked_at = $3, reason = $4 WHERE id = $1`,
		k.ID, store.NullMicros(k.RetiredAt), store.NullMicros(k.RevokedAt), k.Reason)
	return err
}

// setPrivate stores the same key sealed anew.
func setPrivate(ctx context.Context, tx *store.Tx, k Key) error {
	_, err := tx.Exec(ctx, `UPDATE signing_keys SET private_key = $2 WHERE id = $1`, k.ID, string(k.private))
	return err
}

const attestationColumns = `id, org_id, version_id, kind, ref, statement, key_id, signature`

func scanAttestation(row store.Row) (a attestation, err error) {
	var statement string
	err = row.Scan(&a.id, &a.orgID, &a.versionID, &a.kind, &a.ref, &statement, &a.keyID, &a.signature)
	a.statement = []byte(statement)
	return a, err
}

// One that exists stays as it is.
func insertAttestation(ctx context.Context, tx *store.Tx, a attestation, at time.Time) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO attestations (`+attestationColumns+`, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (version_id, kind, ref) DO NOTHING`,
		a.id, a.orgID, a.versionID, a.kind, a.ref, string(a.statement), a.keyID, a.signature, store.Micros(at))
	return err
}

// deleteOldRuns leaves a version the attestations of its newest runs.
func deleteOldRuns(ctx context.Context, tx *store.Tx, versionID string, keep int) error {
	_, err := tx.Exec(ctx, `
		DELETE FROM attestations WHERE version_id = $1 AND kind = 'run' AND id NOT IN (
			SELECT a.id FROM attestations a WHERE a.version_id = $1 AND a.kind = 'run' ORDER BY a.id DESC LIMIT $2
		)`, versionID, keep)
	return err
}

// maxListed is how many attestations of a version are listed. A gate that is run again and
// again adds one each time.
const maxListed = 200

// attestationsOf lists the provenance, and then the newest first.
func attestationsOf(ctx context.Context, q store.Querier, versionID string, kinds []string) ([]attestation, error) {
	in, list := q.Dialect().In("$2", kinds)
	rows, err := q.Query(ctx, `
		SELECT `+attestationColumns+` FROM attestations WHERE version_id = $1 AND kind`+in+`
		ORDER BY CASE kind WHEN 'provenance' THEN 0 ELSE 1 END, id DESC LIMIT $3`, versionID, list, maxListed)
	return store.All(rows, err, scanAttestation)
}

// signedByRevoked returns some attestations whose key was revoked, in no order: there
// are few keys, and most often none of them is.
func signedByRevoked(ctx context.Context, q store.Querier, limit int) ([]attestation, error) {
	rows, err := q.Query(ctx, `
		SELECT a.id, a.org_id, a.version_id, a.kind, a.ref, a.statement, a.key_id, a.signature
		FROM signing_keys k JOIN attestations a ON a.key_id = k.id WHERE k.revoked_at IS NOT NULL LIMIT $1`, limit)
	return store.All(rows, err, scanAttestation)
}

func setSignature(ctx context.Context, tx *store.Tx, id string, s dsse.Signature) error {
	_, err := tx.Exec(ctx, `UPDATE attestations SET key_id = $2, signature = $3 WHERE id = $1`, id, s.KeyID, s.Sig)
	return err
}

// facts are what is known about a version.
type facts struct {
	id, orgID string
	of        intoto.Version
	archives  intoto.Archives
	source    registry.Source
	pushedAt  time.Time

	repo, ref, commit, path *string
	workflow                *intoto.Workflow // nil unless a trusted publisher pushed
}

// Versions that don't exist are missing. A version may have several hashes of a kind; MIN picks
// the same one each time, as signed bytes must.
func factsOf(ctx context.Context, q store.Querier, versionIDs []string) ([]facts, error) {
	in, list := q.Dialect().In("$1", versionIDs)
	rows, err := q.Query(ctx, `
		SELECT v.id, e.org_id, o.name, e.name, v.version, v.content_hash, COALESCE(v.canonical_hash, ''), v.source, v.source_repo,
			v.source_ref, v.source_commit, v.source_path, v.pushed_at,
			COALESCE((SELECT MIN(h.hash) FROM registry_tree_hashes h WHERE h.version_id = v.id AND h.kind = 'dirhash'), ''),
			COALESCE((SELECT MIN(h.hash) FROM registry_tree_hashes h WHERE h.version_id = v.id AND h.kind = 'plugin-zip'), ''),
			p.version_id IS NOT NULL, COALESCE(p.issuer, ''), COALESCE(p.repository, ''), COALESCE(p.ref, ''), COALESCE(p.commit_sha, ''),
			COALESCE(p.workflow_ref, ''), COALESCE(p.run_id, ''), COALESCE(p.run_attempt, ''), COALESCE(p.run_url, ''),
			COALESCE(p.event, ''), COALESCE(p.environment, ''), COALESCE(p.runner, '')
		FROM registry_versions v JOIN registry_entries e ON e.id = v.entry_id JOIN organisations o ON o.id = e.org_id
			LEFT JOIN version_publishers p ON p.version_id = v.id AND p.org_id = e.org_id
		WHERE v.id`+in+` ORDER BY v.id`, list)
	return store.All(rows, err, func(row store.Row) (f facts, err error) {
		var w intoto.Workflow
		var trusted bool
		err = row.Scan(&f.id, &f.orgID, &f.of.Organisation, &f.of.Name, &f.of.Version, &f.archives.SHA256, &f.archives.Discovery,
			&f.source, &f.repo, &f.ref, &f.commit, &f.path, store.Time(&f.pushedAt), &f.archives.DirHash, &f.archives.Plugin,
			&trusted, &w.Issuer, &w.Repository, &w.Ref, &w.Commit, &w.File, &w.RunID, &w.RunAttempt, &w.RunURL, &w.Event, &w.Environment, &w.Runner)
		if trusted {
			f.workflow = &w
		}
		return f, err
	})
}

// ownVersion finds the version that a run of an organisation is about, if it is one
// of its own entries and has the content that was tried.
func ownVersion(ctx context.Context, q store.Querier, orgID, entryID, version, contentHash string) (id string, err error) {
	rows, err := q.Query(ctx, `
		SELECT v.id FROM registry_versions v JOIN registry_entries e ON e.id = v.entry_id
		WHERE v.entry_id = $2 AND v.version = $3 AND v.content_hash = $4 AND e.org_id = $1`, orgID, entryID, version, contentHash)
	return store.One(rows, err, "Version", store.Value[string])
}

// isGated reports whether a run was made for a gate, which has a statement of its own.
func isGated(ctx context.Context, q store.Querier, runID string) (bool, error) {
	rows, err := q.Query(ctx, `SELECT EXISTS (SELECT 1 FROM gate_runs WHERE run_id = $1)`, runID)
	return store.One(rows, err, "Run", store.Value[bool])
}

// Attestations read the tables of runs directly: their numbers are signed as the row has them.
const runColumns = `r.id, r.suite_id, s.name, r.status, r.trials, r.passed, r.failed, r.errors, r.pass_rate, r.interval_low,
	r.interval_high, r.baseline, r.base_rate, r.base_delta, r.judge, t.terms`

const runTables = ` eval_runs r JOIN eval_suites s ON s.id = r.suite_id LEFT JOIN eval_run_terms t ON t.run_id = r.id`

// A trialRun is a run as statements have it.
type trialRun struct {
	intoto.Run
	suiteID, suiteName string
	suiteVersion       int
}

// further are the targets of columns after runColumns.
func scanRun(row store.Row, further ...any) (r trialRun, err error) {
	var failed int
	var low, high, baseRate, delta *float64
	var baseline string
	var judge, terms *string
	err = row.Scan(append([]any{
		&r.ID, &r.suiteID, &r.suiteName, &r.Status, &r.Trials, &r.Passed, &failed, &r.Errors, &r.PassRate, &low, &high,
		&baseline, &baseRate, &delta, &judge, &terms,
	}, further...)...)
	if err != nil {
		return r, err
	}
	r.Cases = r.Passed + failed
	if low != nil && high != nil {
		r.Interval = &[2]float64{*low, *high}
	}
	if baseRate != nil && delta != nil {
		r.Baseline = &intoto.Baseline{Kind: baseline, PassRate: *baseRate, Delta: *delta}
	}
	if judge != nil {
		var j struct {
			API           string `json:"api"`
			Model         string `json:"model"`
			PromptVersion string `json:"prompt_version"`
		}
		if err := json.Unmarshal([]byte(*judge), &j); err != nil {
			return r, err
		}
		r.Judge = &intoto.Judge{API: j.API, Model: j.Model, PromptVersion: j.PromptVersion}
	}
	if terms != nil {
		var t struct {
			Agent *intoto.Agent `json:"agent"`
		}
		if err := json.Unmarshal([]byte(*terms), &t); err != nil {
			return r, err
		}
		r.Agent = t.Agent
	}
	return r, nil
}

func runByID(ctx context.Context, q store.Querier, orgID, id string) (trialRun, error) {
	rows, err := q.Query(ctx, `SELECT `+runColumns+` FROM`+runTables+` WHERE r.org_id = $1 AND r.id = $2`, orgID, id)
	return store.One(rows, err, "Eval run", func(row store.Row) (trialRun, error) { return scanRun(row) })
}

// runsOfGate lists the runs of a gate by suite, those of the new version first.
func runsOfGate(ctx context.Context, q store.Querier, orgID, gateID string) ([]trialRun, error) {
	rows, err := q.Query(ctx, `
		SELECT `+runColumns+`, g.arm, g.step, g.conditions FROM`+runTables+` JOIN gate_runs g ON g.run_id = r.id
		WHERE g.gate_id = $2 AND r.org_id = $1 ORDER BY g.suite_id, g.step DESC, g.arm DESC`, orgID, gateID)
	return store.All(rows, err, func(row store.Row) (trialRun, error) {
		var arm, step, conditions string
		r, err := scanRun(row, &arm, &step, &conditions)
		r.Arm, r.Step = arm, step
		of, _, _ := strings.Cut(conditions, ":") // "3:5f0c...": the version of the suite
		r.suiteVersion, _ = strconv.Atoi(of)
		return r, err
	})
}

// nextUnsigned returns the ids of versions that the backfill has not seen; none at
// the end, and none while their hashes of files are still being computed.
func nextUnsigned(ctx context.Context, q store.Querier, limit int) ([]string, error) {
	rows, err := q.Query(ctx, `
		SELECT v.id FROM registry_versions v WHERE v.id > (SELECT after_id FROM attestation_backfill) ORDER BY v.id LIMIT $1`, limit)
	return store.All(rows, err, store.Value[string])
}

// waitsForHashes reports whether versions still get the hashes of their files.
func waitsForHashes(ctx context.Context, q store.Querier) (bool, error) {
	rows, err := q.Query(ctx, `SELECT EXISTS (SELECT 1 FROM registry_tree_backfill)`)
	return store.One(rows, err, "Backfill", store.Value[bool])
}

func setSeen(ctx context.Context, q store.Querier, versionID string) error {
	_, err := q.Exec(ctx, `UPDATE attestation_backfill SET after_id = $1`, versionID)
	return err
}

// The row is the cursor; without it there is nothing to do at the next start.
func setDone(ctx context.Context, q store.Querier) error {
	_, err := q.Exec(ctx, `DELETE FROM attestation_backfill`)
	return err
}

// decidedGates returns the organisations and ids of the decided gates of versions.
func decidedGates(ctx context.Context, q store.Querier, versionIDs []string) ([][2]string, error) {
	in, list := q.Dialect().In("$1", versionIDs)
	rows, err := q.Query(ctx, `
		SELECT g.org_id, g.id FROM registry_versions v JOIN gates g ON g.entry_id = v.entry_id AND g.version_id = v.id
		WHERE v.id`+in+` AND (g.status = 'decided' OR g.override IS NOT NULL) AND g.pull IS NULL ORDER BY g.id`, list)
	return store.All(rows, err, func(row store.Row) (of [2]string, err error) {
		err = row.Scan(&of[0], &of[1])
		return of, err
	})
}
