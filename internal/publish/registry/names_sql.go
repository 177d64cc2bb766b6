package registry

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// nameHold is how long the name of a deleted public skill stays reserved for its
// organisation. It guards against name squatting: clients that follow the host's index
// must not silently get another organisation's skill under a name they know.
const nameHold = 90 * 24 * time.Hour

// claimName reserves the name of a public skill in the host's index for its organisation,
// first come, first served. It does nothing if another organisation holds the name; a
// name released longer ago than nameHold is free. Only skills that discovery can serve
// (with a canonical archive) claim names.
func claimName(ctx context.Context, q store.Querier, e Entry) error {
	if e.Visibility != Public || e.Type != TypeSkill {
		return nil
	}
	_, err := q.Exec(ctx, `
		INSERT INTO registry_names (name, org_id)
		SELECT CAST($1 AS TEXT), CAST($2 AS TEXT) FROM registry_versions v
		WHERE v.id = $3 AND v.canonical_hash IS NOT NULL
		ON CONFLICT (name) DO UPDATE SET org_id = excluded.org_id, released_at = NULL
		WHERE registry_names.released_at < $4
			OR registry_names.org_id = excluded.org_id AND registry_names.released_at IS NOT NULL`,
		e.Name, e.OrgID, e.CurrentVersionID, store.Micros(store.Now().Add(-nameHold)))
	return err
}

// releaseName starts the hold on the name of a skill that was deleted or hidden.
func releaseName(ctx context.Context, q store.Querier, e Entry) error {
	if e.Visibility != Public || e.Type != TypeSkill {
		return nil
	}
	_, err := q.Exec(ctx, `UPDATE registry_names SET released_at = $3 WHERE name = $1 AND org_id = $2`,
		e.Name, e.OrgID, store.Micros(store.Now()))
	return err
}
