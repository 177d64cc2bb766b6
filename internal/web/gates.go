package web

import (
	"cmp"
	"fmt"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/release/approvals"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
	"github.com/whetstone-dev/whetstone/internal/web/format"
)

// suitesShown is also how many suites the selects of forms offer.
const (
	gatesPerPage = 50
	suitesShown  = 100
)

// gatesView is the list of gates.
type gatesView struct {
	Size
	Rows    []gateRow
	Waiting []approvals.Review // candidates that wait for the caller's approval
	Verdict string             // filter; "" for all
}

// Verdicts are the values of the filter.
func (gatesView) Verdicts() []decision.Verdict {
	return []decision.Verdict{decision.Pass, decision.Block, decision.Inconclusive, decision.Skipped}
}

// A gateRow is a gate with the name of its entry.
type gateRow struct {
	gates.Gate
	Entry string
}

// handleGates lists gates and the candidates that wait for the caller.
func (s *Service) handleGates(v *visit) (answer, error) {
	view := gatesView{Size: Size{PerPage: gatesPerPage}, Verdict: v.URL.Query().Get("verdict")}
	all, total, err := s.Gates.List(v.Context(), v.Caller.OrgID, gates.Filter{
		Verdict: view.Verdict, Page: v.list.Rows(gatesPerPage),
	})
	if err != nil {
		return answer{}, err
	}
	var ids []string
	for _, g := range all {
		ids = append(ids, g.EntryID)
	}
	// One query for the names of the page, whatever the number of its gates.
	names, err := s.Registry.LatestVersions(v.Context(), v.Caller.OrgID, ids)
	view.Total = total
	for _, g := range all {
		// A gate of a pull request may be about an entry that does not exist yet.
		view.Rows = append(view.Rows, gateRow{g, cmp.Or(names[g.EntryID].Name, "a new entry")})
	}
	if err != nil {
		return answer{}, err
	}
	view.Waiting, err = s.Approvals.Waiting(v.Context(), v.Caller)
	return show("gates", "Gates", view), err
}

// gateView is the page of one gate. Suites repeats those of the result with what
// only this page shows.
type gateView struct {
	gates.Gate
	Entry      registry.Entry
	Held       bool // its version is still a candidate
	Suites     []gateSuite
	OverrideBy string // name of the user who overrode it
	Form       string // reason that was typed
}

// Attempt is the number of this gate among those of the same question and files.
func (v gateView) Attempt() int { return len(v.Previous) + 1 }

// Nth returns the number of an earlier attempt by its index.
func (gateView) Nth(i int) int { return i + 1 }

// Sentence is the verdict in plain words, "" while there is none. The statistics behind it are
// folded.
func (v gateView) Sentence() string {
	version, against := v.Version, "the current version"
	if v.Against != nil {
		against = *v.Against
	}
	worse, better, cases := 0, 0, 0
	for _, s := range v.Suites {
		worse, better, cases = worse+len(s.Worse), better+len(s.Better), cases+s.Cases
	}
	tried, _ := format.Plural(int64(cases), "case", "cases") // it is a number
	switch decision.Verdict(v.Shown()) {
	case decision.Pass:
		if cases == 0 {
			return version + " passed: there was nothing to compare."
		}
		if worse+better == 0 {
			return fmt.Sprintf("%s passed: it did as well as %s on %s.", version, against, tried)
		}
		return fmt.Sprintf("%s passed: it did better than %s on %d of %s and worse on %d.",
			version, against, better, tried, worse)
	case decision.Block:
		if cases == 0 || worse == 0 {
			return version + " was blocked."
		}
		return fmt.Sprintf("%s was blocked: it did worse than %s on %d of %s and better on %d.",
			version, against, worse, tried, better)
	case decision.Inconclusive:
		return fmt.Sprintf("There isn't enough evidence to say whether %s is worse than %s.", version, against)
	case decision.Skipped:
		return version + " wasn't compared."
	}
	return ""
}

// Why is the reason that the sentence leaves out, "" if the counts of its cases are the reason.
func (v gateView) Why() string {
	for _, s := range v.Suites {
		if len(s.Worse)+len(s.Better) > 0 && v.Shown() != string(decision.Inconclusive) {
			return ""
		}
	}
	return v.Reason
}

// BlocksAt is the p-value up to which the gate blocks. Lifting is a gate that
// demands an improvement, not only no regression.
func (v gateView) BlocksAt() float64 {
	if v.Result.Lifting {
		return decision.LiftAt
	}
	return decision.FalseBlockRate
}

// A gateSuite is the result of a suite, with its name.
type gateSuite struct {
	api.GateSuite
	Name string         // "" if the suite was deleted
	Runs gates.Failures // its runs, with the first failed trial of each case
}

// BesideURL is the page of a case on both versions, with the first trial that the new
// version failed; "" if there is none.
func (s gateSuite) BesideURL(caseID string) string {
	if s.Name == "" || s.Runs.New == "" {
		return ""
	}
	return besideURL(s.Runs.New, caseID, max(1, s.Runs.First[caseID]), s.Runs.Current, "")
}

// P formats a p-value, e.g. "p = 0.0312". A smaller one has no meaning that a person
// could use.
func (gateSuite) P(p float64) string {
	if p < 0.0001 {
		return "p < 0.0001"
	}
	return fmt.Sprintf("p = %.4f", p)
}

// CaseName returns the name of a case that changed, or its id.
func (s gateSuite) CaseName(id string) string {
	for _, c := range s.Results {
		if c.Case == id && c.Name != "" {
			return c.Name
		}
	}
	return id
}

// RunName returns the version that a run tested, e.g. "2.0.0, tried again".
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

// Difference formats the suite's confidence interval in points.
func (s gateSuite) Difference() string {
	return s.Points(*s.Interval)
}

// Points formats the confidence interval of a difference, e.g. "-4.0 to +12.5 points
// (95 %)".
func (s gateSuite) Points(interval [2]float64) string {
	return fmt.Sprintf("%+.1f to %+.1f points (95 %%)", 100*interval[0], 100*interval[1])
}

// handleGate shows one gate: its verdict and the figures behind it.
func (s *Service) handleGate(v *visit) (answer, error) {
	view, err := s.gateView(v)
	return show("gate", "Gate of "+view.Entry.Name+" "+view.Version, view), err
}

// gateView reads the gate of the path with everything on its page.
func (s *Service) gateView(v *visit) (view gateView, err error) {
	if view.Gate, err = s.Gates.Get(v.Context(), v.Caller.OrgID, v.PathValue("id")); err != nil {
		return view, err
	}
	// The gate of a pull request has no version in the registry.
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
	// The trials are looked up now, so a run that was deleted has none.
	failures, err := s.Gates.Failures(v.Context(), view.Gate)
	for _, suite := range view.Result.Suites {
		view.Suites = append(view.Suites, gateSuite{suite, named[suite.SuiteID], failures[suite.SuiteID]})
	}
	return view, err
}

// suiteNames returns the names of the organisation's suites by id. Suites beyond the
// limit have no name here, like deleted ones.
func (s *Service) suiteNames(v *visit) (map[string]string, error) {
	all, _, err := s.Suites.List(v.Context(), v.Caller.OrgID, suites.Filter{Page: store.Page{Limit: suitesShown}})
	names := make(map[string]string, len(all))
	for _, suite := range all {
		names[suite.ID] = suite.Name
	}
	return names, err
}

// handleRerunGate gates the version again and redirects to the new gate. The old
// gate stays as a record, and the new one counts it as an attempt.
func (s *Service) handleRerunGate(v *visit) (answer, error) {
	fresh, err := s.Gates.Rerun(v.Context(), v.Caller, v.PathValue("id"))
	if err == nil {
		return redirect(pathTo("gates", fresh.ID), "The version is gated again."), nil
	}
	return s.refuseGate(v, err)
}

// handleOverrideGate makes the version current despite the verdict. Approvals may still
// be missing: the message then tells what it waits for.
func (s *Service) handleOverrideGate(v *visit) (answer, error) {
	g, err := s.Gates.Override(v.Context(), v.Caller, v.PathValue("id"), v.FormValue("reason"))
	if err != nil {
		return s.refuseGate(v, err)
	}
	// The lookup is for the message only: if it fails, the override still stands.
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

// gatePolicyView is the form of the policy of an entry, or of all entries without one
// of their own.
type gatePolicyView struct {
	Path      string
	Entry     registry.Entry // zero for the policy of all entries
	Inherited bool           // the entry has no policy of its own yet
	Suites    []suites.Suite
	Form      gatePolicyForm
}

// Chosen is the names of the suites that the policy names.
func (v gatePolicyView) Chosen() (names []string) {
	for _, suite := range v.Suites {
		if v.Form.Has(suite.ID) {
			names = append(names, suite.Name)
		}
	}
	return names
}

// handleGatePolicy shows the form of a policy.
func (s *Service) handleGatePolicy(v *visit) (answer, error) {
	view, _, err := s.gatePolicyView(v)
	return show("gate_policy", "Gate policy", view), err
}

// gatePolicyView returns the page and the policy that its form changes.
func (s *Service) gatePolicyView(v *visit) (view gatePolicyView, p gates.Policy, err error) {
	// The same page serves both policies; Path is where its form goes.
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
	view.Suites, _, err = s.Suites.List(v.Context(), v.Caller.OrgID, suites.Filter{Page: store.Page{Limit: suitesShown}})
	return view, p, err
}

// handleSetGatePolicy saves a policy. A refused form is shown again with its input.
// The policy is read first, and the form changes it: fields that it lacks stay.
func (s *Service) handleSetGatePolicy(v *visit) (answer, error) {
	view, p, err := s.gatePolicyView(v)
	if err != nil {
		return answer{}, err
	}
	view.Form = decodeForm[gatePolicyForm](v.Request)
	problem := view.Form.Change(&p, formNumber)
	if problem == nil {
		_, problem = s.Gates.SetPolicy(v.Context(), v.Caller, view.Entry.ID, p)
	}
	if problem != nil {
		return show("gate_policy", "Gate policy", view).refused(problem)
	}
	return redirect(view.Path, "The gate policy was saved. It counts from the next push on, and its approvals for what waits."),
		nil
}
