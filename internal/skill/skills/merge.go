package skills

import (
	"cmp"
	"encoding/json"
	"maps"
	"strings"
	"time"
)

// observation is a row of skill_observations.
type observation struct {
	id          string
	skillID     string // the skill that it counts for
	originID    string // the skill that the newest report names, see ingestion.countsFor
	skillName   string // of originID, see ingestion.loadSkills
	plugin      *string
	versionID   *string
	basis       *string // why versionID; nil: it was current at the time
	sessionHash string
	device      *string // see DeviceHash
	promptHash  *string
	versionHash *string
	versionName *string
	isCheck     bool
	triggered   bool
	// In billionths.
	confidence *int64
	// How many uses the row stands for; 0 if it is void, see Observation.Void.
	weight       int64
	mode         *string
	at           time.Time
	until        *time.Time // of an offer: the last time; nil while skill_backfill has not seen it
	normalizedAt time.Time  // of the newest report
	ages         ages
}

// ages are the times of the reports that fields come from, in microseconds, of
// those fields whose report is not the newest one. They make merge a
// last-writer-wins register for each field: without them, an old report that
// fills a field would be taken for as new as the newest one, and the result would
// depend on the order of arrival.
type ages map[string]int64

// The fields that have an age of their own: those that a report may leave out.
const (
	ageSession    = "session"
	ageDevice     = "device"
	agePrompt     = "prompt"
	ageHash       = "hash"
	ageName       = "name"
	ageConfidence = "confidence"
	ageMode       = "mode"
)

func (o observation) age(field string) int64 {
	if at, ok := o.ages[field]; ok {
		return at
	}
	return o.normalizedAt.UnixMicro()
}

// marshal returns the stored form, nil if every field is as new as the newest
// report, as in nearly all rows.
func (a ages) marshal() *string {
	if len(a) == 0 {
		return nil
	}
	raw, err := json.Marshal(a)
	if err != nil {
		panic(err) // integers always marshal
	}
	s := string(raw)
	return &s
}

// derivedAge dates back a mode and confidence that a reader derived, e.g. from
// the trigger of an OTLP event, so that one that a producer measured wins.
const derivedAge = 100 * 365 * 24 * time.Hour

// stored turns a reported observation into a row that is not attributed yet. Prompt
// and device become pseudonyms here: their ids are not in these tables.
func (in *ingestion) stored(o Observation) observation {
	s := observation{
		id: o.ID, originID: in.skillIDs[o.SkillName], skillName: o.SkillName, plugin: pluginOf(o.SkillName),
		sessionHash: o.SessionHash,
		versionHash: orNull(o.VersionHash), versionName: orNull(o.VersionName), isCheck: !o.Offered,
		triggered: o.Triggered && !o.Offered, confidence: scaled(o.Confidence), weight: max(1, o.Weight), mode: orNull(o.Mode),
		at: o.At.UTC().Truncate(time.Microsecond), normalizedAt: o.NormalizedAt.UTC().Truncate(time.Microsecond),
	}
	if o.Void {
		s.weight = 0
	}
	if o.PromptID != "" {
		hash := PromptHash(in.report.OrgID, in.report.UserID, o.PromptID)
		s.promptHash = &hash
	}
	if in.report.DeviceID != "" {
		hash := DeviceHash(in.report.UserID, in.report.DeviceID)
		s.device = &hash
	}
	if o.Offered {
		s.until = &s.at
	}
	if o.Derived {
		guess := s.normalizedAt.Add(-derivedAge).UnixMicro()
		s.ages = ages{ageConfidence: guess, ageMode: guess}
	}
	return s
}

// pluginOf returns the plugin of a skill named plugin:skill.
func pluginOf(name string) *string {
	if plugin, _, ok := strings.Cut(name, ":"); ok {
		return &plugin
	}
	return nil
}

func orNull(s string) *string { return unless(s, "") }

// merge combines two reports of one observation, field by field: the value of
// the newer report that has one. Of two equally old values the greater wins, so
// that merge is commutative and associative: the order of arrival never matters.
func merge(a, b observation) observation {
	// The newer report wins the fields that every report has; the rest are merged
	// below.
	m, other := a, b
	if compareReports(a, b) < 0 {
		m, other = b, a
	}
	if !m.isCheck { // two offers: the skill was on offer from the first report to the last
		if other.at.Before(m.at) {
			m.at = other.at
		}
		until := m.lastOffered()
		if last := other.lastOffered(); last.After(until) {
			until = last
		}
		m.until = &until
	}
	m.ages = nil
	// Only ages that differ from the row's are stored, see ages.
	note := func(field string, at int64) {
		if at != m.normalizedAt.UnixMicro() {
			if m.ages == nil {
				m.ages = ages{}
			}
			m.ages[field] = at
		}
	}
	text := func(field string, x, y *string, compare func(x, y string) int) *string {
		value, age := newest(x, y, a.age(field), b.age(field), compare)
		if value != nil {
			note(field, age)
		}
		return value
	}
	if session := text(ageSession, orNull(a.sessionHash), orNull(b.sessionHash), strings.Compare); session != nil {
		m.sessionHash = *session
	}
	m.device = text(ageDevice, a.device, b.device, strings.Compare)
	m.promptHash = text(agePrompt, a.promptHash, b.promptHash, strings.Compare)
	m.versionHash = text(ageHash, a.versionHash, b.versionHash, strings.Compare)
	m.versionName = text(ageName, a.versionName, b.versionName, strings.Compare)
	// By the alphabet an explicit call comes before an implicit one, and that before
	// an inferred one: the first says most.
	m.mode = text(ageMode, a.mode, b.mode, func(x, y string) int { return strings.Compare(y, x) })
	confidence, age := newest(a.confidence, b.confidence, a.age(ageConfidence), b.age(ageConfidence), cmp.Compare[int64])
	if m.confidence = confidence; confidence != nil {
		note(ageConfidence, age)
	}
	return m
}

// lastOffered is the last time of an offer.
func (o observation) lastOffered() time.Time {
	if o.until == nil {
		return o.at
	}
	return *o.until
}

// compareReports orders two reports of one observation: one that the skill was
// considered outranks one that it was only offered, then the newer one does. The
// rest makes the order total; the times of offers are no part of it, since they
// are merged.
func compareReports(a, b observation) int {
	if a.isCheck && b.isCheck {
		return cmp.Or(
			a.normalizedAt.Compare(b.normalizedAt), a.at.Compare(b.at), cmp.Compare(btoi(a.triggered), btoi(b.triggered)),
			cmp.Compare(a.weight, b.weight), strings.Compare(a.skillName, b.skillName),
		)
	}
	return cmp.Or(
		cmp.Compare(btoi(a.isCheck), btoi(b.isCheck)), a.normalizedAt.Compare(b.normalizedAt),
		strings.Compare(a.skillName, b.skillName),
	)
}

// newest returns the newer of two values of a field with its age.
func newest[T any](a, b *T, ageA, ageB int64, compare func(x, y T) int) (*T, int64) {
	switch {
	case a == nil:
		return b, ageB
	case b == nil:
		return a, ageA
	}
	if cmp.Or(cmp.Compare(ageA, ageB), compare(*a, *b)) < 0 {
		return b, ageB
	}
	return a, ageA
}

// equalObservations compares everything that an update writes. A repeated report is
// equal and writes nothing, which makes retries cheap.
func equalObservations(a, b observation) bool {
	return a.skillID == b.skillID && a.originID == b.originID && equal(a.plugin, b.plugin) &&
		equal(a.versionID, b.versionID) && equal(a.basis, b.basis) &&
		a.sessionHash == b.sessionHash && equal(a.device, b.device) && equal(a.promptHash, b.promptHash) &&
		equal(a.versionHash, b.versionHash) &&
		equal(a.versionName, b.versionName) && a.isCheck == b.isCheck && a.triggered == b.triggered &&
		equal(a.confidence, b.confidence) && a.weight == b.weight && equal(a.mode, b.mode) && a.at.Equal(b.at) &&
		equalTimes(a.until, b.until) && a.normalizedAt.Equal(b.normalizedAt) && maps.Equal(a.ages, b.ages)
}

func equal[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func equalTimes(a, b *time.Time) bool {
	return a == b || a != nil && b != nil && a.Equal(*b)
}
