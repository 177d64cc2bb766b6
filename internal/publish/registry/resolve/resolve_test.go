package resolve_test

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/resolve"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/treehash"
)

type object = apptest.Object

const path = "/api/v1/registry/resolve"

// ask resolves items, and returns e.g. "acme/pdf 1.0.0 of 1.1.0: behind by hash".
func ask(c *registrytest.Client, items ...object) []string {
	c.T.Helper()
	var said []string
	for _, r := range c.Post(path, object{"items": items}).Want(http.StatusOK).List("items") {
		text := func(field string) string {
			s, _ := r[field].(string)
			return s
		}
		if text("entry_id") == "" {
			said = append(said, text("state"))
			continue
		}
		line := fmt.Sprintf("%s/%s %s of %s: %s by %s", text("organisation"), text("name"), text("version"), text("latest_version"),
			text("state"), text("matched_by"))
		said = append(said, line)
	}
	return said
}

func hashes(kind, hash string) object {
	return object{"hashes": []object{{"kind": kind, "hash": hash}}}
}

// TestCheckValues finds the two files of the facts by each hash that clients have of
// them, as they write it.
func TestCheckValues(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada, bob := w.Org("acme", access.Pro), w.Org("other", access.Pro)
		archive := registrytest.Pack(t, registrytest.File("SKILL.md", "---\nname: a\n---\n"), registrytest.File("scripts/x.sh", "echo hi\n"))
		id := ada.Made("a", "1.0.0", archive)
		v := ada.Versions(id)["1.0.0"]
		for kind, hash := range map[string]string{
			"clawhub":        "52e0a96a4f749666593447e69292abd777c62eded15d2c3912f690643cf995e0",
			"clawhub-source": "ed0815a60869f1c2192b1c8cc1859b4bc592388bd4ba3e8ed4037c8322bfdeba",
			"skills-lock":    "EA7DC7213262B38D355B217A43C843F781CCD040D0610C82175C53B710937534",
			"well-known":     "sha256:4a543a66ed7114997945ca4f3eb7d6d7ff2f656fdf963486461113d8d35a1518",
			"toolhive":       "sha256:ce5696f810501599b3978fc9dc01b40fa51e224ca03021fe2fb27f7f29a584a2",
			"toolhive ":      "sha256-zlaW-BBQFZmzl4_J3AG0D6UeIkygMCH-L7J_fymlhKI",
			"dirhash":        "h1:W3wFdP+PpDuY/VW8IztquG8FGfRiGyf38z0thUWiHNs=",
			"plugin-zip":     "653bd71944f887d93512fe1a340da72e62a1198f524b8b289ce37f94a1930c0f",
			"plugin-zip ":    "653bd71944f8",
			"archive":        apptest.Text(v, "content_hash"),
		} {
			kind = strings.TrimSpace(kind)
			if diff := cmp.Diff([]string{"acme/a 1.0.0 of 1.0.0: up_to_date by hash"}, ask(ada, hashes(kind, hash))); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", kind, hash, diff)
			}
			if diff := cmp.Diff([]string{"unknown"}, ask(bob, hashes(kind, hash))); diff != "" {
				t.Errorf("%s %s of another organisation (-want +got):\n%s", kind, hash, diff)
			}
		}
		if diff := cmp.Diff([]string{"unknown", "unknown"},
			ask(ada, hashes("clawhub", "ea7dc7213262b38d355b217a43c843f781ccd040d0610c82175c53b710937534"), hashes("plugin-zip", "653bd71944f9"))); diff != "" {
			t.Errorf("the hash of another kind (-want +got):\n%s", diff)
		}
	})
}

// TestStates follows a version through its life.
func TestStates(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		id := ada.EntryOf("pdf", 2) // 1 and 2
		versions := ada.Versions(id)
		hash := func(v string) object { return hashes("archive", apptest.Text(versions[v], "content_hash")) }
		want := func(when string, items []object, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, ask(ada, items...)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		both := []object{hash("1"), hash("2")}
		want("pushed", both, "acme/pdf 1 of 2: behind by hash", "acme/pdf 2 of 2: up_to_date by hash")
		ada.Post(registrytest.EntryPath(id)+"/rollback", object{"reason": "bad"}).Want(http.StatusOK)
		want("rolled back", both, "acme/pdf 1 of 1: up_to_date by hash", "acme/pdf 2 of 1: behind by hash")
		ada.Post(registrytest.VersionPath(id, "2")+"/withdraw", object{"reason": "bad"}).Want(http.StatusOK)
		want("withdrawn", both, "acme/pdf 1 of 1: up_to_date by hash", "acme/pdf 2 of 1: withdrawn by hash")
		ada.Post(registrytest.VersionPath(id, "2")+"/restore", object{"reason": "good"}).Want(http.StatusOK)
		w.Exec(`UPDATE registry_versions SET state = 'candidate' WHERE version = '2'`)
		want("a candidate", both, "acme/pdf 1 of 1: up_to_date by hash", "acme/pdf 2 of 1: candidate by hash")
		edited := hashes("dirhash", strings.Repeat("ab", 32))
		edited["name"], edited["from_here"], edited["version"] = "pdf", true, "1"
		want("by name", []object{
			{"name": "pdf", "version": "1", "from_here": true},
			{"name": "pdf", "version": "7", "from_here": true},
			{"name": "pdf", "version": "1"},
			{"name": "pdf", "version": "1", "from_here": true, "organisation": "acme"},
			{"name": "pdf", "version": "1", "from_here": true, "organisation": "nobody"},
			{"entry_id": id, "version": "2"},
			edited,
		}, "acme/pdf 1 of 1: up_to_date by version", "acme/pdf  of 1: unknown by ", "unknown", "acme/pdf 1 of 1: up_to_date by version",
			"unknown", "acme/pdf 2 of 1: candidate by version", "acme/pdf 1 of 1: modified by version")
		ada.Do(http.MethodDelete, registrytest.EntryPath(id), nil).Want(http.StatusNoContent)
		want("deleted", both, "unknown", "unknown")
	})
}

// TestForeign has another organisation ask for entries of every visibility.
func TestForeign(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada, bob := w.Org("acme", access.Pro), w.Org("other", access.Pro)
		archive := map[string][]byte{}
		ids := map[string]string{}
		for _, v := range []string{"public", "org", "unlisted"} {
			archive[v] = registrytest.Skill(t, v)
			ids[v] = ada.Made(v, "1", archive[v], object{"visibility": v})
		}
		secret := registrytest.Skill(t, "held")
		ada.Pushed(ids["public"], "2", secret)
		ada.Post(registrytest.EntryPath(ids["public"])+"/rollback", object{"reason": "bad"}).Want(http.StatusOK)
		w.Exec(`UPDATE registry_versions SET state = 'candidate' WHERE version = '2'`)
		sum := func(b []byte) object { return hashes("archive", registrytest.Sum(b)) }
		named := func(v string) object {
			return object{"name": v, "organisation": "acme", "version": "1", "from_here": true}
		}
		got := ask(bob, sum(archive["public"]), sum(archive["org"]), sum(archive["unlisted"]), sum(secret),
			named("public"), named("org"), named("unlisted"), object{"entry_id": ids["org"], "version": "1"},
			object{"entry_id": ids["unlisted"], "version": "1"}, object{"entry_id": ids["public"], "version": "2"})
		want := []string{
			"acme/public 1 of 1: up_to_date by hash", "unknown", "unknown", "unknown",
			"acme/public 1 of 1: up_to_date by version", "unknown", "acme/unlisted 1 of 1: up_to_date by version", "unknown",
			"acme/unlisted 1 of 1: up_to_date by version", "acme/public  of 1: unknown by ",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}

		// The same files: one's own come first, and then those of the name.
		bob.Made("mine", "3", archive["public"])
		item := sum(archive["public"])
		item["name"], item["organisation"], item["from_here"] = "public", "acme", true
		want = []string{"other/mine 3 of 3: up_to_date by hash", "acme/public 1 of 1: up_to_date by hash"}
		if diff := cmp.Diff(want, ask(bob, sum(archive["public"]), item)); diff != "" {
			t.Errorf("the same files (-want +got):\n%s", diff)
		}
		// Edited, it has the files of somebody else's skill: it is edited all the same.
		edited := sum(archive["public"])
		edited["name"], edited["from_here"], edited["version"] = "tables", true, "1"
		cyd := w.Org("cyd", access.Pro)
		cyd.Made("tables", "1", registrytest.Skill(t, "tables"))
		if diff := cmp.Diff([]string{"cyd/tables 1 of 1: modified by version"}, ask(cyd, edited)); diff != "" {
			t.Errorf("edited (-want +got):\n%s", diff)
		}
	})
}

// TestManyCopies has a public skill published again and again by somebody else.
func TestManyCopies(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada, eve := w.Org("acme", access.Pro), w.Org("evil", access.Pro)
		archive := registrytest.Skill(t, "pdf")
		for n := range 60 {
			eve.Made(fmt.Sprint("pdf", n), "1", archive, object{"visibility": "public"})
		}
		ada.Made("pdf", "1", archive)
		got := ask(ada, hashes("archive", registrytest.Sum(archive)))
		if diff := cmp.Diff([]string{"acme/pdf 1 of 1: up_to_date by hash"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestRefused(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t, storetest.Open(t, "sqlite"))
	ada := w.Org("acme", access.Pro)
	many := make([]object, resolve.MaxItems+1)
	for i := range many {
		many[i] = object{}
	}
	nine := make([]object, 9)
	for i := range nine {
		nine[i] = object{"kind": "clawhub", "hash": hex.EncodeToString(make([]byte, 32))}
	}
	for _, c := range []struct {
		body object
		path string
	}{
		{object{}, "items"},
		{object{"items": many}, "items"},
		{object{"items": []object{{"hashes": nine}}}, "items.0.hashes"},
		{object{"items": []object{{}, hashes("md5", "x")}}, "items.1.hashes.0.kind"},
		{object{"items": []object{hashes("clawhub", "x")}}, "items.0.hashes.0.hash"},
		{object{"items": []object{hashes("clawhub", "52e0a96a4f74")}}, "items.0.hashes.0.hash"},
		{object{"items": []object{hashes("plugin-zip", "52e0a96a4f7")}}, "items.0.hashes.0.hash"},
		{object{"items": []object{hashes("plugin-zip", "52e0a96a4f7%")}}, "items.0.hashes.0.hash"},
		{object{"items": []object{{"name": strings.Repeat("x", 201)}}}, "items.0.name"},
	} {
		ada.Post(path, c.body).WantIssueWith(c.path, "")
	}
	if got := ask(ada, many[:resolve.MaxItems]...); len(got) != resolve.MaxItems {
		t.Errorf("%d results", len(got))
	}
}

func TestQueryPlans(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		q := storetest.Explainer{DB: db, T: t, Allow: regexp.MustCompile(`$^`), Refuse: regexp.MustCompile(`^SCAN [vhexo]\b|\(kind=\?\)|Seq Scan on (registry_|organisations)`)}
		hash := []treehash.Hash{{Kind: treehash.ClawHub, Hex: strings.Repeat("a", 64)}, {Kind: treehash.Plugin, Hex: "aaaaaaaaaaaa"}, {Kind: resolve.Archive, Hex: strings.Repeat("a", 64)}}
		item := resolve.Item{Name: "a", Organisation: "b", Version: "1", EntryID: "c", Here: true, Hashes: hash}
		if err := resolve.Explain(t.Context(), q, "d", []resolve.Item{item}); err != nil {
			t.Error(err)
		}
	})
}
