package web

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/overview"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/stats"
	"github.com/whetstone-dev/whetstone/internal/telemetry"
)

// skillView is one skill in full.
type skillView struct {
	skills.Performance
	Window   int // days that the figures look back
	Days     int // that the chart shows
	Ranges   []int
	Chart    chart
	Entry    *overview.Entry // nil: it is not in the registry
	Versions []versionRow
	Misses   []missRow
}

// A versionRow compares a version with the others.
type versionRow struct {
	Version  string
	PushedAt time.Time
	Current  bool
	Quality  skills.Quality
	Interval *[2]float64
	Change   *float64 // of the pass rate, against the version before
}

// A missRow is a prompt that the skill should have done better with.
type missRow struct {
	telemetry.Considered
	At time.Time
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
	view.Misses, err = s.misses(v.Context(), v.Caller.OrgID, p.ID)
	return show("skill", p.Name, view), err
}

// versions compares the versions of the skill's entry, if it has one, and
// returns when each became current.
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
	return s.publishMarks(v, entry.ID)
}

func (s *Service) publishMarks(v *visit, entryID string) ([]mark, error) {
	publishes, err := s.Overview.Publishes(v.Context(), v.Caller.OrgID, entryID)
	marks := make([]mark, len(publishes))
	for i, p := range publishes {
		marks[i] = mark{Date: p.At.UTC().Format(time.DateOnly), Label: p.Version}
	}
	return marks, err
}

// misses lists prompts that the skill missed or failed at, newest first.
func (s *Service) misses(ctx context.Context, orgID, skillID string) ([]missRow, error) {
	considered, err := s.Telemetry.Considered(ctx, s.Overview.DB, orgID, skillID)
	if err != nil {
		return nil, err
	}
	var rows []missRow
	for _, c := range considered {
		if c.Missed == 0 && c.Failed == 0 {
			continue
		}
		row := missRow{Considered: c}
		for _, at := range []*time.Time{c.LastMissedAt, c.LastFailedAt} {
			if at != nil && at.After(row.At) {
				row.At = *at
			}
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b missRow) int { return cmp.Compare(b.At.UnixMicro(), a.At.UnixMicro()) })
	return rows[:min(len(rows), missesShown)], nil
}
