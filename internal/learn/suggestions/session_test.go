package suggestions_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/sources/sourcestest"
)

// kept is content of the prompt p that only its owner may read.
type kept string

func (k kept) Has(_ context.Context, _ string, ids []string) (map[string]bool, error) {
	has := map[string]bool{}
	for _, id := range ids {
		has[id] = true
	}
	return has, nil
}

func (k kept) Texts(_ context.Context, c access.Caller, s sessions.Session, _ []string) (map[string]string, error) {
	if c.UserID != s.UserID {
		return map[string]string{}, nil
	}
	return map[string]string{sessions.EventID(sessions.Prompt, "p"): string(k)}, nil
}

func (k kept) Forget(context.Context, *store.Tx, []string) error { return nil }

// reportSession reports a session that used skills, and failed pdf if that is one.
func reportSession(c *sourcestest.Client, session string, skills ...string) {
	at := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	used := make([]object, len(skills))
	for i, skill := range skills {
		used[i] = object{"skill_invocation_id": session + skill, "session_id": session, "occurred_at": at, "skill_name": skill, "triggered": true}
	}
	c.Post("/api/v1/push", object{"canonical": object{
		"prompts":           []object{{"prompt_id": session + "p", "source_prompt_id": "p", "session_id": session, "occurred_at": at}},
		"skill_invocations": used,
		"grading_results": []object{{
			"grading_id": session + "g", "session_id": session, "skill_name": "pdf", "graded_at": at, "pass_rate": 0,
		}},
	}}).Want(http.StatusCreated)
}

// TestCaseOfSession: a session becomes a case of any suite, with what is known of it as
// the default, also if no source is linked to its skill.
func TestCaseOfSession(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		w.Sessions.Content = kept("Read the table")
		ada := w.Org("acme")
		reportSession(ada, "s", "pdf")
		const path = "/v1/sessions/s/cases"
		add := func(body object) object { t.Helper(); return ada.Post(path, body).Want(http.StatusCreated).Object() }

		// Without a suite there is a new one, and then that one.
		first := ada.Post(path, nil).Want(http.StatusCreated).Object()
		wantKeys(t, first, "case", "suite_id", "skill")
		suite := first["suite_id"].(string)
		made := first["case"].(object)
		want := object{
			"suggestion_id": nil, "session_id": "s", "skill": "pdf", "source_id": nil, "suite_id": suite, "case_id": made["case_id"],
			"query": "Read the table", "expectation": "should_trigger",
		}
		if diff := cmp.Diff(want, made); diff != "" {
			t.Errorf("the first case (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(first, add(object{})); diff != "" {
			t.Errorf("again (-first +second):\n%s", diff)
		}
		stored := ada.Get("/api/v1/eval-suites/" + suite).Field("suite")
		if stored["name"] != "pdf" || stored["source_id"] != nil || stored["verifier_kind"] != "llm_judge" || stored["runnable"] != true ||
			stored["version"] != 1.0 {
			t.Errorf("the new suite: %v", stored)
		}
		if diff := cmp.Diff([]object{sourcestest.Trigger("Read the table", nil)}, ada.Cases(suite)); diff != "" {
			t.Errorf("its cases (-want +got):\n%s", diff)
		}

		// Any suite takes a case, and so does a new one.
		other := ada.Suite("", "llm_judge")
		got := add(object{"suite_id": strings.ToUpper(other), "query": "Look at it", "expectation": "should_not_trigger"})
		if got["suite_id"] != other || got["skill"] != "pdf" {
			t.Errorf("a case of another suite: %v", got)
		}
		want = sourcestest.Trigger("Look at it", object{"expectation": "should_not_trigger"})
		if diff := cmp.Diff([]object{want}, ada.Cases(other)); diff != "" {
			t.Errorf("its cases (-want +got):\n%s", diff)
		}
		named := add(object{"new_suite": object{"name": "Invoices"}})["suite_id"].(string)
		if n := ada.Get("/api/v1/eval-suites/" + named).Field("suite")["name"]; n != "Invoices" {
			t.Errorf("the new suite is named %v", n)
		}

		// What does not fit.
		for field, body := range map[string]object{
			"query":          {"query": strings.Repeat("q", 4001)},
			"expectation":    {"expectation": "maybe"},
			"suite_id":       {"suite_id": "x"},
			"skill":          {"skill": "unseen"},
			"new_suite":      {"suite_id": other, "new_suite": object{"name": "x"}},
			"new_suite.name": {"new_suite": object{"name": " "}},
		} {
			ada.Post(path, body).WantIssueWith(field, "")
		}
		ada.Post(path, object{"new_suite": object{"name": ""}}).WantIssueWith("new_suite.name", "")
		ada.Post(path, object{"query": "   "}).WantIssueWith("query", "")
		ada.Post(path, object{"suite_id": uuid.NewString()}).WantErrorWith(http.StatusNotFound, "")
		ada.Post(path, object{"suite_id": w.Org("third").Suite("", "llm_judge")}).WantErrorWith(http.StatusNotFound, "")
		checks := ada.Post("/api/v1/eval-suites", object{
			"name": "Checks", "source_kind": "manual", "verifier_kind": "deterministic",
			"cases_json": []object{{"case_kind": "exact_match", "output": "a", "expected": "a"}},
		}).Want(http.StatusCreated).Field("suite")["id"]
		ada.Post(path, object{"suite_id": checks}).WantErrorWith(http.StatusConflict, "llm_judge")
		ada.Post("/v1/sessions/unknown/cases", nil).WantErrorWith(http.StatusNotFound, "Session not found")

		// Others: the words are the owner's, and the session is the organisation's.
		bob, viewer := w.Member(ada.Org, access.Member), w.Member(ada.Org, access.Viewer)
		bob.Post(path, nil).WantIssueWith("query", "")
		bob.Post(path, object{"query": "Read it"}).Want(http.StatusCreated)
		viewer.Post(path, object{"query": "Read it"}).WantErrorWith(http.StatusForbidden, "")
		w.Org("other").Post(path, nil).WantErrorWith(http.StatusNotFound, "Session not found")
	})
}

// TestCaseOfSessionTogether: calls at the same time make one suite, and one case in it.
func TestCaseOfSessionTogether(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		reportSession(ada, "s", "pdf")
		create := func() apptest.Response { return ada.Post("/v1/sessions/s/cases", object{"query": "Read it"}) }
		made := map[any]bool{}
		for _, a := range sourcestest.Together(create, create, create, create) {
			made[a.Want(http.StatusCreated).Object()["suite_id"]] = true
		}
		for suite := range made {
			if n := len(ada.Cases(suite.(string))); len(made) != 1 || n != 1 {
				t.Errorf("%d suites, with %d cases", len(made), n)
			}
		}
	})
}

// TestCaseOfLinkedSession: where a source is linked to the skill, the case is an accepted
// suggestion of it as well, or a draft.
func TestCaseOfLinkedSession(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		w.Sessions.Content = kept("Read the table")
		ada := w.Org("acme")
		reportSession(ada, "s", "pdf", "archive")
		const path = "/v1/sessions/s/cases"
		pdf, archive := strings.TrimPrefix(ada.Linked("pdf"), "src_"), strings.TrimPrefix(ada.Linked("archive"), "src_")
		suite := ada.Suite(archive, "llm_judge")

		// A suite decides on the source, and the source on the skill.
		var made object
		for range 2 {
			made = ada.Post(path, object{"suite_id": suite, "query": "Look at it"}).Want(http.StatusCreated).Field("case")
		}
		want := object{
			"suggestion_id": made["suggestion_id"], "session_id": "s", "skill": "archive", "source_id": archive, "suite_id": suite,
			"case_id": made["case_id"], "query": "Look at it", "expectation": "should_trigger",
		}
		if diff := cmp.Diff(want, made); diff != "" {
			t.Errorf("case of a suite (-want +got):\n%s", diff)
		}
		reviews := ada.Reviewed(archive)
		if len(reviews) != 1 || reviews[0]["suggestionId"] != made["suggestion_id"] || reviews[0]["appliedSuiteId"] != suite ||
			reviews[0]["rationale"] != "Made of session s" {
			t.Errorf("reviews: %v", reviews)
		}
		if n := len(ada.Cases(suite)); n != 1 {
			t.Errorf("the suite has %d cases, want 1", n)
		}
		if got := ada.Post(path, object{"skill": "archive"}).Want(http.StatusCreated).Object(); got["suite_id"] != suite {
			t.Errorf("a case without a suite: %v, want the newest of the skill", got)
		}
		// The suite of another skill takes it too, and the new one is for the source of the skill.
		if got := ada.Post(path, object{"skill": "pdf", "suite_id": suite}).Want(http.StatusCreated).Field("case"); got["source_id"] != pdf {
			t.Errorf("a case in the suite of another skill: %v", got)
		}
		fresh := ada.Post(path, object{"skill": "pdf"}).Want(http.StatusCreated).Object()["suite_id"].(string)
		if s := ada.Get("/api/v1/eval-suites/" + fresh).Field("suite"); s["source_id"] != pdf || s["name"] != "pdf" {
			t.Errorf("the new suite: %v", s)
		}

		// A source alone keeps a draft.
		draft := ada.Post(path, object{"source_id": "src_" + archive, "query": "A draft"}).Want(http.StatusCreated).Object()
		if draft["suite_id"] != nil || draft["skill"] != "archive" || draft["case"].(object)["case_id"] != nil ||
			ada.Reviewed(archive)[0]["acceptTarget"] != "draft" {
			t.Errorf("draft: %v", draft)
		}
		ada.Post(path, object{"skill": "pdf", "source_id": archive}).WantErrorWith(http.StatusConflict, "not linked to the skill pdf")
		ada.Post(path, object{"source_id": pdf, "suite_id": suite}).WantErrorWith(http.StatusConflict, "does not belong to this source")

		// Undoing the review takes the case out of its suite, wherever that is.
		if _, err := w.Suggestions.Undo(t.Context(), access.Caller{OrgID: ada.Org.ID, UserID: ada.User.ID}, archive,
			made["suggestion_id"].(string)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]object{sourcestest.Trigger("Read the table", nil)}, ada.Cases(suite)); diff != "" {
			t.Errorf("after the undo (-want +got):\n%s", diff)
		}
	})
}

// TestSkillOfCase: the skill that was activated is tested, and never one that was only on offer.
func TestSkillOfCase(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		reportSession(ada, "several", "pdf", "archive")
		reportSession(ada, "one", "archive")
		offer := func(session string) {
			t.Helper()
			_, err := db.Exec(t.Context(), `UPDATE agent_session_skills SET activated = $1, offered = $2, outcome = '' WHERE session_id =
				(SELECT id FROM agent_sessions WHERE session_id = $3) AND skill_id = $4`, false, true, session, w.Skill(ada, "pdf"))
			if err != nil {
				t.Fatal(err)
			}
		}
		ask := func(session string, body object) apptest.Response {
			return ada.Post("/v1/sessions/"+session+"/cases", apptest.With(object{"query": "q"}, body))
		}
		ask("several", nil).WantIssueWith("skill", "pdf")
		ask("several", nil).WantIssueWith("skill", "archive")
		if got := ask("several", object{"skill": "pdf"}).Want(http.StatusCreated).Object()["skill"]; got != "pdf" {
			t.Errorf("a case of %v", got)
		}
		offer("several")
		offer("one") // which failed without it
		for _, session := range []string{"several", "one"} {
			if got := ask(session, nil).Want(http.StatusCreated).Object()["skill"]; got != "archive" {
				t.Errorf("%s: a case of %v", session, got)
			}
			ask(session, object{"skill": "pdf"}).WantErrorWith(http.StatusConflict, "only on offer")
		}
		reportSession(ada, "none", "pdf")
		offer("none")
		ask("none", nil).WantErrorWith(http.StatusConflict, "only on offer")
	})
}
