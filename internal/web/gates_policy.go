package web

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
)

// A gatePolicyForm is the input of the form of a policy, as text. The page shows it
// again as it was typed, whatever is wrong with it.
type gatePolicyForm struct {
	Mode           string   `form:"mode"`
	OnInconclusive string   `form:"on_inconclusive"`
	Suites         []string `form:"suite"`
	Trials         string   `form:"trials"`
	MinCases       string   `form:"min_cases"`
	MaxCost        string   `form:"max_cost_usd"`
	MaxMinutes     string   `form:"max_minutes"`
	Validation     string   `form:"validation"` // this and the next three are floors; "" for none
	PassRate       string   `form:"pass_rate"`
	Recall         string   `form:"trigger_recall"`
	SkillLimit     string   `form:"skill_md_tokens"`
	Approvals      string   `form:"approvals"`
	SelfApproval   bool     `form:"self_approval"`
	HostReviews    bool     `form:"host_reviews"`
}

// Has reports whether a suite is chosen.
func (f gatePolicyForm) Has(id string) bool { return slices.Contains(f.Suites, id) }

// A preset is what the gate does with a version that looks worse.
type preset struct{ Mode, Name, Text string }

// Presets are the choices of the form, from the gentlest to the strictest.
func (gatePolicyForm) Presets() []preset {
	return []preset{
		{"off", "Off", "Versions become current at once. No evals run."},
		{"report", "Warn", "Versions become current at once. The gate runs your suites and tells you if a version looks worse."},
		{"enforce", "Block", "Versions wait until your suites show they aren't worse. " +
			"At most 5 in 100 harmless versions are blocked."},
	}
}

// Preset is the one that is chosen.
func (f gatePolicyForm) Preset() preset {
	all := f.Presets()
	return all[max(0, slices.IndexFunc(all, func(p preset) bool { return p.Mode == f.Mode }))]
}

// A numberField is an input for a number. Problem is the path under which its issues
// are, which may differ from the name of the input.
type numberField struct{ Name, Problem, Label, Unit, Help, Value string }

// Numbers are the inputs for numbers of the advanced part, in the order of the form.
func (f gatePolicyForm) Numbers() []numberField {
	return []numberField{
		{"trials", "trials", "Trials per case", "per version", "More trials find smaller differences and cost more.", f.Trials},
		{"min_cases", "min_cases", "Minimum cases for a verdict", "cases", "Fewer aren't enough evidence.", f.MinCases},
		{"max_minutes", "max_minutes", "Time limit", "minutes", "", f.MaxMinutes},
		{"max_cost_usd", "max_cost_usd", "Spending limit", "USD per gate", "Leave empty for no limit.", f.MaxCost},
		{
			"pass_rate", "floors.pass_rate", "Minimum pass rate", "%",
			"The lower end of its 95 % interval must reach it. Leave empty for none.", f.PassRate,
		},
		{
			"trigger_recall", "floors.trigger_recall", "Minimum trigger rate", "%",
			"Share of prompts that should trigger the skill and do. Leave empty for none.", f.Recall,
		},
		{
			"skill_md_tokens", "floors.skill_md_tokens", "Maximum size of SKILL.md", "tokens",
			"Leave empty for no limit.", f.SkillLimit,
		},
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
	number := func(value *float64, scale float64) string {
		if value == nil {
			return ""
		}
		// 0.07 * 100 is 7.000000000000001.
		return strconv.FormatFloat(math.Round(*value*scale*1e9)/1e9, 'f', -1, 64)
	}
	f.MaxCost, f.PassRate, f.Recall = number(p.MaxCostUSD, 1), number(p.Floors.PassRate, 100), number(p.Floors.TriggerRecall, 100)
	if p.Floors.Validation != nil {
		f.Validation = *p.Floors.Validation
	}
	if p.Floors.SkillTokens != nil {
		f.SkillLimit = strconv.Itoa(*p.Floors.SkillTokens)
	}
	return f
}

// Change sets the fields of the form in a policy. It only parses: the limits are
// checked by package gates. parse parses a number up to a limit. All problems are
// reported at once, each at its field.
func (f gatePolicyForm) Change(p *gates.Policy, parse func(text string, most float64) (float64, bool)) error {
	var issues []fault.Issue
	wrong := func(field, text string, args ...any) {
		all := append(f.Numbers(), numberField{Problem: "approvals", Label: "Approvals needed"})
		label := all[slices.IndexFunc(all, func(n numberField) bool { return n.Problem == field })].Label
		issues = append(issues, fault.At(field, "%s: %s", label, fmt.Sprintf(text, args...)))
	}
	whole := func(field, text string, into *int) {
		n, err := strconv.Atoi(text)
		if err != nil {
			wrong(field, "enter a whole number.")
		}
		*into = n
	}
	number := func(field, text string, most, scale float64) *float64 {
		if text == "" {
			return nil
		}
		value, ok := parse(text, most)
		if !ok {
			wrong(field, "enter a number from 0 to %.0f, or leave it empty.", most)
		}
		value /= scale
		return &value
	}
	p.Mode, p.OnInconclusive, p.Suites = gates.Mode(f.Mode), f.OnInconclusive, f.Suites
	whole("trials", f.Trials, &p.Trials)
	whole("min_cases", f.MinCases, &p.MinCases)
	whole("max_minutes", f.MaxMinutes, &p.MaxMinutes)
	p.MaxCostUSD = number("max_cost_usd", f.MaxCost, 1e6, 1)
	p.Floors = gates.Floors{
		PassRate:      number("floors.pass_rate", f.PassRate, 100, 100),
		TriggerRecall: number("floors.trigger_recall", f.Recall, 100, 100),
	}
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
