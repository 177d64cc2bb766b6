package suggestions_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

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

// reportSession reports a session that used two skills, and failed the second.
func reportSession(c *sourcestest.Client, session string) {
	at := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	used := func(skill string) object {
		return object{"skill_invocation_id": session + skill, "session_id": session, "occurred_at": at, "skill_name": skill, "triggered": true}
	}
	c.Post("/api/v1/push", object{"canonical": object{
		"prompts":           []object{{"prompt_id": session + "p", "source_prompt_id": "p", "session_id": session, "occurred_at": at}},
		"skill_invocations": []object{used("archive"), used("pdf")},
		"grading_results": []object{{
			"grading_id": session + "g", "session_id": session, "skill_name": "pdf", "graded_at": at, "pass_rate": 0,
		}},
	}}).Want(http.StatusCreated)
}

// TestCaseOfSession: a session becomes a draft or a case of a suite, with what is
// known of it as the default.
func TestCaseOfSession(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		w.Sessions.Content = kept("Read the table")
		ada := w.Org("acme")
		reportSession(ada, "s")
		const path = "/v1/sessions/s/cases"
		ada.Post(path, nil).WantErrorWith(http.StatusConflict, "No source is linked to the skill pdf")

		source := func(skill string) string {
			return strings.TrimPrefix(ada.Made(object{"type": "upload", "label": skill, "skill_id": w.Skill(ada, skill)}), "src_")
		}
		pdf, archive := source("pdf"), source("archive")
		first := ada.Post(path, nil).Want(http.StatusCreated).Object()
		wantKeys(t, first, "case")
		made := first["case"].(object)
		want := object{
			"suggestion_id": made["suggestion_id"], "session_id": "s", "skill": "pdf", "source_id": pdf, "suite_id": nil,
			"query": "Read the table", "expectation": "should_trigger",
		}
		if diff := cmp.Diff(want, made); diff != "" {
			t.Errorf("draft (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(first, ada.Post(path, object{}).Want(http.StatusCreated).Object()); diff != "" {
			t.Errorf("again (-first +second):\n%s", diff)
		}
		reviews := ada.Reviewed(pdf)
		if len(reviews) != 1 || reviews[0]["suggestionId"] != made["suggestion_id"] || reviews[0]["acceptTarget"] != "draft" ||
			reviews[0]["rationale"] != "Made of session s" {
			t.Errorf("reviews: %v", reviews)
		}

		// A suite decides on the source, and the source on the skill.
		suite := ada.Post("/api/v1/eval-suites", object{
			"name": "archives", "source_id": archive, "source_kind": "manual", "verifier_kind": "llm_judge",
			"cases_json": []object{{"case_kind": "trigger_query", "query": "Pack it", "expectation": "should_trigger"}},
		}).Want(http.StatusCreated).Field("suite")["id"].(string)
		for range 2 {
			made = ada.Post(path, object{"suite_id": strings.ToUpper(suite), "query": "Look at it", "expectation": "should_not_trigger"}).
				Want(http.StatusCreated).Field("case")
		}
		want = object{
			"suggestion_id": made["suggestion_id"], "session_id": "s", "skill": "archive", "source_id": archive, "suite_id": suite,
			"query": "Look at it", "expectation": "should_not_trigger",
		}
		if diff := cmp.Diff(want, made); diff != "" {
			t.Errorf("case of a suite (-want +got):\n%s", diff)
		}
		if n := ada.Get("/api/v1/eval-suites/" + suite).Field("suite")["case_count"]; n != 2.0 {
			t.Errorf("the suite has %v cases, want 2", n)
		}
		if made := ada.Post(path, object{"skill": "archive"}).Want(http.StatusCreated).Field("case"); made["source_id"] != archive {
			t.Errorf("case of a chosen skill: %v", made)
		}
		ada.Post(path, object{"source_id": "src_" + archive}).Want(http.StatusCreated)

		// What does not fit.
		for field, body := range map[string]object{
			"query":       {"query": strings.Repeat("q", 4001)},
			"expectation": {"expectation": "maybe"},
			"suite_id":    {"suite_id": "x"},
			"skill":       {"skill": "unseen"},
		} {
			ada.Post(path, body).WantIssueWith(field, "")
		}
		ada.Post(path, object{"query": "   "}).WantIssueWith("query", "")
		ada.Post(path, object{"skill": "pdf", "source_id": archive}).WantErrorWith(http.StatusConflict, "not linked to the skill pdf")
		ada.Post(path, object{"source_id": pdf, "suite_id": suite}).WantErrorWith(http.StatusConflict, "does not belong to this source")
		ada.Post(path, object{"suite_id": uuid.NewString()}).WantErrorWith(http.StatusNotFound, "")
		ada.Post("/v1/sessions/unknown/cases", nil).WantErrorWith(http.StatusNotFound, "Session not found")

		// Others: the words are the owner's, and the session is the organisation's.
		bob, viewer := w.Member(ada.Org, access.Member), w.Member(ada.Org, access.Viewer)
		bob.Post(path, nil).WantIssueWith("query", "")
		bob.Post(path, object{"query": "Read it"}).Want(http.StatusCreated)
		viewer.Post(path, object{"query": "Read it"}).WantErrorWith(http.StatusForbidden, "")
		w.Org("other").Post(path, nil).WantErrorWith(http.StatusNotFound, "Session not found")
	})
}
