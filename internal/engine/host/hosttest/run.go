package hosttest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
)

// A Subject is a host to be tested, with its repositories.
type Subject struct {
	Host  host.Host
	Repos *Repos
	At    host.Installation // of the account acme
	Pulls Pulls             // nil on a host without pull requests
	// Reviews is in the path of a pull request's reviews, "/reviews" when empty.
	Reviews string
}

// Pulls lets a test act as the people of a code host.
type Pulls interface {
	OpenPull(base, from, branch string) *OpenedPull
	Pulls() []*OpenedPull
	Comment(fullName string, number int, login, body string)
	DeleteComments()
	Comments() []PostedComment
	Rename(from, to string)
	AddAccount(id int64, login, email string)
	Break(faults ...Fault)
}

// Run tests the contract of host.Host.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	t.Run("repositories", func(t *testing.T) { repositories(t, open(t)) })
	t.Run("resolve", func(t *testing.T) { resolve(t, open(t)) })
	t.Run("refs", func(t *testing.T) { refs(t, open(t)) })
	t.Run("tree", func(t *testing.T) { tree(t, open(t)) })
	t.Run("file", func(t *testing.T) { file(t, open(t)) })
	t.Run("refused trees", func(t *testing.T) { refusedTrees(t, open(t)) })
	t.Run("foreign repositories", func(t *testing.T) { foreign(t, open(t)) })
	t.Run("pull requests", func(t *testing.T) { pulls(t, open(t)) })
	t.Run("reviews", func(t *testing.T) { reviews(t, open(t)) })
	t.Run("commits", func(t *testing.T) { commits(t, open(t)) })
	t.Run("prepare", func(t *testing.T) { prepare(t, open(t)) })
}

// Repo names one of the subject's repositories.
func (s Subject) Repo(name string) host.Repo {
	return host.Repo{Installation: s.At, FullName: s.At.Account + "/" + name}
}

func file(t *testing.T, s Subject) {
	work := s.Repos.Create("acme/owned")
	head := work.Push("first", map[string]string{".github/CODEOWNERS": "* @acme/docs\n", "README.md": "read", "docs/x/y.md": "y"})
	work.Push("second", map[string]string{".github/CODEOWNERS": "* @acme/other\n"})
	repo := s.Repo("owned")
	got, err := s.Host.File(t.Context(), repo, head, ".github/CODEOWNERS", 100)
	if err != nil || string(got) != "* @acme/docs\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := s.Host.File(t.Context(), repo, head, "README.md", 4); err != nil || string(got) != "read" {
		t.Errorf("a file of the limit's size: got %q, %v", got, err)
	}
	if _, err := s.Host.File(t.Context(), repo, head, ".github/CODEOWNERS", 5); !fault.Is(err, fault.TooLarge) {
		t.Errorf("a larger file: got %v, want TooLarge", err)
	}
	for _, path := range []string{"CODEOWNERS", "docs/CODEOWNERS", "none/CODEOWNERS", "docs/x", "README.md/x"} {
		if _, err := s.Host.File(t.Context(), repo, head, path, 100); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: got %v, want NotFound", path, err)
		}
	}
	elsewhere := host.Repo{Installation: s.At, FullName: "other/owned"}
	if _, err := s.Host.File(t.Context(), elsewhere, head, "README.md", 100); !fault.Is(err, fault.NotFound) {
		t.Errorf("of another account: got %v, want NotFound", err)
	}
}

func repositories(t *testing.T, s Subject) {
	s.Repos.Create("acme/zebra").Push("first", map[string]string{"SKILL.md": Skill("zebra", "Stripes.")})
	s.Repos.Create("acme/empty")
	s.Repos.Create("other/hidden").Push("first", map[string]string{"SKILL.md": Skill("hidden", "No.")})
	all, err := s.Host.Repositories(t.Context(), s.At)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range all {
		names = append(names, r.FullName)
		if r.Owner != "acme" || r.Name == "" || r.ID <= 0 || r.Visibility == "" || r.DefaultBranch != "main" {
			t.Errorf("got %+v, want owner, name, id, visibility and the branch main", r)
		}
	}
	if diff := cmp.Diff([]string{"acme/empty", "acme/zebra"}, names); diff != "" {
		t.Errorf("repositories (- want, + got):\n%s", diff)
	}
	one, err := s.Host.Repository(t.Context(), s.Repo("zebra"))
	if err != nil {
		t.Fatal(err)
	}
	if one.PushedAt == nil || time.Since(*one.PushedAt) > time.Hour {
		t.Errorf("pushed at %v, want now", one.PushedAt)
	}
	isPushedAt := func(p cmp.Path) bool { return p.Last().String() == ".PushedAt" }
	if diff := cmp.Diff(all[1], one, cmp.FilterPath(isPushedAt, cmp.Ignore())); diff != "" {
		t.Errorf("one repository and the list differ:\n%s", diff)
	}
	if _, err := s.Host.Repository(t.Context(), s.Repo("missing")); !fault.Is(err, fault.NotFound) {
		t.Errorf("a missing one: got %v, want NotFound", err)
	}
}

func resolve(t *testing.T, s Subject) {
	w := s.Repos.Create("acme/skill")
	if _, err := s.Host.Resolve(t.Context(), s.Repo("skill"), "refs/heads/main"); !fault.Is(err, fault.NotFound) {
		t.Errorf("an empty repository: got %v, want NotFound", err)
	}
	first := w.Push("first\n\nbecause", map[string]string{"SKILL.md": Skill("skill", "One.")})
	w.Git("tag", "light")
	w.Git("tag", "--annotate", "heavy", "--message", "a release")
	w.Git("checkout", "--quiet", "-b", "topic/a")
	second := w.Push("second", map[string]string{"a": "1"})
	w.Git("push", "--quiet", "--tags")
	for ref, want := range map[string]string{
		"refs/heads/main": first, "main": first, "refs/tags/light": first, "refs/tags/heavy": first, "heavy": first,
		"refs/heads/topic/a": second, second: second,
	} {
		got, err := s.Host.Resolve(t.Context(), s.Repo("skill"), ref)
		if err != nil || got.SHA != want {
			t.Errorf("%s: got %s, %v, want %s", ref, got.SHA, err, want)
		}
	}
	if got, err := s.Host.Resolve(t.Context(), s.Repo("skill"), "main"); err != nil ||
		!strings.HasPrefix(got.Message, "first\n\nbecause") {
		t.Errorf("message: got %q, %v", got.Message, err)
	}
	for _, ref := range []string{"refs/heads/none", "refs/tags/none", "none", strings.Repeat("1", 40), "refs/heads/light"} {
		if _, err := s.Host.Resolve(t.Context(), s.Repo("skill"), ref); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: got %v, want NotFound", ref, err)
		}
	}
}

func refs(t *testing.T, s Subject) {
	w := s.Repos.Create("acme/skill")
	first := w.Push("first", map[string]string{"SKILL.md": Skill("skill", "One.")})
	want := host.Refs{Heads: map[string]string{"main": first}, Tags: map[string]string{}}
	push := []string{"push", "--quiet", "origin"}
	for i := range 120 { // more than one page of every host
		name := fmt.Sprintf("v1.0.%d", i)
		push = append(push, "main:refs/tags/"+name)
		want.Tags[name] = first
	}
	w.Git(push...)
	w.Git("tag", "--annotate", "pkg@1.0.0", "--message", "a release")
	want.Tags["pkg@1.0.0"] = first
	w.Git("push", "--quiet", "--tags")
	got, err := s.Host.Refs(t.Context(), s.Repo("skill"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refs (- want, + got):\n%s", diff)
	}
}

func tree(t *testing.T, s Subject) {
	w := s.Repos.Create("acme/mono")
	sha := w.Push("first", map[string]string{
		"README.md": "read", "skills/one/SKILL.md": Skill("one", "First."), "skills/one/scripts/run.sh": "#!/bin/sh\n",
		"skills/one/again.md": "-> SKILL.md", "skills/one/.skillignore": "drafts/\n", "skills/one/drafts/x.md": "no",
		"skills/one/.env": "SECRET=1", "skills/oneself/SKILL.md": Skill("oneself", "Other."),
	})
	got := files(t, s, "mono", sha, "skills/one")
	want := []string{".skillignore", "SKILL.md", "again.md", "scripts/run.sh"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("files below skills/one (- want, + got):\n%s", diff)
	}
	if got["SKILL.md"] != Skill("one", "First.") || got["again.md"] != got["SKILL.md"] {
		t.Errorf("SKILL.md is %q, the link's content %q", got["SKILL.md"], got["again.md"])
	}
	if all := files(t, s, "mono", sha, "."); all["README.md"] != "read" || all["skills/oneself/SKILL.md"] == "" {
		t.Errorf("files of the root: got %v", slices.Sorted(maps.Keys(all)))
	}
	if _, err := s.Host.Tree(t.Context(), s.Repo("mono"), sha, "skills/none"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a missing folder: got %v, want NotFound", err)
	}
	if _, err := s.Host.Tree(t.Context(), s.Repo("mono"), strings.Repeat("1", 40), "."); !fault.Is(err, fault.NotFound) {
		t.Errorf("a missing commit: got %v, want NotFound", err)
	}
}

// files reads a tree.
func files(t *testing.T, s Subject, name, commit, folder string) map[string]string {
	t.Helper()
	pkg, err := s.Host.Tree(t.Context(), s.Repo(name), commit, folder)
	if err != nil {
		t.Fatal(err)
	}
	defer pkg.Close()
	got := map[string]string{}
	for _, f := range pkg.Installed() {
		raw, err := pkg.ReadFile(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		got[f.Path] = string(raw)
	}
	return got
}

func refusedTrees(t *testing.T, s Subject) {
	w := s.Repos.Create("acme/bad")
	pointer := "version https://git-lfs.github.com/spec/v1\n" +
		"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
	w.Commit("first", map[string]string{
		".gitmodules": "[submodule \"sub\"]\n\tpath = module/sub\n\turl = ../other\n", "module/SKILL.md": Skill("module", "x"),
		"lfs/SKILL.md": Skill("lfs", "x"), "lfs/model.bin": pointer,
		"lfs-left-out/SKILL.md": Skill("lfs", "x"), "lfs-left-out/model.bin": pointer, "lfs-left-out/.skillignore": "*.bin\n",
		"link/SKILL.md": Skill("link", "x"), "link/out.md": "-> ../lfs/SKILL.md",
		"large/SKILL.md": Skill("large", "x"), "large/data.txt": strings.Repeat("many bytes of text\n", 600_000),
		"deep/below/SKILL.md": Skill("below", "x"),
	})
	w.Git("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("a", 40)+",module/sub")
	w.Git("commit", "--quiet", "--message", "a submodule")
	w.Git("push", "--quiet", "origin", "main")
	sha := w.Git("rev-parse", "HEAD")
	for folder, want := range map[string]string{
		"module": "submodule", "lfs": "Git LFS pointer", "link": "link", "large": "larger than 10 MiB", "deep": "only in the folder",
	} {
		pkg, err := s.Host.Tree(t.Context(), s.Repo("bad"), sha, folder)
		if err == nil {
			_ = pkg.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !fault.Is(err, fault.Malformed) && !fault.Is(err, fault.TooLarge) {
			t.Errorf("%s: got %v, want a refusal that says %q", folder, err, want)
		}
	}
	if got := files(t, s, "bad", sha, "lfs-left-out"); len(got) != 2 {
		t.Errorf("a pointer that is left out: got %d files, want 2", len(got))
	}
}

func foreign(t *testing.T, s Subject) {
	w := s.Repos.Create("other/hidden")
	sha := w.Push("first", map[string]string{"SKILL.md": Skill("hidden", "No.")})
	for _, fullName := range []string{
		"other/hidden", "acme/../other/hidden", "acme/..", "../other/hidden", "hidden", "", "acme/a/b", "acme/-x",
	} {
		r := host.Repo{Installation: s.At, FullName: fullName}
		_, err1 := s.Host.Repository(t.Context(), r)
		_, err2 := s.Host.Resolve(t.Context(), r, "refs/heads/main")
		_, err3 := s.Host.Refs(t.Context(), r)
		pkg, err4 := s.Host.Tree(t.Context(), r, sha, ".")
		if pkg != nil {
			_ = pkg.Close()
		}
		for i, err := range []error{err1, err2, err3, err4} {
			if !fault.Is(err, fault.NotFound) {
				t.Errorf("%q, call %d: got %v, want NotFound", fullName, i+1, err)
			}
		}
	}
}

func prepare(t *testing.T, s Subject) {
	s.Repos.Create("acme/skill")
	for range 2 {
		if err := s.Host.Prepare(t.Context(), s.Repo("skill")); err != nil {
			t.Fatal(err)
		}
	}
}
