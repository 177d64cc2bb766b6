package approvals

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// recount is the job that looks again at candidates after their policy asks for less.
type recount struct {
	OrgID   string `json:"org_id"`
	EntryID string `json:"entry_id"` // "": all entries of the organisation
	Cursor  string `json:"cursor"`   // the version that was looked at last; "": none
}

// Kind names the job.
func (recount) Kind() string { return "approvals.recount" }

// recounted is how many candidates a job looks at before the next one goes on.
const recounted = 100

// Register makes the queue run the jobs of approvals.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, s.recount)
}

// PolicyLowered implements gates.Approvals.
func (s *Service) PolicyLowered(ctx context.Context, tx *store.Tx, orgID, entryID string) error {
	if s.Reviews != nil {
		if err := s.Reviews.PolicyLowered(ctx, tx, orgID, entryID); err != nil {
			return err
		}
	}
	return s.Jobs.Enqueue(ctx, tx, recount{OrgID: orgID, EntryID: entryID}, jobs.For(orgID))
}

// recount makes candidates current that wait for nothing any more.
func (s *Service) recount(ctx context.Context, job recount) error {
	found, err := candidatesOf(ctx, s.DB, job.OrgID, job.EntryID, job.Cursor, recounted)
	if err != nil {
		return err
	}
	for _, v := range found {
		if err := s.DB.InTx(ctx, func(tx *store.Tx) error { return s.settleNow(ctx, tx, job.OrgID, v) }); err != nil {
			return err
		}
	}
	if len(found) < recounted {
		return nil
	}
	job.Cursor = found[len(found)-1].ID
	return s.DB.InTx(ctx, func(tx *store.Tx) error { return s.Jobs.Enqueue(ctx, tx, job, jobs.For(job.OrgID)) })
}

// settleNow settles a version that was a candidate a moment ago.
func (s *Service) settleNow(ctx context.Context, tx *store.Tx, orgID string, v registry.Version) error {
	e, err := s.Registry.Lock(ctx, tx, orgID, v.EntryID)
	if fault.Is(err, fault.NotFound) {
		return nil // deleted meanwhile
	}
	if err != nil {
		return err
	}
	if v, err = s.Registry.VersionByID(ctx, tx, e, v.ID); err != nil || v.State != registry.Candidate {
		return err
	}
	return s.settle(ctx, tx, e, v, "the policy asks for fewer approvals")
}
