package app

import (
	"context"
	"errors"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
)

// upkeepArgs is the periodic job that deletes expired data (garbage collection). Each part of
// it is idempotent, and one that fails doesn't keep the others from being swept.
type upkeepArgs struct{}

// Kind names the job.
func (upkeepArgs) Kind() string { return "app.upkeep" }

// partitionArgs is the periodic job that makes partitions of tables.
type partitionArgs struct{}

// Kind names the job.
func (partitionArgs) Kind() string { return "app.partition" }

// tempGrace is the age at which an unfinished upload is deleted. It must be longer than an
// upload may take.
const tempGrace = time.Hour

func (p *parts) scheduleUpkeep() {
	jobs.Handle(p.queue, func(ctx context.Context, _ upkeepArgs) error {
		_, uploads := p.blobs.RemoveParts(ctx, tempGrace)
		_, trials := p.runs.Packages.Sweep()
		if environments := p.runs.Packages.Environments; environments != nil {
			trials = errors.Join(trials, environments.Sweep())
		}
		return errors.Join(uploads, trials, p.agents.Sweep(), p.runs.Sweep(), p.auth.Sweep(ctx), p.api.Sweep(ctx),
			p.audit.Sweep(ctx),
			p.publishers.Sweep(ctx), p.events.Sweep(ctx), p.signIn.Sweep(ctx))
	})
	p.queue.Every(10*time.Minute, upkeepArgs{})
	jobs.Handle(p.queue, func(ctx context.Context, _ partitionArgs) error { return p.db.Partition(ctx) },
		jobs.Timeout(time.Hour)) // it reads tables that are not partitioned yet
	p.queue.Every(time.Hour, partitionArgs{}, jobs.RunOnStart())
}
