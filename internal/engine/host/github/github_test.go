package github_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/github"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

func open(t *testing.T) (*github.Host, *hosttest.GitHub) {
	t.Helper()
	server := hosttest.NewGitHub(t, hosttest.NewRepos(t))
	web, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	h, err := github.New(github.Options{
		URL: server.URL, AppID: server.AppID, PrivateKey: server.Key, HTTP: web, WritePause: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return h, server
}

var skill = host.Repo{Installation: host.Installation{ID: 4_294_967_815, Account: "acme"}, FullName: "acme/skill"}

func TestConformance(t *testing.T) {
	hosttest.Run(t, func(t *testing.T) hosttest.Subject {
		h, server := open(t)
		return hosttest.Subject{Host: h, Repos: server.Repos, At: skill.Installation, Pulls: server}
	})
}

func push(server *hosttest.GitHub) string {
	return server.Repos.Create("acme/skill").Push("first", map[string]string{"SKILL.md": hosttest.Skill("skill", "x")})
}

// TestCheckAccount asks the App on whose account an installation is.
func TestCheckAccount(t *testing.T) {
	h, server := open(t)
	server.Install(7, "other")
	for _, c := range []struct {
		id      int64
		account string
		good    bool
	}{
		{skill.ID, "acme", true},
		{skill.ID, "ACME", true},
		{7, "other", true},
		{7, "acme", false},
		{skill.ID, "other", false},
		{8, "acme", false},
	} {
		err := h.CheckAccount(t.Context(), host.Installation{ID: c.id, Account: c.account})
		if c.good != (err == nil) || err != nil && !fault.Is(err, fault.Conflict) {
			t.Errorf("%d of %s: got %v, want good: %t", c.id, c.account, err, c.good)
		}
	}
	server.Break(hosttest.Fault{On: "GET /app/installations", Answer: hosttest.Status(http.StatusBadGateway)})
	if err := h.CheckAccount(t.Context(), skill.Installation); !fault.Is(err, fault.BadGateway) {
		t.Errorf("a host that fails: got %v, want BadGateway", err)
	}
	// What another account has is not listed through its installation.
	push(server)
	if all, err := h.Repositories(t.Context(), host.Installation{ID: skill.ID, Account: "other"}); err != nil || len(all) != 0 {
		t.Errorf("got %v, %v, want none", all, err)
	}
}

func TestTokens(t *testing.T) {
	h, server := open(t)
	push(server)
	look := func() error {
		_, err := h.Repository(t.Context(), skill)
		return err
	}
	for range 3 {
		if err := look(); err != nil {
			t.Fatal(err)
		}
	}
	if n := server.TokensMade(); n != 1 {
		t.Errorf("three calls made %d tokens, want 1", n)
	}
	server.RevokeTokens()
	if err := look(); err != nil || server.TokensMade() != 2 {
		t.Errorf("a token that is no longer good: got %v and %d tokens, want 2", err, server.TokensMade())
	}
	server.TokenLife(4 * time.Minute) // less than the time before which a token is left alone
	server.RevokeTokens()
	for range 2 {
		if err := look(); err != nil {
			t.Fatal(err)
		}
	}
	if n := server.TokensMade(); n != 4 {
		t.Errorf("tokens that end soon: got %d in all, want 4", n)
	}
}

func TestTokenRefused(t *testing.T) {
	for status, want := range map[int]fault.Kind{
		http.StatusNotFound: fault.NotFound, http.StatusForbidden: fault.Denied, http.StatusUnauthorized: fault.Denied,
		http.StatusBadGateway: fault.BadGateway,
	} {
		h, server := open(t)
		server.Break(hosttest.Fault{On: "access_tokens", Answer: hosttest.Status(status)})
		if _, err := h.Repositories(t.Context(), skill.Installation); !fault.Is(err, want) {
			t.Errorf("%d: got %v, want kind %d", status, err, want)
		}
	}
	if _, err := github.New(github.Options{PrivateKey: []byte("no key"), HTTP: &outbound.Client{}}); !fault.Is(err, fault.Malformed) {
		t.Errorf("a bad key: got %v, want Malformed", err)
	}
}

func TestRateLimits(t *testing.T) {
	used := func(reset int64) http.HandlerFunc {
		return hosttest.Status(http.StatusForbidden, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", strconv.FormatInt(reset, 10))
	}
	reset := time.Now().Add(10 * time.Minute)
	for _, c := range []struct {
		name        string
		with        http.HandlerFunc
		least, most time.Duration
	}{
		{"retry after", hosttest.Status(http.StatusForbidden, "Retry-After", "30"), 30 * time.Second, 30 * time.Second},
		{"reset", used(reset.Unix()), 9 * time.Minute, 10 * time.Minute},
		{"reset in milliseconds", used(reset.UnixMilli()), 24 * time.Hour, 24 * time.Hour},
		{"neither", hosttest.Status(http.StatusTooManyRequests), time.Minute, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, server := open(t)
			server.Break(hosttest.Fault{On: "/repos/", Answer: c.with})
			_, err := h.Repository(t.Context(), skill)
			limited, ok := errors.AsType[*fault.Error](err)
			if !ok || limited.Kind != fault.Limited || limited.RetryAfter < c.least || limited.RetryAfter > c.most {
				t.Errorf("got %v, want Limited with a wait of %s to %s", err, c.least, c.most)
			}
		})
	}
}

// TestEndlessPages: a server that always names one more page is not read forever.
func TestEndlessPages(t *testing.T) {
	h, server := open(t)
	push(server)
	server.Break(hosttest.Fault{On: "/branches", Always: true, Answer: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "<"+server.URL+"/repos/acme/skill/branches?page=2>; rel=\"next\"")
		_, _ = w.Write([]byte("[]"))
	}})
	if _, err := h.Refs(t.Context(), skill); !fault.Is(err, fault.TooLarge) {
		t.Errorf("got %v, want TooLarge", err)
	}
	if n := len(server.Requests("/branches")); n != host.MaxPages {
		t.Errorf("%d requests, want %d", n, host.MaxPages)
	}
	server.Break(hosttest.Fault{On: "/pulls", Always: true, Answer: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "<"+server.URL+"/repos/acme/skill/pulls?page=2>; rel=\"next\"")
		_, _ = w.Write([]byte("[]"))
	}})
	if _, complete, err := h.OpenPulls(t.Context(), skill); err != nil || complete {
		t.Errorf("got complete %t, %v", complete, err)
	}
	if n := len(server.Requests("/pulls")); n != host.MaxPullPages {
		t.Errorf("%d requests, want %d", n, host.MaxPullPages)
	}
}

func TestTarballs(t *testing.T) {
	h, server := open(t)
	sha := push(server)
	tree := func() error {
		pkg, err := h.Tree(t.Context(), skill, sha, ".")
		if err == nil {
			_ = pkg.Close()
		}
		return err
	}
	if err := tree(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{""}, server.Downloads()); diff != "" {
		t.Errorf("the token went where the tarball is (- want, + got):\n%s", diff)
	}
	half := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2})
	}
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000")
		_, _ = w.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3})
	}
	for name, f := range map[string]http.HandlerFunc{
		"truncated":      half,
		"cut off":        cut,
		"not an archive": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"expired link":   hosttest.Status(http.StatusServiceUnavailable),
	} {
		server.Break(hosttest.Fault{On: "GET /tarball", Answer: f})
		if err := tree(); !fault.Is(err, fault.BadGateway) {
			t.Errorf("%s: got %v, want BadGateway", name, err)
		}
	}
	server.Break(hosttest.Fault{On: "GET /tarball", Answer: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }})
	slow, err := outbound.New(outbound.Options{AllowPrivate: true, HeaderTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	impatient, err := github.New(github.Options{URL: server.URL, AppID: server.AppID, PrivateKey: server.Key, HTTP: slow})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := impatient.Tree(t.Context(), skill, sha, "."); !fault.Is(err, fault.BadGateway) {
		t.Errorf("a slow host: got %v, want BadGateway", err)
	}
}

func TestRenamed(t *testing.T) {
	h, server := open(t)
	sha := push(server)
	server.Rename("acme/skill", "acme/renamed")
	got, err := h.Repository(t.Context(), skill)
	if err != nil || got.FullName != "acme/renamed" {
		t.Errorf("got %s, %v, want acme/renamed", got.FullName, err)
	}
	if _, err := h.Refs(t.Context(), skill); err != nil {
		t.Error(err)
	}
	pkg, err := h.Tree(t.Context(), skill, sha, ".")
	if err != nil {
		t.Fatal(err)
	}
	_ = pkg.Close()
	if err := h.SetStatus(t.Context(), skill, sha, host.Status{State: host.StateSuccess, Context: "c"}); err != nil || len(server.Statuses()) != 1 {
		t.Errorf("status: got %v and %d statuses, want one", err, len(server.Statuses()))
	}
}

func TestStatus(t *testing.T) {
	h, server := open(t)
	sha := push(server)
	err := h.SetStatus(t.Context(), skill, sha, host.Status{
		State: host.StateSuccess, Context: "whetstone/publish/01234567", Description: strings.Repeat("ü", 200), TargetURL: "https://whetstone.example/x",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []hosttest.PostedStatus{{
		FullName: "acme/skill", SHA: sha, State: "success", Context: "whetstone/publish/01234567",
		Description: strings.Repeat("ü", 139) + "…", TargetURL: "https://whetstone.example/x",
	}}
	if diff := cmp.Diff(want, server.Statuses()); diff != "" {
		t.Errorf("statuses (- want, + got):\n%s", diff)
	}
	server.Break(hosttest.Fault{On: "statuses", Answer: hosttest.Status(http.StatusForbidden)})
	if err := h.SetStatus(t.Context(), skill, sha, host.Status{}); !fault.Is(err, fault.Denied) {
		t.Errorf("no permission: got %v, want Denied", err)
	}
}

func TestCheck(t *testing.T) {
	h, server := open(t)
	sha := push(server)
	c := &host.Check{
		Name: "whetstone", ExternalID: "attempt", HeadSHA: sha, Conclusion: host.ConclusionFailure, Title: "Refused",
		Summary: strings.Repeat("ü", 40_000), CompletedAt: time.Now(),
	}
	for i := range 120 {
		c.Annotations = append(c.Annotations, host.Annotation{Path: "SKILL.md", Line: i, Level: host.LevelWarning, Title: "t", Message: fmt.Sprint(i)})
	}
	// The second request fails; another call goes on where that one stopped.
	server.Break(hosttest.Fault{On: "PATCH", Answer: hosttest.Status(http.StatusBadGateway)})
	if err := h.SetCheck(t.Context(), skill, c); !fault.Is(err, fault.BadGateway) || c.ID == "" || c.Sent != 50 {
		t.Fatalf("got %v, id %q, %d sent; want BadGateway after 50", err, c.ID, c.Sent)
	}
	if err := h.SetCheck(t.Context(), skill, c); err != nil {
		t.Fatal(err)
	}
	checks := server.Checks()
	if len(checks) != 1 || checks[0].Requests != 3 || strconv.FormatInt(checks[0].ID, 10) != c.ID {
		t.Fatalf("got %d checks, %+v", len(checks), checks)
	}
	var order bytes.Buffer
	for i, a := range checks[0].Output.Annotations {
		if a.Message != fmt.Sprint(i) || a.StartLine < 1 || a.EndLine != a.StartLine {
			fmt.Fprintf(&order, "%d: %+v\n", i, a)
		}
	}
	if len(checks[0].Output.Annotations) != 120 || order.Len() > 0 {
		t.Errorf("got %d annotations, want 120 in order:\n%s", len(checks[0].Output.Annotations), &order)
	}
	c.Annotations, c.Changed, c.Title = nil, true, "fewer"
	if err := h.SetCheck(t.Context(), skill, c); err != nil || c.Sent != 120 || server.Checks()[0].Output.Title != "fewer" {
		t.Errorf("with fewer annotations than before: got %+v, %v", c, err)
	}
	for status, want := range map[int]fault.Kind{http.StatusForbidden: fault.Denied, http.StatusNotFound: fault.NotFound, http.StatusUnprocessableEntity: fault.Malformed} {
		server.Break(hosttest.Fault{On: "check-runs", Answer: hosttest.Status(status)})
		if err := h.SetCheck(t.Context(), skill, &host.Check{Name: "x"}); !fault.Is(err, want) {
			t.Errorf("%d: got %v, want kind %d", status, err, want)
		}
	}
}
