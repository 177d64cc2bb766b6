package web

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/web/overview"
)

const historyDays = 90 // days of a history

var today = time.Now().UTC().Truncate(24 * time.Hour)

// A past is graded sessions: so many a day of a version, from a day on until another.
type past struct {
	version     string
	from, until int // days ago
	graded      int // a day
	rate        float64
}

func historyOf(all ...past) skillHistory {
	days := func() []overview.Day {
		empty := make([]overview.Day, historyDays)
		for i := range empty {
			empty[i].Date = today.AddDate(0, 0, i-historyDays+1).Format(time.DateOnly)
		}
		return empty
	}
	h := skillHistory{Days: days(), Versions: map[string][]overview.Day{}, Window: 30}
	for _, p := range all {
		if p.version != "" {
			if h.Versions[p.version] == nil {
				h.Versions[p.version] = days()
			}
			h.Tenures = append(h.Tenures, overview.Tenure{
				VersionID: p.version, Version: p.version, Eligible: true, Since: today.AddDate(0, 0, -p.from).Add(time.Hour),
			})
		}
		for ago := p.from; ago >= p.until; ago-- {
			addPast(&h.Days[historyDays-1-ago], p.graded, p.rate)
			if p.version != "" {
				addPast(&h.Versions[p.version][historyDays-1-ago], p.graded, p.rate)
			}
		}
	}
	return h
}

func addPast(d *overview.Day, graded int, rate float64) {
	if graded == 0 {
		return
	}
	sum := rate * float64(graded)
	if d.PassRate != nil {
		sum += *d.PassRate * float64(d.Graded)
	}
	d.Sessions += int64(graded)
	d.Graded += int64(graded)
	all := sum / float64(d.Graded)
	d.PassRate = &all
}

func diagnosisText(d diagnosis) string {
	text := d.Text
	if d.At != nil {
		text += " on day " + d.At.Format("2")
	}
	if d.Then != "" {
		text += "; " + d.Then
	}
	return strings.ReplaceAll(text, "\u202f", " ")
}

func TestDiagnose(t *testing.T) {
	t.Parallel()
	day := func(ago int) string { return today.AddDate(0, 0, -ago).Format("2") }
	for name, c := range map[string]struct {
		past []past
		want string
		good string
	}{
		"nothing":          {nil, "No session in 90 days", ""},
		"few":              {[]past{{"", 1, 1, 3, 1}}, "Not enough graded sessions: 3 of 20 in 30 days", ""},
		"steady":           {[]past{{"", 60, 0, 5, 0.9}}, "Steady at 90 %", ""},
		"steady and bad":   {[]past{{"1.0.0", 60, 0, 5, 0.4}}, "Steady at 40 %", ""},
		"steady, versions": {[]past{{"1.0.0", 60, 31, 5, 0.9}, {"1.1.0", 30, 0, 5, 0.92}}, "Steady at 92 %", ""},
		"silent":           {[]past{{"1.0.0", 60, 20, 5, 0.9}}, "No session for 20 days", ""},
		"fell":             {[]past{{"1.3.0", 60, 4, 5, 0.92}, {"1.4.0", 3, 0, 10, 0.43}}, "Fell from 92 % to 43 % with 1.4.0 on day " + day(3), "1.3.0"},
		"fell, few after":  {[]past{{"1.3.0", 60, 1, 5, 0.92}, {"1.4.0", 0, 0, 9, 0.1}}, "1.4.0 is at 10 %, all versions together at 87 %", ""},
		"fell, very few":   {[]past{{"1.3.0", 60, 1, 5, 0.92}, {"1.4.0", 0, 0, 4, 0.1}}, "Steady at 90 %", ""},
		"low by chance":    {[]past{{"1.3.0", 60, 1, 5, 0.92}, {"1.4.0", 0, 0, 5, 0.7}}, "Steady at 91 %", ""},
		"fell, few before": {[]past{{"1.3.0", 60, 45, 1, 0.92}, {"1.4.0", 29, 0, 5, 0.43}}, "Steady at 43 %", ""},
		"fell two ago":     {[]past{{"1.3.0", 60, 21, 5, 0.92}, {"1.4.0", 20, 11, 5, 0.43}, {"1.4.1", 10, 0, 5, 0.45}}, "Fell from 92 % to 44 % with 1.4.0 on day " + day(20), "1.3.0"},
		"rolled back":      {[]past{{"1.3.0", 60, 13, 5, 0.92}, {"1.4.0", 12, 1, 5, 0.4}, {"1.3.0", 0, 0, 0, 0}}, "Fell from 92 % to 40 % with 1.4.0 on day " + day(12) + "; 1.3.0 is current", ""},
		"back for a while": {[]past{{"1.3.0", 60, 13, 5, 0.92}, {"1.4.0", 12, 9, 5, 0.4}, {"1.3.0", 8, 0, 5, 0.92}}, "Rose from 40 % to 92 % with 1.3.0 on day " + day(8), "1.4.0"},
		"rose":             {[]past{{"1.3.0", 60, 11, 5, 0.6}, {"1.4.0", 10, 0, 5, 0.95}}, "Rose from 60 % to 95 % with 1.4.0 on day " + day(10), "1.3.0"},
		"rose long ago":    {[]past{{"1.3.0", 80, 41, 5, 0.6}, {"1.4.0", 40, 0, 5, 0.95}}, "Steady at 95 %", ""},
		"fell without one": {[]past{{"", 60, 11, 5, 0.9}, {"", 10, 0, 5, 0.5}}, "Fell from 90 % to 50 % on day " + day(10), ""},
		"fell of one":      {[]past{{"1.0.0", 60, 11, 5, 0.9}, {"1.0.0", 10, 0, 5, 0.5}}, "Fell from 90 % to 50 % while 1.0.0 was current on day " + day(10), ""},
		"fell a little":    {[]past{{"1.0.0", 60, 11, 50, 0.92}, {"1.1.0", 10, 0, 50, 0.89}}, "Steady at 91 %", ""},
		"updates are slow": {[]past{{"1.0.0", 60, 0, 5, 0.92}, {"1.1.0", 10, 0, 5, 0.4}}, "Fell from 92 % to 40 % with 1.1.0 on day " + day(10), "1.0.0"},
	} {
		h := historyOf(c.past...)
		d := diagnose(h)
		if got := diagnosisText(d); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if d.Good != c.good && d.Fallen() {
			t.Errorf("%s: a rollback goes to %q, want %q", name, d.Good, c.good)
		}
	}
}

// TestDiagnoseNoise: sessions that are all alike are hardly ever called a change, although the
// page is looked at again and again. Not all days need be alike, either.
func TestDiagnoseNoise(t *testing.T) {
	t.Parallel()
	const skills = 250
	for name, c := range map[string]struct {
		rate, spread float64 // of the days
		graded       int
		versions     int // days between them; 0: none
		most         float64
	}{
		"one version":           {0.9, 0, 5, 0, 0.02},
		"a version every week":  {0.9, 0, 5, 7, 0.03},
		"one every other day":   {0.8, 0, 12, 2, 0.03},
		"few sessions":          {0.85, 0, 1, 14, 0.02},
		"days that differ":      {0.8, 0.12, 10, 14, 0.04},
		"days that differ, one": {0.8, 0.12, 10, 0, 0.04},
	} {
		random := rand.New(rand.NewPCG(1, 2))
		called := 0
		for range skills {
			if everCalled(random, c.rate, c.spread, c.graded, c.versions) {
				called++
			}
		}
		if share := float64(called) / skills; share > c.most {
			t.Errorf("%s: %.1f %% of the skills are called changed in four weeks, want at most %.0f %%", name, 100*share, 100*c.most)
		}
	}
}

// everCalled plays 90 days of a skill that does not change, of which the last 28 are
// looked at each week.
func everCalled(random *rand.Rand, rate, spread float64, graded, versions int) bool {
	var all []past
	for ago := historyDays - 1; ago >= 0; ago-- {
		version, of := "1.0.0", rate
		if versions > 0 {
			version = "1." + time.Duration((historyDays-1-ago)/versions).String()
		}
		if spread > 0 {
			of = min(max(rate+spread*random.NormFloat64(), 0), 1)
		}
		passed := 0
		for range graded {
			if random.Float64() < of {
				passed++
			}
		}
		all = append(all, past{version, ago, ago, graded, float64(passed) / float64(graded)})
	}
	for _, look := range []int{21, 14, 7, 0} {
		h := historyOf(all[:historyDays-look]...)
		h.Days = h.Days[:historyDays-look]
		for id, days := range h.Versions {
			h.Versions[id] = days[:historyDays-look]
		}
		if d := diagnose(h); d.Kind == fell || d.Kind == rose {
			return true
		}
	}
	return false
}
