package grades

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// maxLabelPrompts is how many prompts for labels of a skill a grader may send in a
// day, each for up to label.MaxReasons groups. It sends no more than its sample,
// either.
const maxLabelPrompts = 10

// labelling is the job that asks the judge for labels of the reasons why sessions of
// a skill failed.
type labelling struct {
	OrgID   string `json:"org_id"`
	SkillID string `json:"skill_id"`
}

// Kind names the job.
func (labelling) Kind() string { return "grades.label" }

// Org makes the job a run: it waits for a model.
func (l labelling) Org() string { return l.OrgID }

// enqueueLabels starts the job after reasons were added.
func (s *Service) enqueueLabels(ctx context.Context, tx *store.Tx, orgID, skillID string) error {
	if s.Judge.Describe().RouteOnly {
		return nil
	}
	return s.Jobs.Enqueue(ctx, tx, labelling{orgID, skillID}, jobs.Unique(skillID))
}

// An unlabelled is a reason that the judge has not read yet.
type unlabelled struct {
	key     string
	gradeID string // the newest grade that has it
	reason  string
}

// LabelFailures asks for labels of all groups that have none, most frequent first.
// Each is asked for once: the key of a group is its reason, which never changes. A
// group whose label is not usable stays without one.
func (s *Service) LabelFailures(ctx context.Context, orgID, skillID string) (err error) {
	defer fault.Wrap(&err, "label failures of skill %s", skillID)
	if s.Judge.Describe().RouteOnly {
		return nil
	}
	graders, err := gradersOf(ctx, s.DB, orgID, []string{skillID})
	if err != nil {
		return err
	}
	b, g := &bench{Service: s, orgID: orgID}, effective(graders, skillID)
	if !g.Enabled || g.SamplePerDay != nil && *g.SamplePerDay == 0 {
		return nil
	}
	prices, err := b.prices(ctx)
	if err != nil {
		return err
	}
	for {
		all, err := s.unlabelledGroups(ctx, skillID)
		if err != nil || len(all) == 0 {
			return err
		}
		if err := b.label(ctx, g, skillID, all[:min(len(all), maxLabelReasons)], prices); err != nil {
			return err
		}
	}
}

// unlabelledGroups returns the groups of the last days that the judge has not read.
// Failed tools and outcomes are no sentences, and need no label.
func (s *Service) unlabelledGroups(ctx context.Context, skillID string) ([]unlabelled, error) {
	since := store.Now().Add(-lookback)
	groups, err := failureGroups(ctx, s.DB, skillID, since)
	if err != nil {
		return nil, err
	}
	known, err := labelsOf(ctx, s.DB, skillID, groups)
	if err != nil {
		return nil, err
	}
	var left []Group
	for _, g := range groups {
		_, asked := known[g.Key]
		written := strings.HasPrefix(g.Key, byExpectation) || strings.HasPrefix(g.Key, byReason) && g.Key != byReason
		if written && !asked {
			left = append(left, g)
		}
	}
	if len(left) == 0 {
		return nil, nil
	}
	newest, err := newestFailures(ctx, s.DB, skillID, since, left)
	var all []unlabelled
	for _, g := range left {
		if u, ok := newest[g.Key]; ok { // else it was deleted meanwhile
			all = append(all, u)
		}
	}
	return all, err
}

// label asks for the labels of some groups, and stores them. The budget is reserved
// before, so that neither a crash nor another process exceeds it.
func (b *bench) label(ctx context.Context, g Grader, skillID string, all []unlabelled, prices pricing.Table) error {
	reasons := columnOf(all, func(u unlabelled) labelReason {
		return labelReason{Text: u.reason, Expected: strings.HasPrefix(u.key, byExpectation)}
	})
	const bytesPerToken, tokensPerLabel = 3, 60
	expected := cost(prices, b.Judge.Describe().Model, int64(labelSize(reasons)/bytesPerToken), int64(len(all)*tokensPerLabel))
	claimed := newClaim(g, skillID, usage{labels: 1, calls: 1, micros: expected})
	err := b.DB.InTx(ctx, func(tx *store.Tx) error { return b.spend(ctx, tx, g, claimed) })
	if errors.Is(err, errSpent) {
		now := store.Now()
		return jobs.Snooze(now.Truncate(24*time.Hour).AddDate(0, 0, 1).Sub(now))
	}
	if err != nil {
		return err
	}
	labels, used, err := askLabels(ctx, b.Judge, reasons)
	failed, isJudges := errors.AsType[*judge.Error](err)
	if isJudges {
		used = failed.Record
	}
	if settled := b.settle(ctx, claimed, prices, used); settled != nil {
		return settled
	}
	switch code := judge.CodeOf(err); {
	case err == nil:
	case code == "":
		return err // e.g. the process ends
	case code == judge.Unavailable, code == judge.Timeout, judge.MustStop(err):
		b.Log.WarnContext(ctx, "the judge cannot label failures", "error", err)
		return jobs.Snooze(outage)
	default:
		labels = make([]string, len(all))
	}
	return b.DB.InTx(ctx, func(tx *store.Tx) error {
		for i, u := range all {
			if err := insertLabel(ctx, tx, skillID, u, labels[i]); err != nil {
				return err
			}
		}
		return nil
	})
}
