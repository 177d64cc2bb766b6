package registry

import (
	"context"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// enoughGraded is how many graded sessions say something about a version.
const enoughGraded = 5

// Revert rolls a skill's entry back to the version before, if its current
// version is below the threshold and the one before was not. It does so once
// for each version, and returns what to tell of it; "" if it did not.
func (s *Service) Revert(ctx context.Context, tx *store.Tx, r skills.Revert) (note string, err error) {
	defer fault.Wrap(&err, "revert skill %s", r.SkillID)
	e, err := lockEntryOfSkill(ctx, tx, r.OrgID, r.SkillID)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	// What is judged must still be current when it is rolled back.
	if e, err = lockEntry(ctx, tx, r.OrgID, e.ID); err != nil {
		return "", err
	}
	current, err := versionByID(ctx, tx, e, e.CurrentVersionID)
	if err != nil {
		return "", err
	}
	before, err := versionBefore(ctx, tx, current)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	better, err := s.better(ctx, tx, before, current, r.Threshold)
	if err != nil || !better {
		return "", err
	}
	if left, err := wasLeft(ctx, tx, current); err != nil || left {
		return "", err
	}
	result, err := rollback(ctx, tx, e.ID, NewRollback{OrgID: r.OrgID, UserID: r.UserID, Target: before.Version, Reason: &r.Reason})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Rolled back from version %s to %s.", result.From, result.Version.Version), nil
}

// better reports whether the version before passes where the current does not.
func (s *Service) better(ctx context.Context, tx *store.Tx, before, current Version, threshold float64) (bool, error) {
	quality, err := s.Skills.Quality(ctx, tx, []string{before.ID, current.ID})
	if err != nil {
		return false, err
	}
	was, is := quality[before.ID], quality[current.ID]
	return was.GradedSessions >= enoughGraded && is.GradedSessions >= enoughGraded &&
		!skills.Below(*was.PassRate, threshold) && skills.Below(*is.PassRate, threshold), nil
}

// CurrentVersion returns the current version of a skill's entry; nil if it has
// none.
func (s *Service) CurrentVersion(ctx context.Context, q store.Querier, orgID, skillID string) (*string, error) {
	version, err := currentVersionOfSkill(ctx, q, orgID, skillID)
	if fault.Is(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // a skill need not be in the registry
	}
	return &version, err
}
