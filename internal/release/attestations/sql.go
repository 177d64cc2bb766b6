package attestations

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/publishers"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/dsse"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/intoto"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
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
	registry.Facts
	of       intoto.Version
	archives intoto.Archives
	workflow *intoto.Workflow // nil unless a trusted publisher pushed
}

// factsOf leaves out versions that don't exist.
func factsOf(ctx context.Context, q store.Querier, versionIDs []string) ([]facts, error) {
	versions, err := registry.FactsOf(ctx, q, versionIDs)
	if err != nil {
		return nil, err
	}
	published, err := publishers.Provenances(ctx, q, versionIDs)
	all := make([]facts, len(versions))
	for i, v := range versions {
		f := &all[i]
		f.Facts = v
		f.of = intoto.Version{Organisation: v.OrgName, Name: v.EntryName, Version: v.Version}
		f.archives = intoto.Archives{SHA256: v.ContentHash, Discovery: v.CanonicalHash, DirHash: v.DirHash, Plugin: v.PluginZip}
		if p, ok := published[v.ID]; ok && p.OrgID == v.OrgID {
			r := p.Run
			f.workflow = &intoto.Workflow{
				Issuer: r.Issuer, Repository: r.Repository, Ref: r.Ref, Commit: r.Commit, File: r.WorkflowRef, RunID: r.RunID,
				RunAttempt: r.RunAttempt, RunURL: r.RunURL, Event: r.Event, Environment: r.Environment, Runner: r.Runner,
			}
		}
	}
	return all, err
}

// A trialRun is a run as statements have it.
type trialRun struct {
	intoto.Run
	suiteID, suiteName string
	suiteVersion       int
}

func newTrialRun(r runs.Run) trialRun {
	sum := r.Summary
	t := trialRun{suiteID: r.SuiteID, Run: intoto.Run{
		ID: r.ID, Status: string(r.Status), Trials: r.Trials, Cases: sum.Passed + sum.Failed, Passed: sum.Passed,
		Errors:   sum.Errors,
		PassRate: sum.PassRate, Interval: sum.Interval,
	}}
	if b := sum.Baseline; b != nil {
		t.Baseline = &intoto.Baseline{Kind: string(r.Baseline), PassRate: b.PassRate, Delta: b.Delta}
	}
	if j := r.Judge; j != nil {
		t.Judge = &intoto.Judge{API: j.API, Model: j.Model, PromptVersion: j.PromptVersion}
	}
	if a := r.Terms.Agent; a != nil {
		t.Agent = &intoto.Agent{Name: a.Name, Model: a.Model}
	}
	return t
}

// trialsOf returns the runs that still exist, in the order of what they were made for. Their
// numbers are signed as the database has them.
func trialsOf(ctx context.Context, q store.Querier, orgID string, made ...gates.Run) ([]trialRun, error) {
	ids := make([]string, len(made))
	for i, m := range made {
		ids[i] = m.ID
	}
	found, err := runs.ByID(ctx, q, orgID, ids)
	if err != nil {
		return nil, err
	}
	var trials []trialRun
	var suiteIDs []string
	for _, m := range made {
		if r, ok := found[m.ID]; ok {
			t := newTrialRun(r)
			t.Arm, t.Step, t.suiteVersion = m.Arm, m.Step, int(m.SuiteVersion)
			trials, suiteIDs = append(trials, t), append(suiteIDs, t.suiteID)
		}
	}
	names, err := suites.Names(ctx, q, suiteIDs)
	for i := range trials {
		trials[i].suiteName = names[trials[i].suiteID]
	}
	return trials, err
}

// lastSeen returns the cursor of the backfill.
func lastSeen(ctx context.Context, q store.Querier) (versionID string, done bool, err error) {
	rows, err := q.Query(ctx, `SELECT after_id FROM attestation_backfill`)
	all, err := store.All(rows, err, store.Value[string])
	if err != nil || len(all) == 0 {
		return "", true, err
	}
	return all[0], false, nil
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
