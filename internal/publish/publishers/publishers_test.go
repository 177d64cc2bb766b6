package publishers_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc/oidctest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/publishers"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
	"github.com/whetstone-dev/whetstone/internal/publish/teams"
	"github.com/whetstone-dev/whetstone/internal/release/attestations"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/intoto"
)

type (
	object = apptest.Object
	claims = oidctest.Claims
)

const (
	path     = "/api/v1/trusted-publishers"
	exchange = path + "/token"
	audience = "https://whetstone.example"
)

// A world has the registry, an issuer, and the organisation acme with the entry pdf.
type world struct {
	*registrytest.World
	service *publishers.Service
	issuer  *oidctest.Provider
	ada     *registrytest.Client
	entry   string
}

type gate struct{ *publishers.Service }

func (g gate) Admit(ctx context.Context, tx *store.Tx, _ registry.Entry, v registry.Version) (*api.Gate, bool, error) {
	return nil, false, g.Admitted(ctx, tx, v)
}

func mount(t *testing.T, w *registrytest.World) *publishers.Service {
	t.Helper()
	client, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	s := &publishers.Service{
		DB: w.DB, Auth: w.Auth, Registry: w.Registry, Keys: oidc.NewKeys(client), PublicURL: audience, AllowPrivate: true, Log: w.Log,
	}
	s.Mount(w.API)
	w.Registry.OnPush = gate{s}
	return s
}

func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	w := &world{World: registrytest.New(t, db), issuer: oidctest.New(t)}
	w.service = mount(t, w.World)
	w.ada = w.Org("acme", access.Pro)
	w.entry = w.ada.Made("pdf", "1.0.0", registrytest.Skill(t, "Reads PDFs."))
	return w
}

// trust adds a publisher for acme/skills, with other fields if given, and returns its id.
func (w *world) trust(c *registrytest.Client, entry string, fields object) string {
	w.T.Helper()
	body := apptest.With(object{"entry_id": entry, "issuer": w.issuer.URL, "provider": "github", "repository": "acme/skills"}, fields)
	return c.Do(http.MethodPost, path, body).Want(http.StatusCreated).Text("trusted_publisher", "id")
}

func (w *world) exchange(token string, fields object) apptest.Response {
	w.T.Helper()
	body := apptest.With(object{"token": token, "entry_id": w.entry}, fields)
	if body["entry_id"] == "" {
		delete(body, "entry_id")
	}
	return w.Anonymous().Do(http.MethodPost, exchange, body)
}

// run exchanges the token of a run with these claims.
func (w *world) run(c claims) apptest.Response {
	w.T.Helper()
	return w.exchange(w.issuer.Sign(w.T, w.issuer.GitHub(audience).With(c)), nil)
}

// holder is a client with the key of an answer.
func (w *world) holder(a apptest.Response) *registrytest.Client {
	w.T.Helper()
	return &registrytest.Client{Caller: &apptest.Caller{T: w.T, World: w.World.World, Key: a.Want(http.StatusCreated).Text("key")}}
}

func TestPublishers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		bob := w.Org("other", access.Pro)
		made := w.ada.Do(http.MethodPost, path, object{
			"entry_id": w.entry, "repository": "Acme/Skills", "ref": "main", "workflow": "release.yml", "environment": "production",
		}).Want(http.StatusCreated)
		got := made.Field("trusted_publisher")
		want := object{
			"id": got["id"], "entry_id": w.entry, "entry_name": "pdf", "provider": "github", "issuer": publishers.GitHubIssuer,
			"repository": "Acme/Skills", "ref": "refs/heads/main", "workflow": "release.yml", "environment": "production",
			"repository_id": nil, "repository_owner_id": nil, "created_by": w.ada.User.ID, "created_at": got["created_at"],
			"last_used_at": nil,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("publisher (-want +got):\n%s", diff)
		}
		id := made.Text("trusted_publisher", "id")
		w.ada.Do(http.MethodPost, path, object{
			"entry_id": w.entry, "repository": "acme/skills", "ref": "refs/heads/main", "workflow": "release.yml", "environment": "production",
		}).WantError(http.StatusConflict, "pdf has this trusted publisher already")

		if diff := cmp.Diff([]object{want}, w.ada.Get(path).List("trusted_publishers")); diff != "" {
			t.Errorf("list (-want +got):\n%s", diff)
		}
		if n := len(w.ada.Get(path + "?entry_id=" + w.entry).List("trusted_publishers")); n != 1 {
			t.Errorf("%d of the entry", n)
		}
		if n := len(w.ada.Get(path + "?entry_id=other").List("trusted_publishers")); n != 0 {
			t.Errorf("%d of another entry", n)
		}
		if n := len(bob.Get(path).List("trusted_publishers")); n != 0 {
			t.Errorf("another organisation sees %d", n)
		}
		bob.Do(http.MethodDelete, path+"/"+id, nil).Want(http.StatusNotFound)
		bob.Do(http.MethodPost, path, object{"entry_id": w.entry, "repository": "a/b"}).WantIssueWith("entry_id", "your organisation")
		w.Member(w.ada.Org, access.Member).Do(http.MethodPost, path, object{"entry_id": w.entry, "repository": "a/b"}).Want(http.StatusForbidden)
		w.ada.Do(http.MethodDelete, path+"/"+id, nil).Want(http.StatusNoContent)
		w.ada.Do(http.MethodDelete, path+"/"+id, nil).Want(http.StatusNotFound)
	})
}

// TestCreateNeedsPush: a key makes no publisher that may do what the key may not.
func TestCreateNeedsPush(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"))
	body := object{"entry_id": w.entry, "repository": "acme/skills"}
	w.WithKey(w.ada.Org, w.ada.User, access.Read, access.Admin).Do(http.MethodPost, path, body).
		WantError(http.StatusForbidden, "Your key does not have the permission registry:push and cannot give it")
	if n := w.Count("trusted_publishers"); n != 0 {
		t.Errorf("%d are stored", n)
	}
	w.WithKey(w.ada.Org, w.ada.User, access.Admin, access.RegistryPush).Do(http.MethodPost, path, body).Want(http.StatusCreated)
}

// TestHolderIsNoPerson: the holder of trusted publishers' keys is a machine, which the list
// of members says. It cannot be an owner, or get another role, and no person has its address.
func TestHolderIsNoPerson(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		people := &teams.Service{DB: db, Auth: w.Auth, Registry: w.Registry}
		people.Mount(w.API)
		const address = "trusted-publisher@localhost"
		if _, err := w.Auth.CreateUser(t.Context(), auth.NewUser{OrgID: w.ada.Org.ID, Email: "Trusted-Publisher@localhost", Role: access.Viewer}); !fault.Is(err, fault.Malformed) {
			t.Errorf("user create before there is a publisher: %v", err)
		}
		w.trust(w.ada, w.entry, nil)
		w.holder(w.run(nil)).Push(w.entry, "1.1.0", registrytest.Skill(t, "Reads more.")).Want(http.StatusCreated)
		holder, err := w.Auth.UserByEmail(t.Context(), w.ada.Org.ID, address)
		if err != nil || !holder.Machine() {
			t.Fatalf("%+v, %v", holder, err)
		}
		owners := registrytest.EntryPath(w.entry) + "/owners"
		w.ada.Do(http.MethodPut, owners, object{"users": []string{holder.ID}}).WantIssueWith("users.0", "who are people")
		w.ada.Do(http.MethodPost, "/api/v1/teams", object{"name": "Docs"}).Want(http.StatusCreated)
		if names, err := people.Find(t.Context(), w.ada.Org.ID, []string{address}); !fault.Is(err, fault.Malformed) {
			t.Errorf("found as an owner: %+v, %v", names, err)
		}
		if _, err := w.Auth.SetRoleByOperator(t.Context(), w.ada.Org.ID, holder.ID, access.Owner); !fault.Is(err, fault.Conflict) {
			t.Errorf("made an owner: %v", err)
		}
		if _, err := w.Auth.CreateUser(t.Context(), auth.NewUser{OrgID: w.ada.Org.ID, Email: address, Role: access.Member}); !fault.Is(err, fault.Malformed) {
			t.Errorf("user create: %v", err)
		}
	})
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"))
	w.service.AllowPrivate = false
	for _, c := range []struct {
		field string
		body  object
		part  string
	}{
		{"issuer", object{"issuer": "gitlab.example"}, "an address like"},
		{"issuer", object{"issuer": "http://gitlab.example"}, "https://"},
		{"issuer", object{"issuer": "https://github.com"}, publishers.GitHubIssuer},
		{"issuer", object{"issuer": "https://user:secret@gitlab.example"}, "an address like"},
		{"issuer", object{"issuer": "https://gitlab.example?x=1"}, "an address like"},
		{"repository", object{"repository": "skills"}, "acme/skills"},
		{"repository", object{"repository": "acme/../skills"}, "owner/name"},
		{"repository", object{"repository": "https://github.com/acme/skills"}, "acme/skills"},
		{"repository", object{"repository": "acme/tools/skills"}, "owner/name"},
		{"ref", object{"ref": "refs/pull/1/merge"}, "refs/tags/"},
		{"ref", object{"ref": "release-[a"}, "pattern"},
		{"workflow", object{"workflow": "release"}, "release.yml"},
		{"workflow", object{"workflow": "release.yml@refs/heads/main"}, "release.yml"},
		{"environment", object{"environment": "a\nb"}, "environment"},
		{"repository_id", object{"repository_id": "four"}, "number"},
		{"repository_owner_id", object{"repository_owner_id": "me"}, "number"},
	} {
		body := apptest.With(object{"entry_id": w.entry, "repository": "acme/skills"}, c.body)
		w.ada.Do(http.MethodPost, path, body).WantIssueWith(c.field, c.part)
	}
	if n := w.Count("trusted_publishers"); n != 0 {
		t.Errorf("%d are stored", n)
	}
	for issuer, provider := range map[string]string{
		"https://gitlab.com/":                         "gitlab",
		"https://codeberg.org/api/actions":            "gitea",
		"https://ghe.example/_services/token":         "github",
		"https://token.actions.acme.ghe.com":          "github",
		"https://token.actions.githubusercontent.com": "github",
	} {
		a := w.ada.Do(http.MethodPost, path, object{"entry_id": w.entry, "issuer": issuer, "repository": "acme/skills"}).Want(http.StatusCreated)
		if got := a.Text("trusted_publisher", "provider"); got != provider {
			t.Errorf("%s is %s, want %s", issuer, got, provider)
		}
	}
}

func TestExchange(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		secret := w.ada.Made("secret", "1.0.0", registrytest.Skill(t, "A secret."))
		publisher := w.trust(w.ada, w.entry, object{"ref": "main", "workflow": "release.yml"})

		token := w.issuer.Sign(t, w.issuer.GitHub(audience))
		a := w.exchange(token, nil).Want(http.StatusCreated)
		apptest.WantKeys(t, a.Object(), "key", "expires_at", "entry")
		want := object{
			"id": w.entry, "name": "pdf", "organisation": "acme", "entry_type": "skill", "visibility": "org", "current_version": "1.0.0",
			"content_hash": a.Field("entry")["content_hash"], "repository": "acme/skills",
		}
		if diff := cmp.Diff(want, a.Field("entry")); diff != "" {
			t.Errorf("entry (-want +got):\n%s", diff)
		}
		expires, err := time.Parse(time.RFC3339, a.Text("expires_at"))
		if left := time.Until(expires); err != nil || left > 15*time.Minute || left < 14*time.Minute {
			t.Errorf("the key expires in %s, %v", left, err)
		}

		// It pushes versions of the entry, and does nothing else.
		ci := w.holder(a)
		ci.Push(w.entry, "1.1.0", registrytest.Skill(t, "Reads PDFs well.")).Want(http.StatusCreated)
		ci.Push(secret, "1.1.0", registrytest.Skill(t, "Overwritten.")).WantErrorWith(http.StatusForbidden, "does nothing else")
		ci.Push(strings.ToUpper(w.entry), "1.2.0", registrytest.Skill(t, "Other.")).Want(http.StatusForbidden)
		ci.Create("new", "1.0.0", registrytest.Skill(t, "New.")).Want(http.StatusForbidden)
		for _, p := range []string{
			registrytest.Path, registrytest.EntryPath(w.entry), registrytest.EntryPath(secret), registrytest.EntryPath(w.entry) + "/versions",
			registrytest.VersionPath(w.entry, "1.0.0") + "/download", path,
		} {
			ci.Get(p).Want(http.StatusForbidden)
		}
		ci.Do(http.MethodPost, path, object{"entry_id": w.entry, "repository": "evil/skills"}).Want(http.StatusForbidden)
		ci.Do(http.MethodDelete, registrytest.EntryPath(w.entry), nil).Want(http.StatusForbidden)
		index := w.Anonymous().Do(http.MethodGet, "/o/acme/.well-known/agent-skills/index.json", nil, "Authorization: Bearer "+ci.Key)
		if strings.Contains(string(index.Body), "A secret.") {
			t.Error("the key opens the organisation's catalog")
		}
		if _, _, err := w.Auth.SignIn(t.Context(), auth.NewSession{RawKey: ci.Key}); err == nil {
			t.Error("the key signs in to the dashboard")
		}

		// The token is used up, on every replica.
		w.exchange(token, nil).WantError(http.StatusUnauthorized, "This token was exchanged already; ask for a new one")
		replica := w.Replica()
		mount(t, replica)
		replica.Anonymous().Do(http.MethodPost, exchange, object{"token": token, "entry_id": w.entry}).Want(http.StatusUnauthorized)

		// The version says which run it is of, to its own organisation.
		of := registrytest.VersionPath(w.entry, "1.1.0") + "/publisher"
		got := w.ada.Get(of).Want(http.StatusOK)
		if id := got.Text("trusted_publisher_id"); id != publisher {
			t.Errorf("published by %s, want %s", id, publisher)
		}
		run := object{
			"provider": "github", "issuer": w.issuer.URL, "repository": "acme/skills", "repository_id": "4711", "repository_owner_id": "815",
			"ref": "refs/heads/main", "commit": "0123456789abcdef0123456789abcdef01234567",
			"workflow_ref": "acme/skills/.github/workflows/release.yml@refs/heads/main",
			"workflow_sha": "0123456789abcdef0123456789abcdef01234567", "environment": "", "event": "push", "run_id": "9001", "run_attempt": "1",
			"run_url": "", "actor": "ada", "runner": "github-hosted",
		}
		if diff := cmp.Diff(run, got.Field("run")); diff != "" {
			t.Errorf("run (-want +got):\n%s", diff)
		}
		w.ada.Get(registrytest.VersionPath(w.entry, "1.0.0") + "/publisher").Want(http.StatusNotFound)
		w.Org("other", access.Pro).Get(of).Want(http.StatusNotFound)

		// All of it is in the audit log.
		for _, action := range []string{"publishers.publisher.create", "publishers.token.exchange", "auth.key.create"} {
			if w.Count("audit_entries WHERE action = $1", action) == 0 {
				t.Errorf("%s is not in the audit log", action)
			}
		}
		if n := w.Count("audit_entries WHERE action = 'publishers.token.exchange' AND detail LIKE '%refs/heads/main%' AND detail LIKE '%9001%'"); n != 1 {
			t.Errorf("%d entries name the run", n)
		}

		// It ends with its publisher.
		second := w.holder(w.run(nil))
		w.ada.Do(http.MethodDelete, path+"/"+publisher, nil).Want(http.StatusNoContent)
		for _, c := range []*registrytest.Client{ci, second} {
			c.Push(w.entry, "1.3.0", registrytest.Skill(t, "Late.")).Want(http.StatusUnauthorized)
		}
		w.run(nil).Want(http.StatusUnauthorized) // nobody trusts the issuer any more
	})
}

func TestExchangeRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"))
	w.trust(w.ada, w.entry, object{"ref": "main", "workflow": "release.yml", "environment": "production"})
	good := claims{"environment": "Production"}
	w.run(good).Want(http.StatusCreated)

	const other = "acme/skills/.github/workflows/test.yml@refs/heads/main"
	for name, c := range map[string]claims{
		"another repository with the same workflow": {
			"repository": "evil/skills", "workflow_ref": "evil/skills/.github/workflows/release.yml@refs/heads/main",
		},
		"another repository that names our workflow": {"repository": "evil/skills"},
		"a workflow of another repository":           {"workflow_ref": "evil/skills/.github/workflows/release.yml@refs/heads/main"},
		"another workflow":                           {"workflow_ref": other},
		"a workflow in another folder":               {"workflow_ref": "acme/skills/release.yml@refs/heads/main"},
		"no workflow":                                {"workflow_ref": nil},
		"another branch":                             {"ref": "refs/heads/main2"},
		"a tag of the branch's name":                 {"ref": "refs/tags/main"},
		"a pull request":                             {"ref": "refs/pull/7/merge", "event_name": "pull_request"},
		"a pull request of a fork with our ref":      {"event_name": "pull_request_target"},
		"another environment":                        {"environment": "staging"},
		"no environment":                             {"environment": nil},
		"no ref":                                     {"ref": nil},
		"a repository that was made again":           {"repository_id": "4712"},
		"a repository of another owner":              {"repository_owner_id": "816"},
		"no repository id":                           {"repository_id": nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.run(good.With(c))
			a.WantErrorWith(http.StatusForbidden, "No trusted publisher of this entry allows the workflow run (repository ")
		})
	}
	// Whether there is such an entry is not said.
	token := func() string {
		return w.issuer.Sign(t, w.issuer.GitHub(audience).With(claims{"repository": "evil/skills"}))
	}
	missing := w.exchange(token(), object{"entry_id": "018f0000-0000-7000-8000-000000000000"}).Want(http.StatusForbidden)
	if there := w.exchange(token(), nil).Want(http.StatusForbidden); string(there.Body) != string(missing.Body) {
		t.Errorf("the answers differ: %s, %s", there.Body, missing.Body)
	}
	// Nor whether somebody trusts the issuer.
	stranger := oidctest.New(t)
	unknown := w.exchange(stranger.Sign(t, stranger.GitHub(audience)), nil).Want(http.StatusUnauthorized)
	forged := w.exchange(stranger.Sign(t, w.issuer.GitHub(audience)), nil).Want(http.StatusUnauthorized)
	if string(unknown.Body) != string(forged.Body) {
		t.Errorf("the answers differ: %s, %s", unknown.Body, forged.Body)
	}
	if n := stranger.Discoveries.Load(); n != 0 {
		t.Errorf("an issuer that nobody configured was asked %d times", n)
	}
	for name, c := range map[string]claims{
		"audience":           {"aud": "https://other.example"},
		"expired":            {"exp": time.Now().Add(-time.Minute).Unix()},
		"no repository":      {"repository": nil},
		"a long repository":  {"repository": strings.Repeat("x", 600)},
		"a repository list":  {"repository": []string{"acme/skills"}},
		"control characters": {"ref": "refs/heads/main\x00"},
	} {
		t.Run(name, func(t *testing.T) { w.run(good.With(c)).Want(http.StatusUnauthorized) })
	}
	w.Anonymous().Do(http.MethodPost, exchange, object{"token": strings.Repeat("x", 40<<10)}).Want(http.StatusRequestEntityTooLarge)
	w.Anonymous().Do(http.MethodPost, exchange, object{}).WantIssueWith("token", "")
	if n := w.Count("api_keys WHERE entry_id IS NOT NULL"); n != 1 {
		t.Errorf("there are %d keys, want the first one only", n)
	}
}

// TestPin pins the ids of the first run, in both orders of concurrent ones.
func TestPin(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.trust(w.ada, w.entry, nil)
		var all sync.WaitGroup
		var mu sync.Mutex
		granted := map[string]int{}
		for i := range 8 {
			id := fmt.Sprint("10", i%2)
			token := w.issuer.Sign(t, w.issuer.GitHub(audience).With(claims{"repository_id": id}))
			all.Go(func() {
				a := w.exchange(token, nil)
				mu.Lock()
				defer mu.Unlock()
				if a.Status == http.StatusCreated {
					granted[id]++
				}
			})
		}
		all.Wait()
		if len(granted) != 1 {
			t.Errorf("runs of both repositories have keys: %v", granted)
		}
		for id, n := range granted {
			if n != 4 || w.Count("trusted_publishers WHERE repository_id = $1 AND owner_id = '815'", id) != 1 {
				t.Errorf("%d of 4 runs of %s have a key", n, id)
			}
		}
	})
}

// TestReplayTogether exchanges one token many times at once.
func TestReplayTogether(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.trust(w.ada, w.entry, nil)
		token := w.issuer.Sign(t, w.issuer.GitHub(audience))
		var calls []func() apptest.Response
		for range 8 {
			calls = append(calls, func() apptest.Response { return w.exchange(token, nil) })
		}
		made := 0
		for _, a := range registrytest.Together(calls...) {
			if a.Status == http.StatusCreated {
				made++
			}
		}
		if n := w.Count("api_keys WHERE entry_id IS NOT NULL"); made != 1 || n != 1 {
			t.Errorf("one token gave %d answers and %d keys", made, n)
		}
	})
}

// TestTwoOrganisations has another organisation trust the same repository.
func TestTwoOrganisations(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		token := func() string { return w.issuer.Sign(t, w.issuer.GitHub(audience)) }
		w.trust(w.ada, w.entry, nil)
		w.exchange(token(), object{"entry_id": ""}).Want(http.StatusCreated) // one organisation: nothing can be mistaken

		bob := w.Org("other", access.Pro)
		theirs := bob.Made("pdf", "1.0.0", registrytest.Skill(t, "Theirs."))
		w.trust(bob, theirs, nil)
		w.exchange(token(), object{"entry_id": ""}).WantIssueWith("entry_id", "several organisations")
		w.exchange(token(), object{"entry_id": "", "name": "pdf"}).WantIssueWith("entry_id", "several organisations")
		for org, entry := range map[string]string{"acme": w.entry, "other": theirs} {
			a := w.exchange(token(), object{"entry_id": "", "organisation": org, "name": "pdf"}).Want(http.StatusCreated)
			if got := a.Text("entry", "id"); got != entry {
				t.Errorf("%s: a key for %s, want %s", org, got, entry)
			}
		}
		ci := w.holder(w.exchange(token(), object{"entry_id": theirs}))
		ci.Push(w.entry, "6.6.6", registrytest.Skill(t, "Evil.")).Want(http.StatusForbidden)
		ci.Push(theirs, "1.1.0", registrytest.Skill(t, "Theirs, better.")).Want(http.StatusCreated)

		// A name alone is not enough if the workflow may publish several.
		second := w.ada.Made("docx", "1.0.0", registrytest.Skill(t, "Reads Word."))
		w.trust(w.ada, second, nil)
		w.exchange(token(), object{"entry_id": "", "organisation": "acme"}).WantErrorWith(http.StatusConflict, "several entries")
		w.exchange(token(), object{"entry_id": "", "organisation": "acme", "name": "docx"}).Want(http.StatusCreated)

		// What another organisation takes the issuer for does not matter.
		w.trust(bob, theirs, object{"provider": "gitlab", "repository": "a/b"})
		w.run(nil).Want(http.StatusCreated)
	})
}

func TestGitLab(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"))
	w.trust(w.ada, w.entry, object{
		"provider": "gitlab", "repository": "acme/tools/skills", "ref": "refs/tags/v*", "workflow": ".gitlab-ci.yml", "repository_id": "42",
	})
	run := func(c claims) apptest.Response {
		return w.exchange(w.issuer.Sign(t, w.issuer.GitLab(audience).With(claims{"ref": "v1.2", "ref_type": "tag"}).With(c)), nil)
	}
	w.holder(run(nil)).Push(w.entry, "2.0.0", registrytest.Skill(t, "By GitLab.")).Want(http.StatusCreated)
	got := w.ada.Get(registrytest.VersionPath(w.entry, "2.0.0") + "/publisher").Want(http.StatusOK)
	for field, want := range map[string]string{
		"repository": "acme/tools/skills", "ref": "refs/tags/v1.2", "repository_id": "42", "repository_owner_id": "9", "run_id": "600",
		"workflow_ref": "acme/tools/skills/.gitlab-ci.yml@refs/heads/main", "run_url": w.issuer.URL + "/acme/tools/skills/-/pipelines/600",
	} {
		if got := got.Text("run", field); got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
	for name, c := range map[string]claims{
		"a branch of the tag's name": {"ref_type": "branch"},
		"no kind of ref":             {"ref_type": nil},
		"a tag with a slash":         {"ref": "v1/2"},
		"a merge request":            {"pipeline_source": "merge_request_event"},
		"another project":            {"project_path": "acme/tools/other"},
		"configuration of another":   {"ci_config_ref_uri": "gitlab.example/evil/skills//.gitlab-ci.yml@refs/heads/main"},
		"a project made again":       {"project_id": "43"},
	} {
		t.Run(name, func(t *testing.T) { run(c).Want(http.StatusForbidden) })
	}
}

// TestProvenance: what is signed about a version names the run, and nobody.
func TestProvenance(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		signer := &attestations.Service{
			DB: w.DB, Jobs: w.Queue, Registry: w.Registry, Seal: sealtest.Keyring(), PublicURL: audience, CodeHost: "https://git.example.org", Log: w.Log,
		}
		w.Registry.OnVersion = signer
		w.trust(w.ada, w.entry, nil)
		w.trust(w.ada, w.entry, object{"provider": "gitlab", "repository": "acme/tools/skills"})
		read := func(version string) intoto.Read {
			t.Helper()
			all, err := signer.Of(t.Context(), w.ada.Org.ID, w.entry, version)
			if err != nil || len(all) != 1 {
				t.Fatalf("%d attestations, %v", len(all), err)
			}
			payload, err := base64.StdEncoding.DecodeString(all[0].Payload)
			if err != nil || strings.Contains(string(payload), `"ada"`) {
				t.Fatalf("%v; the statement names a person: %s", err, payload)
			}
			r, err := intoto.Parse(payload)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		const commit = "0123456789abcdef0123456789abcdef01234567"
		of := intoto.Version{Organisation: "acme", Name: "pdf"}

		// GitLab, whose pages are where its issuer is.
		gitlab := w.exchange(w.issuer.Sign(t, w.issuer.GitLab(audience)), nil)
		w.holder(gitlab).Push(w.entry, "1.1.0", registrytest.Skill(t, "By GitLab.")).Want(http.StatusCreated)
		r := read("1.1.0")
		of.Version = "1.1.0"
		address := w.issuer.URL + "/acme/tools/skills"
		want := intoto.ExternalParameters{Version: of, Publisher: "trusted-publisher", Workflow: &intoto.Workflow{
			Issuer: w.issuer.URL, Repository: "acme/tools/skills", Ref: "refs/heads/main", Commit: commit,
			File: "acme/tools/skills/.gitlab-ci.yml@refs/heads/main", RunID: "600", RunURL: address + "/-/pipelines/600", Event: "push",
		}}
		got := r.Provenance.BuildDefinition
		if diff := cmp.Diff(want, got.ExternalParameters); diff != "" || got.BuildType != intoto.BuildWorkflow {
			t.Errorf("%s (-want +got):\n%s", got.BuildType, diff)
		}
		depends := []intoto.Dependency{{URI: "git+" + address, Digest: map[string]string{"gitCommit": commit}}}
		if diff := cmp.Diff(depends, got.ResolvedDependencies); diff != "" {
			t.Errorf("dependencies (-want +got):\n%s", diff)
		}
		said := "published by a workflow run of " + address + ", at refs/heads/main, commit " + commit +
			", workflow acme/tools/skills/.gitlab-ci.yml@refs/heads/main, run " + address + "/-/pipelines/600"
		if r.Summary() != said {
			t.Errorf("the summary is %s", r.Summary())
		}

		// An issuer of whose pages nothing is known, and a sender with claims of its own.
		claimed := object{"source_repo": "acme/skills"}
		w.holder(w.run(nil)).Push(w.entry, "1.2.0", registrytest.Skill(t, "By GitHub."), claimed).Want(http.StatusCreated)
		r = read("1.2.0")
		got = r.Provenance.BuildDefinition
		if x := got.ExternalParameters; x.Workflow == nil || x.Workflow.Repository != "acme/skills" || x.Workflow.RunID != "9001" || x.Repository != "" ||
			x.Claimed == nil || x.Claimed.Repository != "acme/skills" || x.Workflow.Ref != "refs/heads/main" || len(got.ResolvedDependencies) != 0 {
			t.Errorf("provenance %+v", got)
		}
		if !strings.Contains(r.Summary(), "workflow run of acme/skills, at refs/heads/main") || !strings.HasSuffix(r.Summary(), "run 9001") {
			t.Errorf("the summary is %s", r.Summary())
		}

		// An ordinary push names no run.
		w.ada.Pushed(w.entry, "1.3.0", registrytest.Skill(t, "By hand."))
		if x := read("1.3.0").Provenance.BuildDefinition; x.BuildType != intoto.BuildPush || x.ExternalParameters.Workflow != nil {
			t.Errorf("provenance %+v", x)
		}
	})
}

func TestSourceRepo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"))
	w.trust(w.ada, w.entry, nil)
	ci := w.holder(w.run(nil))
	ci.Push(w.entry, "1.1.0", registrytest.Skill(t, "A."), object{"source_repo": "evil/skills"}).WantIssueWith("source_repo", "acme/skills")
	ci.Push(w.entry, "1.1.0", registrytest.Skill(t, "A."), object{"source_repo": "acme/skills"}).Want(http.StatusCreated)
	if n := w.Count("version_publishers"); n != 1 {
		t.Errorf("%d versions have a run, want 1", n)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.trust(w.ada, w.entry, nil)
		ci := w.holder(w.run(nil))
		sweep := func() {
			t.Helper()
			if err := w.service.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := w.Auth.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		sweep()
		if n, m := w.Count("trusted_exchanges"), w.Count("api_keys WHERE entry_id IS NOT NULL"); n != 1 || m != 1 {
			t.Errorf("%d tokens and %d keys are left, want 1 of each", n, m)
		}
		w.Exec("UPDATE api_keys SET expires_at = 1 WHERE entry_id IS NOT NULL")
		w.Auth.Forget()
		ci.Push(w.entry, "9.0.0", registrytest.Skill(t, "Late.")).WantError(http.StatusUnauthorized, "This API key has expired")
		w.Exec("UPDATE trusted_exchanges SET expires_at = 1")
		sweep()
		if n, m := w.Count("trusted_exchanges"), w.Count("api_keys WHERE entry_id IS NOT NULL"); n != 0 || m != 0 {
			t.Errorf("%d tokens and %d keys are left, want none", n, m)
		}
		w.ada.Get(path).Want(http.StatusOK) // other keys are as they were
		// The publisher goes with its entry.
		w.ada.Do(http.MethodDelete, registrytest.EntryPath(w.entry), nil).Want(http.StatusNoContent)
		if n := w.Count("trusted_publishers"); n != 0 {
			t.Errorf("%d publishers are left", n)
		}
	})
}

func TestDeletedOrganisation(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.trust(w.ada, w.entry, nil)
		bob := w.Org("other", access.Pro)
		theirs := bob.Made("pdf", "1.0.0", registrytest.Skill(t, "Theirs."))
		w.trust(bob, theirs, nil)
		ci := w.holder(w.run(nil))
		w.CloseOrg(w.ada.Org.ID)
		w.run(nil).Want(http.StatusForbidden)
		ci.Push(w.entry, "1.1.0", registrytest.Skill(t, "Late.")).Want(http.StatusUnauthorized)
		// It is no longer one of several.
		if a := w.exchange(w.issuer.Sign(t, w.issuer.GitHub(audience)), object{"entry_id": ""}).Want(http.StatusCreated); a.Text("entry", "id") != theirs {
			t.Errorf("a key for %s", a.Body)
		}
	})
}

// TestTokenTwice uses a good token, and the key of a run, more often and elsewhere than they
// are for.
func TestTokenTwice(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.trust(w.ada, w.entry, nil)
		second := w.ada.Made("second", "1.0.0", registrytest.Skill(t, "Second."))
		replica := w.Replica()
		mount(t, replica)

		// At once, on two replicas: one key.
		token := w.issuer.Sign(t, w.issuer.GitHub(audience))
		var calls []func() apptest.Response
		for i := range 8 {
			at := []*registrytest.World{w.World, replica}[i%2]
			calls = append(calls, func() apptest.Response {
				return at.Anonymous().Do(http.MethodPost, exchange, object{"token": token, "entry_id": w.entry})
			})
		}
		var won []apptest.Response
		for _, a := range registrytest.Together(calls...) {
			if a.Status == http.StatusCreated {
				won = append(won, a)
				continue
			}
			a.WantError(http.StatusUnauthorized, "This token was exchanged already; ask for a new one")
		}
		if n := w.Count("api_keys WHERE entry_id IS NOT NULL"); len(won) != 1 || n != 1 {
			t.Fatalf("%d answers have a key, and there are %d, want one", len(won), n)
		}
		ci := w.holder(won[0])

		// For another entry, by id and by name; from elsewhere; to another audience.
		for name, c := range map[string]struct {
			claims claims
			to     object
			status int
		}{
			"for another entry":             {nil, object{"entry_id": second}, http.StatusForbidden},
			"for another entry by name":     {nil, object{"entry_id": nil, "organisation": "acme", "name": "second"}, http.StatusForbidden},
			"from a fork":                   {claims{"repository": "eve/skills", "repository_owner": "eve", "repository_owner_id": "666", "repository_id": "4712"}, nil, http.StatusForbidden},
			"from a repository made again":  {claims{"repository_id": "4712"}, nil, http.StatusForbidden},
			"from a pull request":           {claims{"event_name": "pull_request", "ref": "refs/pull/1/merge"}, nil, http.StatusForbidden},
			"for another server":            {claims{"aud": "https://other.example"}, nil, http.StatusUnauthorized},
			"for several servers":           {claims{"aud": []string{audience, "https://other.example"}}, nil, 0},
			"for a prefix of this server":   {claims{"aud": audience + ".evil.example"}, nil, http.StatusUnauthorized},
			"for nobody":                    {claims{"aud": nil}, nil, http.StatusUnauthorized},
			"of yesterday":                  {claims{"exp": time.Now().Add(-24 * time.Hour).Unix()}, nil, http.StatusUnauthorized},
			"that never expires":            {claims{"exp": nil}, nil, http.StatusUnauthorized},
			"of another issuer in its name": {claims{"iss": "https://token.actions.githubusercontent.com"}, nil, http.StatusUnauthorized},
		} {
			a := w.exchange(w.issuer.Sign(t, w.issuer.GitHub(audience).With(c.claims)), c.to)
			if c.status != 0 && a.Status != c.status {
				t.Errorf("%s: %d %s, want %d", name, a.Status, a.Body, c.status)
			}
		}

		// After its version exists: neither the token nor the key makes another of that name, and
		// the sweep of what has expired does not make the token good again.
		ci.Push(w.entry, "1.1.0", registrytest.Skill(t, "Reads PDFs well.")).Want(http.StatusCreated)
		ci.Push(w.entry, "1.1.0", registrytest.Skill(t, "Something else.")).Want(http.StatusConflict)
		ci.Push(second, "1.1.0", registrytest.Skill(t, "Something else.")).Want(http.StatusForbidden)
		if err := w.service.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.exchange(token, nil).Want(http.StatusUnauthorized)
		if got := w.ada.Current(second); got != "1.0.0" {
			t.Errorf("version %s of another entry is current", got)
		}
	})
}
