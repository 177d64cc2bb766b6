package report_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/web/overview/listing"
	"github.com/whetstone-dev/whetstone/internal/web/overview/report"
)

type object = apptest.Object

// room is an organisation with a registry, skills and costs.
type room struct {
	*apptest.Caller
	skills  *skills.Service
	costs   *costs.Service
	reports *report.Service
	n       int
}

func newRoom(t *testing.T, db *store.DB) *room {
	t.Helper()
	w := apptest.NewWorld(t, db, apptest.Options{})
	r := &room{skills: &skills.Service{DB: db, Window: 30, Versions: registry.History{}}}
	r.costs = &costs.Service{DB: db, Jobs: w.Queue, Prices: pricing.Embedded()}
	r.reports = &report.Service{DB: db, Costs: r.costs}
	r.reports.Mount(w.API)
	r.Caller = w.Org("acme")
	return r
}

func (r *room) exec(sql string, args ...any) {
	r.T.Helper()
	if _, err := r.World.DB.Exec(r.T.Context(), sql, args...); err != nil {
		r.T.Fatalf("%v", err)
	}
}

func (r *room) id(name string) string { return r.Org.Name + "-" + name }

// publish puts a skill into the registry, so many days ago. The SKILL.md is that of the
// version if there is one.
func (r *room) publish(daysAgo int, name, description, skillMD string) {
	r.T.Helper()
	at := store.Micros(store.Now().AddDate(0, 0, -daysAgo))
	r.exec(`INSERT INTO skills (id, org_id, name, created_at) VALUES ($1, $2, $3, $4)`, r.id(name), r.Org.ID, name, at)
	r.exec(`INSERT INTO registry_entries (id, org_id, name, entry_type, description, visibility, skill_id, current_version_id,
			current_version, current_hash, installation_count, created_by, created_at, updated_at)
		VALUES ($1, $2, $3, 'skill', $4, 'org', $1, $1, '1.0.0', '', 0, $5, $6, $6)`, r.id(name), r.Org.ID, name, description, r.User.ID, at)
	var text []byte
	if skillMD != "" {
		text = []byte(skillMD)
	}
	r.exec(`INSERT INTO registry_versions (id, entry_id, version, content_hash, tree_digest, size, description, file_manifest,
			source, rolled_back, pushed_by, pushed_at, skill_md)
		VALUES ($1, $1, '1.0.0', '', '', 0, $2, '[]', 'cli', $3, $4, $5, $6)`, r.id(name), description, false, r.User.ID, at, text)
}

// observe reports what agents saw of skills.
func (r *room) observe(all ...skills.Observation) {
	r.T.Helper()
	for i := range all {
		r.n++
		if !all[i].Offered {
			all[i].ID = skills.ID(r.Org.ID, r.User.ID, "check", fmt.Sprint(r.n))
		}
		if all[i].At.IsZero() {
			all[i].At = time.Now()
		}
		all[i].NormalizedAt = all[i].At
	}
	r.send(skills.Report{Observations: all}, costs.Report{})
}

// pay reports requests of a model whose price is known.
func (r *room) pay(session string, requests int) {
	r.T.Helper()
	var all []costs.Request
	for range requests {
		r.n++
		all = append(all, costs.Request{
			ID: skills.ID(r.Org.ID, r.User.ID, "request", fmt.Sprint(r.n)), Session: session, Model: "claude-sonnet-4-5",
			Tokens: costs.Tokens{Input: 10}, At: time.Now(),
		})
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

func (r *room) of(o report.Options) report.Report {
	r.T.Helper()
	if o.Agent == "" {
		o.Agent = listing.ClaudeCode
	}
	if o.Days == 0 {
		o.Days = 30
	}
	got, err := r.reports.Of(r.T.Context(), r.Org.ID, o)
	if err != nil {
		r.T.Fatalf("%v", err)
	}
	return got
}

func skillOf(t *testing.T, r report.Report, name string) report.Skill {
	t.Helper()
	for _, k := range r.Skills {
		if k.Name == name {
			return k
		}
	}
	t.Fatalf("the report has no skill %s", name)
	return report.Skill{}
}

func ptr[T any](v T) *T { return &v }

func exact(f float64) *float64 { return &f }

// TestEmpty: what is not known is null, not zero.
func TestEmpty(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		r.publish(90, "pdf", "Fills forms.", "")
		got := r.Get("/api/v1/catalogue-report").Want(http.StatusOK).Object()
		if got["sessions"] != nil || got["model"] != nil || got["reported"] != false {
			t.Errorf("sessions %v, model %v, reported %v", got["sessions"], got["model"], got["reported"])
		}
		totals := got["totals"].(object)
		if totals["dollars_per_session"] != nil || totals["dollars_in_window"] != nil || totals["unused"] != 0.0 {
			t.Errorf("totals %v", totals)
		}
		skill := got["skills"].([]any)[0].(object)
		for _, field := range []string{"offered_sessions", "used_sessions", "basis", "tokens_in_window", "dollars_in_window", "tokens_per_use", "reason"} {
			if skill[field] != nil {
				t.Errorf("%s is %v; want null", field, skill[field])
			}
		}
		if skill["use"] != "unknown" || skill["action"] != "on" || skill["form"] != "full" || skill["tokens_per_session"] != 5.0 {
			t.Errorf("skill %v", skill)
		}
		for _, query := range []string{"agent=cursor", "context_window=999", "context_window=10000001", "days=0", "days=366", "sort=cost", "show=dead", "per_page=101"} {
			status := r.Get("/api/v1/catalogue-report?" + query).Status
			if status != http.StatusBadRequest {
				t.Errorf("%s: status %d", query, status)
			}
		}
	})
}

// TestUse decides which skills are used and what to do with the others.
func TestUse(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		for _, name := range []string{"busy", "dead", "silent", "typed", "rare", "shipped"} {
			r.publish(90, name, "Does "+name+" things.", "")
		}
		r.publish(3, "young", "Does new things.", "")
		r.publish(90, "manual", "Deploys.", "---\nname: manual\ndescription: Deploys.\ndisable-model-invocation: true\nwhen_to_use: On Fridays.\n---\n")
		r.publish(90, "guided", "Guides.", "---\nname: guided\ndescription: Guides.\nwhen_to_use: On Mondays.\n---\n")
		for i := range 120 {
			session := fmt.Sprint("s", i)
			seen := []skills.Observation{
				{SkillName: "busy", Session: session, Offered: true},
				{SkillName: "dead", Session: session, Offered: true},
				{SkillName: "rare", Session: session, Offered: true},
			}
			if i < 60 {
				seen = append(seen, skills.Observation{SkillName: "busy", Session: session, Triggered: true, Confidence: exact(.6)})
			}
			if i < 1 {
				seen = append(seen, skills.Observation{SkillName: "rare", Session: session, Triggered: true})
			}
			if i < 4 {
				seen = append(seen, skills.Observation{SkillName: "typed", Session: session, Triggered: true, Confidence: exact(1)},
					skills.Observation{SkillName: "shipped:shipped", Session: session, Triggered: true},
					skills.Observation{SkillName: "acme:other", Session: session, Offered: true})
			}
			r.observe(seen...)
		}
		r.exec(`UPDATE skills SET created_at = 0 WHERE name = 'acme:other'`)
		r.pay("s0", 3)
		r.pay("s1", 1)
		got := r.of(report.Options{})
		type row struct {
			Use             report.Use
			Action          listing.Visibility
			Offered, Used   *int64
			InRegistry      bool
			TokensInWindow  *int64
			DollarsInWindow *float64
		}
		line := func(name string) int64 { return listing.TokensOf("- " + name + ": Does " + name + " things.\n") }
		// Two requests a session: one writes the cache, one reads it.
		price := func(tokens int64) *float64 {
			table, _ := pricing.Embedded().Lookup("claude-sonnet-4-5", time.Now())
			return exact(table.Standing(tokens, 2))
		}
		for name, want := range map[string]row{
			"busy":       {report.Used, listing.On, ptr(int64(120)), ptr(int64(60)), true, ptr(120 * line("busy")), price(120 * line("busy"))},
			"dead":       {report.Unused, listing.Off, ptr(int64(120)), ptr(int64(0)), true, ptr(120 * line("dead")), price(120 * line("dead"))},
			"silent":     {report.Unused, listing.Off, nil, ptr(int64(0)), true, ptr(2 * line("silent")), price(2 * line("silent"))},
			"typed":      {report.Used, listing.UserInvocableOnly, nil, ptr(int64(4)), true, ptr(2 * line("typed")), price(2 * line("typed"))},
			"rare":       {report.Used, listing.NameOnly, ptr(int64(120)), ptr(int64(1)), true, ptr(120 * line("rare")), price(120 * line("rare"))},
			"shipped":    {report.Used, listing.On, nil, ptr(int64(4)), true, ptr(2 * line("shipped")), price(2 * line("shipped"))},
			"young":      {report.Unknown, listing.On, nil, ptr(int64(0)), true, ptr(2 * listing.TokensOf("- young: Does new things.\n")), price(2 * 7)},
			"manual":     {report.Unused, listing.On, nil, ptr(int64(0)), true, ptr(int64(0)), exact(0)},
			"guided":     {report.Unused, listing.Off, nil, ptr(int64(0)), true, ptr(2 * listing.TokensOf("- guided: Guides. - On Mondays.\n")), price(2 * 8)},
			"acme:other": {report.Unused, listing.Off, ptr(int64(4)), ptr(int64(0)), false, nil, nil},
		} {
			k := skillOf(t, got, name)
			have := row{k.Use, k.Action, k.OfferedSessions, k.UsedSessions, k.InRegistry, k.TokensInWindow, k.DollarsInWindow}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			if (k.Reason == "") != (k.Action == listing.On) {
				t.Errorf("%s: %s for the reason %q", name, k.Action, k.Reason)
			}
		}
		if got.Totals.Skills != 9 || got.Totals.Others != 1 || got.Totals.Unused != 5 || got.Totals.Hidden != 1 || *got.Sessions != 2 {
			t.Errorf("totals %+v, %d sessions", got.Totals, *got.Sessions)
		}
		wantOverrides := map[string]listing.Visibility{
			"dead": listing.Off, "silent": listing.Off, "guided": listing.Off, "typed": listing.UserInvocableOnly, "rare": listing.NameOnly,
		}
		if diff := cmp.Diff(wantOverrides, got.Switch.Overrides); diff != "" {
			t.Errorf("overrides (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"acme:other"}, got.Switch.Plugins); diff != "" {
			t.Errorf("plugins (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"dead", "guided", "silent", "typed"}, got.Switch.Implicit); diff != "" {
			t.Errorf("Codex (-want +got):\n%s", diff)
		}
		text, err := got.Switch.Settings()
		var settings map[string]map[string]string
		if err != nil || json.Unmarshal([]byte(text), &settings) != nil || settings["skillOverrides"]["rare"] != "name-only" {
			t.Errorf("settings %s, %v", text, err)
		}
		if costly := got.Costly(10); len(costly) == 0 || costly[0].Name != "rare" || *costly[0].TokensPerUse != 120*line("rare") {
			t.Errorf("costly %+v", costly)
		}
		for _, k := range r.of(report.Options{Agent: listing.Codex}).Switch.Skills {
			if k.Action == listing.NameOnly {
				t.Errorf("%s: Codex has no list of names only", k.Name)
			}
		}
		if got := r.of(report.Options{Agent: listing.Codex}); skillOf(t, got, "manual").Line.Form != listing.Full {
			t.Error("Codex does not know disable-model-invocation")
		}
		other := r.World.Org("umbrella")
		if got := other.Get("/api/v1/catalogue-report").Want(http.StatusOK).Object(); len(got["skills"].([]any)) != 0 || got["reported"] != false {
			t.Errorf("another organisation gets %v", got)
		}
	})
}

// TestRecount: the figures of random sessions equal those counted from what was
// reported.
func TestRecount(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		random := rand.New(rand.NewPCG(1, 2))
		for i := range 8 {
			r.publish(90, fmt.Sprint("skill-", i), strings.Repeat("word ", 1+random.IntN(300)), "")
		}
		var all []skills.Observation
		for range 150 {
			o := skills.Observation{
				SkillName: fmt.Sprint("skill-", random.IntN(7)), Session: fmt.Sprint("s", random.IntN(40)), Offered: random.IntN(2) == 0,
				At: time.Now().Add(-time.Duration(random.IntN(12*24)) * time.Hour),
			}
			o.Triggered = !o.Offered && random.IntN(3) > 0
			r.observe(o)
			all = append(all, o)
		}
		for i := range 5 {
			r.pay(fmt.Sprint("s", i), 1+i)
		}
		for _, o := range []report.Options{{Days: 7}, {Days: 7, Agent: listing.Codex, Window: 20_000}} {
			got := r.of(o)
			since := got.Generated.Truncate(24*time.Hour).AddDate(0, 0, -6)
			type sum struct {
				offered, used map[string]bool // sessions
				uses          int64
			}
			sums := map[string]*sum{}
			for _, k := range got.Skills {
				sums[k.Name] = &sum{map[string]bool{}, map[string]bool{}, 0}
			}
			for _, o := range all {
				sum := sums[o.SkillName]
				switch {
				case o.At.Before(since):
				case o.Offered:
					sum.offered[o.Session] = true
				case o.Triggered:
					sum.used[o.Session] = true
					sum.uses++
				}
			}
			var tokens int64
			for _, k := range got.Skills {
				want := sums[k.Name]
				if *k.UsedSessions != int64(len(want.used)) || k.Uses != want.uses {
					t.Errorf("%s: used in %d sessions, %d times; want %d, %d", k.Name, *k.UsedSessions, k.Uses, len(want.used), want.uses)
				}
				sessions := int64(5)
				if len(want.offered) > 0 {
					sessions = int64(len(want.offered))
				}
				if k.TokensInWindow == nil || *k.TokensInWindow != sessions*listing.TokensOf(k.Line.Shown) {
					t.Errorf("%s: %v tokens in %d sessions", k.Name, k.TokensInWindow, sessions)
				}
				tokens += listing.TokensOf(k.Line.Shown)
			}
			price, _ := pricing.Embedded().Lookup("claude-sonnet-4-5", time.Now())
			if got.Totals.Tokens != tokens || *got.Totals.InWindow != price.Standing(5*tokens, 3) || *got.Totals.PerSession != price.Standing(tokens, 3) {
				t.Errorf("totals %+v; want %d tokens", got.Totals, tokens)
			}
			n := got.Totals.Full + got.Totals.Truncated + got.Totals.NameOnly + got.Totals.Omitted + got.Totals.Hidden
			if n != 8 || got.Used > got.Limit {
				t.Errorf("%d skills have a form, %d of %d are used", n, got.Used, got.Limit)
			}
		}
	})
}

// run stores the run of a suite about a skill with one trial of each case: what it
// asks, which skill was chosen, and the verdict.
func (r *room) run(id, skill string, cases ...[3]string) {
	r.T.Helper()
	now := store.Micros(store.Now())
	r.exec(`INSERT INTO eval_suites (id, org_id, name, source_kind, verifier_kind, supports_no_skill, case_count, kind, issues, version,
			created_by, created_at, updated_at, cases)
		VALUES ($1, $2, 'suite', 'manual', 'llm_judge', $3, 0, 'cases', '[]', 1, $4, 0, 0, '[]') ON CONFLICT DO NOTHING`,
		r.id("suite-"+skill), r.Org.ID, false, r.User.ID)
	r.exec(`INSERT INTO eval_runs (id, org_id, suite_id, status, subject, trials, baseline, seed, total, done, last_event, passed, failed,
			errors, skipped, created_by, created_at, finished_at, verifier_kind, no_skill, case_count, cases)
		VALUES ($1, $2, $3, 'succeeded', $4, 1, 'none', 0, 1, 1, 0, 0, 0, 0, 0, $5, $6, $6, '', $7, 0, '[]')`,
		r.id(id), r.Org.ID, r.id("suite-"+skill), `{"name":"`+skill+`"}`, r.User.ID, now, false)
	for i, c := range cases {
		r.exec(`INSERT INTO eval_run_trials (run_id, case_index, variant, n, verdict, duration_ms, evidence, output_tail)
			VALUES ($1, $2, 'skill', 1, $3, 0, $4, '')`, r.id(id), i, c[2], `{"summary":"","chosen":"`+c[1]+`"}`)
		should := (c[2] == "pass") == (c[1] == skill)
		r.exec(`INSERT INTO eval_run_cases (run_id, case_id, query, should_trigger, verdict, invocation) VALUES ($1, $2, $3, $4, $5, '')`,
			r.id(id), fmt.Sprint("c", i), c[0], should, c[2])
	}
}

func TestOverlaps(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		for _, name := range []string{"pdf", "forms", "csv"} {
			r.publish(90, name, "Does things.", "")
		}
		r.run("1", "pdf", [3]string{"old", "csv", "fail"}) // not the newest of its suite
		r.run("2", "pdf", [3]string{"a", "forms", "fail"}, [3]string{"b", "forms", "fail"}, [3]string{"c", "pdf", "pass"},
			[3]string{"d", "", "fail"}, [3]string{"e", "csv", "pass"}, [3]string{"f", "pdf", "fail"})
		now := store.Micros(store.Now())
		for i, s := range []struct {
			outcome string
			rows    map[string][2]bool // activated, offered
		}{
			{"", map[string][2]bool{"pdf": {true, true}, "csv": {true, false}, "forms": {false, true}}},
			{"pass", map[string][2]bool{"pdf": {false, false}, "csv": {true, true}}},
			{"fail", map[string][2]bool{"pdf": {false, false}, "csv": {true, true}}},
		} {
			id := r.id(fmt.Sprint("session", i))
			r.exec(`INSERT INTO agent_sessions (id, org_id, user_id, session_id, agent, started_at, last_at, provisional, turns, tool_calls,
					tool_errors, events, truncated, basis, outcome, reported_at)
				VALUES ($1, $2, $3, $1, '', $4, $4, $5, 0, 0, 0, 0, $5, '', $6, 0)`, id, r.Org.ID, r.User.ID, now, false, s.outcome)
			for name, seen := range s.rows {
				r.exec(`INSERT INTO agent_session_skills (session_id, skill_id, started_at, activated, offered, basis, outcome)
					VALUES ($1, $2, $3, $4, $5, '', $6)`, id, r.id(name), now, seen[0], seen[1], s.outcome)
			}
		}
		want := []report.Overlap{
			{Skill: "pdf", TakenBy: "forms", From: report.FromRuns, Taken: 2, Of: 4, RunID: r.id("2")},
			{Skill: "pdf", TakenBy: "csv", From: report.FromSessions, Taken: 2, Together: 1, Of: 3},
			{Skill: "csv", TakenBy: "pdf", From: report.FromSessions, Together: 1, Of: 3},
		}
		if diff := cmp.Diff(want, r.of(report.Options{}).Overlaps); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestRouting: a request whose decisive words are cut finds its skill only by the whole
// description.
func TestRouting(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		r.publish(90, "pdf", strings.Repeat("Fills fields of documents. ", 8)+"Also questionnaires and applications.", "")
		r.publish(90, "csv", "Cleans exports.", "")
		r.observe(skills.Observation{SkillName: "csv", Session: "s", Triggered: true})
		r.run("1", "pdf", [3]string{"answer the questionnaires and the application", "pdf", "pass"}, [3]string{"fill the pdf document", "pdf", "pass"},
			[3]string{"bake a cake", "", "pass"})
		whole := r.of(report.Options{}).Routing
		if whole.Cases != 2 || whole.Right != 2 || whole.Cut != 2 || whole.ChangedInTotal != 0 {
			t.Errorf("with a large window: %+v", whole)
		}
		cut := r.of(report.Options{Window: 1_000}).Routing // 40 characters
		want := report.Routing{Cases: 2, Right: 2, Cut: 1, ChangedInTotal: 1, Changed: []report.Change{{
			Skill: "pdf", Query: "answer the questionnaires and the application", Before: "pdf", RunID: r.id("1"),
			Lost: []string{"questionnaires", "application"},
		}}}
		if diff := cmp.Diff(want, cut); diff != "" {
			t.Errorf("with a small window (-want +got):\n%s", diff)
		}
		got := r.Get("/api/v1/catalogue-report?context_window=1000&show=cut&sort=-cut").Want(http.StatusOK).Object()
		item := got["skills"].([]any)[0].(object)
		if item["name"] != "pdf" || item["form"] != "name_only" || item["kept_characters"] != 0.0 || item["cut"] != item["description"] {
			t.Errorf("the first skill that is cut: %v", item)
		}
	})
}

// TestLarge: 5,000 skills take the same queries as few, and a page of them is small.
func TestLarge(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		now, n := store.Micros(store.Now()), 5_000
		if db.Dialect().Name() == "postgres" {
			r.exec(`INSERT INTO skills (id, org_id, name, created_at) SELECT 'k' || i, $1, 'skill-' || i, 0 FROM generate_series(1, 5000) i`, r.Org.ID)
		} else {
			r.exec(`WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 5000)
				INSERT INTO skills (id, org_id, name, created_at) SELECT 'k' || i, $1, 'skill-' || i, 0 FROM s`, r.Org.ID)
		}
		r.exec(`INSERT INTO registry_entries (id, org_id, name, entry_type, description, visibility, skill_id, current_version_id,
				current_version, current_hash, installation_count, created_by, created_at, updated_at)
			SELECT id, org_id, name, 'skill', '', 'org', id, id, '1.0.0', '', 0, $1, 0, 0 FROM skills WHERE org_id = $2`, r.User.ID, r.Org.ID)
		r.exec(`INSERT INTO registry_versions (id, entry_id, version, content_hash, tree_digest, size, description, file_manifest,
				source, rolled_back, pushed_by, pushed_at)
			SELECT id, id, '1.0.0', '', '', 0, $1 || name, '[]', 'cli', $2, created_by, $3 FROM registry_entries`,
			strings.Repeat("Reads, writes and compares many documents. ", 20), false, now)
		for _, agent := range []listing.Agent{listing.ClaudeCode, listing.Codex} {
			got := r.of(report.Options{Agent: agent})
			if got.Totals.Skills != n || got.Totals.LeftOut || got.Totals.CutText == 0 {
				t.Errorf("%s: totals %+v", agent, got.Totals)
			}
			if page, total := got.Select(report.Selection{Search: "L-4999", Sort: "-cut", Limit: 20}); total != 1 || len(page) != 1 {
				t.Errorf("%s: %d skills match", agent, total)
			}
		}
		if body := r.Get("/api/v1/catalogue-report?per_page=20&page=250").Want(http.StatusOK).Object(); len(body["skills"].([]any)) != 20 {
			t.Errorf("the last page has %d skills", len(body["skills"].([]any)))
		}
	})
}

// TestQueryPlans: no query of a report scans a whole table.
func TestQueryPlans(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, ids := t.Context(), []string{"a", "b"}
		q := storetest.Explainer{
			DB: db, T: t, Refuse: regexp.MustCompile(`^SCAN |Seq Scan on (registry|skill|eval|agent)`),
			Allow: regexp.MustCompile(`^SCAN (json_each|newest|sample|pairs|seen|page_|\(subquery)`),
		}
		for name, run := range map[string]func() error{
			"entries":  func() error { return report.EachEntry(ctx, q, "o", 10, func(report.Entry) error { return nil }) },
			"counts":   func() error { _, err := report.CountsOfOrg(ctx, q, "o", 1); return err },
			"runs":     func() error { _, err := report.NewestRuns(ctx, q, "o", time.Now(), 1, 1); return err },
			"choices":  func() error { _, err := report.ChoicesOf(ctx, q, ids); return err },
			"requests": func() error { _, err := report.RequestsOf(ctx, q, ids, 1); return err },
			"pairs":    func() error { _, err := report.PairsOf(ctx, q, "o", time.Now(), 1, 1); return err },
			"catalogs": func() error {
				_, err := report.CatalogPairs(ctx, q, "o", report.Options{Agent: listing.Codex, Window: 1}, time.Now(), 1)
				return err
			},
			"recall":   func() error { _, err := report.RecallOf(ctx, q, ids); return err },
			"sessions": func() error { _, err := report.SessionsOf(ctx, q, "o", time.Now(), 1); return err },
		} {
			if err := run(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
