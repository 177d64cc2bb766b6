package sessions_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestQueryPlans: no query scans a table or sorts the sessions of an organisation,
// so that a page costs the same however many there are.
func TestQueryPlans(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		fillSessions(t, db)
		ctx, q := t.Context(), storetest.Explainer{
			DB: db, T: t, Refuse: regexp.MustCompile(`^SCAN |USE TEMP B-TREE|Seq Scan|Sort|Bitmap`),
			Allow: regexp.MustCompile(`^SCAN json_each|Scan on unnest`),
		}
		yes, no, day := true, false, time.Now()
		plan := func(name string, f sessions.Filter) {
			t.Helper()
			f.Limit = 50
			for _, f := range []sessions.Filter{f, f.After(10_000_000, "x")} {
				if _, _, err := f.Page(ctx, q, "org-1", 100); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		for name, f := range map[string]sessions.Filter{
			"all":             {},
			"agent":           {Agent: "claude-code"},
			"user":            {UserID: "user-1"},
			"pass":            {Outcome: sessions.Passed},
			"fail":            {Outcome: sessions.Failed},
			"graded":          {Graded: &yes},
			"not graded":      {Graded: &no},
			"tool errors":     {Outcome: sessions.ToolErrors},
			"day":             {Since: &day, Until: &day},
			"skill":           {SkillID: "skill-1"},
			"skill activated": {SkillID: "skill-1", Activated: &yes},
			"skill missed":    {SkillID: "skill-1", Activated: &no},
			"skill failed":    {SkillID: "skill-1", Outcome: sessions.Failed},
			"skill graded":    {SkillID: "skill-1", Graded: &yes},
		} {
			plan(name, f)
		}
		// These compare the newest rows of an index, which SQLite calls a scan of them. A
		// scan of the table would not be sorted.
		strict := q.Allow
		q.Allow = regexp.MustCompile(`^SCAN [sk]$`)
		for name, f := range map[string]sessions.Filter{
			"version":           {VersionID: "version-1"},
			"version of skill":  {SkillID: "skill-1", VersionID: "version-1"},
			"skill not graded":  {SkillID: "skill-1", Graded: &no},
			"agent failed":      {Agent: "codex", Outcome: sessions.Failed},
			"user's of agent":   {UserID: "user-1", Agent: "codex"},
			"skill of agent":    {SkillID: "skill-1", Agent: "codex"},
			"skill, all at all": {SkillID: "skill-1", Activated: &no, Agent: "codex", UserID: "user-1", Graded: &yes, Outcome: sessions.ToolErrors},
		} {
			plan(name, f)
		}
		q.Allow = strict
		ids := []string{"s-1", "s-2"}
		for name, run := range map[string]func() error{
			"by id":   func() error { return second(sessions.SessionsByID(ctx, q, ids)) },
			"skills":  func() error { return second(sessions.SkillsOfSessions(ctx, q, ids)) },
			"events":  func() error { return second(sessions.EventsByKey(ctx, q, sessions.Keys("s-1", "e"))) },
			"expired": func() error { return second(sessions.ExpiredSessions(ctx, q, day, 100)) },
		} {
			if err := run(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		// These sort the events of one session, and the sessions with one id.
		q.Refuse = regexp.MustCompile(`^SCAN |Seq Scan`)
		if _, err := sessions.SessionOf(ctx, q, "org-1", "user-1", "s-1"); err != nil && !fault.Is(err, fault.NotFound) {
			t.Error(err)
		}
		if _, err := sessions.EventsAfter(ctx, q, "s-1", sessions.Position{}, "", 10); err != nil {
			t.Error(err)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// fillSessions adds sessions, and tells the planner about them.
func fillSessions(t *testing.T, db *store.DB) {
	t.Helper()
	const count = 4000
	numbers := fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) `, count)
	for _, sql := range []string{
		`INSERT INTO agent_sessions (id, org_id, user_id, session_id, agent, started_at, last_at, provisional, turns, tool_calls, tool_errors,
			events, truncated, basis, outcome, reported_at)
		` + numbers + `SELECT 's-' || i, 'org-' || (i % 2), 'user-' || (i % 10), 's-' || i, CASE WHEN i % 3 = 0 THEN 'codex' ELSE 'claude-code' END,
			i * 1000, i * 1000, FALSE, 1, 1, CASE WHEN i % 10 < 2 THEN 1 ELSE 0 END, 1, FALSE, '',
			CASE WHEN i % 20 < 2 THEN 'pass' WHEN i % 20 < 4 THEN 'fail' ELSE '' END, i * 1000 FROM n`,
		`INSERT INTO agent_session_skills (session_id, skill_id, started_at, activated, offered, version_id, basis, outcome)
		` + numbers + `SELECT 's-' || i, 'skill-' || (i % 4), i * 1000, i % 20 < 4, TRUE, CASE WHEN i % 20 < 2 THEN 'version-' || (i % 4) END, '',
			CASE WHEN i % 20 < 2 THEN 'pass' WHEN i % 20 < 4 THEN 'fail' ELSE '' END FROM n`,
		`ANALYZE`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}
