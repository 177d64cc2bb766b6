package community

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Service stores bundles. Only the creator may read them, whichever
// organisation sent them, so its queries name a creator where those of other
// capabilities name an organisation.
type Service struct {
	DB    *store.DB
	Quota *quota.Service
	// Secret keys the hashes that contributors are shown as.
	Secret []byte
}

// Submit stores a bundle and returns the id of the submission. It is
// idempotent: the same bundle again, also concurrently, is the same submission.
func (s *Service) Submit(ctx context.Context, n New) (id string, err error) {
	defer fault.Wrap(&err, "submit bundle")
	if err := n.Check(); err != nil {
		return "", err
	}
	sub, err := n.read(s.Secret)
	if err != nil {
		return "", err
	}
	sub.ID, sub.SubmittedAt = store.NewID(), store.Now()
	// The insert decides which of two concurrent submissions is the first; the other one returns
	// its id and is neither audited nor counted again.
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if id, err = insertSubmission(ctx, tx, sub); err != nil || id != sub.ID {
			return err
		}
		if err := audit.Record(ctx, tx, audit.Entry{
			OrgID: sub.OrgID, Action: "community.bundle.submit",
			Target: audit.Target{Kind: "bundle", ID: id, Name: sub.SkillName},
			Detail: audit.Detail{"creator": sub.CreatorID},
		}); err != nil {
			return err
		}
		return s.Quota.Add(ctx, tx, sub.OrgID, quota.Community, int64(len(sub.Bundle)))
	})
	return id, err
}

// A SkillCount is the number of submissions for one skill.
type SkillCount struct {
	SkillName    string
	Submissions  int
	Contributors int
	Latest       time.Time
}

// An Overview is the number of submissions for a creator.
type Overview struct {
	Submissions  int
	Contributors int
	Skills       []SkillCount
}

// Overview counts the submissions for a creator.
func (s *Service) Overview(ctx context.Context, creatorID string) (o Overview, err error) {
	if o.Skills, err = skillCounts(ctx, s.DB, creatorID); err != nil {
		return o, err
	}
	o.Submissions, o.Contributors, err = totals(ctx, s.DB, creatorID)
	return o, err
}

// A SkillReport is the aggregate of the bundles of one skill.
type SkillReport struct {
	SkillCount
	TotalSessions  int64
	GradedSessions int64
	// PassRate is the mean weighted by graded sessions, nil without any.
	PassRate *float64
	// Trend compares the later half of the bundles with the earlier one: "up",
	// "down" or "flat".
	Trend *string
}

// deadBand is the largest difference of two pass rates that counts as flat. Pass rates are shares:
// 0.01 is one percentage point.
const deadBand = 0.01

// recentOfSkill is how many submissions are listed with a skill.
const recentOfSkill = 20

// Skill returns the report on one skill of a creator, and its newest submissions.
// Without submissions the report is nil.
func (s *Service) Skill(ctx context.Context, creatorID, name string) (*SkillReport, []Submission, error) {
	recent, err := recentSubmissions(ctx, s.DB, creatorID, name, recentOfSkill)
	if err != nil || len(recent) == 0 {
		return nil, recent, err
	}
	r, err := skillReport(ctx, s.DB, creatorID, name)
	if err != nil {
		return nil, nil, err
	}
	// The halves are compared whatever their size: a trend is a hint for the creator, not a
	// verdict.
	earlier, later, err := halves(ctx, s.DB, creatorID, name)
	if earlier != nil && later != nil {
		trend := "flat"
		if change := *later - *earlier; change > deadBand {
			trend = "up"
		} else if change < -deadBand {
			trend = "down"
		}
		r.Trend = &trend
	}
	return &r, recent, err
}

// Recent returns the newest submissions for a creator.
func (s *Service) Recent(ctx context.Context, creatorID string, limit int) ([]Submission, error) {
	return recentSubmissions(ctx, s.DB, creatorID, "", limit)
}
