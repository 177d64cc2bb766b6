package gates

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
)

// Service gates versions. All methods may be called from several replicas at once: whatever
// decides does so in a transaction that has locked the entry.
type Service struct {
	DB            *store.DB
	Jobs          *jobs.Queue
	Registry      *registry.Service
	Sources       *sources.Service
	Suites        *suites.Service
	Runs          *runs.Service
	OnGateChanged OnGateChanged // may be nil
	// Approvals has the decisions of people; nil if no approval is needed.
	Approvals Approvals
	Log       *slog.Logger
}

// OnGateChanged is a hook that is called in the same transaction when a gate begins, ends or is
// overridden. The entry is locked. It must not use the network there; it enqueues a job for that.
type OnGateChanged interface {
	GateChanged(ctx context.Context, tx *store.Tx, g Gate) error
}

// save writes what changed in a gate, and calls the hook. Only start goes around it: no
// consumer cares when the trials begin.
func (s *Service) save(ctx context.Context, tx *store.Tx, g Gate) error {
	if err := updateGate(ctx, tx, g); err != nil {
		return err
	}
	return s.tell(ctx, tx, g)
}

// tell calls the hook about gates that a code host may show.
func (s *Service) tell(ctx context.Context, tx *store.Tx, g Gate) error {
	if s.OnGateChanged == nil || g.Pull != nil && g.Pull.Number == 0 { // a folder is on no code host
		return nil
	}
	return s.OnGateChanged.GateChanged(ctx, tx, g)
}

// Admit implements registry.OnPush. A push whose gate is off costs it one query. A
// version that needs approvals is a candidate in every mode. One that would not become
// current is gated only where the gate is enforced. The registry calls it within the push. hold
// keeps the version a candidate.
func (s *Service) Admit(
	ctx context.Context, tx *store.Tx, e registry.Entry, v registry.Version,
) (gate *api.Gate, hold bool, err error) {
	defer fault.Wrap(&err, "gate of version %s", v.Version)
	p, _, err := policyOf(ctx, tx, e.OrgID, e.ID)
	if err != nil || p.Mode == Off || v.Apart && p.Mode == Report {
		return nil, p.Approvals > 0, err
	}
	g, err := s.openAgainstCurrent(ctx, tx, e, newGate(e, v, p, v.PushedBy))
	if err != nil {
		return nil, false, err
	}
	out := g.Output()
	return &out, g.holds() || p.Approvals > 0, nil
}

// OpenPull starts the gate of the head of a pull request, as a push of it would,
// whose version it names. It supersedes the gates of earlier heads, and reports
// false if the policy is off.
func (s *Service) OpenPull(
	ctx context.Context, tx *store.Tx, e registry.Entry, version, userID string, pull Pull,
) (g Gate, opened bool, err error) {
	defer fault.Wrap(&err, "gate of pull request %d", pull.Number)
	p, _, err := policyOf(ctx, tx, e.OrgID, e.ID)
	if err != nil || p.Mode == Off {
		return g, false, err
	}
	g = newGate(e, registry.Version{ID: pull.SnapshotID, Version: version}, p, userID)
	g.Pull = &pull
	g, err = s.openAgainstCurrent(ctx, tx, e, g)
	return g, err == nil, err
}

// SupersedePull ends the open gate of a pull request.
func (s *Service) SupersedePull(ctx context.Context, tx *store.Tx, entryID, pullID, reason string) error {
	return s.supersede(ctx, tx, entryID, pullID, reason)
}

// newGate returns a queued gate that compares with nothing yet.
func newGate(e registry.Entry, v registry.Version, p Policy, userID string) Gate {
	return Gate{
		ID: store.NewID(), OrgID: e.OrgID, EntryID: e.ID, VersionID: v.ID, Version: v.Version, Policy: p, Status: Queued,
		CreatedBy: userID, CreatedAt: store.Now(), Apart: v.Apart, Content: v.TreeDigest,
	}
}

// against returns the version that candidates of an entry are compared with: the current
// one or, if it was withdrawn, the one that was current last, so that the withdrawal of a
// version lets no other one pass without proof. "" if the entry never had one.
func (s *Service) against(ctx context.Context, q store.Querier, e registry.Entry) (id, version string, err error) {
	last, err := s.Registry.LastCurrent(ctx, q, e)
	if fault.Is(err, fault.NotFound) {
		return "", "", nil
	}
	return last.ID, last.Version, err
}

// openAgainstCurrent opens a gate against the current version; with itself a version is not
// compared.
func (s *Service) openAgainstCurrent(ctx context.Context, tx *store.Tx, e registry.Entry, g Gate) (Gate, error) {
	id, version, err := s.against(ctx, tx, e)
	if err != nil {
		return g, err
	}
	if id != "" && id != g.VersionID {
		g.AgainstID, g.Against = &id, &version
	}
	return s.open(ctx, tx, e, g)
}

// open starts a gate. It supersedes those of earlier pushes, or of earlier heads of its
// pull request. The entry is locked.
func (s *Service) open(ctx context.Context, tx *store.Tx, e registry.Entry, g Gate) (Gate, error) {
	reason := fmt.Sprintf("the gate of version %s was started after it", g.Version)
	if err := s.supersede(ctx, tx, e.ID, g.lane(), reason); err != nil {
		return g, err
	}
	if err := insertGate(ctx, tx, g); err != nil {
		return g, err
	}
	if err := findPool(ctx, tx, &g); err != nil {
		return g, err
	}
	if err := updatePool(ctx, tx, g); err != nil {
		return g, err
	}
	if err := s.tell(ctx, tx, g); err != nil {
		return g, err
	}
	// In the transaction of the push: neither a gate without a job nor a job without a gate
	// survives a crash. The attempts are many because a crash of the process uses one.
	return g, s.Jobs.Enqueue(ctx, tx, advance{OrgID: g.OrgID, GateID: g.ID},
		jobs.Unique(g.ID), jobs.Attempts(runs.MaxStarts), jobs.For(g.OrgID))
}

// supersede ends the open gates of a lane of an entry. Their jobs notice by themselves, and
// cancel the runs.
func (s *Service) supersede(ctx context.Context, tx *store.Tx, entryID, lane, reason string) error {
	open, err := openGates(ctx, tx, entryID, lane)
	if err != nil {
		return err
	}
	at := store.Now()
	for _, old := range open {
		old.Status, old.Reason, old.DecidedAt = Superseded, reason, &at
		if err := s.save(ctx, tx, old); err != nil {
			return err
		}
	}
	return nil
}

// DeleteOfEntry implements registry.OnEntryDeleted. The runs of gates that are not decided
// are stopped after the transaction: their trials cost money. The jobs carry the ids of the
// runs, because the rows that name them are deleted here.
func (s *Service) DeleteOfEntry(ctx context.Context, tx *store.Tx, entryID string) error {
	running, err := runsOfOpenGates(ctx, tx, entryID)
	if err != nil {
		return err
	}
	for _, args := range running {
		if err := s.Jobs.Enqueue(ctx, tx, args, jobs.For(args.OrgID)); err != nil {
			return err
		}
	}
	return deleteOfEntry(ctx, tx, entryID)
}

// A Filter chooses gates of a list.
type Filter struct {
	EntryID, Verdict string // "": all
	store.Page
}

// Get returns a gate of the organisation.
func (s *Service) Get(ctx context.Context, orgID, id string) (Gate, error) {
	return gateByID(ctx, s.DB, orgID, id)
}

// Failures are the runs of all cases of a suite on both versions, and what the new
// version failed. First, e.g. {"case-7": 2}, lets a page link to the trial that shows the
// failure.
type Failures struct {
	New, Current string            // ids of runs
	First        map[string]int    // its first failed trial, by case
	Versions     map[string]string // that a run tried, by its id; those of step two included
}

// Failures returns where to look for what the new version of a gate fails, by suite.
// Suites that were not tried on both versions, or whose runs are gone, are missing. Only the
// first step is searched: its runs have all cases.
func (s *Service) Failures(ctx context.Context, g Gate) (map[string]Failures, error) {
	made, err := runsOfGates(ctx, s.DB, g.ID)
	if err != nil {
		return nil, err
	}
	all := map[string]Failures{}
	for _, r := range made {
		f, ok := all[r.suiteID]
		if !ok {
			f.Versions = map[string]string{}
		}
		f.Versions[r.runID] = g.Version
		if r.arm == currentArm && g.Against != nil {
			f.Versions[r.runID] = *g.Against
		}
		switch {
		case r.step == screen && r.arm == newArm:
			f.New = r.runID
		case r.step == screen && r.arm == currentArm:
			f.Current = r.runID
		}
		all[r.suiteID] = f
	}
	for suite, f := range all {
		run, err := s.Runs.Verdicts(ctx, g.OrgID, f.New)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		if err != nil || f.Current == "" {
			delete(all, suite)
			continue
		}
		first := map[string]int{}
		for i, c := range run.Cases {
			for _, t := range run.Results[i].Trials {
				if t.Arm == runs.WithSkill && t.Verdict == runs.Fail && first[c.ID] == 0 {
					first[c.ID] = t.N
				}
			}
		}
		f.First = first
		all[suite] = f
	}
	return all, nil
}

// Rerun starts a new gate of the same version, with the current policy, but where that was
// lowered since with what was asked before. Where it asks the same question again, its
// trials are added to those of the earlier gates. It is a conflict while the gate of another
// version is open, or if nothing is left to decide. A candidate or pull request is compared
// with what is current now. A gate that only reports is about a version that may itself be
// current, so it compares with the same one as before.
func (s *Service) Rerun(ctx context.Context, c access.Caller, id string) (fresh Gate, err error) {
	defer fault.Wrap(&err, "rerun gate %s", id)
	err = s.change(ctx, c.OrgID, id, func(tx *store.Tx, e registry.Entry, v registry.Version, g Gate) error {
		// An open gate of the same version is superseded by the new one.
		open, err := openGates(ctx, tx, e.ID, g.lane())
		if err != nil {
			return err
		}
		if len(open) > 0 && open[0].VersionID != g.VersionID {
			return fault.New(fault.Conflict, "The gate of version %s is %s; wait for it", open[0].Version, open[0].Status)
		}
		if g.holds() && v.State != registry.Candidate {
			return fault.New(fault.Conflict, "Version %s is %s: there is nothing to decide", v.Version, v.State)
		}
		p, _, err := policyOf(ctx, tx, e.OrgID, e.ID)
		if err != nil {
			return err
		}
		fresh = newGate(e, v, p.after(g.Policy), c.UserID)
		if g.Pull != nil {
			fresh.VersionID, fresh.Version, fresh.Pull, fresh.Content = g.VersionID, g.Version, g.Pull, g.Content
		}
		if g.Pull == nil && !g.holds() {
			fresh.AgainstID, fresh.Against = g.AgainstID, g.Against
			fresh, err = s.open(ctx, tx, e, fresh)
		} else {
			fresh, err = s.openAgainstCurrent(ctx, tx, e, fresh)
		}
		if err != nil {
			return err
		}
		if g.Pull == nil {
			v.GateID = &fresh.ID
			if err := s.Registry.SetState(ctx, tx, e, v); err != nil {
				return err
			}
		}
		return fresh.audit(ctx, tx, "gates.gate.rerun", audit.Detail{"attempt": len(fresh.Previous) + 1})
	})
	return fresh, err
}

// deref is "" for nil.
func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Override makes the candidate of a gate current against its verdict, or before
// there is one. A candidate that needs approvals still waits for them. The reason goes to the
// audit log. Pull requests have nothing that could become current: fault.Conflict.
func (s *Service) Override(ctx context.Context, c access.Caller, id, reason string) (g Gate, err error) {
	defer fault.Wrap(&err, "override gate %s", id)
	if err := release.CheckReason(reason); err != nil {
		return g, err
	}
	err = s.change(ctx, c.OrgID, id, func(tx *store.Tx, e registry.Entry, v registry.Version, found Gate) error {
		g = found
		if g.Pull != nil && g.Pull.Number == 0 {
			return fault.New(fault.Conflict, "This gate is of a folder, which it does not publish: push it")
		}
		if g.Pull != nil {
			return fault.New(fault.Conflict, "Pull request %d publishes nothing: merge it, and override the gate of the push",
				g.Pull.Number)
		}
		if v.State != registry.Candidate {
			return fault.New(fault.Conflict, "Version %s is %s: there is nothing to override", v.Version, v.State)
		}
		at := store.Now()
		g.Override = &Override{By: c.UserID, Reason: reason, At: at}
		if g.Status.Open() {
			g.Status, g.Reason, g.DecidedAt = Cancelled, "a person did not wait for it", &at
		}
		if err := s.save(ctx, tx, g); err != nil {
			return err
		}
		waits, err := s.settle(ctx, tx, e, v, &g)
		if err != nil {
			return err
		}
		if waits != "" && deref(v.GateID) != g.ID {
			v.GateID = &g.ID // the gate that lets it pass once people do
			if err := s.Registry.SetState(ctx, tx, e, v); err != nil {
				return err
			}
		}
		return g.audit(ctx, tx, "gates.gate.override", audit.Detail{"reason": reason})
	})
	return g, err
}

// change calls fn with a gate, its entry, which is locked first, as in every
// transaction, and its version, if it is about one.
func (s *Service) change(
	ctx context.Context, orgID, id string, fn func(tx *store.Tx, e registry.Entry, v registry.Version, g Gate) error,
) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		g, err := gateByID(ctx, tx, orgID, id)
		if err != nil {
			return err
		}
		e, err := s.Registry.Lock(ctx, tx, orgID, g.EntryID)
		if err != nil {
			return err
		}
		// Read again under the lock: the first read only told which entry to lock.
		if g, err = gateByID(ctx, tx, orgID, id); err != nil {
			return err
		}
		var v registry.Version
		if g.Pull == nil {
			if v, err = s.Registry.VersionNamed(ctx, tx, e, g.Version); err != nil {
				return err
			}
		}
		return fn(tx, e, v, g)
	})
}

// audit writes an entry of the audit log about the gate. Its detail always has the entry and
// the version, and the verdict if there is one.
func (g Gate) audit(ctx context.Context, tx *store.Tx, action string, more audit.Detail) error {
	d := audit.Detail{"entry": g.EntryID, "version": g.Version}
	if g.Verdict != nil {
		d["verdict"] = *g.Verdict
	}
	for key, value := range more {
		d[key] = value
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: g.OrgID, Action: action, Target: audit.Target{Kind: "gate", ID: g.ID, Name: g.Version}, Detail: d,
	})
}

// conclude ends a gate, once, and publishes its candidate where the verdict says
// so: both or neither are written. A gate that is closed by now is left as it is, so a job may
// call it twice.
func (s *Service) conclude(ctx context.Context, of Gate, verdict decision.Verdict, reason string, result Result) error {
	return s.change(ctx, of.OrgID, of.ID, func(tx *store.Tx, e registry.Entry, v registry.Version, g Gate) error {
		if !g.Status.Open() {
			return nil
		}
		at := store.Now()
		g.Result, g.DecidedAt = result, &at
		if g.holds() {
			if over, err := s.outdated(ctx, tx, e, v, &g); err != nil || over {
				return err
			}
		}
		g.Status, g.Verdict, g.Reason = Decided, &verdict, reason
		if err := s.save(ctx, tx, g); err != nil {
			return err
		}
		if err := g.audit(ctx, tx, "gates.gate.decide",
			audit.Detail{"reason": reason, "attempt": len(g.Previous) + 1}); err != nil {
			return err
		}
		if err := s.emit(ctx, tx, e, g); err != nil {
			return err
		}
		if !g.holds() || !g.Releases() {
			return nil
		}
		_, err := s.settle(ctx, tx, e, v, &g)
		return err
	})
}

// emit tells other systems what the gate decided. It enqueues deliveries in the transaction, so
// an event is sent if and only if the verdict is committed.
func (s *Service) emit(ctx context.Context, tx *store.Tx, e registry.Entry, g Gate) error {
	d := events.Data{
		"gate_id": g.ID, "entry_id": e.ID, "entry": e.Name, "version": g.Version, "against": g.Against, "mode": g.Policy.Mode,
		"verdict": *g.Verdict, "reason": g.Reason, "published": g.holds() && g.Releases(), "attempt": len(g.Previous) + 1,
	}
	if g.Pull != nil && g.Pull.Number != 0 {
		d["pull_request"] = g.Pull.URL
	}
	return events.Emit(ctx, tx, s.Jobs, events.Event{OrgID: g.OrgID, Type: events.GateDecided, Path: "/gates/" + g.ID, Data: d})
}

// outdated ends a gate whose question is no longer the one to ask: a person has
// decided about its version, or another version is current. If the version is still the newest,
// it is compared again with what is current now.
func (s *Service) outdated(ctx context.Context, tx *store.Tx, e registry.Entry, v registry.Version, g *Gate) (bool, error) {
	if v.ID != g.VersionID || v.State != registry.Candidate {
		g.Status, g.Reason = Cancelled, fmt.Sprintf("version %s is %s by a person's decision", g.Version, v.State)
		return true, s.save(ctx, tx, *g)
	}
	if stale, err := s.stale(ctx, tx, e, v, *g); !stale || err != nil {
		return false, err
	}
	g.Status, g.Reason = Superseded, fmt.Sprintf("version %s became current meanwhile", e.CurrentVersion)
	if err := s.save(ctx, tx, *g); err != nil {
		return true, err
	}
	later, err := s.overtaken(ctx, tx, e, v)
	if err != nil || later != "" {
		return true, err
	}
	return true, s.again(ctx, tx, e, v, *g)
}

// stale reports whether a gate compared its version with one that is not current any more.
// Versions that never become current are compared with what was current at their push for good.
func (s *Service) stale(ctx context.Context, q store.Querier, e registry.Entry, v registry.Version, g Gate) (bool, error) {
	if v.Apart {
		return false, nil
	}
	id, _, err := s.against(ctx, q, e)
	return id != deref(g.AgainstID), err
}
