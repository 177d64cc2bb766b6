package improve_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// TestImprove shows every field of an improve run without any model, from its
// beginning to what becomes of its winner.
func TestImprove(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		suite := c.Create(improvable())
		run := c.Improve(suite)
		queued := apptest.Plain(t, object{
			"id": run["id"], "suite_id": suite["id"], "status": "queued",
			"subject": object{"entry_id": c.Entry(), "name": "pdf", "content_hash": run["subject"].(object)["content_hash"], "label": "2.0.0"},
			"target":  "description", "max_iterations": 3, "holdout": 0.4, "seed": run["seed"],
			"max_cost_usd": nil, "max_calls": nil, "max_minutes": nil,
			"judge": object{"api": "builtin", "model": "bm25-1", "prompt_version": "bm25-1,words-1"},
			// All cases; 3 rounds of two minibatches and the selection; a merge; the proof 5 times, the others, with both.
			"progress": object{"done": 0, "total": 3*15 + 3*3*(8+8+3) + 3*3 + 2*(5*3+3*12)},
			"cases":    object{"train": 9, "holdout": 6, "left_out": 2},
			"splits":   object{"train": 9, "selection": 3, "proof": 3},
			"proof":    nil,
			"cost": object{
				"usd": 0, "requests": 0, "tokens": object{"input": 0, "output": 0, "cache_read": 0, "cache_write": 0},
			},
			"stopped_by": nil,
			"current":    object{"description": "Extracts tables from PDF files.", "train": nil, "holdout": nil, "errors": 0},
			"iterations": []any{}, "winner": nil, "proposal_id": nil, "error": nil,
			"created_at": run["created_at"], "started_at": nil, "finished_at": nil,
		}).(object)
		if diff := cmp.Diff(queued, run); diff != "" {
			t.Errorf("queued (-want +got):\n%s", diff)
		}
		w.Work()
		run = c.AwaitImprove(run)
		current := run["current"].(object)
		if got := current["holdout"].(object); run["status"] != "no_winner" || got["passed"] != 1.0 || got["cases"] != 3.0 {
			t.Fatalf("got %v", run)
		}
		if proof := run["proof"].(object); proof["cases"] != 3.0 || proof["better"] != 2.0 || proof["worse"] != 0.0 ||
			proof["winner"] != 1.0 || proof["p"] != 0.125 || proof["proved"] != false {
			t.Errorf("the proof is %v", proof)
		}
		for _, e := range apptest.List(t, apptest.List(t, run, "iterations")[0], "edits") {
			if cases, ok := e["cases"].([]any); !ok || len(cases) != 0 {
				t.Errorf("the cases of an edit are %v, want []", e["cases"])
			}
		}
		if run["stopped_by"] != nil {
			t.Errorf("stopped by %v, although there was nothing left to write", run["stopped_by"])
		}
		if progress := run["progress"].(object); progress["done"] != progress["total"] {
			t.Errorf("progress is %v", progress)
		}
		if run["winner"] != nil || !strings.HasSuffix(apptest.Text(run, "error"), "too little: it is proposed as not proved") {
			t.Errorf("got the winner %v, %v", run["winner"], run["error"])
		}
		wantProposal(c.In(t), run)
		apptest.Eventually(t, "the end of its candidates", func() bool { return w.Count("cloud_sources")+w.Count("improve_sources") == 0 })
		if listed := c.Get(runstest.SuitesPath + "/" + suite["id"].(string) + "/runs").Want(http.StatusOK).List("runs"); len(listed) != 0 {
			t.Errorf("the suite lists %v", listed)
		}
		c.Get(improvePath + "?per_page=5&status=no_winner&suite_id=" + suite["id"].(string)).Want(http.StatusOK).WantBody(object{
			"improve_runs": []object{run}, "pagination": object{"page": 1, "per_page": 5, "total": 1},
		})
		c.Get(improvePath + "?status=queued").Want(http.StatusOK).WantBody(object{
			"improve_runs": []object{}, "pagination": object{"page": 1, "per_page": 20, "total": 0},
		})
		c.Do(http.MethodDelete, runstest.SuitesPath+"/"+suite["id"].(string), nil).Want(http.StatusNoContent)
		c.Get(improvePath+"/"+run["id"].(string)).WantErrorWith(404, "Improve run not found")
		if n := w.Count("improve_iterations"); n != 0 {
			t.Errorf("%d iterations are left", n)
		}
	})
}

// wantProposal wants the one that the best candidate of a run became.
func wantProposal(c *client, run object) {
	c.T.Helper()
	p, err := c.World.Proposals.Get(c.T.Context(), c.Org.ID, run["proposal_id"].(string))
	if err != nil {
		c.T.Fatalf("%v", err)
	}
	best, current, proof := apptest.List(c.T, run, "iterations")[0], run["current"].(object), run["proof"].(object)
	got := object{
		"skill": p.SkillName, "type": p.Type, "by": p.ProposedBy, "status": p.Status,
		"current": *p.CurrentValue, "proposed": *p.ProposedValue,
		"before": *p.PassRateBefore, "after": *p.ProjectedPassRate, "confidence": *p.Confidence,
	}
	want := object{
		"skill": "pdf", "type": proposals.Description, "by": "improve_run", "status": proposals.Pending,
		"current": current["description"], "proposed": best["description"], "before": proof["current"], "after": proof["winner"],
		"confidence": 0.4385029681293942, // the lower end of Wilson's interval of 3 of 3
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.T.Errorf("proposal (-want +got):\n%s", diff)
	}
	for _, part := range []string{run["id"].(string), run["suite_id"].(string), `"seed":`} {
		if !strings.Contains(string(p.Evidence), part) {
			c.T.Errorf("evidence %s lacks %s", p.Evidence, part)
		}
	}
	if !strings.HasPrefix(p.Reason, "On 3 held-out cases (5 trials each), 2 improved and 0 got worse") ||
		!strings.Contains(p.Reason, "This is not proved") {
		c.T.Errorf("reason is %q", p.Reason)
	}
	if p.Proved || p.Proof == nil || p.Proof.Better != 2 || p.EntryID != c.Entry() || p.BaseVersion != "2.0.0" ||
		!strings.Contains(p.SkillMD, "Use when asked about ") || !strings.Contains(p.Diff, "-description: Extracts tables from PDF files.") ||
		len(p.Edits) != 1 || p.Edits[0].Op != "replace" {
		c.T.Errorf("the proposal is %+v", p)
	}
}

// lostBlobs has nothing to read.
type lostBlobs struct{ blob.Bucket }

// Get implements blob.Bucket.
func (lostBlobs) Get(context.Context, string) (io.ReadCloser, blob.Info, error) {
	return nil, blob.Info{}, errors.New("the blobs are away")
}

// TestEstimateIsCheap: an estimate needs the SKILL.md of a version, not its archive of
// up to 10 MiB.
func TestEstimateIsCheap(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		suite := c.Create(improvable())
		body := object{"entry_id": c.Entry(), "suite_id": suite["id"]}
		w.Registry.Blobs = lostBlobs{w.Registry.Blobs}
		c.Post(improvePath+"/estimate", body).Want(http.StatusOK)
	})
}

// TestImproveRefused has a row for everything that keeps an improve run from
// being made.
func TestImproveRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		suite := func(cases ...object) string { return c.Create(judged(cases...))["id"].(string) }
		few := suite(trigger("a"), trigger("b"), trigger(" A "), avoid("c"), object{
			"case_kind": "trigger_query",
			"query":     "d", "expectation": "perhaps",
		})
		unwanted := suite(trigger("a"), avoid("b"), avoid("c"), avoid("d"))
		others := c.Create(deterministic(exact("a", "a")))["id"].(string)
		rubric := c.Create(with(colours(), object{"verifier_kind": "structured_rubric"}))["id"].(string)
		body := func(suite string) object { return object{"entry_id": c.Entry(), "suite_id": suite} }
		good := body(c.Create(colours())["id"].(string))
		own, foreign := c.Source(), w.Org("other").Source()
		invalid := c.Publish("wordy", "---\nname: wordy\ndescription: "+strings.Repeat("words ", 200)+"\n---\n")
		for _, row := range []struct {
			name       string
			body       object
			status     int
			part, path string
		}{
			{"no subject", without(good, "entry_id"), 400, "exactly one", "source_id"},
			{"two subjects", with(good, object{"source_id": own}), 400, "exactly one", "source_id"},
			{"no source id", with(without(good, "entry_id"), object{"source_id": "src_x"}), 400, "cloud source", "source_id"},
			{"no suite", without(good, "suite_id"), 400, "suite_id", "suite_id"},
			{"no iterations", with(good, object{"max_iterations": 0}), 400, ">= 1", "max_iterations"},
			{"too many iterations", with(good, object{"max_iterations": 11}), 400, "<= 10", "max_iterations"},
			{"nothing held out", with(good, object{"holdout": 0.05}), 400, ">= 0.1", "holdout"},
			{"all held out", with(good, object{"holdout": 1}), 400, "<= 0.9", "holdout"},
			{"holdout no number", with(good, object{"holdout": "0.4"}), 400, "number", "holdout"},
			{"no such suite", body("00000000-0000-4000-8000-000000000000"), 404, "Eval suite not found", ""},
			{"no such entry", with(good, object{"entry_id": "x"}), 404, "Registry entry not found", ""},
			{"another's source", with(without(good, "entry_id"), object{"source_id": "src_" + foreign}), 403, "another organisation", ""},
			{"fails validation", with(good, object{"entry_id": invalid}), 409, "The current version of wordy fails its validation", ""},
			{"few queries", body(few), 409, "at least 4 different trigger queries that can be run, and the suite has 3", ""},
			{"nothing wanted", body(unwanted), 409, "should_trigger, one to write from and one to hold out, and the suite has 1", ""},
			{"other cases", body(others), 409, "the suite has 0", ""},
			{"structured rubric", body(rubric), 409, "structured_rubric", ""},
		} {
			t.Run(row.name, func(t *testing.T) {
				a := c.In(t).Post(improvePath, row.body)
				if row.status == http.StatusBadRequest {
					a.WantIssueWith(row.path, row.part)
				} else {
					a.WantErrorWith(row.status, row.part)
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
		w := runstest.New(t, db)
		c := w.Org("acme")
		viewer, stranger := w.Member(c.Org, access.Viewer), w.Org("other")
		suite := c.Create(colours())
		started := c.Post(improvePath, object{"source_id": "src_" + c.Source(), "suite_id": suite["id"]})
		one := improvePath + "/" + started.Want(http.StatusAccepted).Field("improve_run")["id"].(string)
		body := object{"entry_id": c.Entry(), "suite_id": suite["id"]}
		viewer.Post(improvePath, body).WantErrorWith(403, "write")
		viewer.Post(one+"/cancel", nil).WantErrorWith(403, "write")
		viewer.Get(one).Want(http.StatusOK)
		if got := viewer.Get(improvePath).Want(http.StatusOK).Object()["pagination"].(object)["total"]; got != 1.0 {
			t.Errorf("a viewer sees %v", got)
		}
		stranger.Post(improvePath, body).WantErrorWith(404, "Eval suite not found")
		stranger.Post(one+"/cancel", nil).WantErrorWith(404, "Improve run not found")
		stranger.Get(one).WantErrorWith(404, "Improve run not found")
		if got := stranger.Get(improvePath).Want(http.StatusOK).Object()["pagination"].(object)["total"]; got != 0.0 {
			t.Errorf("a stranger sees %v", got)
		}
	})
}
