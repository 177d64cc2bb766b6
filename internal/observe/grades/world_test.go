package grades_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/grades"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/plugins"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

type object = apptest.Object

// world is the service as internal/app wires it.
type world struct {
	*apptest.World
	s         *grades.Service
	reasons   grades.Reasons
	telemetry *telemetry.Service
	model     *judgetest.Server
}

// newWorld returns a world whose judge is a scripted model; nil means the built-in
// judge.
func newWorld(t *testing.T, db *store.DB, respond judgetest.Responder) *world {
	t.Helper()
	w := &world{World: apptest.NewWorld(t, db, apptest.Options{})}
	money := &costs.Service{DB: db, Jobs: w.Queue, Prices: pricing.Embedded()}
	counts := &skills.Service{DB: db, Window: 30, Costs: money, Versions: registry.History{}, Plugins: plugins.History{}}
	files := stored.New(nil)
	entries := &registry.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: counts, Files: files, Log: w.Log}
	w.reasons = grades.Reasons{DB: db, Seal: sealtest.Keyring(), Log: w.Log}
	opened := &sessions.Service{DB: db, Skills: counts, Costs: money, Registry: entries, Grades: w.reasons}
	w.telemetry = &telemetry.Service{
		DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: counts, Costs: money, Sessions: opened, Auth: w.Auth,
		Retention: 90 * 24 * time.Hour, Log: w.Log,
	}
	o := judge.Options{API: judge.Builtin}
	if respond != nil {
		w.model = judgetest.New(t, respond)
		o = judge.Options{API: judge.OpenAI, URL: w.model.URL(judgetest.OpenAI), Model: "gpt-5", Timeout: 10 * time.Second}
	}
	j, err := judge.New(o)
	if err != nil {
		t.Fatal(err)
	}
	w.s = &grades.Service{
		DB: db, Jobs: w.Queue, Skills: counts, Sessions: opened, Costs: money, Registry: entries,
		Sources: &sources.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: counts, Files: files, Limits: skillpkg.DefaultLimits(), Log: w.Log},
		Judge:   j, Seal: sealtest.Keyring(), Counter: w.telemetry, Log: w.Log,
	}
	opened.OnReported = w.s
	w.s.Register()
	for _, m := range []interface{ Mount(*httpapi.API) }{counts, opened, w.telemetry, w.s} {
		m.Mount(w.API)
	}
	return w
}

// texts are the transcripts of sessions, by their ids.
type texts map[string]string

func (k texts) Transcript(_ context.Context, _, session string) (string, bool, error) {
	text, ok := k[session]
	return text, ok, nil
}

func (k texts) Hold(_ context.Context, _ *store.Tx, _, session string) (bool, error) {
	_, ok := k[session]
	return ok, nil
}

// keep makes sessions of a person have this text.
func (w *world) keep(c *apptest.Caller, text string, sessions ...string) {
	kept, ok := w.s.Transcripts.(texts)
	if !ok {
		kept = texts{}
		w.s.Transcripts = kept
	}
	for _, s := range sessions {
		kept[skills.SessionHash(c.User.ID, s)] = text
	}
}

// yesterday is when the sessions of the tests took place.
func yesterday() time.Time { return time.Now().Add(-24 * time.Hour) }

// use reports a session that used the skill pdf, with so many calls of a tool, of
// which some failed.
func (w *world) use(c *apptest.Caller, session string, calls, failed int, more ...object) {
	w.T.Helper()
	at := yesterday().UTC().Format(time.RFC3339)
	canonical := object{"skill_invocations": []object{{
		"skill_invocation_id": "i " + session, "session_id": session, "occurred_at": at, "skill_name": "pdf", "triggered": true,
	}}}
	var tools []object
	for i := range calls {
		tools = append(tools, object{
			"tool_call_id": fmt.Sprint(session, " ", i), "session_id": session, "occurred_at": at, "tool_name": "Bash", "success": i >= failed,
		})
	}
	canonical["tool_calls"] = tools
	for _, m := range more {
		for kind, records := range m {
			canonical[kind] = records
		}
	}
	answer := c.Post("/api/v1/push", object{"schema_version": "2.0", "push_id": uuid.NewString(), "canonical": canonical}).Want(http.StatusCreated).Object()
	if rejected := answer["rejected"].([]any); len(rejected) > 0 {
		w.T.Fatalf("rejected: %v", rejected)
	}
}

// enable switches the grader of the skill pdf on.
func (w *world) enable(c *apptest.Caller, fields object) {
	w.T.Helper()
	body := object{"enabled": true}
	for k, v := range fields {
		body[k] = v
	}
	c.Do(http.MethodPut, "/v1/skills/pdf/grader", body).Want(http.StatusOK)
}

// run does what the job does, as if all that waits were due.
func (w *world) run(c *apptest.Caller) {
	w.T.Helper()
	w.Exec(`UPDATE grade_queue SET due_at = 1`)
	if err := w.s.Run(w.T.Context(), c.Org.ID); err != nil {
		w.T.Fatal(err)
	}
}

func (w *world) skill(c *apptest.Caller) object {
	w.T.Helper()
	return c.Get("/v1/skills/pdf").Want(http.StatusOK).Object()["skill"].(object)
}

// grades returns the grades of a session.
func (w *world) grades(c *apptest.Caller, session string) (all []object) {
	w.T.Helper()
	for _, g := range c.Get("/v1/sessions/" + session).Want(http.StatusOK).Object()["session"].(object)["grades"].([]any) {
		all = append(all, g.(object))
	}
	return all
}

// wantSound compares all rollups with a recount.
func (w *world) wantSound() {
	w.T.Helper()
	for _, check := range []func(context.Context, store.Querier) ([]invariants.Finding, error){
		w.s.Skills.Check, w.s.Sessions.Check, w.s.Costs.Check, w.s.Check,
	} {
		findings, err := check(w.T.Context(), w.DB)
		if err != nil {
			w.T.Fatal(err)
		}
		for _, f := range findings {
			if f.Status != invariants.Good {
				w.T.Errorf("%s: %s", f.Check, f.Message)
			}
		}
	}
}
