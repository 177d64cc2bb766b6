// Package checks says on the code host what gates decided: on the commits of the
// versions that were pushed, and on pull requests, whose heads it has validated
// and gated before they are merged. It owns the tables pull_requests and
// pull_comments.
package checks

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/release/gates/outcome"
)

// Service reports on commits and pull requests.
type Service struct {
	DB        *store.DB
	Jobs      *jobs.Queue
	Registry  *registry.Service
	Gates     *gates.Service
	Sources   *sources.Service
	Suites    *suites.Service
	Repohost  *repohost.Service
	PublicURL string
	Log       *slog.Logger
}

// GateChanged implements gates.OnGateChanged: what the code host shows of a gate's
// version follows it. It only enqueues the write-back, which a job sends after the transaction.
func (s *Service) GateChanged(ctx context.Context, tx *store.Tx, g gates.Gate) error {
	if g.Pull != nil {
		return s.gateChanged(ctx, tx, g)
	}
	message := fmt.Sprintf("Version %s is a candidate until its gate lets it pass", g.Version)
	if !g.Status.Open() {
		message = fmt.Sprintf("Version %s: %s", g.Version, outcome.Title(g.Output()))
	}
	if g.Policy.Mode == gates.Report && g.Status.Open() {
		message = fmt.Sprintf("Version %s is current, and its gate is running", g.Version)
	}
	if g.Override != nil {
		message += "; overridden: " + g.Override.Reason
	}
	return s.Repohost.VersionDecided(ctx, tx, g.OrgID, g.EntryID, g.Version, message)
}

// VersionDecided implements release.Watcher. decision is a participle, e.g. "approved",
// "promoted".
func (s *Service) VersionDecided(
	ctx context.Context, tx *store.Tx, e registry.Entry, v registry.Version, decision, reason string,
) error {
	message := fmt.Sprintf("Version %s was %s by a person", v.Version, decision)
	if reason != "" {
		message += ": " + reason
	}
	return s.Repohost.VersionDecided(ctx, tx, e.OrgID, e.ID, v.Version, message)
}

// Rerun implements repohost.OnVersionRerun. A rerun that makes no sense now isn't an error: people press
// the button on old commits, too.
func (s *Service) Rerun(ctx context.Context, c repohost.Connection, version string) (bool, error) {
	_, v, err := s.Registry.Version(ctx, c.OrgID, c.EntryID, version)
	if fault.Is(err, fault.NotFound) || err == nil && v.GateID == nil {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = s.Gates.Rerun(ctx, access.Caller{OrgID: c.OrgID, UserID: c.CreatedBy}, *v.GateID)
	if fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) {
		return false, nil // it is published, or the gate of another version is running
	}
	return err == nil, err
}

// ReportOf implements repohost.OnReport. gated is false where no gate has a say; the caller then
// reports the push itself.
func (s *Service) ReportOf(
	ctx context.Context, c repohost.Connection, version string,
) (r repohost.Report, gated bool, err error) {
	defer fault.Wrap(&err, "report on version %s", version)
	_, v, err := s.Registry.Version(ctx, c.OrgID, c.EntryID, version)
	if fault.Is(err, fault.NotFound) || err == nil && v.GateID == nil {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	g, err := s.Gates.Get(ctx, c.OrgID, *v.GateID)
	if fault.Is(err, fault.NotFound) {
		return r, false, nil // deleted with its entry
	}
	if err != nil {
		return r, false, err
	}
	if r, err = s.describe(ctx, g, c.SkillPath); err != nil {
		return r, false, err
	}
	decide(&r, g, v)
	return r, true, nil
}
