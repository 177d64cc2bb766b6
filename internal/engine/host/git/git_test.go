package git_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/git"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
)

var acme = host.Installation{ID: 1, Account: "acme"}

func open(t *testing.T, program string) (*git.Host, *hosttest.Repos) {
	t.Helper()
	repos := hosttest.NewRepos(t)
	h, err := git.New(git.Options{Dir: repos.Dir, Program: program, URL: "http://127.0.0.1:1", Secret: "sesame"})
	if err != nil {
		t.Fatal(err)
	}
	return h, repos
}

func TestConformance(t *testing.T) {
	hosttest.Run(t, func(t *testing.T) hosttest.Subject {
		h, repos := open(t, "/bin/true")
		return hosttest.Subject{Host: h, Repos: repos, At: acme}
	})
}

// TestPackedRepository reads what git has packed and compressed by deltas.
func TestPackedRepository(t *testing.T) {
	h, repos := open(t, "/bin/true")
	w := repos.Create("acme/skill")
	for range 5 {
		w.Commit("more", map[string]string{"SKILL.md": hosttest.Skill("skill", "x"), "a.md": strings.Repeat("line\n", 1000)})
	}
	w.Git("tag", "--annotate", "v1", "--message", "one")
	w.Git("push", "--quiet", "origin", "main", "v1")
	repos.Git("acme/skill", "gc", "--quiet", "--aggressive")
	repos.Git("acme/skill", "pack-refs", "--all")
	r := host.Repo{Installation: acme, FullName: "acme/skill"}
	commit, err := h.Resolve(t.Context(), r, "refs/tags/v1")
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := h.Tree(t.Context(), r, commit.SHA, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer pkg.Close()
	if len(pkg.Files) != 2 {
		t.Errorf("got %d files, want 2", len(pkg.Files))
	}
}

func TestLinksOutOfTheFolder(t *testing.T) {
	h, repos := open(t, "/bin/true")
	elsewhere := hosttest.NewRepos(t)
	elsewhere.Create("acme/secret").Push("first", map[string]string{"SKILL.md": hosttest.Skill("secret", "x")})
	repos.Create("acme/mine")
	if err := os.Symlink(elsewhere.Bare("acme/secret"), repos.Bare("acme/link")); err != nil {
		t.Fatal(err)
	}
	// A link inside would give an account the repositories of another.
	repos.Create("other/hidden").Push("first", map[string]string{"SKILL.md": hosttest.Skill("hidden", "x")})
	if err := os.Symlink(repos.Bare("other/hidden"), repos.Bare("acme/inside")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("other", filepath.Join(repos.Dir, "alias")); err != nil {
		t.Fatal(err)
	}
	alias := host.Installation{ID: 2, Account: "alias"}
	for _, r := range []host.Repo{
		{Installation: acme, FullName: "acme/link"}, {Installation: acme, FullName: "acme/inside"}, {Installation: alias, FullName: "alias/hidden"},
	} {
		if _, err := h.Refs(t.Context(), r); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: got %v, want NotFound", r.FullName, err)
		}
	}
	if all, err := h.Repositories(t.Context(), alias); err != nil || len(all) != 0 {
		t.Errorf("through a link: got %d repositories, %v, want none", len(all), err)
	}
	all, err := h.Repositories(t.Context(), acme)
	if err != nil || len(all) != 1 {
		t.Errorf("got %d repositories, %v, want one", len(all), err)
	}
}

func TestInit(t *testing.T) {
	h, repos := open(t, "/bin/true")
	path, err := git.Init(repos.Dir, "acme/made")
	if err != nil || path != repos.Bare("acme/made") {
		t.Fatalf("got %s, %v", path, err)
	}
	sha := repos.Clone("acme/made").Push("first", map[string]string{"SKILL.md": hosttest.Skill("made", "x")})
	got, err := h.Resolve(t.Context(), host.Repo{Installation: acme, FullName: "acme/made"}, "main")
	if err != nil || got.SHA != sha {
		t.Errorf("got %s, %v, want %s", got.SHA, err, sha)
	}
	if _, err := git.Init(repos.Dir, "acme/made"); !fault.Is(err, fault.Conflict) {
		t.Errorf("again: got %v, want Conflict", err)
	}
	for _, name := range []string{"../x/y", "x", "x/..", "-x/y"} {
		if _, err := git.Init(repos.Dir, name); !fault.Is(err, fault.Malformed) {
			t.Errorf("%s: got %v, want Malformed", name, err)
		}
	}
}

// recorder is a program that writes down what the hook gives it.
func recorder(t *testing.T) (program, record string) {
	t.Helper()
	dir := t.TempDir()
	program, record = filepath.Join(dir, "it's whetstone"), filepath.Join(dir, "record")
	text := "#!/bin/sh\necho \"$@\" >> '" + record + "'\ncat >> '" + record + "'\nexit 1\n"
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil { // it must run
		t.Fatal(err)
	}
	return program, record
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestHook(t *testing.T) {
	program, record := recorder(t)
	h, repos := open(t, program)
	w := repos.Create("acme/skill")
	r := host.Repo{Installation: acme, FullName: "acme/skill"}
	own := filepath.Join(repos.Bare("acme/skill"), "hooks", "post-receive")
	if err := os.WriteFile(own, []byte("#!/bin/sh\necho own >> '"+record+"'\ncat >> '"+record+"'\n"), 0o700); err != nil { // it must run
		t.Fatal(err)
	}
	for range 2 {
		if err := h.Prepare(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if hook := read(t, own); strings.Contains(hook, "sesame") {
		t.Error("the hook holds the secret")
	}
	sha := w.Push("first", map[string]string{"SKILL.md": hosttest.Skill("skill", "x")})
	line := strings.Repeat("0", 40) + " " + sha + " refs/heads/main\n"
	want := "own\n" + line + "repohost hook " + git.HookConfigPath(repos.Dir) + "\n" + line
	if got := read(t, record); got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	push, err := git.HookPush(git.HookConfigPath(repos.Dir), repos.Bare("acme/skill"), line)
	if err != nil || push.Repository.FullName != "acme/skill" || len(push.Refs) != 1 || push.Refs[0].After != sha {
		t.Errorf("got %+v, %v", push, err)
	}
	if _, err := git.HookPush(git.HookConfigPath(repos.Dir), repos.Dir, line); err == nil {
		t.Error("a hook outside a repository: got no error")
	}

	if err := os.WriteFile(own, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Prepare(t.Context(), r); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second hook of the user: got %v, want Conflict", err)
	}
}

// TestFoldersThatRepeat reads a commit of 21 small objects that expands to
// more folders than can be walked, and one whose reader has left.
func TestFoldersThatRepeat(t *testing.T) {
	h, repos := open(t, "/bin/true")
	sha := repos.Create("acme/skill").PushFolders(20, 12)
	r := host.Repo{Installation: acme, FullName: "acme/skill"}
	if _, err := h.Tree(t.Context(), r, sha, "."); !fault.Is(err, fault.TooLarge) {
		t.Errorf("got %v, want TooLarge", err) // 12^20 folders would never be walked
	}
	deep := repos.Create("acme/deep").PushFolders(66, 1)
	if _, err := h.Tree(t.Context(), host.Repo{Installation: acme, FullName: "acme/deep"}, deep, "."); !fault.Is(err, fault.TooLarge) {
		t.Errorf("66 folders in each other: got %v, want TooLarge", err)
	}
	wide := repos.Create("acme/wide").PushFolders(1, 300_000) // 9 MiB in one object
	if _, err := h.Tree(t.Context(), host.Repo{Installation: acme, FullName: "acme/wide"}, wide, "."); !fault.Is(err, fault.NotFound) {
		t.Errorf("a folder of 9 MiB: got %v, want NotFound", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Tree(ctx, r, sha, "."); !errors.Is(err, context.Canceled) {
		t.Errorf("without a reader: got %v", err)
	}
	if _, err := h.Repositories(ctx, acme); !errors.Is(err, context.Canceled) {
		t.Errorf("a list without a reader: got %v", err)
	}
}

func TestHookConfig(t *testing.T) {
	_, repos := open(t, "/bin/true")
	path := git.HookConfigPath(repos.Dir)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want mode 0600", info.Mode(), err)
	}
	if c, err := git.ReadHookConfig(path); err != nil || c.Secret != "sesame" || c.URL != "http://127.0.0.1:1" {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, err := git.ReadHookConfig(path + "x"); !fault.Is(err, fault.NotFound) {
		t.Errorf("missing: got %v, want NotFound", err)
	}
}
