package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// TestCatalogue: the page marks what the model does not see, and has the settings that
// switch unused skills off.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		viewer, member := w.as(access.Viewer), w.as(access.Member)
		checkPage(t, viewer.get("/catalogue").want(http.StatusOK).wantText("No skills yet", "whetstone push ./my-skill"))
		long := strings.TrimSpace(strings.Repeat("Reads tables <b>of</b> documents. ", 40))
		for name, description := range map[string]string{"pdf": long, "dead": "Writes poems."} {
			if _, err := w.DB.Exec(t.Context(), `INSERT INTO skills (id, org_id, name, created_at) VALUES ($1, $2, $3, 0)`,
				"catalogue-"+name, w.org.ID, name); err != nil {
				t.Fatal(err)
			}
			if _, err := w.DB.Exec(t.Context(), `
				INSERT INTO registry_entries (id, org_id, name, entry_type, description, visibility, skill_id, current_version_id,
					current_version, current_hash, installation_count, created_by, created_at, updated_at)
				SELECT $1, $2, $3, 'skill', $4, 'org', $1, $1, '1.0.0', '', 0, id, 0, 0 FROM users WHERE org_id = $2 LIMIT 1`,
				"catalogue-"+name, w.org.ID, name, description); err != nil {
				t.Fatal(err)
			}
			if _, err := w.DB.Exec(t.Context(), `
				INSERT INTO registry_versions (id, entry_id, version, content_hash, tree_digest, size, description, file_manifest, source,
					rolled_back, pushed_by, pushed_at)
				SELECT id, id, '1.0.0', '', '', 0, description, '[]', 'cli', $2, created_by, 0 FROM registry_entries WHERE id = $1`,
				"catalogue-"+name, false); err != nil {
				t.Fatal(err)
			}
		}
		checkPage(t, viewer.get("/catalogue").want(http.StatusOK).wantText("Unused – agents reported nothing", "no price is known"))
		member.spend("pdf")
		p := viewer.get("/catalogue").want(http.StatusOK)
		checkPage(t, p)
		p.wantText("Seen whole 2 of 2", "at the prices of claude-sonnet-4-5", "Unused 1 no use in 30 days", "dead: off never used",
			`{ "skillOverrides": { "dead": "off" } }`, "1 skill can go")
		p = viewer.get("/catalogue?agent=codex&context_window=32000&show=cut").want(http.StatusOK)
		checkPage(t, p)
		p.wantText("Skills as Codex lists them", "agents/openai.yaml", "policy: allow_implicit_invocation: false")
		cut := p.all("del")
		if len(cut) != 2 || !strings.HasSuffix(long, strings.TrimSpace(textOf(cut[1]))) || textOf(cut[1]) == "" {
			t.Errorf("%d parts are struck out", len(cut)-1)
		}
		for _, query := range []string{"?agent=x&context_window=7&days=x&show=x&sort=x", "?page=99", "?q=nothing"} {
			checkPage(t, viewer.get("/catalogue"+query).want(http.StatusOK).wantText("Skills as Claude Code lists them"))
		}
		w.otherOrg(access.Team).get("/catalogue").want(http.StatusOK).wantText("No skills yet")
	})
}
