package skills

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// An Observation is one report of a producer about a skill in a session: it was
// offered, or it was considered and activated or not.
type Observation struct {
	// ID is the natural key: see ID. A second report with the same ID is the same
	// observation, which deduplicates reports. An offer needs none: it is one
	// observation for each day of a session.
	ID string
	// Aliases are other ids by which reports of several producers are matched,
	// e.g. that of the tool call.
	Aliases []string
	// Claim is an alias that only one observation can hold, or "". An
	// observation that comes after the holder ignores its aliases: two records of
	// one producer are two observations, even of the same tool call.
	Claim string

	SkillName string
	// Unconfirmed means that this alone does not make the name a skill of the
	// organisation: the agent knows no such skill, or it is a built-in one.
	Unconfirmed bool
	Session     string // "" when unknown
	// SessionHash is that of Session, for reports derived from what is stored
	// without the session's id.
	SessionHash string
	PromptID    string // "" when unknown
	// VersionHash is the content hash of the version, "" when unknown.
	VersionHash string
	// VersionName is the version that the producer names, e.g. "1.2.0" of the
	// plugin that brought the skill, "" when unknown.
	VersionName string
	// Offered means that the skill was only listed to the model, not considered.
	Offered    bool
	Triggered  bool
	Confidence *float64 // 0 to 1
	// Derived means that a reader derived Mode and Confidence, and no producer
	// reported them: any that are reported win.
	Derived bool
	// Weight is the number of observations that a counter reported; 0 means 1.
	Weight int64
	// Void takes back what a counter reported: others reported all of it.
	Void bool
	Mode string // explicit, implicit, inferred, repaired; "" when unknown
	At   time.Time
	// NormalizedAt orders the reports of one observation: the newest wins.
	NormalizedAt time.Time
}

// A Grading is a verdict on one session of a skill.
type Grading struct {
	ID        string
	Basis     basis.Basis // "" means pushed
	SkillName string
	Session   string
	// SessionHash is the hash of Session, for producers that send only the hash.
	SessionHash string
	PassRate    *float64  // 0 to 1; nil without a verdict
	At          time.Time // it counts on that day
	RatedAt     time.Time // of the verdict: the newest one counts; zero means At
}

// A Report is the observations and gradings of one request of a user's producer.
type Report struct {
	OrgID, UserID string
	DeviceID      string // of the machine that reports, "" when unknown
	Observations  []Observation
	Gradings      []Grading
	Withdrawn     []string // the ids of gradings that are no more
	// Reloaded are sessions, by their hashes, whose plugins Plugins.Loaded answers
	// otherwise than before.
	Reloaded []string
}

// ID returns the id of a record by its natural key: the sender, the kind, and the
// sender's own id.
func ID(orgID, userID, kind, natural string) string { return digest(orgID, userID, kind, natural) }

// PromptHash returns the pseudonym of a prompt's id.
func PromptHash(orgID, userID, promptID string) string {
	return digest(orgID, userID, "prompt", promptID)
}

// DeviceHash returns the pseudonym of a user's device.
func DeviceHash(userID, deviceID string) string { return digest(userID, "device", deviceID) }

// digest returns 128 bits of the SHA-256 of the words. Each is prefixed with its
// length, so that different lists have different digests.
func digest(words ...string) string {
	var room [256]byte // no allocation for what ids and names need
	text := room[:0]
	for _, w := range words {
		text = binary.LittleEndian.AppendUint32(text, uint32(len(w)))
		text = append(text, w...)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// billion scales rates to integers, so that their sums are exact and do not
// depend on the order.
const billion = 1_000_000_000

func scaled(rate *float64) *int64 {
	if rate == nil {
		return nil
	}
	n := int64(math.Round(*rate * billion))
	return &n
}

// share is the mean of count rates with a scaled sum, nil without any.
func share(sum, count int64) *float64 {
	if count == 0 {
		return nil
	}
	s := float64(sum) / float64(billion*count) // rounded once
	return &s
}

const secondsPerDay = 24 * 60 * 60

// dayOf returns the UTC day of a time, counted from the epoch.
func dayOf(t time.Time) int64 {
	return int64(math.Floor(float64(t.Unix()) / secondsPerDay))
}

// Offers are the sessions that were offered a skill and those that used it, over
// the last days and over the days before.
type Offers struct {
	Offered, Used             int64
	OfferedBefore, UsedBefore int64
}

// Share returns how many of the sessions that were offered the skill used it.
func (o Offers) Share() float64 { return offeredShare(o.Used, o.Offered) }

// ShareBefore is Share of the days before.
func (o Offers) ShareBefore() float64 { return offeredShare(o.UsedBefore, o.OfferedBefore) }

// offeredShare is at most 1: a session may use a skill that no report says it was
// offered.
func offeredShare(used, offered int64) float64 {
	if offered == 0 {
		return 0
	}
	return min(1, float64(used)/float64(offered))
}

// Offers returns the offers of skills in the last days, today included, and in the
// days before those up to allDays back, by skill.
func (s *Service) Offers(ctx context.Context, q store.Querier, skillIDs []string, days, allDays int) (map[string]Offers, error) {
	today := dayOf(time.Now())
	start := today - int64(days) + 1
	now, err := windows(ctx, q, skillIDs, start, endOfTime)
	if err != nil {
		return nil, err
	}
	before, err := windows(ctx, q, skillIDs, today-int64(allDays)+1, start)
	all := make(map[string]Offers, len(now))
	for _, id := range skillIDs {
		n, b := now[id], before[id]
		all[id] = Offers{
			Offered: n.lastOfferedSessions, Used: n.lastTriggerSessions,
			OfferedBefore: b.lastOfferedSessions, UsedBefore: b.lastTriggerSessions,
		}
	}
	return all, err
}

// WindowCosts returns what the skills of an organisation cost over the last days,
// by skill.
func (s *Service) WindowCosts(ctx context.Context, orgID string, days int) (map[string]pricing.Cost, error) {
	all, err := namesOfOrg(ctx, s.DB, orgID)
	if err != nil {
		return nil, err
	}
	return s.Costs.CostsOf(ctx, orgID, columnsOf(all, func(k skill) string { return k.ID }), dayOf(time.Now())-int64(days)+1)
}
