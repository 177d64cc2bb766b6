package clients_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// A gitHome is a home in which programs run that call git.
type gitHome struct {
	t       *testing.T
	dir     string
	program string   // that is tested
	prefix  []string // of its arguments
}

// run runs the program, which must work, and returns what it prints.
func (h gitHome) run(args ...string) string {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), h.program, append(append([]string{}, h.prefix...), args...)...)
	cmd.Dir = h.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "GIT_TERMINAL_PROMPT=0", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
	}
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		h.t.Fatalf("%s %q: %v\n%s\n%s", h.program, args, err, out, failed.Stderr)
	}
	return string(out)
}

// gitCatalog has skills and their changes, which every client of a git marketplace
// must follow.
type gitCatalog struct {
	author                    *registrytest.Client
	id                        string
	bases                     []string // public, of the organisation, with a token
	first, second, third, own map[string]string
}

func newGitCatalog(t *testing.T, name string) gitCatalog {
	t.Helper()
	// A client that misses a change before a withdrawal must clone again, so nobody else
	// may withdraw what is public.
	own := newService(t)
	org := own.newOrganisation(t, name)
	skillName := strings.ToLower(name) + "-pdf"
	c := gitCatalog{
		author: &registrytest.Client{Caller: org.Caller},
		first:  skill(skillName, "One."), second: skill(skillName, "Two."), third: skill(skillName, "Three."), own: skill("notes", "Mine."),
	}
	c.id = c.author.Made(skillName, "1.0.0", pack(t, c.first), object{"visibility": "public"})
	c.author.Made("notes", "..", pack(t, c.own))
	token := org.Post("/api/v1/catalog-tokens", object{"name": "CI"}).Want(http.StatusCreated).Text("token")
	url := own.server.URL
	c.bases = []string{url, url + "/o/" + name, url + "/o/" + name + "/" + token}
	return c
}

// each publishes, rolls back and withdraws, and calls check with the version and the
// files that clients should have then.
func (c gitCatalog) each(t *testing.T, check func(version string, files map[string]string)) {
	t.Helper()
	check("1.0.0", c.first)
	c.author.Pushed(c.id, "1.1.0", pack(t, c.second))
	check("1.1.0", c.second)
	c.author.Post(registrytest.EntryPath(c.id)+"/rollback", object{}).Want(http.StatusOK)
	check("1.0.0", c.first)
	c.author.Pushed(c.id, "1.2.0", pack(t, c.third))
	check("1.2.0", c.third)
	c.author.Post(registrytest.VersionPath(c.id, "1.2.0")+"/withdraw", object{"reason": "bad"}).Want(http.StatusOK)
	check("1.0.0", c.first)
}

// TestGit clones and pulls.
func TestGit(t *testing.T) {
	t.Parallel()
	c := newGitCatalog(t, "Git")
	git := gitHome{t: t, dir: t.TempDir(), program: "git"}
	clone := func(name, base string, options ...string) string {
		t.Helper()
		git.run(append([]string{"clone", "--quiet", base + "/marketplace.git", name}, options...)...)
		return filepath.Join(git.dir, name)
	}
	var clones []string
	for i, base := range c.bases {
		name := string(rune('a' + i))
		clones = append(clones, clone(name, base), clone(name+"-shallow", base, "--depth", "1"))
	}
	c.each(t, func(version string, files map[string]string) {
		t.Helper()
		for _, dir := range clones {
			apptest.Eventually(t, dir+" has "+version, func() bool {
				git.run("-C", dir, "pull", "--quiet", "--ff-only")
				manifest, err := os.ReadFile(filepath.Join(dir, "plugins/git-pdf/plugin.json"))
				return err == nil && strings.Contains(string(manifest), `"version":"`+version+`"`)
			})
			wantFiles(t, filepath.Join(dir, "plugins/git-pdf/skills/git-pdf"), files)
			wantFiles(t, filepath.Join(dir, "plugins/everything/skills/git-pdf"), files)
			git.run("-C", dir, "fsck", "--strict", "--full")
		}
	})
	for _, dir := range clones {
		_, err := os.Stat(filepath.Join(dir, "plugins/notes"))
		if private := strings.HasPrefix(filepath.Base(dir), "c"); private != (err == nil) {
			t.Errorf("%s: the private skill: %v", dir, err)
		}
	}
	wantFiles(t, filepath.Join(clones[4], "plugins/notes/skills/notes"), c.own)
	if out := git.run("ls-remote", "--symref", c.bases[1]+"/marketplace.git", "HEAD"); !strings.HasPrefix(out, "ref: refs/heads/main\tHEAD") {
		t.Errorf("ls-remote: %s", out)
	}
}

// TestCodex adds the marketplace to the real Codex, at every address.
func TestCodex(t *testing.T) {
	t.Parallel()
	c := newGitCatalog(t, "Codex")
	programs := servertest.InstallNPM(t, root, "e2e/agents")
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	found, err := filepath.Glob(filepath.Join(programs, "../@openai/codex-linux-"+arch+"/vendor/*/bin/codex"))
	if err != nil || len(found) != 1 {
		t.Fatalf("codex is at %v, %v", found, err)
	}
	names := []string{"whetstone", "whetstone-Codex", "whetstone-Codex"}
	var homes []gitHome
	for i, base := range c.bases {
		codex := gitHome{t, t.TempDir(), found[0], []string{"plugin"}}
		codex.run("marketplace", "add", base+"/marketplace.git")
		codex.run("add", "codex-pdf@"+names[i])
		homes = append(homes, codex)
	}
	versions := func(codex gitHome) map[string]string {
		t.Helper()
		var list struct {
			Installed []struct{ PluginID, Version string }
		}
		if err := json.Unmarshal([]byte(codex.run("list", "--json")), &list); err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for _, p := range list.Installed {
			all[p.PluginID] = p.Version
		}
		return all
	}
	c.each(t, func(version string, files map[string]string) {
		t.Helper()
		for i, codex := range homes {
			apptest.Eventually(t, names[i]+" has "+version, func() bool {
				codex.run("marketplace", "upgrade", names[i])
				return versions(codex)["codex-pdf@"+names[i]] == version
			})
			wantFiles(t, filepath.Join(codex.dir, ".codex/plugins/cache", names[i], "codex-pdf", version, "skills/codex-pdf"), files)
		}
	})
	private := homes[2]
	private.run("add", "notes@whetstone-Codex")
	private.run("add", "everything@whetstone-Codex")
	all := versions(private)
	cache := filepath.Join(private.dir, ".codex/plugins/cache/whetstone-Codex")
	wantFiles(t, filepath.Join(cache, "notes", all["notes@whetstone-Codex"], "skills/notes"), c.own)
	wantFiles(t, filepath.Join(cache, "everything", all["everything@whetstone-Codex"], "skills/notes"), c.own)
	wantFiles(t, filepath.Join(cache, "everything", all["everything@whetstone-Codex"], "skills/codex-pdf"), c.first)
}

// TestClaudeCodeGit adds the marketplace to the real Claude Code by git.
func TestClaudeCodeGit(t *testing.T) {
	t.Parallel()
	c := newGitCatalog(t, "ByGit")
	claude := gitHome{t, t.TempDir(), claudeProgram(t), []string{"plugin"}}
	claude.run("marketplace", "add", c.bases[2]+"/marketplace.git")
	claude.run("install", "bygit-pdf@whetstone-ByGit")
	claude.run("install", "notes@whetstone-ByGit")
	claude.run("install", "everything@whetstone-ByGit")
	cache := filepath.Join(claude.dir, ".claude/plugins/cache/whetstone-ByGit")
	c.each(t, func(version string, files map[string]string) {
		t.Helper()
		dir := filepath.Join(cache, "bygit-pdf", version, "skills/bygit-pdf")
		apptest.Eventually(t, "Claude Code has "+version, func() bool {
			claude.run("marketplace", "update", "whetstone-ByGit")
			claude.run("update", "bygit-pdf@whetstone-ByGit")
			return strings.Contains(claude.run("list", "--json"), `"version": "`+version+`"`)
		})
		wantFiles(t, dir, files)
	})
	for _, dir := range []string{"notes/*/skills/notes", "everything/*/skills/notes"} {
		found, err := filepath.Glob(filepath.Join(cache, dir))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", dir, found, err)
		}
		wantFiles(t, found[0], c.own)
	}
}
