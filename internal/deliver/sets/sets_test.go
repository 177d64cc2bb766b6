package sets_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/deliver/sets"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
	"github.com/whetstone-dev/whetstone/internal/web/overview/report"
)

type object = apptest.Object

const path = "/api/v1/sets"

func newWorld(t *testing.T, db *store.DB) *registrytest.World {
	t.Helper()
	w := registrytest.New(t, db)
	w.Teams.Mount(w.API)
	w.Sets.Mount(w.API)
	(&audit.Service{DB: db}).Mount(w.API)
	return w
}

// person makes a member with a key.
func person(w *registrytest.World, o auth.Organisation, role access.Role, permissions ...access.Permission) *registrytest.Client {
	w.T.Helper()
	return w.Member(o, role, permissions...)
}

// make makes a set and returns its id.
func makeSet(c *registrytest.Client, body object) string {
	c.T.Helper()
	return c.Post(path, body).Want(http.StatusCreated).Text("set", "id")
}

func makeTeam(c *registrytest.Client, name string, users ...string) string {
	c.T.Helper()
	id := c.Post("/api/v1/teams", object{"name": name}).Want(http.StatusCreated).Text("team", "id")
	if len(users) > 0 {
		c.Do(http.MethodPut, "/api/v1/teams/"+id+"/members", object{"users": users}).Want(http.StatusOK)
	}
	return id
}

func TestSet(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Team)
		pdf, sql := ada.EntryOf("pdf", 2), ada.EntryOf("sql", 1)
		team := makeTeam(ada, "Docs", ada.User.ID)
		made := ada.Post(path, object{
			"name": "docs-team", "description": " what writers need ", "required": true,
			"entries": []object{{"name": "sql"}, {"entry_id": pdf, "range": ">= 1, < 2"}},
			"teams":   []string{team, team}, "repositories": []string{"acme/site-*", "acme/docs.git"},
		}).Want(http.StatusCreated)
		apptest.WantKeys(t, made.Object(), "set")
		got := made.Field("set")
		id := apptest.Text(got, "id")
		registrytest.DropVarying(t, got, []string{"id"}, []string{"created_at", "updated_at"})
		listings := got["catalogue"].(object)
		delete(got, "catalogue")
		want := apptest.Plain(t, object{
			"name": "docs-team", "description": "what writers need", "required": true,
			"entries": []object{
				{"entry_id": sql, "name": "sql", "range": nil, "version": "1", "content_hash": ada.Versions(sql)["1"]["content_hash"]},
				{"entry_id": pdf, "name": "pdf", "range": ">= 1 < 2", "version": "1", "content_hash": ada.Versions(pdf)["1"]["content_hash"]},
			},
			"teams": []string{team}, "repositories": []string{"acme/docs", "acme/site-*"},
			"owners": object{"users": []string{ada.User.ID}, "teams": []string{}},
		})
		if diff := cmp.Diff(want, apptest.Plain(t, got)); diff != "" {
			t.Errorf("set (-want +got):\n%s", diff)
		}
		for _, agent := range []string{"claude_code", "codex"} {
			if tokens, ok := apptest.At(listings, agent, "tokens").(float64); !ok || tokens <= 0 || apptest.At(listings, agent, "truncated") != 0.0 {
				t.Errorf("%s lists %v", agent, listings[agent])
			}
		}
		ada.Post(path, object{"name": "docs-team"}).WantErrorWith(http.StatusConflict, "docs-team already")
		bob := w.Org("globex", access.Team)
		makeSet(bob, object{"name": "docs-team"})
		one := path + "/" + id
		for _, answer := range []apptest.Response{
			bob.Get(one), bob.Do(http.MethodPut, one, object{"name": "mine"}), bob.Do(http.MethodDelete, one, nil), bob.Get(one + "/coverage"),
		} {
			answer.Want(http.StatusNotFound)
		}
		bob.Post(path, object{"name": "theirs", "entries": []object{{"entry_id": pdf}, {"name": "pdf"}}, "teams": []string{team}}).
			WantIssues("entries.0.entry_id", "entries.0.entry_id must be the id of an entry of the organisation",
				"entries.1.name", "entries.1.name must be the name of an entry of the organisation",
				"teams.0", fmt.Sprintf("teams must be ids of teams of the organisation; %q is not", team))
		ada.Do(http.MethodPatch, one, object{}).Want(http.StatusMethodNotAllowed)

		replaced := ada.Do(http.MethodPut, one, object{"name": "writers", "entries": []object{{"name": "pdf"}}}).Want(http.StatusOK)
		if got := replaced.Field("set"); got["name"] != "writers" || got["description"] != nil || got["required"] != false ||
			len(apptest.List(t, got, "entries")) != 1 || len(got["teams"].([]any)) != 0 ||
			!cmp.Equal(apptest.At(got, "owners", "users"), []any{ada.User.ID}) {
			t.Errorf("replaced: %s", replaced.Body)
		}
		ada.Get(one).WantBody(replaced.Object())
		actions := []string{}
		for _, e := range ada.Get("/api/v1/audit?target=" + id).Want(http.StatusOK).List("entries") {
			actions = append(actions, apptest.Text(e, "action"))
		}
		ada.Do(http.MethodDelete, one, nil).Want(http.StatusNoContent)
		ada.Get(one).Want(http.StatusNotFound)
		if diff := cmp.Diff([]string{"sets.set.change", "sets.set.create"}, actions); diff != "" {
			t.Errorf("audit log (-want +got):\n%s", diff)
		}
	})
}

func TestRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Team)
		pdf := ada.EntryOf("pdf", 1)
		entries := make([]object, 201)
		ids := make([]string, 101)
		for i := range entries {
			entries[i] = object{"name": fmt.Sprint("e", i)}
			ids[i%101] = uuid.NewString()
		}
		for name, test := range map[string]struct {
			body object
			path string
		}{
			"no name":            {object{}, "name"},
			"upper case":         {object{"name": "Docs"}, "name"},
			"two dashes":         {object{"name": "a--b"}, "name"},
			"dash at the end":    {object{"name": "a-"}, "name"},
			"long":               {object{"name": strings.Repeat("a", 65)}, "name"},
			"many entries":       {object{"name": "a", "entries": entries}, "entries"},
			"many teams":         {object{"name": "a", "teams": ids}, "teams"},
			"many repositories":  {object{"name": "a", "repositories": ids}, "repositories"},
			"range":              {object{"name": "a", "entries": []object{{"name": "pdf", "range": "latest"}}}, "entries.0.range"},
			"range with a name":  {object{"name": "a", "entries": []object{{"name": "pdf", "range": "> 1, sql"}}}, "entries.0.range"},
			"neither":            {object{"name": "a", "entries": []object{{"range": "^1"}}}, "entries.0"},
			"both":               {object{"name": "a", "entries": []object{{"name": "pdf", "entry_id": pdf}}}, "entries.0"},
			"twice":              {object{"name": "a", "entries": []object{{"name": "pdf"}, {"entry_id": pdf, "range": "^1"}}}, "entries.1"},
			"unknown name":       {object{"name": "a", "entries": []object{{"name": "nope"}}}, "entries.0.name"},
			"unknown team":       {object{"name": "a", "teams": []string{uuid.NewString()}}, "teams.0"},
			"address":            {object{"name": "a", "repositories": []string{"https://github.com/acme/docs"}}, "repositories.0"},
			"no owner":           {object{"name": "a", "repositories": []string{"docs"}}, "repositories.0"},
			"bad glob":           {object{"name": "a", "repositories": []string{"acme/[docs"}}, "repositories.0"},
			"unknown owner":      {object{"name": "a", "owners": object{"users": []string{uuid.NewString()}}}, "owners.users.0"},
			"unknown owner team": {object{"name": "a", "owners": object{"teams": []string{uuid.NewString()}}}, "owners.teams.0"},
		} {
			got := ada.Post(path, test.body).Want(http.StatusBadRequest)
			if at := strings.ReplaceAll(fmt.Sprint(apptest.At(got.Object(), "details", "path")), " ", "."); at != "["+test.path+"]" {
				t.Errorf("%s: refused at %s, want %s: %s", name, at, test.path, got.Body)
			}
		}
		if n := w.Count("sets"); n != 0 {
			t.Errorf("%d sets were made", n)
		}
		id := makeSet(ada, object{"name": "a"})
		ada.Get(path + "/" + id + "/coverage?cursor=x").Want(http.StatusBadRequest)
	})
}

func TestWhoMayChange(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		owner := w.Org("acme", access.Team)
		maker, other, viewer := person(w, owner.Org, access.Member), person(w, owner.Org, access.Member), person(w, owner.Org, access.Viewer)
		narrowed := w.WithKey(owner.Org, maker.User, access.Read, access.Write)
		team := makeTeam(owner, "Docs", other.User.ID, viewer.User.ID)
		viewer.Post(path, object{"name": "a"}).Want(http.StatusForbidden)
		id := makeSet(maker, object{"name": "a"})
		put := func(c *registrytest.Client, body object, status int) {
			c.T.Helper()
			c.Do(http.MethodPut, path+"/"+id, body).Want(status)
		}
		put(other, object{"name": "b"}, http.StatusForbidden)
		put(narrowed, object{"name": "b"}, http.StatusForbidden)
		put(maker, object{"name": "b"}, http.StatusOK)
		put(owner, object{"name": "c", "owners": object{"teams": []string{team}}}, http.StatusOK)
		put(maker, object{"name": "b"}, http.StatusForbidden)
		put(viewer, object{"name": "b"}, http.StatusForbidden)
		put(other, object{"name": "b"}, http.StatusOK)
		viewer.Get(path + "/" + id).Want(http.StatusOK)
		owner.Do(http.MethodDelete, "/api/v1/teams/"+team, nil).Want(http.StatusNoContent)
		put(other, object{"name": "d"}, http.StatusForbidden)
		other.Do(http.MethodDelete, path+"/"+id, nil).Want(http.StatusForbidden)
		owner.Do(http.MethodDelete, path+"/"+id, nil).Want(http.StatusNoContent)
		free := w.Org("small", access.Pro)
		id = makeSet(free, object{"name": "a"})
		free.Get(path+"/"+id+"/coverage").WantErrorWith(http.StatusForbidden, "team")
	})
}

// given are the versions that a set gives, e.g. "pdf 1.2.0, sql -".
func given(c *registrytest.Client, id string) string {
	c.T.Helper()
	var all []string
	for _, e := range apptest.List(c.T, c.Get(path+"/"+id).Want(http.StatusOK).Field("set"), "entries") {
		version, known := e["version"].(string)
		if known == (e["unsatisfied"] == true) {
			c.T.Errorf("entry %v", e)
		}
		if !known {
			version = "-"
		}
		all = append(all, apptest.Text(e, "name")+" "+version)
	}
	return strings.Join(all, ", ")
}

func TestRanges(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Team)
		id := ada.Made("pdf", "1.0.0", registrytest.Skill(t, "pdf 1.0.0"))
		for _, v := range []string{"1.2.0", "1.10.0", "2.0.0-rc.1", "2.0.0", "nightly"} {
			ada.Pushed(id, v, registrytest.Skill(t, "pdf "+v))
		}
		of := func(versions any) string {
			return makeSet(ada, object{"name": "set-" + uuid.NewString(), "entries": []object{{"name": "pdf", "range": versions}}})
		}
		one, exact := of("^1"), of("= nightly")
		for _, test := range []struct{ set, want string }{
			{of(nil), "pdf nightly"},
			{of(""), "pdf nightly"},
			{one, "pdf 1.10.0"},
			{of("~1.2"), "pdf 1.2.0"},
			{of(">= 1 < 2"), "pdf 1.10.0"},
			{of("*"), "pdf 2.0.0"},
			{of(">= 2.0.0-0"), "pdf 2.0.0"},
			{of("2.0.0-rc.1"), "pdf 2.0.0-rc.1"},
			{exact, "pdf nightly"},
			{of("^3"), "pdf -"},
		} {
			if got := given(ada, test.set); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		}
		version := registrytest.EntryPath(id) + "/versions/"
		ada.Post(version+"1.10.0/withdraw", object{"reason": "bad"}).Want(http.StatusOK)
		if got := given(ada, one); got != "pdf 1.2.0" {
			t.Errorf("after a withdrawal %q", got)
		}
		// What was rolled back is not given again by a range.
		ada.Pushed(id, "2.1.0", registrytest.Skill(t, "pdf 2.1.0"))
		two := of("^2")
		if got := given(ada, two); got != "pdf 2.1.0" {
			t.Errorf("before a rollback %q", got)
		}
		ada.Post(registrytest.EntryPath(id)+"/rollback", object{"target_version": "2.0.0"}).Want(http.StatusOK)
		if got := given(ada, two); got != "pdf 2.0.0" {
			t.Errorf("after a rollback %q", got)
		}
		ada.Do(http.MethodDelete, registrytest.EntryPath(id), nil).Want(http.StatusNoContent)
		if got := given(ada, two); got != "" {
			t.Errorf("after the deletion of the entry %q", got)
		}
	})
}

// names are those of the sets of an answer.
func names(r apptest.Response) string {
	return strings.Join(registrytest.Names(r.Want(http.StatusOK).List("sets")), " ")
}

func TestList(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Team)
		bob := person(w, ada.Org, access.Member)
		docs, ops := makeTeam(ada, "Docs", bob.User.ID), makeTeam(ada, "Ops")
		makeSet(ada, object{"name": "b", "teams": []string{docs, ops}, "repositories": []string{"acme/docs", "Group/**"}})
		makeSet(ada, object{"name": "a", "teams": []string{ops}, "repositories": []string{"acme/*"}})
		makeSet(ada, object{"name": "c"})
		w.Org("globex", access.Team).Get(path).WantBody(object{"sets": []any{}, "next_cursor": nil})
		for query, want := range map[string]string{
			"":                                 "a b c",
			"?name=b":                          "b",
			"?limit=2":                         "a b",
			"?limit=2&cursor=b":                "c",
			"?repository=acme/docs":            "a b",
			"?repository=ACME/Docs.git":        "a b",
			"?repository=acme/x":               "a",
			"?repository=acme/x/y":             "",
			"?repository=group/sub/x":          "b",
			"?repository=docs":                 "",
			"?repository=acme/docs&limit=1":    "a",
			"?repository=acme%2Fdocs&cursor=a": "b",
			"?mine=true":                       "",
		} {
			if got := names(ada.Get(path + query)); got != want {
				t.Errorf("%q lists %q, want %q", query, got, want)
			}
		}
		if got := names(bob.Get(path + "?mine=true")); got != "b" {
			t.Errorf("bob's are %q", got)
		}
		if got := ada.Get(path + "?limit=2").Object()["next_cursor"]; got != "b" {
			t.Errorf("next_cursor %v", got)
		}
		ada.Get(path + "?limit=0").Want(http.StatusBadRequest)
	})
}

// TestListings compares what a set of everything costs with the report.
func TestListings(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Sets.Listings.(*report.Service).Mount(w.API)
		ada := w.Org("acme", access.Team)
		entries := []object{}
		for i := range 40 {
			text := fmt.Sprintf("---\nname: s%d\ndescription: %s\n---\n", i, strings.Repeat("Fills in forms. ", 3*i))
			id := ada.Made(fmt.Sprint("s", i), "1.0.0", registrytest.Pack(t, registrytest.File("SKILL.md", text)))
			entries = append(entries, object{"entry_id": id})
		}
		slices.Reverse(entries)
		got := ada.Post(path, object{"name": "all", "entries": entries}).Want(http.StatusCreated).Field("set")["catalogue"].(object)
		for name, agent := range map[string]string{"claude_code": "claude-code", "codex": "codex"} {
			totals := ada.Get("/api/v1/catalogue-report?agent=" + agent).Want(http.StatusOK).Field("totals")
			want := object{"tokens": totals["tokens_per_session"], "truncated": totals["truncated"]}
			if diff := cmp.Diff(want, got[name]); diff != "" {
				t.Errorf("%s (-report +set):\n%s", agent, diff)
			}
		}
	})
}

func TestCovers(t *testing.T) {
	t.Parallel()
	for pattern, test := range map[string]struct{ yes, no []string }{
		"acme/docs":   {[]string{"acme/docs", "Acme/Docs", "acme/docs.git", "/acme/docs/"}, []string{"acme/docs2", "x/acme/docs", "docs"}},
		"acme/*":      {[]string{"acme/docs"}, []string{"acme/sub/docs", "acme"}},
		"acme/**":     {[]string{"acme/docs", "acme/sub/docs"}, []string{"acme", "other/docs"}},
		"acme/*/docs": {[]string{"acme/sub/docs"}, []string{"acme/docs"}},
		"**":          {[]string{"acme/docs", "a/b/c"}, nil},
	} {
		s := sets.Set{Repositories: []string{pattern}}
		for _, name := range test.yes {
			if !s.Covers(name) {
				t.Errorf("%s does not cover %s", pattern, name)
			}
		}
		for _, name := range test.no {
			if s.Covers(name) {
				t.Errorf("%s covers %s", pattern, name)
			}
		}
	}
}
