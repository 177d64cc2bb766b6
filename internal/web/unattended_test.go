package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

func TestImprovePolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	admin, viewer := w.as(access.Owner), w.as(access.Viewer)
	entry := admin.push("pdf", "1.0.0", map[string]string{"SKILL.md": skillText("pdf", "Reads tables", "x")})
	suite := id(admin.newSuite("Queries", invoices...))
	const path = "/skills/pdf?tab=improve"
	skill := admin.get(path).want(http.StatusOK).wantText("Nightly improvement", "A skill is improved with the cases of a suite", "Publish needs the gate in the mode enforce")
	checkPage(t, skill)
	policy := "/skills/" + admin.api.Get("/v1/skills/pdf").Want(http.StatusOK).Text("skill", "skill_id") + "/improve-policy"
	if !strings.Contains(skill.body, `action="`+policy+`"`) {
		t.Errorf("the page has no form for %s", policy)
	}
	viewer.get(path).want(http.StatusOK).wantText("off at most").wantForms()
	viewer.post(policy, url.Values{"mode": {"propose"}, "monthly_usd": {"5"}}).want(http.StatusForbidden)
	admin.api.Do(http.MethodPut, "/api/v1/registry/"+entry+"/gate-policy", object{"mode": "report", "suites": []string{suite}}).Want(http.StatusOK)
	checkPage(t, admin.post(policy, url.Values{"mode": {"publish"}, "monthly_usd": {"5"}}).want(http.StatusConflict).
		wantText("the gate policy of pdf is report, and must be enforce"))
	admin.post(policy, url.Values{"mode": {"propose"}, "monthly_usd": {"much"}}).want(http.StatusBadRequest).wantText("must be dollars")
	admin.post(policy, url.Values{"mode": {"propose"}, "monthly_usd": {"7.5"}}).want(http.StatusSeeOther)
	checkPage(t, admin.get(path).want(http.StatusOK).wantText("The improve policy is propose", "With the suite Queries"))
	viewer.get(path).want(http.StatusOK).wantText("propose at most $7.50 a month")
	w.Exec("UPDATE improve_policies SET note = 'Nothing to do.', night = '2026-01-02'")
	checkPage(t, viewer.get(path).want(http.StatusOK).wantText("Nothing to do. 2026-01-02"))
}
