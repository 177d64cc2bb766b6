package store

import (
	"strings"
	"time"

	"github.com/google/uuid"
)

// NewID returns a fresh id. Ids made one after the other sort that way.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// Now is the time in UTC with the precision that the databases keep.
func Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Like is the pattern that finds text anywhere; wildcards in the text mean
// themselves, and an empty text has an empty pattern. It is for
// lower(column) LIKE lower($1) ESCAPE '\': the database lowers both sides, since
// databases do not agree on the letters that have a case.
func Like(text string) string {
	if text == "" {
		return ""
	}
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text) + "%"
}
