package suggestions_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/sources/sourcestest"
)

// TestReviewersAtOnce: of concurrent decisions on one suggestion one wins, and no
// fields of two are mixed.
func TestReviewersAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		bob := w.Member(ada.Org, access.Member)
		id := ada.Made(object{"type": "upload", "label": "x"})
		suite := ada.Suite(id, "llm_judge")
		for range 10 {
			suggestion := uuid.NewString()
			got := sourcestest.Together(
				func() answer { return ada.Review(id, object{"suggestion_id": suggestion, "rationale": "ada"}) },
				func() answer {
					return bob.Review(id, object{"suggestion_id": suggestion, "review_status": "rejected", "rationale": "bob"})
				},
				func() answer { return bob.Apply(id, suggestion, suite, object{"query": suggestion}) },
				func() answer { return ada.Apply(id, suggestion, suite, object{"query": suggestion}) })
			for _, a := range got {
				a.Want(http.StatusOK)
			}
			reviews := ada.Reviewed(id)
			if n := w.Count("source_reviews WHERE suggestion_id = $1", suggestion); n != 1 {
				t.Fatalf("%d reviews of one suggestion", n)
			}
			r := reviews[slices.IndexFunc(reviews, func(r object) bool { return r["suggestionId"] == suggestion })]
			whole := r["reviewStatus"] == "accepted" && r["acceptTarget"] == "draft" && r["rationale"] == "ada" &&
				r["reviewedBy"] == ada.User.ID && r["appliedSuiteId"] == nil ||
				r["reviewStatus"] == "rejected" && r["acceptTarget"] == nil && r["rationale"] == "bob" && r["reviewedBy"] == bob.User.ID ||
				r["acceptTarget"] == "saved_suite" && r["appliedSuiteId"] == suite && r["query"] == suggestion
			if !whole {
				t.Errorf("a mixture: %v", r)
			}
		}
		if n := len(ada.Cases(suite)); n != 10 {
			t.Errorf("%d cases of ten suggestions", n)
		}
		// Of two concurrent clears one is too late.
		ada.Review(id, nil).Want(http.StatusOK)
		undo := func() answer { return ada.Clear(id, "0197a7a5-9d4e-7c3b-8f5e-2d6a1b9c4e70") }
		if diff := cmp.Diff([]int{204, 404}, statuses(sourcestest.Together(undo, undo))); diff != "" {
			t.Errorf("statuses (-want +got):\n%s", diff)
		}
	})
}

func statuses(answers []answer) []int {
	all := []int{}
	for _, a := range answers {
		all = append(all, a.Status)
	}
	slices.Sort(all)
	return all
}

// TestApplyAgainstPatch: applying a case while the suite is edited loses neither.
func TestApplyAgainstPatch(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		id := ada.Made(object{"type": "upload", "label": "x"})
		suite := ada.Suite(id, "llm_judge")
		for i := range 10 {
			query := fmt.Sprint("applied ", i)
			got := sourcestest.Together(
				func() answer { return ada.Apply(id, uuid.NewString(), suite, object{"query": query}) },
				func() answer { return ada.AddCase(suite, sourcestest.Trigger(fmt.Sprint("patched ", i), nil)) })
			for _, a := range got {
				a.Want(http.StatusOK)
			}
		}
		if n := len(ada.Cases(suite)); n != 20 {
			t.Errorf("%d cases, want 20", n)
		}
	})
}
