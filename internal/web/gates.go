package web

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/gates"
	"github.com/whetstone-dev/whetstone/internal/gates/decision"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/registry/gateapi"
	"github.com/whetstone-dev/whetstone/internal/suites"
)

const (
	gatesPerPage = 50
	suitesShown  = 100
)

// gatesView is the list of gates.
type gatesView struct {
	Rows    []gateRow
	Total   int
	PerPage int
	Verdict string // that is listed; "" for all
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
	view := gatesView{PerPage: gatesPerPage, Verdict: v.URL.Query().Get("verdict")}
	all, total, err := s.Gates.List(v.Context(), v.Caller.OrgID, gates.Filter{
		Verdict: view.Verdict, Limit: gatesPerPage, Offset: v.offset(gatesPerPage),
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

// P shows a p-value.
func (gateSuite) P(p *float64) string { return strconv.FormatFloat(*p, 'f', 4, 64) }

// Difference shows the interval in points.
func (s gateSuite) Difference() string {
	return fmt.Sprintf("%+.1f to %+.1f points (95 %%)", 100*s.Interval[0], 100*s.Interval[1])
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
	if err == nil {
		return redirect(pathTo("gates", g.ID), "Version "+g.Version+" is current."), nil
	}
	return s.refuseGate(v, err)
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

// gatePolicyForm is the input of the form.
type gatePolicyForm struct {
	Mode, OnInconclusive                     string
	Suites                                   []string
	Trials, MinCases, MaxCost, MaxMinutes    string
	Validation, PassRate, Recall, SkillLimit string // floors; "" for none
}

// Has reports whether a suite is chosen.
func (f gatePolicyForm) Has(id string) bool { return slices.Contains(f.Suites, id) }

// A policyField is a field for a number. Its problem may have another path.
type policyField struct{ Name, Problem, Label, Value string }

// Numbers are the fields for numbers.
func (f gatePolicyForm) Numbers() []policyField {
	return []policyField{
		{"trials", "trials", "Trials of each case on each version", f.Trials},
		{"min_cases", "min_cases", "Decided cases that a verdict needs", f.MinCases},
		{"max_minutes", "max_minutes", "Longest time, in minutes", f.MaxMinutes},
		{"max_cost_usd", "max_cost_usd", "Highest cost, in dollars; empty for no limit", f.MaxCost},
		{"pass_rate", "floors.pass_rate", "Floor: lower bound of the pass rate, 0 to 1; empty for none", f.PassRate},
		{"trigger_recall", "floors.trigger_recall", "Floor: share of queries that trigger, 0 to 1; empty for none", f.Recall},
		{"skill_md_tokens", "floors.skill_md_tokens", "Floor: most tokens of SKILL.md; empty for none", f.SkillLimit},
	}
}

func newGatePolicyForm(p gates.Policy) gatePolicyForm {
	f := gatePolicyForm{
		Mode: string(p.Mode), OnInconclusive: p.OnInconclusive, Suites: p.Suites, Trials: strconv.Itoa(p.Trials),
		MinCases: strconv.Itoa(p.MinCases), MaxMinutes: strconv.Itoa(p.MaxMinutes),
	}
	number := func(value *float64) string {
		if value == nil {
			return ""
		}
		return strconv.FormatFloat(*value, 'f', -1, 64)
	}
	f.MaxCost, f.PassRate, f.Recall = number(p.MaxCostUSD), number(p.Floors.PassRate), number(p.Floors.TriggerRecall)
	if p.Floors.Validation != nil {
		f.Validation = *p.Floors.Validation
	}
	if p.Floors.SkillTokens != nil {
		f.SkillLimit = strconv.Itoa(*p.Floors.SkillTokens)
	}
	return f
}

func (v *visit) gatePolicyForm() gatePolicyForm {
	field := func(name string) string { return strings.TrimSpace(v.FormValue(name)) }
	return gatePolicyForm{
		Mode: field("mode"), OnInconclusive: field("on_inconclusive"), Suites: v.Form["suite"], Trials: field("trials"),
		MinCases: field("min_cases"), MaxCost: field("max_cost_usd"), MaxMinutes: field("max_minutes"),
		Validation: field("validation"), PassRate: field("pass_rate"), Recall: field("trigger_recall"), SkillLimit: field("skill_md_tokens"),
	}
}

// change sets the fields of the form in a policy. Its limits are those of gates.
func (f gatePolicyForm) change(p *gates.Policy) error {
	var issues []fault.Issue
	whole := func(field, text string, into *int) {
		n, err := strconv.Atoi(text)
		if err != nil {
			issues = append(issues, fault.At(field, "Enter a whole number"))
		}
		*into = n
	}
	number := func(field, text string) *float64 {
		if text == "" {
			return nil
		}
		value, ok := formNumber(text, 1e9)
		if !ok {
			issues = append(issues, fault.At(field, "Enter a number, or nothing"))
		}
		return &value
	}
	p.Mode, p.OnInconclusive, p.Suites = gates.Mode(f.Mode), f.OnInconclusive, f.Suites
	whole("trials", f.Trials, &p.Trials)
	whole("min_cases", f.MinCases, &p.MinCases)
	whole("max_minutes", f.MaxMinutes, &p.MaxMinutes)
	p.MaxCostUSD = number("max_cost_usd", f.MaxCost)
	p.Floors = gates.Floors{PassRate: number("floors.pass_rate", f.PassRate), TriggerRecall: number("floors.trigger_recall", f.Recall)}
	if f.Validation != "" {
		p.Floors.Validation = &f.Validation
	}
	if f.SkillLimit != "" {
		p.Floors.SkillTokens = new(int)
		whole("floors.skill_md_tokens", f.SkillLimit, p.Floors.SkillTokens)
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
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
	view.Form = v.gatePolicyForm()
	problem := view.Form.change(&p)
	if problem == nil {
		_, problem = s.Gates.SetPolicy(v.Context(), v.Caller, view.Entry.ID, p)
	}
	if problem != nil {
		return show("gate_policy", "Gate policy", view).refused(problem)
	}
	return redirect(view.Path, "The gate policy was saved. It counts from the next push on."), nil
}
