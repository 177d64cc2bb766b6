package web

import (
	"cmp"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/gateapi"
	"github.com/whetstone-dev/whetstone/internal/release/approvals"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
	"github.com/whetstone-dev/whetstone/internal/web/listing"
)

const (
	gatesPerPage = 50
	suitesShown  = 100
)

// gatesView is the list of gates.
type gatesView struct {
	listing.Size
	Rows    []gateRow
	Waiting []approvals.Review // for the approval of the caller
	Verdict string             // that is listed; "" for all
}

// Verdicts can be listed alone.
func (gatesView) Verdicts() []decision.Verdict {
	return []decision.Verdict{decision.Pass, decision.Block, decision.Inconclusive, decision.Skipped}
}

// A gateRow is a gate with the name of its entry.
type gateRow struct {
	gates.Gate
	Entry string
}

func (s *Service) handleGates(v *visit) (answer, error) {
	view := gatesView{Size: listing.Size{PerPage: gatesPerPage}, Verdict: v.URL.Query().Get("verdict")}
	all, total, err := s.Gates.List(v.Context(), v.Caller.OrgID, gates.Filter{
		Verdict: view.Verdict, Sort: v.list.Sort(), Limit: gatesPerPage, Offset: v.offset(gatesPerPage),
	})
	if err != nil {
		return answer{}, err
	}
	var ids []string
	for _, g := range all {
		ids = append(ids, g.EntryID)
	}
	names, err := s.Registry.LatestVersions(v.Context(), v.Caller.OrgID, ids)
	view.Total = total
	for _, g := range all {
		view.Rows = append(view.Rows, gateRow{g, cmp.Or(names[g.EntryID].Name, "a new entry")})
	}
	if err != nil {
		return answer{}, err
	}
	view.Waiting, err = s.Approvals.Waiting(v.Context(), v.Caller)
	return show("gates", "Gates", view), err
}

// gateView is the page of one gate.
type gateView struct {
	gates.Gate
	Entry      registry.Entry
	Held       bool // its version is a candidate
	Suites     []gateSuite
	OverrideBy string
	Form       string // reason of the form
}

// Attempt counts the gates that asked the same question of the same files.
func (v gateView) Attempt() int { return len(v.Previous) + 1 }

// Nth is the number of an earlier attempt.
func (gateView) Nth(i int) int { return i + 1 }

// BlocksAt is the p-value up to which the gate blocks.
func (v gateView) BlocksAt() float64 {
	if v.Result.Lifting {
		return decision.LiftAt
	}
	return decision.FalseBlockRate
}

// A gateSuite is what a suite showed, with its name.
type gateSuite struct {
	gateapi.Suite
	Name string // "" if it was deleted
	Runs gates.Failures
}

// BesideURL is the page of a case on both versions, with the first trial that the new
// one failed; "" if there is none.
func (s gateSuite) BesideURL(caseID string) string {
	if s.Name == "" || s.Runs.New == "" {
		return ""
	}
	return besideURL(s.Runs.New, caseID, max(1, s.Runs.First[caseID]), s.Runs.Current)
}

// P shows a p-value, e.g. "p = 0.0312".
func (gateSuite) P(p float64) string {
	if p < 0.0001 {
		return "p < 0.0001"
	}
	return fmt.Sprintf("p = %.4f", p)
}

// CaseName is the name of a case that changed.
func (s gateSuite) CaseName(id string) string {
	for _, c := range s.Results {
		if c.Case == id && c.Name != "" {
			return c.Name
		}
	}
	return id
}

// RunName says which version a run tried, e.g. "2.0.0, tried again".
func (s gateSuite) RunName(id string) string {
	name, ok := s.Runs.Versions[id]
	switch {
	case !ok:
		return short(13, id)
	case id != s.Runs.New && id != s.Runs.Current:
		return name + ", tried again"
	}
	return name
}

// Difference shows the interval in points.
func (s gateSuite) Difference() string {
	return s.Points(*s.Interval)
}

// Points shows the interval of a difference in points.
func (s gateSuite) Points(interval [2]float64) string {
	return fmt.Sprintf("%+.1f to %+.1f points (95 %%)", 100*interval[0], 100*interval[1])
}

func (s *Service) handleGate(v *visit) (answer, error) {
	view, err := s.gateView(v)
	return show("gate", "Gate of "+view.Entry.Name+" "+view.Version, view), err
}

func (s *Service) gateView(v *visit) (view gateView, err error) {
	if view.Gate, err = s.Gates.Get(v.Context(), v.Caller.OrgID, v.PathValue("id")); err != nil {
		return view, err
	}
	if view.Pull != nil {
		view.Entry, err = s.Registry.Own(v.Context(), v.Caller.OrgID, view.EntryID)
	} else {
		var version registry.Version
		view.Entry, version, err = s.Registry.Version(v.Context(), v.Caller.OrgID, view.EntryID, view.Version)
		view.Held = version.State == registry.Candidate
	}
	if err != nil {
		return view, err
	}
	if o := view.Override; o != nil {
		names, err := s.userNames(v)
		if err != nil {
			return view, err
		}
		view.OverrideBy = cmp.Or(names[o.By], "a former member")
	}
	named, err := s.suiteNames(v)
	if err != nil {
		return view, err
	}
	failures, err := s.Gates.Failures(v.Context(), view.Gate)
	for _, suite := range view.Result.Suites {
		view.Suites = append(view.Suites, gateSuite{suite, named[suite.SuiteID], failures[suite.SuiteID]})
	}
	return view, err
}

// suiteNames returns the names of the organisation's suites by id.
func (s *Service) suiteNames(v *visit) (map[string]string, error) {
	all, _, err := s.Suites.List(v.Context(), v.Caller.OrgID, suites.Filter{Limit: suitesShown})
	names := make(map[string]string, len(all))
	for _, suite := range all {
		names[suite.ID] = suite.Name
	}
	return names, err
}

func (s *Service) handleRerunGate(v *visit) (answer, error) {
	fresh, err := s.Gates.Rerun(v.Context(), v.Caller, v.PathValue("id"))
	if err == nil {
		return redirect(pathTo("gates", fresh.ID), "The version is gated again."), nil
	}
	return s.refuseGate(v, err)
}

func (s *Service) handleOverrideGate(v *visit) (answer, error) {
	g, err := s.Gates.Override(v.Context(), v.Caller, v.PathValue("id"), v.FormValue("reason"))
	if err != nil {
		return s.refuseGate(v, err)
	}
	said := "Version " + g.Version + " is current."
	if r, err := s.Approvals.Review(v.Context(), v.Caller.OrgID, g.EntryID, g.Version); err == nil && r.Waits != "" {
		said = "The gate is overridden, and version " + g.Version + " still waits: " + r.Waits + "."
	}
	return redirect(pathTo("gates", g.ID), said), nil
}

// refuseGate shows the gate again with the problem of a form on it.
func (s *Service) refuseGate(v *visit, problem error) (answer, error) {
	view, err := s.gateView(v)
	if err != nil {
		return answer{}, err
	}
	view.Form = v.FormValue("reason")
	return show("gate", "Gate of "+view.Entry.Name+" "+view.Version, view).refused(problem)
}

// gatePolicyView is the form of the policy of an entry, or of all entries without
// their own.
type gatePolicyView struct {
	Path      string
	Entry     registry.Entry // zero for all
	Inherited bool
	Suites    []suites.Suite
	Form      gatePolicyForm
}

func (s *Service) handleGatePolicy(v *visit) (answer, error) {
	view, _, err := s.gatePolicyView(v)
	return show("gate_policy", "Gate policy", view), err
}

func (s *Service) gatePolicyView(v *visit) (view gatePolicyView, p gates.Policy, err error) {
	view.Path = "/settings/gate-policy"
	if id := v.PathValue("id"); id != "" {
		if view.Entry, err = s.Registry.Own(v.Context(), v.Caller.OrgID, id); err != nil {
			return view, p, err
		}
		view.Path = pathTo("registry", id, "gate-policy")
	}
	if p, view.Inherited, err = s.Gates.PolicyOf(v.Context(), v.Caller.OrgID, view.Entry.ID); err != nil {
		return view, p, err
	}
	view.Form = newGatePolicyForm(p)
	view.Suites, _, err = s.Suites.List(v.Context(), v.Caller.OrgID, suites.Filter{Limit: suitesShown})
	return view, p, err
}

func (s *Service) handleSetGatePolicy(v *visit) (answer, error) {
	view, p, err := s.gatePolicyView(v)
	if err != nil {
		return answer{}, err
	}
	view.Form = readGatePolicyForm(v.FormValue, v.Form["suite"])
	problem := view.Form.Change(&p, formNumber)
	if problem == nil {
		_, problem = s.Gates.SetPolicy(v.Context(), v.Caller, view.Entry.ID, p)
	}
	if problem != nil {
		return show("gate_policy", "Gate policy", view).refused(problem)
	}
	return redirect(view.Path, "The gate policy was saved. It counts from the next push on, and its approvals for what waits."), nil
}
