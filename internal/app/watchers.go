package app

import (
	"context"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals/apply"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/schedules"
	"github.com/whetstone-dev/whetstone/internal/publish/publishers"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/publish/teams"
	"github.com/whetstone-dev/whetstone/internal/release/attestations"
	"github.com/whetstone-dev/whetstone/internal/release/checks"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
)

// watchers lets a hook with one place report to several capabilities.
type watchers []telemetry.OnChanged

// Changed implements telemetry.OnChanged.
func (all watchers) Changed(ctx context.Context, tx *store.Tx, orgID string) error {
	for _, w := range all {
		if err := w.Changed(ctx, tx, orgID); err != nil {
			return err
		}
	}
	return nil
}

// entryWatchers do the same for entries that are deleted.
type entryWatchers []registry.OnEntryDeleted

// DeleteOfEntry implements registry.OnEntryDeleted.
func (all entryWatchers) DeleteOfEntry(ctx context.Context, tx *store.Tx, entryID string) error {
	for _, d := range all {
		if err := d.DeleteOfEntry(ctx, tx, entryID); err != nil {
			return err
		}
	}
	return nil
}

// admission records which workflow run publishes a version before its gate decides.
type admission struct {
	publishers *publishers.Service
	gates      registry.OnPush
}

// Admit implements registry.OnPush.
func (a admission) Admit(ctx context.Context, tx *store.Tx, e registry.Entry, v registry.Version) (*api.Gate, bool, error) {
	if err := a.publishers.Admitted(ctx, tx, v); err != nil {
		return nil, false, err
	}
	return a.gates.Admit(ctx, tx, e, v)
}

// guard says which entries not every member may connect to a repository.
type guard struct{ *teams.Service }

// Guarded implements repohost.Guard.
func (g guard) Guarded(ctx context.Context, q store.Querier, orgID, entryID string) (bool, error) {
	p, err := gates.PolicyIn(ctx, q, registry.Entry{OrgID: orgID, ID: entryID})
	if err != nil || p.Mode == gates.Enforce || p.Approvals > 0 {
		return err == nil, err
	}
	return g.Owned(ctx, q, orgID, entryID)
}

// archives reads archives of the registry by the ids of their versions.
type archives struct{ *registry.Service }

// OpenByID implements requirements.Archives.
func (a archives) OpenByID(ctx context.Context, orgID, entryID, versionID string) (*skillpkg.Package, error) {
	v, err := a.VersionByID(ctx, a.DB, registry.Entry{OrgID: orgID, ID: entryID}, versionID)
	if err != nil {
		return nil, err
	}
	return a.Open(ctx, v)
}

// versionWatchers notify several watchers of decisions about versions, by gates and by people.
type versionWatchers struct {
	checks *checks.Service
	apply  *apply.Service
	// attestations sign what gates decide.
	attestations *attestations.Service
}

// GateChanged implements gates.OnGateChanged.
func (w versionWatchers) GateChanged(ctx context.Context, tx *store.Tx, g gates.Gate) error {
	if err := w.attestations.GateChanged(ctx, tx, g); err != nil {
		return err
	}
	if err := w.checks.GateChanged(ctx, tx, g); err != nil {
		return err
	}
	return w.apply.GateChanged(ctx, tx, g)
}

// VersionDecided implements release.Watcher.
func (w versionWatchers) VersionDecided(
	ctx context.Context, tx *store.Tx, e registry.Entry, v registry.Version, decision, reason string,
) error {
	if err := w.checks.VersionDecided(ctx, tx, e, v, decision, reason); err != nil {
		return err
	}
	return w.apply.VersionDecided(ctx, tx, e, v, decision, reason)
}

// runWatchers do the same for runs that ended.
type runWatchers []runs.OnEnded

// RunEnded implements runs.OnEnded.
func (all runWatchers) RunEnded(ctx context.Context, tx *store.Tx, r runs.Run) error {
	for _, w := range all {
		if err := w.RunEnded(ctx, tx, r); err != nil {
			return err
		}
	}
	return nil
}

// scheduleWatcher records the runs of schedules, on whose scores alerts are.
type scheduleWatcher struct {
	schedules *schedules.Service
	alerts    *alerts.Service
}

// RunEnded implements runs.OnEnded.
func (w scheduleWatcher) RunEnded(ctx context.Context, tx *store.Tx, r runs.Run) error {
	recorded, err := w.schedules.RunEnded(ctx, tx, r)
	if err != nil || !recorded {
		return err
	}
	return w.alerts.Changed(ctx, tx, r.OrgID)
}

// pullWatchers do the same for pull requests: those that are gated, and those that proposals became.
type pullWatchers []repohost.OnPull

// PullChanged implements repohost.OnPull.
func (all pullWatchers) PullChanged(ctx context.Context, tx *store.Tx, c repohost.Connection, number int64) error {
	for _, w := range all {
		if err := w.PullChanged(ctx, tx, c, number); err != nil {
			return err
		}
	}
	return nil
}
