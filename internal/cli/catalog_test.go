package cli_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// TestCatalogTokens makes, lists, rotates and deletes a catalog token.
func TestCatalogTokens(t *testing.T) {
	s := startService(t)
	m := s.loggedIn(t)
	opens := func(token string) bool {
		t.Helper()
		res, err := http.Get(s.url + "/o/default/" + token + "/.well-known/agent-skills/index.json")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	}
	if got := m.must(t, "catalog-token", "list"); !strings.HasPrefix(got, "No catalog tokens; ") {
		t.Errorf("got %q", got)
	}
	old := strings.TrimSpace(m.must(t, "catalog-token", "create", "laptops", "--expires", "90d"))
	if !strings.HasPrefix(old, "ct_") || !opens(old) {
		t.Fatalf("%q does not open the catalog", old)
	}
	var all []struct{ ID, Name, State string }
	if m.answers(t, &all, "catalog-token", "list"); len(all) != 1 || all[0].Name != "laptops" || all[0].State != "active" {
		t.Fatalf("the list is %+v", all)
	}
	if got := m.must(t, "catalog-token", "list"); strings.Contains(got, old) || !strings.Contains(got, old[:7]+"...") {
		t.Errorf("the list is %q", got)
	}
	rotated := m.run(t, "catalog-token", "rotate", all[0].ID, "--now")
	rotated.want(t, term.ExitOK, "")
	fresh := strings.TrimSpace(rotated.stdout)
	if opens(old) || !opens(fresh) {
		t.Errorf("the old token %v, the new one %v", opens(old), opens(fresh))
	}
	m.run(t, "catalog-token", "rotate", all[0].ID).want(t, term.ExitFailed, "expired")
	m.answers(t, &all, "catalog-token", "list")
	for _, token := range all {
		m.must(t, "catalog-token", "delete", token.ID)
	}
	if opens(fresh) {
		t.Error("a deleted token opens the catalog")
	}
}
