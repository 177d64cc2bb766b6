package community_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/learn/community"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// world serves the routes of community.
type world struct {
	*apptest.World
	secret []byte
}

func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	w := &world{World: apptest.NewWorld(t, db, apptest.Options{})}
	var err error
	if w.secret, err = w.Auth.Secret(t.Context(), "community"); err != nil {
		t.Fatal(err)
	}
	(&community.Service{DB: db, Secret: w.secret}).Mount(w.API)
	return w
}

// person creates an organisation with one user.
func (w *world) person() *client {
	w.T.Helper()
	return &client{w.OrgWithPlan(uuid.NewString(), access.Free)}
}

// client calls the API with a key.
type client struct{ *apptest.Caller }

type object = apptest.Object

const path = "/api/v1/community/bundles"

func (c *client) get(path string) answer { return answer{c.Get(path)} }

func (c *client) submit(body any) answer {
	c.T.Helper()
	return answer{c.Post(path, body)}
}

// answer is a response whose times are only checked.
type answer struct{ apptest.Response }

func (a answer) want(status int) answer {
	a.T.Helper()
	a.Want(status)
	return a
}

func (a answer) object() object {
	a.T.Helper()
	o := a.Object()
	hideTimes(o)
	return o
}

// hideTimes replaces times that are well formed.
func hideTimes(v any) {
	switch v := v.(type) {
	case object:
		for name, value := range v {
			text, is := value.(string)
			if is && (strings.HasSuffix(name, "_at") || name == "latest_submission") && len(text) == 24 && strings.HasSuffix(text, "Z") {
				v[name] = "a time"
				continue
			}
			hideTimes(value)
		}
	case []any:
		for _, value := range v {
			hideTimes(value)
		}
	}
}

func (a answer) wantBody(want any) {
	a.T.Helper()
	if diff := cmp.Diff(apptest.Plain(a.T, want), any(a.object())); diff != "" {
		a.T.Errorf("%s (-want +got):\n%s", a.What, diff)
	}
}

// bundle returns a valid bundle.
func bundle() object {
	return object{
		"schema_version": "1.1", "skill_name": "pdf", "contributor_id": uuid.NewString(), "created_at": "2026-01-02T03:04:05+02:00",
		"tool_version": "0.9.1", "agent_type": "claude_code", "sanitization_level": "conservative",
		"positive_queries":  []any{object{"query": "take the tables out", "invocation_type": "implicit", "source": "session"}},
		"eval_entries":      []any{object{"query": "merge these", "should_trigger": true}},
		"grading_summary":   object{"total_sessions": 12, "graded_sessions": 10, "average_pass_rate": 0.8, "expectation_count": 30},
		"evolution_summary": nil,
		"session_metrics":   object{"total_sessions": 12, "avg_assistant_turns": 3.5, "avg_tool_calls": 9, "avg_errors": 0.2, "top_tools": []any{object{"tool": "Read", "count": 40}}},
		"something_else":    object{"kept": []any{1, "two"}},
	}
}

func envelope(creator, skill string, b any) object {
	return object{"creator_id": creator, "skill_name": skill, "bundle": b}
}

func (c *client) accept(body object) string {
	c.T.Helper()
	o := c.submit(body).want(http.StatusCreated).object()
	id, _ := o["submission_id"].(string)
	if o["status"] != "accepted" || uuid.Validate(id) != nil || len(o) != 2 {
		c.T.Errorf("answer %v", o)
	}
	return id
}

func TestSubmit(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		creator, contributor := w.person(), w.person()
		b := bundle()
		b["positive_queries"] = []any{object{"query": strings.Repeat("ü", 501), "more": 1}}
		first := contributor.accept(envelope(strings.ToUpper(creator.User.ID), " a/b ", b))
		if again := contributor.accept(envelope(creator.User.ID, "a/b", b)); again != first {
			t.Errorf("the same bundle is %s, want %s", again, first)
		}
		rows, err := db.Query(t.Context(), `SELECT bundle FROM community_bundles WHERE id = $1`, first)
		kept, err := store.One(rows, err, "Bundle", store.Value[string])
		b["positive_queries"].([]any)[0].(object)["query"] = strings.Repeat("ü", 500)
		want, marshalErr := json.Marshal(b)
		if kept != string(want) || err != nil || marshalErr != nil {
			t.Errorf("kept %s, %v, %v; want %s", kept, err, marshalErr, want)
		}
		second := contributor.accept(envelope(creator.User.ID, "a/b", bundle()))
		third := contributor.accept(envelope(creator.User.ID, "csv", bundle()))
		mac := hmac.New(sha256.New, w.secret)
		mac.Write([]byte(b["contributor_id"].(string)))
		hash := hex.EncodeToString(mac.Sum(nil))[:12]

		creator.get(path + "/overview").want(http.StatusOK).wantBody(object{
			"total_submissions": 3, "total_skills": 2, "total_contributors": 3,
			"skills": []any{
				object{"skill_name": "csv", "submission_count": 1, "contributor_count": 1, "latest_submission": "a time"},
				object{"skill_name": "a/b", "submission_count": 2, "contributor_count": 2, "latest_submission": "a time"},
			},
		})
		o := creator.get(path + "/skills/a%2Fb").want(http.StatusOK).object()
		recent := o["recent_submissions"].([]any)
		if len(recent) != 2 || recent[0].(object)["submission_id"] != second ||
			!cmp.Equal(recent[1], any(object{"submission_id": first, "contributor_hash": hash, "submitted_at": "a time"})) {
			t.Errorf("recent submissions %v", recent)
		}
		delete(o, "recent_submissions")
		if diff := cmp.Diff(object{
			"source": "community_bundle", "creator_id": creator.User.ID, "generated_at": "a time",
			"skill": object{
				"skill_name": "a/b", "submission_count": 2.0, "contributor_count": 2.0, "latest_submission": "a time",
				"total_sessions": 24.0, "graded_sessions": 20.0, "average_pass_rate": 0.8, "pass_rate_trend": "flat",
			},
		}, o); diff != "" {
			t.Errorf("skill (-want +got):\n%s", diff)
		}
		newest := creator.get(path + "/recent?limit=1").want(http.StatusOK).object()["submissions"].([]any)
		if len(newest) != 1 || newest[0].(object)["submission_id"] != third || newest[0].(object)["skill_name"] != "csv" {
			t.Errorf("the newest is %v", newest)
		}
		for _, other := range []*client{contributor, {w.Member(creator.Org, access.Owner)}} {
			other.get(path + "/overview").want(http.StatusOK).wantBody(object{
				"total_submissions": 0, "total_skills": 0, "total_contributors": 0, "skills": []any{},
			})
			other.get(path + "/skills/csv").want(http.StatusOK).wantBody(object{
				"source": "community_bundle", "creator_id": other.User.ID, "generated_at": "a time",
				"skill": nil, "recent_submissions": []any{},
			})
			other.get(path + "/recent").want(http.StatusOK).wantBody(object{
				"source": "community_bundle", "creator_id": other.User.ID, "generated_at": "a time", "submissions": []any{},
			})
		}
	})
}

func TestTrend(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).person()
		send := func(n int, graded, rate any) {
			b := bundle()
			b["created_at"] = fmt.Sprintf("2026-01-%02dT00:00:00Z", n)
			b["grading_summary"] = object{"graded_sessions": graded, "average_pass_rate": rate}
			c.accept(envelope(c.User.ID, "pdf", b))
		}
		send(4, 30, 0.9)
		for _, want := range []any{nil, "up", "up", "up"} {
			skill := c.get(path + "/skills/pdf").want(http.StatusOK).object()["skill"].(object)
			if skill["pass_rate_trend"] != want {
				t.Errorf("trend %v, want %v", skill["pass_rate_trend"], want)
			}
			send(1, 10, 0.5)
			send(2, 0, 0.5)
			send(3, nil, nil)
		}
		skill := c.get(path + "/skills/pdf").want(http.StatusOK).object()["skill"].(object)
		if got := skill["average_pass_rate"]; got != (30*0.9+4*10*0.5)/70 {
			t.Errorf("average_pass_rate %v", got)
		}
	})
}

// TestDigest: the digest is that of json.Marshal, which escapes HTML, so that
// bundles that were stored with it are still found. What is stored is not escaped.
func TestDigest(t *testing.T) {
	t.Parallel()
	b := bundle()
	b["more"] = strings.Repeat("<b>&\u2028 ü", 20_000)
	raw, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	got, err := community.New{CreatorID: "ME", SkillName: "pdf", Bundle: raw}.Read(nil)
	if want := sha256.Sum256([]byte("me\x00pdf\x00" + string(raw))); err != nil || got.Digest != hex.EncodeToString(want[:]) {
		t.Errorf("digest %s, %v; want %x", got.Digest, err, want)
	}
	if !strings.Contains(got.Bundle, `<b>&\u2028 ü<b>`) {
		t.Errorf("stored as %.200s", got.Bundle)
	}
}

func TestSubmitAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).person()
		body := envelope(c.User.ID, "pdf", bundle())
		ids := make([]string, 8)
		var wg sync.WaitGroup
		for i := range ids {
			wg.Go(func() { ids[i] = c.accept(body) })
		}
		wg.Wait()
		for _, id := range ids {
			if id != ids[0] {
				t.Errorf("submission %s, want %s", id, ids[0])
			}
		}
	})
}

func TestSubmitRefuses(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		with := func(field string, value any) object {
			b := bundle()
			if b[field] = value; value == nil {
				delete(b, field)
			}
			return b
		}
		for _, test := range []struct {
			name   string
			bundle any
			want   []string
		}{
			{"no object", "x", []string{"bundle", "bundle must be an object"}},
			{"null", nil, []string{"bundle", "bundle must be an object"}},
			{"nothing", object{}, []string{
				"bundle.agent_type", "agent_type is required", "bundle.contributor_id", "contributor_id is required",
				"bundle.created_at", "created_at is required", "bundle.eval_entries", "eval_entries is required",
				"bundle.positive_queries", "positive_queries is required", "bundle.sanitization_level", "sanitization_level is required",
				"bundle.schema_version", "schema_version is required", "bundle.session_metrics", "session_metrics is required",
			}},
			{"schema_version", with("schema_version", "2.0"), []string{"bundle.schema_version", "schema_version must be one of 1.0, 1.1, 1.2"}},
			{"skill_name", with("skill_name", 5), []string{"bundle.skill_name", "skill_name must be null or text"}},
			{"contributor_id", with("contributor_id", "me"), []string{"bundle.contributor_id", "contributor_id must be a uuid"}},
			{"created_at", with("created_at", "today"), []string{"bundle.created_at", "created_at must be a date-time"}},
			{"61st second", with("created_at", "2016-12-31T23:59:60Z"), []string{"bundle.created_at", "created_at must be a date-time"}},
			{"lower case", with("created_at", "2016-12-31t23:59:00z"), []string{"bundle.created_at", "created_at must be a date-time"}},
			{"tool_version", with("tool_version", 1), []string{"bundle.tool_version", "tool_version must be null or text"}},
			{"agent_type", with("agent_type", ""), []string{"bundle.agent_type", "agent_type must not be empty"}},
			{"sanitization_level", with("sanitization_level", true), []string{"bundle.sanitization_level", "sanitization_level must be text"}},
			{"positive_queries", with("positive_queries", object{}), []string{"bundle.positive_queries", "positive_queries must be an array"}},
			{"query", with("positive_queries", []any{object{"query": 1}}), []string{"bundle.positive_queries.0.query", "query must be text"}},
			{"no query", with("positive_queries", []any{object{}}), []string{"bundle.positive_queries.0.query", "query is required"}},
			{"eval_entries", with("eval_entries", []any{object{"query": "x", "should_trigger": "yes"}}), []string{"bundle.eval_entries.0.should_trigger", "should_trigger must be true or false"}},
			{"no should_trigger", with("eval_entries", []any{object{"query": "x"}}), []string{"bundle.eval_entries.0.should_trigger", "should_trigger is required"}},
			{"grading_summary", with("grading_summary", 1), []string{"bundle.grading_summary", "grading_summary must be null or an object"}},
			{"pass rate", with("grading_summary", object{"average_pass_rate": 1.5}), []string{"bundle.grading_summary.average_pass_rate", "average_pass_rate must be at most 1"}},
			{"graded sessions", with("grading_summary", object{"graded_sessions": -1}), []string{"bundle.grading_summary.graded_sessions", "graded_sessions must be at least 0"}},
			{"evolution_summary", with("evolution_summary", object{"total_proposals": "3"}), []string{"bundle.evolution_summary.total_proposals", "total_proposals must be null or a number"}},
			{"session_metrics", with("session_metrics", []any{}), []string{"bundle.session_metrics", "session_metrics must be an object"}},
			{"top_tools", with("session_metrics", object{"top_tools": []any{object{"tool": "Read"}}}), []string{"bundle.session_metrics.top_tools.0.count", "count is required"}},
			{"unmatched_queries", with("unmatched_queries", []any{"x"}), []string{"bundle.unmatched_queries.0", "unmatched_queries.0 must be an object"}},
		} {
			t.Run(test.name, func(t *testing.T) {
				c := w.person()
				c.submit(envelope(c.User.ID, "pdf", test.bundle)).WantIssues(test.want...)
			})
		}
		c := w.person()
		c.submit(object{"creator_id": "me", "skill_name": "", "bundle": bundle()}).want(http.StatusBadRequest)
		c.submit(object{"skill_name": "pdf", "bundle": bundle()}).WantIssues("creator_id", "creator_id is required")
		c.submit(object{"creator_id": c.User.ID, "bundle": bundle()}).WantIssues("skill_name", "skill_name is required")
		c.submit(object{"creator_id": c.User.ID, "skill_name": "pdf"}).WantIssues("bundle", "bundle is required")
		c.submit(envelope(c.User.ID, "  ", bundle())).WantIssues("skill_name", "skill_name must not be blank")
		c.get(path+"/recent?limit=0").WantIssues("limit", "limit: expected number >= 1")
		c.get(path+"/recent?limit=101").WantIssues("limit", "limit: expected number <= 100")
		viewer := &client{w.Member(c.Org, access.Viewer)}
		viewer.submit(envelope(c.User.ID, "pdf", bundle())).WantError(http.StatusForbidden, "This needs the permission telemetry:write")
		viewer.get(path + "/overview").want(http.StatusOK)
		c.Key = "st_test_none"
		c.submit(envelope(c.User.ID, "pdf", bundle())).want(http.StatusUnauthorized)
	})
}

// TestLargest: a bundle is accepted up to 8 MiB and 10,000 elements a list, and
// refused just above.
func TestLargest(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.person()
		padded := func(size int) object { // a bundle of that many bytes
			b := bundle()
			b["padding"] = ""
			raw, err := json.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			b["padding"] = strings.Repeat("x", size-len(raw))
			return b
		}
		c.accept(envelope(c.User.ID, strings.Repeat("ü", 200), padded(8<<20)))
		c.submit(envelope(c.User.ID, "pdf", padded(8<<20+1))).
			WantError(http.StatusRequestEntityTooLarge, "The bundle is over the limit of 8 MiB")
		c.submit(envelope(c.User.ID, "pdf", padded(9<<20))).
			WantError(http.StatusRequestEntityTooLarge, "The body is over the limit of 8196 KiB")

		element := object{
			"query": "take the tables out", "should_trigger": true, "invocation_type": "implicit", "source": "session",
			"timestamp": "2026-01-02T03:04:05Z", "more": 1, "proposal_id": "p", "action": "created",
		}
		list := func(n int, element object) (all []any) {
			for range n {
				all = append(all, element)
			}
			return all
		}
		full := bundle()
		for _, field := range []string{"positive_queries", "eval_entries", "unmatched_queries", "pending_proposals"} {
			full[field] = list(10_000, element)
			long := bundle()
			long[field] = list(10_001, object{})
			c.submit(envelope(c.User.ID, "pdf", long)).WantIssues("bundle."+field, field+" must have at most 10000 elements")
		}
		full["session_metrics"] = object{"top_tools": list(10_000, object{"tool": "Read", "count": 1})}
		id := c.accept(envelope(c.User.ID, "pdf", full))
		if n := w.Count("community_bundles WHERE id = $1 AND positive_queries = 10000 AND eval_entries = 10000", id); n != 1 {
			t.Errorf("%d rows with all elements, want 1", n)
		}
		long := bundle()
		long["session_metrics"] = object{"top_tools": list(10_001, object{})}
		c.submit(envelope(c.User.ID, "pdf", long)).
			WantIssues("bundle.session_metrics.top_tools", "top_tools must have at most 10000 elements")

		wrong := bundle()
		wrong["eval_entries"] = list(10_000, object{"query": 1})
		var refused struct{ Issues []any }
		if c.submit(envelope(c.User.ID, "pdf", wrong)).want(http.StatusBadRequest).Into(&refused); len(refused.Issues) != 100 {
			t.Errorf("%d issues, want the first 100", len(refused.Issues))
		}
		many := bundle()
		many["more"] = make([]int, 400_000)
		c.submit(envelope(c.User.ID, "pdf", many)).
			WantError(http.StatusRequestEntityTooLarge, "The body is over the limit of 400000 values; send smaller batches")
	})
}

// explainer fails the test if a query reads rows of the table, which hold the
// bundles.
type explainer struct {
	*store.DB
	t *testing.T
}

func (e explainer) Query(ctx context.Context, sql string, args ...any) (store.Rows, error) {
	rows, err := e.DB.Query(ctx, "EXPLAIN QUERY PLAN "+sql, args...)
	steps, err := store.All(rows, err, func(row store.Row) (step string, err error) {
		var id, parent, unused int
		err = row.Scan(&id, &parent, &unused, &step)
		return step, err
	})
	for _, step := range steps {
		if strings.Contains(step, "community_bundles") && !strings.Contains(step, "COVERING INDEX") {
			e.t.Errorf("%q in the plan of %s", step, sql)
		}
	}
	if err != nil {
		e.t.Error(err)
	}
	return e.DB.Query(ctx, sql, args...)
}

func TestCoveringIndexes(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "sqlite") // PostgreSQL stores large values outside of the rows
	c := newWorld(t, db).person()
	c.accept(envelope(c.User.ID, "pdf", bundle()))
	if err := community.ReadFigures(t.Context(), explainer{db, t}, c.User.ID, "pdf"); err != nil {
		t.Error(err)
	}
}

// TestVersions: bundles of existing clients are accepted.
func TestVersions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).person()
		for _, version := range []string{"1.0", "1.1", "1.2"} {
			b := bundle()
			b["schema_version"], b["grading_summary"], b["evolution_summary"] = version, nil, object{"average_improvement": -0.1}
			delete(b, "skill_name")
			delete(b, "tool_version")
			b["other_tool_version"], b["session_metrics"] = "3", object{}
			b["sanitization_level"], b["agent_type"] = "my own", "robot"
			b["unmatched_queries"] = []any{object{"query": "x", "timestamp": "2026-01-02T03:04:05Z"}}
			b["pending_proposals"] = []any{object{"proposal_id": "p", "action": "created", "timestamp": "x", "details": "y"}}
			c.accept(envelope(uuid.NewString(), "pdf", b)) // a creator who may join later
		}
	})
}

func TestSubmitLimit(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.person()
		body := envelope(c.User.ID, "pdf", bundle())
		for range 60 {
			c.submit(body).want(http.StatusCreated)
		}
		a := c.submit(body)
		reset := a.Header.Get("Retry-After")
		a.WantError(http.StatusTooManyRequests, "Rate limit of 60 requests per hour reached; try again in "+reset+" s")
		if a.Header.Get("RateLimit-Limit") != "60" || a.Header.Get("RateLimit-Remaining") != "0" ||
			a.Header.Get("RateLimit-Reset") != reset {
			t.Errorf("headers %v", a.Header)
		}
		(&client{w.Member(c.Org, access.Member)}).submit(body).want(http.StatusCreated) // another key
	})
}

func TestSchema(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		a := newWorld(t, db).person().get(path + "/schema").want(http.StatusOK)
		if got := a.Header.Get("Content-Type"); got != "application/schema+json" {
			t.Errorf("Content-Type %q", got)
		}
		if got := a.object()["$schema"]; got != "https://json-schema.org/draft/2020-12/schema" {
			t.Errorf("$schema %v", got)
		}
	})
}
