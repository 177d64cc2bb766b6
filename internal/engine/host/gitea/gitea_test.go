package gitea_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/gitea"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

func open(t *testing.T) (*gitea.Host, *hosttest.Gitea) {
	t.Helper()
	server := hosttest.NewGitea(t, hosttest.NewRepos(t))
	web, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	h, err := gitea.New(gitea.Options{URL: server.URL + "/", Token: server.Token, HTTP: web})
	if err != nil {
		t.Fatal(err)
	}
	return h, server
}

var skill = host.Repo{Installation: host.Installation{ID: 1, Account: "acme"}, FullName: "acme/skill"}

func TestConformance(t *testing.T) {
	hosttest.Run(t, func(t *testing.T) hosttest.Subject {
		h, server := open(t)
		return hosttest.Subject{Host: h, Repos: server.Repos, At: skill.Installation, Pulls: server}
	})
}

// TestEndlessPages: a server that always names one more page is not read forever.
func TestEndlessPages(t *testing.T) {
	h, server := open(t)
	server.Repos.Create("acme/skill").Push("first", map[string]string{"SKILL.md": hosttest.Skill("skill", "x")})
	server.Break(hosttest.Fault{On: "/branches", Always: true, Answer: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "<"+server.URL+"/api/v1/repos/acme/skill/branches?page=2>; rel=\"next\"")
		_, _ = w.Write([]byte("[]"))
	}})
	if _, err := h.Refs(t.Context(), skill); !fault.Is(err, fault.TooLarge) {
		t.Errorf("got %v, want TooLarge", err)
	}
	if n := len(server.Requests("/branches")); n != host.MaxPages {
		t.Errorf("%d requests, want %d", n, host.MaxPages)
	}
	server.Break(hosttest.Fault{On: "/pulls", Always: true, Answer: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "<"+server.URL+"/api/v1/repos/acme/skill/pulls?page=2>; rel=\"next\"")
		_, _ = w.Write([]byte("[]"))
	}})
	if _, complete, err := h.OpenPulls(t.Context(), skill); err != nil || complete {
		t.Errorf("got complete %t, %v", complete, err)
	}
	if n := len(server.Requests("/pulls")); n != host.MaxPullPages {
		t.Errorf("%d requests, want %d", n, host.MaxPullPages)
	}
}

func TestWriteBack(t *testing.T) {
	h, server := open(t)
	sha := server.Repos.Create("acme/skill").Push("first", map[string]string{"SKILL.md": hosttest.Skill("skill", "x")})
	err := h.SetStatus(t.Context(), skill, sha, host.Status{
		State: host.StateFailure, Context: "whetstone/publish/01234567", Description: strings.Repeat("ü", 300),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []hosttest.PostedStatus{{
		FullName: "acme/skill", SHA: sha, State: "failure", Context: "whetstone/publish/01234567", Description: strings.Repeat("ü", 254) + "…",
	}}
	if diff := cmp.Diff(want, server.Statuses()); diff != "" {
		t.Errorf("statuses (- want, + got):\n%s", diff)
	}
	if err := h.SetCheck(t.Context(), skill, &host.Check{}); !errors.Is(err, host.ErrUnsupported) {
		t.Errorf("check: got %v, want ErrUnsupported", err)
	}
}

func TestRenamed(t *testing.T) {
	h, server := open(t)
	sha := server.Repos.Create("acme/skill").Push("first", map[string]string{"SKILL.md": hosttest.Skill("skill", "x")})
	server.Rename("acme/skill", "acme/renamed")
	got, err := h.Repository(t.Context(), skill)
	if err != nil || got.FullName != "acme/renamed" {
		t.Errorf("got %s, %v, want acme/renamed", got.FullName, err)
	}
	if err := h.SetStatus(t.Context(), skill, sha, host.Status{State: host.StateSuccess}); err != nil {
		t.Fatal(err)
	}
	if got := server.Statuses(); len(got) != 1 || got[0].FullName != "acme/renamed" {
		t.Errorf("got the statuses %v, want one of acme/renamed", got)
	}
}

// TestTransferred asks for a repository by the name that it had before it went
// to another account. The operator's token could read it.
func TestTransferred(t *testing.T) {
	h, server := open(t)
	sha := server.Repos.Create("acme/skill").Push("first", map[string]string{"SKILL.md": hosttest.Skill("skill", "x")})
	server.Repos.Create("other/first")
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
	server.Repos.Create("acme/skill")
	server.Repos.Create("other/hidden")
	server.Tokens = map[string]string{"of-ada": "ada", "of-bob": "bob", "of-acme": "acme"}
	server.Owners = map[string]string{"acme": "ada", "other": "bob"}
	for token, want := range map[string]fault.Kind{
		"": fault.Internal, "of-ada": fault.Internal, "of-acme": fault.Internal, "of-bob": fault.Conflict, "bad": fault.Conflict,
	} {
		at := host.Installation{ID: 1, Account: "acme", Token: token}
		if err := h.CheckAccount(t.Context(), at); want != fault.Internal && !fault.Is(err, want) ||
			want == fault.Internal && err != nil {
			t.Errorf("token %q: got %v", token, err)
		} else if err != nil && token != "" && strings.Contains(err.Error(), token) && token != "bad" {
			t.Errorf("the error %v holds the token", err)
		}
	}
	// It is used in place of the operator's, who sees more.
	at := host.Installation{ID: 2, Account: "other", Token: "of-ada"}
	if all, err := h.Repositories(t.Context(), at); err != nil || len(all) != 0 {
		t.Errorf("got %v, %v, want none", all, err)
	}
	if _, err := h.Repository(t.Context(), host.Repo{Installation: at, FullName: "other/hidden"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v, want NotFound", err)
	}
	server.Break(hosttest.Fault{On: "GET /api/v1/user", Answer: hosttest.Status(http.StatusInternalServerError)})
	if err := h.CheckAccount(t.Context(), host.Installation{Account: "acme", Token: "of-ada"}); !fault.Is(err, fault.BadGateway) {
		t.Errorf("a server that fails: got %v, want BadGateway", err)
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
		{"403", hosttest.Status(http.StatusForbidden), fault.Denied},
		{"401", hosttest.Status(http.StatusUnauthorized), fault.Denied},
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
	server.Repos.Create("acme/skill").Push("first", map[string]string{"SKILL.md": hosttest.Skill("skill", "x")})
	for range 2 { // the first answer may have been lost
		issue := host.Issue{Marker: "<!-- m -->", Title: "Bad", Body: "why <!-- m -->"}
		if err := h.SetIssue(t.Context(), skill, &issue); err != nil || issue.Number != 1 {
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
