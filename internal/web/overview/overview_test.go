package overview_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/web/overview"
)

// world is a database with the same in two organisations, a and b.
type world struct {
	t   *testing.T
	db  *store.DB
	s   *overview.Service
	now time.Time
}

func each(t *testing.T, test func(w *world)) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := &world{t: t, db: db, s: &overview.Service{DB: db}, now: store.Now()}
		for _, org := range []string{"a", "b"} {
			w.exec(`INSERT INTO organisations (id, name, plan, created_at) VALUES ($1, $1, 'team', 0)`, org)
			w.exec(`INSERT INTO users (id, org_id, email, name, role, created_at) VALUES ($1, $2, 'ada@example.org', 'ada', 'owner', 0)`, org+"-ada", org)
			w.exec(`INSERT INTO skills (id, org_id, name, created_at) VALUES ($1, $2, 'pdf', $3)`, org+"-pdf", org, w.micros(-8*day))
			w.entry(org)
		}
		test(w)
	})
}

const day = 24 * time.Hour

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.db.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) micros(ago time.Duration) int64 { return store.Micros(w.now.Add(ago)) }

// entry puts the skill into the registry with two versions, the second rolled
// back an hour ago.
func (w *world) entry(org string) {
	w.t.Helper()
	w.exec(`INSERT INTO registry_entries (id, org_id, name, entry_type, description, visibility, skill_id, current_version_id,
			current_version, current_hash, installation_count, created_by, created_at, updated_at)
		VALUES ($1, $2, 'pdf', 'skill', 'Fills forms', 'org', $3, $4, '1.0.0', '', 0, $5, 0, 0)`,
		org+"-entry", org, org+"-pdf", org+"-v1", org+"-ada")
	for i, ago := range []time.Duration{-9 * day, -2 * day} {
		version := fmt.Sprintf("1.%d.0", i)
		w.exec(`INSERT INTO registry_versions (id, entry_id, version, content_hash, tree_digest, size, description, file_manifest,
				source, rolled_back, pushed_by, pushed_at)
			VALUES ($1, $2, $3, '', '', 0, '', '[]', 'cli', $6, $4, $5)`,
			fmt.Sprintf("%s-v%d", org, i+1), org+"-entry", version, org+"-ada", w.micros(ago), false)
		w.exec(`INSERT INTO registry_currents (id, entry_id, version_id, since) VALUES ($1, $2, $3, $4)`,
			fmt.Sprintf("%s-c%d", org, i+1), org+"-entry", fmt.Sprintf("%s-v%d", org, i+1), w.micros(ago))
	}
	w.exec(`INSERT INTO registry_rollbacks (id, entry_id, from_version, to_version, reason, rolled_back_by, rolled_back_at)
		VALUES ($1, $2, '1.1.0', '1.0.0', 'worse', $3, $4)`, org+"-back", org+"-entry", org+"-ada", w.micros(-time.Hour))
}

func check(t *testing.T, err error, want, got any) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDays(t *testing.T) {
	each(t, func(w *world) {
		today := w.now.Unix() / (24 * 60 * 60)
		for i, d := range []int64{today, today - 2, today - 3, today + 5} {
			w.exec(`INSERT INTO skill_days (subject_id, day, sessions, trigger_sessions, last_sessions, last_trigger_sessions, checks,
					triggers, confidence_sum, confidence_count, graded_sessions, pass_rate_sum)
				VALUES ('a-pdf', $1, $2, 0, 0, 0, 0, 0, 0, 0, $3, $4)`, d, 10+i, 4*(i%2), int64(3_000_000_000)*int64(i%2))
		}
		date := func(ago int) string { return w.now.Add(-time.Duration(ago) * day).Format(time.DateOnly) }
		rate := 0.75
		got, err := w.s.Days(w.t.Context(), []string{"a-pdf", "b-pdf"}, 3)
		check(w.t, err, map[string][]overview.Day{
			"a-pdf": {{Date: date(2), Sessions: 11, Graded: 4, PassRate: &rate}, {Date: date(1)}, {Date: date(0), Sessions: 10}},
			"b-pdf": {{Date: date(2)}, {Date: date(1)}, {Date: date(0)}},
		}, got)
		got, err = w.s.Days(w.t.Context(), nil, 3)
		check(w.t, err, map[string][]overview.Day{}, got)
	})
}

func TestFiring(t *testing.T) {
	each(t, func(w *world) {
		for _, org := range []string{"a", "b"} {
			for _, rule := range []string{"on", "off"} {
				w.exec(`INSERT INTO alert_rules (id, org_id, type, threshold, sensitivity, channel, address, enabled, created_by, created_at, updated_at)
					VALUES ($1, $2, 'pass_rate_below', 0.8, 'point', 'webhook', '', $3, $4, 0, 0)`, org+rule, org, rule == "on", org+"-ada")
				w.exec(`INSERT INTO alert_states (rule_id, skill_id, state, since, good_streak, sequence) VALUES ($1, $2, 'firing', $3, 0, 1)`,
					org+rule, org+"-pdf", store.Micros(w.now))
			}
		}
		w.exec(`INSERT INTO skills (id, org_id, name, created_at) VALUES ('fine', 'a', 'fine', 0)`)
		w.exec(`INSERT INTO alert_states (rule_id, skill_id, state, since, good_streak, sequence) VALUES ('aon', 'fine', 'ok', 0, 0, 0)`)
		got, err := w.s.Firing(w.t.Context(), "a")
		check(w.t, err, []overview.Firing{
			{RuleID: "aon", SkillID: "a-pdf", SkillName: "pdf", Type: "pass_rate_below", Threshold: 0.8, Since: w.now},
		}, got)
	})
}

func TestWaiting(t *testing.T) {
	each(t, func(w *world) {
		for _, id := range []string{"a1", "a2", "a3", "b1"} {
			w.exec(`INSERT INTO cloud_sources (id, org_id, label, source_type, suggested_at, created_by, created_at)
				VALUES ($1, $2, $1, 'upload', 0, $3, 0)`, id, id[:1], id[:1]+"-ada")
		}
		for _, g := range []string{"a1-1", "a2-1", "a2-2", "a3-reviewed", "b1-1"} {
			w.exec(`INSERT INTO source_suggestions (id, org_id, source_id, should_trigger, evidence, provenance, rationale, observed_count,
					confidence, last_observed_at, reviewed)
				VALUES ($1, $2, $3, $4, '', '', '', 1, 1, 0, $5)`, g, g[:1], g[:2], true, strings.HasSuffix(g, "reviewed"))
		}
		got, err := w.s.Waiting(w.t.Context(), "a")
		check(w.t, err, []overview.Waiting{{SourceID: "a2", Label: "a2", Suggestions: 2}, {SourceID: "a1", Label: "a1", Suggestions: 1}}, got)
	})
}

func TestFailing(t *testing.T) {
	each(t, func(w *world) {
		for _, id := range []string{"a-mended", "a-broken", "a-refused", "b-broken"} {
			w.exec(`INSERT INTO repohost_connections (id, org_id, entry_id, entry_name, installation_id, repo_id, repo_full_name, repo_key,
					default_branch, skill_path, auto_publish, write_back_enabled, tag_pattern, created_by, created_at, updated_at, configured_at, held_until)
				VALUES ($1, $2, $1, 'pdf', 1, 1, 'acme/pdf', 'acme/pdf', 'main', '', $3, $3, '', $4, 0, 0, 0, 0)`, id, id[:1], true, id[:1]+"-ada")
			last := map[string]string{"a-mended": "published", "a-refused": "refused"}[id]
			if last == "" {
				last = "failed"
			}
			for i, status := range []string{"failed", last} {
				w.exec(`INSERT INTO repohost_attempts (id, org_id, connection_id, ref_kind, ref_name, commit_sha, cause, status, tries, message,
						findings, queued_at, attempted_at, write_back_status, write_back_detail, write_back_tries, status_sent, annotations_sent)
					VALUES ($1, $2, $3, 'branch', 'main', $1, 'push', $4, 1, $1, '[]', 0, $5, '', '', 0, $6, 0)`,
					fmt.Sprint(id, i), id[:1], id, status, w.micros(time.Duration(i)*time.Second), false)
			}
		}
		got, err := w.s.Failing(w.t.Context(), "a")
		at := w.now.Add(time.Second)
		check(w.t, err, []overview.Failing{
			{ConnectionID: "a-broken", EntryName: "pdf", Repo: "acme/pdf", Ref: "main", Message: "a-broken1", AttemptedAt: at},
			{ConnectionID: "a-refused", EntryName: "pdf", Repo: "acme/pdf", Ref: "main", Message: "a-refused1", AttemptedAt: at},
		}, got)
	})
}

func TestStanding(t *testing.T) {
	each(t, func(w *world) {
		for _, org := range []string{"a", "b"} {
			w.exec(`INSERT INTO cloud_sources (id, org_id, label, source_type, suggested_at, created_by, created_at)
				VALUES ($1, $2, 'one', 'upload', 0, $3, 0)`, org+"-source", org, org+"-ada")
		}
		got, err := w.s.Existing(w.t.Context(), "a", []string{"a-pdf", "a-entry", "a-source", "a-gone", "b-pdf", "b-entry", "b-source"})
		check(w.t, err, map[string]bool{"a-pdf": true, "a-entry": true, "a-source": true}, got)
		none, err := w.s.Existing(w.t.Context(), "a", nil)
		check(w.t, err, map[string]bool{}, none)
	})
}

func TestChanges(t *testing.T) {
	each(t, func(w *world) {
		rate := 0.4
		for i, transition := range []string{"firing", "reminder", "resolved"} {
			w.exec(`INSERT INTO alert_events (id, org_id, rule_id, skill_id, skill_name, type, transition, threshold, pass_rate, graded_sessions,
					window_from, window_to, sequence, episode_id, firing_since, occurred_at)
				VALUES ($1, 'a', 'r', 'a-pdf', 'pdf', 'pass_rate_below', $2, 0.8, $3, 5, 0, 0, 1, '', 0, $4)`,
				fmt.Sprint("e", i), transition, rate, w.micros(-10*time.Hour+time.Duration(i)*time.Minute))
		}
		w.exec(`INSERT INTO skills (id, org_id, name, created_at) VALUES ('new', 'a', 'new', $1)`, w.micros(-day))
		changes, err := w.s.Changes(w.t.Context(), "a", w.now.Add(-7*day), 10)
		var got []string
		for _, c := range changes {
			got = append(got, strings.TrimSpace(strings.Join([]string{c.Kind, c.SkillID, c.Name, c.Version, c.Detail}, " ")))
		}
		check(w.t, err, []string{
			"rolled_back a-pdf pdf 1.0.0 worse", "resolved a-pdf pdf", "firing a-pdf pdf", "new new new", "published a-pdf pdf 1.1.0",
		}, got)
		changes, err = w.s.Changes(w.t.Context(), "a", w.now.Add(-7*day), 2)
		check(w.t, err, 2, len(changes))
		for i := range 120 {
			w.exec(`INSERT INTO skills (id, org_id, name, created_at) VALUES ($1, 'a', $1, $2)`, fmt.Sprint("many", i), w.micros(-day))
		}
		changes, err = w.s.Changes(w.t.Context(), "a", w.now.Add(-7*day), 4)
		check(w.t, err, []int{0, 0, 0, 120}, []int{changes[0].Others, changes[1].Others, changes[2].Others, changes[3].Others})
	})
}

func TestEntry(t *testing.T) {
	each(t, func(w *world) {
		got, err := w.s.Entry(w.t.Context(), "a", "a-pdf")
		check(w.t, err, overview.Entry{ID: "a-entry", Name: "pdf", Description: "Fills forms", CurrentVersion: "1.0.0"}, got)
		if _, err := w.s.Entry(w.t.Context(), "b", "a-pdf"); !fault.Is(err, fault.NotFound) {
			w.t.Errorf("another organisation's entry: %v", err)
		}
	})
}
