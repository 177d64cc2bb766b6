package proposals

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const (
	columns = `p.id, p.org_id, p.skill_id, p.skill_name, p.finding, p.proposal_type, p.target, p.current_value, p.proposed_value,
		p.reason, p.confidence, p.pass_rate_before, p.projected_pass_rate, p.evidence, p.status, p.proposed_by, p.reviewed_by,
		p.reviewed_at, p.applied_at, p.created_at, p.entry_id, p.base_version, p.source_id, p.base_digest, p.skill_md, p.diff,
		p.edits, p.proved, p.proof, p.edited_by, p.refreshed_at`
	outcomeColumns = `COALESCE(o.kind, ''), COALESCE(o.state, ''), COALESCE(o.message, ''), COALESCE(o.entry_id, ''),
		COALESCE(o.version, ''), COALESCE(o.version_id, ''), COALESCE(o.connection_id, ''), COALESCE(o.branch, ''),
		COALESCE(o.commit_sha, ''), COALESCE(o.number, 0), COALESCE(o.url, ''), COALESCE(o.applied_by, ''),
		COALESCE(o.created_at, 0), COALESCE(o.updated_at, 0)`
	from = ` FROM proposals p LEFT JOIN proposal_outcomes o ON o.proposal_id = p.id`
)

// scan reads a proposal with its outcome. The columns of the outcome are COALESCEd, since most
// proposals have none; kind tells.
func scan(row store.Row) (p Proposal, err error) {
	var evidence, edits string
	var proof *string
	var o Outcome
	err = row.Scan(&p.ID, &p.OrgID, &p.SkillID, &p.SkillName, &p.Finding, &p.Type, &p.Target, &p.CurrentValue, &p.ProposedValue,
		&p.Reason, &p.Confidence, &p.PassRateBefore, &p.ProjectedPassRate, &evidence, &p.Status, &p.ProposedBy,
		&p.ReviewedBy, store.NullTime(&p.ReviewedAt), store.NullTime(&p.AppliedAt), store.Time(&p.CreatedAt),
		&p.EntryID, &p.BaseVersion, &p.SourceID, &p.BaseDigest, &p.SkillMD, &p.Diff, &edits, &p.Proved, &proof, &p.EditedBy,
		store.NullTime(&p.RefreshedAt),
		&o.Kind, &o.State, &o.Message, &o.EntryID, &o.Version, &o.VersionID, &o.ConnectionID, &o.Branch, &o.Commit,
		&o.Number, &o.URL,
		&o.AppliedBy, store.Time(&o.CreatedAt), store.Time(&o.UpdatedAt))
	if err != nil {
		return p, err
	}
	p.Evidence, p.Target = []byte(evidence), cmp.Or(p.Target, Target(p.Type)) // old ones have no target
	if o.Kind != "" {
		p.Outcome = &o
	}
	if err := json.Unmarshal([]byte(edits), &p.Edits); err != nil || proof == nil {
		return p, err
	}
	return p, json.Unmarshal([]byte(*proof), &p.Proof)
}

// insertProposal stores a proposal, deduplicated by skill and finding, and
// returns its id or that of the stored one. The insert does nothing for a duplicate, whatever has
// become of the stored proposal.
func insertProposal(ctx context.Context, tx *store.Tx, p Proposal) (string, error) {
	edits, proof, err := p.encode()
	if err != nil {
		return "", err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO proposals (`+strings.ReplaceAll(columns, "p.", "")+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
			$23, $24, $25, $26,
			$27, $28, $29, $30, $31)
		ON CONFLICT (org_id, skill_name, finding) DO NOTHING`,
		p.ID, p.OrgID, p.SkillID, p.SkillName, p.Finding, p.Type, p.Target, p.CurrentValue, p.ProposedValue,
		p.Reason, p.Confidence,
		p.PassRateBefore, p.ProjectedPassRate, string(p.Evidence), p.Status, p.ProposedBy, p.ReviewedBy,
		store.NullMicros(p.ReviewedAt), store.NullMicros(p.AppliedAt), store.Micros(p.CreatedAt),
		p.EntryID, p.BaseVersion, p.SourceID, p.BaseDigest, p.SkillMD, p.Diff, edits, p.Proved, proof, p.EditedBy,
		store.NullMicros(p.RefreshedAt))
	if err != nil {
		return "", err
	}
	rows, err := tx.Query(ctx, `
		SELECT id FROM proposals WHERE org_id = $1 AND skill_name = $2 AND finding = $3`, p.OrgID, p.SkillName, p.Finding)
	return store.One(rows, err, "Proposal", store.Value[string])
}

// encode returns the fields that are stored as JSON.
func (p Proposal) encode() (edits string, proof *string, err error) {
	if p.Edits == nil {
		p.Edits = []Edit{}
	}
	b, err := json.Marshal(p.Edits)
	if err != nil || p.Proof == nil {
		return string(b), nil, err
	}
	text, err := json.Marshal(p.Proof)
	encoded := string(text)
	return string(b), &encoded, err
}

func proposalOfFinding(ctx context.Context, q store.Querier, orgID, skillName, finding string) (Proposal, error) {
	rows, err := q.Query(ctx, `
		SELECT `+columns+`, `+outcomeColumns+from+` WHERE p.org_id = $1 AND p.skill_name = $2 AND p.finding = $3`,
		orgID, skillName, finding)
	return store.One(rows, err, "Proposal", scan)
}

// updateProposal writes everything but what a proposal is about, and its outcome. Callers hold the
// lock of the row, so no update is lost.
func updateProposal(ctx context.Context, tx *store.Tx, p Proposal) error {
	edits, proof, err := p.encode()
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		UPDATE proposals SET current_value = $3, proposed_value = $4, reason = $5, confidence = $6, projected_pass_rate = $7,
			evidence = $8, status = $9, reviewed_by = $10, reviewed_at = $11, applied_at = $12, entry_id = $13,
				base_version = $14,
			source_id = $15, base_digest = $16, skill_md = $17, diff = $18, edits = $19, proved = $20, proof = $21,
				edited_by = $22,
			refreshed_at = $23
		WHERE org_id = $1 AND id = $2`,
		p.OrgID, p.ID, p.CurrentValue, p.ProposedValue, p.Reason, p.Confidence, p.ProjectedPassRate, string(p.Evidence), p.Status,
		p.ReviewedBy, store.NullMicros(p.ReviewedAt), store.NullMicros(p.AppliedAt), p.EntryID, p.BaseVersion, p.SourceID,
		p.BaseDigest, p.SkillMD, p.Diff, edits, p.Proved, proof, p.EditedBy, store.NullMicros(p.RefreshedAt))
	return err
}

// reopenEmpty takes the approval of proposals back that have no value: clients that
// apply what is approved stumble over them. Approvals of empty proposals are a matter of earlier
// versions; on later ones it finds nothing.
func reopenEmpty(ctx context.Context, q store.Querier) error {
	_, err := q.Exec(ctx, `
		UPDATE proposals SET status = 'pending', reviewed_by = NULL, reviewed_at = NULL
		WHERE status = 'approved' AND proposed_value IS NULL`)
	return err
}

func approvedOf(ctx context.Context, q store.Querier, orgID string) ([]Proposal, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+`, `+outcomeColumns+from+` WHERE p.org_id = $1 AND p.status = $2`,
		orgID, Approved)
	return store.All(rows, err, scan)
}

func proposalByID(ctx context.Context, q store.Querier, orgID, id string) (Proposal, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+`, `+outcomeColumns+from+` WHERE p.org_id = $1 AND p.id = $2`, orgID, id)
	return store.One(rows, err, "Proposal", scan)
}

// lockProposal reads a proposal and locks its row until the transaction ends.
func lockProposal(ctx context.Context, tx *store.Tx, orgID, id string) (Proposal, error) {
	rows, err := tx.Query(ctx, `SELECT id FROM proposals WHERE org_id = $1 AND id = $2`+tx.Dialect().ForUpdate(), orgID, id)
	if _, err := store.One(rows, err, "Proposal", store.Value[string]); err != nil {
		return Proposal{}, err
	}
	return proposalByID(ctx, tx, orgID, id)
}

// awaited leaves out pending proposals of hidden skills, which are not worth a
// decision.
const awaited = `(p.status <> 'pending' OR NOT EXISTS (SELECT 1 FROM skills k WHERE k.id = p.skill_id AND k.hidden))`

var sorts = store.Sorting{
	"skill": "lower(p.skill_name)", "type": "p.proposal_type", "status": "p.status", "confidence": "p.confidence",
	"proposed_by": "p.proposed_by", "created_at": "p.created_at",
}

func countPending(ctx context.Context, q store.Querier, orgID string) (int, error) {
	return store.Count(ctx, q, `FROM proposals p WHERE p.org_id = $1 AND p.status = $2 AND `+awaited, orgID, Pending)
}

// proposalsOf is no store.List: its count need not read the outcomes.
func proposalsOf(ctx context.Context, q store.Querier, orgID string, f Filter) ([]Proposal, int, error) {
	const where = ` WHERE p.org_id = $1 AND ($2 = '' OR p.status = $2) AND ($3 = '' OR p.skill_name = $3)
		AND ($4 = '' OR p.proposed_by = $4) AND ($5 OR ` + awaited + `)`
	total, err := store.Count(ctx, q, `FROM proposals p`+where, orgID, f.Status, f.SkillName, f.ProposedBy, f.Hidden)
	if err != nil {
		return nil, 0, err
	}
	rows, err := q.Query(ctx, `
		SELECT `+columns+`, `+outcomeColumns+from+where+sorts.By(f.Sort, `p.id DESC`)+` LIMIT $6 OFFSET $7`,
		orgID, f.Status, f.SkillName, f.ProposedBy, f.Hidden, f.Limit, f.Offset)
	all, err := store.All(rows, err, scan)
	return all, total, err
}
