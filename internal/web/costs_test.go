package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// spend reports a session of a skill whose requests cost money: at list prices, of
// a model without a price, and without a skill. It was offered the skill, and so was
// another session, which did not use it; a third name was called in vain.
func (b *browser) spend(skill string) {
	b.w.T.Helper()
	now := time.Now().UTC().Format(time.RFC3339Nano)
	request := func(pairs ...any) object {
		r := object{
			"session_id": "paid", "occurred_at": now, "request_id": uuid.NewString(), "source_prompt_id": "p",
			"model": "claude-sonnet-4-5", "input_tokens": 1000, "output_tokens": 100,
		}
		for i := 0; i < len(pairs); i += 2 {
			r[pairs[i].(string)] = pairs[i+1]
		}
		return r
	}
	b.api.Post("/api/v1/push", object{"canonical": object{
		"skill_offers": []object{
			{"session_id": "paid", "occurred_at": now, "skill_names": []string{skill}},
			{"session_id": "idle", "occurred_at": now, "skill_names": []string{skill}},
		},
		"skill_invocations": []object{
			{"skill_invocation_id": uuid.NewString(), "session_id": "paid", "occurred_at": now, "skill_name": skill, "triggered": true},
			{"skill_invocation_id": uuid.NewString(), "session_id": "paid", "occurred_at": now, "skill_name": "made-up", "triggered": false, "unconfirmed": true},
		},
		"model_requests": []object{
			request("skill_name", skill), request("skill_name", "bare", "model", "our-own", "source_prompt_id", "q"),
			request("output_tokens", 1100),
		},
	}}).Want(http.StatusCreated)
}

// rows are the texts of the rows of the page's tables, without heads.
func (p *page) rows() (all []string) {
	for _, row := range p.all("tr") {
		if row.Parent.Data == "tbody" {
			all = append(all, textOf(row))
		}
	}
	return all
}

func TestCosts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		viewer, member := w.as(access.Viewer), w.as(access.Member)
		checkPage(t, viewer.get("/costs").want(http.StatusOK).wantText("No model requests"))
		member.spend("pdf")
		p := viewer.get("/costs").want(http.StatusOK)
		checkPage(t, p)
		p.wantText("Total $0.024", "With a skill $0.0045 2 skills", "Without a skill $0.0195 81 % of the total")
		// The price of our-own is unknown, which is not 0.
		rows := p.rows()
		days, rest := rows[:30], rows[30:]
		want := []string{"pdf $0.0045 19 % 1", "bare – – 1", "claude-sonnet-4-5 2 67 % 67 %", "our-own 1 33 % 33 %"}
		if diff := cmp.Diff(want, rest); diff != "" {
			t.Errorf("by skill and model (-want +got):\n%s", diff)
		}
		if today := days[29]; !strings.HasSuffix(today, " $0.024") || !strings.HasSuffix(days[28], " $0.00") {
			t.Errorf("the days cost %v", days)
		}
		for query, want := range map[string]string{"": "30 days", "?days=7": "7 days", "?days=8": "30 days", "?days=x": "30 days"} {
			viewer.get("/costs" + query).want(http.StatusOK).wantText("the last " + want + ", today included")
		}
		viewer.get("/costs?page=99").wantLocation("/costs?page=1")
		w.otherOrg(access.Team).get("/costs").want(http.StatusOK).wantText("No model requests")

		p = viewer.get("/skills/pdf").want(http.StatusOK)
		checkPage(t, p)
		p.wantText("Trigger rate, 30 days 50 % of 2 sessions that offered it", "Cost per use $0.0045 median of 30 days")
		p = viewer.get("/skills/pdf?tab=cost").want(http.StatusOK)
		checkPage(t, p)
		p.wantText("Per use, median $0.0045 95 % cost at most $0.0045",
			"Per success –", "Total $0.0045 1 request, computed from tokens",
			"Tokens 1 100 1 000 in, 100 out, 0 read from the cache, 0 written to it")
		viewer.get("/skills/bare?tab=cost").wantText("Total – 1 request, price unknown", "The price of 1 request is unknown")
		if row := viewer.get("/skills").want(http.StatusOK).rows()[0]; !strings.Contains(row, " $0.0045 ") {
			t.Errorf("the list of skills says %q", row)
		}
	})
}

// TestVersionCosts: the versions of a skill are compared by cost, too, and show how
// their uses are known.
func TestVersionCosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Owner)
	entry := b.push("pdf", "1.0.0", map[string]string{"SKILL.md": skillText("pdf", "Reads", "x")})
	b.spend("pdf")
	b.get("/skills/pdf?tab=versions").want(http.StatusOK).wantText("Cost per use Known by", "$0.0045 time 1")
	b.get("/skills/pdf?tab=cost").wantText("estimate: name and description")
	b.get("/registry/"+entry).want(http.StatusOK).wantText("Cost per use", "$0.0045")
}

func TestSkillStanding(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		admin, member := w.as(access.AdminRole), w.as(access.Member)
		member.spend("pdf")
		member.sessions("acme:pdf", time.Now(), 1)
		names := func(query string) (all []string) {
			for _, row := range member.get("/skills" + query).want(http.StatusOK).rows() {
				all = append(all, strings.Fields(row)[0])
			}
			return all
		}
		wantNames := func(query string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, names(query)); diff != "" {
				t.Errorf("/skills%s (-want +got):\n%s", query, diff)
			}
		}
		change := func(skill, change string, pairs ...string) *page {
			form := url.Values{"change": {change}}
			for i := 0; i < len(pairs); i += 2 {
				form.Set(pairs[i], pairs[i+1])
			}
			return admin.post("/skills/"+skill, form)
		}
		wantNames("", "acme:pdf", "pdf")
		wantNames("?show=nonsense", "acme:pdf", "pdf")
		wantNames("?show=unconfirmed", "bare", "made-up")
		member.get("/skills?show=unconfirmed").wantText("Names without a real use")
		member.get("/skills/made-up").wantText("This name is unconfirmed")
		member.get("/skills?show=hidden").wantText("No skill is hidden").wantNoText("No skills yet")

		member.get("/skills/pdf").wantNoText("Manage")
		member.post("/skills/pdf", url.Values{"change": {"hide"}}).want(http.StatusForbidden)
		admin.do(http.MethodPost, "/skills/pdf", url.Values{"change": {"hide"}}, http.Header{"Sec-Fetch-Site": {"cross-site"}}).
			want(http.StatusForbidden)
		checkPage(t, admin.get("/skills/pdf?tab=manage").want(http.StatusOK).wantText("Manage", "Merge into another skill"))
		change("pdf", "hide").wantLocation("/skills/pdf")
		checkPage(t, admin.get("/skills/pdf").wantText("The skill is hidden.", "This skill is hidden: lists"))
		admin.get("/skills/pdf?tab=manage").wantText("Show in lists again")
		wantNames("", "acme:pdf")
		wantNames("?show=hidden", "pdf")
		change("pdf", "unhide").wantLocation("/skills/pdf")
		wantNames("", "acme:pdf", "pdf")

		change("acme:pdf", "merge", "into", " pdf ").wantLocation("/skills/acme:pdf")
		admin.get("/skills/acme:pdf").wantText("The skill is merged.", "counts for pdf")
		admin.get("/skills/acme:pdf?tab=manage").wantText("Undo the merge").wantNoText("Merge into another skill")
		wantNames("", "pdf")
		wantNames("?show=merged", "acme:pdf")
		change("acme:pdf", "unmerge").wantLocation("/skills/acme:pdf")
		wantNames("", "acme:pdf", "pdf")

		for into, want := range map[string]string{
			"": "Enter the name of the other skill", "none": "there is no skill none to merge into", "pdf": "a skill cannot be merged into itself",
			"made-up": "made-up is not confirmed",
		} {
			p := change("pdf", "merge", "into", into).want(http.StatusBadRequest).wantText(want)
			checkPage(t, p)
			if got := attr(p.all("input#into")[0], "value"); got != into {
				t.Errorf("%q comes back as %q", into, got)
			}
		}
		change("pdf", "burn").want(http.StatusBadRequest)
		change("none", "hide").want(http.StatusNotFound)
		w.otherOrg(access.Team).post("/skills/pdf", url.Values{"change": {"hide"}}).want(http.StatusNotFound)
	})
}

func TestPrices(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		admin, viewer := w.as(access.AdminRole), w.as(access.Viewer)
		const path = "/settings/prices"
		checkPage(t, viewer.get(path).want(http.StatusOK).wantText("no prices of its own").wantNoText("Price file"))
		viewer.post(path, url.Values{"prices": {`{"models":[]}`}}).want(http.StatusForbidden)
		p := admin.get(path).want(http.StatusOK).wantForms(path, path)
		checkPage(t, p)
		if example := textOf(p.all("textarea")[0]); !strings.Contains(example, `"match": "our-model-*"`) {
			t.Errorf("the import starts with %q", example)
		}
		rows := func(p *page) (all []string) {
			var row []string
			for _, input := range p.all("input") {
				if attr(input, "name") == "match" {
					row = nil
				}
				if row = append(row, attr(input, "value")); attr(input, "name") == "cache_write_hour" && row[0] != "" {
					all = append(all, strings.Join(row, " "))
				}
			}
			return all
		}
		typed := func(all ...[7]string) url.Values {
			form := url.Values{}
			for i, name := range []string{"match", "valid_from", "input", "output", "cache_read", "cache_write", "cache_write_hour"} {
				for _, row := range all {
					form.Add(name, row[i])
				}
			}
			return form
		}
		ours, m := [7]string{"our-*", "2026-01-01", "0.125", "2"}, [7]string{"m", "", "0", "0", "1"}
		admin.post(path, typed(ours, [7]string{}, m)).wantLocation(path)
		p = admin.get(path).wantText("The prices were saved.")
		want := []string{"our-* 2026-01-01 0.125 2   ", "m  0 0 1  "}
		if diff := cmp.Diff(want, rows(p)); diff != "" {
			t.Errorf("prices (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"our-* 2026-01-01 0.125 2 – – –", "m always 0 0 1 – –"}, viewer.get(path).rows()); diff != "" {
			t.Errorf("prices for a viewer (-want +got):\n%s", diff)
		}
		for problem, row := range map[string][7]string{
			"Row 2: enter the name of a model":             {"", "", "1", "1"},
			"Row 2: enter a day like 2026-01-31":           {"a", "soon", "1", "1"},
			"Row 2: Input: enter 0 to 10000 USD":           {"a", "", "", "1"},
			"Row 2: Output: enter 0 to 10000 USD":          {"a", "", "1", "-1"},
			"Row 2: Cache read: enter 0 to 10000 USD":      {"a", "", "1", "1", "cheap"},
			"Row 2: Cache write, 1 hour: enter 0 to 10000": {"a", "", "1", "1", "", "", "10001"},
		} {
			p := admin.post(path, typed(ours, row)).want(http.StatusBadRequest).wantText(problem)
			checkPage(t, p)
			if got := rows(p); len(got) == 0 || got[0] != want[0] {
				t.Errorf("%s: the rows come back as %q", problem, got)
			}
		}
		imported := func(text string) *page { return admin.post(path, url.Values{"prices": {text}}) }
		// What the import shows can be saved as it is.
		imported(p.all("textarea")[0].FirstChild.Data).wantLocation(path)
		for text, want := range map[string]string{
			`{"models":[{"match":"m","input":1,"output":1},` + "\n" + `{"match":"m","input":-1,"output":1}]}`: "models[1] (line 2): input must be between 0 and 10,000",
			`{"models":[{"match":"m","input":1,"outputs":1}]}`:                                                "models[0] (line 1)",
			`{"models":`: "unexpected EOF", "": "EOF", `{}`: "models is missing",
		} {
			p := imported(text).want(http.StatusBadRequest).wantText(want)
			checkPage(t, p)
			if got := p.all("textarea")[0].FirstChild; text != "" && got.Data != text {
				t.Errorf("%q comes back as %q", text, got.Data)
			}
		}
		if diff := cmp.Diff(want, rows(admin.get(path))); diff != "" {
			t.Errorf("prices after bad ones (-want +got):\n%s", diff)
		}
		admin.post(path, url.Values{"reset": {"true"}}).wantLocation(path)
		if got := rows(admin.get(path)); len(got) != 0 {
			t.Errorf("after the reset there are %q", got)
		}
	})
}
