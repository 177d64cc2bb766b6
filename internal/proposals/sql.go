package proposals

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/store"
)

const columns = `id, org_id, skill_id, skill_name, finding, proposal_type, current_value, proposed_value, reason, confidence,
	pass_rate_before, projected_pass_rate, evidence, status, proposed_by, reviewed_by, reviewed_at, applied_at, created_at`

func scan(row store.Row) (p Proposal, err error) {
	var evidence string
	err = row.Scan(&p.ID, &p.OrgID, &p.SkillID, &p.SkillName, &p.Finding, &p.Type, &p.CurrentValue, &p.ProposedValue, &p.Reason,
		&p.Confidence, &p.PassRateBefore, &p.ProjectedPassRate, &evidence, &p.Status, &p.ProposedBy,
		&p.ReviewedBy, store.NullTime(&p.ReviewedAt), store.NullTime(&p.AppliedAt), store.Time(&p.CreatedAt))
	p.Evidence = []byte(evidence)
	return p, err
}

// insertProposal stores a proposal, deduplicated by skill and finding, and
// returns its id or that of the stored one.
func insertProposal(ctx context.Context, tx *store.Tx, p Proposal) (string, error) {
	_, err := tx.Exec(ctx, `
		INSERT INTO proposals (`+columns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
		ON CONFLICT (org_id, skill_name, finding) DO NOTHING`,
		p.ID, p.OrgID, p.SkillID, p.SkillName, p.Finding, p.Type, p.CurrentValue, p.ProposedValue, p.Reason, p.Confidence,
		p.PassRateBefore, p.ProjectedPassRate, string(p.Evidence), p.Status, p.ProposedBy, p.ReviewedBy,
		store.NullMicros(p.ReviewedAt), store.NullMicros(p.AppliedAt), store.Micros(p.CreatedAt))
	if err != nil {
		return "", err
	}
	rows, err := tx.Query(ctx, `
		SELECT id FROM proposals WHERE org_id = $1 AND skill_name = $2 AND finding = $3`, p.OrgID, p.SkillName, p.Finding)
	return store.One(rows, err, "Proposal", store.Value[string])
}

func proposalExists(ctx context.Context, q store.Querier, orgID, skillName, finding string) (bool, error) {
	rows, err := q.Query(ctx, `
		SELECT COUNT(*) FROM proposals WHERE org_id = $1 AND skill_name = $2 AND finding = $3`, orgID, skillName, finding)
	n, err := store.One(rows, err, "Count", store.Value[int])
	return n > 0, err
}

func updateStatus(ctx context.Context, q store.Querier, p Proposal) error {
	_, err := q.Exec(ctx, `
		UPDATE proposals SET status = $3, reviewed_by = $4, reviewed_at = $5, applied_at = $6 WHERE org_id = $1 AND id = $2`,
		p.OrgID, p.ID, p.Status, p.ReviewedBy, store.NullMicros(p.ReviewedAt), store.NullMicros(p.AppliedAt))
	return err
}

func proposalByID(ctx context.Context, q store.Querier, orgID, id, lock string) (Proposal, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM proposals WHERE org_id = $1 AND id = $2`+lock, orgID, id)
	return store.One(rows, err, "Proposal", scan)
}

// awaited leaves out pending proposals of hidden skills, which are not worth a
// decision.
const awaited = `(status <> 'pending' OR NOT EXISTS (SELECT 1 FROM skills k WHERE k.id = proposals.skill_id AND k.hidden))`

func proposalsOf(ctx context.Context, q store.Querier, orgID string, f Filter) ([]Proposal, int, error) {
	const where = ` FROM proposals WHERE org_id = $1 AND ($2 = '' OR status = $2) AND ($3 = '' OR skill_name = $3)
		AND ($4 = '' OR proposed_by = $4) AND ($5 OR ` + awaited + `)`
	rows, err := q.Query(ctx, `SELECT COUNT(*)`+where, orgID, f.Status, f.SkillName, f.ProposedBy, f.Hidden)
	total, err := store.One(rows, err, "Count", store.Value[int])
	if err != nil {
		return nil, 0, err
	}
	rows, err = q.Query(ctx, `SELECT `+columns+where+` ORDER BY id DESC LIMIT $6 OFFSET $7`,
		orgID, f.Status, f.SkillName, f.ProposedBy, f.Hidden, f.Limit, f.Offset)
	all, err := store.All(rows, err, scan)
	return all, total, err
}

func countPending(ctx context.Context, q store.Querier, orgID string) (int, error) {
	rows, err := q.Query(ctx, `SELECT COUNT(*) FROM proposals WHERE org_id = $1 AND status = $2 AND `+awaited, orgID, Pending)
	return store.One(rows, err, "Count", store.Value[int])
}
