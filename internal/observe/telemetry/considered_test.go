package telemetry_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

func TestConsidered(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, eve := w.org("acme"), w.org("evil")
		now := time.Now().Truncate(time.Millisecond)
		say := func(n int, text, kind string) object {
			return object{
				"prompt_id": fmt.Sprint("p", n), "session_id": fmt.Sprint("s", n), "occurred_at": stamp(now),
				"prompt_text": text, "prompt_kind": kind,
			}
		}
		look := func(id string, n int, with object) object {
			with["session_id"], with["matched_prompt_id"] = fmt.Sprint("s", n), fmt.Sprint("p", n)
			with["occurred_at"] = stamp(now.Add(-time.Duration(n) * time.Minute))
			return check(id, with)
		}
		grade := func(id string, n int, rate float64) object {
			return object{
				"grading_id": id, "session_id": fmt.Sprint("s", n), "skill_name": "pdf", "graded_at": stamp(now),
				"pass_rate": rate,
			}
		}
		records := object{
			"prompts": []any{
				say(1, "missed twice of three", "user"), say(2, "failed", ""), say(3, "half", "unknown"),
				say(4, "private", "private"), say(5, "machine's", "tool_output"), say(6, "", "user"),
			},
			"skill_invocations": []any{
				look("a", 1, object{"triggered": false}), look("b", 1, object{"triggered": false}),
				look("c", 1, object{"triggered": true}), look("d", 2, object{"triggered": true}), look("e", 3, object{"triggered": true}),
				look("f", 4, object{"triggered": false}), look("g", 5, object{"triggered": false}),
				look("h", 6, object{"triggered": false}), look("i", 1, object{"triggered": false, "skill_name": "csv"}),
			},
			"grading_results": []any{grade("x", 2, 0.2), grade("y", 2, 0.6), grade("z", 3, 0.5)},
		}
		ada.push("", records).Want(http.StatusCreated)
		eve.push("", records).Want(http.StatusCreated)

		skillID, _ := ada.Get("/v1/skills/pdf").Object()["skill"].(map[string]any)["skill_id"].(string)
		got, err := telemetry.ConsideredPrompts(t.Context(), db, ada.Org.ID, skillID)
		if err != nil {
			t.Fatal(err)
		}
		missed, graded := now.Add(-time.Minute).UTC(), now.UTC()
		want := []telemetry.ConsideredPrompt{
			{Text: "missed twice of three", Checks: 3, Missed: 2, LastMissedAt: &missed, Mode: "explicit"},
			{Text: "failed", Checks: 1, Graded: 1, Failed: 1, LastFailedAt: &graded, Mode: "explicit"},
			{Text: "half", Checks: 1, Graded: 1, Mode: "explicit"},
		}
		refs := []string{"unknown"}
		for i := range got {
			refs = append(refs, got[i].Ref)
			if i < len(want) {
				want[i].Ref = got[i].Ref
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("considered (-want +got):\n%s", diff)
		}
		texts, err := telemetry.PromptTexts(t.Context(), db, ada.Org.ID, refs)
		if err != nil || len(texts) != 3 || texts[got[0].Ref] != "missed twice of three" {
			t.Errorf("texts %v, %v", texts, err)
		}
		if texts, err := telemetry.PromptTexts(t.Context(), db, eve.Org.ID, refs); err != nil || len(texts) != 0 {
			t.Errorf("others read %v, %v", texts, err)
		}
		ada.Do(http.MethodDelete, "/api/v1/me/data", nil).Want(http.StatusNoContent)
		if texts, err := telemetry.PromptTexts(t.Context(), db, ada.Org.ID, refs); err != nil || len(texts) != 0 {
			t.Errorf("erased, but %v, %v", texts, err)
		}
	})
}
