package cli_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/git"
)

// TestRepohost creates a repository and reports a push to it to a server.
func TestRepohost(t *testing.T) {
	var got host.HookPush
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || (host.Verifier{Secrets: []string{"sesame"}}).Verify(r.Header, body, time.Now()) != nil || json.Unmarshal(body, &got) != nil ||
			r.Header.Get(host.EventHeader) != "push" || r.Header.Get(host.DeliveryHeader) == "" {
			t.Errorf("got %v %s", r.Header, body)
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	data := t.TempDir()
	var out bytes.Buffer
	p := &term.Program{Version: "test", Stdout: &out, Stderr: &out}
	if err := cli.RunInitRepo(t.Context(), p, data, "acme/deploy"); err != nil || !strings.Contains(out.String(), "git push") {
		t.Fatalf("got %v, %s", err, &out)
	}
	if err := cli.RunInitRepo(t.Context(), p, data, "acme/deploy"); !fault.Is(err, fault.Conflict) {
		t.Errorf("again: got %v, want a conflict", err)
	}
	if err := cli.RunInitRepo(t.Context(), p, data, "../deploy"); !fault.Is(err, fault.Malformed) {
		t.Errorf("traversal: got %v, want Malformed", err)
	}
	repos := git.Dir(data, "")
	t.Chdir(filepath.Join(repos, "acme", "deploy.git"))
	after := strings.Repeat("a", 40)
	hook := func() error {
		p.Stdin = strings.NewReader(strings.Repeat("0", 40) + " " + after + " refs/heads/main\n")
		return cli.RunHook(t.Context(), p, git.HookConfigPath(repos))
	}
	if err := hook(); err == nil || !strings.Contains(err.Error(), "start the server once") {
		t.Errorf("before the first start: got %v", err)
	}
	if _, err := git.New(git.Options{Dir: repos, Program: "whetstone", URL: server.URL, Secret: "sesame"}); err != nil {
		t.Fatal(err)
	}
	if err := hook(); err != nil {
		t.Fatal(err)
	}
	if got.Repository.FullName != "acme/deploy" || len(got.Refs) != 1 || got.Refs[0].After != after || got.Refs[0].Ref != "refs/heads/main" {
		t.Errorf("got %+v", got)
	}
}

// TestRepohostClaims says whose the accounts are.
func TestRepohostClaims(t *testing.T) {
	i := installation{t.TempDir()}
	i.must(t, "migrate")
	i.must(t, "org", "create", "acme")
	i.must(t, "org", "create", "other")
	claims := func() map[string]string {
		var all []map[string]any
		i.mustInto(t, &all, "repohost", "claims")
		found := map[string]string{}
		for _, c := range all {
			found[c["account"].(string)] = c["organisation"].(string)
		}
		return found
	}
	if made := i.must(t, "repohost", "allow", "acme", "ACME-Labs"); made["account"] != "acme-labs" || made["organisation"] != "acme" {
		t.Errorf("got %v", made)
	}
	for name, args := range map[string][]string{
		"held by another":    {"repohost", "allow", "other", "acme-labs"},
		"with a repository":  {"repohost", "init-repo", "acme-labs/x", "--org", "other"},
		"no organisation":    {"repohost", "allow", "nobody", "x"},
		"not an account":     {"repohost", "allow", "acme", "a//b"},
		"nothing to release": {"repohost", "release", "x"},
	} {
		if r := i.run(t, args...); r.code == 0 {
			t.Errorf("%s: %v went well: %s", name, args, r.stdout)
		}
	}
	if _, err := os.Stat(filepath.Join(i.data, "repos", "acme-labs")); err == nil {
		t.Error("a repository was made for an organisation that may not have it")
	}
	i.must(t, "repohost", "init-repo", "tools/x", "--org", "other")
	i.must(t, "repohost", "allow", "other", "acme-labs", "--move")
	if got := claims(); len(got) != 2 || got["acme-labs"] != "other" || got["tools"] != "other" {
		t.Errorf("got %v", got)
	}
	i.must(t, "repohost", "release", "Acme-Labs")
	if r := i.run(t, "repohost", "claims"); r.code != 0 || r.stdout != "ACCOUNT  ORGANISATION  BOUND BY\ntools    other         none\n" {
		t.Errorf("claims for people: %d %q", r.code, r.stdout)
	}
}
