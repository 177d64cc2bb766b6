package checks_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestPush: the check-run of a pushed commit follows its gate, and people.
func TestPush(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, host.GitHub)
		w.Work()
		good, version := w.push("good")
		w.Settle()
		check := w.check(good)
		if check.Conclusion != "success" || check.Output.Title != "Pass: better on 0, worse on 0 of 10 cases" ||
			!strings.Contains(check.Output.Summary, version+" is published") || w.status(good).State != "success" {
			t.Errorf("a good version: got the check-run %+v and the status %+v", check, w.status(good))
		}
		if w.version(version)["is_current"] != true {
			t.Errorf("the good version is %v", w.version(version))
		}

		sha, version := w.push("bad")
		w.Settle()
		check = w.check(sha)
		if check.Conclusion != "failure" || check.Output.Title != "Block: better on 0, worse on 2 of 10 cases" ||
			!strings.Contains(check.Output.Summary, "3 of 3 | 0 of 3") || strings.Contains(check.Output.Summary, "the query 4") {
			t.Errorf("a bad version: got the check-run %+v", check)
		}
		want := []hosttest.Annotation{
			{Path: "evals/cases.json", StartLine: 3, EndLine: 3, AnnotationLevel: "failure", Title: "Worse: the query 2"},
			{Path: "SKILL.md", StartLine: 3, EndLine: 3, AnnotationLevel: "failure", Title: "Worse: the query 3"},
		}
		var got []hosttest.Annotation
		for _, a := range check.Output.Annotations {
			if !strings.HasPrefix(a.Title, "Worse") {
				continue // of the validation
			}
			if !strings.Contains(a.Message, "3 of 3 trials passed before, 0 of 3 now") {
				t.Errorf("got the annotation %q", a.Message)
			}
			a.Message = ""
			got = append(got, a)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got the annotations %+v, want %+v", got, want)
		}
		if len(check.History) < 1 || w.status(sha).State != "failure" || w.version(version)["state"] != "candidate" {
			t.Errorf("a bad version: got %v, %+v, %v", check.History, w.status(sha), w.version(version))
		}
		if last := w.last(); last["write_back_status"] != "success" || !strings.Contains(last["message"].(string), "block") {
			t.Errorf("got the attempt %v", last)
		}

		// Another gate gets a check-run of its own: annotations cannot be taken back.
		gate := w.version(version)["gate_id"].(string)
		w.Post("/api/v1/gates/"+gate+"/rerun", nil).Want(http.StatusAccepted)
		w.Settle()
		if again := w.check(sha); again.ID == check.ID || again.Conclusion != "failure" {
			t.Errorf("run again: got the check-run %+v", again)
		}
		gate = w.version(version)["gate_id"].(string)
		w.Post("/api/v1/gates/"+gate+"/override", object{"reason": "the *cases* are wrong"}).Want(http.StatusOK)
		w.Settle()
		check = w.check(sha)
		if check.Conclusion != "success" || check.Output.Title != "Block (attempt 2): better on 0, worse on 2 of 10 cases, overridden by a person" ||
			!strings.Contains(check.Output.Summary, `the \*cases\* are wrong`) || w.status(sha).State != "success" {
			t.Errorf("overridden: got the check-run %+v", check)
		}
		if len(w.github.Checks()) != 3 {
			t.Errorf("got %d check-runs, want one for each of the three gates", len(w.github.Checks()))
		}
		w.Post("/api/v1/registry/"+w.entry+"/versions/"+version+"/withdraw", object{"reason": "no"}).Want(http.StatusOK)
		w.Settle()
		if check = w.check(sha); check.Conclusion != "failure" || check.Output.Title != "Withdrawn by a person" {
			t.Errorf("withdrawn: got the check-run %+v", check)
		}
	})
}

// TestPushReported: a gate that only reports fails nothing, and a host without
// check-runs has the status.
func TestPushReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"), host.Gitea)
	w.Work()
	w.policy(object{"mode": "report"})
	sha, version := w.push("bad")
	w.Settle()
	if got := w.status(sha); got.State != "success" || got.Description != "Block: better on 0, worse on 2 of 10 cases: the query 2, the query 3" {
		t.Errorf("got the status %+v", got)
	}
	if w.version(version)["is_current"] != true {
		t.Errorf("the version is %v", w.version(version))
	}
	w.policy(object{})
	w.push("good")
	w.Settle()
	sha, version = w.push("bad")
	w.Settle()
	if got := w.status(sha); got.State != "failure" || got.TargetURL != apptest.PublicURL+"/gates/"+w.version(version)["gate_id"].(string) {
		t.Errorf("got the status %+v", got)
	}
	w.Post("/api/v1/registry/"+w.entry+"/versions/"+version+"/promote", object{"reason": "I know"}).Want(http.StatusOK)
	w.Settle()
	if got := w.status(sha); got.State != "success" || !strings.HasSuffix(got.Description, "promoted by a person") {
		t.Errorf("promoted: got the status %+v", got)
	}
}

// TestPushesOneAfterTheOther: of pushes that wait together, each commit has an end. The
// older ones are no longer the head of their branch, and their gates are their own.
func TestPushesOneAfterTheOther(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, host.GitHub)
		older, _ := w.push("bad")
		for _, name := range []string{"other", "good"} {
			w.push(name)
		}
		w.Work()
		w.Settle()
		check := w.check(older)
		if check.Conclusion == "" || check.Status != "completed" {
			t.Errorf("the older one: got %+v", check)
		}
		for _, c := range w.github.Checks() {
			if c.Status != "completed" {
				t.Errorf("%s is still %s", c.HeadSHA, c.Status)
			}
		}
		for _, s := range w.host.Statuses() {
			if last := w.status(s.SHA); last.State == "pending" {
				t.Errorf("%s is still pending", s.SHA)
			}
		}
	})
}
