package repohost

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

// timeSlice is how long a worker publishes for one connection before the job goes back to
// the queue, for fairness between connections.
const timeSlice = time.Minute

// publishQueued publishes a connection's queued attempts in order. The lease makes sure
// that only one worker does.
func (s *Service) publishQueued(ctx context.Context, connectionID string) (err error) {
	defer fault.Wrap(&err, "publish for connection %s", connectionID)
	held, acquired, err := AcquireLease(ctx, s.DB, Connections, connectionID)
	if err != nil {
		return err
	}
	if !acquired {
		_, err := connectionByID(ctx, s.DB, connectionID)
		if fault.Is(err, fault.NotFound) {
			return nil // deleted in the meantime
		}
		if err != nil {
			return err
		}
		// Another worker is publishing; it may miss an attempt that was queued just now.
		return jobs.Snooze(LeasePoll)
	}
	defer held.Release(ctx, s.Log)
	for end := time.Now().Add(timeSlice); time.Now().Before(end); {
		a, err := publication.OldestQueued(ctx, s.DB, connectionID)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		// A publication takes long: renew the lease for each.
		if renewed, err := held.Renew(ctx); err != nil || !renewed {
			return cmp.Or(err, jobs.Snooze(LeasePoll))
		}
		if err := s.publishNext(ctx, a); err != nil {
			return err
		}
	}
	return jobs.Snooze(time.Millisecond)
}

// publishNext publishes one attempt. A transient failure of the code host is returned as
// an error that retries the job with backoff, until the backoff is exhausted.
func (s *Service) publishNext(ctx context.Context, a publication.Attempt) error {
	c, err := connectionByID(ctx, s.DB, a.ConnectionID)
	if fault.Is(err, fault.NotFound) {
		return nil // deleted with its attempts
	}
	if err != nil {
		return err
	}
	mayRetry := a.Tries < len(s.backoff())
	a, err = s.tryPublish(ctx, c, a, mayRetry)
	// On a shutdown (ctx is done) the try doesn't count.
	if err == nil || !mayRetry || ctx.Err() != nil {
		return err
	}
	if err := publication.CountTry(ctx, s.DB, a, userMessage(err)); err != nil {
		return err
	}
	return retryAfter(err, s.backoffAfter(a.Tries))
}

// newAttempt returns an attempt that is not queued yet.
func newAttempt(c Connection, r publication.Ref, commit string, cause publication.Cause) publication.Attempt {
	return publication.Attempt{OrgID: c.OrgID, ConnectionID: c.ID, RefKind: r.Kind, RefName: r.Name, Commit: commit, Cause: cause}
}

// tryPublish publishes one attempt and records the outcome. If mayRetry, a transient
// error is returned instead, and the attempt stays queued.
func (s *Service) tryPublish(ctx context.Context, c Connection, a publication.Attempt, mayRetry bool) (publication.Attempt,
	error,
) {
	a.AttemptedAt = store.Now()
	a.Tries++
	if err := s.publish(ctx, c, &a); err != nil {
		if ctx.Err() != nil || mayRetry && isTransient(err) {
			return a, err
		}
		s.Log.Info("a commit was not published", "connection", c.ID, "commit", a.Commit, "error", err)
		// Refused is final for this commit. Failures that depend on the code host or the
		// installation may go away: reconcile retries Failed ones.
		a.Status, a.Message = publication.Refused, userMessage(err)
		if isTransient(err) || fault.Is(err, fault.Denied) {
			a.Status = publication.Failed
		}
	}
	return a, s.finishAttempt(ctx, c, &a)
}

// finishAttempt stores the outcome of an attempt together with its consequences: the
// write-back job, the end of its delivery.
func (s *Service) finishAttempt(ctx context.Context, c Connection, a *publication.Attempt) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		if a.Version != nil {
			// Lock the entry, so that a gate that ends now either finds the attempt, or
			// is found by its write-back.
			if _, err := s.Registry.Lock(ctx, tx, c.OrgID, c.EntryID); err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
		}
		mode, err := modeOf(ctx, tx, c.OrgID)
		if err != nil {
			return err
		}
		a.WriteBack = publication.Disabled
		if mode != ModeOff && c.WriteBackEnabled {
			a.WriteBack = publication.Pending
			if err := s.enqueueWriteBack(ctx, tx, a.ID, c.OrgID); err != nil {
				return err
			}
		}
		waiting, err := publication.Update(ctx, tx, *a)
		if err != nil {
			return err
		}
		if a.Version != nil && s.OnReviews != nil {
			if err := s.OnReviews.LookAt(ctx, tx, c); err != nil {
				return err
			}
		}
		if waiting == "" {
			return nil
		}
		return closeDelivery(ctx, tx, waiting)
	})
}

// publish makes a version of an attempt's commit and sets the attempt's status. It
// returns an error only if the outcome is unknown.
func (s *Service) publish(ctx context.Context, c Connection, a *publication.Attempt) error {
	entry, err := s.Registry.Own(ctx, c.OrgID, c.EntryID)
	if err != nil {
		return err
	}
	if c.left(a.Ref()) {
		a.Status, a.Message = publication.Skipped, "The connection has published from somewhere else since this was pushed"
		return nil
	}
	repo, err := s.repoOf(ctx, c)
	if fault.Is(err, fault.Conflict) { // suspended or unbound in the meantime
		a.Status, a.Message = publication.Failed, userMessage(err)
		return nil
	}
	if err != nil {
		return err
	}
	commit, err := s.Host.Resolve(ctx, repo, a.Commit)
	if fault.Is(err, fault.NotFound) {
		a.Status, a.Message = publication.Skipped, "The commit is not in the repository, or the installation no longer sees it"
		return nil
	}
	if err != nil {
		return err
	}
	s.postPending(ctx, c, repo, *a)
	// Findings of an archive that isn't even readable are shown on the commit, too.
	pkg, err := s.Host.Tree(ctx, repo, commit.SHA, c.SkillPath)
	if err != nil {
		if report, ok := lint.Refused(err); ok {
			a.Findings = publication.FindingsOf(c.SkillPath, report)
		}
		return err
	}
	defer func() { _ = pkg.Close() }() // it was only read
	if entry.Type == registry.TypeSkill {
		var refusal string
		if a.Findings, refusal, err = publication.CheckFolder(ctx, c.SkillPath, pkg); err != nil {
			return err
		}
		if refusal != "" {
			a.Status, a.Message = publication.Refused, refusal
			return nil
		}
	}
	p := newPublication(c, *a, commit)
	p.Package = pkg
	if a.RefKind == publication.Branch && !c.PublishUnchanged {
		// A push that leaves the folder as it was gives no version.
		if p.Unless, err = publication.LastBranchVersion(ctx, s.DB, c.ID); err != nil {
			return err
		}
	}
	// For a tag the branch is only needed for the owners.
	branch := publication.Ref{Kind: publication.Branch, Name: c.DefaultBranch}
	if a.RefKind == publication.Branch {
		branch = a.Ref()
	}
	if a.RefKind == publication.Branch || s.Owners != nil {
		head, err := s.Host.Resolve(ctx, repo, branch.Full())
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		// Webhooks arrive in any order: an older commit must not become current.
		p.Latest = a.RefKind == publication.Branch && head.SHA == commit.SHA
		if s.Owners != nil && head.SHA != "" {
			if err := s.readOwners(ctx, c, repo, head.SHA); err != nil {
				return err
			}
		}
	}
	return s.publishVersion(ctx, a, p)
}

// newPublication converts an attempt for the registry. A manual sync of a branch accepts
// any version with the same content; a push wants one of its own unless nothing changed.
func newPublication(c Connection, a publication.Attempt, commit host.Commit) registry.RepoPublication {
	// The first line of the commit message becomes the change summary.
	subject, _, _ := strings.Cut(strings.TrimSpace(commit.Message), "\n")
	p := registry.RepoPublication{
		OrgID: c.OrgID, UserID: c.CreatedBy, ChosenBy: c.ChosenBy, EntryID: c.EntryID, Version: a.Ref().Version(commit.SHA),
		ChangeSummary: text.Clean(subject), Source: registry.FromRepohost, SourceRef: a.SourceRef(),
		SourceRepo: c.RepoFullName, SourceCommit: commit.SHA,
		SourcePath: c.SkillPath, AnyVersion: a.Cause == publication.BySync && a.RefKind == publication.Branch,
	}
	if a.Cause == publication.BySync {
		p.Source = registry.FromRepohostDirect
	}
	return p
}

// publishVersion publishes, and describes the outcome in the attempt's message.
func (s *Service) publishVersion(ctx context.Context, a *publication.Attempt, p registry.RepoPublication) error {
	v, made, err := s.Registry.PublishRepo(ctx, p)
	if err != nil {
		return err
	}
	a.Version, a.PublishedAt = &v.Version, &v.PushedAt
	a.Status, a.Message = publication.Unchanged, fmt.Sprintf("Version %s has this content already", v.Version)
	if made {
		from := a.SourceRef()
		if host.IsSHA(from) {
			from = from[:7]
		}
		a.Status, a.Message = publication.Done, fmt.Sprintf("Published version %s from %s", v.Version, from)
		if v.State == registry.Candidate {
			until := "it is approved"
			if v.GateID != nil {
				until = "its gate lets it pass"
			}
			a.Message = fmt.Sprintf("Version %s from %s is a candidate until %s", v.Version, from, until)
		}
	}
	return nil
}
