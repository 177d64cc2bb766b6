package sources_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/sources"
	"github.com/whetstone-dev/whetstone/internal/stats"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// asked is one time that somebody asked for something while a skill was there.
type asked struct {
	text, skill string
	kind        string // of the prompt; user if empty
	triggered   bool
	mode        string
	grade       *float64 // of the session
	at          time.Time
}

func share(f float64) *float64 { return &f }

// push reports sessions, one for each that was asked.
func (c *client) push(all ...asked) {
	c.t.Helper()
	var prompts, invocations, gradings []object
	for _, a := range all {
		session := uuid.NewString()
		if a.at.IsZero() {
			a.at = time.Now()
		}
		at := a.at.UTC().Format(time.RFC3339Nano)
		kind := a.kind
		if kind == "" {
			kind = "user"
		}
		prompts = append(prompts, object{
			"prompt_id": session + ":p0", "session_id": session, "occurred_at": at, "prompt_text": a.text, "prompt_kind": kind,
		})
		invocation := object{
			"skill_invocation_id": session + ":s", "session_id": session, "occurred_at": at, "skill_name": a.skill,
			"matched_prompt_id": session + ":p0", "triggered": a.triggered, "confidence": 0.5,
		}
		if a.mode != "" {
			invocation["invocation_mode"] = a.mode
		}
		invocations = append(invocations, invocation)
		if a.grade != nil {
			gradings = append(gradings, object{
				"grading_id": session + ":g", "session_id": session, "skill_name": a.skill, "graded_at": at, "pass_rate": *a.grade,
			})
		}
	}
	c.post("/api/v1/push", object{"push_id": uuid.NewString(), "canonical": object{
		"prompts": prompts, "skill_invocations": invocations, "grading_results": gradings,
	}}).want(http.StatusCreated)
}

// brief is what a test compares of a suggestion.
func brief(s object) string {
	return fmt.Sprintf("%s|%v|%s|%s|%v", s["query"], s["shouldTrigger"], s["source"], s["provenance"], s["observedCount"])
}

func (c *client) wantPending(id string, want ...string) {
	c.t.Helper()
	got := []string{}
	for _, s := range c.pending(id) {
		got = append(got, brief(s))
	}
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		c.t.Errorf("pending (-want +got):\n%s", diff)
	}
}

// TestSuggestionLife is the whole way of a miss into a suite.
func TestSuggestionLife(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.work()
		ada := w.org("acme")
		id := ada.linked("pdf")
		ada.push(asked{text: "Read the table", skill: "pdf"}, asked{text: "read  THE table ", skill: "pdf", triggered: true})
		w.settle() // Changed brings it about

		found := ada.pending(id)
		if len(found) != 1 {
			t.Fatalf("%d suggestions, want 1: %v", len(found), found)
		}
		s := found[0]
		wantKeys(t, s, "id", "query", "shouldTrigger", "source", "provenance", "rationale", "observedCount", "confidence", "lastObservedAt", "reviewStatus")
		low, _ := stats.Wilson(0.5, 2)
		if s["query"] != "Read the table" || s["reviewStatus"] != "pending" || math.Abs(s["confidence"].(float64)-low) > 1e-12 ||
			s["rationale"] != "The skill did not fire in 1 of 2 observations of this query." || uuid.Validate(text(s, "id")) != nil {
			t.Errorf("suggestion %v, want the confidence %v", s, low)
		}
		suggestion := text(s, "id")

		// A repetition is the same suggestion.
		ada.push(asked{text: "read the table", skill: "pdf"})
		w.derive(ada, id)
		if found = ada.pending(id); len(found) != 1 || text(found[0], "id") != suggestion || found[0]["observedCount"] != 2.0 {
			t.Errorf("after a repetition: %v", found)
		}

		// Accepted to a draft it is pending no more, whatever comes.
		ada.review(id, object{"suggestion_id": suggestion}).want(http.StatusOK)
		ada.wantPending(id)
		ada.push(asked{text: "read the table", skill: "pdf"})
		w.derive(ada, id)
		ada.wantPending(id)

		// Cleared it is back, with all that came meanwhile.
		ada.clear(id, suggestion).want(http.StatusNoContent)
		ada.clear(id, suggestion).wantError(http.StatusNotFound, "Review not found")
		ada.wantPending(id, "read the table|true|linked_telemetry|missed_query|3")

		// Applied it stands in the suite and does not come back, even if the
		// review is cleared.
		suite := w.suites.add(ada.org.ID, id, "llm_judge")
		ada.apply(id, suggestion, suite, nil).want(http.StatusOK)
		want := []object{{"case_kind": "trigger_query", "query": "Read the table", "expectation": "should_trigger"}}
		if diff := cmp.Diff(want, w.suites.cases(suite)); diff != "" {
			t.Errorf("cases (-want +got):\n%s", diff)
		}
		ada.wantPending(id)
		ada.clear(id, suggestion).want(http.StatusNoContent)
		w.settle() // Clear brings it about
		ada.wantPending(id)
	})
}

// TestSuggestionEvidence has every reason there is.
func TestSuggestionEvidence(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		bob := w.member(ada.org, access.Member)
		id := ada.linked("pdf")
		old := time.Now().Add(-time.Hour)
		ada.push(
			asked{text: "failed", skill: "pdf", triggered: true, grade: share(0.4), mode: "implicit"},
			asked{text: "passed", skill: "pdf", triggered: true, grade: share(0.5)},
			asked{text: "fired", skill: "pdf", triggered: true},
			asked{text: "another skill", skill: "csv"},
			asked{text: "machine's", skill: "pdf", kind: "tool_output"},
			asked{text: "private", skill: "pdf", kind: "private"},
			asked{text: "missed once", skill: "pdf", at: old, mode: "explicit"},
			asked{text: "missed and failed", skill: "pdf"}, asked{text: "missed and failed", skill: "pdf"},
			asked{text: "missed and failed", skill: "pdf", triggered: true, grade: share(0)},
			asked{text: strings.Repeat("long ", 1000), skill: "pdf"},
			asked{text: " \n", skill: "pdf"},
		)
		bob.push(asked{text: "missed twice", skill: "pdf", at: old, mode: "inferred"})
		ada.push(asked{text: "Missed TWICE", skill: "pdf"})
		w.runs.failures = []sources.Failure{
			{Query: "regressed", ShouldTrigger: true, InvocationType: "contextual", Regression: true, Failed: 1, Runs: 2, LastFailedAt: old},
			{Query: "fires wrongly", ShouldTrigger: false, Failed: 3, Runs: 3, LastFailedAt: old},
		}
		w.derive(ada, id)
		ada.wantPending(
			id,
			"fires wrongly|false|hosted_run|run_failure|3",
			"Missed TWICE|true|linked_telemetry|missed_query|2",      // of 2: surer than
			"missed and failed|true|linked_telemetry|missed_query|3", // of 4
			"failed|true|linked_telemetry|failed_evaluation|1",
			"missed once|true|linked_telemetry|missed_query|1",
			"regressed|true|hosted_run|run_regression|1",
		)
		types := map[string]any{}
		for _, s := range ada.pending(id) {
			types[text(s, "query")] = s["invocationType"]
		}
		want := map[string]any{
			"failed": "implicit", "missed once": "explicit", "regressed": "contextual",
			"fires wrongly": nil, "missed and failed": nil, "Missed TWICE": nil,
		}
		if diff := cmp.Diff(want, types); diff != "" {
			t.Errorf("invocation types (-want +got):\n%s", diff)
		}
		if got := ada.detail(id)["evalSuggestionCount"]; got != 6.0 {
			t.Errorf("count %v, want 6", got)
		}

		// A case that stands in a suite is only told of if a run fails.
		w.suites.add(ada.org.ID, id, "llm_judge", object{"query": "FAILED", "expectation": "should_trigger"},
			object{"query": "regressed", "expectation": "should_trigger"}, object{"query": "missed once", "expectation": "should_not_trigger"})
		w.derive(ada, id)
		for _, s := range ada.pending(id) {
			if s["query"] == "failed" {
				t.Error("a case of a suite is suggested")
			}
		}
		if n := len(ada.pending(id)); n != 5 {
			t.Errorf("%d suggestions, want 5", n)
		}

		// Without its skill a source has the runs' only.
		ada.do(http.MethodPatch, sourcePath(id), object{"skill_id": ""}).want(http.StatusOK)
		w.derive(ada, id)
		ada.wantPending(id, "fires wrongly|false|hosted_run|run_failure|3", "regressed|true|hosted_run|run_regression|1")
	})
}

// TestSuggestionsFollowTelemetry checks that a text which is erased is gone
// at once, from every table, and its suggestion with it.
func TestSuggestionsFollowTelemetry(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		bob := w.member(ada.org, access.Member)
		id := ada.linked("pdf")
		earlier := time.Now().Add(-time.Minute)
		bob.push(asked{text: "both asked", skill: "pdf", at: earlier}, asked{text: "bob's", skill: "pdf", at: earlier.Add(-time.Minute)})
		ada.push(asked{text: "Both asked", skill: "pdf"}, asked{text: "ada's", skill: "pdf"})
		w.derive(ada, id)
		if n := len(ada.pending(id)); n != 3 {
			t.Fatalf("%d suggestions, want 3", n)
		}
		if n := w.count(`source_suggestions WHERE query IS NOT NULL`); n != 0 {
			t.Errorf("%d texts were copied", n)
		}
		ada.do(http.MethodDelete, "/api/v1/me/data", nil).want(http.StatusNoContent)
		ada.wantPending(id, "bob's|true|linked_telemetry|missed_query|1")
		w.derive(ada, id)
		ada.wantPending(id, "both asked|true|linked_telemetry|missed_query|1", "bob's|true|linked_telemetry|missed_query|1")

		w.exec(`DELETE FROM telemetry_prompts`) // as the retention does
		ada.wantPending(id)
		w.derive(ada, id)
		if n := w.count("source_suggestions"); n != 0 {
			t.Errorf("%d suggestions without a text", n)
		}
	})
}

// TestSuggestionsOfAnOrganisation: what others ask stays theirs.
func TestSuggestionsOfAnOrganisation(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, eve := w.org("acme"), w.org("evil")
		mine, hers := ada.linked("pdf"), eve.linked("pdf")
		ada.push(asked{text: "mine", skill: "pdf"})
		eve.push(asked{text: "hers", skill: "pdf"})
		w.derive(ada, mine)
		w.derive(eve, hers)
		ada.wantPending(mine, "mine|true|linked_telemetry|missed_query|1")
		eve.wantPending(hers, "hers|true|linked_telemetry|missed_query|1")

		// The same query is another suggestion in another source.
		second := ada.linked("pdf")
		w.derive(ada, second)
		if a, b := text(ada.pending(mine)[0], "id"), text(ada.pending(second)[0], "id"); a == b {
			t.Errorf("two sources share the suggestion %s", a)
		}
	})
}

// TestChangedCoalesces: a burst of pushes is looked at once, and costs nothing
// where no source has a skill.
func TestChangedCoalesces(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		waiting := func() int {
			counts, err := w.queue.Counts(t.Context())
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
		ada.made(object{"type": "upload", "label": "x"})
		ada.push(asked{text: "a", skill: "pdf"})
		if n := waiting(); n != 0 {
			t.Errorf("%d jobs for an organisation without a linked source", n)
		}
		ada.linked("pdf")
		for range 5 {
			ada.push(asked{text: "a", skill: "pdf"})
		}
		if n := waiting(); n != 2 { // that of the new source, and one for the pushes
			t.Errorf("%d jobs for five pushes, want 2", n)
		}
	})
}

func TestSuggestionPages(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		id := ada.linked("pdf")
		for i := range 5 {
			for range i + 1 {
				ada.push(asked{text: fmt.Sprint("query ", i), skill: "pdf"})
			}
		}
		w.derive(ada, id)
		page := ada.get(sourcePath(id) + "/eval-suggestions?page=2&per_page=2").want(http.StatusOK)
		var got []string
		for _, s := range page.list("evalSuggestions") {
			got = append(got, text(s, "query"))
		}
		if diff := cmp.Diff([]string{"query 2", "query 1"}, got); diff != "" {
			t.Errorf("second page (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(object{"page": 2.0, "per_page": 2.0, "total": 5.0}, page.object()["pagination"]); diff != "" {
			t.Errorf("pagination (-want +got):\n%s", diff)
		}
		for i, s := range ada.pending(id)[:3] {
			status := []string{"accepted", "rejected", "accepted"}[i]
			ada.review(id, object{"suggestion_id": s["id"], "query": s["query"], "review_status": status}).want(http.StatusOK)
		}
		reviews := ada.get(sourcePath(id) + "/eval-suggestions/reviews?review_status=accepted&per_page=1").want(http.StatusOK)
		if list := reviews.list("reviewedSuggestions"); len(list) != 1 || text(list[0], "query") != "query 2" || at(reviews.object(), "pagination", "total") != 2.0 {
			t.Errorf("accepted: %s", reviews.body)
		}
		if n := len(ada.get(sourcePath(id) + "/eval-suggestions/reviews").want(http.StatusOK).list("reviewedSuggestions")); n != 3 {
			t.Errorf("%d reviews, want 3", n)
		}
		if total := at(ada.get(sourcePath(id)+"/eval-suggestions").want(http.StatusOK).object(), "pagination", "total"); total != 2.0 {
			t.Errorf("%v pending, want 2", total)
		}
		ada.get(sourcePath(id)+"/eval-suggestions?per_page=101").wantInvalid("per_page", "100")
		ada.get(sourcePath(id)+"/eval-suggestions/reviews?review_status=pending").wantInvalid("review_status", "one of")
	})
}
