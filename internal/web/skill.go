package web

import (
	"slices"
	"strconv"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/overview"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/stats"
	"github.com/whetstone-dev/whetstone/internal/telemetry"
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
	Misses   []telemetry.Considered
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

const (
	chartDays   = 90
	missesShown = 10
)

var chartRanges = []int{30, 90, 365}

func (s *Service) handleSkill(v *visit) (answer, error) {
	p, err := s.Skills.Get(v.Context(), v.Caller.OrgID, v.PathValue("skill"))
	if err != nil {
		return answer{}, err
	}
	view := skillView{Performance: p, Window: s.Skills.Window, Days: chartDays, Ranges: chartRanges}
	if days, err := strconv.Atoi(v.URL.Query().Get("days")); err == nil && slices.Contains(chartRanges, days) {
		view.Days = days
	}
	marks, err := s.versions(v, &view)
	if err != nil {
		return answer{}, err
	}
	days, err := s.Overview.Days(v.Context(), []string{p.ID}, view.Days)
	if err != nil {
		return answer{}, err
	}
	view.Chart = newChart(days[p.ID], marks)
	view.Misses, err = s.Telemetry.Missed(v.Context(), v.Caller.OrgID, p.ID, missesShown)
	return show("skill", p.Name, view), err
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
