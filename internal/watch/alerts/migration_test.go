package alerts_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestMigrationOfSensitivity: stored alerts that roll back, or compare versions, wait for
// proof after the migration; others are as they were.
func TestMigrationOfSensitivity(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			db, err := store.Open(t.Context(), store.Options{URL: storetest.EmptyURL(t, engine), MaxConns: 3})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
			if err := db.MigrateTo(t.Context(), 114); err != nil {
				t.Fatal(err)
			}
			for _, sql := range []string{
				`INSERT INTO organisations (id, name, plan, created_at) VALUES ('o', 'first', 'pro', 0)`,
				`INSERT INTO users (id, org_id, email, name, role, created_at) VALUES ('u', 'o', 'a@example.org', '', 'owner', 0)`,
				`INSERT INTO alert_rules (id, org_id, type, threshold, sensitivity, action, channel, address, enabled, created_by, created_at, updated_at) VALUES
					('a', 'o', 'pass_rate_below', 0.8, 'point', NULL, 'webhook', 'x', TRUE, 'u', 0, 0),
					('b', 'o', 'pass_rate_below', 0.8, 'point', 'rollback', 'webhook', 'x', TRUE, 'u', 0, 0),
					('c', 'o', 'pass_rate_below', 0.8, 'confident', 'rollback', 'webhook', 'x', TRUE, 'u', 0, 0),
					('d', 'o', 'worse_than_previous', 0.1, 'point', NULL, 'webhook', 'x', FALSE, 'u', 0, 0),
					('e', 'o', 'worse_than_previous', 0.1, 'confident', NULL, 'webhook', 'x', TRUE, 'u', 0, 0),
					('f', 'o', 'no_data', 7, 'point', NULL, 'webhook', 'x', TRUE, 'u', 0, 0)`,
				`INSERT INTO skills (id, org_id, name, created_at) VALUES ('s', 'o', 'pdf', 0)`,
				`INSERT INTO alert_states (rule_id, skill_id, state, since, good_streak, sequence) VALUES ('b', 's', 'firing', 1, 0, 1)`,
			} {
				if _, err := db.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			texts := func(sql string) []string {
				rows, err := db.Query(t.Context(), sql)
				got, err := store.All(rows, err, store.Value[string])
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			want := []string{"a point", "b sequential", "c confident", "d sequential", "e confident", "f point"}
			if diff := cmp.Diff(want, texts(`SELECT id || ' ' || sensitivity FROM alert_rules ORDER BY id`)); diff != "" {
				t.Errorf("sensitivities (-want +got):\n%s", diff)
			}
			// A firing goes on, and nothing became of a rollback yet.
			states := texts(`SELECT state FROM alert_states WHERE rollback_version IS NULL AND rollback_at IS NULL
				AND rollback_blocked_by IS NULL AND rollback_needs = 0 AND evidence_sessions = 0`)
			if diff := cmp.Diff([]string{"firing"}, states); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
		})
	}
}
