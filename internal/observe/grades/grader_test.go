package grades_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

func graderOf(c *apptest.Caller, path string) object {
	c.T.Helper()
	return c.Get(path).Want(http.StatusOK).Object()["grader"].(object)
}

// publish adds the skill pdf to the registry.
func (w *world) publish(c *apptest.Caller, files map[string]string) {
	w.T.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	packed := tar.NewWriter(z)
	for name, text := range files {
		if err := packed.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			w.T.Fatal(err)
		}
		if _, err := packed.Write([]byte(text)); err != nil {
			w.T.Fatal(err)
		}
	}
	if err := packed.Close(); err != nil {
		w.T.Fatal(err)
	}
	if err := z.Close(); err != nil {
		w.T.Fatal(err)
	}
	_, _, err := w.s.Registry.Create(w.T.Context(), registry.Publication{
		OrgID: c.Org.ID, UserID: c.User.ID, Name: "pdf", Type: registry.TypeSkill, Visibility: registry.Org, Source: registry.FromCLI,
		Version: "1.0.0", Archive: bytes.NewReader(b.Bytes()), Size: int64(b.Len()),
	})
	if err != nil {
		w.T.Fatal(err)
	}
}

const skillText = "---\nname: pdf\ndescription: Reads tables.\n---\n- Always name the page of a table\n"

// TestGraders: a skill has its own grader, else the organisation's, else a disabled
// one with a draft of its expectations.
func TestGraders(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, nil)
		ada := w.Org("acme")
		w.publish(ada, map[string]string{"SKILL.md": skillText})
		w.use(ada, "s1", 0, 0)
		const own, shared = "/v1/skills/pdf/grader", "/api/v1/settings/grader"
		draft := []any{"Always name the page of a table", "The session did what the skill is for: Reads tables"}
		if diff := cmp.Diff(object{
			"enabled": false, "expectations": draft, "sample_per_day": 20.0, "max_cost_usd_per_day": 1.0, "threshold": 1.0, "inherited": false,
			"unusable": 0.0,
		}, graderOf(ada, own)); diff != "" {
			t.Errorf("by default (-want +got):\n%s", diff)
		}
		want(t, graderOf(ada, shared), object{"enabled": false, "expectations": []any{}, "inherited": false})

		ada.Do(http.MethodPut, shared, object{"enabled": true, "sample_per_day": nil, "threshold": 0.5}).Want(http.StatusOK)
		want(t, graderOf(ada, shared), object{"enabled": true, "sample_per_day": nil, "threshold": 0.5, "max_cost_usd_per_day": 1.0})
		want(t, graderOf(ada, own), object{"enabled": true, "sample_per_day": nil, "inherited": true, "expectations": draft})

		set := object{"grader": object{
			"enabled": false, "expectations": []string{"It names the page"}, "sample_per_day": 5, "max_cost_usd_per_day": 0.25, "threshold": 0.75,
		}}
		if diff := cmp.Diff(object{"grader": object{
			"enabled": false, "expectations": []any{"It names the page"}, "sample_per_day": 5.0, "max_cost_usd_per_day": 0.25,
			"threshold": 0.75, "inherited": false, "unusable": 0.0,
		}}, ada.Do(http.MethodPut, own, set).Want(http.StatusOK).Object()); diff != "" {
			t.Errorf("set (-want +got):\n%s", diff)
		}
		for field, value := range map[string]any{
			"threshold": 1.1, "sample_per_day": -1, "max_cost_usd_per_day": "much", "expectations": []string{"good", ""},
		} {
			answer := ada.Do(http.MethodPut, own, object{field: value}).Want(http.StatusBadRequest).Object()
			if path, _ := answer["details"].(object)["path"].([]any); len(path) == 0 || path[0] != field {
				t.Errorf("%v does not name %s", answer, field)
			}
		}
		ada.Do(http.MethodPut, own, object{"sample_per_day": 1.5}).Want(http.StatusBadRequest)
		want(t, graderOf(ada, own), object{"sample_per_day": 5.0})
		ada.Do(http.MethodPut, "/v1/skills/none/grader", object{}).Want(http.StatusNotFound)
		w.Member(ada.Org, access.Member).Do(http.MethodPut, own, object{}).Want(http.StatusForbidden)
		w.Org("other").Get(own).Want(http.StatusNotFound)
		want(t, graderOf(w.Org("third"), shared), object{"enabled": false})
	})
}

// TestDraftFromEvals: the evals of a skill are better expectations than its promises.
func TestDraftFromEvals(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, nil)
		ada := w.Org("acme")
		w.publish(ada, map[string]string{
			"SKILL.md": skillText, "evals/evals.json": `{"evals":[{"prompt":"p","expectations":["The table has a header row"]}]}`,
		})
		want(t, graderOf(ada, "/v1/skills/pdf/grader"), object{"expectations": []any{"The table has a header row"}})
	})
}

// TestOutcomes: where a grader is enabled, what happened in a session grades it,
// once. What is not known does not count.
func TestOutcomes(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, nil)
		ada := w.Org("acme")
		w.use(ada, "before", 4, 0)
		w.run(ada)
		want(t, w.skill(ada), object{"graded_sessions": 0.0, "pass_rate_basis": nil})
		w.enable(ada, nil)
		defer w.Work()()
		w.Settle() // the backlog

		w.use(ada, "good", 8, 1)
		w.use(ada, "bad", 4, 2)
		w.use(ada, "silent", 0, 0)
		at := yesterday().UTC().Format(time.RFC3339)
		w.use(ada, "stopped", 4, 0, object{"sessions": []object{{"session_id": "stopped", "started_at": at, "completion_status": "interrupted"}}})
		w.use(ada, "corrected", 0, 0, object{"improvement_signals": []object{
			{"signal_id": "1", "session_id": "corrected", "timestamp": at, "signal_type": "correction", "query": "no, the other table"},
			{"signal_id": "2", "session_id": "good", "timestamp": at, "signal_type": "explicit_request"},
			{"signal_id": "3", "session_id": "good", "timestamp": "soon", "signal_type": "correction"},
			{"signal_id": "4", "timestamp": at, "signal_type": "correction"},
		}})
		w.Exec(`UPDATE grade_queue SET due_at = 1`)
		if err := w.s.StartDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Settle()
		for session, evidence := range map[string][]any{
			"before": {object{"expectation": "tool_errors", "passed": true, "quotation": nil}},
			"good":   {object{"expectation": "tool_errors", "passed": true, "quotation": nil}},
			"bad":    {object{"expectation": "tool_errors", "passed": false, "quotation": nil}},
			"silent": nil,
			"stopped": {
				object{"expectation": "tool_errors", "passed": true, "quotation": nil},
				object{"expectation": "interrupted", "passed": false, "quotation": nil},
			},
			"corrected": {object{"expectation": "user_correction", "passed": false, "quotation": nil}},
		} {
			all := w.grades(ada, session)
			if evidence == nil {
				if len(all) != 0 {
					t.Errorf("%s: graded by nothing: %v", session, all)
				}
				continue
			}
			if len(all) != 1 {
				t.Errorf("%s: %d grades", session, len(all))
				continue
			}
			want(t, all[0], object{"basis": "outcome", "evidence": evidence, "graded_by": nil, "judge": nil, "reason": nil})
		}
		want(t, w.skill(ada), object{
			"graded_sessions": 5.0, "pass_rate_basis": "outcome", "graded_sessions_by_basis": object{"outcome": 5.0},
		})
		// The same again, and more of a session.
		w.use(ada, "good", 8, 1)
		w.use(ada, "bad", 12, 2)
		w.run(ada)
		want(t, w.skill(ada), object{"graded_sessions": 5.0, "pass_rate": 0.6666666666})
		// Any other grade outranks it.
		ada.Post("/v1/sessions/good/grades", object{"skill": "pdf", "verdict": "fail"}).Want(http.StatusCreated)
		want(t, w.skill(ada), object{"graded_sessions": 5.0, "pass_rate_basis": "mixed"})
		if n := w.Count("grade_queue"); n != 0 {
			t.Errorf("%d sessions wait for ever", n)
		}
		w.wantSound()
	})
}

// TestRunningSession: a session is graded when it has ended.
func TestRunningSession(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, nil)
		ada := w.Org("acme")
		w.use(ada, "s1", 1, 0)
		w.enable(ada, nil)
		w.use(ada, "s1", 1, 0)
		w.Exec(`UPDATE agent_sessions SET last_at = $1`, store.Micros(store.Now()))
		w.run(ada)
		want(t, w.skill(ada), object{"graded_sessions": 0.0})
		if n := w.Count("grade_queue WHERE due_at > $1", store.Micros(store.Now())); n != 1 {
			t.Errorf("%d sessions wait for their end", n)
		}
		w.Exec(`UPDATE agent_sessions SET last_at = started_at`)
		w.run(ada)
		want(t, w.skill(ada), object{"graded_sessions": 1.0})
	})
}

// TestFailures groups the reasons of failed grades that count.
func TestFailures(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, nil)
		ada := w.Org("acme")
		w.use(ada, "s0", 1, 0)
		w.enable(ada, nil)
		for _, s := range []string{"s1", "s2", "s3", "s4", "s5", "s6", "s7"} {
			w.use(ada, s, 2, 2)
		}
		w.run(ada)
		groups := func() []object { return ada.Get("/v1/skills/pdf/failures").Want(http.StatusOK).List("groups") }
		if all := groups(); len(all) != 1 {
			t.Fatalf("groups: %v", all)
		}
		want(t, groups()[0], object{"key": "tool:Bash", "label": "Calls of Bash failed", "count": 7.0})
		if n := len(groups()[0]["sessions"].([]any)); n != 5 {
			t.Errorf("%d examples", n)
		}
		grade := func(session, verdict, reason string) {
			ada.Post("/v1/sessions/"+session+"/grades", object{"skill": "pdf", "verdict": verdict, "reason": reason}).Want(http.StatusCreated)
		}
		grade("s1", "fail", "Lost 2 columns of report-17.pdf")
		grade("s2", "fail", "lost 3 columns of  `other.pdf`!")
		grade("s3", "pass", "")
		grade("s4", "fail", "")
		all := groups()
		if len(all) != 3 {
			t.Fatalf("groups: %v", all)
		}
		want(t, all[0], object{"label": "Calls of Bash failed", "count": 3.0}) // s5, s6 and s7
		want(t, all[1], object{"count": 2.0})
		if got := all[1]["sessions"].([]any); len(got) != 2 || !strings.Contains(strings.ToLower(all[1]["label"].(string)), "columns") {
			t.Errorf("reasons that say the same: %v", all[1])
		}
		if err := w.label(ada); err != nil { // by the built-in judge, which writes nothing
			t.Error(err)
		}
		want(t, groups()[2], object{"label": "No reason given", "labelled_by": nil, "count": 1.0, "sessions": []any{"s4"}})
		w.Exec(`UPDATE grade_failures SET failed_at = $1 WHERE key = 'tool:Bash'`, store.Micros(store.Now().AddDate(0, 0, -40)))
		if all := groups(); len(all) != 2 {
			t.Errorf("outside of the window: %v", all)
		}
		if all := ada.Get("/v1/skills/pdf/failures?days=60").List("groups"); len(all) != 3 {
			t.Errorf("in a longer window: %v", all)
		}
		ada.Get("/v1/skills/pdf/failures?days=0").Want(http.StatusBadRequest)
		ada.Get("/v1/skills/none/failures").Want(http.StatusNotFound)
		if all := w.Org("other").Get("/v1/skills/pdf/failures"); all.Status != http.StatusNotFound {
			t.Errorf("another organisation: %v", all)
		}
	})
}
