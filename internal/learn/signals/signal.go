// Package signals collects what contributors' tools notice about skills, and
// publishes the counts to the skills' authors with k-anonymity: figures of too
// few contributors are suppressed (suppress.go), and brought up to date in
// snapshots of enough of them (snapshot.go). Signals are deduplicated by
// their source key. It owns the tables signals, signal_cells,
// signal_contributors and signal_snapshots.
package signals

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// A Signal is one observation of a contributor's tool about a skill. It has no time but the day,
// and no text of the session: what isn't stored can't leak.
type Signal struct {
	SourceKey   string // the sender's, unique per organisation: for dedup
	SkillName   string
	Type        string   // e.g. "missed_trigger"
	Contributor string   // a keyed hash
	Confidence  *int64   // billionths
	Day         int64    // days since the epoch, UTC
	Session     *Session // nil for a signal of a batch
}

// A Session is the outcome that the signal of a whole session reports. It is stored as JSON,
// without the fields that are empty.
type Session struct {
	State       State  `json:"state"`
	Invocation  string `json:"invocation,omitempty"`
	Grade       string `json:"grade,omitempty"`
	QueryBucket string `json:"query_bucket,omitempty"`
	CreatorID   string `json:"relay_destination,omitempty"`
	Client      string `json:"client_version,omitempty"`
}

// A State is whether the skill was triggered in a session.
type State string

// The states. A session that reports a miss is missed, even if it also reports a
// trigger: the skill was wanted and did not trigger by itself.
const (
	Triggered   State = "triggered"
	Missed      State = "missed"
	Untriggered State = "untriggered"
	Unknown     State = "unknown"
)

// contributor returns the pseudonym of a person in an organisation: an HMAC, so
// that the stored value cannot be matched with a list of users. The kind keeps
// users and cohorts of the same name apart. Secret is per installation: pseudonyms of two
// installations can't be matched, and a new secret would count everyone anew.
func (s *Service) contributor(orgID, kind, name string) string {
	mac := hmac.New(sha256.New, s.Secret)
	_, _ = fmt.Fprintf(mac, "%s\x00%s\x00%s", orgID, kind, name) // never fails
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

const day = 24 * time.Hour

// dayOf returns the UTC day of a time, counted from the epoch.
func dayOf(t time.Time) int64 { return t.Unix() / int64(day/time.Second) }

// date returns midnight of a day.
func date(n int64) time.Time { return time.Unix(n*int64(day/time.Second), 0).UTC() }

// dayName returns a day like "2026-02-11".
func dayName(n int64) string { return date(n).Format(time.DateOnly) }

// weekName returns the ISO week of a day, like "2026-W07".
func weekName(n int64) string {
	year, week := date(n).ISOWeek()
	return fmt.Sprintf("%04d-W%02d", year, week)
}

// mondayOf returns the first day of a day's week. Day 0 was a Thursday.
func mondayOf(n int64) int64 { return n - (n+3)%7 }

// parseWeek returns the first day of a week like "2026-W07". Years with 53 weeks make the check by
// formatting necessary: "2025-W53" doesn't exist.
func parseWeek(name string) (monday int64, ok bool) {
	var year, week int64
	if n, err := fmt.Sscanf(name, "%4d-W%2d", &year, &week); err != nil || n != 2 || year < 1970 {
		return 0, false
	}
	fourth := dayOf(time.Date(int(year), time.January, 4, 0, 0, 0, 0, time.UTC)) // always in week 1
	monday = mondayOf(fourth) + 7*(week-1)
	return monday, weekName(monday) == name
}

// weekOfDay returns the name of the week of a day, given by its name.
func weekOfDay(name string) string {
	t, err := time.Parse(time.DateOnly, name)
	if err != nil {
		return ""
	}
	return weekName(dayOf(t))
}
