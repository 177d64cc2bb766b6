package web_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/agents/agentstest"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway/modeltest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/recording"
)

// agentWorld has an agent whose model writes a file, with words of an attacker in
// it, and says so.
func agentWorld(t *testing.T, database string) (w *world, data string) {
	t.Helper()
	agentstest.Service(t, "") // skips the test where there is no sandbox
	model := modeltest.Messages(t)
	model.ScriptBy(func(string) []modeltest.Reply {
		return []modeltest.Reply{
			{Text: payload, Usage: modeltest.Tokens{Input: 1000}, Calls: []modeltest.Call{
				{Tool: "Bash", Input: modeltest.Object{"command": "cat >out.html <<'END'\n" + payload + "\nEND"}},
			}},
			{Text: "Done.", Usage: modeltest.Tokens{Output: 100}},
		}
	})
	data = t.TempDir()
	return newWorld(t, database, "--data", data, "--agents", agentstest.StandIns(t),
		"--model", "claude-sonnet-4-5="+model.URL, "--model-api", "claude-sonnet-4-5=anthropic"), data
}

// trialSuite makes a suite with a case for an agent, and one with a given output.
func (b *browser) trialSuite() string {
	b.w.T.Helper()
	made := b.api.Post("/api/v1/eval-suites", object{
		"name": "agents", "source_kind": "manual", "verifier_kind": "deterministic", "supports_no_skill": true,
		"cases_json": []object{
			{"id": "one", "case_kind": "boolean_assertion", "prompt": "write the page", "assertion": `files["out.html"] != ""`},
			{"id": "two", "case_kind": "exact_match", "output": "given words", "expected": "given words"},
		},
	}).Want(http.StatusCreated)
	return "/suites/" + apptest.Text(made.Object(), "suite", "id")
}

// TestTrial opens trials, one by one and side by side.
func TestTrial(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			w, data := agentWorld(t, database)
			b, viewer := w.as(access.Member), w.as(access.Viewer)
			source, suite := b.upload("pdf", map[string]string{"SKILL.md": goodText}), b.trialSuite()
			run := b.run(suite, source, url.Values{"agent": {"claude-code claude-sonnet-4-5"}, "baseline": {"no_skill"}})
			p := viewer.get(run).want(http.StatusOK)
			trial := run + "/trials/1?case=one&variant=skill"
			if got := p.href("Open"); got != trial {
				t.Errorf("the run leads to the trial %s", got)
			}

			p = viewer.get(trial).want(http.StatusOK).wantInert()
			checkPage(t, p)
			p.wantText("write the page", "With the skill, trial 1", "Turns 2 answers of the model", "Tool calls 1 no errors", "not activated claude-code",
				"Cost $0.0045", "out.html added", "The task", "Turn 2", "Done.")
			if diff := cmp.Diff([]string{"prompt", "response", "tool", "response"}, p.texts("span.kind")); diff != "" {
				t.Errorf("timeline (-want +got):\n%s", diff)
			}
			if got := b.get(trial).href("Edit the case"); got != suite+"/cases/0" || p.href("Edit the case") != "" {
				t.Errorf("the case is edited at %s", got)
			}
			beside := p.href("Side by side")
			if beside != run+"/trials/1/compare?case=one" || beside != viewer.get(run).href("Both arms side by side") {
				t.Errorf("side by side is %s", beside)
			}
			p = viewer.get(beside).want(http.StatusOK).wantInert()
			checkPage(t, p)
			if diff := cmp.Diff([]string{"Asked", "Without the skill", "With the skill"}, p.texts("h2")); diff != "" {
				t.Errorf("columns (-want +got):\n%s", diff)
			}
			p.wantText("Asked write the page", "out.html added", "Done.")

			given := viewer.get(run+"/trials/1?case=two").want(http.StatusOK).wantText("given words", "No agent took part")
			checkPage(t, given)
			viewer.get(run + "/trials/1/compare?case=two").want(http.StatusOK).wantText("it does not depend on the skill")
			session := w.Text("SELECT id FROM eval_trial_recordings WHERE variant = 'skill'")
			viewer.get("/sessions/" + session).want(http.StatusSeeOther).wantLocation(trial)
			for _, path := range []string{
				run + "/trials/2?case=one", run + "/trials/x?case=one", run + "/trials/1", run + "/trials/1?case=one&variant=previous",
				run + "/trials/2/compare?case=one", "/sessions/" + session[1:],
			} {
				viewer.get(path).want(http.StatusNotFound)
			}
			other := w.otherOrg(access.Team)
			for _, path := range []string{trial, beside, "/sessions/" + session} {
				other.get(path).want(http.StatusNotFound)
			}

			second := b.run(suite, source, url.Values{"agent": {"claude-code claude-sonnet-4-5"}})
			viewer.get(second + "/trials/1/compare?case=one").want(http.StatusNotFound)
			p = viewer.get(second + "/trials/1/compare?case=one&with=" + id(run)).want(http.StatusOK)
			checkPage(t, p)
			if diff := cmp.Diff([]string{"Asked", "Before: with the skill", "After: with the skill"}, p.texts("h2")); diff != "" {
				t.Errorf("columns of two runs (-want +got):\n%s", diff)
			}
			viewer.get(second + "/trials/1/compare?case=one&with=" + session).want(http.StatusNotFound)

			w.makeLong(t, data, session)
			testLongTrial(t, viewer, trial)
		})
	}
}

// makeLong gives a trial 2,000 turns, each with an answer and a tool call.
func (w *world) makeLong(t *testing.T, data, session string) {
	t.Helper()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	r := recording.Recording{StartedAt: at, EndedAt: at.Add(time.Hour), Agent: "claude-code"}
	for i := range 2000 {
		took := time.Second
		r.Steps = append(r.Steps,
			recording.Step{Kind: recording.Response, At: at.Add(time.Duration(i) * time.Second), Name: "sonnet", Took: &took, Text: strings.Repeat("é", 100)},
			recording.Step{Kind: recording.Tool, At: at.Add(time.Duration(i) * time.Second), Name: "Bash", Text: strings.Repeat("<", 300)})
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if err := json.NewEncoder(z).Encode(r); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	bucket, err := blob.Open(t.Context(), blob.Options{Dir: filepath.Join(data, "blobs"), Secret: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	key := w.Text("SELECT blob_key FROM eval_trial_recordings WHERE id = '" + session + "'")
	if err := bucket.Put(t.Context(), key, &packed, int64(packed.Len())); err != nil {
		t.Fatal(err)
	}
}

// testLongTrial opens a trial of 2,000 turns with a part of its timeline, of less
// than 300 kB although its texts are twice as long when they are escaped.
func testLongTrial(t *testing.T, b *browser, path string) {
	t.Helper()
	steps := 0
	for pages := 0; path != ""; pages++ {
		p := b.get(path).want(http.StatusOK)
		if len(p.body) > 300_000 {
			t.Fatalf("page %d has %d bytes", pages, len(p.body))
		}
		steps += len(p.all("li.step"))
		if path = p.href("Show more"); path == "" {
			p.wantText("Turn 2000")
		}
	}
	if steps != 4000 {
		t.Errorf("%d events, want 4000", steps)
	}
}

// Text returns the text that a query finds.
func (w *world) Text(sql string) string {
	w.T.Helper()
	rows, err := w.DB.Query(w.T.Context(), sql)
	found, err := store.One(rows, err, "Row", store.Value[string])
	if err != nil {
		w.T.Fatal(fmt.Errorf("%s: %w", sql, err))
	}
	return found
}
