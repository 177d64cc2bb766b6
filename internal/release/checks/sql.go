package checks

import (
	"context"
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

const columns = `id, org_id, connection_id, entry_id, repo_id, number, title, url, head_sha, status, message, findings, source_id,
	gate_id, again, tries, asked, write_back_status, write_back_detail, write_back_tries, reported, check_run_id,
		annotations_sent,
	created_at, updated_at`

func scanPull(row store.Row) (p Pull, err error) {
	var found string
	err = row.Scan(&p.ID, &p.OrgID, &p.ConnectionID, &p.EntryID, &p.RepoID, &p.Number, &p.Title, &p.URL, &p.Head, &p.Status,
		&p.Message, &found, &p.SourceID, &p.GateID, &p.Again, &p.Tries, &p.Asked, &p.WriteBack, &p.WriteBackDetail,
		&p.WriteBackTries, &p.Reported, &p.CheckRunID, &p.AnnotationsSent, store.Time(&p.CreatedAt), store.Time(&p.UpdatedAt))
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal([]byte(found), &p.Findings)
}

// upsertPull inserts a pull request that is not known yet, and returns its id.
func upsertPull(ctx context.Context, tx *store.Tx, p Pull) (string, error) {
	rows, err := tx.Query(ctx, `
		INSERT INTO pull_requests (id, org_id, connection_id, entry_id, repo_id, number, title, url, head_sha, status, message,
			findings, again, tries, asked, write_back_status, write_back_detail, write_back_tries, reported, annotations_sent,
			held_until, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, '', '', '', 'queued', '', '[]', FALSE, 0, 0, 'disabled', '', 0, '', 0, 0, $7, $7)
		ON CONFLICT (connection_id, number) DO UPDATE SET tries = 0
		RETURNING id`, p.ID, p.OrgID, p.ConnectionID, p.EntryID, p.RepoID, p.Number, store.Micros(store.Now()))
	return store.One(rows, err, "Pull request", store.Value[string])
}

// updatePull writes what is known about the head, and makes a write-back due.
func updatePull(ctx context.Context, tx *store.Tx, p Pull) error {
	found, err := json.Marshal(append([]publication.Finding{}, p.Findings...))
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		UPDATE pull_requests SET title = $2, url = $3, head_sha = $4, status = $5, message = $6, findings = $7, source_id = $8,
			gate_id = $9, again = $10, tries = $11, asked = asked + 1, write_back_status = $12, write_back_tries = 0,
				updated_at = $13
		WHERE id = $1`, p.ID, p.Title, p.URL, p.Head, p.Status, p.Message, string(found), p.SourceID, p.GateID, p.Again, p.Tries,
		publication.Pending, store.Micros(store.Now()))
	return err
}

func setTries(ctx context.Context, q store.Querier, p Pull) error {
	_, err := q.Exec(ctx, `UPDATE pull_requests SET tries = $2 WHERE id = $1`, p.ID, p.Tries)
	return err
}

// setPullText writes what people changed on the code host.
func setPullText(ctx context.Context, q store.Querier, p Pull) error {
	_, err := q.Exec(ctx, `UPDATE pull_requests SET title = $2, url = $3, tries = 0 WHERE id = $1`, p.ID, p.Title, p.URL)
	return err
}

func setAgain(ctx context.Context, tx *store.Tx, id string) error {
	_, err := tx.Exec(ctx, `UPDATE pull_requests SET again = TRUE WHERE id = $1`, id)
	return err
}

// updateReport writes what came of a write-back, unless another was asked for
// meanwhile.
func updateReport(ctx context.Context, q store.Querier, p Pull) error {
	_, err := q.Exec(ctx, `
		UPDATE pull_requests SET write_back_status = $2, write_back_detail = $3, write_back_tries = $4, reported = $5,
			check_run_id = $6, annotations_sent = $7
		WHERE id = $1 AND asked = $8`, p.ID, p.WriteBack, p.WriteBackDetail, p.WriteBackTries, p.Reported, p.CheckRunID,
		p.AnnotationsSent, p.Asked)
	return err
}

func pullByID(ctx context.Context, q store.Querier, id, lock string) (Pull, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM pull_requests WHERE id = $1`+lock, id)
	return store.One(rows, err, "Pull request", scanPull)
}

func pullOfOrg(ctx context.Context, q store.Querier, orgID, id string) (Pull, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM pull_requests WHERE org_id = $1 AND id = $2`, orgID, id)
	return store.One(rows, err, "Pull request", scanPull)
}

// Its parameters after the organisation choose by connection, entry, state and status; "" is all.
var listed = store.List[Pull]{
	Columns: columns, Order: `id DESC`, Scan: scanPull,
	From: `FROM pull_requests WHERE org_id = $1 AND ($2 = '' OR connection_id = $2) AND ($3 = '' OR entry_id = $3)
		AND ($4 = '' OR ($4 = 'closed') = (status = 'closed')) AND ($5 = '' OR status = $5)`,
}

// maxListed is how many pull requests a page shows.
const maxListed = 50

// Pulls returns the newest pull requests of a connection of the organisation.
func (s *Service) Pulls(ctx context.Context, orgID, connectionID string) ([]Pull, error) {
	rows, err := s.DB.Query(ctx, `
		SELECT `+columns+` FROM pull_requests WHERE org_id = $1 AND connection_id = $2 ORDER BY number DESC LIMIT $3`,
		orgID, connectionID, maxListed)
	return store.All(rows, err, scanPull)
}

// pullsOfCommit returns the open pull requests of a connection with a head.
func pullsOfCommit(ctx context.Context, q store.Querier, connectionID, commit string) ([]Pull, error) {
	rows, err := q.Query(ctx, `
		SELECT `+columns+` FROM pull_requests WHERE connection_id = $1 AND head_sha = $2 AND status <> 'closed' ORDER BY number`,
		connectionID, commit)
	return store.All(rows, err, scanPull)
}

// pullsOfComment returns what the comment on a pull request is about: one for each
// connected skill.
func pullsOfComment(ctx context.Context, q store.Querier, c comment) ([]Pull, error) {
	rows, err := q.Query(ctx, `
		SELECT `+columns+` FROM pull_requests WHERE org_id = $1 AND repo_id = $2 AND number = $3 ORDER BY id`,
		c.OrgID, c.RepoID, c.Number)
	return store.All(rows, err, scanPull)
}

// pullsToCompare returns the pull requests of a connection that are not closed, and
// those with a number, by their numbers.
func pullsToCompare(ctx context.Context, q store.Querier, connectionID string, numbers []string) (map[int64]Pull, error) {
	in, list := q.Dialect().In("$2", numbers)
	rows, err := q.Query(ctx, `
		SELECT `+columns+` FROM pull_requests
		WHERE connection_id = $1 AND (status <> 'closed' OR CAST(number AS TEXT)`+in+`)`, connectionID, list)
	all, err := store.All(rows, err, scanPull)
	known := map[int64]Pull{}
	for _, p := range all {
		known[p.Number] = p
	}
	return known, err
}

// openPullsOfEntry locks what it returns: a gate may end at the same time.
func openPullsOfEntry(ctx context.Context, tx *store.Tx, entryID string) ([]Pull, error) {
	rows, err := tx.Query(ctx, `
		SELECT `+columns+` FROM pull_requests WHERE entry_id = $1 AND status <> 'closed' ORDER BY id`+tx.Dialect().ForUpdate(),
		entryID)
	return store.All(rows, err, scanPull)
}

func sourcesOfConnection(ctx context.Context, q store.Querier, connectionID string) ([]string, error) {
	rows, err := q.Query(ctx, `
		SELECT source_id FROM pull_requests WHERE connection_id = $1 AND source_id IS NOT NULL`, connectionID)
	return store.All(rows, err, store.Value[string])
}

func deletePulls(ctx context.Context, tx *store.Tx, connectionID string) error {
	_, err := tx.Exec(ctx, `DELETE FROM pull_requests WHERE connection_id = $1`, connectionID)
	return err
}

// A remark is the one comment on a pull request.
type remark struct {
	id        string
	commentID int64  // the code host's; 0 before there is one
	body      string // as it was last sent
	tries     int
}

func insertRemark(ctx context.Context, q store.Querier, id string) error {
	_, err := q.Exec(ctx, `
		INSERT INTO pull_comments (id, comment_id, body, tries, held_until) VALUES ($1, 0, '', 0, 0) ON CONFLICT DO NOTHING`, id)
	return err
}

// remarkByID returns an empty one if there is none.
func remarkByID(ctx context.Context, q store.Querier, id string) (remark, error) {
	rows, err := q.Query(ctx, `SELECT id, comment_id, body, tries FROM pull_comments WHERE id = $1`, id)
	r, err := store.One(rows, err, "Comment", func(row store.Row) (r remark, err error) {
		err = row.Scan(&r.id, &r.commentID, &r.body, &r.tries)
		return r, err
	})
	if fault.Is(err, fault.NotFound) {
		return remark{id: id}, nil
	}
	return r, err
}

// commentsByID returns the code host's ids of the comments that were written.
func commentsByID(ctx context.Context, q store.Querier, ids []string) (map[string]int64, error) {
	in, list := q.Dialect().In("$1", ids)
	rows, err := q.Query(ctx, `SELECT id, comment_id FROM pull_comments WHERE comment_id <> 0 AND id`+in, list)
	written, err := store.All(rows, err, func(row store.Row) (r remark, err error) {
		err = row.Scan(&r.id, &r.commentID)
		return r, err
	})
	byID := map[string]int64{}
	for _, r := range written {
		byID[r.id] = r.commentID
	}
	return byID, err
}

func updateRemark(ctx context.Context, q store.Querier, r remark) error {
	_, err := q.Exec(ctx, `UPDATE pull_comments SET comment_id = $2, body = $3, tries = $4 WHERE id = $1`,
		r.id, r.commentID, r.body, r.tries)
	return err
}
