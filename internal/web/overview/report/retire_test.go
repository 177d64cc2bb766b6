package report_test

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/comparisons"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/web/overview/listing"
	"github.com/whetstone-dev/whetstone/internal/web/overview/report"
)

// compared stores the comparison of a skill with none: what the first arm shows against the second.
func (r *room) compared(id, name, version, kind string, noneFirst bool) {
	r.T.Helper()
	entry := r.id(name)
	with := api.ComparedArm{Name: "with", EntryID: &entry, Version: &version}
	arms := []api.ComparedArm{with, {Name: "without", NoSkill: true}}
	pair := api.ComparedPair{
		A: "with", B: "without", Cases: 12, Difference: -0.25, Interval: [2]float64{-0.5, 0.125}, Verdict: "no_difference_shown",
		Cost: &api.EvalFigure{Value: 2.5, Interval: [2]float64{2, 4}},
	}
	if noneFirst {
		arms[0], arms[1], pair.A, pair.B = arms[1], arms[0], "without", "with"
	}
	result, err := json.Marshal(comparisons.Result{
		Arms: arms, Pairs: []api.ComparedPair{pair}, Recommendation: api.ComparisonRecommendation{Kind: kind, Reason: "As " + kind + "."},
	})
	if err != nil {
		r.T.Fatalf("%v", err)
	}
	r.exec(`INSERT INTO comparisons (id, org_id, suite_id, status, trials, preference, margin, seed, result, created_by, created_at)
		VALUES ($1, $2, 'suite', 'succeeded', 1, $3, 0.05, 1, $4, $5, 0)`, id, r.Org.ID, false, string(result), r.User.ID)
	r.exec(`INSERT INTO comparison_arms (comparison_id, position, name, subject, entry_id, label, run_id, conditions, reused)
		VALUES ($1, 0, 'with', '{"x":1}', $2, $3, 'run', '', $4), ($1, 1, 'without', '{}', NULL, '', 'run', '', $4)`,
		id, entry, version, false)
}

// TestRetire lists the skills whose current version gives nothing, with what they cost.
func TestRetire(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		body := "---\nname: idle\ndescription: Does idle things.\n---\n" + strings.Repeat("Do nothing. ", 50)
		for _, name := range []string{"idle", "unpriced", "useful", "changed", "untested"} {
			text := body
			if name == "unpriced" {
				text = ""
			}
			r.publish(90, name, "Does "+name+" things.", text)
		}
		for i := range 4 {
			session := string(rune('a' + i))
			r.observe(skills.Observation{SkillName: "idle", Session: session, Offered: true})
			if i == 0 {
				r.observe(skills.Observation{SkillName: "idle", Session: session, Triggered: true})
			}
		}
		r.pay("a", 2)
		r.compared("c1", "idle", "1.0.0", "keep", false)
		r.compared("c2", "idle", "1.0.0", "retire", false) // the newest counts
		r.compared("c3", "unpriced", "1.0.0", "retire", true)
		r.compared("c4", "useful", "1.0.0", "retire", false)
		r.compared("c5", "useful", "1.0.0", "keep", true)
		r.compared("c6", "changed", "0.9.0", "retire", false) // of an earlier version
		got := r.of(report.Options{Days: 60}).Retire
		if len(got) != 2 || got[0].Name != "idle" || got[1].Name != "unpriced" || got[1].CostUSDMonth != nil {
			t.Fatalf("to retire are %+v, want idle and then unpriced, whose SKILL.md isn't known", got)
		}
		price, _ := pricing.Embedded().Lookup("claude-sonnet-4-5", time.Now())
		tokens := 4*listing.TokensOf("- idle: Does idle things.\n") + listing.TokensOf(body)
		if want := price.Standing(tokens, 2) / 2; got[0].CostUSDMonth == nil || math.Abs(*got[0].CostUSDMonth-want) > 1e-12 {
			t.Errorf("idle costs %v a month, want %v: 4 listings and 1 load in 60 days", got[0].CostUSDMonth, want)
		}
		if got[0].ComparisonID != "c2" || got[0].Reason != "As retire." || got[0].SkillID == nil {
			t.Errorf("idle is %+v", got[0])
		}
		shown := r.Get("/api/v1/catalogue-report").Want(http.StatusOK).List("retire")
		if len(shown) != 2 || shown[0]["comparison_id"] != "c2" || shown[1]["cost_usd_month"] != nil {
			t.Errorf("the API shows %v", shown)
		}
		if other := r.World.Org("other").Get("/api/v1/catalogue-report").Want(http.StatusOK).List("retire"); len(other) != 0 {
			t.Errorf("another organisation sees %v", other)
		}

		// All figures are of the skill against none, whichever arm is the first.
		found, err := comparisons.Findings(t.Context(), db, r.Org.ID, []string{r.id("idle"), r.id("useful"), r.id("untested")})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]comparisons.Finding{
			r.id("idle"): {
				ComparisonID: "c2", Version: "1.0.0", Cases: 12, Difference: 0.25, Interval: [2]float64{-0.125, 0.5},
				Verdict: "no_difference_shown", Cost: &api.EvalFigure{Value: 0.4, Interval: [2]float64{0.25, 0.5}},
				Retire: true, Reason: "As retire.",
			},
			r.id("useful"): {
				ComparisonID: "c5", Version: "1.0.0", Cases: 12, Difference: -0.25, Interval: [2]float64{-0.5, 0.125},
				Verdict: "no_difference_shown", Cost: &api.EvalFigure{Value: 2.5, Interval: [2]float64{2, 4}}, Reason: "As keep.",
			},
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("findings (-want +got):\n%s", diff)
		}
	})
}
