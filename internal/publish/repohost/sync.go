package repohost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// Limits of a sync, which a person waits for.
const (
	// inlineTags is how many tags a sync publishes before it replies; the job publishes
	// the rest.
	inlineTags = 10
	// syncTimeout limits how long a request waits for the code host.
	syncTimeout = 2 * time.Minute
)

// Sync publishes the head of a connection's branch and all matching tags that are
// missing, even without AutoPublish. It returns the attempt to show: the head if that
// failed, else the last release that was published, else the head. An error means that
// the code host couldn't be reached in time; everything else is an outcome.
func (s *Service) Sync(ctx context.Context, orgID, id string) (_ Connection, _ publication.Attempt, err error) {
	defer fault.Wrap(&err, "sync connection %s", id)
	ctx, cancel := s.withSyncTimeout(ctx)
	defer cancel()
	defer explainTimeout(ctx, &err)
	c, err := connectionOfOrg(ctx, s.DB, orgID, id, "")
	if err != nil {
		return c, publication.Attempt{}, err
	}
	var found host.Refs
	repo, err := s.repoOf(ctx, c)
	if err == nil {
		found, err = s.Host.Refs(ctx, repo)
	}
	if err != nil && isTransient(err) {
		return c, publication.Attempt{}, asGatewayError(err)
	}
	if err != nil {
		return c, newSyncResult(c, publication.Failed, userMessage(err)), nil
	}
	known, err := publication.Settled(ctx, s.DB, c.ID, c.ConfiguredAt)
	if err != nil {
		return c, publication.Attempt{}, err
	}
	// A worker may be publishing for the connection; wait for its turn to end.
	held, err := WaitForLease(ctx, s.DB, id)
	if err != nil {
		return c, publication.Attempt{}, err
	}
	defer held.Release(ctx, s.Log)
	a, err := s.syncRefs(ctx, c, found, known, held)
	return c, a, err
}

func (s *Service) withSyncTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cmp.Or(s.syncTimeout, syncTimeout))
}

// explainTimeout replaces the error of an expired sync timeout with advice.
func explainTimeout(ctx context.Context, err *error) {
	if *err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		*err = fault.New(fault.Unavailable, "The repository could not be read in good time;"+
			" name a smaller folder as skill_path, or try again later").Because(*err)
	}
}

// newSyncResult is the result of a sync without any attempt.
func newSyncResult(c Connection, status publication.Status, message string) publication.Attempt {
	return publication.Attempt{
		OrgID: c.OrgID, ConnectionID: c.ID, Cause: publication.BySync, Status: status, Message: message,
		AttemptedAt: store.Now(), WriteBack: publication.Disabled,
	}
}

// syncRefs publishes the head of the branch and the newest tags now, and leaves older
// tags to a job.
func (s *Service) syncRefs(
	ctx context.Context, c Connection, found host.Refs, known map[publication.At]publication.Status, held *Lease,
) (publication.Attempt, error) {
	set, problem := c.tags()
	// Tags that were published at this commit need no attempt.
	tags := slices.DeleteFunc(set.Select(found.Tags), func(name string) bool {
		status := known[publication.At{Ref: publication.Ref{Kind: publication.Tag, Name: name}, Commit: found.Tags[name]}]
		return status == publication.Done || status == publication.Unchanged
	})
	later := tags[:max(0, len(tags)-inlineTags)]
	if err := s.startSync(ctx, c, found, later); err != nil {
		return publication.Attempt{}, err
	}
	result := newSyncResult(c, publication.Skipped, fmt.Sprintf("The repository has no branch %s and no tag to publish",
		c.DefaultBranch))
	failed := 0
	if head := found.Heads[c.DefaultBranch]; head != "" {
		a, err := s.syncOne(ctx, c, publication.Ref{Kind: publication.Branch, Name: c.DefaultBranch}, head)
		if err != nil {
			return a, err
		}
		result = a
	}
	for _, name := range tags[len(later):] {
		if renewed, err := held.Renew(ctx); err != nil || !renewed { // a sync may outlast the TTL
			return result, cmp.Or(err, errPublishing())
		}
		a, err := s.syncOne(ctx, c, publication.Ref{Kind: publication.Tag, Name: name}, found.Tags[name])
		if err != nil {
			return a, err
		}
		switch {
		case a.Status.Bad():
			failed++
		// Prefer a published release over the head of the branch.
		case !result.Status.Bad() && (a.Status == publication.Done || result.Status == publication.Skipped):
			result = a
		}
	}
	if failed > 0 {
		result.Message += fmt.Sprintf("; %d tags could not be published", failed)
	}
	if problem != nil {
		result.Message += "; tags were skipped: " + userMessage(problem)
	}
	return result, nil
}

// startSync records the sync in the audit log and queues the tags that the job publishes.
func (s *Service) startSync(ctx context.Context, c Connection, found host.Refs, tags []string) error {
	attempts := make([]publication.Attempt, len(tags))
	for i, name := range tags {
		attempts[i] = newAttempt(c, publication.Ref{Kind: publication.Tag, Name: name}, found.Tags[name], publication.BySync)
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := c.recordAudit(ctx, tx, "repohost.connection.sync"); err != nil {
			return err
		}
		return s.queueAttempts(ctx, tx, attempts)
	})
}

// syncOne publishes one ref now, through an attempt like any other, so that webhooks for
// the same commit are deduplicated.
func (s *Service) syncOne(ctx context.Context, c Connection, r publication.Ref, commit string) (a publication.Attempt,
	err error,
) {
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		id, err := s.queueAttempt(ctx, tx, newAttempt(c, r, commit, publication.BySync))
		if err != nil {
			return err
		}
		a, err = publication.ByID(ctx, tx, id)
		return err
	})
	if err != nil {
		return a, err
	}
	// Read again: the connection may have been changed while earlier refs were published.
	if c, err = connectionByID(ctx, s.DB, c.ID); err != nil {
		return a, err
	}
	a, err = s.tryPublish(ctx, c, a, false)
	if err == nil && a.Status == publication.Failed {
		return a, fault.New(fault.BadGateway, "%s", a.Message)
	}
	return a, err
}
