package web

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/whetstone-dev/whetstone/internal/web/overview/listing"
	"github.com/whetstone-dev/whetstone/internal/web/overview/report"
)

// offeringPerPage is the number of skills on a page.
const offeringPerPage = 25

// An offeringChoice is an option of a form.
type offeringChoice struct {
	Value, Label string
	Chosen       bool
}

// An offeringView is the catalogue report with a page of its skills. The report is
// computed for each page of it, which its queries make cheap enough.
type offeringView struct {
	report.Report
	Agents, Windows, Ranges, Shown, Sorts []offeringChoice
	AgentName                             string
	Rows                                  []report.Skill
	Total, PerPage                        int
	Costly                                []report.Skill
	Settings                              string // settings.json for Claude Code
	Policy, PolicyPath                    string // agents/openai.yaml for Codex, and its path
}

var (
	// The options of the form.
	offeringAgents = []offeringChoice{
		{Value: string(listing.ClaudeCode), Label: "Claude Code"},
		{Value: string(listing.Codex), Label: "Codex"},
	}
	// contextWindows are the sizes of common models, in tokens; 0 is the agent's usual
	// one.
	contextWindows = []int64{0, 32_000, 64_000, 128_000, 200_000, 272_000, 400_000, 1_000_000}
	offeringRanges = []int{7, 30, 90, 365}
	offeringShown  = []offeringChoice{
		{Value: "all", Label: "all skills"},
		{Value: "cut", Label: "not seen whole"},
		{Value: "unused", Label: "unused"},
		{Value: "switch_off", Label: "to switch off"},
	}
	offeringSorts = []offeringChoice{
		{Value: "name", Label: "by name"},
		{Value: "-tokens", Label: "most tokens first"},
		{Value: "-cut", Label: "most cut first"},
		{Value: "uses", Label: "fewest uses first"},
	}
)

// The default of the form, and how many of the costliest skills the page lists.
const (
	offeringDays = 30
	maxCostly    = 10
)

// readOffering returns the page that begins at offset. Values that the form does not
// offer, e.g. in an old link, are replaced by the default. A person edits a form,
// not a query: a strange value deserves no error page.
func readOffering(ctx context.Context, s *report.Service, orgID string, query url.Values, offset int) (view offeringView,
	err error,
) {
	options := report.Options{Agent: listing.ClaudeCode, Days: offeringDays}
	if query.Get("agent") == string(listing.Codex) {
		options.Agent = listing.Codex
	}
	if n, err := strconv.ParseInt(query.Get("context_window"), 10, 64); err == nil && slices.Contains(contextWindows, n) {
		options.Window = n
	}
	if n, err := strconv.Atoi(query.Get("days")); err == nil && slices.Contains(offeringRanges, n) {
		options.Days = n
	}
	view = offeringView{
		PerPage: offeringPerPage, Policy: report.PolicyFile, PolicyPath: report.PolicyPath,
		Agents: chooseOption(offeringAgents, string(options.Agent)), Shown: chooseOption(offeringShown, query.Get("show")),
		Sorts: chooseOption(offeringSorts, query.Get("sort")),
	}
	// Windows are shown in thousands, as vendors do.
	for _, n := range contextWindows {
		label := fmt.Sprintf("%d k tokens", n/1000)
		if n == 0 {
			label = fmt.Sprintf("usual window, %d k", options.Agent.Window()/1000)
		}
		view.Windows = append(view.Windows, offeringChoice{strconv.FormatInt(n, 10), label, n == options.Window})
	}
	for _, n := range offeringRanges {
		view.Ranges = append(view.Ranges, offeringChoice{strconv.Itoa(n), fmt.Sprintf("%d days", n), n == options.Days})
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
		Search: query.Get("q"), Show: query.Get("show"), Sort: query.Get("sort"), Limit: offeringPerPage, Offset: offset,
	})
	view.Costly = view.Report.Costly(maxCostly)
	view.Settings, err = view.Switch.Settings()
	return view, err
}

// chooseOption returns a copy of the choices in which the one with the value is marked,
// or the first if none has it.
func chooseOption(all []offeringChoice, value string) []offeringChoice {
	all = slices.Clone(all)
	i := max(0, slices.IndexFunc(all, func(c offeringChoice) bool { return c.Value == value }))
	all[i].Chosen = true
	return all
}

// Over reports whether the listing does not fit into the agent's budget.
func (v offeringView) Over() bool { return v.Needed > v.Limit }

// IsCodex reports whether the page is about Codex.
func (v offeringView) IsCodex() bool { return v.Agent == listing.Codex }

// Fraction is the share of the budget that whole descriptions need; above 1 they are
// truncated.
func (v offeringView) Fraction() float64 { return float64(v.Needed) / float64(v.Limit) }

// Int dereferences a number that is known, for templates.
func (offeringView) Int(n *int64) int64 { return *n }
