package web

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/observe/grades"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/prove/comparisons"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
	"github.com/whetstone-dev/whetstone/internal/web/format"
	"github.com/whetstone-dev/whetstone/internal/web/overview"
)

// A skillPage is the page of one skill. It is read in parts, each of which adds its
// fields: see skillPage below.
type skillPage struct {
	skills.Performance
	Tab       string // of skillTabs
	Diagnosis diagnosis
	Window    int // days that the figures cover
	Days      int // days that the chart shows
	Ranges    []int
	Chart     lineChart
	Entry     *overview.Entry // nil if the skill is not in the registry
	Current   overview.Current
	Versions  []versionRow
	Back      *versionRow // what a rollback would make current; nil if there is nothing
	Related   overview.Related
	Misses    []telemetry.ConsideredPrompt
	Failures  []grades.Group // why sessions failed, the most frequent first
	Basis     string         // what the pass rate rests on; "" without one
	Judge     string         // how far the judge can be trusted, if the pass rate rests on it
	Target    string         // name of the skill that this one is merged into; "" if it is not
	Into      string         // what was typed to merge it into
	Improve   skillImprove
	Lift      *comparisons.Finding // what the skill gives against none; nil if no comparison shows it
	back      string               // the version of Back
}

const (
	chartDays          = 90
	missesShown        = 10
	failuresShown      = 10
	skillVersionsShown = 100
	// tenuresCharted is how many of the newest versions are marked on the chart.
	tenuresCharted = 50
)

var chartRanges = []int{30, 90, 365}

// skillPage returns the page of a skill by its id or name, with a chart of that many days
// if they can be chosen.
func (s *Service) skillPage(ctx context.Context, c access.Caller, idOrName string, days int) (view skillPage, err error) {
	view.Performance, err = s.Skills.Get(ctx, c.OrgID, idOrName)
	if err != nil {
		return view, err
	}
	view.Window, view.Days, view.Ranges = s.Skills.Window, chartDays, chartRanges
	if slices.Contains(chartRanges, days) {
		view.Days = days
	}
	// The order matters: addVersions needs what addHistory found to roll back to,
	// and addRelated the entry.
	for _, read := range []func(context.Context, access.Caller, *skillPage) error{
		s.addTarget, s.addHistory, s.addVersions, s.addRelated, s.addGrades,
	} {
		if err := read(ctx, c, &view); err != nil {
			return view, err
		}
	}
	view.Misses, err = s.Overview.Missed(ctx, c.OrgID, view.ID, missesShown)
	return view, err
}

// skillTabs are the parts of the page; the first is the default.
var skillTabs = []labelledURL{
	{"", "Overview"},
	{"failures", "Failures"},
	{"versions", "Versions"},
	{"cost", "Cost"},
	{"improve", "Improve"},
	{"manage", "Manage"}, // the last: for admins only
}

// Tabs are the parts that a caller may see: admins manage skills.
func (skillPage) Tabs(admin bool) []labelledURL {
	if admin {
		return skillTabs
	}
	return skillTabs[:len(skillTabs)-1]
}

// Next is what to do next where a rollback is not: connect an agent for a skill without
// sessions, see to its failures, add tests if no suite has any, and improve it with those
// there are; nil while all is well, and for those who may not write.
func (v skillPage) Next(write bool) *labelledURL {
	page := pathTo("skills", v.ID)
	switch {
	case v.UniqueSessions == 0:
		return &labelledURL{"/settings/connect", "Connect agents"}
	case !write || v.MergedInto != nil:
		return nil
	case v.AnyFailed() && len(v.Improve.Suites) > 0:
		return &labelledURL{page + "?tab=improve", "Improve"}
	case len(v.Related.Suites) == 0 && v.AnyFailed():
		return &labelledURL{page + "?tab=failures", "Add tests from failures"}
	case len(v.Related.Suites) == 0:
		return &labelledURL{"/suites/new", "Add tests"}
	}
	return nil
}

// addTarget adds the name of the skill that this one is merged into.
func (s *Service) addTarget(ctx context.Context, c access.Caller, view *skillPage) error {
	if view.MergedInto == nil {
		return nil
	}
	names, err := s.Overview.SkillNames(ctx, c.OrgID, []string{*view.MergedInto})
	view.Target = names[*view.MergedInto]
	return err
}

// addHistory adds the diagnosis and the chart, both from the same days.
func (s *Service) addHistory(ctx context.Context, c access.Caller, view *skillPage) error {
	// The chart may show fewer days than the diagnosis needs.
	read := max(view.Days, diagnosedDays)
	histories, err := s.histories(ctx, c.OrgID, []string{view.ID}, historySpan{days: read, tenures: tenuresCharted})
	if err != nil {
		return err
	}
	h := histories[view.ID]
	shown := h.Days[read-view.Days:]
	marks := make([]Mark, len(h.Tenures))
	for i, t := range h.Tenures {
		marks[i] = Mark{Date: t.Since.UTC().Format(time.DateOnly), Label: t.Version}
	}
	view.Chart = newChart(shown, marks, func(day time.Time) string { return sessionsOfDay(view.ID, "", day) })
	// The diagnosis must not depend on the range of the chart.
	h.Days = h.Days[read-diagnosedDays:]
	for id, days := range h.Versions {
		h.Versions[id] = days[read-diagnosedDays:]
	}
	view.Diagnosis = diagnose(h)
	view.back = view.Diagnosis.Good
	// Without a reason to roll back it is the version before the current one.
	for i := len(h.Tenures) - 1; i >= 0 && view.back == ""; i-- {
		if t := h.Tenures[i]; t.Eligible && t.VersionID != h.Tenures[len(h.Tenures)-1].VersionID {
			view.back = t.Version
		}
	}
	return nil
}

// addVersions compares the versions of the skill's entry, if it has one.
func (s *Service) addVersions(ctx context.Context, c access.Caller, view *skillPage) error {
	entry, err := s.Overview.Entry(ctx, c.OrgID, view.ID)
	// A skill that is only known from sessions has no entry.
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	view.Entry = &entry
	current, err := s.Overview.CurrentOf(ctx, c.OrgID, []string{view.ID}, view.Window)
	if err != nil {
		return err
	}
	view.Current = current[view.ID]
	found, err := comparisons.Findings(ctx, s.Comparisons.DB, c.OrgID, []string{entry.ID})
	if err != nil {
		return err
	}
	if f, ok := found[entry.ID]; ok {
		view.Lift = &f
	}
	versions, quality, err := s.Registry.Versions(ctx, c.OrgID, entry.ID, skillVersionsShown)
	if err != nil {
		return err
	}
	for i, version := range versions {
		row := versionRow{
			Version: version.Version, PushedAt: version.PushedAt, Current: version.Version == entry.CurrentVersion,
			RolledBack: version.RolledBack, Quality: quality[version.ID],
		}
		// Versions are sorted by the time of the push, the newest first.
		if i+1 < len(versions) {
			row.Before = versions[i+1].Version
		}
		if rate := row.Quality.PassRate; rate != nil {
			low, high := stats.Wilson(*rate, int(row.Quality.GradedSessions))
			row.Interval = &[2]float64{low, high}
			if i+1 < len(versions) && quality[versions[i+1].ID].PassRate != nil {
				// Of two adjacent versions, both of which must have a rate.
				change := *rate - *quality[versions[i+1].ID].PassRate
				row.Change = &change
			}
		}
		view.Versions = append(view.Versions, row)
		if row.Version == view.back {
			view.Back = &row
		}
	}
	return nil
}

// addRelated adds what there is on other pages, and on improving the skill.
func (s *Service) addRelated(ctx context.Context, c access.Caller, view *skillPage) error {
	policy, err := s.addImprove(ctx, c, view)
	if err != nil {
		return err
	}
	if view.Related, err = s.Overview.Related(ctx, c.OrgID, view.ID, policy.Suites); err != nil {
		return err
	}
	if view.Entry == nil {
		return nil
	}
	return s.addSuites(ctx, c.OrgID, &view.Improve, view.Related.Suites, policy, view.Entry.ID)
}

// addGrades adds what the pass rate rests on, and why sessions failed.
func (s *Service) addGrades(ctx context.Context, c access.Caller, view *skillPage) error {
	view.Basis = format.Basis(view.Bases)
	// How far the judge agrees with people is only of interest where it graded.
	if view.Bases.Sessions[basis.Judge] > 0 {
		calibration, err := s.Grades.Calibration(ctx, c.OrgID, view.ID)
		if err != nil {
			return err
		}
		view.Judge = format.Agreement(calibration)
	}
	failures, err := s.Grades.Failures(ctx, c.OrgID, view.ID, view.Window)
	view.Failures = failures[:min(len(failures), failuresShown)]
	return err
}

// Labelled reports whether the judge has written a heading for a failure.
func (v skillPage) Labelled() bool {
	return slices.ContainsFunc(v.Failures, func(g grades.Group) bool { return g.Label != "" })
}

// MissedOn is the URL of the sessions around a prompt that the skill missed. The
// prompt itself is unknown, so the link leads to that day's sessions.
func (v skillPage) MissedOn(p telemetry.ConsideredPrompt) string {
	if p.LastMissedAt == nil {
		return ""
	}
	return sessionsOfDay(v.ID, "missed", *p.LastMissedAt)
}

// sessionsOfDay returns the URL of a skill's sessions on the day of a time, in UTC.
// Without a skill they are those of all, and without an outcome all of them. until
// is exclusive, hence the next day.
func sessionsOfDay(skillID, outcome string, at time.Time) string {
	day := at.UTC().Truncate(24 * time.Hour)
	q := url.Values{"since": {day.Format(time.DateOnly)}, "until": {day.AddDate(0, 0, 1).Format(time.DateOnly)}}
	if skillID != "" {
		q.Set("skill", skillID)
	}
	if outcome != "" {
		q.Set("outcome", outcome)
	}
	return "/sessions?" + q.Encode()
}

// failedSessions returns the URL of the failed sessions of a skill, of one version unless that
// is "".
func failedSessions(skillID, version string) string { return sessionsWith(skillID, version, "fail") }

// sessionsWith filters by an outcome of the list, e.g. "fail" or "graded".
func sessionsWith(skillID, version, outcome string) string {
	q := url.Values{"skill": {skillID}, "outcome": {outcome}}
	if version != "" {
		q.Set("version", version)
	}
	return "/sessions?" + q.Encode()
}

// Failed is the URL of the failed sessions of a version.
func (v skillPage) Failed(version string) string { return failedSessions(v.ID, version) }

// AnyFailed reports whether a graded session of the window did not pass in full.
func (v skillPage) AnyFailed() bool { return v.PassRate != nil && *v.PassRate < 1 }

// Graded is the URL of the graded sessions of a version.
func (v skillPage) Graded(version string) string { return sessionsWith(v.ID, version, "graded") }

// AlertText says when an alert on the skill fires. It fires at the threshold or
// later, depending on its sensitivity.
func (v skillPage) AlertText(a overview.RelatedAlert) string {
	text := format.Condition(alerts.Rule{Type: alerts.Type(a.Type), Threshold: a.Threshold, Sensitivity: alerts.Point})
	if a.All {
		return text + " (all skills)"
	}
	return text
}

// RollBack is the URL of the form that makes Back current, with a reason if the
// diagnosis gives one.
func (v skillPage) RollBack() string {
	q := url.Values{"rollback": {v.Back.Version}}
	if v.Diagnosis.Good != "" {
		// The form is filled in with it, and the person may change it.
		q.Set("reason", v.Diagnosis.Text)
	}
	return format.Path("registry", v.Entry.ID) + "?" + q.Encode() + "#rollback"
}

// Diff is the way to what the version changed that the diagnosis is about, or else
// the current one; nil if there is none before it.
func (v skillPage) Diff() *labelledURL {
	for _, row := range v.Versions {
		if row.Before != "" && (row.Version == v.Diagnosis.Version || v.Diagnosis.Version == "" && row.Current) {
			to := format.Path("registry", v.Entry.ID, "versions", row.Version) + "?" + url.Values{"from": {row.Before}}.Encode()
			return &labelledURL{to, "Changes of " + row.Version}
		}
	}
	return nil
}

// Tokens is how many tokens all requests of the skill took. Cached tokens count,
// too: they are billed, if at a lower price.
func (v skillPage) Tokens() int64 {
	t := v.Cost.Tokens
	return t.Input + t.Output + t.CacheRead + t.CacheWrite
}

// CostBasis says how the money is known.
func (v skillPage) CostBasis() string {
	switch {
	case v.Cost.Basis == nil:
		return "price unknown"
	case *v.Cost.Basis == "reported":
		return "reported by agents"
	case *v.Cost.Basis == "priced":
		return "computed from tokens"
	}
	return "partly reported by agents, partly computed from tokens"
}

// TriggerBasis says of which sessions the trigger rate is a share. It tells how to
// read the rate: of considered sessions it is far higher than of offers.
func (v skillPage) TriggerBasis() string {
	sessions, _ := format.Plural(v.SeenSessions, "session", "sessions") // it is a number
	switch {
	case v.TriggerRateBasis == nil:
		return "no session in the window"
	case *v.TriggerRateBasis != "offered":
		return "of " + sessions + " that considered it; offers are unknown"
	case v.OfferedSessions == v.SeenSessions:
		return "of " + sessions + " that offered it"
	}
	offered, _ := format.Number(v.OfferedSessions) // it is one
	return "of " + sessions + "; " + offered + " offered it"
}

// A versionRow compares a version with the one before. Change is nil if either
// version has no pass rate.
type versionRow struct {
	Version    string
	Before     string // pushed before it; "" if that is unknown
	PushedAt   time.Time
	Current    bool
	RolledBack bool
	Quality    skills.Quality
	Interval   *[2]float64
	Change     *float64 // of the pass rate
}

// Figures says how the version did, e.g. "94 % of 108 graded sessions".
func (r versionRow) Figures() string {
	if r.Quality.PassRate == nil {
		return "no graded session"
	}
	return fmt.Sprintf("%s of %s", format.Percent(*r.Quality.PassRate), sessionsText(int(r.Quality.GradedSessions)))
}

// CostPerUse is the median of the version; nil if it is unknown.
func (r versionRow) CostPerUse() *float64 {
	if r.Quality.Cost == nil {
		return nil
	}
	return r.Quality.Cost.PerUseP50
}

// KnownBy counts the checks by how it is known that they are of the version, e.g.
// "hash 12, time 3".
func (r versionRow) KnownBy() string {
	var all []string
	for _, b := range []struct {
		name  string
		count int64
	}{
		{"hash", r.Quality.Bases.Hash},
		{"plugin", r.Quality.Bases.Plugin},
		{"installation", r.Quality.Bases.Installation},
		{"time", r.Quality.Bases.Time},
	} {
		if b.count > 0 {
			text, _ := format.Number(b.count) // it is one
			all = append(all, b.name+" "+text)
		}
	}
	if len(all) == 0 {
		return format.None
	}
	return strings.Join(all, ", ")
}
