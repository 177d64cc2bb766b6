package host_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
)

func TestVerify(t *testing.T) {
	const secret, body = "It's a Secret to Everybody", "Hello, World!"
	const good = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	if got := host.Sign(secret, []byte(body)); got != good {
		t.Errorf("got %s, want GitHub's own %s", got, good)
	}
	for _, c := range []struct {
		name, signature string
		secrets         []string
		ok              bool
	}{
		{"good", good, []string{secret}, true},
		{"second of two", good, []string{"new", secret}, true},
		{"first of two", good, []string{secret, "old"}, true},
		{"wrong secret", good, []string{"other"}, false},
		{"forged", "sha256=" + strings.Repeat("0", 64), []string{secret}, false},
		{"missing", "", []string{secret}, false},
		{"empty", "sha256=", []string{secret}, false},
		{"other algorithm", "sha1=" + good[7:], []string{secret}, false},
		{"no prefix", good[7:], []string{secret}, false},
		{"upper case", strings.ToUpper(good), []string{secret}, false},
		{"no secret", good, nil, false},
		{"empty secret", host.Sign("", []byte(body)), []string{""}, false},
	} {
		err := (host.Verifier{Provider: host.GitHub, Secrets: c.secrets}).Verify(http.Header{host.SignatureHeader: {c.signature}}, []byte(body), time.Now())
		if c.ok && err != nil || !c.ok && !fault.Is(err, fault.Unauthorized) {
			t.Errorf("%s: got %v, want ok %t", c.name, err, c.ok)
		}
	}
}

func TestParseEvent(t *testing.T) {
	sha, tag, zero := strings.Repeat("a", 40), strings.Repeat("b", 40), strings.Repeat("0", 40)
	const repo = `"repository":{"id":7,"full_name":"acme/skill","default_branch":"main"}`
	named := host.EventRepository{ID: 7, FullName: "acme/skill", DefaultBranch: "main"}
	for _, c := range []struct {
		name, event, body string
		want              host.Event
	}{
		{"ping", "ping", `{"zen":"x"}`, host.Event{Kind: host.EventPing}},
		{
			"pull request", "pull_request", `{"action":"synchronize","number":12,` + repo + `}`,
			host.Event{Kind: host.EventPull, Action: "synchronize", Repository: named, Pull: 12},
		},
		{
			"review", "pull_request_review", `{"action":"submitted","pull_request":{"number":12},"review":{"state":"approved"},` + repo + `}`,
			host.Event{Kind: host.EventReview, Action: "submitted", Repository: named, Pull: 12},
		},
		{
			"review on Gitea", "pull_request_rejected", `{"action":"reviewed","number":12,"review":{"type":"pull_request_review_rejected"},` + repo + `}`,
			host.Event{Kind: host.EventReview, Action: "reviewed", Repository: named, Pull: 12},
		},
		{
			"check-run again", "check_run", `{"action":"rerequested","check_run":{"head_sha":"` + sha + `","external_id":"x"},` + repo + `}`,
			host.Event{
				Kind: host.EventCheckRun, Action: "rerequested", Repository: named,
				Rerun: &host.Rerun{Commit: sha, ExternalID: "x"},
			},
		},
		{
			"check suite again", "check_suite", `{"action":"rerequested","check_suite":{"head_sha":"` + sha + `"},` + repo + `}`,
			host.Event{Kind: host.EventCheckSuite, Action: "rerequested", Repository: named, Rerun: &host.Rerun{Commit: sha}},
		},
		{
			"check-run created", "check_run", `{"action":"created","check_run":{"head_sha":"` + sha + `"},` + repo + `}`,
			host.Event{Kind: host.EventCheckRun, Action: "created", Repository: named},
		},
		{
			"branch", "push", `{"ref":"refs/heads/main","after":"` + sha + `",` + repo + `,"installation":{"id":815}}`,
			host.Event{Kind: host.EventPush, Installation: 815, Repository: named, Pushes: []host.Push{{Ref: "refs/heads/main", After: sha, Commit: sha}}},
		},
		{
			"annotated tag", "push", `{"ref":"refs/tags/v1","after":"` + tag + `","head_commit":{"id":"` + sha + `"},` + repo + `}`,
			host.Event{Kind: host.EventPush, Repository: named, Pushes: []host.Push{{Ref: "refs/tags/v1", After: tag, Commit: sha}}},
		},
		{
			"tag without its commit", "push", `{"ref":"refs/tags/v1","after":"` + tag + `","head_commit":null,` + repo + `}`,
			host.Event{Kind: host.EventPush, Repository: named, Pushes: []host.Push{{Ref: "refs/tags/v1", After: tag}}},
		},
		{
			"deletion", "push", `{"ref":"refs/tags/v1","after":"` + zero + `","deleted":true,"head_commit":null,` + repo + `}`,
			host.Event{Kind: host.EventPush, Repository: named, Pushes: []host.Push{{Ref: "refs/tags/v1"}}},
		},
		{
			"our hook", "push", `{"refs":[{"ref":"refs/heads/main","before":"` + zero + `","after":"` + sha + `"},{"ref":"refs/tags/v1","before":"` + zero + `","after":"` + tag + `"}],"repository":{"full_name":"acme/skill"}}`,
			host.Event{Kind: host.EventPush, Repository: host.EventRepository{FullName: "acme/skill"}, Pushes: []host.Push{{Ref: "refs/heads/main", After: sha, Commit: sha}, {Ref: "refs/tags/v1", After: tag}}},
		},
		{
			"suspended", "installation", `{"action":"suspend","installation":{"id":815,"account":{"login":"acme"}}}`,
			host.Event{Kind: host.EventInstallation, Action: "suspend", Installation: 815, Account: "acme"},
		},
		{
			"removed", "installation_repositories", `{"action":"removed","installation":{"id":815},"repositories_removed":[{"id":7,"full_name":"acme/skill"}]}`,
			host.Event{Kind: host.EventAccess, Action: "removed", Installation: 815, Removed: []host.EventRepository{{ID: 7, FullName: "acme/skill"}}},
		},
		{
			"renamed", "repository", `{"action":"renamed",` + repo + `,"changes":{"repository":{"name":{"from":"old"}}}}`,
			host.Event{Kind: host.EventRepo, Action: "renamed", Repository: host.EventRepository{ID: 7, FullName: "acme/skill", OldName: "acme/old", DefaultBranch: "main"}},
		},
		{
			"transferred", "repository", `{"action":"transferred",` + repo + `,"changes":{"owner":{"from":{"user":{"login":"ada"}}}}}`,
			host.Event{Kind: host.EventRepo, Action: "transferred", Repository: host.EventRepository{ID: 7, FullName: "acme/skill", OldName: "ada/skill", DefaultBranch: "main"}},
		},
		{
			"default branch", "repository", `{"action":"edited",` + repo + `,"changes":{"default_branch":{"from":"master"}}}`,
			host.Event{Kind: host.EventRepo, Action: "edited", Repository: named, OldDefault: "master"},
		},
		{"other", "star", `{"action":"created",` + repo + `}`, host.Event{Kind: host.EventOther, Action: "created", Repository: named}},
	} {
		header := http.Header{}
		header.Set(host.EventHeader, c.event)
		got, err := host.ParseEvent(header, []byte(c.body))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (- want, + got):\n%s", c.name, diff)
		}
		header.Set("Content-Type", "application/x-www-form-urlencoded")
		form, err := host.ParseEvent(header, []byte(url.Values{"payload": {c.body}}.Encode()))
		if err != nil || !cmp.Equal(got, form) {
			t.Errorf("%s as a form: got %+v, %v", c.name, form, err)
		}
	}
	for _, body := range []string{"", "[]", "{", `{"ref":"x"}`, `{"repository":{"full_name":"../x"}}`} {
		header := http.Header{}
		header.Set(host.EventHeader, "push")
		if _, err := host.ParseEvent(header, []byte(body)); !fault.Is(err, fault.Malformed) {
			t.Errorf("%q: got %v, want Malformed", body, err)
		}
	}
}

func TestCleanPath(t *testing.T) {
	for path, want := range map[string]string{
		"": ".", ".": ".", "./": ".", "skills/one": "skills/one", "./skills//one/": "skills/one", "a..b": "a..b",
	} {
		if got, err := host.CleanPath(path); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"..", "a/../b", "/etc", `a\b`, "a\x00", ".git", "a/.git/hooks", strings.Repeat("a", 501)} {
		if _, err := host.CleanPath(path); !fault.Is(err, fault.Malformed) {
			t.Errorf("%q: got %v, want Malformed", path, err)
		}
	}
}

// TestTarballFolders counts folders as it counts files.
func TestTarballFolders(t *testing.T) {
	for name, c := range map[string]struct {
		path func(n int) string
		few  bool
	}{
		"many folders": {func(n int) string { return fmt.Sprintf("wrapper/%d/", n) }, false},
		"one again":    {func(int) string { return "wrapper/a/" }, false},
		"deep":         {func(n int) string { return "wrapper/" + strings.Repeat("a/", n+1) }, true},
		"one path":     {func(int) string { return "wrapper/" + strings.Repeat("a/", 100_000) + "file" }, true},
	} {
		var packed bytes.Buffer
		compressed := gzip.NewWriter(&packed)
		w := tar.NewWriter(compressed)
		for n := range 20_001 {
			kind := byte(tar.TypeDir)
			if strings.HasSuffix(c.path(n), "file") {
				kind = tar.TypeReg
			}
			if err := w.WriteHeader(&tar.Header{Name: c.path(n), Typeflag: kind, Mode: 0o755}); err != nil {
				t.Fatal(err)
			}
			if n == 100 && c.few {
				break
			}
		}
		if err := errors.Join(w.Close(), compressed.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := host.ReadTarball(t.Context(), &packed, "."); !fault.Is(err, fault.TooLarge) {
			t.Errorf("%s: got %v, want TooLarge", name, err)
		}
	}
}
