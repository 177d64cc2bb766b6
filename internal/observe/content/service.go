package content

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// Service keeps the content of sessions. Who may read is decided here and nowhere
// else, see MayRead.
type Service struct {
	DB    *store.DB
	Jobs  *jobs.Queue
	Seal  *seal.Keyring
	Quota *quota.Service
	// Retention is how long a text is kept after it was received.
	Retention  time.Duration
	Quotations Quotations // may be nil
}

// Quotations are those of the package grades, above this one, which quotes content: they must not
// outlive its retention.
type Quotations interface {
	// DropQuotations deletes the quotations of an organisation, or with "" of all,
	// that were made before a time.
	DropQuotations(ctx context.Context, q store.Querier, orgID string, before time.Time) error
}

// Keep stores texts of sessions of a user, each once, and returns how many of them
// are there now, and how many are not: all if the organisation keeps no content,
// else those beyond the limits. It must run in the transaction that stores the
// sessions, as its last statement: see quota.Service.Add.
func (s *Service) Keep(ctx context.Context, tx *store.Tx, c access.Caller, texts []Text) (kept, dropped int, err error) {
	defer fault.Wrap(&err, "content")
	// The setting cannot change until the transaction ends: once an owner has
	// switched it off, no text comes in.
	on, err := shareEnabled(ctx, tx, c.OrgID)
	if err != nil || !on {
		return 0, len(texts), err
	}
	bySession, names := map[string]map[string]Text{}, map[string]string{} // texts by session and event
	for _, t := range texts {
		id := skills.SessionHash(c.UserID, t.Session)
		if names[id] = t.Session; bySession[id] == nil {
			bySession[id] = map[string]Text{}
		}
		// The longer of two reports of an event is the more complete one.
		if known, ok := bySession[id][t.EventID]; !ok || t.length > known.length {
			bySession[id][t.EventID] = t
		}
	}
	ids := slices.Sorted(maps.Keys(bySession))
	known, err := lockSessions(ctx, tx, ids)
	if err != nil {
		return 0, 0, err
	}
	var added int64
	for _, id := range ids {
		before, ok := known[id]
		if !ok {
			before = session{id: id, orgID: c.OrgID, userID: c.UserID, name: names[id]}
		}
		after, n, err := s.keepSession(ctx, tx, before, slices.Collect(maps.Values(bySession[id])))
		if err != nil {
			return 0, 0, err
		}
		kept, dropped = kept+n, dropped+len(bySession[id])-n
		added += after.stored - before.stored
	}
	return kept, dropped, s.Quota.Add(ctx, tx, c.OrgID, quota.Evidence, added)
}

// keepSession stores texts of one session, and returns how many of them are there.
func (s *Service) keepSession(ctx context.Context, tx *store.Tx, one session, texts []Text) (_ session, kept int, err error) {
	known, err := heldTexts(ctx, tx, one.id, columnsOf(texts, func(t Text) string { return t.EventID }))
	if err != nil {
		return one, 0, err
	}
	// The earliest first, if there are too many.
	slices.SortFunc(texts, func(a, b Text) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.EventID, b.EventID)) })
	var fresh []*Text
	for i := range texts {
		t := &texts[i]
		old, isKnown := known[t.EventID]
		switch {
		// A retry, or an earlier part of what is there.
		case isKnown && old.length >= int64(t.length):
			kept++
			continue
		case isKnown:
			one.texts, one.bytes, one.stored = one.texts-1, one.bytes-old.bytes, one.stored-old.stored
		case one.texts+int64(len(fresh)) >= maxTexts:
			continue
		}
		fresh = append(fresh, t)
	}
	if len(fresh) == 0 {
		return one, kept, nil
	}
	limit(fresh, int(maxSession-one.bytes))
	rows := columnsOf(fresh, func(t *Text) row { return s.sealed(one.id, *t) })
	for _, r := range rows {
		one.texts, one.bytes, one.stored = one.texts+1, one.bytes+r.bytes, one.stored+r.stored
	}
	if err := writeTexts(ctx, tx, rows); err != nil {
		return one, 0, err
	}
	return one, kept + len(fresh), writeSession(ctx, tx, one)
}

// sealed encrypts a text of a session. The first key of the ring encrypts; the
// others only decrypt, see Reseal.
func (s *Service) sealed(sessionID string, t Text) row {
	r := row{
		session: sessionID, event: t.EventID, at: t.At, length: int64(t.length), bytes: int64(t.size()),
		keyID: s.Seal.KeyIDs()[0], receivedAt: store.Now(),
	}
	r.sealed = s.Seal.Seal(t.encode(), r.place())
	r.stored = int64(len(r.sealed))
	return r
}

// MayRead reports whether a caller may read the content of a session. People read
// their own sessions; those of others need a permission of its own.
func MayRead(c access.Caller, one sessions.Session) bool {
	return c.OrgID == one.OrgID && (c.UserID == one.UserID || c.May(access.EvidenceRead))
}

// Texts returns the text of a session's events, by event, or nothing if the caller may
// not read it. If there is any, the audit log records the access first.
func (s *Service) Texts(
	ctx context.Context, c access.Caller, one sessions.Session, events []string,
) (_ map[string]string, err error) {
	defer fault.Wrap(&err, "content of a session")
	texts := map[string]string{}
	if !MayRead(c, one) {
		return texts, nil
	}
	rows, err := textsOfEvents(ctx, s.DB, one, events)
	if err != nil || len(rows) == 0 {
		return texts, err
	}
	for _, r := range rows {
		m, err := s.open(r)
		if err != nil {
			return nil, err
		}
		texts[r.event] = m.String()
	}
	// If the entry cannot be written, the texts are not returned either.
	return texts, s.recordReading(ctx, one, len(texts))
}

// recordReading also records what owners read of their own; owner_id tells it apart.
func (s *Service) recordReading(ctx context.Context, one sessions.Session, texts int) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: one.OrgID, Action: "evidence.content.read",
			Target: audit.Target{Kind: "session", ID: one.ID, Name: one.SessionID},
			Detail: audit.Detail{"owner_id": one.UserID, "texts": texts},
		})
	})
}

// open decrypts a message.
func (s *Service) open(r row) (m Message, err error) {
	raw, err := s.Seal.Open(r.sealed, r.place())
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(raw, &m)
}
