package sourcestest

import (
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
)

// MaxCases is how many cases a suite holds.
const MaxCases = 500

const suitesPath = "/api/v1/eval-suites"

// Trigger is a case whose query must trigger the skill, with changes.
func Trigger(query string, change apptest.Object) apptest.Object {
	o := apptest.Object{"case_kind": "trigger_query", "query": query, "expectation": "should_trigger"}
	maps.Copy(o, change)
	return o
}

// filler is the case of a suite that a test made without any: a suite is never
// empty.
const filler = "the only case"

// Suite makes a suite of a source, or of none if sourceID is "", and returns its
// id.
func (c *Client) Suite(sourceID, kind string, cases ...apptest.Object) string {
	c.T.Helper()
	body := apptest.Object{"name": "suite of " + sourceID, "source_kind": "manual", "verifier_kind": kind, "cases_json": cases}
	if len(cases) == 0 {
		body["cases_json"] = []apptest.Object{Trigger(filler, nil)}
	}
	if sourceID != "" {
		body["source_id"] = sourceID
	}
	return apptest.Text(c.Post(suitesPath, body).Want(http.StatusCreated).Object(), "suite", "id")
}

// Cases returns the cases of a suite without their ids and without filler.
func (c *Client) Cases(suiteID string) []apptest.Object {
	c.T.Helper()
	suite, _ := c.Get(suitesPath + "/" + suiteID).Want(http.StatusOK).Object()["suite"].(apptest.Object)
	all := apptest.List(c.T, suite, "cases_json")
	for _, o := range all {
		delete(o, "id")
	}
	return slices.DeleteFunc(all, func(o apptest.Object) bool { return o["query"] == filler })
}

// AddCase adds a case as another editor of the suite does: it replaces all cases,
// and retries if the suite has changed meanwhile.
func (c *Client) AddCase(suiteID string, added apptest.Object) apptest.Response {
	c.T.Helper()
	for {
		suite, _ := c.Get(suitesPath + "/" + suiteID).Want(http.StatusOK).Object()["suite"].(apptest.Object)
		a := c.Do(http.MethodPatch, suitesPath+"/"+suiteID, apptest.Object{
			"cases_json": append(apptest.List(c.T, suite, "cases_json"), added), "if_version": suite["version"],
		})
		if a.Status != http.StatusConflict {
			return a
		}
	}
}

// A router decides which queries trigger the skill in a run.
type router struct {
	mu       sync.Mutex
	triggers map[string]bool
}

// judge makes the judge, whose model routes as Run says.
func (w *World) judge() *judge.Judge {
	w.T.Helper()
	server := judgetest.New(w.T, judgetest.Model{Route: func(query string, _ []string) string {
		w.router.mu.Lock()
		defer w.router.mu.Unlock()
		if w.router.triggers[query] {
			return "demo" // the name in SkillText
		}
		return ""
	}}.Respond)
	j, err := judge.New(judge.Options{
		API: judge.OpenAI, URL: server.URL(judgetest.OpenAI), Model: "scripted", Key: "sk-secret", Concurrency: 4,
	})
	if err != nil {
		w.T.Fatal(err)
	}
	return j
}

// Run runs a suite on a source to its end, with the queries that trigger the
// skill. Jobs must be running.
func (c *Client) Run(suiteID, sourceID string, triggers ...string) {
	c.T.Helper()
	c.W.router.mu.Lock()
	c.W.router.triggers = map[string]bool{}
	for _, query := range triggers {
		c.W.router.triggers[query] = true
	}
	c.W.router.mu.Unlock()
	body := apptest.Object{"subject": apptest.Object{"source_id": sourceID}, "trials": 1}
	c.Post(suitesPath+"/"+suiteID+"/runs", body).Want(http.StatusAccepted)
	c.W.Settle()
}
