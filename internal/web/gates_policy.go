package web

import (
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
)

// A gatePolicyForm is the input of the form of a policy, as text. The page shows it
// again as it was typed, whatever is wrong with it.
type gatePolicyForm struct {
	Mode, OnInconclusive                     string
	Suites                                   []string
	Trials, MinCases, MaxCost, MaxMinutes    string
	Validation, PassRate, Recall, SkillLimit string // floors; "" for none
	Approvals                                string
	SelfApproval, HostReviews                bool
}

// Has reports whether a suite is chosen.
func (f gatePolicyForm) Has(id string) bool { return slices.Contains(f.Suites, id) }

// A numberField is an input for a number. Problem is the path under which its issues
// are, which may differ from the name of the input.
type numberField struct{ Name, Problem, Label, Value string }

// Numbers are the inputs for numbers, in the order of the form. Their labels are in
// the order in which a person decides about them.
func (f gatePolicyForm) Numbers() []numberField {
	return []numberField{
		{"trials", "trials", "Trials of each case on each version", f.Trials},
		{"min_cases", "min_cases", "Decided cases that a verdict needs", f.MinCases},
		{"max_minutes", "max_minutes", "Longest time, in minutes", f.MaxMinutes},
		{"max_cost_usd", "max_cost_usd", "Highest cost, in dollars; empty for no limit", f.MaxCost},
		{"pass_rate", "floors.pass_rate", "Floor: lower bound of the pass rate, 0 to 1; empty for none", f.PassRate},
		{"trigger_recall", "floors.trigger_recall", "Floor: share of queries that trigger, 0 to 1; empty for none", f.Recall},
		{"skill_md_tokens", "floors.skill_md_tokens", "Floor: most tokens of SKILL.md; empty for none", f.SkillLimit},
		{"approvals", "approvals", "Approvals that a version needs, in every mode", f.Approvals},
	}
}

// newGatePolicyForm returns the form of an existing policy. "" stands for a floor or
// limit that is not set.
func newGatePolicyForm(p gates.Policy) gatePolicyForm {
	f := gatePolicyForm{
		Mode: string(p.Mode), OnInconclusive: p.OnInconclusive, Suites: p.Suites, Trials: strconv.Itoa(p.Trials),
		MinCases: strconv.Itoa(p.MinCases), MaxMinutes: strconv.Itoa(p.MaxMinutes), Approvals: strconv.Itoa(p.Approvals),
		SelfApproval: p.SelfApproval, HostReviews: p.HostReviews,
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

// readGatePolicyForm reads the form from a request. An unchecked box is not sent, so
// a missing one is false.
func readGatePolicyForm(value func(name string) string, suites []string) gatePolicyForm {
	field := func(name string) string { return strings.TrimSpace(value(name)) }
	return gatePolicyForm{
		Mode: field("mode"), OnInconclusive: field("on_inconclusive"), Suites: suites, Trials: field("trials"),
		MinCases: field("min_cases"), MaxCost: field("max_cost_usd"), MaxMinutes: field("max_minutes"),
		Validation: field("validation"), PassRate: field("pass_rate"), Recall: field("trigger_recall"), SkillLimit: field("skill_md_tokens"),
		Approvals: field("approvals"), SelfApproval: field("self_approval") != "",
		HostReviews: field("host_reviews") != "",
	}
}

// Change sets the fields of the form in a policy. It only parses: the limits are
// checked by package gates. parse parses a number up to a limit. All problems are
// reported at once, each at its field.
func (f gatePolicyForm) Change(p *gates.Policy, parse func(text string, most float64) (float64, bool)) error {
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
		value, ok := parse(text, 1e9)
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
		// A pointer to 0 until whole parses it: nil would mean no floor.
		p.Floors.SkillTokens = new(int)
		whole("floors.skill_md_tokens", f.SkillLimit, p.Floors.SkillTokens)
	}
	// An empty number of approvals means none.
	p.Approvals, p.SelfApproval, p.HostReviews = 0, f.SelfApproval, f.HostReviews
	if f.Approvals != "" {
		whole("approvals", f.Approvals, &p.Approvals)
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}
