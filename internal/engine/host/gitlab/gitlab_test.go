package gitlab_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/gitlab"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

func open(t *testing.T) (*gitlab.Host, *hosttest.GitLab) {
	t.Helper()
	server := hosttest.NewGitLab(t, hosttest.NewRepos(t))
	web, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	h, err := gitlab.New(gitlab.Options{URL: server.URL + "/", Token: server.Token, HTTP: web})
	if err != nil {
		t.Fatal(err)
	}
	return h, server
}

var skill = host.Repo{Installation: host.Installation{ID: 1, Account: "acme"}, FullName: "acme/skill"}

func first(server *hosttest.GitLab, fullName string) (*hosttest.Work, string) {
	work := server.Repos.Create(fullName)
	return work, work.Push("first", map[string]string{"SKILL.md": hosttest.Skill("skill", "x")})
}

func TestConformance(t *testing.T) {
	hosttest.Run(t, func(t *testing.T) hosttest.Subject {
		h, server := open(t)
		return hosttest.Subject{Host: h, Repos: server.Repos, At: skill.Installation, Pulls: server, Reviews: "/notes"}
	})
}

// TestSubgroups: a group has what is below it, and nothing of one whose name only begins
// like its own.
func TestSubgroups(t *testing.T) {
	h, server := open(t)
	_, sha := first(server, "acme/sub/deep/skill")
	first(server, "acme/top")
	first(server, "acme2/sub/skill")
	all, err := h.Repositories(t.Context(), skill.Installation)
	if err != nil || len(all) != 2 || all[0].FullName != "acme/sub/deep/skill" || all[0].Owner != "acme/sub/deep" || all[0].Name != "skill" {
		t.Fatalf("got %+v, %v", all, err)
	}
	for account, want := range map[string]bool{
		"acme": true, "ACME": true, "acme/sub": true, "acme/sub/deep": true, "acme/su": false, "acme2": false, "sub": false, "": false,
	} {
		r := host.Repo{Installation: host.Installation{ID: 1, Account: account}, FullName: "acme/sub/deep/skill"}
		got, err := h.Resolve(t.Context(), r, "main")
		if want && (err != nil || got.SHA != sha) || !want && !fault.Is(err, fault.NotFound) {
			t.Errorf("account %q: got %v, %v", account, got, err)
		}
	}
	r := host.Repo{Installation: skill.Installation, FullName: "acme2/sub/skill"}
	if _, err := h.Repository(t.Context(), r); !fault.Is(err, fault.NotFound) {
		t.Errorf("another group's: got %v, want NotFound", err)
	}
}

func TestNew(t *testing.T) {
	if _, err := gitlab.New(gitlab.Options{URL: "http://a b"}); !fault.Is(err, fault.Malformed) {
		t.Errorf("got %v, want Malformed", err)
	}
}

// TestStatuses posts what GitLab refuses: a state that the status has already, and a
// status of a commit that is on no branch.
func TestStatuses(t *testing.T) {
	h, server := open(t)
	work, sha := first(server, "acme/skill")
	set := func(commit string, state host.State, text string) {
		t.Helper()
		err := h.SetStatus(t.Context(), skill, commit, host.Status{State: state, Context: "whetstone/publish/01234567", Description: text})
		if err != nil {
			t.Fatal(err)
		}
	}
	set(sha, host.StatePending, "queued")
	set(sha, host.StatePending, "running")
	set(sha, host.StatePending, "still")
	set(sha, host.StateSuccess, "done")
	set(sha, host.StateSuccess, strings.Repeat("ü", 300))
	set(sha, host.StateError, "broken")
	var got []string
	for _, s := range server.Statuses() {
		got = append(got, s.Raw+" "+s.Description)
	}
	want := []string{"pending queued", "running running", "success done", "success " + strings.Repeat("ü", 254) + "…", "failed broken"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("statuses (- want, + got):\n%s", diff)
	}
	server.Repos.Git("acme/skill", "clone", "--quiet", "--bare", server.Repos.Bare("acme/skill"), server.Repos.Bare("other/skill"))
	fork := server.Repos.Clone("other/skill")
	head := fork.Push("second", map[string]string{"x": "y"})
	server.OpenPull("acme/skill", "other/skill", "main")
	set(head, host.StateFailure, "of a fork")
	orphan := work.Git("commit-tree", "-m", "orphan", work.Git("rev-parse", "HEAD^{tree}"))
	work.Git("push", "--quiet", "origin", orphan+":refs/keep/it")
	err := h.SetStatus(t.Context(), skill, orphan, host.Status{State: host.StateSuccess, Context: "x"})
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("of no merge request: got %v, want NotFound", err)
	}
	server.Break(hosttest.Fault{On: "/statuses", Answer: hosttest.Status(http.StatusBadRequest)})
	if err := h.SetStatus(t.Context(), skill, sha, host.Status{State: host.StateSuccess}); !fault.Is(err, fault.Malformed) {
		t.Errorf("another refusal: got %v, want Malformed", err)
	}
	server.Break(hosttest.Fault{On: "/statuses", Answer: hosttest.Status(http.StatusConflict)})
	if err := h.SetStatus(t.Context(), skill, sha, host.Status{State: host.StateSuccess}); !fault.Is(err, fault.BadGateway) {
		t.Errorf("locked: got %v, want BadGateway", err)
	}
	if err := h.SetCheck(t.Context(), skill, &host.Check{}); !errors.Is(err, host.ErrUnsupported) {
		t.Errorf("check: got %v, want ErrUnsupported", err)
	}
}

// TestRedirects: the token goes to no other address, and old names are followed.
func TestRedirects(t *testing.T) {
	h, server := open(t)
	_, sha := first(server, "acme/skill")
	server.Rename("acme/skill", "acme/sub/renamed")
	got, err := h.Repository(t.Context(), skill)
	if err != nil || got.FullName != "acme/sub/renamed" {
		t.Errorf("got %s, %v, want acme/sub/renamed", got.FullName, err)
	}
	if err := h.SetStatus(t.Context(), skill, sha, host.Status{State: host.StateSuccess}); err != nil {
		t.Error(err)
	}
	server.Redirect = true
	pkg, err := h.Tree(t.Context(), skill, sha, ".")
	if err != nil {
		t.Fatal(err)
	}
	_ = pkg.Close()
	if got := server.Reached(); len(got) != 1 || got[0] != "" {
		t.Errorf("the other origin got the tokens %q, want one request without", got)
	}
	server.Break(hosttest.Fault{On: "GET", Answer: func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, server.Elsewhere.URL+"/users/sign_in", http.StatusFound)
	}})
	if _, err := h.Repository(t.Context(), skill); !fault.Is(err, fault.BadGateway) {
		t.Errorf("to a page: got %v, want BadGateway", err)
	}
	if got := server.Reached(); len(got) != 1 {
		t.Errorf("the other origin was reached: %q", got)
	}
}

// TestTransferred asks for a project by the name that it had before it went to another
// group. The operator's token could read it.
func TestTransferred(t *testing.T) {
	h, server := open(t)
	_, sha := first(server, "acme/skill")
	first(server, "other/first")
	server.Rename("acme/skill", "other/skill")
	_, err1 := h.Repository(t.Context(), skill)
	_, err2 := h.Resolve(t.Context(), skill, "main")
	_, err3 := h.Refs(t.Context(), skill)
	_, err4 := h.Tree(t.Context(), skill, sha, ".")
	err5 := h.SetStatus(t.Context(), skill, sha, host.Status{State: host.StateSuccess})
	for i, err := range []error{err1, err2, err3, err4, err5} {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("call %d: got %v, want NotFound", i+1, err)
		}
	}
	if got := server.Statuses(); len(got) != 0 {
		t.Errorf("got the statuses %v", got)
	}
}

// TestToken looks at a token that an organisation gives.
func TestToken(t *testing.T) {
	h, server := open(t)
	first(server, "acme/skill")
	first(server, "other/hidden")
	group := server.ID("group acme")
	server.Owners = map[string]int64{"acme": 7, "other": 8}
	server.Tokens = map[string]hosttest.GitLabUser{
		"of-ada": {ID: 7, Username: "ada"}, "of-bob": {ID: 8, Username: "bob"},
		"of-group": {ID: 9, Username: "group_1000_bot_1f", Bot: true, Group: "acme"},
		"of-other": {ID: 10, Username: "group_1_bot_1f", Bot: true, Group: "acme"},
		"posing":   {ID: 11, Username: "group_1000_bot_1f", Group: "acme"},
	}
	if group != 1000 {
		t.Fatalf("the group has the number %d", group)
	}
	for token, good := range map[string]bool{
		"": true, "of-ada": true, "of-group": true, "of-bob": false, "of-other": false, "posing": false, "expired": false,
	} {
		err := h.CheckAccount(t.Context(), host.Installation{ID: 1, Account: "acme", Token: token})
		if good != (err == nil) || !good && !fault.Is(err, fault.Conflict) {
			t.Errorf("token %q: got %v", token, err)
		}
	}
	if err := h.CheckAccount(t.Context(), host.Installation{Account: "Ada", Token: "of-ada"}); err != nil {
		t.Errorf("a user's own account: %v", err)
	}
	// It is used in place of the operator's, who sees more.
	at := host.Installation{ID: 2, Account: "other", Token: "of-ada"}
	if all, err := h.Repositories(t.Context(), at); err != nil || len(all) != 0 {
		t.Errorf("got %v, %v, want none", all, err)
	}
	server.Break(hosttest.Fault{On: "GET /api/v4/user", Answer: hosttest.Status(http.StatusInternalServerError)})
	if err := h.CheckAccount(t.Context(), host.Installation{Account: "acme", Token: "of-ada"}); !fault.Is(err, fault.BadGateway) {
		t.Errorf("a server that fails: got %v, want BadGateway", err)
	}
}

// TestMergeTrain finds a merge that GitLab has not indexed yet, and a head that the branch
// was moved on to.
func TestMergeTrain(t *testing.T) {
	h, server := open(t)
	work, base := first(server, "acme/skill")
	change := func(branch string) *hosttest.OpenedPull {
		work.Git("checkout", "--quiet", "-B", branch, base)
		work.Push(branch, map[string]string{branch: "1"})
		return server.OpenPull("acme/skill", "acme/skill", branch)
	}
	train := change("train")
	commit := train.Merge()
	server.Break(hosttest.Fault{On: "/repository/commits", Answer: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("[]"))
	}})
	got, err := h.MergedPull(t.Context(), skill, commit)
	if err != nil || got.Number != train.Number || got.MergeBase != base || got.Commit != commit {
		t.Errorf("got %+v, %v", got, err)
	}
	moved := change("moved")
	head := moved.Update()
	if _, err := h.MergedPull(t.Context(), skill, head); !fault.Is(err, fault.NotFound) {
		t.Errorf("an open one: got %v, want NotFound", err)
	}
	moved.FastForward()
	if got, err := h.MergedPull(t.Context(), skill, head); err != nil || got.Number != moved.Number || got.Head != head {
		t.Errorf("moved on: got %+v, %v", got, err)
	}
}

// TestApprovals: an approval is of the head at its time, and one that GitLab took back
// without a word does not count.
func TestApprovals(t *testing.T) {
	h, server := open(t)
	work, _ := first(server, "acme/skill")
	server.AddAccount(11, "ann", "ann@example.org")
	server.AddAccount(12, "bob", "bob@example.org")
	work.Git("checkout", "--quiet", "-b", "topic")
	early := work.Push("one", map[string]string{"a": "1"})
	p := server.OpenPull("acme/skill", "acme/skill", "topic")
	p.Review(11, "APPROVED")
	late := work.Push("two", map[string]string{"a": "2"})
	p.Update()
	p.Review(12, "APPROVED")
	got, err := h.Reviews(t.Context(), skill, p.Number)
	if err != nil || len(got) != 2 || got[0].Commit != early || got[1].Commit != late || got[1].Account != 12 ||
		got[0].State != host.ReviewApproved || got[1].State != host.ReviewApproved {
		t.Fatalf("got %+v, %v", got, err)
	}
	server.Break(hosttest.Fault{On: "/approvals", Answer: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"approved_by":[{"user":{"id":12,"username":"bob"}}]}`))
	}})
	got, err = h.Reviews(t.Context(), skill, p.Number)
	if err != nil || got[0].State != host.ReviewDismissed || got[1].State != host.ReviewApproved {
		t.Errorf("taken back: got %+v, %v", got, err)
	}
	server.Break(hosttest.Fault{On: "/commits", Answer: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`[{"author_email":"17-ada@users.noreply.gitlab.example","committer_email":"Bob@example.org"}]`))
	}})
	if who, err := h.Authors(t.Context(), skill, p.Number); err != nil || !slices.Contains(who, 17) || !slices.Contains(who, 12) {
		t.Errorf("authors: got %v, %v", who, err)
	}
}

// TestQuickActions: GitLab runs the commands in a note with the rights of whoever wrote it.
func TestQuickActions(t *testing.T) {
	h, server := open(t)
	work, _ := first(server, "acme/skill")
	work.Git("checkout", "--quiet", "-b", "topic")
	work.Push("one", map[string]string{"a": "1"})
	p := server.OpenPull("acme/skill", "acme/skill", "topic")
	c := host.Comment{Pull: p.Number, Marker: "<!-- m -->", Body: "<!-- m -->\n/merge\n  /approve\r/close\nand/or"}
	if err := h.SetComment(t.Context(), skill, &c); err != nil {
		t.Fatal(err)
	}
	if got := server.Comments()[0].Body; got != "<!-- m -->\n\\/merge\n  \\/approve\n\\/close\nand/or" {
		t.Errorf("got %q", got)
	}
}

// TestDeletedFork reads a merge request whose fork is gone, and one without commits.
func TestDeletedFork(t *testing.T) {
	h, server := open(t)
	first(server, "acme/skill")
	server.Repos.Git("acme/skill", "clone", "--quiet", "--bare", server.Repos.Bare("acme/skill"), server.Repos.Bare("other/skill"))
	fork := server.Repos.Clone("other/skill")
	fork.Push("second", map[string]string{"x": "y"})
	p := server.OpenPull("acme/skill", "other/skill", "main")
	server.Delete("other/skill")
	if got, err := h.Pull(t.Context(), skill, p.Number); err != nil || !got.Fork {
		t.Errorf("got %+v, %v, want a fork's", got, err)
	}
	server.Repos.Git("acme/skill", "update-ref", "-d", "refs/merge-requests/1/head")
	server.Break(hosttest.Fault{On: "/merge_requests", Always: true, Answer: func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/1") {
			_, _ = w.Write([]byte(`{"iid":1,"sha":null,"state":"opened"}`))
			return
		}
		_, _ = w.Write([]byte(`[{"iid":1,"sha":null,"state":"opened"}]`))
	}})
	if _, err := h.Pull(t.Context(), skill, p.Number); !fault.Is(err, fault.NotFound) {
		t.Errorf("without commits: got %v, want NotFound", err)
	}
	if all, _, err := h.OpenPulls(t.Context(), skill); err != nil || len(all) != 0 {
		t.Errorf("without commits: got %v, %v, want none", all, err)
	}
}

// TestEndlessPages: a server that always names one more page is not read forever, nor at
// another address.
func TestEndlessPages(t *testing.T) {
	h, server := open(t)
	first(server, "acme/skill")
	server.Break(hosttest.Fault{On: "/branches", Always: true, Answer: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "<"+server.Elsewhere.URL+"/api/v4/x?page_token=a>; rel=\"next\"")
		_, _ = w.Write([]byte(`[{"name":"main"}]`))
	}})
	if _, err := h.Refs(t.Context(), skill); !fault.Is(err, fault.TooLarge) {
		t.Errorf("got %v, want TooLarge", err)
	}
	if n := len(server.Requests("/branches")); n != host.MaxPages {
		t.Errorf("%d requests, want %d", n, host.MaxPages)
	}
	if got := server.Reached(); len(got) != 0 {
		t.Errorf("the other origin was reached: %q", got)
	}
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		with http.HandlerFunc
		want fault.Kind
	}{
		{"500", hosttest.Status(http.StatusInternalServerError), fault.BadGateway},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, fault.BadGateway},
		{"429", hosttest.Status(http.StatusTooManyRequests, "Retry-After", "7"), fault.Limited},
		{"429 without a wait", hosttest.Status(http.StatusTooManyRequests, "RateLimit-Remaining", "0", "RateLimit-Reset", "1"), fault.Limited},
		{"403", hosttest.Status(http.StatusForbidden), fault.Denied}, // e.g. an archived project, or a scope
		{"expired", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":"invalid_token","error_description":"Token is expired."}`))
		}, fault.Denied},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, server := open(t)
			server.Break(hosttest.Fault{On: "GET", Answer: c.with})
			_, err := h.Repository(t.Context(), skill)
			if !fault.Is(err, c.want) || strings.Contains(err.Error(), "sesame") {
				t.Errorf("got %v, want kind %d", err, c.want)
			}
		})
	}
}

// TestIssue makes one issue, whatever is lost in between, and closes it.
func TestIssue(t *testing.T) {
	h, server := open(t)
	first(server, "acme/skill")
	for range 2 { // the first answer may have been lost
		issue := host.Issue{Marker: "<!-- m -->", Title: "Bad", Body: "why <!-- m -->"}
		if err := h.SetIssue(t.Context(), skill, &issue); err != nil || issue.Number != 1 || issue.URL == "" {
			t.Fatalf("got number %d, %v, want 1", issue.Number, err)
		}
	}
	issue := host.Issue{Number: 1, Title: "Bad", Body: "over", Closed: true}
	if err := h.SetIssue(t.Context(), skill, &issue); err != nil {
		t.Fatal(err)
	}
	if got := server.Issues(); len(got) != 1 || got[0].State != "closed" || got[0].Body != "over" {
		t.Errorf("got the issues %+v, want one that is closed", got)
	}
}
