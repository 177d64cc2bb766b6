package web

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/grades"
	"github.com/whetstone-dev/whetstone/internal/overview"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/skills/basis"
	"github.com/whetstone-dev/whetstone/internal/skills/curate"
	"github.com/whetstone-dev/whetstone/internal/stats"
	"github.com/whetstone-dev/whetstone/internal/telemetry/considered"
)

// skillView is the page of one skill.
type skillView struct {
	skills.Performance
	Window   int // days that the figures cover
	Days     int // days that the chart shows
	Ranges   []int
	Chart    chart
	Entry    *overview.Entry // nil if the skill is not in the registry
	Versions []versionRow
	Misses   []considered.Prompt
	Failures []grades.Group // why sessions failed, the most frequent first
	Basis    string         // what the pass rate rests on; "" without one
	Judge    string         // how far the judge can be trusted, if the pass rate rests on it
	Target   string         // name of the skill that this one is merged into; "" if it is not
	Into     string         // what was typed to merge it into
	Improve  skillImprove
}

// MissedOn is the URL of the sessions around a prompt that the skill missed.
func (v skillView) MissedOn(p considered.Prompt) string {
	if p.LastMissedAt == nil {
		return ""
	}
	return sessionsOfDay(v.ID, outcomeMissed, *p.LastMissedAt)
}

// Tokens is how many tokens all requests of the skill took.
func (v skillView) Tokens() int64 {
	t := v.Cost.Tokens
	return t.Input + t.Output + t.CacheRead + t.CacheWrite
}

// CostBasis says how the money is known.
func (v skillView) CostBasis() string {
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
func (v skillView) TriggerBasis() string {
	sessions, _ := plural(v.SeenSessions, "session", "sessions") // it is a number
	switch {
	case v.TriggerRateBasis == nil:
		return "no session in the window"
	case *v.TriggerRateBasis != "offered":
		return "of " + sessions + " that considered it; offers are unknown"
	case v.OfferedSessions == v.SeenSessions:
		return "of " + sessions + " that offered it"
	}
	offered, _ := number(v.OfferedSessions)
	return "of " + sessions + "; " + offered + " offered it"
}

// A versionRow compares a version with the one before.
type versionRow struct {
	Version  string
	PushedAt time.Time
	Current  bool
	Quality  skills.Quality
	Interval *[2]float64
	Change   *float64 // of the pass rate
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
			text, _ := number(b.count) // it is one
			all = append(all, b.name+" "+text)
		}
	}
	if len(all) == 0 {
		return none
	}
	return strings.Join(all, ", ")
}

const (
	chartDays     = 90
	missesShown   = 10
	failuresShown = 10
)

var chartRanges = []int{30, 90, 365}

func (s *Service) handleSkill(v *visit) (answer, error) {
	view, err := s.skillView(v)
	return show("skill", view.Name, view), err
}

func (s *Service) skillView(v *visit) (skillView, error) {
	p, err := s.Skills.Get(v.Context(), v.Caller.OrgID, v.PathValue("skill"))
	if err != nil {
		return skillView{}, err
	}
	view := skillView{Performance: p, Window: s.Skills.Window, Days: chartDays, Ranges: chartRanges}
	if p.MergedInto != nil {
		names, err := s.Overview.SkillNames(v.Context(), v.Caller.OrgID, []string{*p.MergedInto})
		if err != nil {
			return view, err
		}
		view.Target = names[*p.MergedInto]
	}
	if days, err := strconv.Atoi(v.URL.Query().Get("days")); err == nil && slices.Contains(chartRanges, days) {
		view.Days = days
	}
	marks, err := s.versions(v, &view)
	if err != nil {
		return view, err
	}
	days, err := s.Overview.Days(v.Context(), []string{p.ID}, view.Days)
	if err != nil {
		return view, err
	}
	view.Chart = newChart(p.ID, days[p.ID], marks)
	if view.Misses, err = s.Overview.Missed(v.Context(), v.Caller.OrgID, p.ID, missesShown); err != nil {
		return view, err
	}
	if view.Improve, err = s.improveOf(v, p, view.Entry); err != nil {
		return view, err
	}
	return view, s.addGrades(v, &view)
}

// addGrades adds what the pass rate rests on, and why sessions failed.
func (s *Service) addGrades(v *visit, view *skillView) error {
	view.Basis = basisText(view.Bases)
	if view.Bases.Sessions[basis.Judge] > 0 {
		c, err := s.Grades.Calibration(v.Context(), v.Caller.OrgID, view.ID)
		if err != nil {
			return err
		}
		view.Judge = agreementText(c)
	}
	failures, err := s.Grades.Failures(v.Context(), v.Caller.OrgID, view.ID, view.Window)
	view.Failures = failures[:min(len(failures), failuresShown)]
	return err
}

// Labelled reports whether the judge has written a heading for a failure.
func (v skillView) Labelled() bool {
	return slices.ContainsFunc(v.Failures, func(g grades.Group) bool { return g.Label != "" })
}

// handleChangeSkill hides a skill or merges it into another one, or undoes that.
func (s *Service) handleChangeSkill(v *visit) (answer, error) {
	skill, into := v.PathValue("skill"), strings.TrimSpace(v.FormValue("into"))
	change, done, problem := skillChange(v.FormValue("change"), into)
	if problem == nil {
		problem = s.Curate.Update(v.Context(), v.Caller.OrgID, skill, change)
	}
	if problem == nil {
		return redirect(pathTo("skills", skill), done), nil
	}
	view, err := s.skillView(v)
	if err != nil {
		return answer{}, err
	}
	view.Into = into
	return show("skill", view.Name, view).refused(problem)
}

// skillChange returns what a button of the page changes, and what to say then.
func skillChange(button, into string) (c curate.Change, done string, err error) {
	switch button {
	case "hide", "unhide":
		hidden := button == "hide"
		c.Hidden = &hidden
		return c, map[bool]string{true: "The skill is hidden.", false: "The skill is listed again."}[hidden], nil
	case "merge":
		if into == "" {
			return c, "", fault.Invalid("merged_into", "Enter the name of the other skill")
		}
		c.MergedInto = &into
		return c, "The skill is merged. What was reported before is moved in the background.", nil
	case "unmerge":
		c.MergedInto = new(string)
		return c, "The merge is undone. What was reported before is moved back in the background.", nil
	}
	return c, "", fault.Invalid("change", "The change must be hide, unhide, merge or unmerge")
}

// versions compares the versions of the skill's entry, if it has one, and returns
// when each became current.
func (s *Service) versions(v *visit, view *skillView) ([]mark, error) {
	entry, err := s.Overview.Entry(v.Context(), v.Caller.OrgID, view.ID)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	view.Entry = &entry
	versions, quality, err := s.Registry.Versions(v.Context(), v.Caller.OrgID, entry.ID, versionsShown)
	if err != nil {
		return nil, err
	}
	for i, version := range versions {
		row := versionRow{
			Version: version.Version, PushedAt: version.PushedAt, Current: version.Version == entry.CurrentVersion,
			Quality: quality[version.ID],
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
	}
	publishes, err := s.Overview.Publishes(v.Context(), v.Caller.OrgID, entry.ID)
	marks := make([]mark, len(publishes))
	for i, p := range publishes {
		marks[i] = mark{Date: p.At.UTC().Format(time.DateOnly), Label: p.Version}
	}
	return marks, err
}
