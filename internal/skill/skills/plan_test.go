package skills_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// TestQueryPlans: no query of the API or of Observe scans a whole table.
func TestQueryPlans(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, q := t.Context(), storetest.Explainer{
			DB: db, T: t, Refuse: regexp.MustCompile(`^SCAN |Seq Scan on (skill|registry)`),
			Allow: regexp.MustCompile(`^SCAN (json_each|wanted VIRTUAL|page$)`),
		}
		r := newRoom(t, db)
		r.publish("pdf", time.Now())
		published := []string{resolve(t, db, r.Org.ID, "pdf")}
		ids, page := []string{"a", "b"}, skills.Filter{Limit: 10}
		for name, run := range map[string]func() error{
			"get":              func() error { return second(skills.SkillByIDOrName(ctx, q, "a", "b")) },
			"count":            func() error { return second(skills.CountSkills(ctx, q, "a", page)) },
			"list":             func() error { return second(skills.PageOfSkills(ctx, q, "a", page)) },
			"list, searched":   func() error { return second(skills.SkillsOfOrg(ctx, q, "a", skills.Filter{Search: "pdf"})) },
			"window":           func() error { return second(skills.Windows(ctx, q, ids, 1, 2)) },
			"days":             func() error { return second(skills.DaysOf(ctx, q, "a", 1, 2)) },
			"all names":        func() error { return second(skills.NamesOfOrg(ctx, q, "a")) },
			"all grades":       func() error { return second(skills.GradesOfOrg(ctx, q, "a", 1, 2)) },
			"names":            func() error { return second(skills.SkillsByName(ctx, q, "a", ids)) },
			"aliases":          func() error { return second(skills.AliasesOf(ctx, q, ids)) },
			"observations":     func() error { return second(skills.ObservationsByID(ctx, q, ids)) },
			"of plugins":       func() error { return second(skills.ObservationsOfPlugins(ctx, q, ids)) },
			"gradings":         func() error { return second(skills.GradingsByID(ctx, q, ids)) },
			"graded sessions":  func() error { return second(skills.GradingsOfSessions(ctx, q, skills.GradedSessions("a", "s", "t"))) },
			"days of sessions": func() error { return second(skills.SessionDays(ctx, q, ids)) },
			"session grades":   func() error { return second(skills.SessionGrades(ctx, q, ids)) },
			"first and last":   func() error { return skills.RecomputeSeen(ctx, q, "a") },
			"one by one":       func() error { return second(skills.GradedSince(ctx, q, "a", time.Now(), 10)) },
			"gradings of a session": func() error {
				return second(skills.SessionGradings(ctx, q, []skills.Session{{SkillID: "a", Hash: "s"}, {SkillID: "b", Hash: "t"}}))
			},
			"last grade": func() error { return second(skills.LastGradedAt(ctx, q, "a")) },
			"last activations": func() error {
				return second(skills.LastActivated(ctx, q, []skills.Session{{SkillID: "a", Hash: "s"}, {SkillID: "b", Hash: "t"}}))
			},
			"activations": func() error { return second(skills.ActivationsAfter(ctx, q, "", 10)) },
			"versions":    func() error { return second(registry.History{}.Timelines(ctx, q, published)) },
		} {
			if err := run(); err != nil && !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

// TestPlansAmongMany: what lists the skills of an organisation reads the rows of no
// other one, where PostgreSQL could choose to, too.
func TestPlansAmongMany(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		other := r.org("other").Org.ID
		storetest.Fill(t, db, r.Org.ID, other)
		ctx, org := t.Context(), r.Org.ID
		q := storetest.Explainer{
			DB: db, T: t, Filled: true, Refuse: regexp.MustCompile(`^SCAN |Seq Scan on skill_`), Allow: regexp.MustCompile(`^SCAN wanted VIRTUAL`),
		}
		all, err := skills.SkillsOfOrg(ctx, q, org, skills.Filter{})
		if err != nil || len(all) != 40 {
			t.Fatal(len(all), err)
		}
		ids := make([]string, len(all))
		for i, k := range all {
			ids[i] = k.ID
		}
		today := time.Now().Unix() / (24 * 60 * 60)
		page := skills.Filter{Limit: 50}
		for name, run := range map[string]func() error{
			"count":  func() error { return second(skills.CountSkills(ctx, q, org, page)) },
			"list":   func() error { return second(skills.PageOfSkills(ctx, q, org, page)) },
			"one":    func() error { return second(skills.SkillByIDOrName(ctx, q, org, ids[0])) },
			"names":  func() error { return second(skills.NamesOfOrg(ctx, q, org)) },
			"window": func() error { return second(skills.Windows(ctx, q, ids, today-29, today+1)) },
			"grades": func() error { return second(skills.GradesOfOrg(ctx, q, org, today-59, today-29)) },
			"days":   func() error { return second(skills.DaysOf(ctx, q, ids[0], today-29, today)) },
		} {
			if err := run(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
