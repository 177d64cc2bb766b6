package improve_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/proposals"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// TestImprove shows every field of an improve run without any model, from its
// beginning to what becomes of its winner.
func TestImprove(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org("acme")
		suite := c.Create(improvable())
		run := c.improve(suite)
		queued := plain(t, object{
			"id": run["id"], "suite_id": suite["id"], "status": "queued",
			"subject":        object{"entry_id": c.Entry(), "name": "pdf", "content_hash": run["subject"].(object)["content_hash"], "label": "2.0.0"},
			"max_iterations": 3, "holdout": 0.4, "seed": run["seed"],
			"judge":      object{"api": "builtin", "model": "bm25-1", "prompt_version": "bm25-1,words-1"},
			"progress":   object{"done": 0, "total": 4 * 15 * 3},
			"cases":      object{"train": 9, "holdout": 6, "left_out": 2},
			"current":    object{"description": "Extracts tables from PDF files.", "train": nil, "holdout": nil, "errors": 0},
			"iterations": []any{}, "winner": nil, "proposal_id": nil, "error": nil,
			"created_at": run["created_at"], "started_at": nil, "finished_at": nil,
		}).(object)
		if diff := cmp.Diff(queued, run); diff != "" {
			t.Errorf("queued (-want +got):\n%s", diff)
		}
		w.Work()
		run = c.awaitImprove(run)
		current := run["current"].(object)
		if got := current["holdout"].(object); run["status"] != "succeeded" || got["passed"] != 2.0 || got["cases"] != 6.0 {
			t.Fatalf("got %v", run)
		}
		if progress := run["progress"].(object); progress["done"] != progress["total"] {
			t.Errorf("progress is %v", progress)
		}
		winner := run["winner"].(object)
		if rate := winner["pass_rate"].(float64); rate != 1 || winner["n"] != 1.0 ||
			!strings.Contains(winner["description"].(string), "Use when asked about ") {
			t.Errorf("winner is %v", winner)
		}
		c.wantProposal(t, run)
		c.Get(improvePath + "?per_page=5&status=succeeded&suite_id=" + suite["id"].(string)).Want(http.StatusOK).WantBody(object{
			"improve_runs": []object{run}, "pagination": object{"page": 1, "per_page": 5, "total": 1},
		})
		c.Get(improvePath + "?status=queued").Want(http.StatusOK).WantBody(object{
			"improve_runs": []object{}, "pagination": object{"page": 1, "per_page": 20, "total": 0},
		})
		c.Do(http.MethodDelete, suitesPath+"/"+suite["id"].(string), nil).Want(http.StatusNoContent)
		c.Get(improvePath+"/"+run["id"].(string)).WantError(404, "Improve run not found")
		if n := w.Count("improve_iterations"); n != 0 {
			t.Errorf("%d iterations are left", n)
		}
	})
}

// wantProposal wants the one that the winner of a run became.
func (c *client) wantProposal(t *testing.T, run object) {
	t.Helper()
	p, err := c.w.Proposals.Get(t.Context(), c.Org.ID, run["proposal_id"].(string))
	if err != nil {
		t.Fatal(err)
	}
	winner, current := run["winner"].(object), run["current"].(object)
	got := object{
		"skill": p.SkillName, "type": p.Type, "by": p.ProposedBy, "status": p.Status, "current": *p.CurrentValue, "proposed": *p.ProposedValue,
		"before": *p.PassRateBefore, "after": *p.ProjectedPassRate, "confidence": *p.Confidence,
	}
	want := object{
		"skill": "pdf", "type": proposals.Description, "by": "improve_run", "status": proposals.Pending,
		"current": current["description"], "proposed": winner["description"], "before": current["holdout"].(object)["rate"],
		"after": winner["pass_rate"], "confidence": winner["pass_rate_interval"].([]any)[0],
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("proposal (-want +got):\n%s", diff)
	}
	for _, part := range []string{run["id"].(string), run["suite_id"].(string), `"passed_before":`, `"passed_after":`} {
		if !strings.Contains(string(p.Evidence), part) {
			t.Errorf("evidence %s lacks %s", p.Evidence, part)
		}
	}
	if !strings.HasPrefix(p.Reason, "Of 6 held-out trigger queries ") {
		t.Errorf("reason is %q", p.Reason)
	}
}

// TestImproveRefused has a row for everything that keeps an improve run from
// being made.
func TestImproveRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org("acme")
		suite := func(cases ...object) string { return c.Create(judged(cases...))["id"].(string) }
		good := c.Create(colours())["id"].(string)
		few := suite(trigger("a"), trigger("b"), trigger(" A "), avoid("c"), object{
			"case_kind": "trigger_query",
			"query":     "d", "expectation": "perhaps",
		})
		unwanted := suite(trigger("a"), avoid("b"), avoid("c"), avoid("d"))
		others := c.Create(deterministic(exact("a", "a")))["id"].(string)
		rubric := c.Create(with(colours(), "verifier_kind", "structured_rubric"))["id"].(string)
		body := func(suite string, pairs ...any) object {
			return with(object{"entry_id": c.Entry(), "suite_id": suite}, pairs...)
		}
		own, foreign := c.Source(), w.org("other").Source()
		for _, row := range []struct {
			name   string
			body   object
			status int
			part   string
			path   []string
		}{
			{"no subject", body(good, "entry_id", nil), 400, "exactly one", []string{"source_id"}},
			{"two subjects", body(good, "source_id", own), 400, "exactly one", []string{"source_id"}},
			{"no source id", body(good, "entry_id", nil, "source_id", "src_x"), 400, "cloud source", []string{"source_id"}},
			{"no suite", body(good, "suite_id", nil), 400, "suite_id", []string{"suite_id"}},
			{"no iterations", body(good, "max_iterations", 0), 400, ">= 1", []string{"max_iterations"}},
			{"too many iterations", body(good, "max_iterations", 11), 400, "<= 10", []string{"max_iterations"}},
			{"nothing held out", body(good, "holdout", 0.05), 400, ">= 0.1", []string{"holdout"}},
			{"all held out", body(good, "holdout", 1), 400, "<= 0.9", []string{"holdout"}},
			{"holdout no number", body(good, "holdout", "0.4"), 400, "number", []string{"holdout"}},
			{"no such suite", body("00000000-0000-4000-8000-000000000000"), 404, "Eval suite not found", nil},
			{"no such entry", body(good, "entry_id", "x"), 404, "Registry entry not found", nil},
			{"another's source", body(good, "entry_id", nil, "source_id", "src_"+foreign), 403, "another organisation", nil},
			{"few queries", body(few), 409, "at least 4 different trigger queries that can be run, and the suite has 3", nil},
			{"nothing wanted", body(unwanted), 409, "should_trigger, one to write from and one to hold out, and the suite has 1", nil},
			{"other cases", body(others), 409, "the suite has 0", nil},
			{"structured rubric", body(rubric), 409, "structured_rubric", nil},
		} {
			t.Run(row.name, func(t *testing.T) {
				a := c.in(t).Post(improvePath, row.body)
				if row.status == http.StatusBadRequest {
					a.WantInvalid(row.part, row.path...)
				} else {
					a.WantError(row.status, row.part)
				}
			})
		}
		if n := w.Count("improve_runs"); n != 0 {
			t.Errorf("%d improve runs were made", n)
		}
	})
}

func TestImproveAccess(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org("acme")
		viewer, stranger := w.Member(c.Org, access.Viewer), w.org("other")
		suite := c.Create(colours())
		one := improvePath + "/" + c.improve(suite, "entry_id", nil, "source_id", "src_"+c.Source())["id"].(string)
		body := object{"entry_id": c.Entry(), "suite_id": suite["id"]}
		viewer.Post(improvePath, body).WantError(403, "write")
		viewer.Post(one+"/cancel", nil).WantError(403, "write")
		viewer.Get(one).Want(http.StatusOK)
		if got := viewer.Get(improvePath).Want(http.StatusOK).Object()["pagination"].(object)["total"]; got != 1.0 {
			t.Errorf("a viewer sees %v", got)
		}
		stranger.Post(improvePath, body).WantError(404, "Eval suite not found")
		stranger.Post(one+"/cancel", nil).WantError(404, "Improve run not found")
		stranger.Get(one).WantError(404, "Improve run not found")
		if got := stranger.Get(improvePath).Want(http.StatusOK).Object()["pagination"].(object)["total"]; got != 0.0 {
			t.Errorf("a stranger sees %v", got)
		}
	})
}
