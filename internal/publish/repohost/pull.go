package repohost

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// OnPull is a hook of pull requests: they are gated, or were opened for a proposal.
type OnPull interface {
	// PullChanged is called when a pull request into a connection's repository may have
	// changed. It gets no details: deliveries overtake each other, so the code host has
	// to be asked for the current state.
	PullChanged(ctx context.Context, tx *store.Tx, c Connection, number int64) error
}

// OnReconcile is a hook of the reconciliation of a connection.
type OnReconcile interface {
	// ReconcilePulls repairs what lost webhooks missed. An unknown pull request counts as
	// missed if it was opened after since.
	ReconcilePulls(ctx context.Context, c Connection, since time.Time) error
}

// OnRerun is a hook of the code host's re-run button, for pull requests.
type OnRerun interface {
	// RerunPulls gates pull requests again whose head is the commit, and returns their
	// number.
	RerunPulls(ctx context.Context, tx *store.Tx, c Connection, r host.Rerun) (int, error)
}

// OnVersionRerun is a hook of the same button, for versions that were pushed.
type OnVersionRerun interface {
	// Rerun starts the gate of a version again; false if there's nothing to decide. It has a
	// transaction of its own.
	Rerun(ctx context.Context, c Connection, version string) (bool, error)
}

// OnDisconnect is a hook of connections that are deleted.
type OnDisconnect interface {
	// DeleteOfConnection is called before a connection is deleted.
	DeleteOfConnection(ctx context.Context, tx *store.Tx, c Connection) error
}

// pullActions may change the head, base or state of a pull request. "synchronized" is
// Gitea's spelling.
var pullActions = []string{
	"opened", "synchronize", "synchronized", "reopened", "edited", "ready_for_review", "converted_to_draft", "closed",
}

// pullChanged hands a pull request to every connection that gates pull requests and may
// write the result back.
func (s *Service) pullChanged(ctx context.Context, d Delivery, e host.Event) error {
	if _, err := s.followRepository(ctx, e); err != nil {
		return err
	}
	connections, err := s.reporting(ctx, e)
	if err != nil {
		return err
	}
	count := 0
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		count = 0
		for _, c := range connections {
			if c.PullRequests == NoPulls || s.OnPull == nil {
				continue
			}
			count++
			if err := s.OnPull.PullChanged(ctx, tx, c, e.Pull); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if count == 0 {
		return s.finishDelivery(ctx, d, DeliveryIgnored, "No connection gates pull requests and writes back")
	}
	return s.finishDelivery(ctx, d, DeliveryDone, fmt.Sprintf("Pull request %d of %d connections", e.Pull, count))
}

// reporting returns the connections of an event whose results are written back.
func (s *Service) reporting(ctx context.Context, e host.Event) ([]Connection, error) {
	found, err := connectionsOfEvent(ctx, s.DB, e, "")
	if err != nil {
		return nil, err
	}
	var all []Connection
	for _, c := range found {
		mode, err := modeOf(ctx, s.DB, c.OrgID)
		if err != nil {
			return nil, err
		}
		if mode != ModeOff && c.WriteBackEnabled {
			all = append(all, c)
		}
	}
	return all, nil
}

// rerun handles the code host's re-run button: it gates pull requests and versions again,
// and publishes attempts that failed.
func (s *Service) rerun(ctx context.Context, d Delivery, e host.Event) error {
	connections, err := s.reporting(ctx, e)
	if err != nil {
		return err
	}
	count := 0
	for _, c := range connections {
		n, err := s.rerunFor(ctx, c, *e.Rerun)
		if err != nil {
			return err
		}
		count += n
	}
	if count == 0 {
		return s.finishDelivery(ctx, d, DeliveryIgnored, "There is nothing to run again")
	}
	return s.finishDelivery(ctx, d, DeliveryDone, fmt.Sprintf("%d run again", count))
}

// rerunFor reruns what concerns one connection, and returns how many things it started.
func (s *Service) rerunFor(ctx context.Context, c Connection, r host.Rerun) (count int, err error) {
	all, err := publication.OfCommit(ctx, s.DB, c.ID, r.Commit)
	if err != nil {
		return 0, err
	}
	var failed []publication.Attempt
	for _, a := range all {
		switch {
		// Re-run of a single check run names the attempt that the run is about.
		case r.ExternalID != "" && !strings.HasPrefix(r.ExternalID, a.ID):
		case a.Status.Bad():
			failed = append(failed, a)
		case a.Version != nil && s.OnVersionRerun != nil:
			again, err := s.OnVersionRerun.Rerun(ctx, c, *a.Version)
			if err != nil {
				return count, err
			}
			if again {
				count++
			}
		}
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := s.queueAttempts(ctx, tx, failed); err != nil || s.OnRerun == nil {
			return err
		}
		pulls, err := s.OnRerun.RerunPulls(ctx, tx, c, r)
		count += len(failed) + pulls
		return err
	})
	return count, err
}

// ConnectionByID returns a connection of any organisation, for jobs.
func (s *Service) ConnectionByID(ctx context.Context, q store.Querier, id string) (Connection, error) {
	return connectionByID(ctx, q, id)
}

// RepoOf returns a connection's repository with the access of its installation. It's
// fault.Conflict while the installation is unusable.
func (s *Service) RepoOf(ctx context.Context, c Connection) (host.Repo, error) {
	return s.repoOf(ctx, c)
}

// ModeFor is the connection's write-back mode: the organisation's, or ModeOff if the
// connection opted out.
func (s *Service) ModeFor(ctx context.Context, q store.Querier, c Connection) (Mode, error) {
	mode, err := modeOf(ctx, q, c.OrgID)
	if !c.WriteBackEnabled {
		return ModeOff, err
	}
	return mode, err
}

// ShortID is 8 characters of the random part of the connection's id, for commit statuses.
func (c Connection) ShortID() string {
	group := c.ID[strings.LastIndex(c.ID, "-")+1:]
	return group[:min(8, len(group))]
}

// UserMessage is the part of an error that users may see.
func UserMessage(err error) string { return userMessage(err) }

// RetryLater returns the error that makes a job retry a failed request to the code host
// after the given try, or nil to give up.
func (s *Service) RetryLater(cause error, try int) error {
	if cause == nil || !isTransient(cause) || try > len(s.backoff()) {
		return nil
	}
	return retryAfter(cause, s.backoffAfter(try))
}

// MaxRuns is the option for jobs that talk to the code host and count their tries
// themselves.
func MaxRuns() jobs.Option { return jobs.Attempts(maxRuns) }
