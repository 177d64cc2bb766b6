package hosttest

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
)

// An account of the code host. Commits with its address are its.
type account struct {
	id           int64
	login, email string
}

// AddAccount adds an account, or gives one another login.
func (s *server) AddAccount(id int64, login, email string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts = slices.DeleteFunc(s.accounts, func(a account) bool { return a.id == id })
	s.accounts = append(s.accounts, account{id, login, email})
}

// account is an account as both code hosts show it; nil for none.
func (s *server) account(id int64) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.accounts {
		if a.id == id && id != 0 {
			return map[string]any{"id": a.id, "login": a.login, "type": "User"}
		}
	}
	return nil
}

func (s *server) accountOf(email string) map[string]any {
	s.mu.Lock()
	i := slices.IndexFunc(s.accounts, func(a account) bool { return a.email == email })
	var id int64
	if i >= 0 {
		id = s.accounts[i].id
	}
	s.mu.Unlock()
	return s.account(id)
}

// A PostedReview is a review of a pull request.
type PostedReview struct {
	ID        int64
	Account   int64
	State     string // as the code host writes it
	Commit    string
	Dismissed bool
	At        time.Time
}

// Review lets an account review the head of the pull request: "APPROVED", "COMMENTED" and
// "CHANGES_REQUESTED" are GitHub's states, "COMMENT" and "REQUEST_CHANGES" those of Gitea.
func (p *OpenedPull) Review(account int64, state string) (id int64) {
	p.server.tb.Helper()
	return p.ReviewAt(account, state, p.server.Repos.Git(p.Base, "rev-parse", p.ref()))
}

// ReviewAt is Review of a commit, which may not be the head any more.
func (p *OpenedPull) ReviewAt(account int64, state, commit string) (id int64) {
	p.Set(func(p *OpenedPull) {
		id = p.Number*10_000 + int64(len(p.reviews)) + 1
		p.reviews = append(p.reviews, PostedReview{
			ID: id, Account: account, State: state, Commit: commit, At: time.Date(2026, 1, 1, 0, 0, len(p.reviews), 0, time.UTC),
		})
	})
	return id
}

// Dismiss dismisses a review.
func (p *OpenedPull) Dismiss(id int64) {
	p.Set(func(p *OpenedPull) {
		for i := range p.reviews {
			if p.reviews[i].ID == id {
				p.reviews[i].Dismissed = true
			}
		}
	})
}

// DeleteReviews deletes all reviews.
func (p *OpenedPull) DeleteReviews() { p.Set(func(p *OpenedPull) { p.reviews = nil }) }

// orNull is null for "".
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func mergedAt(p OpenedPull) any {
	if !p.Merged {
		return nil
	}
	return p.CreatedAt.UTC()
}

// serveReviews shows a page of the reviews. GitHub has dismissed as a state, Gitea beside
// the state.
func (s *server) serveReviews(w http.ResponseWriter, r *http.Request, p *OpenedPull, sizeName string, most int) {
	s.mu.Lock()
	all := slices.Clone(p.reviews)
	number, base := p.Number, p.Base
	s.mu.Unlock()
	head, _ := s.git(base, "rev-parse", p.ref())
	out := []map[string]any{}
	for _, one := range page(w, r, all, sizeName, most) {
		shown := map[string]any{
			"id": one.ID, "user": s.account(one.Account), "state": one.State, "commit_id": one.Commit, "submitted_at": one.At,
			"html_url": fmt.Sprintf("https://code.example/%s/pull/%d#review-%d", base, number, one.ID),
		}
		if sizeName == "per_page" && one.Dismissed {
			shown["state"] = "DISMISSED"
		}
		if sizeName != "per_page" {
			shown["dismissed"], shown["official"], shown["stale"] = one.Dismissed, true, one.Commit != head
		}
		out = append(out, shown)
	}
	writeJSON(w, http.StatusOK, out)
}

// servePullCommits shows a page of the commits, with the accounts of their addresses.
func (s *server) servePullCommits(w http.ResponseWriter, r *http.Request, p *OpenedPull, sizeName string, most int) {
	s.mu.Lock()
	from, base, head := p.mergeBase, p.Base, p.ref()
	if from == "" {
		from = "refs/heads/" + p.Into
	}
	s.mu.Unlock()
	log, _ := s.git(base, "log", "--reverse", "--format=%H %ae %ce", from+".."+head)
	out := []map[string]any{}
	for _, line := range page(w, r, strings.Split(strings.TrimSpace(log), "\n"), sizeName, most) {
		if f := strings.Fields(line); len(f) == 3 {
			out = append(out, map[string]any{"sha": f[0], "author": s.accountOf(f[1]), "committer": s.accountOf(f[2])})
		}
	}
	writeJSON(w, http.StatusOK, out)
}

// merged lists the pull requests of a repository whose merge made a commit.
func (s *server) merged(fullName, sha string) []map[string]any {
	out := []map[string]any{}
	for _, p := range s.Pulls() {
		s.mu.Lock()
		is := p.Base == fullName && p.mergeCommit == sha && sha != ""
		s.mu.Unlock()
		if is {
			out = append(out, s.show(p))
		}
	}
	return out
}

// servePullsOfCommit is GitHub's, which knows merged pull requests of the default branch.
func (g *GitHub) servePullsOfCommit(w http.ResponseWriter, r *http.Request, fullName, sha string) {
	if _, _, ok := g.commit(fullName, sha); !ok {
		problem(w, http.StatusUnprocessableEntity, "No commit found for SHA: "+sha)
		return
	}
	found := g.merged(fullName, sha)
	if _, onDefault := g.git(fullName, "merge-base", "--is-ancestor", sha, "HEAD"); !onDefault {
		found = nil
	}
	writeJSON(w, http.StatusOK, append([]map[string]any{}, page(w, r, found, "per_page", 100)...))
}

// serveCompare is GitHub's BASE...HEAD.
func (g *GitHub) serveCompare(w http.ResponseWriter, fullName, arg string) {
	base, head, _ := strings.Cut(arg, "...")
	sha, ok := g.git(fullName, "merge-base", base, head)
	if !ok {
		problem(w, http.StatusNotFound, "Not Found")
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"merge_base_commit": map[string]any{"sha": sha}, "commits": []any{}, "files": []any{}})
}

// servePullOfCommit is Gitea's.
func (g *Gitea) servePullOfCommit(w http.ResponseWriter, fullName, sha string) {
	found := g.merged(fullName, sha)
	if len(found) == 0 {
		problem(w, http.StatusNotFound, "The target couldn't be found.")
		return
	}
	writeJSON(w, http.StatusOK, found[0])
}

// ReviewEvent is the delivery of a review of the pull request: its event and body.
func (p *OpenedPull) ReviewEvent(provider host.Provider, installation int64) (event, body string) {
	if provider == host.Gitea {
		return "pull_request_approved", p.Event("reviewed", 0)
	}
	return "pull_request_review", p.Event("submitted", installation)
}

// reviews tests what a host tells of merged pull requests and their reviews.
func reviews(t *testing.T, s Subject) {
	work := s.Repos.Create("acme/reviewed")
	base := work.Push("first", map[string]string{"SKILL.md": Skill("reviewed", "One.")})
	repo := s.Repo("reviewed")
	if s.Pulls == nil {
		_, err1 := s.Host.MergedPull(t.Context(), repo, base)
		_, err2 := s.Host.Reviews(t.Context(), repo, 1)
		_, err3 := s.Host.Authors(t.Context(), repo, 1)
		for _, err := range []error{err1, err2, err3} {
			if !errors.Is(err, host.ErrUnsupported) {
				t.Errorf("got %v, want ErrUnsupported", err)
			}
		}
		return
	}
	s.Pulls.AddAccount(11, "ann", "ann@example.org")
	s.Pulls.AddAccount(12, "bob", "bob@example.org")
	s.Pulls.AddAccount(13, "cyd", "cyd@example.org")
	change := func(branch string) *OpenedPull {
		work.Git("checkout", "--quiet", "-B", branch, base)
		work.Commit("a change", map[string]string{branch: "1"})
		work.Git("commit", "--quiet", "--amend", "--no-edit", "--author", "Cyd <cyd@example.org>")
		work.Git("push", "--quiet", "origin", branch)
		p := s.Pulls.OpenPull("acme/reviewed", "acme/reviewed", branch)
		p.Set(func(p *OpenedPull) { p.Author = 12 })
		return p
	}
	merged, squashed, foreign := change("merged"), change("squashed"), change("foreign")
	head := merged.Update()
	for _, c := range []struct {
		pull   *OpenedPull
		commit string
	}{{merged, merged.Merge()}, {squashed, squashed.Squash()}} {
		got, err := s.Host.MergedPull(t.Context(), repo, c.commit)
		if err != nil || got.Number != c.pull.Number || got.Commit != c.commit || got.MergeBase != base || got.Base != "main" ||
			got.RepoID == 0 || !got.Merged || got.Head != c.pull.Update() || got.URL == "" {
			t.Errorf("pull request %d: got %+v, %v", c.pull.Number, got, err)
		}
	}
	work.Git("push", "--quiet", "origin", base+":refs/heads/release")
	foreign.Set(func(p *OpenedPull) { p.Into = "release" })
	if commit := foreign.Merge(); commit != "" { // not on the default branch
		got, err := s.Host.MergedPull(t.Context(), repo, commit)
		if err != nil || got.Number != foreign.Number || got.Base != "release" {
			t.Errorf("into another branch: got %+v, %v", got, err)
		}
	}
	for _, sha := range []string{base, head, strings.Repeat("1", 40), "main"} {
		if _, err := s.Host.MergedPull(t.Context(), repo, sha); !fault.Is(err, fault.NotFound) {
			t.Errorf("the pull request of %s: got %v, want NotFound", sha, err)
		}
	}
	authors, err := s.Host.Authors(t.Context(), repo, merged.Number)
	if err != nil || !slices.Equal(authors, []int64{12, 13}) {
		t.Errorf("authors: got %v, %v, want those of the pull request and of its commit", authors, err)
	}
	first := merged.Review(11, "APPROVED")
	for range 150 { // more than one page of every host
		merged.Review(12, "COMMENT")
	}
	merged.Review(12, "REQUEST_CHANGES")
	merged.Review(12, "CHANGES_REQUESTED")
	merged.Review(99, "APPROVED") // its account is gone
	merged.Review(13, "PENDING")
	got, err := s.Host.Reviews(t.Context(), repo, merged.Number)
	want := host.Review{ID: first, Account: 11, Login: "ann", State: host.ReviewApproved, Commit: head}
	if err != nil || len(got) != 154 {
		t.Fatalf("got %d reviews, %v, want 154", len(got), err)
	}
	want.URL, want.At = got[0].URL, got[0].At
	if got[0] != want || want.URL == "" || want.At.IsZero() {
		t.Errorf("got %+v, want %+v", got[0], want)
	}
	if got[1].State != host.ReviewOther || got[151].State != host.ReviewChanges && got[152].State != host.ReviewChanges || got[153].Account != 0 {
		t.Errorf("got %+v", got[151:])
	}
	merged.Dismiss(first)
	if got, err := s.Host.Reviews(t.Context(), repo, merged.Number); err != nil || got[0].State != host.ReviewDismissed {
		t.Errorf("dismissed: got %+v, %v", got[0], err)
	}
	for range 2_000 {
		merged.Review(12, "COMMENT")
	}
	if _, err := s.Host.Reviews(t.Context(), repo, merged.Number); !fault.Is(err, fault.TooLarge) {
		t.Errorf("more reviews than are read: got %v, want TooLarge", err)
	}
	if _, err := s.Host.Reviews(t.Context(), repo, 99); !fault.Is(err, fault.NotFound) {
		t.Errorf("reviews of a missing pull request: got %v, want NotFound", err)
	}
	s.Pulls.Break(Fault{On: cmp.Or(s.Reviews, "/reviews"), Answer: Status(http.StatusForbidden, "Retry-After", "30")})
	if _, err := s.Host.Reviews(t.Context(), repo, merged.Number); !fault.Is(err, fault.Limited) {
		t.Errorf("a rate limit: got %v, want Limited", err)
	}
	s.Pulls.Rename("acme/reviewed", "acme/renamed")
	if got, err := s.Host.MergedPull(t.Context(), repo, squashed.mergeCommit); err != nil || got.Number != squashed.Number {
		t.Errorf("renamed: got %+v, %v", got, err)
	}
}
