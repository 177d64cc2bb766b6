package costs_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

type object = apptest.Object

// room is the services, called by a person of an organisation.
type room struct {
	*apptest.Caller
	skills *skills.Service
	costs  *costs.Service
	texts  *texts
	n      int
}

// texts are the tokens of skills' texts by name of the skill.
type texts struct {
	r             *room
	listing, body map[string]int64
}

func (t *texts) TextTokens(_ context.Context, _ []string) (listing, body map[string]int64, err error) {
	listing, body = map[string]int64{}, map[string]int64{}
	for name, n := range t.listing {
		listing[t.r.skillID(name)] = n
	}
	for name, n := range t.body {
		body[t.r.skillID(name)] = n
	}
	return listing, body, nil
}

func newRoom(t *testing.T, db *store.DB) *room {
	t.Helper()
	w := apptest.NewWorld(t, db, apptest.Options{})
	r := &room{}
	r.texts = &texts{r: r}
	r.costs = &costs.Service{DB: db, Jobs: w.Queue, Prices: pricing.Embedded(), Texts: r.texts}
	r.skills = &skills.Service{DB: db, Window: 30, Versions: versions{}, Costs: r.costs}
	r.costs.Register()
	r.skills.Mount(w.API)
	r.costs.Mount(w.API)
	r.Caller = w.Org("acme")
	return r
}

// pay reports requests, each with an id of its own.
func (r *room) pay(all ...costs.Request) {
	r.T.Helper()
	for i := range all {
		r.n++
		all[i].ID = skills.ID(r.Org.ID, r.User.ID, "request", fmt.Sprint(r.n))
		if all[i].At.IsZero() {
			all[i].At = time.Now()
		}
	}
	r.send(skills.Report{}, costs.Report{Requests: all})
}

func (r *room) send(seen skills.Report, spent costs.Report) {
	r.T.Helper()
	seen.OrgID, seen.UserID, spent.OrgID, spent.UserID = r.Org.ID, r.User.ID, r.Org.ID, r.User.ID
	err := r.World.DB.InTx(r.T.Context(), func(tx *store.Tx) error {
		return r.skills.Observe(r.T.Context(), tx, seen, func(c skills.Changes) error {
			spent.Sessions = c.Sessions
			return r.costs.Ingest(r.T.Context(), tx, spent)
		})
	})
	if err != nil {
		r.T.Fatalf("%v", err)
	}
}

func (r *room) skillID(name string) (id string) {
	r.T.Helper()
	err := r.World.DB.InTx(r.T.Context(), func(tx *store.Tx) (err error) {
		id, err = skills.Resolve(r.T.Context(), tx, r.Org.ID, name)
		return err
	})
	if err != nil {
		r.T.Fatalf("%v", err)
	}
	return id
}

// cost returns the cost of a skill, nil for null.
func (r *room) cost(skill string) any {
	r.T.Helper()
	return r.Get("/v1/skills/" + skill).Want(http.StatusOK).Object()["skill"].(object)["cost"]
}

// paid is a reported price.
func paid(n int64) *int64 { return &n }

func number(n float64) any { return n }

func TestCost(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		sonnet := costs.Tokens{Input: 1000, Output: 50, CacheRead: 3000, CacheWrite: 200}
		r.skillID("idle")
		r.pay(
			costs.Request{Skill: "pdf", Session: "s", Turn: "1", Model: "claude-sonnet-4-5-20250929", Tokens: sonnet},
			costs.Request{Skill: "pdf", Session: "s", Turn: "1", Model: "claude-sonnet-4-5", Tokens: sonnet, Micros: paid(600)},
			costs.Request{Skill: "pdf", Session: "s", Turn: "2", Model: "secret", Tokens: sonnet},
			costs.Request{Session: "s", Turn: "3", Model: "claude-sonnet-4-5", Micros: paid(1_000_000)},
			costs.Request{Skill: "unknown", Session: "s", Turn: "3", Model: "secret", Tokens: costs.Tokens{Output: 7}},
			costs.Request{Skill: "hour", Model: "claude-sonnet-4-5", Tokens: costs.Tokens{CacheWrite: 300, CacheWriteHour: 200}},
			costs.Request{Skill: "old", At: time.Now().AddDate(0, 0, -40), Micros: paid(5)},
		)
		if got := r.cost("idle"); got != nil {
			t.Errorf("a skill without requests costs %v; want null", got)
		}
		if got := r.cost("old"); got != nil {
			t.Errorf("a skill without requests in the window costs %v; want null", got)
		}
		want := object{
			"currency": "USD", "per_use_p50": 0.006, "per_use_p95": 0.006, "per_success": nil, "total": 0.006,
			"tokens":   object{"input": 3000.0, "output": 150.0, "cache_read": 9000.0, "cache_write": 600.0},
			"requests": 3.0, "basis": "mixed", "unpriced_requests": 1.0, "standing_per_session": nil, "load_per_use": nil,
		}
		if diff := cmp.Diff(want, r.cost("pdf")); diff != "" {
			t.Errorf("pdf (- want, + got):\n%s", diff)
		}
		want = object{
			"currency": "USD", "per_use_p50": nil, "per_use_p95": nil, "per_success": nil, "total": nil,
			"tokens":   object{"input": 0.0, "output": 7.0, "cache_read": 0.0, "cache_write": 0.0},
			"requests": 1.0, "basis": nil, "unpriced_requests": 1.0, "standing_per_session": nil, "load_per_use": nil,
		}
		if diff := cmp.Diff(want, r.cost("unknown")); diff != "" {
			t.Errorf("unknown, which must not cost 0 (- want, + got):\n%s", diff)
		}
		hour := r.cost("hour").(object)
		if hour["total"] != 0.001575 || hour["basis"] != "priced" {
			t.Errorf("got %v, %v; want 100 x 3.75 + 200 x 6", hour["total"], hour["basis"])
		}
		page := r.Get("/v1/skills?q=pdf&confirmed=false").Want(http.StatusOK).Object()["skills"].([]any)[0].(object)
		if page["cost_per_use"] != 0.006 || page["cost"].(object)["total"] != 0.006 {
			t.Errorf("the list has %v, %v", page["cost_per_use"], page["cost"])
		}
	})
}

// TestQuantiles: equal costs come out exact, others as the mean of their bucket.
func TestQuantiles(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		var all []costs.Request
		for i := range 100 {
			cost := int64(4_000)
			if i >= 94 {
				cost = 1_000_003
			}
			all = append(all, costs.Request{Skill: "pdf", Session: "s", Turn: fmt.Sprint(i), Micros: &cost})
		}
		r.pay(all...)
		got := r.cost("pdf").(object)
		if got["per_use_p50"] != 0.004 || got["per_use_p95"] != 1.000003 || got["basis"] != "reported" {
			t.Errorf("got %v", got)
		}
	})
}

// TestPerSuccess: sessions count by their pass rate, and follow it.
func TestPerSuccess(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		grade := func(session string, rate float64) {
			r.send(skills.Report{Gradings: []skills.Grading{{
				ID: skills.ID(r.Org.ID, r.User.ID, "grading", session), SkillName: "pdf", Session: session, PassRate: &rate, At: time.Now(),
			}}}, costs.Report{})
		}
		want := func(want any) {
			t.Helper()
			if got := r.cost("pdf").(object)["per_success"]; got != want {
				t.Errorf("got %v per success; want %v", got, want)
			}
		}
		r.pay(
			costs.Request{Skill: "pdf", Session: "a", Micros: paid(3_000)}, costs.Request{Skill: "pdf", Session: "b", Micros: paid(6_000)},
			costs.Request{Skill: "pdf", Session: "ungraded", Micros: paid(50_000)},
		)
		want(nil)
		grade("b", 0)
		grade("unpaid", 1) // its cost is unknown
		want(nil)
		grade("a", 1)
		want(number(0.009))
		grade("b", 1)
		want(number(0.0045))
		r.pay(costs.Request{Skill: "pdf", Session: "b", Micros: paid(1_000)})
		want(number(0.005))
		r.pay(costs.Request{Skill: "pdf", Session: "b", Model: "secret"}) // now that of b is unknown
		want(number(0.003))
	})
}

// TestContextCosts has the figures of a description of 100 tokens in a session of
// 40 requests, and of a SKILL.md of 3,000 tokens with 20 later requests.
func TestContextCosts(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		r.texts.listing, r.texts.body = map[string]int64{"pdf": 80, "xls": 80}, map[string]int64{"pdf": 3000}
		var all []costs.Request
		for i := range 40 {
			q := costs.Request{Session: "s", Turn: "1", Model: "claude-sonnet-4-5", Tokens: costs.Tokens{Input: 1}}
			if i < 21 {
				q.Skill = "pdf"
			}
			all = append(all, q)
		}
		r.pay(all...)
		r.pay(costs.Request{Skill: "xls", Model: "secret"})
		got := r.cost("pdf").(object)
		if got["standing_per_session"] != 0.001545 || got["load_per_use"] != 0.02925 {
			t.Errorf("got %v and %v", got["standing_per_session"], got["load_per_use"])
		}
		got = r.cost("xls").(object)
		if got["standing_per_session"] != 0.001545 || got["load_per_use"] != nil {
			t.Errorf("got %v and %v", got["standing_per_session"], got["load_per_use"])
		}
	})
}

func TestBill(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		r.Get("/v1/costs").Want(http.StatusOK).WantBody(object{"days": 30, "total": 0, "unattributed": 0, "skills": []any{}})
		r.pay(
			costs.Request{Skill: "pdf", Session: "s", Turn: "1", Micros: paid(1_000_001)},
			costs.Request{Skill: "pdf", Session: "s", Turn: "2", Micros: paid(2)},
			costs.Request{Session: "s", Micros: paid(10)},
			costs.Request{Skill: "old", At: time.Now().AddDate(0, 0, -7), Micros: paid(100)},
		)
		other := &room{r.World.Org("other"), r.skills, r.costs, r.texts, 0}
		other.pay(costs.Request{Skill: "pdf", Micros: paid(7)})
		pdf := object{"skill_id": r.skillID("pdf"), "name": "pdf", "total": 1.000003, "uses": 2}
		r.Get("/v1/costs?days=7").Want(http.StatusOK).WantBody(object{
			"days": 7, "total": 1.000013, "unattributed": 0.00001, "skills": []any{pdf},
		})
		r.Get("/v1/costs").Want(http.StatusOK).WantBody(object{
			"days": 30, "total": 1.000113, "unattributed": 0.00001,
			"skills": []any{object{"skill_id": r.skillID("old"), "name": "old", "total": 0.0001, "uses": 1}, pdf},
		})
		other.Get("/v1/costs").Want(http.StatusOK).WantBody(object{
			"days": 30, "total": 0.000007, "unattributed": 0,
			"skills": []any{object{"skill_id": other.skillID("pdf"), "name": "pdf", "total": 0.000007, "uses": 1}},
		})
		r.pay(costs.Request{Skill: "unknown", Model: "secret"})
		r.Get("/v1/costs?days=1").Want(http.StatusOK).WantBody(object{
			"days": 1, "total": 1.000013, "unattributed": 0.00001,
			"skills": []any{pdf, object{"skill_id": r.skillID("unknown"), "name": "unknown", "total": nil, "uses": 1}},
		})
		for _, days := range []string{"0", "366", "x"} {
			if s := r.Get("/v1/costs?days=" + days).Status; s < 400 || s >= 500 {
				t.Errorf("days=%s answers %d", days, s)
			}
		}
		r.World.Anonymous().Get("/v1/costs").Want(http.StatusUnauthorized)
		viewer := r.World.Member(r.Org, access.Viewer)
		viewer.Get("/v1/costs").Want(http.StatusOK)
	})
}

// TestPrices: an organisation's own prices come first, and change what is counted.
func TestPrices(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		other := &room{r.World.Org("other"), r.skills, r.costs, r.texts, 0}
		const path = "/api/v1/settings/prices"
		total := func(r *room, want any) {
			t.Helper()
			r.World.Settle()
			if got := r.Get("/v1/costs").Want(http.StatusOK).Object()["total"]; got != want {
				t.Errorf("got %v; want %v", got, want)
			}
		}
		stop := r.World.Work()
		defer stop()
		for _, r := range []*room{r, other} {
			r.pay(
				costs.Request{Skill: "pdf", Session: "s", Turn: "1", Model: "secret", Tokens: costs.Tokens{Input: 1000}},
				costs.Request{Skill: "pdf", Session: "s", Turn: "1", Model: "secret", Micros: paid(1), Tokens: costs.Tokens{Input: 1000}},
				costs.Request{Skill: "pdf", Session: "s", Turn: "1", Model: "gpt-5", Tokens: costs.Tokens{Input: 4000}},
			)
			total(r, 0.005001)
		}
		r.Get(path).Want(http.StatusOK).WantBody(object{"models": []any{}})
		models := []any{object{"match": "secret", "input": 2, "output": 4}, object{"match": "gpt-5", "valid_from": "2020-01-01", "input": 0, "output": 0}}
		r.Do("PUT", path, object{"models": models}).Want(http.StatusOK).WantBody(object{"models": models})
		r.Get(path).Want(http.StatusOK).WantBody(object{"models": models})
		other.Get(path).Want(http.StatusOK).WantBody(object{"models": []any{}})
		total(r, 0.002001)
		total(other, 0.005001)
		r.pay(costs.Request{Model: "secret", Tokens: costs.Tokens{Output: 1}})
		total(r, 0.002005)
		r.Do("PUT", path, object{"models": []any{}}).Want(http.StatusOK).WantBody(object{"models": []any{}})
		total(r, 0.005001)

		for _, c := range []struct {
			name, path string
			model      object
		}{
			{"negative", "input", object{"match": "a", "input": -1, "output": 1}},
			{"absurd", "output", object{"match": "a", "input": 1, "output": 10001}},
			{"no match", "match", object{"input": 1, "output": 1}},
			{"an empty match", "match", object{"match": "", "input": 1, "output": 1}},
			{"no input", "input", object{"match": "a", "output": 1}},
			{"a bad day", "valid_from", object{"match": "a", "input": 1, "output": 1, "valid_from": "2026-02-30"}},
			{"an absurd write", "cache_write", object{"match": "a", "input": 1, "output": 1, "cache_write": 1e6}},
		} {
			t.Run(c.name, func(t *testing.T) {
				r.Do("PUT", path, object{"models": []any{models[0], c.model}}).WantIssueWith("models.1."+c.path, "")
			})
		}
		member := r.World.Member(r.Org, access.Member)
		member.Get(path).Want(http.StatusOK)
		member.Do("PUT", path, object{"models": []any{}}).Want(http.StatusForbidden)
		r.World.Anonymous().Get(path).Want(http.StatusUnauthorized)
	})
}

// TestAdopt: a process with other prices reprices what was counted, once.
func TestAdopt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		r.pay(costs.Request{Skill: "pdf", Model: "secret", Tokens: costs.Tokens{Input: 1000}})
		r.costs.Prices = r.costs.Prices.Before([]pricing.Model{{Match: "secret", Input: 5}})
		for range 2 {
			if err := r.costs.Adopt(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := r.costs.Reprice(t.Context(), r.Org.ID); err != nil {
				t.Fatal(err)
			}
			r.Get("/v1/costs").Want(http.StatusOK).WantBody(object{
				"days": 30, "total": 0.005, "unattributed": 0,
				"skills": []any{object{"skill_id": r.skillID("pdf"), "name": "pdf", "total": 0.005, "uses": 1}},
			})
		}
		if n := r.World.Count(`cost_prices WHERE reprice_after IS NOT NULL`); n != 0 {
			t.Errorf("%d organisations are being repriced", n)
		}
	})
}
