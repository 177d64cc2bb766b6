package host_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
)

func TestParseGitLabEvent(t *testing.T) {
	sha, tag, zero := strings.Repeat("a", 40), strings.Repeat("b", 40), strings.Repeat("0", 40)
	const project = `"project":{"id":7,"path_with_namespace":"acme/sub/skill","default_branch":"main"}`
	named := host.EventRepository{ID: 7, FullName: "acme/sub/skill", DefaultBranch: "main"}
	merge := func(action, more string) string {
		return `{"object_kind":"merge_request","event_type":"merge_request",` + project +
			`,"object_attributes":{"id":99,"iid":12,"action":"` + action + `"` + more + `}}`
	}
	pull := func(action string) host.Event {
		return host.Event{Kind: host.EventPull, Action: action, Repository: named, Pull: 12}
	}
	review := func(action string) host.Event {
		return host.Event{Kind: host.EventReview, Action: action, Repository: named, Pull: 12}
	}
	push := func(p host.Push) host.Event {
		return host.Event{Kind: host.EventPush, Repository: named, Pushes: []host.Push{p}}
	}
	for _, c := range []struct {
		name, body string
		want       host.Event
	}{
		{
			"branch", `{"object_kind":"push","event_name":"push","ref":"refs/heads/main","before":"` + zero + `","after":"` + sha +
				`","checkout_sha":"` + sha + `",` + project + `}`,
			push(host.Push{Ref: "refs/heads/main", After: sha, Commit: sha}),
		},
		{
			"annotated tag", `{"object_kind":"tag_push","ref":"refs/tags/v1","after":"` + tag + `","checkout_sha":"` + sha + `",` + project + `}`,
			push(host.Push{Ref: "refs/tags/v1", After: tag, Commit: sha}),
		},
		{
			"deletion", `{"object_kind":"tag_push","ref":"refs/tags/v1","after":"` + zero + `","checkout_sha":null,` + project + `}`,
			push(host.Push{Ref: "refs/tags/v1"}),
		},
		{
			"system hook", `{"event_name":"push","ref":"refs/heads/main","after":"` + sha + `",` + project + `}`,
			push(host.Push{Ref: "refs/heads/main", After: sha, Commit: sha}),
		},
		{"opened", merge("open", ""), pull("opened")},
		{"reopened", merge("reopen", ""), pull("reopened")},
		{"pushed", merge("update", `,"oldrev":"`+sha+`"`), pull("synchronize")},
		{"draft", strings.Replace(merge("update", ""), `"project"`, `"changes":{"draft":{"previous":true,"current":false}},"project"`, 1), pull("edited")},
		{"labels", strings.Replace(merge("update", ""), `"project"`, `"changes":{"labels":{}},"project"`, 1), pull("update")},
		{"merged", merge("merge", ""), pull("closed")},
		{"closed", merge("close", ""), pull("closed")},
		{"approved", merge("approved", ""), review("submitted")},
		{"one of the approvals", merge("approval", ""), review("submitted")},
		{"taken back", merge("unapproved", ""), review("dismissed")},
		{
			"renamed", `{"event_name":"project_rename","project_id":7,"path_with_namespace":"acme/new","old_path_with_namespace":"acme/old"}`,
			host.Event{Kind: host.EventRepo, Action: "renamed", Repository: host.EventRepository{ID: 7, FullName: "acme/new", OldName: "acme/old"}},
		},
		{
			"transferred", `{"event_name":"project_transfer","project_id":7,"path_with_namespace":"eve/x","old_path_with_namespace":"acme/x"}`,
			host.Event{Kind: host.EventRepo, Action: "transferred", Repository: host.EventRepository{ID: 7, FullName: "eve/x", OldName: "acme/x"}},
		},
		{"other", `{"object_kind":"pipeline","object_attributes":{"iid":"x"},"changes":[]}`, host.Event{Kind: host.EventOther}},
		{"system's own", `{"event_name":"repository_update","changes":[{}]}`, host.Event{Kind: host.EventOther}},
	} {
		header := http.Header{}
		header.Set(host.GitLabEventHeader, "Any Hook")
		got, err := host.ParseEvent(header, []byte(c.body))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (- want, + got):\n%s", c.name, diff)
		}
	}
	for _, body := range []string{
		"", "[]", "{", `{"object_kind":"push","ref":"x"}`, `{"object_kind":"push","project":{"path_with_namespace":"acme/../x"}}`,
		`{"object_kind":"merge_request",` + project + `}`, merge("project_rename", ""),
		`{"event_name":"project_rename","path_with_namespace":"acme/x","old_path_with_namespace":"../x"}`,
		`{"object_kind":"push","project":{"path_with_namespace":"acme/` + strings.Repeat("x/", 130) + `x"}}`,
	} {
		header := http.Header{}
		header.Set(host.GitLabEventHeader, "Push Hook")
		if _, err := host.ParseEvent(header, []byte(body)); !fault.Is(err, fault.Malformed) {
			t.Errorf("%q: got %v, want Malformed", body, err)
		}
	}
}

// TestNames: only GitLab has subgroups.
func TestNames(t *testing.T) {
	for name, want := range map[string][2]bool{ // elsewhere, on GitLab
		"acme/x": {true, true}, "acme/a/b": {false, true}, "acme/a/b/c.d_e-f": {false, true}, "acme": {}, "": {}, "/x": {}, "acme/": {},
		"acme//x": {}, "acme/../x": {}, "acme/a/-x": {}, "acme/a/ä": {}, "acme/" + strings.Repeat("y/", 130) + "x": {},
	} {
		elsewhere, gitlab := host.Gitea.CheckFullName(name) == nil, host.GitLab.CheckFullName(name) == nil
		if elsewhere != want[0] || gitlab != want[1] {
			t.Errorf("%q: %t elsewhere, %t on GitLab, want %v", name, elsewhere, gitlab, want)
		}
	}
	if host.GitHub.CheckAccountLogin("acme/sub") == nil || host.GitLab.CheckAccountLogin("acme/sub") != nil {
		t.Error("only GitLab has groups below groups")
	}
	if owner, name := (host.Repo{FullName: "acme/a/x"}).Split(); owner != "acme/a" || name != "x" {
		t.Errorf("got %s and %s", owner, name)
	}
}

// FuzzGitLabEvent: a delivery is refused, or names a repository that can be used.
func FuzzGitLabEvent(f *testing.F) {
	for _, seed := range []string{
		`{"object_kind":"push","ref":"refs/heads/main","after":"0123456789012345678901234567890123456789","project":{"id":1,"path_with_namespace":"a/b/c"}}`,
		`{"object_kind":"merge_request","object_attributes":{"iid":1,"action":"update","oldrev":"x"},"changes":{"draft":{}},"project":{"path_with_namespace":"a/b"}}`,
		`{"event_name":"project_rename","path_with_namespace":"a/b","old_path_with_namespace":"a/c"}`, `{}`, `null`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		header := http.Header{}
		header.Set(host.GitLabEventHeader, "x")
		e, err := host.ParseEvent(header, body)
		if err != nil {
			if !fault.Is(err, fault.Malformed) {
				t.Fatalf("%v is not about the delivery", err)
			}
			return
		}
		if e.Kind == host.EventOther {
			return
		}
		if host.GitLab.CheckFullName(e.Repository.FullName) != nil {
			t.Errorf("the repository %q cannot be used", e.Repository.FullName)
		}
		if pull := e.Kind == host.EventPull || e.Kind == host.EventReview; pull != (e.Pull > 0) {
			t.Errorf("%s of merge request %d", e.Kind, e.Pull)
		}
		for _, p := range e.Pushes {
			if p.After != "" && !host.IsSHA(p.After) || p.Commit != "" && !host.IsSHA(p.Commit) {
				t.Errorf("the push %+v cannot be used", p)
			}
		}
	})
}

// FuzzVerifyGitLab: one secret is good, and with a signing token one signature.
func FuzzVerifyGitLab(f *testing.F) {
	const token = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	key, err := host.ParseSigningToken(token)
	if err != nil {
		f.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	f.Add("secret", "secret", "id", "1700000000", host.SignGitLab(key, "id", "1700000000", []byte("{}")), []byte("{}"))
	f.Add("secret", "", "", "1700000000", "v1,", []byte("{}"))
	f.Fuzz(func(t *testing.T, secret, sent, id, at, signature string, body []byte) {
		header := http.Header{}
		header.Set(host.GitLabTokenHeader, sent)
		header.Set(host.WebhookIDHeader, id)
		header.Set(host.WebhookTimeHeader, at)
		header.Set(host.WebhookSignedHeader, signature)
		v := host.Verifier{Provider: host.GitLab, Secrets: []string{"", secret}}
		if good := secret != "" && sent == secret; good != (v.Verify(header, body, now) == nil) {
			t.Errorf("the secret %q for %q, want good: %t", sent, secret, good)
		}
		v.SigningTokens = []string{token}
		right := false
		for one := range strings.FieldsSeq(signature) {
			right = right || one == host.SignGitLab(key, id, at, body)
		}
		if v.Verify(header, body, now) == nil && (!right || secret == "" || sent != secret || id == "") {
			t.Errorf("%q was good of %q at %q", signature, id, at)
		}
	})
}
