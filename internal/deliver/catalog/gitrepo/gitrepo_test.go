package gitrepo_test

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/gitrepo"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/marketplace"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

type object = apptest.Object

var public = object{"visibility": "public"}

func newWorld(t *testing.T, db *store.DB) *registrytest.World {
	t.Helper()
	return serve(registrytest.New(t, db))
}

func serve(w *registrytest.World) *registrytest.World {
	plugins := &marketplace.Service{Catalog: w.Catalog}
	plugins.Mount(w.API)
	(&gitrepo.Service{Catalog: w.Catalog, Marketplace: plugins}).Mount(w.API)
	return w
}

func token(c *registrytest.Client) string {
	c.T.Helper()
	return c.Do(http.MethodPost, "/api/v1/catalog-tokens", object{"name": "test"}).Want(http.StatusCreated).Text("token")
}

func withdraw(c *registrytest.Client, id, version string) {
	c.T.Helper()
	c.Do(http.MethodPost, registrytest.VersionPath(id, version)+"/withdraw", object{"reason": "bad"}).Want(http.StatusOK)
}

// git runs git, and returns what it prints and whether it worked.
func git(t *testing.T, args ...string) (string, bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		// As strict as git can be with what it is sent.
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=transfer.fsckObjects", "GIT_CONFIG_VALUE_0=true",
	}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err == nil
}

// mustGit is git that works.
func mustGit(t *testing.T, args ...string) string {
	t.Helper()
	out, ok := git(t, args...)
	if !ok {
		t.Fatalf("git %s:\n%s", strings.Join(args, " "), out)
	}
	return out
}

// clone returns the folder of a clone.
func clone(t *testing.T, w *registrytest.World, base string, options ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	mustGit(t, append(append([]string{}, options...), "clone", "--quiet", w.Server.URL+base+"/marketplace.git", dir)...)
	mustGit(t, "-C", dir, "fsck", "--strict", "--full")
	return dir
}

// files returns those of a clone, with "*" for what can be executed.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		if info, _ := d.Info(); info.Mode()&0o111 != 0 {
			name += "*"
		}
		all[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// subjects are the messages of the commits, the newest first.
func subjects(t *testing.T, dir string) string {
	t.Helper()
	return strings.ReplaceAll(mustGit(t, "-C", dir, "log", "--format=%s"), "\n", "; ")
}

func TestClone(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, bob := w.Org("acme inc", access.Pro), w.Org("other", access.Pro)
		large := registrytest.Noise(1 << 20) // larger than what is kept in memory
		text := registrytest.SkillText("Reads <tables>.")
		archive := registrytest.Pack(t, registrytest.File("SKILL.md", text), registrytest.File("data.bin", large),
			registrytest.Member{Name: "scripts/run.sh", Body: "echo hi\r\n", Mode: 0o111, Type: tar.TypeReg}, registrytest.Symlink("run", "scripts/run.sh"))
		ada.Made("pdf", "1.0.0", archive, public)
		ada.Made("mine", "..", registrytest.Skill(t, "Mine."))
		ada.Made("hidden", "1.0.0", registrytest.Skill(t, "Hidden."), object{"visibility": "unlisted"})
		bob.Made("theirs", "1.0.0", registrytest.Skill(t, "Theirs."), public)
		bob.Made("secret", "1.0.0", registrytest.Skill(t, "Secret."))
		org := "/o/acme%20inc"

		got := files(t, clone(t, w, org))
		document := func(name string) string {
			content := got[name]
			delete(got, name)
			return content
		}
		claude, codex, cursor := document(".claude-plugin/marketplace.json"), document(".agents/plugins/marketplace.json"),
			document(".cursor-plugin/marketplace.json")
		shop := w.Anonymous().Get(org + "/marketplace.json").Want(http.StatusOK).List("plugins")
		everything := apptest.Text(shop[1], "version")
		manifest := `{"description":"Reads \u003ctables\u003e.","name":"pdf","version":"1.0.0"}` + "\n"
		all := `{"description":"All skills of acme inc","name":"everything","version":"` + everything + `"}` + "\n"
		want := map[string]string{".gitattributes": "* -text\n"}
		for plugin, json := range map[string]string{"pdf": manifest, "everything": all} {
			dir := "plugins/" + plugin + "/"
			want[dir+"plugin.json"], want[dir+".claude-plugin/plugin.json"], want[dir+".cursor-plugin/plugin.json"] = json, json, json
			want[dir+"skills/pdf/SKILL.md"], want[dir+"skills/pdf/data.bin"] = text, large
			want[dir+"skills/pdf/scripts/run.sh*"], want[dir+"skills/pdf/run*"] = "echo hi\r\n", "echo hi\r\n"
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
		for _, c := range []struct{ got, want string }{
			{claude, `{"description":"Skills of acme inc","forceRemoveDeletedPlugins":true,"name":"whetstone-acme-inc","owner":{"name":"acme inc"},"plugins":[
{"description":"Reads \u003ctables\u003e.","name":"pdf","source":"./plugins/pdf","version":"1.0.0"},
{"description":"All skills of acme inc","name":"everything","source":"./plugins/everything","version":"` + everything + `"}
]}
`},
			{codex, `{"interface":{"displayName":"acme inc"},"name":"whetstone-acme-inc","plugins":[
{"category":"Skills","name":"pdf","policy":{"authentication":"ON_INSTALL","installation":"AVAILABLE"},"source":{"path":"./plugins/pdf","source":"local"}},
{"category":"Skills","name":"everything","policy":{"authentication":"ON_INSTALL","installation":"AVAILABLE"},"source":{"path":"./plugins/everything","source":"local"}}
]}
`},
			{cursor, `{"metadata":{"description":"Skills of acme inc"},"name":"whetstone-acme-inc","owner":{"name":"acme inc"},"plugins":[
{"description":"Reads \u003ctables\u003e.","name":"pdf","source":"./plugins/pdf"},
{"description":"All skills of acme inc","name":"everything","source":"./plugins/everything"}
]}
`},
		} {
			if diff := cmp.Diff(c.want, c.got); diff != "" {
				t.Errorf("marketplace.json (-want +got):\n%s", diff)
			}
		}

		plugins := func(base string, options ...string) string {
			t.Helper()
			dir := clone(t, w, base, options...)
			if _, err := os.Stat(filepath.Join(dir, "plugins")); err != nil {
				return ""
			}
			return strings.ReplaceAll(mustGit(t, "-C", dir, "ls-tree", "--name-only", "HEAD:plugins"), "\n", " ")
		}
		opened := token(ada)
		for _, version := range []string{"protocol.version=0", "protocol.version=1", "protocol.version=2"} {
			for base, want := range map[string]string{
				"": "everything pdf theirs", org: "everything pdf", org + "/" + opened: "everything mine pdf", "/o/other": "everything theirs", "/o/nobody": "",
			} {
				if got := plugins(base, "-c", version); got != want {
					t.Errorf("%s: %s has the plugins %q, want %q", version, base, got, want)
				}
			}
		}
		if got := plugins(org, "-c", "http.extraHeader=Authorization: Bearer "+opened); got != "everything mine pdf" {
			t.Errorf("with a header %q", got)
		}
		// A version that cannot name a folder is numbered as the zip is.
		mine := files(t, clone(t, w, org+"/"+opened))["plugins/mine/plugin.json"]
		zip := w.Anonymous().Get(org + "/" + opened + "/marketplace.json").List("plugins")[0]["source"].(object)["sha256"].(string)
		if !strings.Contains(mine, `"version":"`+zip[:12]+`"`) {
			t.Errorf("manifest %s", mine)
		}
		for _, base := range []string{org + "/" + opened + "x", "/o/other/" + opened} {
			if out, ok := git(t, "ls-remote", w.Server.URL+base+"/marketplace.git"); ok || !strings.Contains(out, "not found") {
				t.Errorf("%s: %s", base, out)
			}
		}
		refs := mustGit(t, "ls-remote", "--symref", w.Server.URL+org+"/marketplace.git")
		if !strings.HasPrefix(refs, "ref: refs/heads/main\tHEAD\n") || strings.Count(refs, "\n") != 2 {
			t.Errorf("refs %s", refs)
		}
		if out, ok := git(t, "-C", clone(t, w, org), "push", "origin", "HEAD:refs/heads/x"); ok || !strings.Contains(out, "403") {
			t.Errorf("a push: %s", out)
		}
	})
}

// TestHistory follows a catalog through everything that happens to one.
func TestHistory(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for _, version := range []string{"protocol.version=2", "protocol.version=0"} {
			w := newWorld(t, db)
			ada := w.Org("acme "+version[len(version)-1:], access.Pro)
			base := "/o/" + strings.ReplaceAll(ada.Org.Name, " ", "%20")
			url := w.Server.URL + base + "/marketplace.git"
			history(t, w, ada, base, url, version)
		}
	})
}

func history(t *testing.T, w *registrytest.World, ada *registrytest.Client, base, url, version string) {
	t.Helper()
	begin := "Begin the marketplace of " + ada.Org.Name
	dir, empty := clone(t, w, base, "-c", version), clone(t, w, base, "-c", version)
	shallow := filepath.Join(t.TempDir(), "shallow")
	mustGit(t, "-c", version, "clone", "--quiet", "--depth", "1", url, shallow)
	check := func(what, want, skill string) {
		t.Helper()
		apptest.Eventually(t, what, func() bool {
			for _, dir := range []string{dir, shallow} {
				mustGit(t, "-C", dir, "-c", version, "pull", "--quiet", "--ff-only")
				mustGit(t, "-C", dir, "fsck", "--strict", "--full")
			}
			return strings.HasPrefix(subjects(t, dir), want)
		})
		for _, dir := range []string{dir, shallow} {
			if got := files(t, dir)["plugins/pdf/skills/pdf/SKILL.md"]; got != skill {
				t.Errorf("%s: %s has %q, want %q", what, filepath.Base(dir), got, skill)
			}
		}
	}
	text := registrytest.SkillText
	check("nothing", begin, "")
	id := ada.Made("pdf", "1", registrytest.Skill(t, "One."), public)
	check("the first skill", "Add pdf 1; "+begin, text("One."))
	ada.Pushed(id, "2", registrytest.Skill(t, "Two."))
	check("an update", "Change pdf to 2; Add pdf 1; "+begin, text("Two."))
	ada.Do(http.MethodPost, registrytest.EntryPath(id)+"/rollback", object{}).Want(http.StatusOK)
	check("a rollback", "Change pdf to 1; Change pdf to 2; ", text("One."))
	notes := ada.Made("notes", "1", registrytest.Skill(t, "Notes."), public)
	more := ada.Made("more", "1", registrytest.Skill(t, "More."), public)
	check("two at once", "Add more 1; Add notes 1; Change pdf to 1; ", text("One."))
	// Who pulls all of it gets one commit for each change.
	mustGit(t, "-C", empty, "-c", version, "pull", "--quiet", "--ff-only")
	if got, want := subjects(t, empty), "Add more 1; Add notes 1; Change pdf to 1; Change pdf to 2; Add pdf 1; "+begin; got != want {
		t.Errorf("history %s, want %s", got, want)
	}
	if whole := clone(t, w, base, "-c", version); mustGit(t, "-C", whole, "rev-parse", "HEAD") != mustGit(t, "-C", dir, "rev-parse", "HEAD") ||
		subjects(t, whole) != subjects(t, empty) {
		t.Errorf("a clone has %s", subjects(t, whole))
	}

	// What is taken away is in no commit that is served.
	secret := mustGit(t, "-C", dir, "rev-parse", "HEAD")
	blob := mustGit(t, "-C", dir, "rev-parse", "HEAD:plugins/more/skills/more/SKILL.md")
	ada.Do(http.MethodDelete, registrytest.EntryPath(more), nil).Want(http.StatusNoContent)
	check("a deletion", "Remove more; Add more 1; ", text("One."))
	wantGone := func(hash string) {
		t.Helper()
		bare := filepath.Join(t.TempDir(), "bare")
		mustGit(t, "init", "--quiet", "--bare", bare)
		if out, ok := git(t, "-C", bare, "-c", version, "fetch", url, hash); ok || !strings.Contains(out, "not our ref") && !strings.Contains(out, "unadvertised") {
			t.Errorf("%s can be fetched: %s", hash, out)
		}
	}
	wantGone(secret)
	wantGone(blob)
	fresh := clone(t, w, base, "-c", version)
	if subjects(t, fresh) != "Remove more" {
		t.Errorf("a clone has %s", subjects(t, fresh))
	}
	if _, ok := git(t, "-C", fresh, "cat-file", "-e", blob); ok {
		t.Error("a clone has a deleted skill")
	}
	if n := w.Count(`catalog_commit_plugins WHERE name = 'more'`) + w.Count(`catalog_commits WHERE message LIKE '%Add more%'`); n != 0 {
		t.Errorf("%d rows are left of a deleted skill", n)
	}

	ada.Pushed(notes, "2", registrytest.Skill(t, "Bad."))
	check("a bad version", "Change notes to 2; Remove more; ", text("One."))
	bad := mustGit(t, "-C", dir, "rev-parse", "HEAD")
	withdraw(ada, notes, "2")
	check("a withdrawal", "Change notes to 1; Change notes to 2; ", text("One."))
	wantGone(bad)
	// A clone from before it cannot be continued, and says so.
	out, ok := git(t, "-C", fresh, "-c", version, "pull", "--ff-only")
	if ok || version == "protocol.version=2" && !strings.Contains(out, "git fetch --depth 1 && git reset --hard origin/main") {
		t.Errorf("a pull past what was withdrawn: %s", out)
	}
	mustGit(t, "-C", fresh, "-c", version, "fetch", "--quiet", "--depth", "1")
	mustGit(t, "-C", fresh, "reset", "--quiet", "--hard", "origin/main")
	ada.Pushed(notes, "3", registrytest.Skill(t, "Good."))
	check("the next version", "Change notes to 3; Change notes to 1; ", text("One."))
	mustGit(t, "-C", fresh, "-c", version, "pull", "--quiet", "--ff-only")
	later := clone(t, w, base, "-c", version)
	if got := subjects(t, later); got != "Change notes to 3; Change notes to 1" {
		t.Errorf("a clone has %s", got)
	}
	for _, other := range []string{fresh, later} {
		if diff := cmp.Diff(files(t, dir), files(t, other)); diff != "" {
			t.Errorf("two clones differ:\n%s", diff)
		}
	}
}

// TestManyChanges has more than get commits of their own, more commits than are
// served, and documents that are large enough for deltas.
func TestManyChanges(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Pro)
		about := strings.Repeat("Something long about it. ", 20)
		ids := make([]string, 20)
		for i := range ids {
			ids[i] = ada.Made(fmt.Sprintf("skill-%02d", i), "1", registrytest.Skill(t, about, "shared.txt", "the same in all"), public)
		}
		dir := clone(t, w, "/o/acme")
		if got := subjects(t, dir); got != "Change 20 skills; Begin the marketplace of acme" {
			t.Errorf("history %s", got)
		}
		for round := range 3 {
			for _, id := range ids {
				ada.Pushed(id, fmt.Sprint(round+2), registrytest.Skill(t, fmt.Sprint(about, round), "shared.txt", "the same in all"))
			}
			apptest.Eventually(t, "the round", func() bool {
				mustGit(t, "-C", dir, "pull", "--quiet", "--ff-only")
				return strings.Contains(files(t, dir)["plugins/skill-19/plugin.json"], fmt.Sprintf(`"version":"%d"`, round+2))
			})
		}
		mustGit(t, "-C", dir, "fsck", "--strict", "--full")
		history := mustGit(t, "-C", dir, "log", "--format=%H")
		fresh := clone(t, w, "/o/acme")
		if got := mustGit(t, "-C", fresh, "log", "--format=%H"); !strings.HasPrefix(history, got) || strings.Count(got, "\n")+1 != min(50, strings.Count(history, "\n")+1) {
			t.Errorf("a clone has %d commits of %d", strings.Count(got, "\n")+1, strings.Count(history, "\n")+1)
		}
		if diff := cmp.Diff(files(t, dir), files(t, fresh)); diff != "" {
			t.Errorf("two clones differ:\n%s", diff)
		}
		deep := clone(t, w, "/o/acme")
		mustGit(t, "-C", deep, "fetch", "--quiet", "--depth", "2")
		mustGit(t, "-C", deep, "fetch", "--quiet", "--depth", "30")
		mustGit(t, "-C", deep, "fsck", "--strict", "--full")
		if got := strings.Count(mustGit(t, "-C", deep, "log", "--format=%H"), "\n") + 1; got != 30 {
			t.Errorf("a clone of depth 30 has %d commits", got)
		}
	})
}

// TestReplicas asks several for the same change at once.
func TestReplicas(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Pro)
		worlds := []*registrytest.World{w, serve(w.Replica()), serve(w.Replica())}
		var before string
		for round := range 4 {
			ada.Made(fmt.Sprintf("a-%d", round), "1", registrytest.Skill(t, "x"), public)
			ada.Made(fmt.Sprintf("b-%d", round), "1", registrytest.Skill(t, "x"), public)
			calls := make([]func() apptest.Response, 0, 2*len(worlds))
			for _, at := range worlds {
				for range 2 {
					calls = append(calls, func() apptest.Response {
						return at.Anonymous().Get("/o/acme/marketplace.git/info/refs?service=git-upload-pack")
					})
				}
			}
			// One that was slow shows what it has for a while.
			apptest.Eventually(t, "the replicas agree on something new", func() bool {
				answers := registrytest.Together(calls...)
				first := string(answers[0].Want(http.StatusOK).Body)
				agree := !slices.ContainsFunc(answers, func(a apptest.Response) bool { return string(a.Want(http.StatusOK).Body) != first })
				if !agree || first == before {
					return false
				}
				before = first
				return true
			})
		}
		// No replica has written a change again that another one had written.
		if got := w.Count("catalog_commits"); got < 5 || got > 1+2*4 {
			t.Errorf("%d commits", got)
		}
		restarted := serve(w.Replica())
		apptest.Eventually(t, "a replica that was restarted has the same commit", func() bool {
			return mustGit(t, "-C", clone(t, restarted, "/o/acme"), "rev-parse", "HEAD") == mustGit(t, "-C", clone(t, w, "/o/acme"), "rev-parse", "HEAD")
		})
	})
}
