package clawhub_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// TestUnsupported asks what the CLI does for commands that have no meaning here: it
// prints the answer, which is one line that says what to do instead.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Pro)
		ada.Made("pdf", "1.0.0", registrytest.Skill(t, "A."))
		for _, base := range []string{"", base("acme"), base("acme", ada.Key)} {
			for request, want := range map[string]string{
				"POST /api/v1/stars/pdf":                           "no stars",
				"DELETE /api/v1/stars/pdf":                         "no stars",
				"DELETE /api/v1/skills/pdf":                        "whetstone withdraw",
				"DELETE /api/v1/skills/pdf/versions/1.0.0":         "whetstone withdraw",
				"POST /api/v1/skills/pdf/undelete":                 "--undo",
				"POST /api/v1/skills/pdf/versions/1.0.0/restore":   "--undo",
				"POST /api/v1/skills/pdf/rename":                   "does not rename",
				"POST /api/v1/skills/pdf/merge":                    "does not rename",
				"POST /api/v1/skills/pdf/transfer":                 "does not rename",
				"POST /api/v1/skills/pdf/transfer/accept":          "does not rename",
				"GET /api/v1/transfers/incoming":                   "does not rename",
				"POST /api/v1/skills/-/scan":                       "skill verify",
				"GET /api/v1/skills/-/scan/download/pdf?version=1": "skill verify",
				"POST /api/v1/skills/-/security-verdicts":          "no verdicts in bulk",
				"POST /api/v1/publishers":                          "whetstone org create",
				"GET /api/v1/packages":                             "skills only",
				"GET /api/v1/packages/search?q=x":                  "skills only",
				"POST /api/v1/packages/x/undelete":                 "skills only",
				"DELETE /api/v1/packages/x":                        "skills only",
			} {
				method, path, _ := strings.Cut(request, " ")
				a := ada.Do(method, base+path, nil)
				text := strings.TrimSpace(string(a.Body))
				if a.Status != http.StatusNotFound || !strings.Contains(text, want) || strings.ContainsAny(text, "\n{") {
					t.Errorf("%s %s: %d %q, want %q", method, base+path, a.Status, text, want)
				}
			}
		}
		if got := ada.Get("/api/v1/skills/pdf").Want(http.StatusOK).Text("skill", "slug"); got != "pdf" {
			t.Errorf("afterwards the skill is %q", got)
		}
	})
}
