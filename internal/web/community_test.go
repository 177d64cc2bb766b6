package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// bundle is a contributor's bundle.
func bundle(skill string) object {
	return object{
		"schema_version": "1.1", "skill_name": skill, "contributor_id": uuid.NewString(), "created_at": "2026-01-02T03:04:05Z",
		"tool_version": "0.9.1", "agent_type": "claude_code", "sanitization_level": "conservative",
		"positive_queries": []any{object{"query": "take the tables out", "invocation_type": "implicit", "source": "session"}},
		"eval_entries":     []any{object{"query": "merge these", "should_trigger": true}},
		"grading_summary":  object{"total_sessions": 12, "graded_sessions": 10, "average_pass_rate": 0.8, "expectation_count": 30},
		"session_metrics":  object{"total_sessions": 12, "avg_assistant_turns": 3.5, "avg_tool_calls": 9, "avg_errors": 0.2, "top_tools": []any{}},
	}
}

func TestCommunity(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Viewer)
	me := b.api.User.ID
	b.get("/community").want(http.StatusOK).wantText("No bundles yet", me)
	sender := w.otherOrg(access.Free)
	for _, skill := range []string{"pdf", "pdf", payload} {
		sender.api.Post("/api/v1/community/bundles", object{"creator_id": me, "skill_name": skill, "bundle": bundle(skill)}).
			Want(http.StatusCreated)
	}
	b.get("/community").want(http.StatusOK).wantText("Bundles 3", "Skills 2", payload[2:20]).wantForms().wantInert()
	b.get("/community?skill=pdf").want(http.StatusOK).wantText("Bundles 2", "80 %", "weighted by 20 graded sessions", "Sessions 24")
	b.get("/community?skill=" + url.QueryEscape(payload)).want(http.StatusOK).wantText("Bundles 1").wantInert()
	b.get("/community?skill=none").want(http.StatusOK).wantText("No bundles for this skill")
	w.as(access.Owner).get("/community").want(http.StatusOK).wantText("No bundles yet")
}

// noticed sends signals about a skill, one of each contributor.
func (b *browser) noticed(skill, kind string, contributors, each int) {
	b.w.T.Helper()
	var all []object
	for c := range contributors {
		for range each {
			all = append(all, object{
				"skill_name": skill, "signal_type": kind, "source_key": uuid.NewString(),
				"confidence": 0.8, "user_cohort": fmt.Sprint("cohort-", c),
			})
		}
	}
	relay := b.w.here(b.w.WithKey(b.api.Org, b.api.User, auth.NewKey{Relay: true}))
	relay.Post("/api/v1/signals", object{"signals": all}).Want(http.StatusOK)
}

func TestSignals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Owner)
	b.get("/signals").want(http.StatusOK).wantText("No signals yet", w.URL+"/api/v1/signals")
	b.noticed("pdf", "missed_trigger", 4, 3)
	b.noticed("lonely", "missed_trigger", 2, 1)
	b.noticed(payload, "missed_trigger", 5, 1)
	page := b.get("/signals").want(http.StatusOK).wantText("pdf 12 4", "lonely suppressed suppressed", "without suppressed skills").wantForms().wantInert()
	for _, row := range page.texts("tr") {
		if len(row) > 6 && row[:6] == "lonely" && !strings.HasPrefix(row, "lonely suppressed") {
			t.Errorf("what two people say is shown: %s", row)
		}
	}
	b.get("/signals/pdf").want(http.StatusOK).wantText("Signals 12", "enough to act").wantInert()
	b.get("/signals/lonely").want(http.StatusOK).
		wantText("Signals suppressed", "Contributors suppressed", "fewer than 3 people contributed to it", "--signals-min-contributors")
	b.get("/signals/" + url.PathEscape(payload)).want(http.StatusOK).wantText("Signals 5").wantInert()
	b.get("/signals/none").want(http.StatusOK).wantText("No signals about this skill")
	other := w.otherOrg(access.Team)
	other.get("/signals").want(http.StatusOK).wantText("No signals yet")
	other.get("/signals/pdf").want(http.StatusOK).wantText("No signals about this skill")
}

// propose makes a proposal and returns its path.
func (w *world) propose(finding, value string) string {
	w.T.Helper()
	s := &proposals.Service{DB: w.DB}
	sure, now := 0.75, "Reads tables."
	var id string
	err := w.DB.InTx(w.T.Context(), func(tx *store.Tx) (err error) {
		id, err = s.Propose(w.T.Context(), tx, proposals.Draft{
			OrgID: w.org.ID, SkillName: "pdf", Finding: finding, Type: proposals.Description, CurrentValue: &now, ProposedValue: &value,
			Reason: "12 of 16 signals say so: " + value, Confidence: &sure, ProposedBy: proposals.Contributors,
			Evidence: object{"signals": 12, "period": object{"from": "2026-W01", "to": nil}, "buckets": []object{{"bucket": "search " + value, "count": 9}}},
		})
		return err
	})
	if err != nil {
		w.T.Fatal(err)
	}
	return "/proposals/" + id
}

func TestProposals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Member)
	b.get("/proposals").want(http.StatusOK).wantText("No proposals yet").wantForms()
	first, second := w.propose("one", "Reads tables. Use it also for search."), w.propose("two", payload)
	b.get("/proposals").want(http.StatusOK).wantText("pdf", "◐ pending", "contributors", "75 %").wantInert()
	b.get(second).want(http.StatusOK).wantInert()
	b.get(first).want(http.StatusOK).
		wantText("Use it also for search", "Reads tables.", "Signals 12", "Period 2026-W01 to", "search Reads tables. Use it also for search. 9").wantForms(first+"/apply", first, first)
	b.post(first, url.Values{"decision": {"x"}}).want(http.StatusBadRequest)
	b.post(first, url.Values{"decision": {"applied"}}).want(http.StatusConflict)
	b.post(first, url.Values{"decision": {"approve"}}).wantLocation(first)
	b.get(first).want(http.StatusOK).wantText("The proposal is approved", "Decided", "Mark as applied", "by member-")
	b.post(first, url.Values{"decision": {"applied"}}).wantLocation(first)
	b.get(first).want(http.StatusOK).wantText("Applied").wantForms()
	b.post(second, url.Values{"decision": {"reject"}}).wantLocation(second)
	b.get("/proposals?status=rejected").want(http.StatusOK).wantText("■ rejected").wantNoText("● applied")
	b.get("/proposals?status=pending").want(http.StatusOK).wantText("No matching proposals")
	b.get("/proposals?skill=none").want(http.StatusOK).wantText("No matching proposals")
}

func TestProposalAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	path := w.propose("one", "New words")
	viewer, other := w.as(access.Viewer), w.otherOrg(access.Team)
	viewer.get(path).want(http.StatusOK).wantForms()
	form := url.Values{"decision": {"approve"}}
	viewer.post(path, form).want(http.StatusForbidden)
	other.get(path).want(http.StatusNotFound)
	other.post(path, form).want(http.StatusNotFound)
	other.get("/proposals").want(http.StatusOK).wantNoText("New words")
	w.as(access.Member).do("POST", path, form, http.Header{"Sec-Fetch-Site": {"cross-site"}}).want(http.StatusForbidden)
}
