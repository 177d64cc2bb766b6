package skills

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// backfill is the job that gives rows of older versions what migrations 35 and 120
// changed and SQL cannot compute: which sessions were offered a skill, and the version
// of a session's gradings and costs, which follow its activations.
type backfill struct{}

// Kind names the job.
func (backfill) Kind() string { return "skills.backfill" }

// Register makes the queue run the jobs of skills.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, _ backfill) error { return s.backfill(ctx) })
	s.Jobs.Every(24*time.Hour, backfill{}, jobs.RunOnStart())
}

// backfillChunk is how many rows one transaction of the backfill handles.
const backfillChunk = 500

// backfill walks through the rows in chunks, and may be interrupted: the table
// skill_backfill has the cursor of each step. Without a row there is nothing to
// do. The gradings come last, since they follow the observations.
func (s *Service) backfill(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "backfill")
	for _, step := range []struct {
		name string
		run  func(ctx context.Context, tx *store.Tx, after string) (last string, err error)
	}{
		{"observations", s.backfillObservations},
		{"gradings", s.backfillGradings},
		{"last_gradings", s.backfillGradings},
		{"last_versions", s.backfillVersions},
	} {
		for done := false; !done; {
			err := s.DB.InTx(ctx, func(tx *store.Tx) error {
				after, err := lockBackfill(ctx, tx, step.name)
				if done = fault.Is(err, fault.NotFound); done {
					return nil
				}
				if err != nil {
					return err
				}
				last, err := step.run(ctx, tx, after)
				if err != nil {
					return err
				}
				return moveBackfill(ctx, tx, step.name, last)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// backfillObservations takes observations out of the rollups and puts them back
// in, which writes what older versions did not. It returns the last id, "" at the
// end.
func (s *Service) backfillObservations(ctx context.Context, tx *store.Tx, after string) (last string, err error) {
	all, owners, err := observationsAfter(ctx, tx, after, backfillChunk)
	if err != nil || len(all) == 0 {
		return "", err
	}
	if err := lockOwners(ctx, tx, owners); err != nil {
		return "", err
	}
	// They may have changed before the lock.
	known, err := observationsByID(ctx, tx, columnsOf(all, func(o observation) string { return o.id }))
	if err != nil {
		return "", err
	}
	t := newTally()
	var offers []observation
	changed := map[string][]Session{}
	for i := range all {
		o, ok := known[all[i].id]
		if !ok {
			continue
		}
		t.observed(o, -1)
		if !o.isCheck && o.until == nil {
			o.until = &o.at
			offers = append(offers, o)
		}
		t.observed(o, +1)
		changed[owners[i].orgID] = append(changed[owners[i].orgID], Session{SkillID: o.skillID, Hash: o.sessionHash})
	}
	if err := updateObservations(ctx, tx, offers); err != nil {
		return "", err
	}
	if err := t.writeSessions(ctx, tx); err != nil {
		return "", err
	}
	return all[len(all)-1].id, s.finish(ctx, tx, t, changed)
}

// backfillGradings attributes gradings anew.
func (s *Service) backfillGradings(ctx context.Context, tx *store.Tx, after string) (last string, err error) {
	all, owners, err := gradingsAfter(ctx, tx, after, backfillChunk)
	if err != nil || len(all) == 0 {
		return "", err
	}
	ids := map[owner][]string{}
	for i, g := range all {
		ids[owners[i]] = append(ids[owners[i]], g.id)
	}
	if err := lockOwners(ctx, tx, owners); err != nil {
		return "", err
	}
	// The counters of all users at once, so that they are locked in one order.
	t, changed := newTally(), map[string][]Session{}
	for o, ids := range ids {
		in := newIngestion(tx, Report{OrgID: o.orgID, UserID: o.userID})
		in.tally = t
		c, err := in.rerun(ctx, s, nil, ids)
		if err != nil {
			return "", err
		}
		changed[o.orgID] = append(changed[o.orgID], c.Sessions...)
	}
	return all[len(all)-1].id, s.finish(ctx, tx, t, changed)
}

// backfillVersions lets sessions, and what was paid for in them, follow the last
// activation where they activated several versions.
func (s *Service) backfillVersions(ctx context.Context, tx *store.Tx, after string) (last string, err error) {
	all, err := activationsAfter(ctx, tx, after, backfillChunk)
	if err != nil || len(all) == 0 {
		return "", err
	}
	several := map[owner][]Session{}
	for _, a := range all {
		if o := (owner{a.OrgID, a.UserID}); a.Several && !slices.Contains(several[o], a.Session) {
			several[o] = append(several[o], a.Session)
		}
	}
	if err := lockOwners(ctx, tx, slices.Collect(maps.Keys(several))); err != nil {
		return "", err
	}
	changed := map[string][]Session{}
	for o, sessions := range several {
		changed[o.orgID] = append(changed[o.orgID], sessions...)
		if s.OnAttributed == nil {
			continue
		}
		if err := s.OnAttributed.Follow(ctx, tx, o.orgID, o.userID, Changes{Sessions: sessions, Touched: sessions}); err != nil {
			return "", err
		}
	}
	return all[len(all)-1].ID, s.finish(ctx, tx, newTally(), changed)
}

func lockOwners(ctx context.Context, tx *store.Tx, owners []owner) error {
	return LockUsers(ctx, tx, columnsOf(owners, func(o owner) string { return o.userID }))
}

// LockUsers is LockUser for several, in one order.
func LockUsers(ctx context.Context, tx *store.Tx, userIDs []string) error {
	slices.Sort(userIDs)
	for _, id := range slices.Compact(userIDs) {
		if err := LockUser(ctx, tx, id); err != nil {
			return err
		}
	}
	return nil
}
