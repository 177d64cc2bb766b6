package web

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
	"github.com/whetstone-dev/whetstone/internal/web/overview"
)

// A preview shows when a rule would have fired over the last previewDays. Replaying
// uses the stored days only, so it is about as exact as the daily figures.
type preview struct {
	Problem string // why there is no preview, or ""
	Text    string // summary, e.g. "In the last 90 days it would have fired twice."
	// Strips are the skills for which it would have fired, those with most days first.
	// A rule about one skill always has its strip.
	Strips []strip
	More   int // number of skills that would have fired but are not shown
}

// A strip is a chart of one skill's days that marks those on which the rule would have
// fired. Coordinates are those of its SVG. It is drawn as SVG by the template; the
// label has the same in words.
type strip struct {
	SkillID, Name string
	Episodes      []episode
	Days          int        // number of days on which it would have fired
	Line          string     // path of the pass rate; "" for rules about sessions
	Limit         *float64   // where the threshold is drawn; nil for rules about sessions
	Spans         []chartBar // the episodes, as marked areas
	Bars          []chartBar // the sessions of each day
	From, To      string
	Label         string // the same for screen readers
}

// An episode is a period on which the rule would have fired without a break.
type episode struct {
	From, To string
	Days     int
	Open     bool // it would still be firing today
}

// The size of a preview, and of the SVG of a strip: the rate is drawn between stripTop
// and stripBottom, the bars of sessions between that and stripBase.
const (
	previewDays = 90
	stripsShown = 8
	stripWidth  = 720.0
	stripTop    = 4.0
	stripBottom = 60.0
	stripBase   = 78.0
)

// preview replays the rule in a form on the last days of its skill, or of the skills
// that the form suggests. An incomplete form is not an error: preview.Problem explains
// it.
func (s *Service) preview(v *visit, form alertForm, choices skillChoices) (p preview, err error) {
	rule, err := form.condition()
	// The preview updates while a person types, so an incomplete form is the usual
	// case.
	if err != nil {
		const incomplete = "The preview appears when the condition is complete."
		return preview{Problem: incomplete}, nil //nolint:nilerr // shown at the field after submitting
	}
	if !rule.Replayable() {
		return preview{Problem: "There is no preview of this kind of alert."}, nil
	}
	all := choices.First
	if form.Skill != "" {
		chosen, err := s.chosenSkill(v, form.Skill)
		// Perhaps half a name: the page updates while a person types.
		if fault.Is(err, fault.Malformed) { // half a name, perhaps: it is typed now
			return preview{Problem: "There is no skill of this name."}, nil
		} else if err != nil {
			return p, err
		}
		all = []skills.Performance{chosen}
	}
	if len(all) == 0 {
		return preview{Problem: "There are no skills yet."}, nil
	}
	ids := make([]string, len(all))
	for i, k := range all {
		ids[i] = k.ID
	}
	// The days before the first shown one fill its window.
	before := alerts.WindowDays - 1
	if rule.Type == alerts.NoData {
		before = int(math.Ceil(rule.Threshold))
	}
	found, err := s.Overview.Days(v.Context(), ids, previewDays+before)
	if err != nil {
		return p, err
	}
	for _, k := range all {
		strip := newStrip(rule, k, found[k.ID], before)
		if strip.Days > 0 || form.Skill != "" {
			p.Strips = append(p.Strips, strip)
		}
	}
	p.sum(len(all))
	return p, nil
}

// sum summarises the preview and keeps the worst strips; checked is the number of
// skills that were replayed. Counts are of all strips, also of those that are then
// left out.
func (p *preview) sum(checked int) {
	fired, times := 0, 0
	for _, s := range p.Strips {
		times += len(s.Episodes)
		if s.Days > 0 {
			fired++
		}
	}
	switch {
	case times == 0 && checked == 1:
		p.Text = "In the last 90 days it would not have fired."
	case times == 0:
		p.Text = fmt.Sprintf("In the last 90 days it would have fired for none of %d skills.", checked)
	case checked == 1:
		p.Text = "In the last 90 days it would have fired " + timesText(times) + "."
	default:
		p.Text = fmt.Sprintf("In the last 90 days it would have fired %s, for %d of %d skills.",
			timesText(times), fired, checked)
	}
	slices.SortStableFunc(p.Strips, func(a, b strip) int { return cmp.Compare(b.Days, a.Days) })
	p.More = max(0, len(p.Strips)-stripsShown)
	p.Strips = p.Strips[:min(len(p.Strips), stripsShown)]
}

// timesText returns n as "once" or "N times".
func timesText(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// newStrip evaluates the rule at the end of each day. The first days, of which there
// are before, only fill the window of those after them.
func newStrip(rule alerts.Rule, k skills.Performance, days []overview.Day, before int) strip {
	s := strip{SkillID: k.ID, Name: k.Name, From: days[before].Date, To: days[len(days)-1].Date}
	// There may be fewer looks than days: a young skill begins later.
	looks := dayEndsOf(k, days, before)
	fired := rule.Replay(looks)
	begin := len(days) - len(looks)
	for i, firing := range fired {
		if !firing {
			continue
		}
		date := days[begin+i].Date
		// A day that fires after one that did not begins an episode.
		if i == 0 || !fired[i-1] {
			s.Episodes = append(s.Episodes, episode{From: date})
		}
		e := &s.Episodes[len(s.Episodes)-1]
		e.To, e.Open = date, i == len(fired)-1
		e.Days++
		s.Days++
	}
	s.draw(rule, days, before)
	s.Label = s.describe()
	return s
}

// dayEndsOf returns the samples that the rule would have seen of a skill at the end of
// each day, starting with the day of its first session. A skill without one has none.
func dayEndsOf(k skills.Performance, days []overview.Day, before int) []alerts.Sample {
	if k.FirstSeenAt == nil {
		return nil
	}
	now := time.Now()
	lastSession := *k.FirstSeenAt
	var looks []alerts.Sample
	for i, d := range days {
		end := now // today is not over
		// The last microsecond of the day, so that a look sees all of it.
		if begin, err := time.Parse(time.DateOnly, d.Date); err == nil && begin.Add(day).Before(now) {
			end = begin.Add(day - time.Microsecond)
		}
		if d.Sessions > 0 {
			lastSession = end
		}
		if i < before || end.Before(*k.FirstSeenAt) {
			continue
		}
		last := lastSession
		look := alerts.Sample{At: end, WindowStats: skills.WindowStats{ID: k.ID, Name: k.Name, LastSeenAt: &last}}
		if rate, graded := smoothed(days, i); graded > 0 {
			look.PassRate, look.GradedSessions = &rate, int64(graded)
		}
		if d.PassRate != nil {
			look.DaySessions, look.DayPassRate = int(d.Graded), *d.PassRate
		}
		looks = append(looks, look)
	}
	return looks
}

// draw computes the shapes of the chart: the rate and the threshold, or for no_data the
// sessions alone, over the episodes. Bars are scaled to the busiest day of the
// skill, the rate to 0 to 1.
func (s *strip) draw(rule alerts.Rule, days []overview.Day, before int) {
	shown := days[before:]
	step := stripWidth / float64(len(shown))
	index := map[string]int{}
	for i, d := range shown {
		index[d.Date] = i
	}
	for _, e := range s.Episodes {
		s.Spans = append(s.Spans, chartBar{
			X: float64(index[e.From]) * step, Y: 0, Width: float64(e.Days) * step,
			Height: stripBase,
		})
	}
	var most int64
	for _, d := range shown {
		most = max(most, d.Sessions)
	}
	for i, d := range shown {
		if d.Sessions > 0 {
			// The 4 keep the highest bar away from the line of the rate.
			height := (stripBase - stripBottom - 4) * float64(d.Sessions) / float64(most)
			s.Bars = append(s.Bars, chartBar{
				X: (float64(i) + 0.15) * step, Y: stripBase - height, Width: step * 0.7,
				Height: height,
			})
		}
	}
	if rule.Type == alerts.NoData {
		return
	}
	limit := stripY(rule.Threshold)
	s.Limit = &limit
	var line pen
	for i := range shown {
		if rate, graded := smoothed(days, before+i); graded > 0 {
			line.To((float64(i)+0.5)*step, stripY(rate))
		}
	}
	// The dot marks the latest value, which may be days old.
	if s.Line = line.String(); s.Line != "" {
		line.Dot()
		s.Line = line.String()
	}
}

// stripY returns the y coordinate of a rate from 0 to 1.
func stripY(rate float64) float64 { return stripBottom - rate*(stripBottom-stripTop) }

// describe formats the episodes, e.g. "2026-01-03 to 2026-01-05; since 2026-02-01".
func (s *strip) describe() string {
	if len(s.Episodes) == 0 {
		return "never"
	}
	text := ""
	for i, e := range s.Episodes {
		if i > 0 {
			text += "; "
		}
		switch {
		case e.Open:
			text += "since " + e.From
		case e.Days == 1:
			text += "on " + e.From
		default:
			text += e.From + " to " + e.To
		}
	}
	return text
}
