// Package skillpage prepares the page of a skill: how it does, in a sentence and in
// figures, and the way to everything else that is known about it. It owns no tables.
package skillpage

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/unattended"
	"github.com/whetstone-dev/whetstone/internal/observe/grades"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/considered"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
	"github.com/whetstone-dev/whetstone/internal/web/charts"
	"github.com/whetstone-dev/whetstone/internal/web/format"
	"github.com/whetstone-dev/whetstone/internal/web/overview"
)

// Pages reads what the page shows.
type Pages struct {
	Overview   *overview.Service
	Skills     *skills.Service
	Grades     *grades.Service
	Registry   *registry.Service
	Gates      *gates.Service
	Unattended *unattended.Service
}

// A View is the page of one skill.
type View struct {
	skills.Performance
	Diagnosis Diagnosis
	Window    int // days that the figures cover
	Days      int // days that the chart shows
	Ranges    []int
	Chart     charts.Chart
	Entry     *overview.Entry // nil if the skill is not in the registry
	Current   overview.Current
	Versions  []VersionRow
	Back      *VersionRow // what a rollback would make current; nil if there is nothing
	Related   overview.Related
	Misses    []considered.Prompt
	Failures  []grades.Group // why sessions failed, the most frequent first
	Basis     string         // what the pass rate rests on; "" without one
	Judge     string         // how far the judge can be trusted, if the pass rate rests on it
	Target    string         // name of the skill that this one is merged into; "" if it is not
	Into      string         // what was typed to merge it into
	Improve   Improve
	back      string // the version of Back
}

const (
	chartDays     = 90
	missesShown   = 10
	failuresShown = 10
	versionsShown = 100
	// tenuresCharted is how many of the newest versions are marked on the chart.
	tenuresCharted = 50
)

var chartRanges = []int{30, 90, 365}

// View returns the page of a skill by its id or name, with a chart of that many days
// if they can be chosen.
func (p Pages) View(ctx context.Context, c access.Caller, idOrName string, days int) (view View, err error) {
	view.Performance, err = p.Skills.Get(ctx, c.OrgID, idOrName)
	if err != nil {
		return view, err
	}
	view.Window, view.Days, view.Ranges = p.Skills.Window, chartDays, chartRanges
	if slices.Contains(chartRanges, days) {
		view.Days = days
	}
	for _, read := range []func(context.Context, access.Caller, *View) error{
		p.addTarget, p.addHistory, p.addVersions, p.addRelated, p.addGrades,
	} {
		if err := read(ctx, c, &view); err != nil {
			return view, err
		}
	}
	view.Misses, err = p.Overview.Missed(ctx, c.OrgID, view.ID, missesShown)
	return view, err
}

// addTarget adds the name of the skill that this one is merged into.
func (p Pages) addTarget(ctx context.Context, c access.Caller, view *View) error {
	if view.MergedInto == nil {
		return nil
	}
	names, err := p.Overview.SkillNames(ctx, c.OrgID, []string{*view.MergedInto})
	view.Target = names[*view.MergedInto]
	return err
}

// addHistory adds the diagnosis and the chart, both from the same days.
func (p Pages) addHistory(ctx context.Context, c access.Caller, view *View) error {
	read := max(view.Days, diagnosedDays)
	histories, err := p.histories(ctx, c.OrgID, []string{view.ID}, span{days: read, tenures: tenuresCharted})
	if err != nil {
		return err
	}
	h := histories[view.ID]
	shown := h.Days[read-view.Days:]
	marks := make([]charts.Mark, len(h.Tenures))
	for i, t := range h.Tenures {
		marks[i] = charts.Mark{Date: t.Since.UTC().Format(time.DateOnly), Label: t.Version}
	}
	view.Chart = charts.New(shown, marks, func(day time.Time) string { return SessionsOfDay(view.ID, "", day) })
	h.Days = h.Days[read-diagnosedDays:]
	for id, days := range h.Versions {
		h.Versions[id] = days[read-diagnosedDays:]
	}
	view.Diagnosis = Diagnose(h)
	view.back = view.Diagnosis.Good
	for i := len(h.Tenures) - 1; i >= 0 && view.back == ""; i-- {
		if t := h.Tenures[i]; t.Eligible && t.VersionID != h.Tenures[len(h.Tenures)-1].VersionID {
			view.back = t.Version
		}
	}
	return nil
}

// addVersions compares the versions of the skill's entry, if it has one.
func (p Pages) addVersions(ctx context.Context, c access.Caller, view *View) error {
	entry, err := p.Overview.Entry(ctx, c.OrgID, view.ID)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	view.Entry = &entry
	current, err := p.Overview.CurrentOf(ctx, c.OrgID, []string{view.ID}, view.Window)
	if err != nil {
		return err
	}
	view.Current = current[view.ID]
	versions, quality, err := p.Registry.Versions(ctx, c.OrgID, entry.ID, versionsShown)
	if err != nil {
		return err
	}
	for i, version := range versions {
		row := VersionRow{
			Version: version.Version, PushedAt: version.PushedAt, Current: version.Version == entry.CurrentVersion,
			RolledBack: version.RolledBack, Quality: quality[version.ID],
		}
		if i+1 < len(versions) {
			row.Before = versions[i+1].Version
		}
		if rate := row.Quality.PassRate; rate != nil {
			low, high := stats.Wilson(*rate, int(row.Quality.GradedSessions))
			row.Interval = &[2]float64{low, high}
			if i+1 < len(versions) && quality[versions[i+1].ID].PassRate != nil {
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
func (p Pages) addRelated(ctx context.Context, c access.Caller, view *View) error {
	policy, err := p.addImprove(ctx, c, view)
	if err != nil {
		return err
	}
	if view.Related, err = p.Overview.Related(ctx, c.OrgID, view.ID, policy.Suites); err != nil {
		return err
	}
	if view.Entry != nil {
		view.Improve.add(view.Related.Suites, policy, view.Entry.ID)
	}
	return nil
}

// addGrades adds what the pass rate rests on, and why sessions failed.
func (p Pages) addGrades(ctx context.Context, c access.Caller, view *View) error {
	view.Basis = format.Basis(view.Bases)
	if view.Bases.Sessions[basis.Judge] > 0 {
		calibration, err := p.Grades.Calibration(ctx, c.OrgID, view.ID)
		if err != nil {
			return err
		}
		view.Judge = format.Agreement(calibration)
	}
	failures, err := p.Grades.Failures(ctx, c.OrgID, view.ID, view.Window)
	view.Failures = failures[:min(len(failures), failuresShown)]
	return err
}

// Labelled reports whether the judge has written a heading for a failure.
func (v View) Labelled() bool {
	return slices.ContainsFunc(v.Failures, func(g grades.Group) bool { return g.Label != "" })
}

// MissedOn is the URL of the sessions around a prompt that the skill missed.
func (v View) MissedOn(p considered.Prompt) string {
	if p.LastMissedAt == nil {
		return ""
	}
	return SessionsOfDay(v.ID, "missed", *p.LastMissedAt)
}

// SessionsOfDay returns the URL of a skill's sessions on the day of a time, in UTC.
// Without a skill they are those of all, and without an outcome all of them.
func SessionsOfDay(skillID, outcome string, at time.Time) string {
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

// Failed returns the URL of the failed sessions of a skill, of one version unless that
// is "".
func Failed(skillID, version string) string { return sessionsWith(skillID, version, "fail") }

func sessionsWith(skillID, version, outcome string) string {
	q := url.Values{"skill": {skillID}, "outcome": {outcome}}
	if version != "" {
		q.Set("version", version)
	}
	return "/sessions?" + q.Encode()
}

// Failed is the URL of the failed sessions of a version.
func (v View) Failed(version string) string { return Failed(v.ID, version) }

// Graded is the URL of the graded sessions of a version.
func (v View) Graded(version string) string { return sessionsWith(v.ID, version, "graded") }

// AlertText says when an alert on the skill fires.
func (v View) AlertText(a overview.RelatedAlert) string {
	text := format.Condition(alerts.Rule{Type: alerts.Type(a.Type), Threshold: a.Threshold, Sensitivity: alerts.Point})
	if a.All {
		return text + " (all skills)"
	}
	return text
}

// RollBack is the URL of the form that makes Back current, with a reason if the
// diagnosis gives one.
func (v View) RollBack() string {
	q := url.Values{"rollback": {v.Back.Version}}
	if v.Diagnosis.Good != "" {
		q.Set("reason", v.Diagnosis.Text)
	}
	return format.Path("registry", v.Entry.ID) + "?" + q.Encode() + "#rollback"
}

// Diff is the way to what the version changed that the diagnosis is about, or else
// the current one; nil if there is none before it.
func (v View) Diff() *Choice {
	for _, row := range v.Versions {
		if row.Before != "" && (row.Version == v.Diagnosis.Version || v.Diagnosis.Version == "" && row.Current) {
			to := format.Path("registry", v.Entry.ID, "versions", row.Version) + "?" + url.Values{"from": {row.Before}}.Encode()
			return &Choice{to, "Changes of " + row.Version}
		}
	}
	return nil
}

// Tokens is how many tokens all requests of the skill took.
func (v View) Tokens() int64 {
	t := v.Cost.Tokens
	return t.Input + t.Output + t.CacheRead + t.CacheWrite
}

// CostBasis says how the money is known.
func (v View) CostBasis() string {
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

// TriggerBasis says of which sessions the trigger rate is a share.
func (v View) TriggerBasis() string {
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

// A VersionRow compares a version with the one before.
type VersionRow struct {
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
func (r VersionRow) Figures() string {
	if r.Quality.PassRate == nil {
		return "no graded session"
	}
	return fmt.Sprintf("%s of %s", format.Percent(*r.Quality.PassRate), sessionsText(int(r.Quality.GradedSessions)))
}

// CostPerUse is the median of the version; nil if it is unknown.
func (r VersionRow) CostPerUse() *float64 {
	if r.Quality.Cost == nil {
		return nil
	}
	return r.Quality.Cost.PerUseP50
}

// KnownBy counts the checks by how it is known that they are of the version, e.g.
// "hash 12, time 3".
func (r VersionRow) KnownBy() string {
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
