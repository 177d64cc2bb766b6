package sessions_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// listed is a row of fillSessions with that of its skill.
type listed struct {
	id, org, user, agent, outcome string
	errors, at                    int64
	skill, version, skillOutcome  string
	activated                     bool
}

// selects is what a filter means.
func (l listed) selects(f sessions.Filter) bool {
	outcome := l.outcome
	if f.SkillID != "" || f.VersionID != "" {
		outcome = l.skillOutcome
	}
	return l.org == "org-1" && (f.SkillID == "" || f.SkillID == l.skill) && (f.VersionID == "" || f.VersionID == l.version) &&
		(f.Activated == nil || *f.Activated == l.activated) && (f.UserID == "" || f.UserID == l.user) &&
		(f.Agent == "" || f.Agent == l.agent) && (f.Graded == nil || *f.Graded == (outcome != "")) &&
		(f.Outcome == "" || f.Outcome == sessions.Outcome(outcome) || f.Outcome == sessions.ToolErrors && l.errors > 0) &&
		(f.Since == nil || l.at >= f.Since.UnixMicro()) && (f.Until == nil || l.at < f.Until.UnixMicro())
}

// TestCombinedFilters: the pages of any combination of filters are the sessions that it
// selects, each once, newest first, however few of them one page compares.
func TestCombinedFilters(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		fillSessions(t, db)
		rows, err := db.Query(t.Context(), `
			SELECT s.id, s.org_id, s.user_id, s.agent, s.outcome, s.tool_errors, s.started_at, k.skill_id, COALESCE(k.version_id, ''),
				k.outcome, k.activated
			FROM agent_sessions s JOIN agent_session_skills k ON k.session_id = s.id ORDER BY s.started_at DESC, s.id DESC`)
		all, err := store.All(rows, err, func(row store.Row) (l listed, err error) {
			err = row.Scan(&l.id, &l.org, &l.user, &l.agent, &l.outcome, &l.errors, &l.at, &l.skill, &l.version, &l.skillOutcome, &l.activated)
			return l, err
		})
		if err != nil {
			t.Fatal(err)
		}
		yes, no := true, false
		since, until := time.UnixMicro(1_000_000), time.UnixMicro(3_000_000)
		r := rand.New(rand.NewPCG(1, 2))
		for range 60 {
			f := sessions.Filter{
				SkillID: oneOf(r, "", "", "skill-1", "skill-3"), VersionID: oneOf(r, "", "", "", "version-1"), UserID: oneOf(r, "", "", "user-1", "user-3"),
				Agent: oneOf(r, "", "", "codex"), Outcome: oneOf(r, "", "", sessions.Passed, sessions.Failed, sessions.ToolErrors),
				Graded: oneOf(r, nil, nil, &yes, &no), Since: oneOf(r, nil, &since), Until: oneOf(r, nil, &until), Limit: oneOf(r, 7, 200),
			}
			if f.SkillID != "" {
				f.Activated = oneOf(r, nil, &yes, &no)
			}
			compared := oneOf(r, 40, 300)
			var want, got []string
			for _, l := range all {
				if l.selects(f) {
					want = append(want, l.id)
				}
			}
			pages := 0
			for next := &f; next != nil; pages++ {
				var page []string
				if page, next, err = next.Page(t.Context(), db, "org-1", compared); err != nil {
					t.Fatal(err)
				}
				if len(page) > f.Limit {
					t.Fatalf("a page of %d sessions, want at most %d", len(page), f.Limit)
				}
				if got = append(got, page...); pages > len(all) {
					t.Fatalf("%+v does not end", f)
				}
			}
			if !slices.Equal(want, got) {
				t.Errorf("%+v, %d at a time (-want +got):\n%s", f, compared, cmp.Diff(want, got))
			}
		}
	})
}

func oneOf[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }
