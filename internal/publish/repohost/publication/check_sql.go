package publication

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Check finds deliveries and attempts that are stuck. An hour is far beyond a normal
// queue, so it hints at missing workers.
func Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	before := store.Micros(store.Now().Add(-time.Hour))
	return invariants.Check(ctx, q, "repohost", []invariants.Rule{
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(id), '') FROM repohost_deliveries
				WHERE status IN ('received', 'processing') AND received_at < $1`,
			Args: []any{before}, Wrong: "deliveries that wait for an hour",
			Do: "is there a process with --roles worker? Then deliver them again", Mild: true,
		},
		{
			Broken: `SELECT COUNT(*), COALESCE(MIN(id), '') FROM repohost_attempts WHERE status = 'queued' AND queued_at < $1`,
			Args:   []any{before}, Wrong: "commits that wait for an hour to be published",
			Do: "is there a process with --roles worker? Then sync the connection", Mild: true,
		},
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(a.id), '') FROM repohost_attempts a
				WHERE a.status = 'queued' AND NOT EXISTS (SELECT 1 FROM repohost_connections c WHERE c.id = a.connection_id)`,
			Wrong: "queued commits of connections that are gone", Do: invariants.Report,
		},
	})
}
