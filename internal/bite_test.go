package internal_test

import (
	"strings"
	"testing"
)

// TestRulesBite feeds each rule what it must find, and what it must let pass:
// a rule that finds nothing proves nothing.
func TestRulesBite(t *testing.T) {
	of := func(name string) string { return module + roomNamed(name) }
	for _, c := range []struct {
		name, path, text string
		rule             func([]*source) []string
		want             string // part of the only problem; "" for none
	}{
		{"down", "internal/watch/alerts/a.go", imports(of("store")), upwardImports, ""},
		{"along an edge", "internal/watch/alerts/a.go", imports(of("registry")), upwardImports, ""},
		{"against an edge", "internal/publish/registry/a.go", imports(of("repohost")), upwardImports, "add the edge to edges"},
		{"up from the noun that all share", "internal/skill/skills/a.go", imports(of("alerts")), upwardImports, "imports point down"},
		{"where no edge is", "internal/watch/alerts/a.go", imports(of("sources")), upwardImports, "add the edge to edges"},
		{"up", "internal/platform/store/a.go", imports(of("alerts")), upwardImports, "internal/platform/store (wing platform) imports internal/watch/alerts (wing watch)"},
		{"up from below a room", "internal/engine/host/github/a.go", imports(of("registry")), upwardImports, "imports point down"},
		{"sideways in the platform", "internal/identity/auth/a.go", imports(of("httpapi")), upwardImports, ""},
		{"sideways in the base", "internal/base/fault/a.go", imports(of("stats")), upwardImports, "add the edge to edges"},
		{"beside the wing", "internal/engine/judge/a.go", imports(of("auth")), upwardImports, "the wings engine and identity stand side by side"},
		{"sideways in a test", "internal/watch/alerts/a_test.go", imports(of("registry")), upwardImports, ""},
		{"test helper", "internal/watch/alerts/a.go", imports(of("store") + "/storetest"), upwardImports, "only tests may"},
		{"own test helper", "internal/platform/store/a.go", imports(of("store") + "/storetest"), upwardImports, "only tests may"},
		{"client", "client/a.go", imports(of("skillpkg")), upwardImports, ""},
		{"client with more", "client/a.go", imports(of("fault")), upwardImports, "the public client imports internal/base/fault"},
		{"wire", "internal/base/fault/a.go", imports(module + "client/api"), upwardImports, ""},
		{"wire with more", "client/api/a.go", imports(of("fault")), upwardImports, "imports point down"},
		{"homeless", "internal/helpers/a.go", imports(), upwardImports, "internal/helpers is in no wing"},

		{"driver", "internal/watch/alerts/a.go", imports("github.com/jackc/pgx/v5"), reservedUses, "take a store.Querier"},
		{"driver in its place", "internal/platform/store/a.go", imports("github.com/jackc/pgx/v5"), reservedUses, ""},
		{"framework", "internal/watch/alerts/a.go", imports("github.com/danielgtaylor/huma/v2"), reservedUses, "httpapi.Add"},
		{"settings", "internal/watch/alerts/a.go", imports(of("config")), reservedUses, "take the values you need"},
		{"client in a room", "internal/web/a.go", imports(module + "client"), reservedUses, "for other processes"},
		{"wire in a room", "internal/web/a.go", imports(module + "client/api"), reservedUses, ""},
		{"sealing", "internal/web/a.go", imports(of("seal")), reservedUses, "let the table's owner seal"},
		{"process", "internal/engine/judge/a.go", imports("os/exec"), reservedUses, "through internal/engine/sandbox"},
		{"process of a test helper", "internal/platform/store/storetest/a.go", imports("os/exec"), reservedUses, ""},
		{"client literal", "internal/platform/notify/a.go", httpUse("&http.Client{}"), reservedUses, "internal/platform/notify/a.go:3 uses net/http"},
		{"client by new", "internal/platform/notify/a.go", httpUse("new(http.Client)"), reservedUses, "internal/platform/outbound"},
		{"default client", "internal/platform/notify/a.go", httpUse("http.DefaultClient"), reservedUses, "internal/platform/outbound"},
		{"shortcut", "internal/platform/notify/a.go", httpUse("http.Get"), reservedUses, "internal/platform/outbound"},
		{"client under another name", "internal/platform/notify/a.go", "package p\nimport web \"net/http\"\nvar x web.Client", reservedUses, "internal/platform/outbound"},
		{"client handed in", "internal/platform/notify/a.go", httpUse("(*http.Client)(nil)"), reservedUses, ""},
		{"client in its place", "internal/platform/outbound/a.go", httpUse("http.Client{}"), reservedUses, ""},

		{"command", "internal/engine/sandbox/a.go", execUse("exec.Command(\"x\")"), inheritedEnvironments, "internal/engine/sandbox/a.go:3 may hand on"},
		{"command literal", "internal/engine/sandbox/builder/a.go", execUse("&exec.Cmd{Env: []string{}}"), inheritedEnvironments, "start programs with spawn.Command"},
		{"command handed in", "internal/engine/sandbox/a.go", execUse("(*exec.Cmd)(nil)"), inheritedEnvironments, ""},
		{"command in its place", "internal/engine/sandbox/spawn/a.go", execUse("exec.Command(\"x\")"), inheritedEnvironments, ""},
		{"command of a test", "internal/engine/sandbox/a_test.go", execUse("exec.Command(\"x\")"), inheritedEnvironments, ""},
		{"command on another machine", "internal/engine/sandbox/browser/a.go", execUse("exec.Command(\"x\")"), inheritedEnvironments, ""},
		{"environment", "internal/cli/a.go", "package p\nimport \"os\"\nvar x = os.Environ()", inheritedEnvironments, "internal/cli/a.go:3"},
		{"environment of a command", "internal/engine/sandbox/a.go", execUse("func(c *exec.Cmd) []string { return c.Environ() }"), inheritedEnvironments, "a.go:3"},
		{"no environment", "internal/watch/alerts/a.go", "package p\nfunc f(c T) { c.Env = nil }", inheritedEnvironments, "a.go:2"},
		{"environment added", "internal/engine/sandbox/a.go", execUse("func(c *exec.Cmd) { c.Env = append(c.Env, y...) }"), inheritedEnvironments, "a.go:3"},

		{"comment", "internal/watch/alerts/a.go", "// Package p does it.\npackage p", missingComments, ""},
		{"no comment", "internal/watch/alerts/a.go", "package p", missingComments, "say what it does for someone"},
		{"comment of another package", "internal/watch/alerts/a.go", "// Package q does it.\npackage p", missingComments, "say what it does for someone"},
		{"command", "cmd/whetstone/main.go", "// Command whetstone does it.\npackage main", missingComments, ""},

		{"init", "internal/watch/alerts/a.go", "package p\nfunc init() {}", initFunctions, "internal/watch/alerts/a.go:2 has an init function"},
		{"method named init", "internal/watch/alerts/a.go", "package p\nfunc (t T) init() {}", initFunctions, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := parseSource(c.path, c.text)
			if err != nil {
				t.Fatal(err)
			}
			checkBite(t, c.rule([]*source{f}), c.want)
		})
	}
}

func checkBite(t *testing.T, problems []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(problems) > 0:
		t.Errorf("got %q, want no problem", problems)
	case want != "" && (len(problems) != 1 || !strings.Contains(problems[0], want)):
		t.Errorf("got %q, want one problem with %q", problems, want)
	}
}

func imports(paths ...string) string {
	text := "package p\n"
	for _, p := range paths {
		text += "import _ \"" + p + "\"\n"
	}
	return text
}

func execUse(expression string) string {
	return "package p\nimport \"os/exec\"\nvar x = " + expression
}

func httpUse(expression string) string {
	return "package p\nimport \"net/http\"\nvar x = " + expression
}
