package skills

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"time"
)

// An Observation is one thing that a producer said about a skill in a
// session: it was offered, or it was considered and fired or not.
type Observation struct {
	// ID names the observation: see ID. A second report with the same ID is
	// the same observation.
	ID string
	// Aliases are other names for it, by which reports of several producers
	// find each other: that of the tool call, for example.
	Aliases []string
	// Claim is a name that only one observation can have, or "". One that
	// comes after its holder does not go by its aliases: two records of a
	// producer are two observations, even if they tell of one tool call.
	Claim string

	SkillName string
	Session   string // "" when the producer does not tell
	PromptID  string // "" when unknown
	// VersionHash is the content hash of the version, "" when unknown.
	VersionHash string
	// Offered means that the skill was only available; it is not a check.
	Offered    bool
	Triggered  bool
	Confidence *float64 // 0 to 1
	// Weight is how many such observations a counter reported; 1 when 0.
	Weight int64
	Mode   string // explicit, implicit, inferred, repaired; "" when unknown
	At     time.Time
	// NormalizedAt orders reports of one observation: the newest wins.
	NormalizedAt time.Time
}

// A Grading is the verdict on one session of a skill.
type Grading struct {
	ID        string
	SkillName string
	Session   string
	PassRate  *float64 // 0 to 1; nil when it was not decided
	At        time.Time
}

// A Report is what one user's producer sent at once.
type Report struct {
	OrgID, UserID string
	Observations  []Observation
	Gradings      []Grading
}

// ID makes the name of a record from its natural key: who sent it, its kind,
// and what the sender calls it.
func ID(orgID, userID, kind, natural string) string { return digest(orgID, userID, kind, natural) }

// PromptHash names a prompt without telling its id.
func PromptHash(orgID, userID, promptID string) string {
	return digest(orgID, userID, "prompt", promptID)
}

func sessionHash(userID, session string) string {
	if session == "" {
		return ""
	}
	return digest(userID, "session", session)
}

// digest is 128 bits of the words' SHA-256, each word with its length so that
// no two lists look alike.
func digest(words ...string) string {
	h := sha256.New()
	for _, w := range words {
		var length [4]byte
		for i := range length {
			length[i] = byte(len(w) >> (8 * i))
		}
		h.Write(length[:])
		h.Write([]byte(w))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// billion scales shares to integers, so that sums of them are exact.
const billion = 1_000_000_000

func scaled(share *float64) *int64 {
	if share == nil {
		return nil
	}
	n := int64(math.Round(*share * billion))
	return &n
}

func share(sum, count int64) *float64 {
	if count == 0 {
		return nil
	}
	s := float64(sum) / float64(billion*count) // rounded once
	return &s
}

const secondsPerDay = 24 * 60 * 60

// dayOf is the UTC day of a time, counted from the epoch.
func dayOf(t time.Time) int64 {
	return int64(math.Floor(float64(t.Unix()) / secondsPerDay))
}

func dateOf(day int64) string {
	return time.Unix(day*secondsPerDay, 0).UTC().Format(time.DateOnly)
}
