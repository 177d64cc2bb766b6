package attestations

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/intoto"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
)

// GateChanged implements gates.OnGateChanged: it signs what a gate decided, in the
// transaction of the decision, and that a person decided against it. Pull requests and folders
// have no version, and so nothing to sign.
func (s *Service) GateChanged(ctx context.Context, tx *store.Tx, g gates.Gate) (err error) {
	defer fault.Wrap(&err, "sign gate %s", g.ID)
	if g.Pull != nil || g.Status != gates.Decided && g.Override == nil {
		return nil
	}
	found, err := factsOf(ctx, tx, []string{g.VersionID})
	if err != nil || len(found) == 0 {
		return err
	}
	f := found[0]
	made, err := gates.RunsOf(ctx, tx, g.ID)
	if err != nil {
		return err
	}
	trials, err := trialsOf(ctx, tx, g.OrgID, made...)
	if err != nil {
		return err
	}
	a := attestation{orgID: g.OrgID, versionID: f.ID, kind: ofGate, ref: g.ID}
	// Both statements stay: what the gate said, and that a person decided against it.
	if g.Override != nil {
		a.kind = ofOverride
	}
	st, err := intoto.New(f.of, f.archives, intoto.EvalResult, ofDecision(f, g, trials))
	if err != nil {
		return err
	}
	return s.sign(ctx, tx, a, st)
}

// ofDecision uses what the database has, so that the backfill states the same as a signature at
// the time of the decision would.
func ofDecision(f facts, g gates.Gate, trials []trialRun) intoto.EvalPredicate {
	p := intoto.EvalPredicate{
		Version: f.of, Gate: g.ID, Against: deref(g.Against), Suites: bySuite(trials),
		Decision: &intoto.Decision{
			Overridden: g.Override != nil,
			Policy: intoto.Policy{
				Mode: string(g.Policy.Mode), Trials: g.Policy.Trials, MinCases: g.Policy.MinCases,
				OnInconclusive: g.Policy.OnInconclusive, FalseBlockRate: decision.FalseBlockRate,
			},
		},
	}
	if g.Verdict != nil {
		p.Decision.Verdict = string(*g.Verdict)
	}
	if g.DecidedAt != nil {
		p.FinishedOn = *g.DecidedAt
	}
	if g.Override != nil {
		p.FinishedOn = g.Override.At
	}
	p.FinishedOn = p.FinishedOn.UTC().Truncate(time.Microsecond) // as the database has it
	for _, floor := range g.Result.Floors {
		p.Floors = append(p.Floors, intoto.Floor{Name: floor.Name, Want: floor.Want, Got: floor.Got, Passed: floor.Passed})
	}
	for _, compared := range g.Result.Suites {
		for i, suite := range p.Suites {
			if suite.ID == compared.SuiteID {
				p.Suites[i].Comparison = &intoto.Comparison{
					Cases: compared.Cases, Better: len(compared.Better), Worse: len(compared.Worse),
					Unchanged: compared.Unchanged,
					Errors:    compared.Errors, AdjustedP: compared.AdjustedP, Interval: compared.Interval,
				}
			}
		}
	}
	return p
}

// bySuite groups runs, which are in the order of their suites. The result is never nil:
// "suites" is an array in the signed JSON.
func bySuite(trials []trialRun) []intoto.Suite {
	suites := []intoto.Suite{}
	for _, r := range trials {
		if n := len(suites); n == 0 || suites[n-1].ID != r.suiteID {
			suites = append(suites, intoto.Suite{ID: r.suiteID, Name: r.suiteName, Version: r.suiteVersion})
		}
		last := &suites[len(suites)-1]
		last.Runs = append(last.Runs, r.Run)
	}
	return suites
}

// RunEnded implements runs.OnEnded: it signs what a run of one of the organisation's versions showed, in the
// transaction that ends it. A run that another tool made is not signed, since
// nothing here has seen it.
func (s *Service) RunEnded(ctx context.Context, tx *store.Tx, r runs.Run) (err error) {
	defer fault.Wrap(&err, "sign run %s", r.ID)
	pin := r.Subject.Pin
	if r.Status != runs.Succeeded || r.Imported != nil || pin.EntryID == "" || r.FinishedAt == nil {
		return nil
	}
	// Its numbers are part of the gate's statement, with those of the other version.
	gated, err := gates.HasRun(ctx, tx, r.ID)
	if err != nil || gated {
		return err
	}
	v, err := s.Registry.VersionNamed(ctx, tx, registry.Entry{OrgID: r.OrgID, ID: pin.EntryID}, pin.Version)
	// The entry may be of another organisation, and a version of that name with other content.
	if fault.Is(err, fault.NotFound) || err == nil && v.ContentHash != r.Subject.ContentHash {
		return nil
	}
	if err != nil {
		return err
	}
	found, err := factsOf(ctx, tx, []string{v.ID})
	if err != nil || len(found) == 0 {
		return err
	}
	trials, err := trialsOf(ctx, tx, r.OrgID, gates.Run{ID: r.ID, Arm: "new"})
	if err != nil || len(trials) == 0 {
		return err
	}
	f := found[0]
	st, err := intoto.New(f.of, f.archives, intoto.EvalResult, intoto.EvalPredicate{
		Version: f.of, Suites: bySuite(trials), FinishedOn: *r.FinishedAt,
	})
	if err != nil {
		return err
	}
	return s.sign(ctx, tx, attestation{orgID: f.OrgID, versionID: f.ID, kind: ofRun, ref: r.ID}, st)
}
