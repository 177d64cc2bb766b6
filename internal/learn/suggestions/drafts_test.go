package suggestions_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/publish/sources/sourcestest"
)

// draft accepts a suggestion without a suite, and returns the ids of the review and of the
// suggestion.
func draft(c *sourcestest.Client, source, query string) (review, suggestion string) {
	c.T.Helper()
	suggestion = uuid.NewString()
	return text(c.Review(source, object{"suggestion_id": suggestion, "query": query}).Want(http.StatusOK).Field("review"), "id"), suggestion
}

// TestApplyDrafts: drafts become cases in one step, and each only once.
func TestApplyDrafts(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		source := ada.Linked("pdf")
		path := sourcestest.SourcePath(source) + "/drafts/apply"
		apply := func(body object) object { t.Helper(); return ada.Post(path, body).Want(http.StatusOK).Object() }
		ada.Post(path, nil).WantErrorWith(http.StatusConflict, "no drafts")

		one, _ := draft(ada, source, "Read one")
		_, two := draft(ada, source, "Read two")
		draft(ada, source, "Read three")
		rejected := uuid.NewString()
		ada.Review(source, object{"suggestion_id": rejected, "review_status": "rejected"}).Want(http.StatusOK)

		// Some of them, by either id, go to a suite of another source; it has one of them.
		suite := ada.Suite("", "llm_judge", sourcestest.Trigger("read  ONE", nil))
		some := object{"suite_id": strings.ToUpper(suite), "draft_ids": []string{one, strings.ToUpper(two), two}}
		if diff := cmp.Diff(object{"suite_id": suite, "added": 1.0, "already": 1.0}, apply(some)); diff != "" {
			t.Errorf("two drafts (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(object{"suite_id": suite, "added": 0.0, "already": 2.0}, apply(some)); diff != "" {
			t.Errorf("the same again (-want +got):\n%s", diff)
		}
		cases := []object{sourcestest.Trigger("read  ONE", nil), sourcestest.Trigger("Read two", nil)}
		if diff := cmp.Diff(cases, ada.Cases(suite)); diff != "" {
			t.Errorf("cases (-want +got):\n%s", diff)
		}

		// The rest goes to a new suite of the source, which is made once.
		first := apply(object{"new_suite": object{"name": "Tables"}})
		made := text(first, "suite_id")
		if first["added"] != 1.0 || first["already"] != 0.0 || made == suite {
			t.Errorf("the rest: %v", first)
		}
		stored := ada.Get("/api/v1/eval-suites/" + made).Field("suite")
		if stored["name"] != "Tables" || stored["source_id"] != strings.TrimPrefix(source, "src_") || stored["case_count"] != 1.0 {
			t.Errorf("the new suite: %v", stored)
		}
		if diff := cmp.Diff(object{"suite_id": made, "added": 0.0, "already": 1.0}, apply(object{"new_suite": object{"name": "Tables"}})); diff != "" {
			t.Errorf("the new suite again (-want +got):\n%s", diff)
		}
		for _, r := range ada.Reviewed(source) {
			if r["reviewStatus"] == "accepted" && (r["acceptTarget"] != "saved_suite" || r["appliedToSuiteAt"] == nil) {
				t.Errorf("a draft is left: %v", r)
			}
		}
		// Without a suite they go to the newest of the source.
		draft(ada, source, "Read four")
		if diff := cmp.Diff(object{"suite_id": made, "added": 1.0, "already": 1.0}, apply(object{})); diff != "" {
			t.Errorf("the default (-want +got):\n%s", diff)
		}

		draft(ada, source, "Read five")
		for field, body := range map[string]object{
			"draft_ids":      {"draft_ids": []string{uuid.NewString()}},
			"suite_id":       {"suite_id": "x"},
			"new_suite":      {"suite_id": suite, "new_suite": object{"name": "x"}},
			"new_suite.name": {"new_suite": object{"name": " "}},
		} {
			ada.Post(path, body).WantIssueWith(field, "")
		}
		ada.Post(path, object{"draft_ids": []string{}}).WantIssueWith("draft_ids", "")
		ada.Post(path, object{"draft_ids": []string{rejected}}).WantIssueWith("draft_ids", "no draft "+rejected)
		ada.Post(path, object{"suite_id": uuid.NewString()}).WantErrorWith(http.StatusNotFound, "Eval suite not found")
		ada.Post(path, object{"suite_id": ada.Suite(source, "deterministic", object{"case_kind": "exact_match", "output": "a", "expected": "a"})}).
			WantErrorWith(http.StatusConflict, "llm_judge")
		w.Member(ada.Org, access.Viewer).Post(path, nil).WantErrorWith(http.StatusForbidden, "")
		other := w.Org("other")
		other.Post(path, nil).WantErrorWith(http.StatusForbidden, "another organisation")
		ada.Post(path, object{"suite_id": other.Suite("", "llm_judge")}).WantErrorWith(http.StatusNotFound, "")
		ada.Post(sourcestest.SourcePath(uuid.NewString())+"/drafts/apply", nil).WantErrorWith(http.StatusNotFound, "Cloud source not found")
		if n := len(ada.Cases(made)); n != 2 {
			t.Errorf("the suite has %d cases, want 2", n)
		}
	})
}

// TestApplyDraftsTogether: calls at the same time add a draft once, and make one suite.
func TestApplyDraftsTogether(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		source := ada.Linked("pdf")
		draft(ada, source, "Read one")
		suites := map[any]bool{}
		added := 0.0
		apply := func() apptest.Response { return ada.Post(sourcestest.SourcePath(source)+"/drafts/apply", object{}) }
		for _, a := range sourcestest.Together(apply, apply, apply) {
			got := a.Want(http.StatusOK).Object()
			suites[got["suite_id"]] = true
			added += got["added"].(float64)
		}
		if len(suites) != 1 || added != 1 {
			t.Errorf("%d suites, %v added", len(suites), added)
		}
	})
}

// owner lets one person change what gates read.
type owner struct{ userID string }

func (o owner) MayChange(_ context.Context, _ store.Querier, c access.Caller, _ sources.GateInput) error {
	if c.UserID == o.userID {
		return nil
	}
	return fault.New(fault.Denied, "The enforced gate of pdf reads this").WithCode(sources.Protected)
}

// TestProtectedSuite: no way of making a case gets around the guard of what gates read.
func TestProtectedSuite(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		bob := w.Member(ada.Org, access.Member)
		w.Sources.Guard = owner{ada.User.ID}
		source := ada.Linked("pdf")
		suite := ada.Suite(source, "llm_judge")
		reportSession(ada, "s", "pdf")
		draft(bob, source, "Read one")
		drafts, session := sourcestest.SourcePath(source)+"/drafts/apply", "/v1/sessions/s/cases"
		for _, where := range []object{{}, {"suite_id": suite}, {"new_suite": object{"name": "Mine"}}} {
			bob.Post(drafts, where).WantCode(http.StatusForbidden, sources.Protected)
			bob.Post(session, apptest.With(where, object{"query": "Read two"})).WantCode(http.StatusForbidden, sources.Protected)
		}
		if n := len(ada.Cases(suite)); n != 0 {
			t.Errorf("the suite has %d cases of a person who may not change it", n)
		}
		bob.Post(session, object{"query": "Read two", "source_id": source}).Want(http.StatusCreated) // a draft
		if got := ada.Post(drafts, object{}).Want(http.StatusOK).Object(); got["added"] != 2.0 {
			t.Errorf("the owner adds %v", got)
		}
		// What is there already can be asked for again.
		bob.Post(session, object{"query": "Read two"}).Want(http.StatusCreated)
	})
}
