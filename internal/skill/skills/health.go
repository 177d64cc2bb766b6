package skills

import (
	"math"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// A Status is the health of a skill.
type Status string

// The statuses.
const (
	Healthy  Status = "healthy"
	Warning  Status = "warning"
	Critical Status = "critical"
	Unknown  Status = "unknown"
)

// The thresholds of a status.
const (
	MinGraded    = 5    // graded sessions; with fewer the status is unknown
	criticalRate = 0.5  // pass rate below which a skill is critical
	warningRate  = 0.8  // pass rate below which it is a warning
	dropRate     = 0.10 // fall since the window before that is a warning, too
)

// skill is a row of skills with its totals.
type skill struct {
	ID, OrgID, Name string
	CreatedAt       time.Time
	UniqueSessions  int64
	GradedEver      int64
	GradingChanges  int64 // how often a grading of it was added, changed or removed
	FirstSeenAt     *time.Time
	LastSeenAt      *time.Time
	Standing
}

// Standing is whether a skill is listed: if it is confirmed, not hidden and not
// merged into another one.
type Standing struct {
	// Confirmed means that a real use of the name was reported. Else it was only
	// called in vain, or is built into an agent.
	Confirmed  bool
	Hidden     bool
	MergedInto *string // the id of another skill
}

// Performance is the metrics of a skill.
type Performance struct {
	ID, Name         string
	Status           Status
	UniqueSessions   int64
	HasEvidence      bool
	FirstSeenAt      *time.Time
	LastSeenAt       *time.Time
	TriggerRate      *float64
	TriggerRateBasis *string // see offeredBasis; nil without a rate
	// SeenSessions, TriggeredSessions and OfferedSessions are of the window. The
	// first two are the denominator and the numerator of TriggerRate.
	SeenSessions       int64
	TriggeredSessions  int64
	OfferedSessions    int64
	AvgConfidence      *float64
	ConfidenceCoverage *float64
	PassRate           *float64
	PassRateInterval   *[2]float64 // Wilson, 95 %
	GradedSessions     int64
	Bases              basis.Rates // of PassRate
	Standing
	Cost       *pricing.Cost // in the window; nil without a request
	CostPerUse *float64      // the median
}

// rates are the pass rates by what the grades rest on.
func (c dayCount) rates() basis.Rates {
	return c.byBasis.Rates(c.gradedSessions, c.passRateSum, billion)
}

// newPerformance returns the figures of a skill, without the Bases of its pass rate.
func newPerformance(k skill, now, before dayCount) Performance {
	p := Performance{
		ID: k.ID, Name: k.Name, UniqueSessions: k.UniqueSessions, HasEvidence: k.GradedEver > 0,
		FirstSeenAt: k.FirstSeenAt, LastSeenAt: k.LastSeenAt,
		TriggerRate:        ratio(now.lastTriggerSessions, now.lastSessions),
		TriggerRateBasis:   triggerRateBasis(now),
		SeenSessions:       now.lastSessions,
		TriggeredSessions:  now.lastTriggerSessions,
		OfferedSessions:    now.lastOfferedSessions,
		AvgConfidence:      share(now.confidenceSum, now.confidenceCount),
		ConfidenceCoverage: ratio(now.confidenceCount, now.triggers),
		PassRate:           share(now.passRateSum, now.gradedSessions),
		GradedSessions:     now.gradedSessions,
		Status:             statusOf(now, before),
		Standing:           k.Standing,
	}
	if p.PassRate != nil {
		low, high := stats.Wilson(*p.PassRate, int(now.gradedSessions))
		p.PassRateInterval = &[2]float64{low, high}
	}
	return p
}

// The bases of a trigger rate.
const (
	// offeredBasis means that agents reported which skills were on offer, so that
	// sessions that left a skill unused are counted.
	offeredBasis = "offered"
	// consideredBasis means that only sessions that called or read the skill are
	// known: the true rate is lower.
	consideredBasis = "considered"
)

func triggerRateBasis(c dayCount) *string {
	basis := consideredBasis
	switch {
	case c.lastSessions == 0:
		return nil
	case c.lastOfferedSessions > 0:
		basis = offeredBasis
	}
	return &basis
}

func ratio(part, whole int64) *float64 {
	if whole == 0 {
		return nil
	}
	r := float64(part) / float64(whole)
	return &r
}

// statusOf derives the status of a window, compared with the window before.
func statusOf(now, before dayCount) Status {
	status := StatusOf(share(now.passRateSum, now.gradedSessions), now.gradedSessions)
	if status == Healthy && dropped(now, before) {
		return Warning
	}
	return status
}

// StatusOf is the status that a pass rate of so many graded sessions has by itself.
func StatusOf(rate *float64, graded int64) Status {
	switch {
	case rate == nil || graded < MinGraded:
		return Unknown
	case Below(*rate, criticalRate):
		return Critical
	case Below(*rate, warningRate):
		return Warning
	}
	return Healthy
}

// Below reports whether a rate is under a limit. Rates are stored in billionths,
// so that e.g. three times 1/6 may miss 1/2 by one: a difference of that size is
// rounding.
func Below(rate, limit float64) bool {
	const precision = billion / 10
	return math.Round(rate*precision) < math.Round(limit*precision)
}

// dropped reports a significant fall: by dropRate, with disjoint Wilson
// intervals. The second condition keeps skills with few sessions from flapping.
func dropped(now, before dayCount) bool {
	if before.gradedSessions == 0 {
		return false
	}
	p, was := *share(now.passRateSum, now.gradedSessions), *share(before.passRateSum, before.gradedSessions)
	if Below(was-p, dropRate) {
		return false
	}
	_, high := stats.Wilson(p, int(now.gradedSessions))
	low, _ := stats.Wilson(was, int(before.gradedSessions))
	return high < low
}

func (p Performance) sortValue(field string) *float64 {
	number := func(f float64) *float64 { return &f }
	switch field {
	case "last_seen_at":
		if p.LastSeenAt == nil {
			return nil
		}
		return number(float64(p.LastSeenAt.UnixMicro()))
	case "unique_sessions":
		return number(float64(p.UniqueSessions))
	case "pass_rate":
		return p.PassRate
	case "trigger_rate":
		return p.TriggerRate
	case "status":
		return number(map[Status]float64{Critical: 0, Warning: 1, Unknown: 2, Healthy: 3}[p.Status])
	}
	return number(0) // by name, which is the order of the input
}

// Day is the metrics of a skill on one day.
type Day struct {
	Date           string
	Sessions       int64
	Checks         int64
	Triggers       int64
	TriggerRate    *float64
	AvgConfidence  *float64
	GradedSessions int64
	PassRate       *float64
}

// Quality is the metrics of a registry version over all time.
type Quality struct {
	Sessions       int64
	TriggerRate    *float64
	PassRate       *float64
	GradedSessions int64
	PassRates      basis.Rates // the pass rate by what the grades rest on
	Bases          Bases
	Cost           *pricing.Cost // see QualityWithCost; nil without a request
}

// Bases are the checks of a version by the reason why they count for it.
type Bases struct {
	Hash, Plugin, Installation, Time int64
}
