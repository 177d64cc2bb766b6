package costs

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// OfSessions returns what the requests of sessions cost, in millionths of a dollar,
// by the session's pseudonym (see skills.SessionHash). A session without a request
// of a known price is missing.
func (s *Service) OfSessions(ctx context.Context, orgID string, sessions []string) (map[string]int64, error) {
	groups, err := groupsByKey(ctx, s.DB, columnOf(sessions, func(hash string) string { return skills.SessionKey(orgID, hash) }))
	micros := map[string]int64{}
	for _, g := range groups {
		if g.unpriced < g.requests {
			micros[g.session] = g.micros
		}
	}
	return micros, err
}

// A SessionRequest is a request of a session, as it is stored.
type SessionRequest struct {
	ID     string
	At     time.Time
	Model  string // "" when unknown
	Tokens Tokens
	Micros *int64 // what it counts as; nil without a price
}

// RequestsAfter returns the next requests of a session by time and id. The session is
// given by its pseudonym, see skills.SessionHash.
func (s *Service) RequestsAfter(
	ctx context.Context, session string, at time.Time, id string, limit int,
) ([]SessionRequest, error) {
	rows, err := s.DB.Query(ctx, `
		SELECT id, occurred_at, model, input, output, cache_read, cache_write, cache_write_hour, micros FROM cost_requests
		WHERE session_hash = $1 AND session_hash <> '' AND occurred_at >= $2 AND (occurred_at > $2 OR id > $3)
		ORDER BY occurred_at, id LIMIT $4`, session, store.Micros(at), id, limit)
	return store.All(rows, err, func(row store.Row) (r SessionRequest, err error) {
		t := &r.Tokens
		err = row.Scan(&r.ID, store.Time(&r.At), &r.Model, &t.Input, &t.Output, &t.CacheRead, &t.CacheWrite,
			&t.CacheWriteHour, &r.Micros)
		return r, err
	})
}
