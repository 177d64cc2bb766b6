package store

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
)

// NewID returns a new id, a UUID of version 7: ids sort by the time at which they
// were made.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// Now is the time in UTC with the precision that the databases store.
func Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Like is the pattern that matches text anywhere, with its wildcards escaped. An
// empty text has an empty pattern. It is for
//
//	lower(column) LIKE lower($1) ESCAPE '\'
//
// The database lowers both sides, because databases do not agree on which
// letters have a case.
func Like(text string) string {
	if text == "" {
		return ""
	}
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text) + "%"
}

// Clock is the time of the database's own clock.
func (db *DB) Clock(ctx context.Context) (time.Time, error) {
	rows, err := db.Query(ctx, `SELECT `+db.Dialect().Now())
	us, err := One(rows, err, "Time", Value[int64])
	return time.UnixMicro(us).UTC(), err
}
