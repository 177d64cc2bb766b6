package content

import (
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// enabled reads the setting for display. Writers use shareEnabled, which holds it.
func enabled(ctx context.Context, q store.Querier, orgID string) (bool, error) {
	rows, err := q.Query(ctx, `SELECT enabled FROM evidence_settings WHERE org_id = $1`, orgID)
	return isOn(rows, err)
}

// shareEnabled reads the setting, which cannot change until the transaction ends.
func shareEnabled(ctx context.Context, tx *store.Tx, orgID string) (bool, error) {
	rows, err := tx.Query(ctx, `SELECT enabled FROM evidence_settings WHERE org_id = $1`+tx.Dialect().ForShare(), orgID)
	return isOn(rows, err)
}

// isOn returns a setting; without a row it is off.
func isOn(rows store.Rows, err error) (bool, error) {
	on, err := store.One(rows, err, "Setting", store.Value[bool])
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return on, err
}

// setEnabled waits for transactions that hold the setting: when it returns, none
// still stores text under the old one.
func setEnabled(ctx context.Context, tx *store.Tx, orgID string, on bool) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO evidence_settings (org_id, enabled, changed_at) VALUES ($1, $2, $3)
		ON CONFLICT (org_id) DO UPDATE SET enabled = excluded.enabled, changed_at = excluded.changed_at`,
		orgID, on, store.Micros(store.Now()))
	return err
}

// A session is a row of evidence_sessions.
type session struct {
	id, orgID, userID string
	name              string // what the agent calls it
	texts             int64
	bytes             int64 // in clear
	stored            int64 // sealed
}

// lockSessions reads sessions in order to change them, in the order of their ids to
// avoid deadlocks. Those of which nothing is kept are missing.
func lockSessions(ctx context.Context, tx *store.Tx, ids []string) (map[string]session, error) {
	in, list := tx.Dialect().In("$1", ids)
	rows, err := tx.Query(ctx, `
		SELECT id, org_id, user_id, name, texts, bytes, stored FROM evidence_sessions
		WHERE id`+in+` ORDER BY id`+tx.Dialect().ForUpdate(), list)
	found := map[string]session{}
	err = store.Each(rows, err, func(row store.Row) error {
		var s session
		err := row.Scan(&s.id, &s.orgID, &s.userID, &s.name, &s.texts, &s.bytes, &s.stored)
		found[s.id] = s
		return err
	})
	return found, err
}

// sessionByID names the organisation, as every query for a caller does.
func sessionByID(ctx context.Context, q store.Querier, orgID, id string) (sessions.Session, error) {
	rows, err := q.Query(ctx, `SELECT id, org_id, user_id, name FROM evidence_sessions WHERE org_id = $1 AND id = $2`, orgID, id)
	return store.One(rows, err, "Content", func(row store.Row) (s sessions.Session, err error) {
		err = row.Scan(&s.ID, &s.OrgID, &s.UserID, &s.SessionID)
		return s, err
	})
}

// Hold reports whether something of a session is kept. Until the transaction ends it
// is not deleted: who quotes it in the same transaction is asked to drop the
// quotation by the deletion that follows.
func (s *Service) Hold(ctx context.Context, tx *store.Tx, orgID, sessionID string) (kept bool, err error) {
	rows, err := tx.Query(ctx, `
		SELECT id FROM evidence_sessions WHERE org_id = $1 AND id = $2`+tx.Dialect().ForShare(), orgID, sessionID)
	found, err := store.All(rows, err, store.Value[string])
	return len(found) > 0, err
}

// writeSession upserts the totals of a session; whose it is never changes.
func writeSession(ctx context.Context, tx *store.Tx, s session) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO evidence_sessions (id, org_id, user_id, name, texts, bytes, stored)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (id) DO UPDATE SET texts = excluded.texts, bytes = excluded.bytes, stored = excluded.stored`,
		s.id, s.orgID, s.userID, s.name, s.texts, s.bytes, s.stored)
	return err
}

// Has returns of which of an organisation's sessions something is kept. Anyone who
// sees the session may know that there is content; reading it is another right.
func (s *Service) Has(ctx context.Context, orgID string, ids []string) (map[string]bool, error) {
	in, list := s.DB.Dialect().In("$2", ids)
	rows, err := s.DB.Query(ctx, `SELECT id FROM evidence_sessions WHERE org_id = $1 AND id`+in, orgID, list)
	found := map[string]bool{}
	err = store.Each(rows, err, func(row store.Row) error {
		id, err := store.Value[string](row)
		found[id] = true
		return err
	})
	return found, err
}

// A row is one of evidence_texts. length is that of the text as reported, before it
// was cut or redacted; bytes that of the kept text, and stored that of its
// ciphertext.
type row struct {
	session, event string
	at             time.Time
	length         int64
	bytes, stored  int64
	keyID          string
	receivedAt     time.Time
	sealed         []byte
}

// place binds a sealed text to its event, so that one that is copied to another
// does not decrypt.
func (r row) place() seal.Place {
	return seal.Place{Table: "evidence_texts", Column: "sealed", Row: r.session + "/" + r.event}
}

// heldTexts returns the sizes of texts of a session by event.
func heldTexts(ctx context.Context, q store.Querier, session string, events []string) (map[string]row, error) {
	in, list := q.Dialect().In("$2", events)
	rows, err := q.Query(ctx, `
		SELECT event_id, length, bytes, stored FROM evidence_texts WHERE session_id = $1 AND event_id`+in, session, list)
	found := map[string]row{}
	err = store.Each(rows, err, func(scan store.Row) error {
		var r row
		err := scan.Scan(&r.event, &r.length, &r.bytes, &r.stored)
		found[r.event] = r
		return err
	})
	return found, err
}

// writeTexts inserts texts, or replaces those that are there. The time of receipt
// stays: a longer report does not extend the retention.
func writeTexts(ctx context.Context, tx *store.Tx, all []row) error {
	_, err := store.Bulk{
		Table: "evidence_texts",
		Columns: []store.Column{
			store.Col("session_id", columnsOf(all, func(r row) string { return r.session })),
			store.Col("event_id", columnsOf(all, func(r row) string { return r.event })),
			store.Col("at", columnsOf(all, func(r row) int64 { return store.Micros(r.at) })),
			store.Col("length", columnsOf(all, func(r row) int64 { return r.length })),
			store.Col("bytes", columnsOf(all, func(r row) int64 { return r.bytes })),
			store.Col("stored", columnsOf(all, func(r row) int64 { return r.stored })),
			store.Col("key_id", columnsOf(all, func(r row) string { return r.keyID })),
			store.Col("received_at", columnsOf(all, func(r row) int64 { return store.Micros(r.receivedAt) })),
			store.Col("sealed", columnsOf(all, func(r row) []byte { return r.sealed })),
		},
		OnConflict: `ON CONFLICT (session_id, event_id) DO UPDATE SET at = excluded.at, length = excluded.length,
			bytes = excluded.bytes, stored = excluded.stored, key_id = excluded.key_id, sealed = excluded.sealed`,
	}.Insert(ctx, tx)
	return err
}

const sealedColumns = `t.session_id, t.event_id, t.sealed`

func scanSealed(scan store.Row) (r row, err error) {
	err = scan.Scan(&r.session, &r.event, &r.sealed)
	return r, err
}

// textsOfEvents returns the sealed texts of events of a session. The join makes sure
// of the organisation: texts have no column for it.
func textsOfEvents(ctx context.Context, q store.Querier, one sessions.Session, events []string) ([]row, error) {
	in, list := q.Dialect().In("$3", events)
	rows, err := q.Query(ctx, `
		SELECT `+sealedColumns+` FROM evidence_sessions s JOIN evidence_texts t ON t.session_id = s.id
		WHERE s.org_id = $1 AND s.id = $2 AND t.event_id`+in, one.OrgID, one.ID, list)
	return store.All(rows, err, scanSealed)
}

// textsOfSession returns the sealed texts of a session, oldest first.
func textsOfSession(ctx context.Context, q store.Querier, one sessions.Session) ([]row, error) {
	rows, err := q.Query(ctx, `
		SELECT `+sealedColumns+` FROM evidence_sessions s JOIN evidence_texts t ON t.session_id = s.id
		WHERE s.org_id = $1 AND s.id = $2 ORDER BY t.at, t.event_id`, one.OrgID, one.ID)
	return store.All(rows, err, scanSealed)
}

// deleteSessions deletes the content of the sessions that match a condition on $1,
// and returns the bytes that this frees by organisation. Sessions are locked first
// and in order, as Keep does, or the two could deadlock.
func deleteSessions(ctx context.Context, tx *store.Tx, condition string, arg any) (map[string]int64, error) {
	rows, err := tx.Query(ctx, `SELECT id FROM evidence_sessions WHERE `+condition+` ORDER BY id`+tx.Dialect().ForUpdate(), arg)
	ids, err := store.All(rows, err, store.Value[string])
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	in, list := tx.Dialect().In("$1", ids)
	if _, err := tx.Exec(ctx, `DELETE FROM evidence_texts WHERE session_id`+in, list); err != nil {
		return nil, err
	}
	rows, err = tx.Query(ctx, `DELETE FROM evidence_sessions WHERE id`+in+` RETURNING org_id, stored`, list)
	return sums(rows, err)
}

// sums adds up the bytes of organisations.
func sums(rows store.Rows, err error) (map[string]int64, error) {
	total := map[string]int64{}
	err = store.Each(rows, err, func(row store.Row) error {
		var org string
		var n int64
		err := row.Scan(&org, &n)
		total[org] += n
		return err
	})
	return total, err
}

// textsBefore returns the next texts that were received before a time. It locks
// nothing: deleteTexts counts only what it deletes itself.
func textsBefore(ctx context.Context, q store.Querier, before time.Time, limit int) ([]row, error) {
	rows, err := q.Query(ctx, `
		SELECT session_id, event_id FROM evidence_texts WHERE received_at < $1 ORDER BY received_at LIMIT $2`,
		store.Micros(before), limit)
	return store.All(rows, err, func(scan store.Row) (r row, err error) {
		err = scan.Scan(&r.session, &r.event)
		return r, err
	})
}

// deleteTexts deletes texts, and sessions of which nothing is left, and returns the
// bytes that this frees by organisation.
func deleteTexts(ctx context.Context, tx *store.Tx, texts []row) (map[string]int64, error) {
	held, err := lockSessions(ctx, tx, columnsOf(texts, func(r row) string { return r.session }))
	if err != nil {
		return nil, err
	}
	table, list := tx.Dialect().Pairs("$1", columnsOf(texts, func(r row) [2]string { return [2]string{r.session, r.event} }))
	rows, err := tx.Query(ctx, `
		DELETE FROM evidence_texts WHERE (session_id, event_id) IN (SELECT a, b FROM `+table+`)
		RETURNING session_id, bytes, stored`, list)
	freed := map[string]int64{}
	err = store.Each(rows, err, func(scan store.Row) error {
		var t row
		err := scan.Scan(&t.session, &t.bytes, &t.stored)
		// The totals follow the deletion in the same transaction, so they cannot
		// drift.
		s := held[t.session]
		s.texts, s.bytes, s.stored = s.texts-1, s.bytes-t.bytes, s.stored-t.stored
		held[t.session] = s
		freed[s.orgID] += t.stored
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, id := range sortedKeys(held) {
		if err := writeSession(ctx, tx, held[id]); err != nil {
			return nil, err
		}
	}
	in, ids := tx.Dialect().In("$1", sortedKeys(held))
	_, err = tx.Exec(ctx, `DELETE FROM evidence_sessions WHERE texts = 0 AND id`+in, ids)
	return freed, err
}

// lockTextsOfOtherKeys returns the next texts that another key encrypted. The two
// conditions are ranges of an index. FOR UPDATE, so that a longer report of a text
// is not overwritten by its older self.
func lockTextsOfOtherKeys(ctx context.Context, tx *store.Tx, keyID string, limit int) ([]row, error) {
	rows, err := tx.Query(ctx, `
		SELECT `+sealedColumns+` FROM evidence_texts t WHERE t.key_id < $1 OR t.key_id > $1 LIMIT $2`+tx.Dialect().ForUpdate(),
		keyID, limit)
	return store.All(rows, err, scanSealed)
}

// updateSealed replaces ciphertexts by ones of another key; the text stays the same.
func updateSealed(ctx context.Context, tx *store.Tx, texts []row) error {
	for _, t := range texts { // only after a change of the key
		_, err := tx.Exec(ctx, `UPDATE evidence_texts SET sealed = $3, key_id = $4 WHERE session_id = $1 AND event_id = $2`,
			t.session, t.event, t.sealed, t.keyID)
		if err != nil {
			return err
		}
	}
	return nil
}

// Stored recounts the bytes that the content of organisations uses. Quotas count
// ciphertext, since that is what fills the disk.
func Stored() quota.Count {
	return quota.Count{Kind: quota.Evidence, SQL: `
		SELECT org_id, CAST(SUM(stored) AS BIGINT) AS bytes FROM evidence_sessions GROUP BY org_id`}
}

// columnsOf maps a function over a slice.
func columnsOf[Row, T any](rows []Row, value func(Row) T) []T {
	column := make([]T, len(rows))
	for i, row := range rows {
		column[i] = value(row)
	}
	return column
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
