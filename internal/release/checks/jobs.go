package checks

import (
	"context"
	"fmt"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
)

// advance is the job that brings a pull request up to date.
type advance struct {
	PullID string `json:"pull_id"`
}

// Kind names the job.
func (advance) Kind() string { return "checks.advance-pull" }

// report is the job that writes the check-run of a pull request.
type report struct {
	PullID string `json:"pull_id"`
}

// Kind names the job.
func (report) Kind() string { return "checks.report-pull" }

// comment is the job that writes the comment on a pull request. Connections of several skills
// share a repository, and their pull requests share the comment.
type comment struct {
	OrgID  string `json:"org_id"`
	RepoID int64  `json:"repo_id"`
	Number int64  `json:"number"`
}

// Kind names the job.
func (comment) Kind() string { return "checks.comment" }

// id names the comment.
func (c comment) id() string { return fmt.Sprintf("%s/%d/%d", c.OrgID, c.RepoID, c.Number) }

// dropSource is the job that deletes the files of a pull request.
type dropSource struct {
	OrgID    string `json:"org_id"`
	SourceID string `json:"source_id"`
}

// Kind names the job.
func (dropSource) Kind() string { return "checks.drop-source" }

// readTimeout is enough for the largest archive over a slow line.
const readTimeout = 10 * time.Minute

// Register makes the queue run the jobs of checks.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args advance) error {
		return s.hold(ctx, args.PullID, func(held *repohost.Lease, c repohost.Connection, p Pull) error {
			return s.advance(ctx, held, c, p)
		})
	}, jobs.Timeout(readTimeout), jobs.NeedsRoom())
	// hold serialises advance and report of one pull request, across replicas.
	jobs.Handle(s.Jobs, func(ctx context.Context, args report) error {
		return s.hold(ctx, args.PullID, func(_ *repohost.Lease, c repohost.Connection, p Pull) error {
			return s.report(ctx, c, p)
		})
	})
	jobs.Handle(s.Jobs, func(ctx context.Context, args comment) error { return s.comment(ctx, args) })
	jobs.Handle(s.Jobs, func(ctx context.Context, args dropSource) error {
		if err := s.Sources.Delete(ctx, access.Caller{OrgID: args.OrgID}, args.SourceID); !fault.Is(err, fault.NotFound) {
			return err
		}
		return nil // it was never stored, or deleted before a crash
	})
}

// enqueue starts the job that asks the code host what the pull request is now. Of several
// events before it runs, one job is left.
func (s *Service) enqueue(ctx context.Context, tx *store.Tx, pullID, orgID string) error {
	return s.Jobs.Enqueue(ctx, tx, advance{PullID: pullID}, jobs.Unique(pullID), repohost.MaxRuns(), jobs.For(orgID))
}

// drop deletes the files of a pull request after the transaction.
func (s *Service) drop(ctx context.Context, tx *store.Tx, orgID, sourceID string) error {
	return s.Jobs.Enqueue(ctx, tx, dropSource{OrgID: orgID, SourceID: sourceID}, jobs.For(orgID))
}
