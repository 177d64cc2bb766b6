package skills_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// TestBasis: of the grades of a session the one with the highest basis counts, and
// a pass rate names its basis.
func TestBasis(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		for _, step := range []struct {
			of      basis.Basis
			session string
			rate    float64
			want    object
		}{
			{basis.Outcome, "a", 0, object{
				"pass_rate": 0.0, "pass_rate_basis": "outcome",
				"pass_rates_by_basis": object{"outcome": 0.0}, "graded_sessions_by_basis": object{"outcome": 1.0},
			}},
			{basis.Judge, "a", 0.5, object{"pass_rate": 0.5, "pass_rate_basis": "judge", "pass_rates_by_basis": object{"judge": 0.5}}},
			{"", "a", 0.75, object{"pass_rate": 0.75, "pass_rate_basis": "pushed", "pass_rates_by_basis": object{"pushed": 0.75}}},
			{basis.Person, "a", 1, object{"pass_rate": 1.0, "pass_rate_basis": "person", "pass_rates_by_basis": object{"person": 1.0}}},
			{basis.Judge, "b", 0, object{
				"pass_rate": 0.5, "pass_rate_basis": "mixed", "graded_sessions": 2,
				"pass_rates_by_basis": object{"person": 1.0, "judge": 0.0}, "graded_sessions_by_basis": object{"person": 1.0, "judge": 1.0},
			}},
			{basis.Outcome, "a", 0, object{"pass_rate": 0.5, "pass_rates_by_basis": object{"person": 1.0, "judge": 0.0}}},
		} {
			r.report(skills.Report{Gradings: []skills.Grading{{
				ID: r.id(string(step.of) + step.session), Basis: step.of, SkillName: "pdf", Session: step.session, PassRate: &step.rate,
				At: time.Now(),
			}}})
			wantFields(t, r.skill("pdf"), step.want)
		}
		item := r.Get("/v1/skills").List("skills")[0]
		wantFields(t, item, object{"pass_rate_basis": "mixed", "pass_rates_by_basis": object{"person": 1.0, "judge": 0.0}})
		wantSummaries(t, r)
		r.report(skills.Report{Withdrawn: []string{r.id("persona"), r.id("judgea"), r.id("a"), r.id("outcomea")}})
		wantFields(t, r.skill("pdf"), object{"pass_rate": 0.0, "pass_rate_basis": "judge", "graded_sessions": 1})
		r.report(skills.Report{Withdrawn: []string{r.id("judgeb"), r.id("unknown")}})
		wantFields(t, r.skill("pdf"), object{
			"pass_rate": nil, "pass_rate_basis": nil, "pass_rates_by_basis": object{}, "graded_sessions": 0, "has_evidence": false,
		})
		r.wantNoFindings()
	})
}

// verdict is one grading of the model below.
type verdict struct {
	of      basis.Basis
	session string
	rate    int64 // in quarters
	at      time.Time
}

// TestBasisRandomly: grades of all bases that are made, replaced and withdrawn in
// any order give the rates of a recount.
func TestBasisRandomly(t *testing.T) {
	apptest.FewChecks(t, 25)
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		number := 0
		start := time.Now().UTC().Truncate(24 * time.Hour)
		rapid.Check(t, func(rt *rapid.T) {
			number++
			skill, known := fmt.Sprint("skill-", number), map[string]verdict{}
			for n := range rapid.IntRange(1, 12).Draw(rt, "reports") {
				v := verdict{
					of:      rapid.SampledFrom([]basis.Basis{basis.Person, basis.Pushed, basis.Judge, basis.Outcome}).Draw(rt, "basis"),
					session: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "session"),
					rate:    rapid.Int64Range(0, 4).Draw(rt, "rate"),
					at:      start.AddDate(0, 0, -rapid.SampledFrom([]int{0, 0, 1, 29, 30}).Draw(rt, "days")).Add(time.Duration(n) * time.Second),
				}
				id := fmt.Sprint(skill, v.of, v.session, rapid.IntRange(0, 1).Draw(rt, "id"))
				if rapid.IntRange(0, 4).Draw(rt, "withdrawn") == 0 {
					delete(known, id)
					r.report(skills.Report{Withdrawn: []string{r.id(id)}})
					continue
				}
				if old, ok := known[id]; !ok || v.at.After(old.at) {
					known[id] = v
				}
				rate := float64(v.rate) / 4
				r.report(skills.Report{Gradings: []skills.Grading{{
					ID: r.id(id), Basis: v.of, SkillName: skill, Session: v.session, PassRate: &rate, At: v.at,
				}}})
			}
			answer := r.Get("/v1/skills/" + skill).Object()
			got, ok := answer["skill"].(object)
			if !ok { // nothing but withdrawals
				return
			}
			want := ratesOf(known, start.AddDate(0, 0, -29))
			some := object{}
			for key := range want {
				some[key] = got[key]
			}
			if diff := cmp.Diff(want, some); diff != "" {
				rt.Errorf("(-want +got):\n%s", diff)
			}
		})
		r.wantNoFindings()
	})
}

// ratesOf recounts the rates of the window that begins at a time.
func ratesOf(known map[string]verdict, since time.Time) object {
	bySession := map[string][]verdict{}
	for _, v := range known {
		bySession[v.session] = append(bySession[v.session], v)
	}
	sums, counts := map[basis.Basis]float64{}, map[basis.Basis]float64{}
	var sum, count float64
	for _, all := range bySession {
		precedence := []basis.Basis{basis.Person, basis.Pushed, basis.Judge, basis.Outcome}
		highest := slices.MinFunc(all, func(a, b verdict) int {
			return slices.Index(precedence, a.of) - slices.Index(precedence, b.of)
		}).of
		var rate, n float64
		newest := time.Time{}
		for _, v := range all {
			if v.of != highest {
				continue
			}
			rate, n = rate+float64(v.rate)/4, n+1
			if v.at.After(newest) {
				newest = v.at
			}
		}
		if newest.Before(since) {
			continue
		}
		sum, count = sum+rate/n, count+1
		sums[highest], counts[highest] = sums[highest]+rate/n, counts[highest]+1
	}
	want := object{"pass_rate": nil, "pass_rate_basis": nil, "graded_sessions": count}
	rates := object{}
	for b, n := range counts {
		rates[string(b)] = sums[b] / n
		want["pass_rate_basis"] = string(b)
	}
	if len(rates) > 1 {
		want["pass_rate_basis"] = "mixed"
	}
	if want["pass_rates_by_basis"] = rates; count > 0 {
		want["pass_rate"] = sum / count
	}
	return want
}
