package apply

import (
	"context"
	"errors"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
)

// work is the job that does what a person asked for.
type work struct {
	OrgID      string `json:"org_id"`
	ProposalID string `json:"proposal_id"`
}

// Kind names the job.
func (work) Kind() string { return "proposals.apply" }

// follow is the job that looks what became of an applied proposal.
type follow struct {
	OrgID      string `json:"org_id"`
	ProposalID string `json:"proposal_id"`
}

// Kind names the job.
func (follow) Kind() string { return "proposals.follow" }

// followAll is the scheduled job that heals what a lost webhook missed.
type followAll struct{}

// Kind names the job.
func (followAll) Kind() string { return "proposals.follow-all" }

// Register makes the queue run the jobs of applying.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args work) error { return s.work(ctx, args.OrgID, args.ProposalID) },
		jobs.Timeout(10*time.Minute), jobs.NeedsRoom())
	jobs.Handle(s.Jobs, func(ctx context.Context, args follow) error { return s.follow(ctx, args.OrgID, args.ProposalID) })
	jobs.Handle(s.Jobs, func(ctx context.Context, _ followAll) error { return s.FollowAll(ctx) })
	s.Jobs.Every(s.Interval, followAll{})
}

func (s *Service) enqueue(ctx context.Context, tx *store.Tx, orgID, id string) error {
	return s.Jobs.Enqueue(ctx, tx, work{OrgID: orgID, ProposalID: id}, jobs.Unique(id), repohost.MaxRuns(), jobs.For(orgID))
}

func (s *Service) enqueueFollow(ctx context.Context, tx *store.Tx, all []key) error {
	for _, k := range all {
		if err := s.Jobs.Enqueue(ctx, tx, follow{OrgID: k.orgID, ProposalID: k.id}, jobs.Unique(k.id),
			jobs.For(k.orgID)); err != nil {
			return err
		}
	}
	return nil
}

// work does what a person asked for, once. What may pass is tried again; anything
// else ends it, with its reason. It is idempotent: publish and open both find what an earlier
// attempt has made.
func (s *Service) work(ctx context.Context, orgID, id string) error {
	p, err := s.Proposals.Get(ctx, orgID, id)
	if fault.Is(err, fault.NotFound) || err == nil && (p.Outcome == nil || p.Outcome.State != proposals.Queued) {
		return nil
	}
	if err != nil {
		return err
	}
	// The audit log says who asked for it.
	ctx = access.With(ctx, access.Caller{OrgID: orgID, UserID: p.Outcome.AppliedBy})
	if p.Outcome.Kind == proposals.AsVersion {
		err = s.publish(ctx, p)
	} else {
		err = s.open(ctx, p)
	}
	// A worker that is being stopped leaves the job to another one.
	if err == nil || ctx.Err() != nil {
		return err
	}
	try, _ := jobs.Attempt(ctx)
	if again := s.Repohost.RetryLater(err, try); again != nil {
		return again
	}
	s.Log.WarnContext(ctx, "a proposal could not be applied", "proposal", id, "error", err)
	message := repohost.UserMessage(err)
	return s.settle(ctx, p, func(o *proposals.Outcome) { o.State, o.Message = proposals.Failed, message })
}

// follow writes what became of an applied proposal. It only reads the registry or the code host, so
// it may run at any time and any number of times.
func (s *Service) follow(ctx context.Context, orgID, id string) error {
	p, err := s.Proposals.Get(ctx, orgID, id)
	if fault.Is(err, fault.NotFound) || err == nil && p.Outcome == nil {
		return nil
	}
	if err != nil {
		return err
	}
	switch p.Outcome.Kind {
	case proposals.AsVersion:
		return s.followVersion(ctx, p)
	case proposals.AsPullRequest:
		if p.Outcome.State != proposals.Queued && p.Outcome.State != proposals.Failed {
			return s.followPull(ctx, p)
		}
	case proposals.AsPatch:
	}
	return nil
}

// settle changes the outcome that the proposal had when it was read. Published or
// merged, the proposal is applied. The time of creation identifies the outcome: one that has been
// replaced meanwhile must not be changed.
func (s *Service) settle(ctx context.Context, of proposals.Proposal, change func(*proposals.Outcome)) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		p, err := s.Proposals.Lock(ctx, tx, of.OrgID, of.ID)
		if err != nil {
			return err
		}
		if p.Outcome == nil || p.Outcome.Kind != of.Outcome.Kind || !p.Outcome.CreatedAt.Equal(of.Outcome.CreatedAt) {
			return nil // it was applied in another way meanwhile
		}
		o := *p.Outcome
		change(&o)
		if o == *p.Outcome {
			return nil
		}
		if err := updateOutcome(ctx, tx, p, o); err != nil {
			return err
		}
		if p.Status != proposals.Approved || o.State != proposals.Published && o.State != proposals.Merged {
			return nil
		}
		at := store.Now()
		p.Status, p.AppliedAt, p.Outcome = proposals.Applied, &at, &o
		if err := s.Proposals.Save(ctx, tx, p); err != nil {
			return err
		}
		return s.Proposals.Emit(ctx, tx, p)
	})
}

// FollowAll looks after everything whose end is not known. It runs every Interval; webhooks and
// watchers are only faster.
func (s *Service) FollowAll(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "follow proposals")
	queued, open, err := unfinished(ctx, s.DB, store.Now().Add(-mergeWait))
	if err != nil {
		return err
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		for _, k := range queued {
			if err := s.enqueue(ctx, tx, k.orgID, k.id); err != nil {
				return err
			}
		}
		return s.enqueueFollow(ctx, tx, open)
	})
}

// mergeWait is for how long a version is looked for after a merge.
const mergeWait = 7 * 24 * time.Hour

// GateChanged implements gates.OnGateChanged. A gate of a pull request isn't about a version.
func (s *Service) GateChanged(ctx context.Context, tx *store.Tx, g gates.Gate) error {
	if g.Pull != nil {
		return nil
	}
	return s.versionChanged(ctx, tx, g.EntryID)
}

// VersionDecided implements release.Watcher.
func (s *Service) VersionDecided(ctx context.Context, tx *store.Tx, e registry.Entry, _ registry.Version, _, _ string) error {
	return s.versionChanged(ctx, tx, e.ID)
}

// RolledBack implements release.Rollbacks.
func (s *Service) RolledBack(ctx context.Context, tx *store.Tx, e registry.Entry) error {
	return s.versionChanged(ctx, tx, e.ID)
}

// versionChanged follows every proposal that became a version of the entry: a rollback changes the
// state of two versions at once.
func (s *Service) versionChanged(ctx context.Context, tx *store.Tx, entryID string) error {
	all, err := outcomesOfEntry(ctx, tx, entryID)
	return errors.Join(err, s.enqueueFollow(ctx, tx, all))
}

// PullChanged is called when something happened to a pull request.
func (s *Service) PullChanged(ctx context.Context, tx *store.Tx, c repohost.Connection, number int64) error {
	all, err := outcomesOfPull(ctx, tx, c.ID, number)
	return errors.Join(err, s.enqueueFollow(ctx, tx, all))
}
