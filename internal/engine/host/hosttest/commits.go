package hosttest

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
)

// serveContents shows a file of a commit. On Gitea it also changes one, on a branch
// of its own.
func (s *server) serveContents(w http.ResponseWriter, r *http.Request, fullName, path string) {
	if r.Method == http.MethodPut {
		s.putContents(w, r, fullName, path)
		return
	}
	ref := r.FormValue("ref")
	blob, ok := s.git(fullName, "rev-parse", "--verify", "--quiet", ref+":"+path)
	if !ok {
		problem(w, http.StatusNotFound, "Not Found")
		return
	}
	content, err := output(s.Repos.Bare(fullName), "cat-file", "blob", blob)
	if err != nil {
		problem(w, http.StatusNotFound, "Not Found")
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"type": "file", "path": path, "sha": blob, "encoding": "base64", "content": base64.StdEncoding.EncodeToString(content),
	})
}

// putContents is Gitea's: it refuses a file that is not as the client thinks, and a
// branch that exists.
func (s *server) putContents(w http.ResponseWriter, r *http.Request, fullName, path string) {
	var in struct {
		Message, Content, SHA, Branch string
		NewBranch                     string `json:"new_branch"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	content, err := base64.StdEncoding.DecodeString(in.Content)
	blob, ok := s.git(fullName, "rev-parse", "--verify", "--quiet", "refs/heads/"+in.Branch+":"+path)
	_, _, exists := s.commit(fullName, "refs/heads/"+in.NewBranch)
	if err != nil || !ok || blob != in.SHA || exists || in.NewBranch == "" {
		problem(w, http.StatusUnprocessableEntity, "sha does not match, or the branch exists")
		return
	}
	base, _, _ := s.commit(fullName, "refs/heads/"+in.Branch)
	tree := s.writeTree(fullName, base, path, string(content))
	sha := s.Repos.Git(fullName, "commit-tree", "-p", base, "-m", in.Message, tree)
	s.Repos.Git(fullName, "update-ref", "refs/heads/"+in.NewBranch, sha)
	writeJSON(w, http.StatusOK, map[string]any{"commit": map[string]any{"sha": sha}, "content": map[string]any{"path": path}})
}

// writeTree writes a tree with another content of one file, by the repository's own
// index.
func (s *server) writeTree(fullName, base, path, content string) string {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	file := filepath.Join(s.tb.TempDir(), "file")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		s.tb.Error(err)
	}
	blob := s.Repos.Git(fullName, "hash-object", "-w", file)
	s.Repos.Git(fullName, "read-tree", base)
	s.Repos.Git(fullName, "update-index", "--add", "--cacheinfo", "100644,"+blob+","+path)
	return s.Repos.Git(fullName, "write-tree")
}

// serveGit is GitHub's API of git's own objects.
func (g *GitHub) serveGit(w http.ResponseWriter, r *http.Request, fullName, arg string) {
	what, name, _ := strings.Cut(arg, "/")
	var in struct {
		BaseTree string `json:"base_tree"`
		Tree     json.RawMessage
		Message  string
		Parents  []string
		Ref, SHA string
	}
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			problem(w, http.StatusUnprocessableEntity, err.Error())
			return
		}
	}
	switch {
	case what == "commits" && r.Method == http.MethodGet:
		tree, ok := g.git(fullName, "rev-parse", "--verify", "--quiet", name+"^{tree}")
		if !ok {
			problem(w, http.StatusNotFound, "Not Found")
			return
		}
		parents := []map[string]any{}
		of, _ := g.git(fullName, "log", "-1", "--format=%P", name)
		for _, sha := range strings.Fields(of) {
			parents = append(parents, map[string]any{"sha": sha})
		}
		writeJSON(w, http.StatusOK, map[string]any{"sha": name, "tree": map[string]any{"sha": tree}, "parents": parents})
	case what == "trees" && r.Method == http.MethodPost:
		var entries []struct{ Path, Mode, Type, Content string }
		if err := json.Unmarshal(in.Tree, &entries); err != nil || len(entries) != 1 || entries[0].Mode != "100644" {
			problem(w, http.StatusUnprocessableEntity, "Validation Failed")
			return
		}
		sha := g.writeTree(fullName, in.BaseTree, entries[0].Path, entries[0].Content)
		writeJSON(w, http.StatusCreated, map[string]any{"sha": sha})
	case what == "commits" && r.Method == http.MethodPost:
		var tree string
		if err := json.Unmarshal(in.Tree, &tree); err != nil || len(in.Parents) != 1 {
			problem(w, http.StatusUnprocessableEntity, "Validation Failed")
			return
		}
		sha := g.Repos.Git(fullName, "commit-tree", "-p", in.Parents[0], "-m", in.Message, tree)
		writeJSON(w, http.StatusCreated, map[string]any{"sha": sha})
	case what == "refs" && r.Method == http.MethodPost:
		if _, exists := g.git(fullName, "rev-parse", "--verify", "--quiet", in.Ref); exists {
			problem(w, http.StatusUnprocessableEntity, "Reference already exists")
			return
		}
		g.Repos.Git(fullName, "update-ref", in.Ref, in.SHA)
		writeJSON(w, http.StatusCreated, map[string]any{"ref": in.Ref, "object": map[string]any{"sha": in.SHA}})
	default:
		problem(w, http.StatusNotFound, "Not Found")
	}
}

// commits tests that a change of one file becomes a branch and a pull request, once.
func commits(t *testing.T, s Subject) {
	work := s.Repos.Create("acme/mono")
	head := work.Push("first", map[string]string{
		"README.md": "read", "skills/one/SKILL.md": Skill("one", "First."), "skills/one/run.sh": "#!/bin/sh\n",
	})
	repo := s.Repo("mono")
	c := host.FileCommit{
		Branch: "whetstone-proposal-1", Onto: "main", Base: head, Path: "skills/one/SKILL.md", Content: Skill("one", "Änderung."),
		Message: "Improve one\n\nBecause.",
	}
	first, err := s.Host.CommitFile(t.Context(), repo, c)
	if err != nil {
		t.Fatal(err)
	}
	c.Content = "not again"
	again, err := s.Host.CommitFile(t.Context(), repo, c)
	if err != nil || again != first {
		t.Errorf("a second time: got %s, %v, want %s", again, err, first)
	}
	got := files(t, s, "mono", first, "skills/one")
	if len(got) != 2 || got["SKILL.md"] != Skill("one", "Änderung.") {
		t.Errorf("the commit has %q", got)
	}
	if changed := s.Repos.Git("acme/mono", "diff", "--name-only", head, c.Branch); changed != "skills/one/SKILL.md" {
		t.Errorf("it changes %q", changed)
	}
	if message := s.Repos.Git("acme/mono", "log", "-1", "--format=%B", c.Branch); message != "Improve one\n\nBecause." {
		t.Errorf("message %q", message)
	}
	if main := s.Repos.Git("acme/mono", "rev-parse", "main"); main != head {
		t.Errorf("main moved to %s", main)
	}
	s.Repos.Git("acme/mono", "fsck", "--strict")
	for _, bad := range []host.FileCommit{
		{Branch: "other", Onto: "main", Base: head, Path: "skills/two/SKILL.md", Content: "x", Message: "x"},
		{Branch: "other", Onto: "main", Base: head, Path: "skills/one/SKILL.md/x", Content: "x", Message: "x"},
	} {
		if _, err := s.Host.CommitFile(t.Context(), repo, bad); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: got %v, want NotFound", bad.Path, err)
		}
	}
	elsewhere := host.Repo{Installation: s.At, FullName: "other/mono"}
	if _, err := s.Host.CommitFile(t.Context(), elsewhere, c); !fault.Is(err, fault.NotFound) {
		t.Errorf("of another account: got %v, want NotFound", err)
	}
	if s.Pulls == nil {
		return
	}
	n := host.NewPull{Branch: c.Branch, Base: "main", Title: "Improve one", Body: strings.Repeat("evidence ", 10_000)}
	opened, err := s.Host.OpenPull(t.Context(), repo, n)
	if err != nil || opened.Head != first || opened.Base != "main" || opened.URL == "" || opened.Number == 0 || opened.Closed || opened.Merged {
		t.Fatalf("opened %+v, %v", opened, err)
	}
	if same, err := s.Host.OpenPull(t.Context(), repo, n); err != nil || same != opened {
		t.Errorf("a second time: got %+v, %v", same, err)
	}
	all := s.Pulls.Pulls()
	if len(all) != 1 || all[0].Title != "Improve one" || len(all[0].Body) > 65_535 {
		t.Fatalf("%d pull requests, want one", len(all))
	}
	all[0].Merge()
	if merged, err := s.Host.Pull(t.Context(), repo, opened.Number); err != nil || !merged.Merged || !merged.Closed {
		t.Errorf("merged: got %+v, %v", merged, err)
	}
	if same, err := s.Host.OpenPull(t.Context(), repo, n); err != nil || same.Number != opened.Number || !same.Merged {
		t.Errorf("a merged one: got %+v, %v", same, err)
	}
	n.Branch = "missing"
	if _, err := s.Host.OpenPull(t.Context(), repo, n); err == nil {
		t.Error("a pull request of a branch that is missing was opened")
	}
}
