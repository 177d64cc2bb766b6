package community

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/quota"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Service keeps bundles. What it tells is for the creator alone, whoever sent
// the bundles: its queries name a creator where others name an organisation.
type Service struct {
	DB    *store.DB
	Quota *quota.Service
	// Secret is the installation's own: contributors are shown as its hashes.
	Secret []byte
}

// Submit takes in a bundle and returns the id of the submission. The same
// bundle again, also at the same time, is the same submission.
func (s *Service) Submit(ctx context.Context, n New) (id string, err error) {
	defer fault.Wrap(&err, "submit bundle")
	sub, err := n.read(s.Secret)
	if err != nil {
		return "", err
	}
	sub.ID, sub.SubmittedAt = store.NewID(), store.Now()
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if id, err = insertSubmission(ctx, tx, sub); err != nil || id != sub.ID {
			return err
		}
		if err := audit.Record(ctx, tx, audit.Entry{
			OrgID: sub.OrgID, Action: "community.bundle.submit", Target: audit.Target{Kind: "bundle", ID: id, Name: sub.SkillName},
			Detail: audit.Detail{"creator": sub.CreatorID},
		}); err != nil {
			return err
		}
		return s.Quota.Add(ctx, tx, sub.OrgID, quota.Community, int64(len(sub.Bundle)))
	})
	return id, err
}

// A SkillCount is what has come for one skill.
type SkillCount struct {
	SkillName    string
	Submissions  int
	Contributors int
	Latest       time.Time
}

// An Overview is what has come for a creator.
type Overview struct {
	Submissions  int
	Contributors int
	Skills       []SkillCount
}

// Overview counts what has come for a creator.
func (s *Service) Overview(ctx context.Context, creatorID string) (o Overview, err error) {
	if o.Skills, err = skillCounts(ctx, s.DB, creatorID); err != nil {
		return o, err
	}
	o.Submissions, o.Contributors, err = totals(ctx, s.DB, creatorID)
	return o, err
}

// A SkillReport is what the bundles of one skill say together.
type SkillReport struct {
	SkillCount
	TotalSessions  int64
	GradedSessions int64
	// PassRate is the mean of all, weighted by graded sessions; nil without any.
	PassRate *float64
	// Trend compares the later half of the bundles with the earlier one.
	Trend *string
}

// deadBand is the difference of two pass rates that means nothing.
const deadBand = 0.01

// recentOfSkill is how many submissions are listed with a skill.
const recentOfSkill = 20

// Skill tells what has come for one skill of a creator, and the newest of it.
// The report is nil when nothing has come.
func (s *Service) Skill(ctx context.Context, creatorID, name string) (*SkillReport, []Submission, error) {
	recent, err := recentSubmissions(ctx, s.DB, creatorID, name, recentOfSkill)
	if err != nil || len(recent) == 0 {
		return nil, recent, err
	}
	r, err := skillReport(ctx, s.DB, creatorID, name)
	if err != nil {
		return nil, nil, err
	}
	earlier, later, err := halves(ctx, s.DB, creatorID, name)
	if earlier != nil && later != nil {
		trend := trendOf(*later - *earlier)
		r.Trend = &trend
	}
	return &r, recent, err
}

func trendOf(change float64) string {
	switch {
	case change > deadBand:
		return "up"
	case change < -deadBand:
		return "down"
	}
	return "flat"
}

// Recent lists the newest submissions for a creator.
func (s *Service) Recent(ctx context.Context, creatorID string, limit int) ([]Submission, error) {
	return recentSubmissions(ctx, s.DB, creatorID, "", limit)
}
