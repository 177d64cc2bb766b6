// Package signals lets the authors of skills learn from the people who use
// them, without anybody being singled out. It takes in contributors' signals,
// counts each once, and shows no figure that tells of too few contributors
// (shield.go). It owns the tables signals, signal_cells and
// signal_contributors.
package signals

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// A Signal is one thing that a contributor's tool noticed about a skill.
type Signal struct {
	SourceKey   string
	SkillName   string
	Type        string
	Contributor string
	Confidence  *int64   // billionths
	Day         int64    // days since the epoch, UTC
	Session     *Session // nil for a signal of a batch
}

// A Session is what the signal of a whole session says.
type Session struct {
	State       State  `json:"state"`
	Invocation  string `json:"invocation,omitempty"`
	Grade       string `json:"grade,omitempty"`
	QueryBucket string `json:"query_bucket,omitempty"`
	CreatorID   string `json:"relay_destination,omitempty"`
	Client      string `json:"client_version,omitempty"`
}

// A State is what became of the skill in a session.
type State string

// The states. A session that noticed a miss counts as missed, whatever else
// it says: the skill was wanted and did not come by itself.
const (
	Triggered   State = "triggered"
	Missed      State = "missed"
	Untriggered State = "untriggered"
	Unknown     State = "unknown"
)

// contributor is the name under which a person is counted in an organisation.
func (s *Service) contributor(orgID, kind, name string) string {
	mac := hmac.New(sha256.New, s.Secret)
	_, _ = fmt.Fprintf(mac, "%s\x00%s\x00%s", orgID, kind, name) // never fails
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

const day = 24 * time.Hour

// dayOf is the number of a time's day.
func dayOf(t time.Time) int64 { return t.Unix() / int64(day/time.Second) }

// date is the first moment of a day.
func date(n int64) time.Time { return time.Unix(n*int64(day/time.Second), 0).UTC() }

// dayName is a day as the answers have it.
func dayName(n int64) string { return date(n).Format(time.DateOnly) }

// weekName is the ISO week of a day as the answers have it.
func weekName(n int64) string {
	year, week := date(n).ISOWeek()
	return fmt.Sprintf("%04d-W%02d", year, week)
}

// mondayOf is the first day of a day's week. Day 0 was a Thursday.
func mondayOf(n int64) int64 { return n - (n+3)%7 }

// parseWeek returns the first day of a week like 2026-W07.
func parseWeek(name string) (monday int64, ok bool) {
	var year, week int64
	if n, err := fmt.Sscanf(name, "%4d-W%2d", &year, &week); err != nil || n != 2 || year < 1970 {
		return 0, false
	}
	fourth := dayOf(time.Date(int(year), time.January, 4, 0, 0, 0, 0, time.UTC)) // always in week 1
	monday = mondayOf(fourth) + 7*(week-1)
	return monday, weekName(monday) == name
}

// weekOfDay is the week of a day, by name.
func weekOfDay(name string) string {
	t, err := time.Parse(time.DateOnly, name)
	if err != nil {
		return ""
	}
	return weekName(dayOf(t))
}
