package overview

import (
	"context"
	"time"
)

// A Tenure begins when a version of a skill's entry became current.
type Tenure struct {
	EntryID            string
	VersionID, Version string
	Since              time.Time
	// Eligible means that a rollback would choose the version: it is published, and
	// was not rolled back.
	Eligible bool
}

// Tenures returns the newest tenures of the entries of an organisation's skills, at
// most limit of each, by skill id, oldest first. It is one query.
func (s *Service) Tenures(ctx context.Context, orgID string, skillIDs []string, limit int) (map[string][]Tenure, error) {
	rows, err := tenuresOfSkills(ctx, s.DB, orgID, skillIDs, limit)
	all := map[string][]Tenure{}
	for _, r := range rows {
		of := all[r.skillID]
		// A skill may have two entries; the first one counts, as for Entry.
		if len(of) == 0 || of[0].EntryID == r.EntryID {
			all[r.skillID] = append(of, r.Tenure)
		}
	}
	return all, err
}

// OrgDays returns the last days of all listed skills of an organisation together,
// oldest first. A session counts once for each of its skills.
func (s *Service) OrgDays(ctx context.Context, orgID string, days int) ([]Day, error) {
	from := time.Now().Unix()/secondsPerDay - int64(days) + 1
	rows, err := daysOfOrg(ctx, s.DB, orgID, from)
	all := make([]Day, days)
	for i := range all {
		all[i].Date = dateOf(from + int64(i))
	}
	for _, r := range rows {
		if at := r.day - from; at < int64(days) { // a client's clock may run ahead
			r.Date = dateOf(r.day)
			all[at] = r.Day
		}
	}
	return all, err
}

// Related is what there is about a skill on other pages.
type Related struct {
	Sources []RelatedSource
	Suites  []RelatedSuite
	Alerts  []RelatedAlert // those on all skills last
}

// A RelatedSource is a source of the skill.
type RelatedSource struct {
	ID, Label string
	Pending   int // suggestions that wait for a review
}

// A RelatedSuite is a suite of one of the skill's sources, or one that was asked for.
type RelatedSuite struct {
	ID, Name string
	SourceID string // "" if it has none
	Runnable bool
	Run      *RelatedRun // the newest; nil if it was never run
}

// A RelatedRun is a run of a suite.
type RelatedRun struct {
	ID, Status string
	PassRate   *float64
	At         time.Time
}

// A RelatedAlert is a rule that watches the skill.
type RelatedAlert struct {
	ID, Type  string
	Threshold float64
	All       bool // it watches all skills
	Enabled   bool
	Firing    *time.Time // since when; nil if it does not fire
}

// relatedRead is how many sources, suites and alerts of a skill are read.
const relatedRead = 20

// Related returns what there is about a skill of the organisation. Suites are those
// of its sources, and these.
func (s *Service) Related(ctx context.Context, orgID, skillID string, suiteIDs []string) (r Related, err error) {
	if r.Sources, err = sourcesOfSkill(ctx, s.DB, orgID, skillID, relatedRead); err != nil {
		return r, err
	}
	of := make([]string, len(r.Sources))
	for i, source := range r.Sources {
		of[i] = source.ID
	}
	if len(of)+len(suiteIDs) > 0 {
		if r.Suites, err = suitesOfSources(ctx, s.DB, orgID, of, suiteIDs, relatedRead); err != nil {
			return r, err
		}
	}
	r.Alerts, err = alertsOfSkill(ctx, s.DB, orgID, skillID, relatedRead)
	return r, err
}
