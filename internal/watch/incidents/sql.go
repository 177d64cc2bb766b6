package incidents

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const columns = `id, org_id, rule_id, skill_id, skill_name, entry_id, version_id, version, good_version, evidence, connection_id,
	attempt_id, commit_sha, commit_status, commit_detail, marked_at, issue_status, issue_detail, issue_number, issue_url,
	issue_opened_at, issue_closed_at, tries, installations, told_at, opened_at, closed_at, outcome`

func scanIncident(row store.Row) (i Incident, err error) {
	err = row.Scan(&i.ID, &i.OrgID, &i.RuleID, &i.SkillID, &i.SkillName, &i.EntryID, &i.VersionID, &i.Version, &i.GoodVersion,
		&i.Evidence, &i.ConnectionID, &i.AttemptID, &i.CommitSHA, &i.CommitStatus, &i.CommitDetail, store.NullTime(&i.MarkedAt),
		&i.IssueStatus, &i.IssueDetail, &i.IssueNumber, &i.IssueURL, store.NullTime(&i.IssueOpenedAt),
		store.NullTime(&i.IssueClosedAt),
		&i.Tries, &i.Installations, store.NullTime(&i.ToldAt), store.Time(&i.OpenedAt), store.NullTime(&i.ClosedAt), &i.Outcome)
	return i, err
}

// insertIncident writes a new incident, of which nothing is done yet. Its id is that
// of the alert event, so a second one for the same event is an error.
func insertIncident(ctx context.Context, tx *store.Tx, i Incident) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO incidents (id, org_id, rule_id, skill_id, skill_name, entry_id, version_id, version, good_version, evidence,
			connection_id, attempt_id, commit_sha, commit_status, commit_detail, issue_status, issue_detail, tries,
				installations, opened_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, '', 0, 0, $17)`,
		i.ID, i.OrgID, i.RuleID, i.SkillID, i.SkillName, i.EntryID, i.VersionID, i.Version, i.GoodVersion, i.Evidence,
		i.ConnectionID, i.AttemptID, i.CommitSHA, i.CommitStatus, i.CommitDetail, i.IssueStatus, store.Micros(i.OpenedAt))
	return err
}

// Each step writes its own columns only, and only if no other process has taken
// the step meanwhile.

// updateCommit writes the outcome of marking the commit, or one more try.
func updateCommit(ctx context.Context, q store.Querier, i Incident) error {
	_, err := q.Exec(ctx, `
		UPDATE incidents SET commit_status = $2, commit_detail = $3, marked_at = $4, tries = $5
		WHERE id = $1 AND commit_status = 'pending'`, i.ID, i.CommitStatus, i.CommitDetail, store.NullMicros(i.MarkedAt), i.Tries)
	return err
}

// updateIssue writes the outcome of opening or closing the issue. was is the status
// that the step started from.
func updateIssue(ctx context.Context, q store.Querier, i Incident, was Status) error {
	_, err := q.Exec(ctx, `
		UPDATE incidents SET issue_status = $2, issue_detail = $3, issue_number = $4, issue_url = $5, issue_opened_at = $6,
			issue_closed_at = $7, tries = $8
		WHERE id = $1 AND issue_status = $9`, i.ID, i.IssueStatus, i.IssueDetail, i.IssueNumber, i.IssueURL,
		store.NullMicros(i.IssueOpenedAt), store.NullMicros(i.IssueClosedAt), i.Tries, was)
	return err
}

// updateProgress writes what follow changes; the incident is locked.
func updateProgress(ctx context.Context, tx *store.Tx, i Incident) error {
	_, err := tx.Exec(ctx, `UPDATE incidents SET installations = $2, told_at = $3, closed_at = $4, outcome = $5 WHERE id = $1`,
		i.ID, i.Installations, store.NullMicros(i.ToldAt), store.NullMicros(i.ClosedAt), i.Outcome)
	return err
}

// incidentByID finds an incident of any organisation, for jobs. lock is a locking
// clause of the dialect, or "".
func incidentByID(ctx context.Context, q store.Querier, id, lock string) (Incident, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM incidents WHERE id = $1`+lock, id)
	return store.One(rows, err, "Incident", scanIncident)
}

// ownIncident finds an incident of the organisation.
func ownIncident(ctx context.Context, q store.Querier, orgID, id string) (Incident, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM incidents WHERE org_id = $1 AND id = $2`, orgID, id)
	return store.One(rows, err, "Incident", scanIncident)
}

// unfinished returns the ids of the incidents that are not at their end. A closed
// incident with an issue that is still open is not at its end either.
func unfinished(ctx context.Context, q store.Querier) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT id FROM incidents WHERE closed_at IS NULL OR issue_status = 'done' ORDER BY id`)
	return store.All(rows, err, store.Value[string])
}

// issueInUse reports whether another open incident has the same issue.
func issueInUse(ctx context.Context, q store.Querier, i Incident) (bool, error) {
	rows, err := q.Query(ctx, `
		SELECT EXISTS (SELECT 1 FROM incidents
			WHERE org_id = $1 AND id <> $2 AND connection_id = $3 AND issue_number = $4 AND closed_at IS NULL)`,
		i.OrgID, i.ID, i.ConnectionID, i.IssueNumber)
	return store.One(rows, err, "Incident", store.Value[bool])
}

var listed = store.List[Incident]{
	Columns: columns, Order: `id DESC`, Scan: scanIncident,
	From: `FROM incidents WHERE org_id = $1
		AND ($2 = '' OR $2 = 'open' AND closed_at IS NULL OR $2 = 'closed' AND closed_at IS NOT NULL)`,
	Sorts: store.Sorting{
		"skill": "lower(skill_name)", "state": "CASE WHEN closed_at IS NULL THEN 1 ELSE 2 END", "installations": "installations",
		"opened_at": "opened_at",
	},
}

// listIncidents reads a page of incidents and their number.
func listIncidents(ctx context.Context, q store.Querier, orgID string, f Filter) ([]Incident, int, error) {
	return listed.Page(ctx, q, f.Page, orgID, f.State)
}
