package attestations_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
	"github.com/whetstone-dev/whetstone/internal/release/attestations"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/dsse"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/intoto"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
)

// evals is a world with gates, runs and a model by whose word version 1.2.0 fails.
type evals struct {
	*runstest.World
	attestations *attestations.Service
	ada          *registrytest.Client
	suite        object
	entry        string
}

const secretQuery = "who is on the payroll"

func newEvals(t *testing.T, db *store.DB) *evals {
	t.Helper()
	w := &evals{}
	server := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
		answer := object{"reason": "as scripted", "skill": nil, "confidence": 0.9}
		if strings.Contains(r.System, "reads tables") && !strings.Contains(r.System, "Version 1.2.0") {
			answer["skill"] = "pdf"
		}
		return judgetest.JSON(answer)
	})
	w.World = runstest.New(t, db, runstest.Scripted(server), func(rw *runstest.World) {
		gated := &gates.Service{
			DB: db, Jobs: rw.Queue, Registry: rw.Registry, Sources: rw.Sources, Suites: rw.Suites, Runs: rw.Runs, Log: rw.Log,
		}
		gated.Register()
		gated.Mount(rw.API)
		w.attestations = &attestations.Service{
			DB: db, Jobs: rw.Queue, Registry: rw.Registry, Gates: gated, Seal: sealtest.Keyring(), PublicURL: apptest.PublicURL, Log: rw.Log,
		}
		w.attestations.Register()
		w.attestations.Mount(rw.API)
		gated.OnGateChanged, rw.Registry.OnPush, rw.Registry.OnEntryDeleted = w.attestations, gated, gated
		rw.Registry.OnVersion, rw.Runs.OnEnded = w.attestations, w.attestations
	})
	w.Registry.Mount(w.API)
	w.ada = &registrytest.Client{Caller: w.OrgWithPlan("acme", access.Team)}
	var cases []object
	for i := range 20 {
		cases = append(cases, apptest.With(runstest.Trigger(fmt.Sprintf("%s %d", secretQuery, i)), object{"id": fmt.Sprint("case-", i)}))
	}
	w.suite = w.client().Create(apptest.With(runstest.Judged(cases...), object{"name": "tables"}))
	w.entry = w.ada.Made("pdf", "1.0.0", w.archive("1.0.0"), object{"visibility": "public"})
	return w
}

func (w *evals) client() *runstest.Client {
	return &runstest.Client{Caller: w.ada.Caller, World: w.World}
}

func (w *evals) archive(version string) []byte {
	return runstest.Archive("pdf", "---\nname: pdf\ndescription: Version "+version+" reads tables.\n---\nDo it.\n")
}

func (w *evals) enforce() {
	w.T.Helper()
	w.ada.Do(http.MethodPut, "/api/v1/registry/"+w.entry+"/gate-policy", object{
		"policy": object{"mode": "enforce", "suites": []any{w.suite["id"]}},
	}).Want(http.StatusOK)
}

// push pushes a candidate, and waits for the verdict of its gate.
func (w *evals) push(version, verdict string) (gate string) {
	w.T.Helper()
	gate = w.ada.Push(w.entry, version, w.archive(version)).Want(http.StatusAccepted).Text("gate", "id")
	var found object
	apptest.Eventually(w.T, "the end of the gate", func() bool {
		found = w.ada.Get("/api/v1/gates/" + gate).Want(http.StatusOK).Field("gate")
		return found["decided_at"] != nil
	})
	if found["verdict"] != verdict {
		w.T.Fatalf("the gate says %v", found)
	}
	return gate
}

// results are the eval results of a version, newest first.
func (w *evals) results(c *registrytest.Client, version string) (all []intoto.EvalPredicate) {
	w.T.Helper()
	for _, e := range envelopes(c, w.entry, version) {
		r := read(w.T, e, keysOf(c).trusted(w.T))
		if r.Subject[0].Name != "acme/pdf@"+version || r.Subject[0].Digest["sha256"] != registrytest.Sum(w.archive(version)) {
			w.T.Errorf("subject %v", r.Subject)
		}
		if r.Eval != nil {
			all = append(all, *r.Eval)
		}
		payload, err := base64.StdEncoding.DecodeString(e.Payload)
		if err != nil {
			w.T.Fatal(err)
		}
		for _, secret := range []string{secretQuery, "case-", w.ada.User.ID, w.ada.User.Email, "because I say so"} {
			if strings.Contains(string(payload), secret) {
				w.T.Errorf("a statement has %q: %s", secret, payload)
			}
		}
	}
	return all
}

func TestGate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newEvals(t, db)
		bob := &registrytest.Client{Caller: w.OrgWithPlan("other", access.Pro)}
		w.enforce()
		w.Work()
		gate := w.push("1.1.0", "pass")
		all := w.results(w.ada, "1.1.0")
		if len(all) != 1 {
			t.Fatalf("%d results", len(all))
		}
		got := all[0]
		if got.Gate != gate || got.Against != "1.0.0" || got.Decision.Verdict != "pass" || got.Decision.Overridden || got.FinishedOn.IsZero() {
			t.Errorf("result %+v", got)
		}
		if diff := cmp.Diff(intoto.Policy{
			Mode: "enforce", Trials: 3, MinCases: 8, OnInconclusive: "hold", FalseBlockRate: 0.05,
		}, got.Decision.Policy); diff != "" {
			t.Error(diff)
		}
		suite := got.Suites[0]
		if len(got.Suites) != 1 || suite.Name != "tables" || suite.ID != w.suite["id"] || suite.Version < 1 || len(suite.Runs) != 2 {
			t.Fatalf("suites %+v", got.Suites)
		}
		if r := suite.Runs[0]; r.Arm != "new" || r.Step != "screen" || r.Passed != 20 || r.Cases != 20 || *r.PassRate != 1 || r.Interval == nil ||
			r.Status != "succeeded" || r.Judge.Model != "scripted" || suite.Runs[1].Arm != "current" {
			t.Errorf("runs %+v", suite.Runs)
		}
		if c := suite.Comparison; c == nil || c.Cases != 20 || c.Unchanged != 20 || c.Worse != 0 {
			t.Errorf("comparison %+v", c)
		}
		// Everybody who may see the version sees why it was published.
		if diff := cmp.Diff(all, w.results(bob, "1.1.0")); diff != "" {
			t.Error(diff)
		}

		// A person decides against the gate: the verdict stays, and that is said beside it.
		gate = w.push("1.2.0", "block")
		if got := w.results(w.ada, "1.2.0"); len(got) != 1 || got[0].Decision.Verdict != "block" || got[0].Suites[0].Runs[0].Passed != 0 {
			t.Errorf("blocked: %+v", got)
		}
		bob.Get(pathOf(w.entry, "1.2.0")).Want(http.StatusNotFound)
		w.ada.Post("/api/v1/gates/"+gate+"/override", object{"reason": "because I say so"}).Want(http.StatusOK)
		got2 := w.results(bob, "1.2.0")
		if len(got2) != 2 || !got2[0].Decision.Overridden || got2[0].Decision.Verdict != "block" || got2[1].Decision.Overridden {
			t.Errorf("overridden: %+v", got2)
		}

		// The backfill signs the same again.
		want := [][]dsse.Envelope{envelopes(w.ada, w.entry, "1.1.0"), envelopes(w.ada, w.entry, "1.2.0")}
		w.Exec(`DELETE FROM attestations`)
		w.Exec(`INSERT INTO attestation_backfill (after_id) VALUES ('')`)
		err := db.InTx(t.Context(), func(tx *store.Tx) error {
			return w.Queue.Enqueue(t.Context(), tx, registrytest.Job("attestations.backfill"))
		})
		if err != nil {
			t.Fatal(err)
		}
		w.Settle()
		signed := sorted([][]dsse.Envelope{envelopes(w.ada, w.entry, "1.1.0"), envelopes(w.ada, w.entry, "1.2.0")})
		before := sorted(want)
		for text := range before {
			// A gate that blocks early signs a run that is still under way; the backfill sees its end.
			if !signed[text] && !strings.Contains(text, `"status":"running"`) {
				t.Errorf("the backfill did not sign %s", text)
			}
		}
		if len(signed) != len(before) {
			t.Errorf("the backfill signed %d statements, want %d: %v", len(signed), len(before), signed)
		}
	})
}

// sorted makes the order of statements that were signed at once that of their text.
func sorted(all [][]dsse.Envelope) map[string]bool {
	found := map[string]bool{}
	for i, some := range all {
		for _, e := range some {
			payload, _ := base64.StdEncoding.DecodeString(e.Payload)
			found[fmt.Sprint(i, string(payload), e.Signatures)] = true
		}
	}
	return found
}

// finish runs a suite to its end.
func finish(c *runstest.Client, suite, body object) object {
	c.T.Helper()
	run := c.Post(runstest.SuitesPath+"/"+suite["id"].(string)+"/runs", body).Want(http.StatusAccepted).Field("run")
	return c.Await(run)
}

func TestRun(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newEvals(t, db)
		bob := &registrytest.Client{Caller: w.OrgWithPlan("other", access.Pro)}
		w.Work()
		subject := object{"subject": object{"entry_id": w.entry, "version": "1.0.0"}}
		run := finish(w.client(), w.suite, subject)
		got := w.results(w.ada, "1.0.0")
		if len(got) != 1 || got[0].Decision != nil || got[0].Gate != "" || got[0].Suites[0].Runs[0].ID != run["id"] ||
			got[0].Suites[0].Runs[0].Passed != 20 {
			t.Fatalf("run %+v", got)
		}
		// It is the organisation's own.
		if got := w.results(bob, "1.0.0"); len(got) != 0 {
			t.Errorf("another organisation sees %+v", got)
		}
		// A run of another organisation says nothing about the version.
		theirs := &runstest.Client{Caller: bob.Caller, World: w.World}
		suite := theirs.Create(runstest.Judged(runstest.Trigger("x")))
		finish(theirs, suite, subject)
		if got := w.results(w.ada, "1.0.0"); len(got) != 1 {
			t.Errorf("another organisation has signed %+v", got)
		}
		if n := len(envelopes(bob, w.entry, "1.0.0")); n != 1 {
			t.Errorf("%d attestations", n)
		}
		// Only the newest stay.
		w.Exec(`INSERT INTO attestations (id, org_id, version_id, kind, ref, statement, key_id, signature, created_at)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
			SELECT '0' || i, a.org_id, a.version_id, 'run', 'old' || i, a.statement, a.key_id, a.signature, 0
			FROM n, attestations a WHERE a.kind = 'run'`)
		finish(w.client(), w.suite, subject)
		if n := w.Count(`attestations WHERE kind = 'run'`); n != 50 {
			t.Errorf("%d runs are attested, want 50", n)
		}
		if n := len(w.results(w.ada, "1.0.0")); n != 50 {
			t.Errorf("%d runs are listed", n)
		}
	})
}
