package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// inputs are the values of the fields of a page's forms, by name.
func (p *page) inputs() map[string]string {
	all := map[string]string{}
	for _, n := range p.all("input") {
		if attr(n, "type") != "hidden" {
			all[attr(n, "name")] = attr(n, "value")
		}
	}
	for _, n := range p.all("textarea") {
		all[attr(n, "name")] = textOf(n)
	}
	return all
}

func TestGraderPage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		admin, viewer := w.as(access.AdminRole), w.as(access.Viewer)
		admin.push("pdf", "1.0.0", map[string]string{"SKILL.md": skillText("pdf", "Reads tables of PDF files", "- Always name the page of each table.\n")})
		admin.traced("first", "pdf", time.Now().Add(-2*time.Hour))
		path := "/skills/" + admin.skillID("pdf") + "/grader"
		if href := viewer.get("/skills/pdf?tab=failures").href("Grader"); href != path {
			t.Errorf("the skill leads to %q", href)
		}
		p := admin.get("/skills/pdf/grader").want(http.StatusOK)
		checkPage(t, p)
		p.wantText("Grader of pdf", "This is a draft", "This server has no model as a judge", "This organisation keeps none").wantForms(path)
		if got := p.inputs(); !strings.Contains(got["expectations"], "Always name the page of each table") ||
			got["sample_per_day"] != "20" || got["max_cost_usd_per_day"] != "1" || got["threshold"] != "100" {
			t.Errorf("the form has %v", got)
		}
		checkPage(t, viewer.get(path).want(http.StatusOK).wantText("No session is graded by it", "Expectations draft", "An admin of the organisation").wantForms())

		form := func(pairs ...string) url.Values {
			f := url.Values{
				"enabled": {"on"}, "expectations": {"It names the page.\r\n\r\n  It keeps the order. \r\n"}, "sample_per_day": {""},
				"max_cost_usd_per_day": {"0,5"}, "threshold": {"75"},
			}
			for i := 0; i < len(pairs); i += 2 {
				f.Set(pairs[i], pairs[i+1])
			}
			return f
		}
		grader := func(path string) apptest.Object {
			return admin.api.Get(path).Want(http.StatusOK).Object()["grader"].(apptest.Object)
		}
		admin.post(path, form()).wantLocation(path)
		saved := object{
			"enabled": true, "expectations": []any{"It names the page.", "It keeps the order."}, "sample_per_day": nil,
			"max_cost_usd_per_day": 0.5, "threshold": 0.75, "inherited": false, "unusable": 0.0,
		}
		if diff := cmp.Diff(saved, grader("/v1/skills/pdf/grader")); diff != "" {
			t.Errorf("grader (-want +got):\n%s", diff)
		}
		p = admin.get(path).wantText("The grader was saved.").wantNoText("This is a draft")
		checkPage(t, p)
		if got := p.inputs(); got["sample_per_day"] != "" || got["max_cost_usd_per_day"] != "0.5" || got["threshold"] != "75" {
			t.Errorf("the form has %v", got)
		}
		viewer.get(path).wantText("The judge reads all sessions of the skill in a day, for at most $0.5. A session passed if it meets 75 %")

		for field, bad := range map[string]struct{ value, problem string }{
			"expectations":         {strings.Repeat("x\n", 51), "Enter at most 50 expectations"},
			"sample_per_day":       {"1.5", "Sessions per day must be a whole number up to 100000, or empty for all"},
			"max_cost_usd_per_day": {"-1", "Dollars per day must be a number up to 100000, or empty for no limit"},
			"threshold":            {"101", "The threshold must be a number from 0 to 100"},
		} {
			p := admin.post(path, form(field, bad.value)).want(http.StatusBadRequest)
			checkPage(t, p)
			p.wantText(bad.problem)
			if got := p.inputs()[field]; got != strings.Join(strings.Fields(bad.value), " ") {
				t.Errorf("%s became %q", field, got)
			}
		}
		admin.post(path, form("expectations", strings.Repeat("x", 1001))).want(http.StatusBadRequest).wantText("Expectation 1 has more than 1000 bytes")
		if diff := cmp.Diff(saved, grader("/v1/skills/pdf/grader")); diff != "" {
			t.Errorf("grader after bad forms (-want +got):\n%s", diff)
		}

		const shared = "/settings/grader"
		checkPage(t, admin.get(shared).want(http.StatusOK).wantText("all skills that have no grader of their own").wantForms(shared))
		admin.post(shared, form("enabled", "", "threshold", "50")).wantLocation(shared)
		if got := grader("/api/v1" + shared); got["threshold"] != 0.5 || got["enabled"] != false {
			t.Errorf("the grader of all skills: %v", got)
		}
		admin.traced("second", "zip", time.Now().Add(-2*time.Hour))
		admin.get("/skills/zip/grader").wantText("This is the grader of all skills")

		other := w.otherOrg(access.Team)
		for _, b := range []*browser{viewer, w.as(access.Member)} {
			b.post(path, form()).want(http.StatusForbidden)
			b.post(shared, form()).want(http.StatusForbidden)
		}
		other.get(path).want(http.StatusNotFound)
		other.post(path, form()).want(http.StatusNotFound)
		admin.get("/skills/none/grader").want(http.StatusNotFound)
	})
}
