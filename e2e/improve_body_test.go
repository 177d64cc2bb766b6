package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/improvetest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// mendWorld is the real binary with the skill that improvetest plants faults in, and
// its model, which outlives the process.
type mendWorld struct {
	*process
	t        *testing.T
	database string
	model    *improvetest.Model
	api      *apptest.Caller
	flags    []string
	entry    string
	suite    string
}

func newMendWorld(t *testing.T, database string) *mendWorld {
	t.Helper()
	w := &mendWorld{t: t, database: database, model: improvetest.NewModel(t)}
	w.flags = []string{
		"--judge-api", "openai", "--judge-url", w.model.URL(judgetest.OpenAI), "--judge-model", "scripted", "--judge-key", "sk-secret",
		"--allow-private-targets", "--alert-interval", "1s",
	}
	w.process = startProcess(t, database, w.flags...)
	w.api = &apptest.Caller{T: t, URL: w.url, Key: w.key}
	w.entry = apptest.Text(w.api.Upload("/api/v1/registry",
		apptest.JSONPart(t, "metadata", apptest.Object{"name": "invoices", "version": "1.0.0"}),
		apptest.Part{Name: "archive", File: "skill.tar.gz", Content: []byte(apptest.Pack(t, "SKILL.md", improvetest.SkillMD))},
	).Want(http.StatusCreated).Object(), "entry", "id")
	w.suite = apptest.Text(w.api.Post("/api/v1/eval-suites", apptest.Object{
		"name": "Invoices", "source_kind": "manual", "verifier_kind": "llm_judge", "cases_json": improvetest.Cases(30),
	}).Want(http.StatusCreated).Object(), "suite", "id")
	return w
}

// improve starts an improve run of the body.
func (w *mendWorld) improve() (id string) {
	w.t.Helper()
	return apptest.Text(w.api.Post("/api/v1/improve-runs", apptest.Object{
		"suite_id": w.suite, "entry_id": w.entry, "target": "body", "max_iterations": 4,
	}).Want(http.StatusAccepted).Object(), "improve_run", "id")
}

// await returns the answer of a route as soon as it is as wanted.
func (w *mendWorld) await(what, path string, wanted func(apptest.Object) bool) apptest.Object {
	w.t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		got := w.api.Get(path).Want(http.StatusOK).Object()
		if wanted(got) {
			return got
		}
		if time.Now().After(end) {
			w.t.Fatalf("timed out waiting until %s: %v\n%s", what, got, w.running.Log())
		}
	}
}

// end waits until an improve run is over.
func (w *mendWorld) end(id string) apptest.Object {
	w.t.Helper()
	got := w.await("the improve run is over", "/api/v1/improve-runs/"+id, func(o apptest.Object) bool {
		return apptest.At(o, "improve_run", "finished_at") != nil
	})
	return got["improve_run"].(apptest.Object)
}

// kill ends the process like a power cut, and starts another.
func (w *mendWorld) kill() {
	w.t.Helper()
	if err := w.crash(); err != nil {
		w.t.Fatal(err)
	}
	var err error
	if w.url, _, err = w.start(w.env, append([]string{"--repohost-webhook-secret", hookSecret}, w.flags...)); err != nil {
		w.t.Fatal(err)
	}
	w.api.URL = w.url
}

// holdAt lets the model stop at the n-th request for a part from now on. It returns
// a channel that is closed then, and a function that lets it go on.
func (w *mendWorld) holdAt(p improvetest.Part, n int) (reached <-chan struct{}, release func()) {
	at, gate := make(chan struct{}), make(chan struct{})
	n += w.model.Count(p)
	var once sync.Once
	w.model.Before(func(is improvetest.Part) {
		if is == p && w.model.Count(p) >= n {
			once.Do(func() { close(at) })
			<-gate
		}
	})
	return at, func() {
		w.model.Before(nil)
		close(gate)
	}
}

// killAt kills the process while the model has the n-th request for a part.
func (w *mendWorld) killAt(p improvetest.Part, n int) {
	w.t.Helper()
	reached, release := w.holdAt(p, n)
	defer release()
	select {
	case <-reached:
	case <-time.After(3 * time.Minute):
		w.t.Fatalf("the model was not asked %d times for %s:\n%s", n, p, w.running.Log())
	}
	w.kill()
}

// parts returns the part of each case in an improve run, by its marker. The API does
// not tell: whoever starts runs must not choose cases by it.
func (w *mendWorld) parts(runID string) map[string]string {
	w.t.Helper()
	url := "sqlite:" + filepath.Join(w.dir, "data", "whetstone.db")
	for _, pair := range w.env {
		if found, ok := strings.CutPrefix(pair, "WHETSTONE_DATABASE_URL="); ok {
			url = found
		}
	}
	db, err := store.Open(w.t.Context(), store.Options{URL: url})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			w.t.Error(err)
		}
	}()
	rows, err := db.Query(w.t.Context(), `SELECT cases FROM improve_searches WHERE run_id = $1`, runID)
	raw, err := store.One(rows, err, "run", func(row store.Row) (raw string, err error) {
		err = row.Scan(&raw)
		return raw, err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	var cases []struct{ ID, Part string }
	if err := json.Unmarshal([]byte(raw), &cases); err != nil {
		w.t.Fatal(err)
	}
	parts := map[string]string{}
	for _, c := range cases {
		for i := range 30 {
			if c.ID == improvetest.CaseID(i) {
				parts[improvetest.Marker(i)] = c.Part
			}
		}
	}
	return parts
}

// TestImproveBody mends a skill with two faults in its body, and publishes it through
// the gate, watched by an alert. The process is killed while a candidate is written,
// while the winner is proved, and while it is gated.
func TestImproveBody(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			w := newMendWorld(t, database)
			id := w.improve()
			w.killAt(improvetest.Write, 2)
			// The answer that got lost is asked for again, and then the candidate is
			// tried on 8 cases of a minibatch and 6 of the selection.
			w.killAt(improvetest.Answer, 8+6+10)
			run := w.end(id)
			w.checkWinner(run)
			w.checkNothingTwice(run)
			w.checkHoldout(id)
			w.publish(run["proposal_id"].(string))
		})
	}
}

// checkWinner checks what the run says of its winner, and the proposal.
func (w *mendWorld) checkWinner(run apptest.Object) {
	t := w.t
	t.Helper()
	proof, _ := run["proof"].(apptest.Object)
	if run["status"] != "succeeded" || proof == nil || proof["proved"] != true || proof["winner"] != 1.0 || proof["worse"] != 0.0 {
		t.Fatalf("got the run %v", run)
	}
	path := "/api/v1/proposals/" + run["proposal_id"].(string)
	got := w.api.Get(path).Want(http.StatusOK).Object()["proposal"].(apptest.Object)
	diff, _ := got["diff"].(string)
	for _, line := range []string{
		"-" + improvetest.WrongCurrency, "+Write all amounts in euros.", "-" + improvetest.NoTax, "+Always name the tax.",
	} {
		if !strings.Contains(diff, line+"\n") {
			t.Errorf("the diff has no line %q:\n%s", line, diff)
		}
	}
	if edits, _ := got["edits"].([]any); got["proved"] != true || got["target"] != "body" || len(edits) != 2 {
		t.Errorf("got the proposal %v", got)
	}
	for _, field := range []string{"cases", "current", "winner", "better", "worse", "p", "interval"} {
		if fmt.Sprint(apptest.At(got, "proof", field)) != fmt.Sprint(proof[field]) {
			t.Errorf("the proposal's proof has %s %v, the run's %v", field, apptest.At(got, "proof", field), proof[field])
		}
	}
	if body, _ := got["proposed_value"].(string); strings.Contains(body, improvetest.NoTax) || !strings.Contains(body, "Always name the tax.") {
		t.Errorf("the proposal's value is %q", body)
	}
}

// checkNothingTwice: a kill may cost the answers that were on their way, and no
// others; what was stored is not asked for again, nor proposed again.
func (w *mendWorld) checkNothingTwice(run apptest.Object) {
	t := w.t
	t.Helper()
	const concurrency = 8
	splits := run["splits"].(apptest.Object)
	train, selection, proof := int(splits["train"].(float64)), int(splits["selection"].(float64)), int(splits["proof"].(float64))
	all := train + selection + proof
	// The current version on all cases, two candidates on a minibatch and the
	// selection, the proof with five trials of both, and the rest of the suite once
	// with both. Each candidate may be tried on the other training cases, too, to know
	// what to write from.
	planned := all + 2*(8+selection) + 2*5*proof + 2*(train+selection)
	answers := w.model.Count(improvetest.Answer)
	if answers < planned || answers > planned+2*(train-8)+2*concurrency {
		t.Errorf("the model answered %d prompts, and %d were planned", answers, planned)
	}
	candidates, iterations := 0, run["iterations"].([]any)
	for _, it := range iterations {
		if it.(apptest.Object)["description"] != nil {
			candidates++
		}
	}
	if asked := w.model.Count(improvetest.Write); candidates != 2 || asked != len(iterations)+1 { // one answer was lost
		t.Errorf("the writer was asked %d times for %d iterations, %d with a candidate", asked, len(iterations), candidates)
	}
	if found := w.api.Get("/api/v1/proposals").Want(http.StatusOK).Object()["proposals"].([]any); len(found) != 1 {
		t.Errorf("got %d proposals", len(found))
	}
}

// checkHoldout looks for cases of the selection and the proof in everything that the
// writer was sent.
func (w *mendWorld) checkHoldout(runID string) {
	t := w.t
	t.Helper()
	parts := w.parts(runID)
	count := map[string]int{}
	for _, part := range parts {
		count[part]++
	}
	if len(parts) != 30 || count["train"] == 0 || count["selection"] == 0 || count["proof"] == 0 {
		t.Fatalf("got the parts %v", count)
	}
	seen := map[string]bool{}
	for _, sent := range w.model.Written() {
		for _, marker := range improvetest.Markers(sent) {
			seen[marker] = true
			if parts[marker] != "train" {
				t.Errorf("the writer was sent %s of the %s", marker, parts[marker])
			}
		}
	}
	if last := w.model.Written(); !strings.Contains(last[len(last)-1], "What was tried and not kept:\\nBEGIN") ||
		strings.Contains(last[len(last)-1], improvetest.WrongCurrency) {
		t.Errorf("the writer is told that what the winner was made of was not kept: %s", last[len(last)-1])
	}
	if len(seen) < 4 {
		t.Errorf("the writer was sent the cases %v only", slices.Sorted(maps.Keys(seen)))
	}
}

// publish applies a proposal as a version. The gate tries it, and the alert that
// watches it rolls it back when its sessions fail.
func (w *mendWorld) publish(id string) {
	t := w.t
	t.Helper()
	w.api.Do(http.MethodPut, "/api/v1/registry/"+w.entry+"/gate-policy", apptest.Object{
		"policy": apptest.Object{"mode": "enforce", "suites": []any{w.suite}, "min_cases": 5},
	}).Want(http.StatusOK)
	w.grade(1)
	skill := w.api.Get("/v1/skills/invoices").Want(http.StatusOK).Text("skill", "skill_id")
	w.api.Post("/api/v1/alerts", apptest.Object{
		"type": "pass_rate_below", "skill_id": skill, "action": "rollback", "sensitivity": "confident", "channel": "webhook",
		"config": apptest.Object{"webhook_url": w.model.URL(judgetest.OpenAI)}, // which refuses it
	}).Want(http.StatusCreated)

	for range 2 { // asked twice, it is applied once
		w.api.Post("/api/v1/proposals/"+id+"/apply", apptest.Object{"as": "version"}).Want(http.StatusAccepted)
	}
	if w.database == "sqlite" { // on PostgreSQL it takes the lease of the dead process
		w.killAt(improvetest.Answer, 5)
	}
	w.awaitOutcome(id, "published")
	versions := w.versions()
	if len(versions) != 2 || versions["1.0.1"] != "published current" {
		t.Errorf("got the versions %v", versions)
	}
	gates := w.api.Get("/api/v1/gates").Want(http.StatusOK).Object()["gates"].([]any)
	if len(gates) != 1 || gates[0].(apptest.Object)["verdict"] != "pass" {
		t.Errorf("got the gates %v", gates)
	}
	text := w.api.Get("/api/v1/registry/" + w.entry + "/versions/1.0.1/files/SKILL.md").Want(http.StatusOK)
	if got := string(text.Body); !strings.Contains(got, "Always name the tax.") || strings.Contains(got, improvetest.WrongCurrency) {
		t.Errorf("published was %q", got)
	}
	w.grade(0)
	w.awaitOutcome(id, "rolled_back")
	if got := w.versions()["1.0.0"]; got != "published current" {
		t.Errorf("the alert left version 1.0.0 %s", got)
	}
}

// awaitOutcome waits for what becomes of a proposal.
func (w *mendWorld) awaitOutcome(id, state string) {
	w.t.Helper()
	w.await("the proposal is "+state, "/api/v1/proposals/"+id, func(o apptest.Object) bool {
		return apptest.At(o, "proposal", "outcome", "state") == state
	})
}

// versions maps the versions of the entry to what they are.
func (w *mendWorld) versions() map[string]string {
	w.t.Helper()
	all := map[string]string{}
	for _, v := range w.api.Get("/api/v1/registry/" + w.entry + "/versions").Want(http.StatusOK).Object()["versions"].([]any) {
		v := v.(apptest.Object)
		all[v["version"].(string)] = v["state"].(string)
		if v["is_current"] == true {
			all[v["version"].(string)] += " current"
		}
	}
	return all
}

// grade reports ten graded sessions.
func (w *mendWorld) grade(rate float64) {
	w.t.Helper()
	var all []apptest.Object
	for range 10 {
		id, at := uuid.NewString(), time.Now().UTC().Format(time.RFC3339Nano)
		all = append(all, apptest.Object{"grading_id": id, "session_id": id, "skill_name": "invoices", "graded_at": at, "pass_rate": rate})
	}
	w.api.Post("/api/v1/push", apptest.Object{"schema_version": "2.0", "canonical": apptest.Object{"grading_results": all}}).Want(http.StatusCreated)
}

// TestBadWriters: a round whose writer misbehaves is an iteration without a
// candidate that says why, and no proposal comes of it.
func TestBadWriters(t *testing.T) {
	t.Parallel()
	w := newMendWorld(t, "sqlite")
	for batch := range slices.Chunk(improvetest.BadWriters(), 3) { // a search ends after three rounds in vain
		asked := 0
		w.model.SetWriter(func(shown string) judgetest.Reply {
			asked++
			return batch[min((asked-1)/2, len(batch)-1)].Writer(shown) // each is asked twice
		})
		run := w.end(w.improve())
		iterations := run["iterations"].([]any)
		if run["status"] != "no_winner" || run["proposal_id"] != nil || len(iterations) < len(batch) {
			t.Fatalf("got the run %v", run)
		}
		for i, bad := range batch {
			it := iterations[i].(apptest.Object)
			if problem, _ := it["problem"].(string); it["description"] != nil || !strings.Contains(problem, bad.Why) {
				t.Errorf("%s: got the iteration %v", bad.Name, it)
			}
		}
	}
	if found := w.api.Get("/api/v1/proposals").Want(http.StatusOK).Object()["proposals"].([]any); len(found) != 0 {
		t.Errorf("got the proposals %v", found)
	}
}
