package unattended

import (
	"context"
	"hash/fnv"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// nights is the scheduled job that begins the nights of organisations.
type nights struct{}

// Kind names the job.
func (nights) Kind() string { return "improve.nights" }

// night is the job that looks at the skills of one organisation, one after another.
type night struct {
	OrgID string `json:"org_id"`
}

// Kind names the job.
func (night) Kind() string { return "improve.night" }

const (
	// nightsInterval is how often organisations are looked for whose night has come.
	nightsInterval = 10 * time.Minute
	// spread is the time after midnight (UTC) over which the nights of organisations are
	// spread, so that they do not all ask the judge at once.
	spread = 6 * time.Hour
	// poll is how often a night looks at a run that is under way.
	poll = time.Minute
)

// Register makes the queue run the jobs of policies.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, _ nights) error { return s.begin(ctx, store.Now()) })
	jobs.Handle(s.Jobs, func(ctx context.Context, args night) error {
		wait, err := s.night(ctx, args.OrgID, store.Now())
		if err == nil && wait {
			return jobs.Snooze(poll)
		}
		return err
	}, jobs.NeedsRoom())
	s.Jobs.Every(nightsInterval, nights{})
}

// begin enqueues the night of each organisation whose time has come. Enqueueing twice is harmless:
// the key is the organisation.
func (s *Service) begin(ctx context.Context, now time.Time) error {
	due, err := orgsDue(ctx, s.DB, dateOf(now))
	if err != nil || len(due) == 0 {
		return err
	}
	sinceMidnight := now.Sub(now.UTC().Truncate(24 * time.Hour))
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		for _, orgID := range due {
			if sinceMidnight < offsetOf(orgID) {
				continue
			}
			if err := s.Jobs.Enqueue(ctx, tx, night{orgID}, jobs.Unique(orgID), jobs.For(orgID)); err != nil {
				return err
			}
		}
		return nil
	})
}

// offsetOf is when the night of an organisation begins, after midnight. The hash spreads
// organisations evenly, and each has the same time every night.
func offsetOf(orgID string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(orgID)) // never fails
	return time.Duration(h.Sum32()) * time.Second % spread
}
