package repohost_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

const ping = `{"zen":"Keep it logically awesome."}`

func TestWebhookRefuses(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		for name, d := range map[string]delivery{
			"forged":     {id: "1", event: "push", body: ping, secret: "other"},
			"unsigned":   {id: "1", event: "push", body: ping, signature: "none"},
			"empty":      {id: "1", event: "push", body: ping, signature: "sha256="},
			"other body": {id: "1", event: "push", body: ping, signature: host.Sign(secret, []byte("other"))},
			"no event":   {id: "1", body: ping},
			"no id":      {event: "push", body: ping},
			"not JSON":   {id: "1", event: "push", body: "<html>"},
			"no repo":    {id: "1", event: "push", body: "{}"},
		} {
			want := http.StatusUnauthorized
			if strings.HasPrefix(name, "no") {
				want = http.StatusBadRequest
			}
			t.Run(name, func(t *testing.T) { w.send(d).Want(want) })
		}
		w.send(delivery{id: "1", event: "ping", body: ping + strings.Repeat(" ", 25<<20)}).Want(http.StatusRequestEntityTooLarge)
		if n := w.Count("repohost_deliveries"); n != 0 {
			t.Errorf("%d deliveries were kept, want none", n)
		}
		w.service.Secrets = nil
		w.send(delivery{id: "1", event: "ping", body: ping}).Want(http.StatusUnauthorized)
	})
}

// TestWebhookUnsigned announces a large body without a signature: the request is
// refused before the body is read.
func TestWebhookUnsigned(t *testing.T) {
	w := newWorld(t, storetest.Open(t, "sqlite"))
	empty := host.SignatureHeader + ": sha256="
	for _, signature := range []string{"", empty + "\r\n", empty + strings.Repeat("x", 64) + "\r\n"} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", w.Server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Minute)) // it is open
		fmt.Fprintf(conn, "POST %s/webhook HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n",
			base, signature, 25<<20)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: got %d, want 401", signature, resp.StatusCode)
		}
	}
}

func TestWebhookTakes(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, c, work, _, _ := connected(t, db, nil)
		if got := w.send(delivery{id: "p", event: "ping", body: ping}).Want(http.StatusOK).Object(); got["status"] != "ignored" {
			t.Errorf("ping: got %v", got)
		}
		w.send(delivery{id: "s", event: "star", body: `{"action":"created"}`}).Want(http.StatusOK)
		sha := work.Push("first", skillFiles("One."))
		body := fmt.Sprintf(`{"ref":"refs/heads/main","after":%q,"repository":{"full_name":"ACME/Deploy"}}`, sha)
		form := delivery{
			id: "f", event: "push", body: url.Values{"payload": {body}}.Encode(),
			contentType: "application/x-www-form-urlencoded",
		}
		if got := w.send(form).Want(http.StatusAccepted).Object(); got["status"] != "received" {
			t.Errorf("push: got %v", got)
		}
		w.service.Secrets = []string{"new secret", secret} // during a rotation both are accepted
		w.send(delivery{id: "n", event: "ping", body: ping, secret: "new secret"}).Want(http.StatusOK)
		w.send(form).Want(http.StatusAccepted)
		w.Work()
		w.Settle()
		all := c.Get(base + "/deliveries").Want(http.StatusOK).List("deliveries")
		if len(all) != 1 {
			t.Fatalf("got %v, want the one about a repository of ours", all)
		}
		wanted := object{
			"delivery_id": "f", "event": "push", "action": "", "provider": "git", "repo_full_name": "ACME/Deploy", "status": "done",
			"attempts": 1.0, "installation_id": 0.0,
		}
		for field, want := range wanted {
			if all[0][field] != want {
				t.Errorf("%s is %v, want %v", field, all[0][field], want)
			}
		}
		if all[0]["received_at"] == nil || all[0]["finished_at"] == nil {
			t.Errorf("got %v, want times", all[0])
		}
		stranger := w.org("stranger", access.Pro)
		id, _ := all[0]["id"].(string)
		stranger.Post(base+"/deliveries/"+id+"/redeliver", nil).Want(http.StatusNotFound)
		if got := stranger.Get(base + "/deliveries").Object(); len(got["deliveries"].([]any)) != 0 {
			t.Errorf("a stranger sees %v", got)
		}
	})
}

// TestManyDeliveries sends pushes of many connections at once, each twice,
// while the workers are stopped and started.
func TestManyDeliveries(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org("acme", access.Pro)
		c.bind(1, "acme")
		const connections, tags = 4, 6
		stop := w.Work()
		var entries []string
		var sends []func()
		for i := range connections {
			name := fmt.Sprintf("skill-%d", i)
			work := w.repos.Create("acme/" + name)
			sha := work.Push("first", map[string]string{"SKILL.md": hosttest.Skill(name, "x")})
			entries = append(entries, c.entry(name, "0.0.1"))
			c.connect(entries[i], "acme/"+name, nil)
			push := []string{"push", "--quiet", "origin"}
			for n := range tags {
				push = append(push, fmt.Sprintf("HEAD:refs/tags/v1.0.%d", n))
				d := delivery{
					id: fmt.Sprintf("%d-%d", i, n), event: "push",
					body: fmt.Sprintf(`{"ref":"refs/tags/v1.0.%d","after":%q,"head_commit":{"id":%q},"repository":{"full_name":"acme/%s"}}`, n, sha, sha, name),
				}
				send := func() { w.send(d).Want(http.StatusAccepted) }
				sends = append(sends, send, send)
			}
			work.Git(push...)
		}
		var wg sync.WaitGroup
		for i, send := range sends {
			wg.Go(send)
			if i == len(sends)/2 {
				stop()
			}
		}
		wg.Wait()
		again := newWorldOn(t, db, w.service.Host, w.repos)
		again.Work()
		again.Settle()
		for _, entry := range entries {
			got := c.versions(entry)
			for n := range tags {
				if got[fmt.Sprintf("1.0.%d", n)] == nil {
					t.Errorf("a tag was not published: %v", got)
				}
			}
			if current := c.current(entry); current != "1.0.5" {
				t.Errorf("current is %s, want 1.0.5", current)
			}
		}
		if n := w.Count(`repohost_deliveries WHERE status <> 'done'`); n != 0 {
			t.Errorf("%d deliveries are not done", n)
		}
	})
}

// TestFollowAgainstPatch changes a connection while it follows its repository:
// neither change is lost.
func TestFollowAgainstPatch(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, c, _, _, id := connected(t, db, nil)
		for round := range 20 {
			pattern, from, to := fmt.Sprintf("v%d.*", round), fmt.Sprint("r", round), fmt.Sprint("r", round+1)
			if round == 0 {
				from = "deploy"
			}
			sent := w.send(delivery{
				id: to, event: "repository", body: fmt.Sprintf(
					`{"action":"renamed","repository":{"full_name":"acme/%s"},"changes":{"repository":{"name":{"from":%q}}}}`, to, from),
			}).Want(http.StatusAccepted).Object()
			var wg sync.WaitGroup
			wg.Go(func() {
				if err := w.service.ProcessDelivery(t.Context(), apptest.Text(sent, "id")); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				c.Do(http.MethodPatch, base+"/connections/"+id, object{"tag_pattern": pattern}).Want(http.StatusOK)
			})
			wg.Wait()
			got := c.Get(base + "/connections").Want(http.StatusOK).List("connections")[0]
			if got["tag_pattern"] != pattern || got["repo_full_name"] != "acme/"+to {
				t.Fatalf("round %d: got %v of %v, want %s of acme/%s", round, got["tag_pattern"], got["repo_full_name"], pattern, to)
			}
		}
	})
}

// recorded lists the actors and addresses of audit entries.
func recorded(t *testing.T, db *store.DB, action string) []string {
	t.Helper()
	rows, err := db.Query(t.Context(), `SELECT actor || ' ' || via FROM audit_entries WHERE action = $1 ORDER BY id`, action)
	all, err := store.All(rows, err, store.Value[string])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestEvents(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, c, work, entry, _ := connected(t, db, nil)
		w.Work()
		sent := 0
		event := func(event, body string) {
			sent++
			w.send(delivery{id: fmt.Sprint(sent), event: event, body: body}).Want(http.StatusAccepted)
			w.Settle()
		}
		suspended := func() any { return c.Get(base + "/installations").List("installations")[0]["suspended"] }
		connection := func() object { return c.Get(base + "/connections").List("connections")[0] }

		event("installation", `{"action":"suspend","installation":{"id":1,"account":{"login":"acme"}}}`)
		sha := work.Push("while suspended", skillFiles("One."))
		w.hook("h1", "acme/deploy", "refs/heads/main", sha)
		w.Settle()
		w.reconcile()
		if suspended() != true || len(c.versions(entry)) != 1 {
			t.Errorf("suspended is %v, %d versions", suspended(), len(c.versions(entry)))
		}
		if got := recorded(t, db, "repohost.installation.follow"); !slices.Equal(got, []string{"system job"}) {
			t.Errorf("the suspension was recorded as %v", got)
		}
		event("installation", `{"action":"unsuspend","installation":{"id":1}}`)
		if got := recorded(t, db, "registry.version.publish"); !slices.Equal(got, []string{"system job"}) {
			t.Errorf("what was missed was recorded as %v", got)
		}
		if suspended() != false || len(c.versions(entry)) != 2 {
			t.Errorf("unsuspended: suspended is %v, %d versions, want what was missed", suspended(), len(c.versions(entry)))
		}
		event("installation", `{"action":"deleted","installation":{"id":1}}`)
		if suspended() != true {
			t.Error("a deleted installation is not suspended")
		}
		event("installation", `{"action":"created","installation":{"id":1}}`)
		event("installation", `{"action":"deleted","installation":{"id":77}}`)
		event("installation_repositories", `{"action":"removed","installation":{"id":1},"repositories_removed":[{"id":5,"full_name":"acme/deploy"}]}`)
		if suspended() != false {
			t.Error("a new installation is suspended")
		}

		w.repos.Git("acme/deploy", "symbolic-ref", "HEAD", "refs/heads/trunk")
		event("repository", `{"action":"edited","repository":{"full_name":"acme/deploy","default_branch":"trunk"},"changes":{"default_branch":{"from":"main"}}}`)
		if got := connection()["default_branch"]; got != "trunk" {
			t.Errorf("default branch is %v, want trunk", got)
		}
		if got := recorded(t, db, "repohost.connection.follow"); !slices.Equal(got, []string{"system job"}) {
			t.Errorf("the new default branch was recorded as %v", got)
		}
		event("repository", `{"action":"edited","repository":{"full_name":"acme/deploy","default_branch":"x"},"changes":{"default_branch":{"from":"main"}}}`)
		if got := connection()["default_branch"]; got != "trunk" {
			t.Errorf("default branch is %v, want it to stay trunk: the connection does not use the default", got)
		}
		event("repository", `{"action":"renamed","repository":{"full_name":"acme/rollout"},"changes":{"repository":{"name":{"from":"deploy"}}}}`)
		if got := connection(); got["repo_full_name"] != "acme/rollout" || got["repo_name"] != "rollout" {
			t.Errorf("renamed: got %v", got)
		}
		c.bind(2, "ada") // the organisation sees its deliveries, too
		event("repository", `{"action":"transferred","repository":{"full_name":"ada/rollout"},"changes":{"owner":{"from":{"organization":{"login":"acme"}}}}}`)
		if got := connection(); got["repo_owner"] != "ada" {
			t.Errorf("transferred: got %v", got)
		}
		event("repository", `{"action":"deleted","repository":{"full_name":"ada/rollout"}}`)
		statuses := []string{}
		for _, d := range c.Get(base + "/deliveries?per_page=100").List("deliveries") {
			statuses = append(statuses, fmt.Sprint(d["event"], " ", d["action"], " ", d["status"]))
		}
		for _, want := range []string{
			"installation suspend done", "installation unsuspend done", "installation_repositories removed done",
			"repository deleted ignored",
		} {
			if !slices.Contains(statuses, want) {
				t.Errorf("no delivery is %q: %v", want, statuses)
			}
		}
	})
}
