package suggestions_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/sources/sourcestest"
)

// brief returns the fields of a suggestion that tests compare.
func brief(s object) string {
	return fmt.Sprintf("%s|%v|%s|%s|%v", s["query"], s["shouldTrigger"], s["source"], s["provenance"], s["observedCount"])
}

func wantPending(c *client, id string, want ...string) {
	c.T.Helper()
	got := []string{}
	for _, s := range c.Pending(id) {
		got = append(got, brief(s))
	}
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		c.T.Errorf("pending (-want +got):\n%s", diff)
	}
}

// TestSuggestionLife follows a missed query from the push into a suite.
func TestSuggestionLife(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		w.Work()
		ada := w.Org("acme")
		id := ada.Linked("pdf")
		ada.Push(sourcestest.Prompt{Text: "Read the table", Skill: "pdf"},
			sourcestest.Prompt{Text: "read  THE table ", Skill: "pdf", Triggered: true})
		w.Settle() // Changed brings it about

		found := ada.Pending(id)
		if len(found) != 1 {
			t.Fatalf("%d suggestions, want 1: %v", len(found), found)
		}
		s := found[0]
		wantKeys(t, s, "id", "query", "shouldTrigger", "source", "provenance", "rationale", "observedCount", "confidence",
			"lastObservedAt", "reviewStatus")
		low, _ := stats.Wilson(0.5, 2)
		if s["query"] != "Read the table" || s["reviewStatus"] != "pending" || math.Abs(s["confidence"].(float64)-low) > 1e-12 ||
			s["rationale"] != "The skill did not fire in 1 of 2 observations of this query." || uuid.Validate(text(s, "id")) != nil {
			t.Errorf("suggestion %v, want the confidence %v", s, low)
		}
		suggestion := text(s, "id")

		// A repetition is the same suggestion.
		ada.Push(sourcestest.Prompt{Text: "read the table", Skill: "pdf"})
		w.Derive(ada, id)
		if found = ada.Pending(id); len(found) != 1 || text(found[0], "id") != suggestion || found[0]["observedCount"] != 2.0 {
			t.Errorf("after a repetition: %v", found)
		}

		// Accepted as a draft it is no longer pending, whatever is pushed.
		ada.Review(id, object{"suggestion_id": suggestion}).Want(http.StatusOK)
		wantPending(ada, id)
		ada.Push(sourcestest.Prompt{Text: "read the table", Skill: "pdf"})
		w.Derive(ada, id)
		wantPending(ada, id)

		// Cleared it is pending again, with what was pushed meanwhile.
		ada.Clear(id, suggestion).Want(http.StatusNoContent)
		ada.Clear(id, suggestion).WantErrorWith(http.StatusNotFound, "Review not found")
		wantPending(ada, id, "read the table|true|linked_telemetry|missed_query|3")

		// Applied it is a case of the suite and is not suggested again, even if
		// the review is cleared.
		suite := ada.Suite(id, "llm_judge")
		ada.Apply(id, suggestion, suite, nil).Want(http.StatusOK)
		want := []object{{"case_kind": "trigger_query", "query": "Read the table", "expectation": "should_trigger"}}
		if diff := cmp.Diff(want, ada.Cases(suite)); diff != "" {
			t.Errorf("cases (-want +got):\n%s", diff)
		}
		wantPending(ada, id)
		ada.Clear(id, suggestion).Want(http.StatusNoContent)
		w.Settle() // Clear brings it about
		wantPending(ada, id)
	})
}

// TestSuggestionEvidence covers every provenance.
func TestSuggestionEvidence(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		bob := w.Member(ada.Org, access.Member)
		id := ada.Linked("pdf")
		old := time.Now().Add(-time.Hour)
		ada.Push(
			sourcestest.Prompt{Text: "failed", Skill: "pdf", Triggered: true, Grade: new(0.4), Mode: "implicit"},
			sourcestest.Prompt{Text: "passed", Skill: "pdf", Triggered: true, Grade: new(0.5)},
			sourcestest.Prompt{Text: "fired", Skill: "pdf", Triggered: true},
			sourcestest.Prompt{Text: "another skill", Skill: "csv"},
			sourcestest.Prompt{Text: "machine's", Skill: "pdf", Kind: "tool_output"},
			sourcestest.Prompt{Text: "private", Skill: "pdf", Kind: "private"},
			sourcestest.Prompt{Text: "missed once", Skill: "pdf", At: old, Mode: "explicit"},
			sourcestest.Prompt{Text: "missed and failed", Skill: "pdf"}, sourcestest.Prompt{Text: "missed and failed", Skill: "pdf"},
			sourcestest.Prompt{Text: "missed and failed", Skill: "pdf", Triggered: true, Grade: new(0.0)},
			sourcestest.Prompt{Text: strings.Repeat("long ", 1000), Skill: "pdf"},
			sourcestest.Prompt{Text: " \n", Skill: "pdf"},
		)
		bob.Push(sourcestest.Prompt{Text: "missed twice", Skill: "pdf", At: old, Mode: "inferred"})
		ada.Push(sourcestest.Prompt{Text: "Missed TWICE", Skill: "pdf"})
		ada.Upload(sourcestest.SourcesPath+"/upload", sourcestest.Field("source_id", id),
			sourcestest.FilePart("SKILL.md", sourcestest.SkillText)).Want(http.StatusCreated)
		w.Work()
		tried := ada.Suite(id, "llm_judge", sourcestest.Trigger("regressed", object{"invocation_type": "contextual"}),
			sourcestest.Trigger("fires wrongly", object{"expectation": "should_not_trigger"}))
		ada.Run(tried, id, "regressed", "fires wrongly")
		ada.Run(tried, id, "regressed", "fires wrongly")
		ada.Run(tried, id, "fires wrongly")
		w.Derive(ada, id)
		wantPending(ada, id,
			"fires wrongly|false|hosted_run|run_failure|3",
			"Missed TWICE|true|linked_telemetry|missed_query|2",      // of 2: surer than
			"missed and failed|true|linked_telemetry|missed_query|3", // of 4
			"failed|true|linked_telemetry|failed_evaluation|1",
			"missed once|true|linked_telemetry|missed_query|1",
			"regressed|true|hosted_run|run_regression|1",
		)
		types := map[string]any{}
		for _, s := range ada.Pending(id) {
			types[text(s, "query")] = s["invocationType"]
		}
		want := map[string]any{
			"failed": "implicit", "missed once": "explicit", "regressed": "contextual",
			"fires wrongly": nil, "missed and failed": nil, "Missed TWICE": nil,
		}
		if diff := cmp.Diff(want, types); diff != "" {
			t.Errorf("invocation types (-want +got):\n%s", diff)
		}
		if got := ada.Detail(id)["evalSuggestionCount"]; got != 6.0 {
			t.Errorf("count %v, want 6", got)
		}

		// A case of a suite is only suggested if a run fails on it.
		ada.Suite(id, "llm_judge", sourcestest.Trigger("FAILED", nil),
			sourcestest.Trigger("missed once", object{"expectation": "should_not_trigger"}))
		w.Derive(ada, id)
		for _, s := range ada.Pending(id) {
			if s["query"] == "failed" {
				t.Error("a case of a suite is suggested")
			}
		}
		if n := len(ada.Pending(id)); n != 5 {
			t.Errorf("%d suggestions, want 5", n)
		}

		// Without its skill a source has suggestions of runs only.
		ada.Do(http.MethodPatch, sourcePath(id), object{"skill_id": ""}).Want(http.StatusOK)
		w.Derive(ada, id)
		wantPending(ada, id, "fires wrongly|false|hosted_run|run_failure|3", "regressed|true|hosted_run|run_regression|1")
	})
}

// TestSuggestionsFollowTelemetry: erasing a prompt removes its suggestion at once,
// since no table has a copy of its text.
func TestSuggestionsFollowTelemetry(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		bob := w.Member(ada.Org, access.Member)
		id := ada.Linked("pdf")
		earlier := time.Now().Add(-time.Minute)
		bob.Push(sourcestest.Prompt{Text: "both asked", Skill: "pdf", At: earlier},
			sourcestest.Prompt{Text: "bob's", Skill: "pdf", At: earlier.Add(-time.Minute)})
		ada.Push(sourcestest.Prompt{Text: "Both asked", Skill: "pdf"}, sourcestest.Prompt{Text: "ada's", Skill: "pdf"})
		w.Derive(ada, id)
		if n := len(ada.Pending(id)); n != 3 {
			t.Fatalf("%d suggestions, want 3", n)
		}
		if n := w.Count(`source_suggestions WHERE query IS NOT NULL`); n != 0 {
			t.Errorf("%d texts were copied", n)
		}
		ada.Do(http.MethodDelete, "/api/v1/me/data", nil).Want(http.StatusNoContent)
		wantPending(ada, id, "bob's|true|linked_telemetry|missed_query|1")
		w.Derive(ada, id)
		wantPending(ada, id, "both asked|true|linked_telemetry|missed_query|1", "bob's|true|linked_telemetry|missed_query|1")

		w.Exec(`DELETE FROM telemetry_prompts`) // as the retention does
		wantPending(ada, id)
		w.Derive(ada, id)
		if n := w.Count("source_suggestions"); n != 0 {
			t.Errorf("%d suggestions without a text", n)
		}
	})
}

// TestSuggestionsOfAnOrganisation: organisations are isolated.
func TestSuggestionsOfAnOrganisation(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada, eve := w.Org("acme"), w.Org("evil")
		mine, hers := ada.Linked("pdf"), eve.Linked("pdf")
		ada.Push(sourcestest.Prompt{Text: "mine", Skill: "pdf"})
		eve.Push(sourcestest.Prompt{Text: "hers", Skill: "pdf"})
		w.Derive(ada, mine)
		w.Derive(eve, hers)
		wantPending(ada, mine, "mine|true|linked_telemetry|missed_query|1")
		wantPending(eve, hers, "hers|true|linked_telemetry|missed_query|1")

		// The same query is another suggestion in another source.
		second := ada.Linked("pdf")
		w.Derive(ada, second)
		if a, b := text(ada.Pending(mine)[0], "id"), text(ada.Pending(second)[0], "id"); a == b {
			t.Errorf("two sources share the suggestion %s", a)
		}
	})
}

// TestChangedCoalesces: derivation is debounced, so that a burst of pushes causes
// one job, and none where no source is linked to a skill.
func TestChangedCoalesces(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		waiting := func() int {
			counts, err := w.Queue.Counts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, c := range counts {
				if strings.HasPrefix(c.Kind, "sources.") {
					n += c.Waiting
				}
			}
			return n
		}
		ada.Made(object{"type": "upload", "label": "x"})
		ada.Push(sourcestest.Prompt{Text: "a", Skill: "pdf"})
		if n := waiting(); n != 0 {
			t.Errorf("%d jobs for an organisation without a linked source", n)
		}
		ada.Linked("pdf")
		for range 5 {
			ada.Push(sourcestest.Prompt{Text: "a", Skill: "pdf"})
		}
		if n := waiting(); n != 2 { // that of the new source, and one for the pushes
			t.Errorf("%d jobs for five pushes, want 2", n)
		}
	})
}

func TestSuggestionPages(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		id := ada.Linked("pdf")
		for i := range 5 {
			for range i + 1 {
				ada.Push(sourcestest.Prompt{Text: fmt.Sprint("query ", i), Skill: "pdf"})
			}
		}
		w.Derive(ada, id)
		page := ada.Get(sourcePath(id) + "/eval-suggestions?page=2&per_page=2").Want(http.StatusOK)
		var got []string
		for _, s := range page.List("evalSuggestions") {
			got = append(got, text(s, "query"))
		}
		if diff := cmp.Diff([]string{"query 2", "query 1"}, got); diff != "" {
			t.Errorf("second page (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(object{"page": 2.0, "per_page": 2.0, "total": 5.0}, page.Object()["pagination"]); diff != "" {
			t.Errorf("pagination (-want +got):\n%s", diff)
		}
		for i, s := range ada.Pending(id)[:3] {
			status := []string{"accepted", "rejected", "accepted"}[i]
			ada.Review(id, object{"suggestion_id": s["id"], "query": s["query"], "review_status": status}).Want(http.StatusOK)
		}
		reviews := ada.Get(sourcePath(id) + "/eval-suggestions/reviews?review_status=accepted&per_page=1").Want(http.StatusOK)
		if list := reviews.List("reviewedSuggestions"); len(list) != 1 || text(list[0], "query") != "query 2" ||
			at(reviews.Object(), "pagination", "total") != 2.0 {
			t.Errorf("accepted: %s", reviews.Body)
		}
		if n := len(ada.Get(sourcePath(id) + "/eval-suggestions/reviews").Want(http.StatusOK).List("reviewedSuggestions")); n != 3 {
			t.Errorf("%d reviews, want 3", n)
		}
		if total := at(ada.Get(sourcePath(id)+"/eval-suggestions").Want(http.StatusOK).Object(), "pagination", "total"); total != 2.0 {
			t.Errorf("%v pending, want 2", total)
		}
		ada.Get(sourcePath(id)+"/eval-suggestions?per_page=101").WantIssueWith("per_page", "100")
		ada.Get(sourcePath(id)+"/eval-suggestions/reviews?review_status=pending").WantIssueWith("review_status", "one of")
	})
}
