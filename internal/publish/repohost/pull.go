package repohost

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/attempt"
)

// Pulls gates pull requests.
type Pulls interface {
	// PullChanged is called when something happened to a pull request into the
	// repository of a connection. What it is now, the code host says: deliveries
	// overtake each other.
	PullChanged(ctx context.Context, tx *store.Tx, c Connection, number int64) error
	// ReconcilePulls repairs what lost webhooks missed of the pull requests of a
	// connection. One that is not known was missed if it was opened after since.
	ReconcilePulls(ctx context.Context, c Connection, since time.Time) error
	// RerunPulls gates the pull requests of a connection whose head is the commit
	// again, and returns their number.
	RerunPulls(ctx context.Context, tx *store.Tx, c Connection, r host.Rerun) (int, error)
	// DeleteOfConnection is called before a connection is deleted.
	DeleteOfConnection(ctx context.Context, tx *store.Tx, c Connection) error
}

// pullActions are what may change the head, the base or the state of a pull
// request; Gitea writes synchronized.
var pullActions = []string{
	"opened", "synchronize", "synchronized", "reopened", "edited", "ready_for_review", "converted_to_draft", "closed",
}

// pullChanged has a pull request looked at for every connection that gates some
// and may say so.
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
			if c.PullRequests == NoPulls || s.Pulls == nil {
				continue
			}
			count++
			if err := s.Pulls.PullChanged(ctx, tx, c, e.Pull); err != nil {
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

// rerun is the code host's button: it gates pull requests and versions again, and
// publishes what failed.
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

func (s *Service) rerunFor(ctx context.Context, c Connection, r host.Rerun) (count int, err error) {
	all, err := attempt.OfCommit(ctx, s.DB, c.ID, r.Commit)
	if err != nil {
		return 0, err
	}
	var failed []attempt.Attempt
	for _, a := range all {
		switch {
		case r.ExternalID != "" && !strings.HasPrefix(r.ExternalID, a.ID):
		case a.Status.Bad():
			failed = append(failed, a)
		case a.Version != nil && s.Gates != nil:
			again, err := s.Gates.Rerun(ctx, c, *a.Version)
			if err != nil {
				return count, err
			}
			if again {
				count++
			}
		}
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := s.queueAttempts(ctx, tx, failed); err != nil || s.Pulls == nil {
			return err
		}
		pulls, err := s.Pulls.RerunPulls(ctx, tx, c, r)
		count += len(failed) + pulls
		return err
	})
	return count, err
}

// ConnectionByID finds a connection for a job.
func (s *Service) ConnectionByID(ctx context.Context, q store.Querier, id string) (Connection, error) {
	return connectionByID(ctx, q, id)
}

// RepoOf returns a connection's repository with the access of its installation. It
// is a Conflict while that is not usable.
func (s *Service) RepoOf(ctx context.Context, c Connection) (host.Repo, error) {
	return s.repoOf(ctx, c)
}

// ModeFor is the write-back mode of a connection: the organisation's, or ModeOff.
func (s *Service) ModeFor(ctx context.Context, q store.Querier, c Connection) (Mode, error) {
	mode, err := modeOf(ctx, q, c.OrgID)
	if !c.WriteBackEnabled {
		return ModeOff, err
	}
	return mode, err
}

// ShortID is the part of the connection's id that commit statuses have.
func (c Connection) ShortID() string {
	group := c.ID[strings.LastIndex(c.ID, "-")+1:]
	return group[:min(8, len(group))]
}

// UserMessage returns the part of an error that users may see.
func UserMessage(err error) string { return userMessage(err) }

// RetryLater makes a job try a failed request to the code host again, after the
// given try, or gives up: then it returns nil.
func (s *Service) RetryLater(cause error, try int) error {
	if cause == nil || !isTransient(cause) || try > len(s.backoff()) {
		return nil
	}
	return retryAfter(cause, s.backoffAfter(try))
}

// MaxRuns is how often a job that talks to the code host is started at most; it
// counts its tries itself.
func MaxRuns() jobs.Option { return jobs.Attempts(maxRuns) }
