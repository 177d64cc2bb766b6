package doctor

import (
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc/oidctest"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
)

func TestCheckProviders(t *testing.T) {
	p := oidctest.New(t)
	var c config.Config
	c.OIDC = map[string]string{"away": "http://127.0.0.1:1", "corp": p.URL}
	c.GitHub = map[string]string{"gone": "http://127.0.0.1:1", "hub": oidctest.NewGitHub(t).URL}
	got := checkProviders(t.Context(), c)
	if len(got) != 4 || got[0].Status != invariants.Fail("", "").Status || !strings.Contains(got[0].Message, "people cannot sign in") {
		t.Fatalf("findings: %+v", got)
	}
	if got[1].Status != invariants.Fine("", "").Status || !strings.Contains(got[1].Message, "/login/oidc/corp/callback") {
		t.Errorf("the provider that answers: %+v", got[1])
	}
	if got[2].Status != invariants.Fail("", "").Status || got[2].Check != "github gone" || !strings.Contains(got[2].Message, "check --github gone=URL") {
		t.Errorf("the GitHub that is away: %+v", got[2])
	}
	if got[3].Status != invariants.Fine("", "").Status || !strings.Contains(got[3].Message, "/login/oidc/hub/callback") {
		t.Errorf("the GitHub that answers: %+v", got[3])
	}
}
