package signals_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// testInventedCohorts: a member surrounds the signals of one colleague with
// invented cohorts, in every way that a body can name them, and queries the figures
// before and after.
func testInventedCohorts(t *testing.T, db *store.DB) {
	w := newWorld(t, db)
	owner := w.org(t)
	victim, mallory := w.member(t, owner.Org, access.Member), w.member(t, owner.Org, access.Member)
	for _, grade := range []string{"F", "F", "A"} {
		victim.post(sessionBody("pdf", "victim", "2026-W07", object{"triggered": true, "execution_grade": grade})).
			want(http.StatusCreated)
	}
	victim.post(batch(signal("pdf", "missed_trigger", "victim", 0.5, ""))).want(http.StatusOK)
	mallory.wantNoFigures("pdf")
	owner.republish()
	mallory.wantNoFigures("pdf")

	for n := range 12 {
		cohort := fmt.Sprint("invented", n)
		mallory.post(batch(signal("pdf", "missed_trigger", "signal"+cohort, 0.5, cohort))).want(http.StatusOK)
		body := batch(signal("pdf", "missed_trigger", "body"+cohort, 0.5, ""))
		body["user_cohort"] = cohort
		mallory.post(body).want(http.StatusOK)
		mallory.post(sessionBody("pdf", cohort, "2026-W07", object{"triggered": true, "execution_grade": "F"})).want(http.StatusCreated)
		mallory.post(sessionBody("pdf", cohort, "2026-W07", object{"miss_detected": true, "query_bucket": "search"})).
			want(http.StatusCreated)
	}
	mallory.wantNoFigures("pdf")
	owner.republish()
	mallory.wantNoFigures("pdf")

	w.member(t, owner.Org, access.Member).post(batch(signal("pdf", "missed_trigger", "third", 0.5, ""))).want(http.StatusOK)
	owner.republish()
	row := mallory.get(overviewPath).want(http.StatusOK).object()["skills"].([]any)[0].(object)
	if row["contributor_count"] != 3.0 {
		t.Errorf("%v contributors, want three users", row["contributor_count"])
	}
	if d := mallory.get(skillPath + "pdf").want(http.StatusOK).object(); d["grade_distribution"].(object)["F"] != nil {
		t.Errorf("grades of two people are shown: %v", d["grade_distribution"])
	}
}

// wantNoFigures sends every query, and wants no figure about the skill.
func (c *client) wantNoFigures(skill string) {
	c.T.Helper()
	all := object{}
	for _, path := range []string{aggregatesPath, aggregatesPath + "?bucket=week&skill_name=" + skill, overviewPath, skillPath + skill} {
		all[path] = c.get(path).want(http.StatusOK).object()
		if all[path].(object)["as_of"] == nil { // no figures at all
			delete(all, path)
		}
	}
	findings, err := c.w.signals.Findings(c.T.Context(), c.Org.ID)
	if err != nil || len(findings) > 0 {
		c.T.Errorf("findings %+v, %v", findings, err)
	}
	var look func(path string, value any)
	look = func(path string, value any) {
		switch value := value.(type) {
		case object:
			for name, inner := range value {
				look(path+" "+name, inner)
			}
		case []any:
			for _, inner := range value {
				look(path, inner)
			}
		case float64:
			if name := path[strings.LastIndex(path, " ")+1:]; name != "skills" && name != "active_skills" && name != "pending_proposals" {
				c.T.Errorf("%s is %v, want it withheld", path, value)
			}
		}
	}
	look("", all)
}

// TestRelay: cohorts are accepted from a relay; other keys get a warning that
// theirs are ignored.
func TestRelay(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		relay := w.org(t)
		for n := range 3 {
			a := relay.post(batch(signal("pdf", "x", fmt.Sprint(n), 0.5, fmt.Sprint("cohort", n)))).want(http.StatusOK).object()
			if a["warnings"] != nil {
				t.Errorf("a relay is warned: %v", a)
			}
		}
		if got := relay.get(overviewPath).object()["total_contributors"]; got != 3.0 {
			t.Errorf("%v contributors, want the relay's three", got)
		}
		member := w.member(t, relay.Org, access.Member)
		a := member.post(batch(signal("pdf", "x", "member", 0.5, "cohort9"))).want(http.StatusOK).object()
		if text := fmt.Sprint(a["warnings"]); !strings.Contains(text, "user_cohort was not used") ||
			!strings.Contains(text, "key create --relay") {
			t.Errorf("a member's cohort: %v, want a warning", a)
		}
		if a := member.post(batch(signal("pdf", "x", "plain", 0.5, ""))).want(http.StatusOK).object(); a["warnings"] != nil {
			t.Errorf("without a cohort: %v, want no warning", a)
		}
	})
}

// TestMinContributors: k = 1 shows everything, a larger k suppresses more.
// Proposals need three contributors in any case.
func TestMinContributors(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		relay := w.org(t)
		w.signals.MinContributors = 1
		for n := range 12 {
			relay.post(batch(signal("pdf", "missed_trigger", fmt.Sprint(n), 0.5, fmt.Sprint("cohort", n%2)))).want(http.StatusOK)
		}
		relay.post(sessionBody("pdf", "cohort0", "2026-W07", object{"triggered": true, "execution_grade": "F"})).
			want(http.StatusCreated)
		o := relay.get(overviewPath).want(http.StatusOK).object()
		if o["total_signals"] != 13.0 || o["total_contributors"] != 2.0 || o["suppressed"] != nil {
			t.Errorf("where one is enough: %v", o)
		}
		if d := relay.get(skillPath + "pdf").want(http.StatusOK).object(); d["grade_distribution"].(object)["F"] != 1.0 ||
			d["suppressed"] != nil {
			t.Errorf("where one is enough: %v", d)
		}
		if findings, err := w.signals.Findings(t.Context(), relay.Org.ID); err != nil || len(findings) > 0 {
			t.Errorf("two people make a finding: %+v, %v", findings, err)
		}
		relay.post(batch(signal("pdf", "missed_trigger", "third", 0.5, "cohort2"))).want(http.StatusOK)
		if findings, err := w.signals.Findings(t.Context(), relay.Org.ID); err != nil || len(findings) != 1 {
			t.Errorf("findings of three people: %+v, %v", findings, err)
		}
		for k, shown := range map[int]bool{2: true, 3: true, 4: false} {
			w.signals.MinContributors = k
			o := relay.get(overviewPath).want(http.StatusOK).object()
			if (o["total_signals"] != nil) != shown {
				t.Errorf("of three, where %d are needed: %v", k, o)
			}
		}
	})
}
