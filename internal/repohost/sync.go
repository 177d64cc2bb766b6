package repohost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/host"
	"github.com/whetstone-dev/whetstone/internal/store"
)

const (
	// inlineTags is how many tags a sync publishes before it answers; a job
	// does the others.
	inlineTags = 10
	// syncPatience is how long a sync waits for a worker to end.
	syncPatience = 15 * time.Second
	// syncTimeout is how long somebody who asked waits for the code host; jobs
	// have publishTimeout.
	syncTimeout = 2 * time.Minute
)

// Sync reads the repository of a connection again and publishes the head of
// its branch and the matching tags that are missing, also those that
// auto_publish leaves to it. The attempt that it returns is the one to tell
// of: the head if that failed, else the last release that was published, else
// the head. Only a host that cannot be reached, or not in good time, is an
// error.
func (s *Service) Sync(ctx context.Context, orgID, id string) (_ Connection, _ Attempt, err error) {
	defer fault.Wrap(&err, "sync connection %s", id)
	ctx, cancel := s.inTime(ctx)
	defer cancel()
	defer tooSlow(ctx, &err)
	c, err := connectionOfOrg(ctx, s.DB, orgID, id, "")
	if err != nil {
		return c, Attempt{}, err
	}
	refs, err := s.refs(ctx, c)
	if err != nil && passing(err) {
		return c, Attempt{}, unreachable(err)
	}
	if err != nil {
		return c, s.untried(c, Failed, shown(err)), nil
	}
	known, err := knownAttempts(ctx, s.DB, c)
	if err != nil {
		return c, Attempt{}, err
	}
	if err := s.waitHold(ctx, id); err != nil {
		return c, Attempt{}, err
	}
	defer s.release(ctx, id)
	a, err := s.syncRefs(ctx, c, refs, known)
	return c, a, err
}

// inTime gives what a person waits for a deadline.
func (s *Service) inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cmp.Or(s.syncTimeout, syncTimeout))
}

// tooSlow says what to do when the deadline has passed.
func tooSlow(ctx context.Context, err *error) {
	if *err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		*err = fault.New(fault.Unavailable, "The repository could not be read in good time; name a smaller folder as skill_path, or try again later").Because(*err)
	}
}

func (s *Service) refs(ctx context.Context, c Connection) (host.Refs, error) {
	repo, err := s.repo(ctx, c)
	if err != nil {
		return host.Refs{}, err
	}
	return s.Host.Refs(ctx, repo)
}

// untried is the result of a sync that could not try anything.
func (s *Service) untried(c Connection, status Status, message string) Attempt {
	return Attempt{
		OrgID: c.OrgID, ConnectionID: c.ID, Cause: BySync, Status: status, Message: message,
		AttemptedAt: store.Now(), WriteBack: Disabled,
	}
}

// waitHold takes the connection, and waits for who has it.
func (s *Service) waitHold(ctx context.Context, id string) error {
	for end := time.Now().Add(syncPatience); ; {
		held, err := hold(ctx, s.DB, id, store.Now().Add(holdTime))
		if err != nil || held {
			return err
		}
		if time.Now().After(end) {
			return fault.New(fault.Unavailable, "The connection is publishing; try again").After(waitEvery)
		}
		select {
		case <-time.After(waitEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Service) syncRefs(ctx context.Context, c Connection, refs host.Refs, known map[refAt]Status) (Attempt, error) {
	wanted, problem := c.tags()
	tags := slices.DeleteFunc(wanted.of(refs), func(name string) bool {
		status := known[refAt{ref{tag, name}, refs.Tags[name]}]
		return status == Done || status == Unchanged
	})
	later := tags[:max(0, len(tags)-inlineTags)]
	if err := s.syncLater(ctx, c, refs, later); err != nil {
		return Attempt{}, err
	}
	result := s.untried(c, Skipped, fmt.Sprintf("The repository has no branch %s and no tag to publish", c.DefaultBranch))
	failed := 0
	if head := refs.Heads[c.DefaultBranch]; head != "" {
		a, err := s.syncOne(ctx, c, ref{branch, c.DefaultBranch}, head)
		if err != nil {
			return a, err
		}
		result = a
	}
	for _, name := range tags[len(later):] {
		a, err := s.syncOne(ctx, c, ref{tag, name}, refs.Tags[name])
		if err != nil {
			return a, err
		}
		switch {
		case a.Status.Shown() == shownFailed:
			failed++
		case result.Status.Shown() != shownFailed && (a.Status == Done || result.Status == Skipped):
			result = a
		}
	}
	if failed > 0 {
		result.Message += fmt.Sprintf("; %d tags could not be published", failed)
	}
	if problem != nil {
		result.Message += "; no tag was looked at: " + shown(problem)
	}
	return result, nil
}

// syncLater leaves the oldest of many tags to a job. It also records that
// somebody asked for the sync.
func (s *Service) syncLater(ctx context.Context, c Connection, refs host.Refs, tags []string) error {
	attempts := make([]Attempt, len(tags))
	for i, name := range tags {
		attempts[i] = syncAttempt(c, ref{tag, name}, refs.Tags[name])
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := c.record(ctx, tx, "repohost.connection.sync"); err != nil {
			return err
		}
		return s.queue(ctx, tx, attempts)
	})
}

func syncAttempt(c Connection, r ref, commit string) Attempt {
	return Attempt{OrgID: c.OrgID, ConnectionID: c.ID, RefKind: r.kind, RefName: r.name, Commit: commit, Cause: BySync}
}

// syncOne publishes one ref now.
func (s *Service) syncOne(ctx context.Context, c Connection, r ref, commit string) (a Attempt, err error) {
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		id, err := s.queueOne(ctx, tx, syncAttempt(c, r, commit))
		if err != nil {
			return err
		}
		a, err = attemptByID(ctx, tx, id)
		return err
	})
	if err != nil {
		return a, err
	}
	if c, err = connectionByID(ctx, s.DB, c.ID); err != nil {
		return a, err
	}
	a, err = s.try(ctx, c, a, false)
	if err == nil && a.Status == Failed {
		return a, fault.New(fault.BadGateway, "%s", a.Message)
	}
	return a, err
}
