package repohost

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// ReconcileDue enqueues the reconciliation of every connection that is due. It compares
// branch and tags of the repository with what was published, and pull requests with what
// was gated, in case webhooks were lost.
func (s *Service) ReconcileDue(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "reconcile")
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		due, err := takeDue(ctx, tx, store.Now(), s.Interval)
		if err != nil {
			return err
		}
		return s.enqueueReconcile(ctx, tx, due...)
	})
}

// enqueueReconcile allows few attempts, because the schedule repeats the job anyway.
func (s *Service) enqueueReconcile(ctx context.Context, tx *store.Tx, all ...key) error {
	for _, k := range all {
		err := s.Jobs.Enqueue(ctx, tx, reconcile{ConnectionID: k.id}, jobs.Unique(k.id), jobs.Attempts(3), jobs.For(k.orgID))
		if err != nil {
			return err
		}
	}
	return nil
}

// reconcile queues attempts for the head of the branch and the tags that no webhook
// announced, and catches up on pull requests.
func (s *Service) reconcile(ctx context.Context, connectionID string) (err error) {
	defer fault.Wrap(&err, "reconcile connection %s", connectionID)
	c, err := connectionByID(ctx, s.DB, connectionID)
	if fault.Is(err, fault.NotFound) {
		return nil // deleted in the meantime
	}
	if err != nil {
		return err
	}
	// Read before the code host: settings that change meanwhile count for the next run.
	since, err := gatesPullsSince(ctx, s.DB, c)
	if err != nil {
		return err
	}
	repo, err := s.repoOf(ctx, c)
	if fault.Is(err, fault.Conflict) {
		return nil // suspended or unbound in the meantime
	}
	if err != nil {
		return err
	}
	is, err := s.Host.Repository(ctx, repo)
	var found host.Refs
	if err == nil {
		found, err = s.Host.Refs(ctx, repo)
	}
	if err != nil && isTransient(err) {
		return retryAfter(err, 0)
	}
	if err != nil {
		return jobs.Cancel(err) // permanent: don't use up the other attempts
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if c, err = connectionOfOrg(ctx, tx, c.OrgID, c.ID, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		_, err = c.followTo(ctx, tx, host.EventRepository{ID: is.ID, FullName: is.FullName, DefaultBranch: is.DefaultBranch}, "")
		return err
	})
	if fault.Is(err, fault.NotFound) {
		return nil // deleted in the meantime
	}
	if err != nil {
		return err
	}
	known, err := publication.Settled(ctx, s.DB, c.ID, c.ConfiguredAt)
	if err != nil {
		return err
	}
	attempts, queued := missingAttempts(c, found, known)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if queued { // its job may have been lost, e.g. with a restored backup
			if err := s.enqueuePublish(ctx, tx, c.ID, c.OrgID); err != nil {
				return err
			}
		}
		return s.queueAttempts(ctx, tx, attempts)
	})
	if err == nil && s.OnReviews != nil {
		err = s.lookAtReviews(ctx, c)
	}
	if err != nil || s.OnReconcile == nil {
		return err
	}
	if err = s.OnReconcile.ReconcilePulls(ctx, c, since); err != nil && isTransient(err) {
		return retryAfter(err, 0)
	}
	return err
}

// missingAttempts returns attempts for refs that the connection publishes and that
// weren't attempted at their commit, tags in version order. queued: some attempt is still
// in the queue.
func missingAttempts(c Connection, found host.Refs,
	known map[publication.At]publication.Status,
) (attempts []publication.Attempt, queued bool) {
	add := func(r publication.Ref, commit string) {
		status, attempted := known[publication.At{Ref: r, Commit: commit}]
		queued = queued || status == publication.Queued
		if !attempted {
			attempts = append(attempts, newAttempt(c, r, commit, publication.ByReconcile))
		}
	}
	if head := found.Heads[c.DefaultBranch]; head != "" {
		add(publication.Ref{Kind: publication.Branch, Name: c.DefaultBranch}, head)
	}
	tags, err := c.tags()
	if err != nil || !c.AutoPublish {
		return attempts, queued
	}
	for _, name := range tags.Select(found.Tags) {
		add(publication.Ref{Kind: publication.Tag, Name: name}, found.Tags[name])
	}
	return attempts, queued
}
