package skills

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/inuse"
)

// Service keeps the metrics of skills.
type Service struct {
	DB   *store.DB
	Jobs *jobs.Queue
	// The three sources of which version was in use; see inuse.Sources. Without
	// Installations or Plugins attribution falls back to the version that was
	// current.
	Versions      inuse.Versions
	Installations inuse.Installations // may be nil
	Plugins       inuse.Plugins       // may be nil
	Costs         Costs               // may be nil
	OnAttributed  OnAttributed        // may be nil
	// Window is the window of the metrics in days, today included.
	Window int
}

// A Filter selects and sorts the skills of a listing: those that are confirmed,
// not hidden and not merged, unless it says otherwise.
type Filter struct {
	Search        string // text in the name, "" for all
	Unconfirmed   bool   // those that are not confirmed instead
	Hidden        bool   // those that are hidden instead, confirmed or not
	Merged        bool   // those that are merged into others instead, whatever else they are
	Status        Status // "" for all
	Sort          string // a field of the API, with a leading - for descending
	Limit, Offset int
}

// List returns a page of the organisation's skills with their performance, and
// their number. There are two ways to a page: the database sorts and pages where the
// key is a column, and this process does where the key is computed (see listSorted).
func (s *Service) List(ctx context.Context, orgID string, f Filter) ([]Performance, int, error) {
	if _, ok := sorts[strings.TrimPrefix(f.Sort, "-")]; f.Status == "" && (ok || f.Sort == "" || f.Sort == "name") {
		return s.listSorted(ctx, orgID, f)
	}
	// Status and rates are computed here, not in SQL, so all skills are read to find the page.
	all, err := skillsOfOrg(ctx, s.DB, orgID, f)
	if err != nil {
		return nil, 0, err
	}
	// Grades are enough to find it, and quicker to read, unless it is sorted by triggers.
	var performances []Performance
	if strings.TrimPrefix(f.Sort, "-") == "trigger_rate" {
		performances, err = s.performances(ctx, all)
	} else {
		performances, err = s.graded(ctx, orgID, all)
	}
	if err != nil {
		return nil, 0, err
	}
	if f.Status != "" {
		performances = slices.DeleteFunc(performances, func(p Performance) bool { return p.Status != f.Status })
	}
	// Only the page gets its costs and all its rates: an organisation may have
	// thousands of skills, and these are the expensive queries.
	sortBy(performances, f.Sort)
	total := len(performances)
	from := min(f.Offset, total)
	var chosen []skill
	for _, p := range performances[from:min(from+f.Limit, total)] {
		at := slices.IndexFunc(all, func(k skill) bool { return k.ID == p.ID })
		chosen = append(chosen, all[at])
	}
	page, err := s.performances(ctx, chosen)
	if err != nil {
		return nil, 0, err
	}
	return page, total, s.addCosts(ctx, orgID, page)
}

// listSorted lets the database select the page, so that only the performance of its
// skills is computed.
func (s *Service) listSorted(ctx context.Context, orgID string, f Filter) ([]Performance, int, error) {
	total, err := countSkills(ctx, s.DB, orgID, f)
	if err != nil {
		return nil, 0, err
	}
	found, err := pageOfSkills(ctx, s.DB, orgID, f)
	if err != nil {
		return nil, 0, err
	}
	performances, err := s.performances(ctx, found)
	if err != nil {
		return nil, 0, err
	}
	return performances, total, s.addCosts(ctx, orgID, performances)
}

// sortBy sorts by a field; unknown values come last in both directions.
func sortBy(all []Performance, field string) {
	name, descending := strings.CutPrefix(field, "-")
	slices.SortStableFunc(all, func(a, b Performance) int {
		x, y := a.sortValue(name), b.sortValue(name)
		// Before the swap for descending, so that unknown values stay last.
		if x == nil || y == nil {
			return cmp.Compare(btoi(x == nil), btoi(y == nil))
		}
		if descending {
			x, y = y, x
		}
		return cmp.Compare(*x, *y)
	})
	// Names have no sort value: the stable sort left the database's order by name.
	if name == "name" && descending {
		slices.Reverse(all)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Get returns the performance of one skill by its id or name.
func (s *Service) Get(ctx context.Context, orgID, idOrName string) (Performance, error) {
	k, err := skillByIDOrName(ctx, s.DB, orgID, idOrName)
	if err != nil {
		return Performance{}, err
	}
	all, err := s.performances(ctx, []skill{k})
	if err != nil {
		return Performance{}, err
	}
	err = s.addCosts(ctx, orgID, all)
	return all[0], err
}

// performances computes the performance of skills from their rollups.
func (s *Service) performances(ctx context.Context, found []skill) ([]Performance, error) {
	ids := columnsOf(found, func(k skill) string { return k.ID })
	now, err := windows(ctx, s.DB, ids, s.start(), endOfTime)
	if err != nil {
		return nil, err
	}
	// The window before is what trends are compared with.
	before, err := windows(ctx, s.DB, ids, s.start()-int64(s.Window), s.start())
	if err != nil {
		return nil, err
	}
	return columnsOf(found, func(k skill) Performance {
		p := newPerformance(k, now[k.ID], before[k.ID])
		p.Bases = now[k.ID].rates()
		return p
	}), nil
}

// endOfTime ends a window that reaches up to now. It lies in the future, so that
// data of clients whose clocks run ahead is included.
const endOfTime = 1 << 40

// Daily returns one row per day, oldest first, up to today.
func (s *Service) Daily(ctx context.Context, skillID string, days int) ([]Day, error) {
	today := dayOf(time.Now())
	counts, err := daysOf(ctx, s.DB, skillID, today-int64(days)+1, today)
	if err != nil {
		return nil, err
	}
	// Days without a row are in it with zeros and null rates: charts need every day.
	all := make([]Day, days)
	for i := range all {
		day := today - int64(days) + 1 + int64(i)
		c := counts[day]
		all[i] = Day{
			Date:     time.Unix(day*secondsPerDay, 0).UTC().Format(time.DateOnly),
			Sessions: c.sessions, Checks: c.checks, Triggers: c.triggers,
			TriggerRate:    ratio(c.triggerSessions, c.sessions),
			AvgConfidence:  share(c.confidenceSum, c.confidenceCount),
			GradedSessions: c.gradedSessions,
			PassRate:       share(c.passRateSum, c.gradedSessions),
		}
	}
	return all, nil
}

// Quality returns the metrics of registry versions, by version id. They are over all
// time, unlike those of a skill: a version is judged by all of its use. Versions
// without any use are missing from the map.
func (s *Service) Quality(ctx context.Context, q store.Querier, versionIDs []string) (map[string]Quality, error) {
	counts, err := windows(ctx, q, versionIDs, -endOfTime, endOfTime)
	if err != nil {
		return nil, err
	}
	bases, err := basesOf(ctx, q, versionIDs)
	all := map[string]Quality{}
	for id, c := range counts {
		all[id] = Quality{
			Sessions: c.lastSessions, TriggerRate: ratio(c.lastTriggerSessions, c.lastSessions),
			PassRate: share(c.passRateSum, c.gradedSessions), GradedSessions: c.gradedSessions,
			PassRates: c.rates(), Bases: bases[id],
		}
	}
	return all, err
}

// WindowStats is the figures of a skill that alerts are evaluated on.
type WindowStats struct {
	ID, Name       string
	CreatedAt      time.Time
	LastSeenAt     *time.Time
	PassRate       *float64 // over the window
	GradedSessions int64    // over the window
	GradingChanges int64    // how often a grading was added, changed or removed, at any time
}

// WindowStats returns the figures of every listed skill of an organisation over the
// last days, today included, by skill id. Unlike List it takes the days as a
// parameter, since every alert rule has its own window.
func (s *Service) WindowStats(ctx context.Context, q store.Querier, orgID string, days int) (map[string]WindowStats, error) {
	all, err := skillsOfOrg(ctx, q, orgID, Filter{})
	if err != nil {
		return nil, err
	}
	ids := columnsOf(all, func(k skill) string { return k.ID })
	// Days are whole days in UTC: a window of one day is today, not the last 24
	// hours.
	counts, err := windows(ctx, q, ids, dayOf(time.Now())-int64(days)+1, endOfTime)
	figures := make(map[string]WindowStats, len(all))
	for _, k := range all {
		c := counts[k.ID]
		figures[k.ID] = WindowStats{
			ID: k.ID, Name: k.Name, CreatedAt: k.CreatedAt, LastSeenAt: k.LastSeenAt,
			PassRate: share(c.passRateSum, c.gradedSessions), GradedSessions: c.gradedSessions, GradingChanges: k.GradingChanges,
		}
	}
	return figures, err
}

// Exists reports whether the organisation has the skill, and it is not merged into
// another one.
func (s *Service) Exists(ctx context.Context, orgID, id string) (bool, error) {
	k, err := skillByID(ctx, s.DB, orgID, id)
	// A skill of another organisation is not found either, so ids do not leak.
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil && k.MergedInto == nil, err
}
