package grades_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

func want(t *testing.T, got object, fields object) {
	t.Helper()
	some := object{}
	for key := range fields {
		some[key] = got[key]
	}
	if diff := cmp.Diff(fields, some); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPeopleGrade: a person's grade counts before all others, and another of the
// same person replaces it.
func TestPeopleGrade(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, nil)
		ada := w.Org("acme")
		bob := w.Member(ada.Org, access.Member)
		w.use(ada, "s1", 0, 0)
		w.use(ada, "s2", 0, 0, object{"grading_results": []object{{
			"grading_id": "g", "session_id": "s2", "skill_name": "pdf", "graded_at": "2026-01-02T03:04:05Z", "pass_rate": 1,
		}}})
		const path = "/v1/sessions/s1/grades"
		first := bob.Post(path, object{"skill": "pdf", "verdict": "fail", "reason": "It lost a column."}).Want(http.StatusCreated).Object()["grade"].(object)
		want(t, first, object{
			"session_id": "s1", "skill": "pdf", "pass_rate": 0.0, "basis": "person", "judge": nil, "evidence": []any{},
			"reason": "It lost a column.", "graded_by": bob.User.ID,
		})
		if len(first) != 10 || first["id"] == "" || first["graded_at"] == nil {
			t.Errorf("the grade has other fields than documented: %v", first)
		}
		want(t, w.skill(ada), object{"pass_rate": 0.0, "pass_rate_basis": "person", "graded_sessions": 1.0})
		again := bob.Post(path, object{"skill": w.skill(ada)["skill_id"], "verdict": "pass"}).Want(http.StatusCreated).Object()["grade"].(object)
		want(t, again, object{"id": first["id"], "pass_rate": 1.0, "reason": nil})
		want(t, w.skill(ada), object{"pass_rate": 1.0, "graded_sessions": 1.0})
		if all := w.grades(ada, "s1"); len(all) != 1 {
			t.Errorf("%d grades, want the second in place of the first", len(all))
		}
		// Two people: the mean.
		ada.Post(path, object{"skill": "pdf", "verdict": "fail"}).Want(http.StatusCreated)
		want(t, w.skill(ada), object{"pass_rate": 0.5, "graded_sessions": 1.0})
		// Over a pushed grade.
		ada.Post("/v1/sessions/s2/grades", object{"skill": "pdf", "verdict": "fail", "reason": "It lost a column!"}).Want(http.StatusCreated)
		want(t, w.skill(ada), object{
			"pass_rate": 0.25, "graded_sessions": 2.0, "pass_rates_by_basis": object{"person": 0.25},
			"graded_sessions_by_basis": object{"person": 2.0},
		})
		if all := w.grades(ada, "s2"); len(all) != 2 || all[0]["basis"] != "pushed" || all[1]["basis"] != "person" {
			t.Errorf("the grades of s2: %v", all)
		}
		list := ada.Get("/v1/sessions?outcome=fail").List("sessions")
		if len(list) != 1 || list[0]["grade"].(object)["basis"] != "person" {
			t.Errorf("failed sessions: %v", list)
		}
		w.wantSound()
	})
}

// TestDayOfGrade: a grade counts on the day of its session, also when the session is
// graded again.
func TestDayOfGrade(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, nil)
		ada := w.Org("acme")
		w.use(ada, "s1", 1, 0)
		for _, verdict := range []string{"fail", "pass"} {
			ada.Post("/v1/sessions/s1/grades", object{"skill": "pdf", "verdict": verdict}).Want(http.StatusCreated)
		}
		graded := map[any]any{}
		for _, d := range ada.Get("/v1/skills/pdf").Want(http.StatusOK).List("daily_stats") {
			if d["graded_sessions"] != 0.0 {
				graded[d["date"]] = d["pass_rate"]
			}
		}
		if diff := cmp.Diff(map[any]any{yesterday().UTC().Format(time.DateOnly): 1.0}, graded); diff != "" {
			t.Errorf("pass rates by day (-want +got):\n%s", diff)
		}
		if at := w.grades(ada, "s1")[0]["graded_at"].(string); at[:10] != time.Now().UTC().Format(time.DateOnly) {
			t.Errorf("graded_at is %s, want now", at)
		}
		w.wantSound()
	})
}

func TestPeopleGradeRefuses(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, nil)
		ada, eve := w.Org("acme"), w.Org("other")
		w.use(ada, "s1", 0, 0, object{"skill_offers": []object{{
			"session_id": "s1", "occurred_at": "2026-01-02T03:04:05Z", "skill_names": []string{"offered"},
		}}})
		w.use(eve, "s2", 0, 0)
		good := object{"skill": "pdf", "verdict": "pass"}
		for name, test := range map[string]struct {
			session string
			body    object
			status  int
			field   string
		}{
			"unknown session":        {"s3", good, http.StatusNotFound, ""},
			"another organisation's": {"s2", good, http.StatusNotFound, ""},
			"unknown skill":          {"s1", object{"skill": "csv", "verdict": "pass"}, http.StatusBadRequest, "skill"},
			"not used":               {"s1", object{"skill": "offered", "verdict": "pass"}, http.StatusBadRequest, "skill"},
			"no skill":               {"s1", object{"verdict": "pass"}, http.StatusBadRequest, "skill"},
			"no verdict":             {"s1", object{"skill": "pdf"}, http.StatusBadRequest, "verdict"},
			"another verdict":        {"s1", object{"skill": "pdf", "verdict": "maybe"}, http.StatusBadRequest, "verdict"},
			"long reason":            {"s1", object{"skill": "pdf", "verdict": "pass", "reason": strings.Repeat("é", 2001)}, http.StatusBadRequest, "reason"},
		} {
			answer := ada.Post("/v1/sessions/"+test.session+"/grades", test.body).Want(test.status).Object()
			if test.field == "" {
				continue
			}
			if path, _ := answer["details"].(object)["path"].([]any); len(path) == 0 || path[0] != test.field {
				t.Errorf("%s: %v does not name %s", name, answer, test.field)
			}
		}
		w.Member(ada.Org, access.Viewer).Post("/v1/sessions/s1/grades", good).Want(http.StatusForbidden)
		w.Anonymous().Post("/v1/sessions/s1/grades", good).Want(http.StatusUnauthorized)
		if n := w.Count("grades"); n != 0 {
			t.Errorf("%d grades", n)
		}
	})
}

// TestErasure: what a grade rests on goes with the data of the person whose session
// it is, and with that of the person who wrote it. The verdicts stay.
func TestErasure(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, nil)
		ada := w.Org("acme")
		bob := w.Member(ada.Org, access.Member)
		for _, session := range []string{"s1", "s2", "s3"} {
			w.use(ada, session, 0, 0)
		}
		w.use(bob, "s4", 0, 0)
		fail := object{"skill": "pdf", "verdict": "fail", "reason": "marker"}
		bob.Post("/v1/sessions/s1/grades", fail).Want(http.StatusCreated)
		ada.Post("/v1/sessions/s2/grades", fail).Want(http.StatusCreated)
		ada.Post("/v1/sessions/s4/grades", fail).Want(http.StatusCreated)
		bob.Do(http.MethodDelete, "/api/v1/me/data", nil).Want(http.StatusNoContent)
		if n := w.Count("grades"); n != 1 {
			t.Errorf("%d grades are left, want ada's of her own session", n)
		}
		if n := w.Count("grade_failures"); n != 1 {
			t.Errorf("%d failures are left", n)
		}
		want(t, w.skill(ada), object{"pass_rate": 0.0, "graded_sessions": 3.0})
		w.Exec(`UPDATE agent_sessions SET reported_at = 1`)
		if err := w.s.Sessions.Expire(t.Context(), yesterday()); err != nil {
			t.Fatal(err)
		}
		if n := w.Count("grades") + w.Count("grade_failures"); n != 0 {
			t.Errorf("%d rows outlive their sessions", n)
		}
		w.wantSound()
	})
}
