package repohost

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/host"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// ReconcileAll makes every connection be compared with its repository.
func (s *Service) ReconcileAll(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "reconcile all")
	ids, err := usableConnections(ctx, s.DB)
	if err != nil {
		return err
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error { return s.enqueueReconcile(ctx, tx, ids) })
}

// enqueueReconcile gives up after a few tries: the schedule comes again.
func (s *Service) enqueueReconcile(ctx context.Context, tx *store.Tx, ids []string) error {
	for _, id := range ids {
		if err := s.Jobs.Enqueue(ctx, tx, reconcile{ConnectionID: id}, jobs.Unique(id), jobs.Attempts(3)); err != nil {
			return err
		}
	}
	return nil
}

// reconcile queues the head of the branch and the tags that no hook told of.
func (s *Service) reconcile(ctx context.Context, connectionID string) (err error) {
	defer fault.Wrap(&err, "reconcile connection %s", connectionID)
	c, err := connectionByID(ctx, s.DB, connectionID)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	repo, err := s.repo(ctx, c)
	if fault.Is(err, fault.Conflict) {
		return nil // suspended or unbound meanwhile
	}
	if err != nil {
		return err
	}
	refs, err := s.Host.Refs(ctx, repo)
	if err != nil {
		return reconcileFailure(err)
	}
	known, err := knownAttempts(ctx, s.DB, c)
	if err != nil {
		return err
	}
	attempts, waiting := missing(c, refs, known)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		if waiting { // whoever queued it may have died
			if err := s.Jobs.Enqueue(ctx, tx, publish{ConnectionID: c.ID}, jobs.Unique(c.ID), jobs.Attempts(maxRuns)); err != nil {
				return err
			}
		}
		return s.queue(ctx, tx, attempts)
	})
}

// reconcileFailure tries again only what may be over soon.
func reconcileFailure(err error) error {
	if passing(err) {
		return retryLater(err, 0)
	}
	return jobs.Cancel(err)
}

// missing lists what a connection wants and nobody has tried, the tags in the
// order of their versions, and tells whether something waits already.
func missing(c Connection, refs host.Refs, known map[refAt]Status) (attempts []Attempt, waiting bool) {
	want := func(r ref, commit string) {
		status, done := known[refAt{r, commit}]
		waiting = waiting || status == Queued
		if !done {
			attempts = append(attempts, Attempt{
				OrgID: c.OrgID, ConnectionID: c.ID, RefKind: r.kind, RefName: r.name, Commit: commit, Cause: ByReconcile,
			})
		}
	}
	if head := refs.Heads[c.DefaultBranch]; head != "" {
		want(ref{branch, c.DefaultBranch}, head)
	}
	tags, err := c.tags()
	if err != nil || !c.AutoPublish {
		return attempts, waiting
	}
	for _, name := range tags.of(refs) {
		want(ref{tag, name}, refs.Tags[name])
	}
	return attempts, waiting
}
