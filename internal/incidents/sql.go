package incidents

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/store"
)

const columns = `id, org_id, rule_id, skill_id, skill_name, entry_id, version_id, version, good_version, evidence, connection_id,
	attempt_id, commit_sha, commit_status, commit_detail, issue_status, issue_detail, issue_number, issue_url, tries,
	installations, told_at, opened_at, closed_at`

func scanIncident(row store.Row) (i Incident, err error) {
	err = row.Scan(&i.ID, &i.OrgID, &i.RuleID, &i.SkillID, &i.SkillName, &i.EntryID, &i.VersionID, &i.Version, &i.GoodVersion,
		&i.Evidence, &i.ConnectionID, &i.AttemptID, &i.CommitSHA, &i.CommitStatus, &i.CommitDetail, &i.IssueStatus, &i.IssueDetail,
		&i.IssueNumber, &i.IssueURL, &i.Tries, &i.Installations, store.NullTime(&i.ToldAt), store.Time(&i.OpenedAt),
		store.NullTime(&i.ClosedAt))
	return i, err
}

func insertIncident(ctx context.Context, tx *store.Tx, i Incident) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO incidents (`+columns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24)`,
		i.ID, i.OrgID, i.RuleID, i.SkillID, i.SkillName, i.EntryID, i.VersionID, i.Version, i.GoodVersion, i.Evidence, i.ConnectionID,
		i.AttemptID, i.CommitSHA, i.CommitStatus, i.CommitDetail, i.IssueStatus, i.IssueDetail, i.IssueNumber, i.IssueURL, i.Tries,
		i.Installations, store.NullMicros(i.ToldAt), store.Micros(i.OpenedAt), store.NullMicros(i.ClosedAt))
	return err
}

// updateIncident writes what the steps of an incident change.
func updateIncident(ctx context.Context, q store.Querier, i Incident) error {
	_, err := q.Exec(ctx, `
		UPDATE incidents SET commit_status = $2, commit_detail = $3, issue_status = $4, issue_detail = $5, issue_number = $6,
			issue_url = $7, tries = $8, installations = $9, told_at = $10, closed_at = $11
		WHERE id = $1`, i.ID, i.CommitStatus, i.CommitDetail, i.IssueStatus, i.IssueDetail, i.IssueNumber, i.IssueURL, i.Tries,
		i.Installations, store.NullMicros(i.ToldAt), store.NullMicros(i.ClosedAt))
	return err
}

func incidentByID(ctx context.Context, q store.Querier, id, lock string) (Incident, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM incidents WHERE id = $1`+lock, id)
	return store.One(rows, err, "Incident", scanIncident)
}

// openIncidents returns the ids of the incidents that are not at their end.
func openIncidents(ctx context.Context, q store.Querier) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT id FROM incidents WHERE closed_at IS NULL ORDER BY id`)
	return store.All(rows, err, store.Value[string])
}
