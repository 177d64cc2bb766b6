package repohost_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host/gitea"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/claims"
)

func bindBody(id int64, account string) object {
	return object{"installation_id": id, "account_login": account, "account_type": "User"}
}

// refusal is the message of a conflict.
func refusal(a apptest.Response) string {
	a.T.Helper()
	return apptest.Text(a.Want(http.StatusConflict).Object(), "error", "message")
}

// TestClaims: an account that one organisation has claimed cannot be bound by
// another, with any spelling or installation id.
func TestClaims(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c, other := w.org("holder", access.Pro), w.org("other", access.Pro)
		c.bind(1, "Acme")
		c.bind(2, "acme") // an organisation may bind its account several times
		for n, account := range []string{"acme", "ACME", "Acme", "aCME"} {
			got := refusal(other.Post(base+"/installations", bindBody(int64(10+n), account)))
			if !strings.Contains(got, "whetstone repohost allow ORG "+account) || strings.Contains(got, c.Org.ID) ||
				strings.Contains(got, "holder") {
				t.Errorf("%s: got %q", account, got)
			}
		}
		other.Post(base+"/installations", bindBody(1, "other")).Want(http.StatusConflict)
		if n := w.Count(`repohost_installations`); n != 2 {
			t.Errorf("%d installations, want 2", n)
		}
		// An installation can move to an unclaimed account, not to a claimed one.
		other.bind(20, "other")
		other.Post(base+"/installations", bindBody(20, "acme")).Want(http.StatusConflict)
		other.bind(20, "a_me")
		if n := w.Count(`repohost_claims WHERE org_id = $1`, other.Org.ID); n != 2 {
			t.Errorf("%d claims, want other and a_me", n)
		}
	})
}

// TestClaimRace: of many organisations that bind an account at once, none gets it, and of
// many operators who assign it at once, one wins.
func TestClaimRace(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		const organisations = 6
		var wg sync.WaitGroup
		clients := make([]*client, organisations)
		for n := range clients {
			clients[n] = w.org(fmt.Sprint("org", n), access.Pro)
		}
		bound, allowed := make([]string, organisations), make([]error, organisations)
		for n, c := range clients {
			wg.Go(func() {
				bound[n] = apptest.Text(c.Post(base+"/installations", bindBody(int64(n+1), []string{"acme", "ACME"}[n%2])).Object(), "error", "code")
			})
		}
		wg.Wait()
		if slices.ContainsFunc(bound, func(code string) bool { return code != "claim_required" }) || w.Count(`repohost_claims`) != 0 {
			t.Errorf("got %v, want claim_required for each, and no claim", bound)
		}
		for n, c := range clients {
			wg.Go(func() { allowed[n] = claims.Allow(t.Context(), db, c.Org.ID, "acme", false) })
		}
		wg.Wait()
		won := 0
		for _, err := range allowed {
			if err == nil {
				won++
			} else if !fault.Is(err, fault.Conflict) {
				t.Error(err)
			}
		}
		if won != 1 {
			t.Errorf("%d won, want 1", won)
		}
	})
}

// TestFirstOfOneOrganisation: an account goes to the first organisation that binds it only
// while the server has no other.
func TestFirstOfOneOrganisation(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org("acme", access.Pro)
		bind := func(c *client, id int64, account string) answer {
			return c.Post(base+"/installations", bindBody(id, account))
		}
		bind(c, 1, "acme").Want(http.StatusCreated)
		other := w.org("other", access.Pro)
		for n, by := range []*client{c, other} {
			refused := bind(by, int64(10+n), "Tools").Want(http.StatusConflict).Object()
			got := apptest.Text(refused, "error", "code") + ": " + apptest.Text(refused, "error", "message")
			if !strings.HasPrefix(got, "claim_required: ") || !strings.Contains(got, "`whetstone repohost allow ORG Tools`") {
				t.Errorf("got %s", got)
			}
		}
		bind(other, 12, "ACME").Want(http.StatusConflict)
		bind(c, 2, "ACME").Want(http.StatusCreated) // its own
		if err := claims.Allow(t.Context(), db, other.Org.ID, "tools", false); err != nil {
			t.Fatal(err)
		}
		bind(other, 11, "Tools").Want(http.StatusCreated)
		w.CloseOrg(other.Org.ID)
		bind(c, 3, "more").Want(http.StatusCreated)
	})
}

// TestOperatorClaims: only accounts that the operator has allowed can be bound.
func TestOperatorClaims(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.service.Claims.OperatorOnly = true
		c, other := w.org("acme", access.Pro), w.org("other", access.Pro)
		free := refusal(c.Post(base+"/installations", bindBody(1, "acme")))
		if !strings.Contains(free, "whetstone repohost allow ORG acme") {
			t.Errorf("got %q", free)
		}
		allow := func(c *client, account string, move bool) error {
			return claims.Allow(t.Context(), w.DB, c.Org.ID, account, move)
		}
		for range 2 {
			if err := allow(c, "ACME", false); err != nil {
				t.Fatal(err)
			}
		}
		c.bind(1, "acme")
		if got := refusal(other.Post(base+"/installations", bindBody(2, "acme"))); got != free {
			t.Errorf("a claimed account can be told from an unclaimed one: %q and %q", got, free)
		}
		if err := allow(other, "acme", false); !fault.Is(err, fault.Conflict) {
			t.Errorf("got %v, want Conflict", err)
		}
		if err := allow(other, "../x", false); !fault.Is(err, fault.Malformed) {
			t.Errorf("got %v, want Malformed", err)
		}
		c.Get(base + "/repos?installation_id=1").Want(http.StatusOK)

		// Moved, with the same installation id.
		if err := allow(other, "acme", true); err != nil {
			t.Fatal(err)
		}
		c.Get(base + "/repos?installation_id=1").Want(http.StatusConflict)
		c.Post(base+"/installations", bindBody(1, "acme")).Want(http.StatusConflict)
		if got := c.Get(base + "/installations").List("installations"); got[0]["suspended"] != true {
			t.Errorf("got %v, want it suspended", got)
		}
		other.bind(1, "acme")
		other.Get(base + "/repos?installation_id=1").Want(http.StatusOK)
		if got := c.Get(base + "/installations").List("installations"); len(got) != 0 {
			t.Errorf("got %v, want none", got)
		}
		if err := claims.Release(t.Context(), w.DB, "Acme"); err != nil {
			t.Fatal(err)
		}
		other.Get(base + "/repos?installation_id=1").Want(http.StatusConflict)
		if err := claims.Release(t.Context(), w.DB, "acme"); !fault.Is(err, fault.NotFound) {
			t.Errorf("again: got %v, want NotFound", err)
		}
		for action, want := range map[string]int{"repohost.account.allow": 2, "repohost.account.release": 2} {
			if got := recorded(t, db, action); len(got) != want {
				t.Errorf("%s: got %v, want %d entries", action, got, want)
			}
		}
	})
}

// TestMovedAccount: an organisation that loses its claim loses every kind of
// access.
func TestMovedAccount(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, c, work, entry, id := connected(t, db, nil)
		other := w.org("other", access.Pro)
		w.Work()
		sha := work.Push("first", skillFiles("One."))
		w.hook("h1", "acme/deploy", "refs/heads/main", sha)
		w.Settle()
		deliveries := c.Get(base + "/deliveries").List("deliveries")
		if len(deliveries) != 1 || len(c.versions(entry)) != 2 {
			t.Fatalf("got %v", deliveries)
		}
		if err := claims.Allow(t.Context(), w.DB, other.Org.ID, "acme", true); err != nil {
			t.Fatal(err)
		}

		sha = work.Push("not for them", skillFiles("Two."))
		w.hook("h2", "acme/deploy", "refs/heads/main", sha)
		w.Settle()
		w.reconcile()
		w.send(delivery{id: "u", event: "installation", body: `{"action":"unsuspend","installation":{"id":1}}`}).Want(http.StatusAccepted)
		w.Settle()
		if got := c.sync(id); got["status"] != "failed" || !strings.Contains(fmt.Sprint(got["message"]), "repohost allow") {
			t.Errorf("sync: got %v", got)
		}
		if n := len(c.versions(entry)); n != 2 {
			t.Errorf("%d versions, want no more than before", n)
		}
		if n := w.Count(`repohost_attempts WHERE commit_sha = $1`, sha); n != 0 {
			t.Errorf("%d attempts name a commit that is another's", n)
		}
		c.Get(base + "/repos?installation_id=1").Want(http.StatusConflict)
		another := object{"entry_id": entry, "installation_id": 1, "repo_full_name": "acme/deploy", "skill_path": "x"}
		c.Post(base+"/connections", another).Want(http.StatusConflict)
		if _, _, err := w.service.Fetch(t.Context(), c.Org.ID, 1, "acme/deploy", "main", "."); !fault.Is(err, fault.Conflict) {
			t.Errorf("fetch: got %v, want Conflict", err)
		}
		if got := c.Get(base + "/deliveries").List("deliveries"); len(got) != 0 {
			t.Errorf("deliveries: got %v, want none", got)
		}
		c.Post(fmt.Sprintf("%s/deliveries/%s/redeliver", base, deliveries[0]["id"]), nil).Want(http.StatusNotFound)
		if got := c.Get(base + "/installations").List("installations")[0]; got["suspended"] != true {
			t.Errorf("the host's word lifts the suspension: %v", got)
		}

		// With the claim restored, everything continues.
		if err := claims.Allow(t.Context(), w.DB, c.Org.ID, "acme", true); err != nil {
			t.Fatal(err)
		}
		w.reconcile()
		if n := len(c.versions(entry)); n != 3 {
			t.Errorf("%d versions, want what was missed", n)
		}
	})
}

// TestRepositoryGoneElsewhere: a repository that moved to another account is no
// longer visible to the organisation.
func TestRepositoryGoneElsewhere(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, c, _, _, _ := connected(t, db, nil)
		other := w.org("other", access.Pro)
		other.bind(2, "ada")
		w.Work()
		send := func(id, event, body string) {
			w.send(delivery{id: id, event: event, body: body}).Want(http.StatusAccepted)
			w.Settle()
		}
		send("t", "repository", `{"action":"transferred","repository":{"full_name":"ada/deploy"},"changes":{"owner":{"from":{"organization":{"login":"acme"}}}}}`)
		secret := strings.Repeat("a", 40)
		send("p", "push", `{"ref":"refs/heads/main","after":"`+secret+`","repository":{"full_name":"ada/deploy"}}`)
		send("e", "repository", `{"action":"edited","repository":{"full_name":"ada/deploy","default_branch":"hidden"},"changes":{"default_branch":{"from":"main"}}}`)
		if n := w.Count(`repohost_attempts WHERE commit_sha = $1`, secret); n != 0 {
			t.Errorf("%d attempts name a commit that is another's", n)
		}
		if got := c.Get(base + "/deliveries").List("deliveries"); len(got) != 0 {
			t.Errorf("deliveries: got %v, want none", got)
		}
		if got := c.Get(base + "/connections").List("connections")[0]; got["default_branch"] != "main" {
			t.Errorf("the connection follows what is another's: %v", got)
		}
		// It moves back, and the connection follows.
		send("b", "repository", `{"action":"transferred","repository":{"full_name":"acme/deploy"},"changes":{"owner":{"from":{"user":{"login":"ada"}}}}}`)
		if got := c.Get(base + "/connections").List("connections")[0]; got["repo_full_name"] != "acme/deploy" {
			t.Errorf("got %v, want acme/deploy", got)
		}
	})
}

// TestContestedAccount: the state after the migration where several organisations
// had bound an account.
func TestContestedAccount(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, c, _, _, _ := connected(t, db, nil)
		other := w.org("other", access.Pro)
		w.Exec(`
			INSERT INTO repohost_installations (id, org_id, installation_id, account_login, account_key, account_type,
				suspended, created_at, updated_at)
			VALUES ('x', $1, 2, 'ACME', 'acme', 'User', FALSE, 1, 1)`, other.Org.ID)
		w.Exec(`UPDATE repohost_claims SET org_id = NULL`)
		for id, each := range map[int]*client{1: c, 2: other} {
			each.Get(fmt.Sprintf("%s/repos?installation_id=%d", base, id)).Want(http.StatusConflict)
			each.Post(base+"/installations", bindBody(int64(id), "acme")).Want(http.StatusConflict)
			if got := each.Get(base + "/installations").List("installations")[0]; got["suspended"] != true {
				t.Errorf("got %v, want it suspended", got)
			}
		}
		doctor := func() (warnings []string) {
			findings, err := w.service.Check(t.Context(), db)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range findings {
				if f.Status == invariants.Advice {
					warnings = append(warnings, f.Message)
				}
			}
			return warnings
		}
		if got := doctor(); len(got) != 1 || !strings.Contains(got[0], "the account acme was bound by 2 organisations") ||
			!strings.Contains(got[0], "whetstone repohost allow ORG acme") {
			t.Errorf("the doctor says %q", got)
		}
		all, err := claims.All(t.Context(), w.DB)
		if err != nil || len(all) != 1 || all[0].OrgID != "" || len(all[0].BoundBy) != 2 {
			t.Errorf("got %+v, %v", all, err)
		}
		if err := claims.Allow(t.Context(), w.DB, c.Org.ID, "acme", false); err != nil {
			t.Fatal(err)
		}
		c.Get(base + "/repos?installation_id=1").Want(http.StatusOK)
		other.Get(base + "/repos?installation_id=2").Want(http.StatusConflict)
		if got := doctor(); len(got) != 0 {
			t.Errorf("the doctor says %q", got)
		}
	})
}

// TestBindAsksGitHub: only the account that the App reports can be bound.
func TestBindAsksGitHub(t *testing.T) {
	h := newHub(t, storetest.Open(t, "sqlite"))
	h.github.Install(7, "other")
	other := h.org("other", access.Pro)
	for _, account := range []string{"third", "other"} {
		if err := claims.Allow(t.Context(), h.DB, other.Org.ID, account, false); err != nil {
			t.Fatal(err)
		}
	}
	for _, body := range []object{bindBody(7, "third"), bindBody(8, "other"), bindBody(h.github.Installation, "other")} {
		other.Post(base+"/installations", body).Want(http.StatusConflict)
	}
	if n := h.Count(`repohost_installations WHERE org_id = $1`, other.Org.ID); n != 0 {
		t.Errorf("%d installations, want none", n)
	}
	h.github.Break(hosttest.Fault{On: "GET /app/installations", Answer: hosttest.Status(http.StatusInternalServerError)})
	other.Post(base+"/installations", bindBody(7, "other")).Want(http.StatusBadGateway)
	other.bind(7, "Other")
	// A claimed account is refused without a request to GitHub.
	before := len(h.github.Requests("/app/installations"))
	other.Post(base+"/installations", bindBody(9, "acme")).Want(http.StatusConflict)
	if after := len(h.github.Requests("/app/installations")); after != before {
		t.Error("GitHub was asked about another's account")
	}
}

// TestGiteaToken: the account's own token is used, stored sealed and never shown.
func TestGiteaToken(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		server := hosttest.NewGitea(t, hosttest.NewRepos(t))
		server.Tokens = map[string]string{"token-of-ada": "ada", "token-of-bob": "bob"}
		server.Owners = map[string]string{"acme": "ada", "bobs": "bob"}
		web, err := outbound.New(outbound.Options{AllowPrivate: true})
		if err != nil {
			t.Fatal(err)
		}
		provider, err := gitea.New(gitea.Options{URL: server.URL, Token: server.Token, HTTP: web})
		if err != nil {
			t.Fatal(err)
		}
		w := newWorldOn(t, db, provider, server.Repos)
		c := w.org("acme", access.Pro)
		server.Repos.Create("acme/deploy").Push("first", skillFiles("One."))
		bind := func(fields object) answer {
			a := c.Post(base+"/installations", apptest.With(bindBody(1, "acme"), fields))
			if strings.Contains(string(a.Body), "token-of") {
				t.Errorf("the answer shows the token: %s", a.Body)
			}
			return a
		}
		bind(object{"token": "token-of-bob"}).Want(http.StatusConflict)
		bind(object{"token": "a\nb"}).WantIssueWith("token", "")
		if n := w.Count(`repohost_claims`); n != 0 {
			t.Errorf("a bad token made %d claims", n)
		}
		if got := bind(object{"token": "token-of-ada"}).Want(http.StatusCreated).Object(); got["has_token"] != true {
			t.Errorf("got %v", got)
		}
		bind(nil).Want(http.StatusCreated) // the token stays
		if n := w.Count(`repohost_installations WHERE token LIKE 'sealed:%' AND token NOT LIKE '%ada%'`); n != 1 {
			t.Error("the token is not sealed")
		}
		delete(server.Tokens, "token-of-bob")
		server.Token = "the operator's token is no longer good"
		if got := c.Get(base + "/repos?installation_id=1").Want(http.StatusOK).List("repos"); len(got) != 1 {
			t.Errorf("got %v, want one repository", got)
		}
		c.Post(base+"/settings", object{"write_back_mode": "checks"}).Want(http.StatusOK)
		id := c.connect(c.entry("deploy", "1.0.0"), "acme/deploy", object{"write_back_enabled": true})
		w.Work()
		if got := c.sync(id); got["status"] != "published" {
			t.Errorf("sync: got %v", got)
		}
		w.Settle()
		if got := server.Statuses(); len(got) != 2 {
			t.Errorf("got the statuses %v", got)
		}

		fresh, err := seal.New(sealtest.Key(1) + "," + sealtest.Key(0))
		if err != nil {
			t.Fatal(err)
		}
		w.service.Seal = fresh
		var count int
		if err := db.InTx(t.Context(), func(tx *store.Tx) (err error) {
			count, err = w.service.Reseal(t.Context(), tx)
			return err
		}); err != nil || count != 1 {
			t.Errorf("%d were sealed again, %v, want 1", count, err)
		}
		c.Get(base + "/repos?installation_id=1").Want(http.StatusOK)

		c.bind(1, "renamed") // the token was not checked for this account
		if n := w.Count(`repohost_installations WHERE token IS NULL`); n != 1 {
			t.Error("the token follows to another account")
		}
	})
}

// TestTokenElsewhere: a token is refused for other code hosts.
func TestTokenElsewhere(t *testing.T) {
	c := newWorld(t, storetest.Open(t, "sqlite")).org("acme", access.Pro)
	body := bindBody(1, "acme")
	body["token"] = "x"
	c.Post(base+"/installations", body).WantIssueWith("token", "")
}
