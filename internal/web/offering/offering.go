// Package offering prepares the page of the catalogue report: what agents are offered.
// It owns no tables.
package offering

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/whetstone-dev/whetstone/internal/web/overview/listing"
	"github.com/whetstone-dev/whetstone/internal/web/overview/report"
)

// PerPage is how many skills a page has.
const PerPage = 25

// A Choice is an option of a form.
type Choice struct {
	Value, Label string
	Chosen       bool
}

// A View is a report with the page of its skills.
type View struct {
	report.Report
	Agents, Windows, Ranges, Shown, Sorts []Choice
	AgentName                             string
	Rows                                  []report.Skill
	Total, PerPage                        int
	Costly                                []report.Skill
	Settings                              string // JSON for Claude Code
	Policy, PolicyPath                    string // YAML for Codex
}

var (
	agents = []Choice{{Value: string(listing.ClaudeCode), Label: "Claude Code"}, {Value: string(listing.Codex), Label: "Codex"}}
	// windows are those of common models, in tokens; the first is the agent's usual one.
	windows = []int64{0, 32_000, 64_000, 128_000, 200_000, 272_000, 400_000, 1_000_000}
	ranges  = []int{7, 30, 90, 365}
	shown   = []Choice{
		{Value: "all", Label: "all skills"},
		{Value: "cut", Label: "not seen whole"},
		{Value: "unused", Label: "unused"},
		{Value: "switch_off", Label: "to switch off"},
	}
	sorts = []Choice{
		{Value: "name", Label: "by name"},
		{Value: "-tokens", Label: "most tokens first"},
		{Value: "-cut", Label: "most cut first"},
		{Value: "uses", Label: "fewest uses first"},
	}
)

const (
	defaultDays = 30
	maxCostly   = 10
)

// Read returns the page that begins at offset. Values that the form does not offer are
// the default.
func Read(ctx context.Context, s *report.Service, orgID string, query url.Values, offset int) (view View, err error) {
	options := report.Options{Agent: listing.ClaudeCode, Days: defaultDays}
	if query.Get("agent") == string(listing.Codex) {
		options.Agent = listing.Codex
	}
	if n, err := strconv.ParseInt(query.Get("context_window"), 10, 64); err == nil && slices.Contains(windows, n) {
		options.Window = n
	}
	if n, err := strconv.Atoi(query.Get("days")); err == nil && slices.Contains(ranges, n) {
		options.Days = n
	}
	view = View{
		PerPage: PerPage, Policy: report.PolicyFile, PolicyPath: report.PolicyPath,
		Agents: choose(agents, string(options.Agent)), Shown: choose(shown, query.Get("show")), Sorts: choose(sorts, query.Get("sort")),
	}
	for _, n := range windows {
		label := fmt.Sprintf("%d k tokens", n/1000)
		if n == 0 {
			label = fmt.Sprintf("usual window, %d k", options.Agent.Window()/1000)
		}
		view.Windows = append(view.Windows, Choice{strconv.FormatInt(n, 10), label, n == options.Window})
	}
	for _, n := range ranges {
		view.Ranges = append(view.Ranges, Choice{strconv.Itoa(n), fmt.Sprintf("%d days", n), n == options.Days})
	}
	if view.Report, err = s.Of(ctx, orgID, options); err != nil {
		return view, err
	}
	for _, a := range view.Agents {
		if a.Chosen {
			view.AgentName = a.Label
		}
	}
	view.Rows, view.Total = view.Select(report.Selection{
		Search: query.Get("q"), Show: query.Get("show"), Sort: query.Get("sort"), Limit: PerPage, Offset: offset,
	})
	view.Costly = view.Report.Costly(maxCostly)
	view.Settings, err = view.Switch.Settings()
	return view, err
}

// choose marks the choice with the value; the first if none has it.
func choose(all []Choice, value string) []Choice {
	all = slices.Clone(all)
	i := max(0, slices.IndexFunc(all, func(c Choice) bool { return c.Value == value }))
	all[i].Chosen = true
	return all
}

// Over reports whether the listing does not fit into the budget.
func (v View) Over() bool { return v.Needed > v.Limit }

// IsCodex reports whether the page is about Codex.
func (v View) IsCodex() bool { return v.Agent == listing.Codex }

// Fraction is the share of the budget that the whole descriptions need.
func (v View) Fraction() float64 { return float64(v.Needed) / float64(v.Limit) }

// Int is a number that is known, for templates.
func (View) Int(n *int64) int64 { return *n }
