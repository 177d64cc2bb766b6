package suggestions_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/publish/sources/sourcestest"
)

func TestReview(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		bob := w.Member(ada.Org, access.Member)
		id := ada.Made(object{"type": "upload", "label": "x"})

		got := ada.Review(id, nil).Want(http.StatusOK).Object()
		wantKeys(t, got, "review")
		draft := got["review"].(object)
		want := object{
			"id": draft["id"], "suggestionId": "0197a7a5-9d4e-7c3b-8f5e-2d6a1b9c4e70", "reviewStatus": "accepted", "acceptTarget": "draft",
			"appliedSuiteId": nil, "query": "Read the table", "shouldTrigger": true, "source": "linked_telemetry", "provenance": "missed_query",
			"reviewedBy": ada.User.ID, "reviewedAt": draft["reviewedAt"], "appliedToSuiteAt": nil,
		}
		if diff := cmp.Diff(want, draft); diff != "" {
			t.Errorf("draft (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]object{draft}, ada.Reviewed(id)); diff != "" {
			t.Errorf("in the detail (-review +detail):\n%s", diff)
		}

		// A second decision replaces the first.
		full := bob.Review(id, object{
			"suggestion_id": strings.ToUpper("0197a7a5-9d4e-7c3b-8f5e-2d6a1b9c4e70"), "review_status": "rejected", "accept_target": "draft",
			"rationale": "no", "observed_count": 3, "confidence": 0.25, "last_observed_at": "2026-01-02T05:04:05.678+02:00",
			"invocation_type": "implicit", "should_trigger": false, "source": "hosted_run", "provenance": "run_regression", "unknown": 1,
		}).Want(http.StatusOK).Object()["review"].(object)
		want = object{
			"id": draft["id"], "suggestionId": "0197a7a5-9d4e-7c3b-8f5e-2d6a1b9c4e70", "reviewStatus": "rejected", "acceptTarget": nil,
			"appliedSuiteId": nil, "query": "Read the table", "shouldTrigger": false, "source": "hosted_run", "provenance": "run_regression",
			"rationale": "no", "observedCount": 3.0, "confidence": 0.25, "lastObservedAt": "2026-01-02T03:04:05.678Z", "invocationType": "implicit",
			"reviewedBy": bob.User.ID, "reviewedAt": full["reviewedAt"], "appliedToSuiteAt": nil,
		}
		if diff := cmp.Diff(want, full); diff != "" {
			t.Errorf("rejected (-want +got):\n%s", diff)
		}

		// Reviews are listed newest first, by the last decision.
		other := uuid.NewString()
		ada.Review(id, object{"suggestion_id": other}).Want(http.StatusOK)
		order := func() (ids []string) {
			for _, r := range ada.Reviewed(id) {
				ids = append(ids, text(r, "suggestionId"))
			}
			return ids
		}
		if diff := cmp.Diff([]string{other, text(draft, "suggestionId")}, order()); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		ada.Review(id, nil).Want(http.StatusOK)
		if diff := cmp.Diff([]string{text(draft, "suggestionId"), other}, order()); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}

		// Decisions are independent between sources.
		second := ada.Made(object{"type": "upload", "label": "x"})
		ada.Clear(second, other).WantErrorWith(http.StatusNotFound, "Review not found")
		ada.Clear(id, strings.ToUpper(other)).Want(http.StatusNoContent)
		ada.Clear(id, other).WantErrorWith(http.StatusNotFound, "Review not found")
		if n := len(ada.Reviewed(id)); n != 1 {
			t.Errorf("%d reviews, want 1", n)
		}
	})
}

func TestReviewRefuses(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		id := ada.Made(object{"type": "upload", "label": "x"})
		suite := ada.Suite(id, "llm_judge")
		shared := []struct {
			change     object
			path, text string
		}{
			{object{"query": nil}, "query", "required"},
			{object{"query": ""}, "query", ""},
			{object{"query": " \n"}, "query", "not be empty"},
			{object{"query": 7}, "query", "string"},
			{object{"query": strings.Repeat("x", 10001)}, "query", "10000"},
			{object{"should_trigger": nil}, "should_trigger", "required"},
			{object{"should_trigger": "true"}, "should_trigger", "boolean"},
			{object{"source": nil}, "source", "required"},
			{object{"source": "guess"}, "source", "one of"},
			{object{"provenance": nil}, "provenance", "required"},
			{object{"provenance": "guess"}, "provenance", "one of"},
			{object{"rationale": 7}, "rationale", "string"},
			{object{"observed_count": "3"}, "observed_count", "number"},
			{object{"observed_count": -1}, "observed_count", "0"},
			{object{"confidence": 1.01}, "confidence", "1"},
			{object{"confidence": -0.01}, "confidence", "0"},
			{object{"confidence": "high"}, "confidence", "number"},
			{object{"last_observed_at": "yesterday"}, "last_observed_at", ""},
			{object{"last_observed_at": 7}, "last_observed_at", ""},
			{object{"invocation_type": 7}, "invocation_type", "string"},
		}
		for _, c := range shared {
			ada.Review(id, c.change).WantIssueWith(c.path, c.text)
			ada.Apply(id, uuid.NewString(), suite, c.change).WantIssueWith(c.path, c.text)
		}
		for _, c := range []struct {
			change     object
			path, text string
		}{
			{object{"suggestion_id": nil}, "suggestion_id", "required"},
			{object{"suggestion_id": "x"}, "suggestion_id", "uuid"},
			{object{"review_status": nil}, "review_status", "required"},
			{object{"review_status": "pending"}, "review_status", "one of"},
			{object{"accept_target": "trash"}, "accept_target", "one of"},
			{object{"applied_suite_id": "x"}, "applied_suite_id", "uuid"},
			{object{"accept_target": "saved_suite"}, "applied_suite_id", "required"},
		} {
			ada.Review(id, c.change).WantIssueWith(c.path, c.text)
		}
		ada.Apply(id, uuid.NewString(), "x", nil).WantIssueWith("suite_id", "uuid")
		ada.Post(sourcePath(id)+"/eval-suggestions/"+uuid.NewString()+"/apply-to-suite", decision(nil)).
			WantIssueWith("suite_id", "required")
		ada.Apply(id, "x", suite, nil).WantIssueWith("suggestionId", "uuid")
		ada.Clear(id, "x").WantIssueWith("suggestionId", "uuid")
		ada.Post(sourcePath(id)+"/eval-suggestions/review", nil).Want(http.StatusBadRequest)
		ada.Post(sourcePath(id)+"/eval-suggestions/review", "{").Want(http.StatusBadRequest)
		ada.Review(uuid.NewString(), object{"query": nil}).Want(http.StatusBadRequest) // 400 before 404
		if n := w.Count("source_reviews"); n != 0 || len(ada.Cases(suite)) != 0 {
			t.Errorf("%d reviews and %d cases of what was refused", n, len(ada.Cases(suite)))
		}
	})
}

func TestApply(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada, eve := w.Org("acme"), w.Org("evil")
		id := ada.Made(object{"type": "upload", "label": "x"})
		suite := ada.Suite(id, "llm_judge")
		suggestion := uuid.NewString()

		got := ada.Apply(id, suggestion, suite, object{"invocation_type": "implicit", "confidence": 1}).Want(http.StatusOK).Object()
		wantKeys(t, got, "suite", "review")
		if diff := cmp.Diff(object{"id": suite, "name": "suite of " + id}, got["suite"]); diff != "" {
			t.Errorf("suite (-want +got):\n%s", diff)
		}
		review := got["review"].(object)
		if review["reviewStatus"] != "accepted" || review["acceptTarget"] != "saved_suite" || review["appliedSuiteId"] != suite ||
			review["appliedToSuiteAt"] != review["reviewedAt"] || review["suggestionId"] != suggestion {
			t.Errorf("review %v", review)
		}
		if diff := cmp.Diff(got, ada.Apply(id, suggestion, suite, object{"invocation_type": "implicit"}).
			Want(http.StatusOK).Object()); diff != "" {
			t.Errorf("applied again (-first +again):\n%s", diff)
		}
		ada.Apply(id, suggestion, suite, object{"query": "Other words"}).Want(http.StatusOK)
		positive := object{
			"case_kind": "trigger_query", "query": "Read the table", "expectation": "should_trigger",
			"invocation_type": "implicit",
		}
		if diff := cmp.Diff([]object{positive}, ada.Cases(suite)); diff != "" {
			t.Errorf("cases (-want +got):\n%s", diff)
		}

		// A review with the suite as its target does the same.
		second := uuid.NewString()
		saved := object{
			"suggestion_id": second, "query": "Sing", "should_trigger": false, "accept_target": "saved_suite",
			"applied_suite_id": strings.ToUpper(suite),
		}
		review = ada.Review(id, saved).Want(http.StatusOK).Object()["review"].(object)
		if review["acceptTarget"] != "saved_suite" || review["appliedSuiteId"] != suite || review["appliedToSuiteAt"] == nil {
			t.Errorf("review %v", review)
		}
		negative := object{"case_kind": "trigger_query", "query": "Sing", "expectation": "should_not_trigger"}
		if diff := cmp.Diff([]object{positive, negative}, ada.Cases(suite)); diff != "" {
			t.Errorf("cases (-want +got):\n%s", diff)
		}
		// Rejected meanwhile, it is no longer applied; the case stays.
		review = ada.Review(id, object{
			"suggestion_id": second, "review_status": "rejected", "accept_target": "saved_suite",
			"applied_suite_id": suite,
		}).Want(http.StatusOK).Object()["review"].(object)
		if review["acceptTarget"] != nil || review["appliedSuiteId"] != nil || review["appliedToSuiteAt"] != nil {
			t.Errorf("rejected: %v", review)
		}
		// A draft ignores the suite.
		review = ada.Review(id, object{"suggestion_id": second, "applied_suite_id": suite}).
			Want(http.StatusOK).Object()["review"].(object)
		if review["acceptTarget"] != "draft" || review["appliedSuiteId"] != nil {
			t.Errorf("draft: %v", review)
		}
		// It can be applied to another suite as well.
		other := ada.Suite(id, "llm_judge")
		review = ada.Apply(id, suggestion, other, nil).Want(http.StatusOK).Object()["review"].(object)
		if review["appliedSuiteId"] != other || len(ada.Cases(other)) != 1 {
			t.Errorf("other suite: %v", review)
		}
		if diff := cmp.Diff(2, len(objects(t, ada.Detail(id), "evalSuites"))); diff != "" {
			t.Errorf("suites (-want +got):\n%s", diff)
		}
		for _, s := range objects(t, ada.Detail(id), "evalSuites") {
			wantKeys(t, s, "id", "name", "verifierKind")
		}

		wrong := ada.Made(object{"type": "upload", "label": "y"})
		exact := object{"case_kind": "exact_match", "output": "a", "expected": "a"}
		for name, c := range map[string]struct {
			suite  string
			status int
		}{
			"of another source": {ada.Suite(wrong, "llm_judge"), http.StatusConflict},
			"of none":           {ada.Suite("", "llm_judge"), http.StatusConflict},
			"deterministic":     {ada.Suite(id, "deterministic", exact), http.StatusConflict},
			"of others":         {eve.Suite("", "llm_judge"), http.StatusNotFound},
			"unknown":           {uuid.NewString(), http.StatusNotFound},
		} {
			t.Run(name, func(t *testing.T) {
				ada, fresh := ada.In(t), uuid.NewString()
				ada.Apply(id, fresh, c.suite, nil).WantErrorWith(c.status, "")
				ada.Review(id, object{"suggestion_id": fresh, "accept_target": "saved_suite", "applied_suite_id": c.suite}).
					WantErrorWith(c.status, "")
				ada.Clear(id, fresh).WantErrorWith(http.StatusNotFound, "Review not found") // no trace of it
			})
		}
	})
}

// TestUndo: a decision and its effect are undone together, or not at all.
func TestUndo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada, eve := w.Org("acme"), w.Org("other")
		id := ada.Made(object{"type": "upload", "label": "x"})
		plain := strings.TrimPrefix(id, sources.Prefix)
		first := sourcestest.Trigger("Stays", nil)
		// Applying the decision adds nothing to the second suite: it has the case.
		suite, last := ada.Suite(id, "llm_judge", first), ada.Suite(id, "llm_judge", sourcestest.Trigger("Read the table", nil))
		for _, c := range []struct {
			suite string
			gone  bool
			left  int
		}{{suite, true, 1}, {last, false, 1}} {
			suggestion := uuid.NewString()
			ada.Apply(id, suggestion, c.suite, nil).Want(http.StatusOK)
			if _, err := w.Suggestions.Undo(t.Context(), access.Caller{OrgID: eve.Org.ID, UserID: eve.User.ID}, plain, suggestion); fault.Of(err) == fault.Internal {
				t.Errorf("somebody else's decision: %v", err)
			}
			gone, err := w.Suggestions.Undo(t.Context(), access.Caller{OrgID: ada.Org.ID, UserID: ada.User.ID}, plain, suggestion)
			if left := len(ada.Cases(c.suite)); err != nil || gone != c.gone || left != c.left {
				t.Errorf("gone %v, %d cases left, want %v and %d: %v", gone, left, c.gone, c.left, err)
			}
			if _, err := w.Suggestions.Undo(t.Context(), access.Caller{OrgID: ada.Org.ID, UserID: ada.User.ID}, plain, suggestion); !fault.Is(err, fault.NotFound) {
				t.Errorf("once more: %v", err)
			}
		}
		draft := text(ada.Review(id, nil).Want(http.StatusOK).Object()["review"].(object), "suggestionId")
		if gone, err := w.Suggestions.Undo(t.Context(), access.Caller{OrgID: ada.Org.ID, UserID: ada.User.ID}, plain, draft); err != nil || !gone {
			t.Errorf("a draft: %v, %v", gone, err)
		}
		if n := len(ada.Reviewed(id)); n != 0 {
			t.Errorf("%d reviews are left", n)
		}
	})
}

func TestApplyToFullSuite(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		id := ada.Made(object{"type": "upload", "label": "x"})
		var cases []object
		for i := range sourcestest.MaxCases - 1 {
			cases = append(cases, sourcestest.Trigger(fmt.Sprint(i), nil))
		}
		suite := ada.Suite(id, "llm_judge", cases...)
		last, over := uuid.NewString(), uuid.NewString()
		ada.Apply(id, last, suite, object{"query": "the 500th"}).Want(http.StatusOK)
		ada.Apply(id, over, suite, object{"query": "the 501st"}).WantErrorWith(http.StatusConflict, "500")
		ada.Apply(id, last, suite, object{"query": "the 500th"}).Want(http.StatusOK)
		if n := len(ada.Cases(suite)); n != sourcestest.MaxCases || w.Count("source_reviews") != 1 {
			t.Errorf("%d cases, %d reviews", n, w.Count("source_reviews"))
		}
	})
}
