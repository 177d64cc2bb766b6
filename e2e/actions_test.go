package e2e_test

import (
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/whetstone-dev/whetstone/internal/identity/oidc/oidctest"
)

// scriptT lets helpers of Go tests work in a script.
type scriptT struct{ *testscript.TestScript }

func (scriptT) Helper() {}

func (t scriptT) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprint(args...)) }

func (t scriptT) Cleanup(end func()) { t.Defer(end) }

type issuerKey struct{}

// actions is a stand-in for the part of GitHub Actions that vouches for a run.
func actions(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg, "actions [CLAIM=VALUE...]")
	run := oidctest.Claims{}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		run[name] = value
	}
	issuer := ts.Value(issuerKey{}).(**oidctest.Provider)
	if *issuer == nil {
		*issuer = oidctest.New(scriptT{ts})
	}
	(*issuer).SetRun(run)
	ts.Setenv("ISSUER", (*issuer).URL)
	ts.Setenv("GITHUB_ACTIONS", "true")
	ts.Setenv("ACTIONS_ID_TOKEN_REQUEST_URL", (*issuer).URL+"/runner?api-version=2.0")
	ts.Setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", oidctest.RunnerToken)
}
