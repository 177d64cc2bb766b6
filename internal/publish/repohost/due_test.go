package repohost_test

import (
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
)

// TestReconcileDue: a connection is looked at once in an interval, and less often if
// nothing has happened for long.
func TestReconcileDue(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, now, interval := t.Context(), store.Now(), 15*time.Minute
		exec := func(sql string, args ...any) {
			t.Helper()
			if _, err := db.Exec(ctx, sql, args...); err != nil {
				t.Fatal(err)
			}
		}
		exec(`INSERT INTO organisations (id, name, plan, created_at) VALUES ('o', 'o', 'team', 0)`)
		exec(`INSERT INTO users (id, org_id, email, name, role, created_at) VALUES ('u', 'o', 'u@example.org', 'u', 'owner', 0)`)
		for id, quiet := range map[string]time.Duration{"busy": time.Minute, "calm": 4 * time.Hour, "idle": 1000 * time.Hour} {
			exec(`INSERT INTO repohost_connections (id, org_id, entry_id, entry_name, installation_id, repo_id, repo_full_name, repo_key,
					default_branch, skill_path, auto_publish, write_back_enabled, tag_pattern, created_by, created_at, updated_at, configured_at, held_until)
				VALUES ($1, 'o', $1, 'pdf', 1, 1, 'acme/pdf', 'acme/pdf', 'main', '', TRUE, TRUE, '', 'u', 0, $2, 0, 0)`,
				id, store.Micros(now.Add(-quiet)))
		}
		take := func(at time.Time) (taken int) {
			t.Helper()
			count := func() (n int) {
				rows, err := db.Query(ctx, `SELECT COUNT(*) FROM repohost_connections WHERE reconcile_at <= $1`, store.Micros(at))
				n, err = store.One(rows, err, "Count", store.Value[int])
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			before := count()
			if err := repohost.TakeDue(ctx, db, at, interval); err != nil {
				t.Fatal(err)
			}
			if left := count(); left != 0 {
				t.Errorf("%d are still due", left)
			}
			return before
		}
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{0, 3}, {0, 0}, {interval, 1}, {2 * interval, 2}, {4 * interval, 2}} {
			if got := take(now.Add(step.after)); got != step.want {
				t.Errorf("after %s: %d connections, want %d", step.after, got, step.want)
			}
		}
	})
}
