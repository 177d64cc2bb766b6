package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// TestWhatGoesWrong: the page of a skill says what its pass rate rests on, and why
// sessions failed.
func TestWhatGoesWrong(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		member := w.as(access.Member)
		for _, session := range []string{"one", "two", "three"} {
			member.traced(session, "pdf", time.Now().Add(-2*time.Hour))
		}
		member.get("/skills/pdf").want(http.StatusOK).wantText("3 graded sessions reported by clients").
			wantNoText("the judge is", "the judge agrees")
		member.get("/skills/pdf?tab=failures").wantText("No failed grade of the last")
		for session, reason := range map[string]string{"one": "It lost column 3.", "two": "It lost column 14."} {
			member.post("/sessions/"+session+"/grades", url.Values{"skill": {"pdf"}, "verdict": {"fail"}, "reason": {reason}}).
				want(http.StatusSeeOther)
		}
		p := member.get("/skills/pdf").want(http.StatusOK)
		checkPage(t, p)
		p.wantText("3 graded sessions mixed: graded by people 0 % (2 sessions), reported by clients 20 % (1 session)")
		p = member.get("/skills/pdf?tab=failures").want(http.StatusOK).wantText("It lost column")
		checkPage(t, p)
		links := []string{}
		for _, session := range []string{"one", "two", "three"} {
			links = append(links, p.href(session))
		}
		if diff := cmp.Diff([]string{"/sessions/one", "/sessions/two", ""}, links); diff != "" {
			t.Errorf("links to failed sessions (-want +got):\n%s", diff)
		}
		w.as(access.Viewer).get("/skills/pdf?tab=failures").wantText("What goes wrong", "It lost column")
		if body := member.get("/skills").want(http.StatusOK).body; !strings.Contains(body, "people 2, reported 1") {
			t.Error("the list does not say what the rate rests on")
		}
	})
}

// TestJudgedSkill: beside a pass rate that rests on the judge stands how often it
// agrees with people, and a session shows what it quotes to those who may read it.
func TestJudgedSkill(t *testing.T) {
	t.Parallel()
	const expectation, quotation = "It names the page of the table.", "The table is on page 7."
	model := judgetest.New(t, judgetest.Model{Criteria: []string{expectation}, Grade: func(_, material string) (string, bool) {
		return quotation, strings.Contains(material, quotation)
	}, Label: func(string) string { return "Page numbers are missing" }}.Respond)
	w := newWorld(t, "sqlite", "--judge-api", "openai", "--judge-url", model.URL(judgetest.OpenAI), "--judge-model", "gpt-5")
	owner, member := w.as(access.Owner), w.as(access.Member)
	owner.post("/settings/content", url.Values{"action": {"on"}}).want(http.StatusSeeOther)
	at := time.Now().Add(-2 * time.Hour).UTC().Format(time.RFC3339)
	var prompts, invocations, said []object
	for _, session := range []string{"one", "two"} {
		prompts = append(prompts, object{"session_id": session, "prompt_id": session, "source_prompt_id": session, "occurred_at": at})
		invocations = append(invocations, object{
			"skill_invocation_id": session, "session_id": session, "occurred_at": at, "skill_name": "pdf", "triggered": true,
		})
		said = append(said, object{
			"session_id": session, "role": "user", "prompt_id": session, "source_prompt_id": session, "occurred_at": at, "text": quotation,
		})
	}
	owner.api.Post("/api/v1/push", object{"canonical": object{
		"prompts": prompts, "skill_invocations": invocations, "transcripts": said,
	}}).Want(http.StatusCreated)
	owner.get("/skills/pdf/grader").wantText("The model gpt-5", "This organisation keeps content that is sent on purpose")
	owner.post("/skills/pdf/grader", url.Values{"enabled": {"on"}, "expectations": {expectation}, "threshold": {"100"}}).want(http.StatusSeeOther)

	p := owner.eventually("/skills/pdf", "from 2 graded sessions judged by a model the judge is not compared with people yet")
	checkPage(t, p)
	p = owner.get("/sessions/one").wantText("judge gpt-5", "● pass "+expectation+" "+quotation)
	checkPage(t, p)
	member.get("/sessions/one").wantText("● pass " + expectation).wantNoText(quotation)
	member.post("/sessions/one/grades", url.Values{"skill": {"pdf"}, "verdict": {"pass"}}).want(http.StatusSeeOther)
	owner.get("/skills/pdf").wantText("judged by a model 100 % (1 session)", "the judge agrees with people in 1 of 1 session (21–100 %)")

	// A reason gets a heading, which everybody may read who may read the reason.
	member.post("/sessions/two/grades", url.Values{"skill": {"pdf"}, "verdict": {"fail"}, "reason": {"It forgot the page <b>again</b>"}}).
		want(http.StatusSeeOther)
	p = w.as(access.Viewer).eventually("/skills/pdf?tab=failures", "Page numbers are missing It forgot the page <b>again</b>")
	checkPage(t, p)
	p.wantText("Where a reason has a heading, the judge wrote it.")
}
