package hosttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
)

// An OpenedPull is a pull request of a repository.
type OpenedPull struct {
	server *server
	Base   string // full name of the repository
	From   string // full name of the head's repository
	Branch string // of the head
	Number int64

	// Into, Draft and Closed are guarded by the server's lock; tests set them before
	// they deliver an event, or with Set.
	Into          string
	Draft, Closed bool
	Merged        bool
	Title, Body   string
	CreatedAt     time.Time
	Author        int64 // the account that opened it

	mergeCommit, mergeBase string // once it is merged
	squashed               bool
	reviews                []PostedReview
}

// OpenPull opens a pull request of a branch of a repository, which may be a fork.
func (s *server) OpenPull(base, from, branch string) *OpenedPull {
	s.tb.Helper()
	s.mu.Lock()
	p := &OpenedPull{
		server: s, Base: base, From: from, Branch: branch, Number: int64(len(s.pulls) + 1), Into: "main", Title: "Change " + branch,
		CreatedAt: time.Now(),
	}
	s.pulls = append(s.pulls, p)
	s.mu.Unlock()
	p.Update()
	return p
}

// Update takes the head of the branch into the base repository, as code hosts do
// when it is pushed. It returns the head.
func (p *OpenedPull) Update() (sha string) {
	p.server.tb.Helper()
	ref := p.ref()
	p.server.Repos.Git(p.Base, "fetch", "--quiet", p.server.Repos.Bare(p.From), "+refs/heads/"+p.Branch+":"+ref)
	return p.server.Repos.Git(p.Base, "rev-parse", ref)
}

// Set changes the pull request.
func (p *OpenedPull) Set(change func(*OpenedPull)) {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	change(p)
}

// Event is the delivery of something that happened to the pull request. The head
// that it names may be an old one: deliveries overtake each other.
func (p *OpenedPull) Event(action string, installation int64) string {
	body, err := json.Marshal(map[string]any{
		"action": action, "number": p.Number,
		"pull_request": map[string]any{"number": p.Number, "head": map[string]any{"sha": strings.Repeat("0", 40)}},
		"repository":   map[string]any{"id": p.server.ID(p.Base), "full_name": p.Base, "default_branch": "main"},
		"installation": map[string]any{"id": installation},
	})
	if err != nil {
		p.server.tb.Fatal(err)
	}
	return string(body)
}

// Pulls returns the pull requests so far.
func (s *server) Pulls() []*OpenedPull {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pulls)
}

// Merge merges the pull request as a person would, with a commit of both parents.
func (p *OpenedPull) Merge() (sha string) {
	p.server.tb.Helper()
	return p.merge(p.server.Repos.Git(p.Base, "merge-tree", "--write-tree", "refs/heads/"+p.Into, p.ref()), "-p", "refs/heads/"+p.Into, "-p", p.ref())
}

// Squash merges the pull request with a commit of one parent.
func (p *OpenedPull) Squash() (sha string) {
	p.server.tb.Helper()
	p.Set(func(p *OpenedPull) { p.squashed = true })
	return p.merge(p.server.Repos.Git(p.Base, "merge-tree", "--write-tree", "refs/heads/"+p.Into, p.ref()), "-p", "refs/heads/"+p.Into)
}

// FastForward merges the pull request by moving the branch on to its head.
func (p *OpenedPull) FastForward() {
	p.server.tb.Helper()
	into := "refs/heads/" + p.Into
	head, base := p.server.Repos.Git(p.Base, "rev-parse", p.ref()), p.server.Repos.Git(p.Base, "merge-base", into, p.ref())
	p.server.Repos.Git(p.Base, "update-ref", into, head)
	p.Set(func(p *OpenedPull) { p.Closed, p.Merged, p.mergeCommit, p.mergeBase = true, true, head, base })
}

// MergeAs merges the pull request with the files of another commit, as one who resolves
// conflicts may.
func (p *OpenedPull) MergeAs(commit string) (sha string) {
	p.server.tb.Helper()
	return p.merge(p.server.Repos.Git(p.Base, "rev-parse", commit+"^{tree}"), "-p", "refs/heads/"+p.Into, "-p", p.ref())
}

func (p *OpenedPull) ref() string { return p.server.head(p.Number) }

func (p *OpenedPull) merge(tree string, parents ...string) (sha string) {
	p.server.tb.Helper()
	git := func(args ...string) string { return p.server.Repos.Git(p.Base, args...) }
	into := "refs/heads/" + p.Into
	base := git("merge-base", into, p.ref())
	sha = git(append([]string{"commit-tree", "-m", "Merge " + p.Branch}, append(parents, tree)...)...)
	git("update-ref", into, sha)
	p.Set(func(p *OpenedPull) { p.Closed, p.Merged, p.mergeCommit, p.mergeBase = true, true, sha, base })
	return sha
}

// takePull opens a pull request of a branch of the repository itself.
func (s *server) takePull(w http.ResponseWriter, r *http.Request, fullName string, exists int) {
	var in struct{ Title, Body, Head, Base string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Title == "" || in.Base == "" {
		problem(w, http.StatusUnprocessableEntity, "Validation Failed")
		return
	}
	_, _, headOK := s.commit(fullName, "refs/heads/"+in.Head)
	if _, _, ok := s.commit(fullName, "refs/heads/"+in.Base); !ok || !headOK {
		problem(w, http.StatusUnprocessableEntity, "Validation Failed")
		return
	}
	for _, p := range s.Pulls() {
		if p.Base == fullName && p.Branch == in.Head && !p.Closed {
			problem(w, exists, "A pull request already exists")
			return
		}
	}
	p := s.OpenPull(fullName, fullName, in.Head)
	p.Set(func(p *OpenedPull) { p.Into, p.Title, p.Body = in.Base, in.Title, in.Body })
	writeJSON(w, http.StatusCreated, s.show(p))
}

// listPulls shows a page of the pull requests, newest first. GitHub selects by the
// branch, as OWNER:BRANCH.
func (s *server) listPulls(w http.ResponseWriter, r *http.Request, fullName, sizeName string, most int) {
	owner, _, _ := strings.Cut(fullName, "/")
	head, state := r.FormValue("head"), r.FormValue("state")
	out := []map[string]any{}
	for _, p := range slices.Backward(s.Pulls()) {
		if p.Base != fullName || head != "" && head != owner+":"+p.Branch || state != "all" && p.Closed != (state == "closed") {
			continue
		}
		out = append(out, s.show(p))
	}
	writeJSON(w, http.StatusOK, page(w, r, out, sizeName, most))
}

// servePulls lists or opens pull requests, shows one, or a page of the files that it
// changes. exists is the status for a branch that has one.
func (s *server) servePulls(w http.ResponseWriter, r *http.Request, fullName, arg, sizeName string, most, exists int) {
	switch {
	case arg == "" && r.Method == http.MethodPost:
		s.takePull(w, r, fullName, exists)
		return
	case arg == "":
		s.listPulls(w, r, fullName, sizeName, most)
		return
	}
	number, what, _ := strings.Cut(arg, "/")
	s.mu.Lock()
	i := slices.IndexFunc(s.pulls, func(p *OpenedPull) bool { return p.Base == fullName && fmt.Sprint(p.Number) == number })
	if i < 0 {
		s.mu.Unlock()
		problem(w, http.StatusNotFound, "Not Found")
		return
	}
	p := s.pulls[i]
	into := p.Into
	s.mu.Unlock()
	switch what {
	case "reviews":
		s.serveReviews(w, r, p, sizeName, most)
		return
	case "commits":
		s.servePullCommits(w, r, p, sizeName, most)
		return
	}
	if what == "files" {
		out, _ := s.git(fullName, "diff", "--name-only", "--no-renames", "refs/heads/"+into+"..."+p.ref())
		files := []map[string]any{}
		for _, path := range page(w, r, strings.Fields(out), sizeName, most) {
			files = append(files, map[string]any{"filename": path, "status": "modified"})
		}
		writeJSON(w, http.StatusOK, files)
		return
	}
	writeJSON(w, http.StatusOK, s.show(p))
}

// show is a pull request as both code hosts answer it.
func (s *server) show(of *OpenedPull) map[string]any {
	s.mu.Lock()
	p := *of
	s.mu.Unlock()
	head, _ := s.git(p.Base, "rev-parse", p.ref())
	state := "open"
	if p.Closed {
		state = "closed"
	}
	side := func(repo, branch, sha string) map[string]any {
		return map[string]any{
			"ref": branch, "sha": sha, "repo_id": s.ID(repo), "repo": map[string]any{"id": s.ID(repo), "full_name": repo},
		}
	}
	return map[string]any{
		"number": p.Number, "title": p.Title, "body": p.Body, "state": state, "draft": p.Draft, "merged": p.Merged,
		"created_at": p.CreatedAt.UTC(),
		"html_url":   fmt.Sprintf("https://code.example/%s/pull/%d", p.Base, p.Number),
		"head":       side(p.From, p.Branch, head), "base": side(p.Base, p.Into, ""),
		"user": s.account(p.Author), "merge_commit_sha": orNull(p.mergeCommit), "merge_base": p.mergeBase, "merged_at": mergedAt(p),
	}
}

// A PostedComment is a comment on a pull request or an issue.
type PostedComment struct {
	ID       int64          `json:"id"`
	FullName string         `json:"-"`
	Number   int            `json:"-"`
	Body     string         `json:"body"`
	User     map[string]any `json:"user"`
	Edits    int            `json:"-"`
}

// Comments are those of all pull requests.
func (s *server) Comments() []PostedComment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.comments)
}

// Comment lets a person write a comment.
func (s *server) Comment(fullName string, number int, login, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.comments = append(s.comments, PostedComment{
		ID: int64(len(s.comments) + 1), FullName: fullName, Number: number, Body: body,
		User: map[string]any{"login": login, "type": "User"},
	})
}

// DeleteComments lets a person delete all comments.
func (s *server) DeleteComments() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.comments {
		s.comments[i].FullName = "" // ids are not used again
	}
}

// isComment reports whether a path is that of comments.
func isComment(rest string) bool {
	return strings.HasPrefix(rest, "issues/comments/") || strings.HasPrefix(rest, "issues/") && strings.HasSuffix(rest, "/comments")
}

// serveComments lists the comments of a pull request, creates one or changes one.
// Both code hosts have the same paths: issues/NUMBER/comments and
// issues/comments/ID.
func (s *server) serveComments(w http.ResponseWriter, r *http.Request, fullName, arg string, user map[string]any, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, edit := strings.CutPrefix(arg, "comments/")
	number, _ := strconv.Atoi(strings.TrimSuffix(arg, "/comments"))
	if r.Method == http.MethodGet {
		of := slices.DeleteFunc(slices.Clone(s.comments), func(c PostedComment) bool { return c.FullName != fullName || c.Number != number })
		writeJSON(w, http.StatusOK, append([]PostedComment{}, page(w, r, of, "per_page", most)...))
		return
	}
	status, i := http.StatusOK, slices.IndexFunc(s.comments, func(c PostedComment) bool {
		return edit && c.FullName == fullName && fmt.Sprint(c.ID) == id
	})
	if r.Method == http.MethodPost && !edit {
		s.comments = append(s.comments, PostedComment{ID: int64(len(s.comments) + 1), FullName: fullName, Number: number, User: user, Edits: -1})
		status, i = http.StatusCreated, len(s.comments)-1
	}
	if i < 0 {
		problem(w, http.StatusNotFound, "Not Found")
		return
	}
	c := &s.comments[i]
	if err := json.NewDecoder(r.Body).Decode(&struct {
		Body *string `json:"body"`
	}{&c.Body}); err != nil || c.Body == "" {
		problem(w, http.StatusUnprocessableEntity, "Validation Failed")
		return
	}
	c.Edits++
	writeJSON(w, status, c)
}

// pulls tests what a host does with pull requests.
func pulls(t *testing.T, s Subject) {
	work := s.Repos.Create("acme/skill")
	work.Push("first", map[string]string{"SKILL.md": Skill("skill", "One."), "other/file": "1"})
	repo := s.Repo("skill")
	if s.Pulls == nil {
		_, err1 := s.Host.Pull(t.Context(), repo, 1)
		_, _, err2 := s.Host.PullFiles(t.Context(), repo, 1)
		err3 := s.Host.SetComment(t.Context(), repo, &host.Comment{Pull: 1, Marker: "m", Body: "m"})
		_, _, errList := s.Host.OpenPulls(t.Context(), repo)
		for _, err := range []error{err1, err2, err3, errList} {
			if !errors.Is(err, host.ErrUnsupported) {
				t.Errorf("got %v, want ErrUnsupported", err)
			}
		}
		return
	}
	work.Git("checkout", "--quiet", "-b", "topic")
	head := work.Push("second", map[string]string{"SKILL.md": Skill("skill", "Two.")})
	own := s.Pulls.OpenPull("acme/skill", "acme/skill", "topic")
	s.Repos.Git("acme/skill", "clone", "--quiet", "--bare", s.Repos.Bare("acme/skill"), s.Repos.Bare("other/skill"))
	fork := s.Repos.Clone("other/skill")
	fork.Git("checkout", "--quiet", "-b", "change")
	files := map[string]string{}
	for i := range 120 { // more than one page of every host
		files[fmt.Sprintf("many/%03d", i)] = "x"
	}
	foreign := fork.Push("many files", files)
	theirs := s.Pulls.OpenPull("acme/skill", "other/skill", "change")
	theirs.Set(func(p *OpenedPull) { p.Draft, p.Into = true, "main" })

	got, err := s.Host.Pull(t.Context(), repo, own.Number)
	want := host.Pull{Number: own.Number, Title: got.Title, URL: got.URL, Head: head, Base: "main", CreatedAt: got.CreatedAt}
	if err != nil || got != want || got.Title == "" || got.URL == "" || got.CreatedAt.IsZero() {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	got, err = s.Host.Pull(t.Context(), repo, theirs.Number)
	want = host.Pull{Number: theirs.Number, Title: got.Title, URL: got.URL, Head: foreign, Base: "main", Fork: true, Draft: true, CreatedAt: got.CreatedAt}
	if err != nil || got != want {
		t.Errorf("of a fork: got %+v, %v, want %+v", got, err, want)
	}
	if _, err := s.Host.Resolve(t.Context(), repo, foreign); err != nil {
		t.Errorf("the head of a fork must be found in the repository: %v", err)
	}
	paths, complete, err := s.Host.PullFiles(t.Context(), repo, own.Number)
	if err != nil || !complete || !slices.Equal(paths, []string{"SKILL.md"}) {
		t.Errorf("files: got %v, complete %t, %v", paths, complete, err)
	}
	if paths, _, err = s.Host.PullFiles(t.Context(), repo, theirs.Number); err != nil || len(paths) != 120 {
		t.Errorf("many files: got %d, %v", len(paths), err)
	}
	open, complete, err := s.Host.OpenPulls(t.Context(), repo)
	if err != nil || !complete || len(open) != 2 || open[0] != want || open[1].Number != own.Number || open[1].Head != head {
		t.Errorf("open: got %+v, complete %t, %v", open, complete, err)
	}
	own.Set(func(p *OpenedPull) { p.Closed = true })
	if got, err = s.Host.Pull(t.Context(), repo, own.Number); err != nil || !got.Closed {
		t.Errorf("closed: got %+v, %v", got, err)
	}
	if _, err := s.Host.Pull(t.Context(), repo, 99); !fault.Is(err, fault.NotFound) {
		t.Errorf("a missing one: got %v, want NotFound", err)
	}
	if open, _, err = s.Host.OpenPulls(t.Context(), repo); err != nil || len(open) != 1 || open[0] != want {
		t.Errorf("one is closed: got %+v, %v", open, err)
	}
	comments(t, s, repo)
	// Renamed, and asked for by the old name.
	s.Pulls.Rename("acme/skill", "acme/renamed")
	if got, err = s.Host.Pull(t.Context(), repo, theirs.Number); err != nil || got.Head != foreign || !got.Fork {
		t.Errorf("renamed: got %+v, %v", got, err)
	}
	c := host.Comment{Pull: 1, Marker: "<!-- n -->", Body: "<!-- n -->\nx"}
	if err := s.Host.SetComment(t.Context(), repo, &c); err != nil || c.ID == 0 {
		t.Errorf("renamed: got comment %d, %v", c.ID, err)
	}
}

// comments tests that there is one comment, and that it is ours.
func comments(t *testing.T, s Subject, repo host.Repo) {
	t.Helper()
	for i := range 150 {
		s.Pulls.Comment("acme/skill", 1, "eve", fmt.Sprint("talk ", i))
	}
	s.Pulls.Comment("acme/skill", 1, "eve", "<!-- m -->\nnot yours")
	set := func(id int64, body string) int64 {
		t.Helper()
		c := host.Comment{ID: id, Pull: 1, Marker: "<!-- m -->", Body: "<!-- m -->\n" + body}
		if err := s.Host.SetComment(t.Context(), repo, &c); err != nil || c.ID == 0 {
			t.Fatalf("got comment %d, %v", c.ID, err)
		}
		return c.ID
	}
	first := set(0, "running")
	if again := set(0, "decided"); again != first { // its id was lost
		t.Errorf("the marker found comment %d, want %d", again, first)
	}
	set(first, strings.Repeat("long ", 20_000))
	var ours []PostedComment
	for _, c := range s.Pulls.Comments() {
		if c.User["login"] != "eve" {
			ours = append(ours, c)
		}
	}
	if len(ours) != 1 || ours[0].Edits != 2 || len(ours[0].Body) > 65_535 {
		t.Errorf("got %d comments of ours, want one that was edited twice", len(ours))
	}
	s.Pulls.DeleteComments()
	c := host.Comment{ID: first, Pull: 1, Marker: "<!-- m -->", Body: "<!-- m -->\nx"}
	if err := s.Host.SetComment(t.Context(), repo, &c); !fault.Is(err, fault.NotFound) {
		t.Errorf("a deleted one: got %v, want NotFound", err)
	}
}
