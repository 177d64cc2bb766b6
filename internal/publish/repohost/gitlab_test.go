package repohost_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/claims"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// TestGitLabSubgroups publishes from a project in a subgroup of the bound group, and from
// none of another group.
func TestGitLabSubgroups(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, server := newForgeWorld(t, db, host.GitLab)
		c := w.org("acme", access.Pro)
		c.bind(1, "acme/tools")
		work := w.repos.Create("acme/tools/pdf/deploy")
		first := work.Push("first", skillFiles("One."))
		w.repos.Create("acme/other").Push("first", skillFiles("Not yours."))
		entry := c.entry("deploy", "0.1.0")
		got := c.Post(base+"/connections", object{
			"entry_id": entry, "installation_id": 1, "repo_full_name": "Acme/Tools/pdf/deploy", "write_back_enabled": true,
		})
		got.Want(http.StatusNotFound) // the stand-in is strict about case
		c.connect(entry, "acme/tools/pdf/deploy", object{"write_back_enabled": true})
		one := c.Get(base + "/connections").List("connections")[0]
		if one["repo_owner"] != "acme/tools/pdf" || one["repo_name"] != "deploy" {
			t.Errorf("got %v", one)
		}
		for _, repo := range []string{"acme/other", "acme", "acme//deploy", "acme/tools/../other"} {
			a := c.Post(base+"/connections", object{"entry_id": entry, "installation_id": 1, "repo_full_name": repo})
			if a.Status != http.StatusNotFound && a.Status != http.StatusBadRequest {
				t.Errorf("%s: got %d", repo, a.Status)
			}
		}
		w.Work()
		send := func(ref, sha string) {
			w.send(delivery{id: ref + sha, event: "push", body: fmt.Sprintf(
				`{"ref":%q,"after":%q,"head_commit":{"id":%q},"repository":{"id":%d,"full_name":"acme/tools/pdf/deploy","default_branch":"main"}}`,
				ref, sha, sha, server.ID("acme/tools/pdf/deploy"))}).Want(http.StatusAccepted)
			w.Settle()
		}
		send("refs/heads/main", first)
		work.Git("tag", "--annotate", "v1.0.0", "--message", "a release")
		work.Git("push", "--quiet", "--tags")
		send("refs/tags/v1.0.0", first)
		if got := c.current(entry); got != "1.0.0" {
			t.Errorf("current is %s, want the tag's", got)
		}
		if all := c.versions(entry); len(all) != 3 || !strings.Contains(fmt.Sprint(all), publication.Prerelease(first)) {
			t.Errorf("got the versions %v", all)
		}
		if all := c.Get(base + "/deliveries").Want(http.StatusOK).List("deliveries"); len(all) != 2 || all[0]["provider"] != "gitlab" || all[0]["event"] != "Tag Push Hook" {
			t.Errorf("got the deliveries %v", all)
		}
	})
}

// TestGitLabGroupsDoNotOverlap: who holds a group has its subgroups, so nobody else gets
// one of them, nor the group above.
func TestGitLabGroupsDoNotOverlap(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, _ := newForgeWorld(t, db, host.GitLab)
		c, other := w.org("holder", access.Pro), w.org("other", access.Pro)
		c.bind(1, "acme/tools")
		c.Post(base+"/installations", bindBody(2, "Acme/Tools/pdf")).Want(http.StatusCreated) // its own, below
		other.bind(3, "acme2")
		other.bind(4, "acme/tool")
		for _, account := range []string{"acme", "ACME", "acme/tools", "acme/tools/csv", "acme/tools/pdf/x"} {
			other.Post(base+"/installations", bindBody(10, account)).Want(http.StatusConflict)
			if err := claims.Allow(t.Context(), db, other.Org.ID, account, false); err == nil {
				t.Errorf("%s was allowed", account)
			}
		}
		if err := claims.Allow(t.Context(), db, other.Org.ID, "acme", true); err == nil {
			t.Error("the group above was moved over the head of the one that holds a subgroup")
		}
		// Two that claim at once can bring it about: then neither reads anything.
		w.Exec(`INSERT INTO repohost_claims (account_key, org_id, claimed_at) VALUES ('acme', $1, 1)`, other.Org.ID)
		c.Get(base + "/repos?installation_id=1").Want(http.StatusConflict)
		if err := claims.Release(t.Context(), db, "acme"); err != nil {
			t.Fatal(err)
		}
		c.Get(base + "/repos?installation_id=1").Want(http.StatusOK)
	})
}

// TestGitLabWebhooks sends good deliveries and forged ones, with and without a signing
// token, and some twice.
func TestGitLabWebhooks(t *testing.T) {
	t.Parallel()
	w, _ := newForgeWorld(t, storetest.Open(t, "sqlite"), host.GitLab)
	header := func(change func(http.Header)) (http.Header, string) {
		h, body := hosttest.Deliver(t, host.GitLab, secret, "one", "push",
			`{"ref":"refs/heads/main","after":"`+strings.Repeat("a", 40)+`","repository":{"id":1,"full_name":"acme/x"}}`)
		if change != nil {
			change(h)
		}
		return h, body
	}
	send := func(h http.Header, body string) answer {
		return w.Anonymous().Do(http.MethodPost, base+"/webhook", body, hosttest.Lines(h)...)
	}
	set := func(name, value string) func(http.Header) { return func(h http.Header) { h.Set(name, value) } }
	unset := func(name string) func(http.Header) { return func(h http.Header) { h.Del(name) } }
	for name, change := range map[string]func(http.Header){
		"no token": unset(host.GitLabTokenHeader), "another": set(host.GitLabTokenHeader, "x"),
		"longer": set(host.GitLabTokenHeader, secret+"x"), "a part": set(host.GitLabTokenHeader, secret[:5]),
		"a hash in its place": func(h http.Header) {
			h.Del(host.GitLabTokenHeader)
			h.Set(host.SignatureHeader, host.Sign(secret, nil))
		},
	} {
		if a := send(header(change)); a.Status != http.StatusUnauthorized {
			t.Errorf("%s: got %d", name, a.Status)
		}
	}
	send(header(unset(host.IdempotencyHeader))).Want(http.StatusBadRequest)
	send(header(unset(host.GitLabEventHeader))).Want(http.StatusBadRequest)
	send(header(nil)).Want(http.StatusAccepted)
	send(header(nil)).Want(http.StatusAccepted) // sent again
	send(header(func(h http.Header) {
		h.Del(host.IdempotencyHeader)
		h.Set(host.GitLabUUIDHeader, "two")
	})).Want(http.StatusAccepted)
	if n := w.Count("repohost_deliveries"); n != 2 {
		t.Errorf("%d deliveries, want 2", n)
	}
	w.service.Secrets = []string{"new", secret} // rotation
	send(header(set(host.GitLabTokenHeader, "new"))).Want(http.StatusAccepted)
	send(header(nil)).Want(http.StatusAccepted)

	w.service.SigningTokens = []string{hosttest.SigningToken}
	sign := func(at time.Duration, token string, change func(http.Header)) answer {
		h, body := header(set(host.IdempotencyHeader, "signed"))
		hosttest.SignGitLab(t, h, body, token, time.Now().Add(at))
		if change != nil {
			change(h)
		}
		return send(h, body)
	}
	foreign := "whsec_" + strings.Repeat("QUJD", 12)
	for name, a := range map[string]answer{
		"unsigned":         send(header(nil)),
		"another's":        sign(0, foreign, nil),
		"old":              sign(-6*time.Minute, hosttest.SigningToken, nil),
		"of the future":    sign(6*time.Minute, hosttest.SigningToken, nil),
		"another id":       sign(0, hosttest.SigningToken, set(host.WebhookIDHeader, "x")),
		"another key":      sign(0, hosttest.SigningToken, set(host.IdempotencyHeader, "x")),
		"another time":     sign(0, hosttest.SigningToken, set(host.WebhookTimeHeader, fmt.Sprint(time.Now().Unix()+9))),
		"no time":          sign(0, hosttest.SigningToken, unset(host.WebhookTimeHeader)),
		"without a secret": sign(0, hosttest.SigningToken, unset(host.GitLabTokenHeader)),
		"another secret":   sign(0, hosttest.SigningToken, set(host.GitLabTokenHeader, "x")),
	} {
		if a.Status != http.StatusUnauthorized {
			t.Errorf("%s: got %d", name, a.Status)
		}
	}
	sign(0, hosttest.SigningToken, nil).Want(http.StatusAccepted)
	sign(-4*time.Minute, hosttest.SigningToken, unset(host.IdempotencyHeader)).Want(http.StatusAccepted) // the same
	w.service.SigningTokens = []string{foreign, hosttest.SigningToken}
	sign(0, foreign, nil).Want(http.StatusAccepted)
	if n := w.Count("repohost_deliveries"); n != 3 {
		t.Errorf("%d deliveries, want 3", n)
	}
}
